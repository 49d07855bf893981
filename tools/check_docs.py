#!/usr/bin/env python3
"""Fails on names in the documents, and paths in comments, that are no longer there.

Documents are README.md, ARCHITECTURE.md, docs/*.md and NOTES.md below bench/.

What stands in backticks, outside of blocks of code, is looked at when it is

  a path        `src/exec/run.c`, `exec/run.c` (below src/), `pass/partition`,
                `simd/*.c`, `run.c` (anywhere); capitals stand for any name
                (`src/model/NAME.c`). `plan.c:make_plan` also names a function of it
  a name of C   `tt_plan_lower`, `TT_OP_COLLECTIVE`, and `lower()` with its brackets

Everything else in backticks is a command, a setting or a text.

In a comment below src/, a path of a source (`plan/lower.c`) is one from the top, from src/,
or from a folder that the file lies in.
"""
import fnmatch
import pathlib
import re
import subprocess
import sys

CODE = re.compile(r"^```.*?^```", re.S | re.M)
TICKS = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"(?:\.ci|[\w*-]+)(?:/[\w.*-]+)*/?")
FILE = re.compile(r"[\w*-]+\.(?:c|h|cu|cuh|py|sh)")
NAME = re.compile(r"(tt_\w*[a-z0-9]|TT_\w*[A-Z0-9])(?:\(\))?")
CALL = re.compile(r"([a-z]\w*)\(\)")
COMMENT = re.compile(r"//(.*)")
IN_COMMENT = re.compile(r"(?<![\w/.*-])((?:[a-z0-9_]+/)+[a-z0-9_]+\.(?:c|h|cu|cuh|py|sh))\b")


def all_files():
    """Files that git has or would take, and those of a tree without git."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 0:
        return [f for f in done.stdout.split("\n") if pathlib.Path(f).is_file()]
    return [str(p) for p in pathlib.Path(".").rglob("*") if p.is_file()]


FILES = all_files()
FOLDERS = {str(p) for f in FILES for p in pathlib.Path(f).parents} - {"."}
TOPS = {f.split("/")[0] for f in FOLDERS if not f.startswith(".git")}
ROOMS = {f.split("/")[1] for f in FOLDERS if f.startswith("src/")}
SOURCES = {
    f: pathlib.Path(f).read_text(errors="replace")
    for f in FILES
    if re.search(r"\.(?:c|h|cu|cuh|cpp|py)$", f) or f.startswith("tools/")
}
# Comments do not count: a name that only they have is gone.
CODES = [
    re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)
    for f, text in SOURCES.items()
    if f.split("/")[0] in ("src", "include", "tests", "bench")
]
WORDS = {w for text in CODES for w in re.findall(r"\w+", text)}
CALLED = {w for text in CODES for w in re.findall(r"(\w+)\s*\(", text)}


def places(name):
    """The files and folders that a path of the documents may mean."""
    pattern = re.sub(r"(?<![A-Za-z])[A-Z]{2,}(?![a-z])", "*", name.rstrip("/"))
    found = []
    for top in ("", "src/"):
        for end in ("", ".c", ".h", ".cu", ".cuh"):
            found += fnmatch.filter(FILES, top + pattern + end)
        found += fnmatch.filter(FOLDERS, top + pattern)
    if "/" not in pattern:
        found += [f for f in FILES if fnmatch.fnmatch(f.split("/")[-1], pattern)]
    return found


def is_path(text):
    first = text.split("/")[0]
    if FILE.fullmatch(text):
        return True
    return (
        "/" in text
        and PATH.fullmatch(text) is not None
        and (first in TOPS or first in ROOMS or FILE.fullmatch(text.split("/")[-1]))
        and first != "build"
    )


def complaint(text):
    """What is wrong with the text of two backticks; None: nothing."""
    path, _, function = text.partition(":")
    if re.fullmatch(r"\w*", function) and is_path(path):
        found = places(path)
        if not found:
            return "there is no such file or folder"
        if function and not any(
            re.search(rf"\b{function}\b", SOURCES.get(f, "")) for f in found
        ):
            return f"{path} has no {function}"
        return None
    name = NAME.fullmatch(text)
    if name and name[1] not in WORDS:
        return "src/ has no such name"
    call = CALL.fullmatch(text)
    if call and call[1] not in CALLED:
        return "src/ has no such function"
    return None


def keep_lines(match):
    return re.sub(r"[^\n]", " ", match[0])


def stale_in_comments(source):
    """Yields (line, path) of the paths in a file's comments that lead nowhere."""
    tops = ["", "src/", "include/"] + [f"{p}/" for p in pathlib.Path(source).parents]
    for n, line in enumerate(SOURCES[source].split("\n"), 1):
        comment = COMMENT.search(line)
        for m in IN_COMMENT.finditer(comment[1] if comment else ""):
            if not any(pathlib.Path(top + m[1]).is_file() for top in tops):
                yield n, m[1]


problems = []
for source in sorted(s for s in SOURCES if s.startswith("src/")):
    for n, path in stale_in_comments(source):
        problems.append(f"{source}:{n}: {path}: there is no such file")
DOCS = ["docs/*.md", "bench/*NOTES.md"]
for doc in ["README.md", "ARCHITECTURE.md", *(f for d in DOCS for f in sorted(fnmatch.filter(FILES, d)))]:
    if doc not in FILES:
        continue
    text = CODE.sub(keep_lines, pathlib.Path(doc).read_text())
    for n, line in enumerate(text.split("\n"), 1):
        for m in TICKS.finditer(line):
            why = complaint(m[1])
            if why:
                problems.append(f"{doc}:{n}: `{m[1]}`: {why}")
print("\n".join(problems), end="\n" if problems else "")
sys.exit(bool(problems))
