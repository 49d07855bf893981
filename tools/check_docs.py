#!/usr/bin/env python3
"""Fails on names in README.md, ARCHITECTURE.md and docs/*.md that are no longer there.

What stands in backticks, outside of blocks of code, is looked at when it is

  a path        `src/exec/run.c`, `exec/run.c` (below src/), `pass/partition`,
                `simd/*.c`, `run.c` (anywhere); capitals stand for any name
                (`src/model/NAME.c`). `plan.c:make_plan` also names a function of it
  a name of C   `tt_plan_lower`, `TT_OP_COLLECTIVE`, and `lower()` with its brackets

Everything else in backticks is a command, a setting or a text.
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
        and (first in TOPS or first in ROOMS)
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


problems = []
for doc in ["README.md", "ARCHITECTURE.md", *sorted(fnmatch.filter(FILES, "docs/*.md"))]:
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
