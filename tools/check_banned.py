#!/usr/bin/env python3
"""Fails on calls that have no place in src/, and on notes to self."""
import pathlib
import re
import sys

ALWAYS = "strcpy strncpy strcat strncat sprintf vsprintf gets rand srand"
PROGRAM_ONLY = (
    "exit _exit _Exit quick_exit abort getenv secure_getenv setenv "
    "printf vprintf puts putchar perror"
)
HEAP = (
    "malloc calloc realloc free aligned_alloc posix_memalign memalign strdup "
    "strndup asprintf vasprintf open_memstream getline reallocarray"
)
NOTES = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
NOT_CODE = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S
)


def calls(words):
    """A call by that name: not a member, not part of a longer word."""
    return re.compile(r"(?<![\w.>])(" + "|".join(words.split()) + r")\s*\(")


RULES = [
    (calls(ALWAYS), lambda p: True, "unsafe or not reproducible"),
    (
        calls("pthread_create"),
        # The thread of the program that signals are for.
        lambda p: str(p) not in ("src/base/thread.c", "src/cli/signals.c"),
        "threads are started through base/thread.h",
    ),
    (
        calls(PROGRAM_ONLY),
        # A forked rank has to end somewhere, and so has its witness; a program's
        # launcher leaves its mark in the environment.
        lambda p: p.parts[1] != "cli"
        and str(p)
        not in ("src/comm/launch.c", "src/comm/witness.c", "src/api/ranks.c"),
        "only src/cli prints, exits or reads the environment",
    ),
    (
        re.compile(r"\bfprintf\s*\(\s*(stdout|stderr)\b"),
        lambda p: p.parts[1] != "cli",
        "only src/cli prints",
    ),
    (
        calls(HEAP),
        # The plug-in for GPUs is a library of its own, without base/.
        lambda p: str(p) != "src/base/alloc.c"
        and not str(p).startswith("src/backend/cuda/dev/"),
        "the heap is reached through base/alloc.h",
    ),
]


def blank(match):
    return re.sub(r"[^\n]", " ", match[0])


problems = []


def sources(top):
    for path in sorted(pathlib.Path(top).rglob("*")):
        if path.suffix in (".c", ".h", ".cu", ".cuh"):
            yield path


for path in sources("src"):
    text = path.read_text()
    code = NOT_CODE.sub(blank, text)
    for pattern, applies, why in RULES:
        if not applies(path):
            continue
        for m in pattern.finditer(code):
            n = code.count("\n", 0, m.start()) + 1
            problems.append(f"{path}:{n}: {m[1]}: {why}")
for top in ("src", "include", "tests", "examples"):
    for path in sources(top):
        for n, line in enumerate(path.open(), 1):
            if NOTES.search(line):
                problems.append(f"{path}:{n}: a note to self; do it or delete it")
print("\n".join(problems), end="\n" if problems else "")
sys.exit(bool(problems))
