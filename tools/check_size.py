#!/usr/bin/env python3
"""Limits: .c, .cu and the public header 600 lines, .h and .cuh 200, a function 80 lines
and 6 parameters, a folder 45 files.

A kernel of a GPU (__global__) may have 9: its parameters are constants of the launch,
and of a struct with the same members the compiler makes other code.

Relies on clang-format: a function's braces stand alone in the first column, those of a
member of a C++ struct in the column where its signature begins.
"""
import collections
import pathlib
import re
import sys

LIMITS = {".c": 600, ".h": 200, ".cu": 600, ".cuh": 200}
FUNCTION_LINES, PARAMETERS, KERNEL_PARAMETERS, FOLDER_FILES = 80, 6, 9, 45


def count_parameters(signature):
    """Commas at the first level of the parameter list, the last (...) group."""
    start = signature.find("(")
    depth, n, inside = 0, 1, ""
    for c in signature[start:]:
        depth += (c == "(") - (c == ")")
        if depth == 0:
            break
        n += c == "," and depth == 1
        inside += c
    return 0 if inside[1:].strip() in ("", "void") else n


def signature_before(lines, i):
    """The text of the declaration that ends just above line i."""
    first = i
    while first > 0 and not re.search(r"[;}]\s*$|^\s*$|^#|^//|\\$", lines[first - 1]):
        first -= 1
    text = " ".join(lines[first:i])
    text = re.sub(r"__launch_bounds__\([^()]*\)|template\s*<[^{}]*?>\s*(?=__|static)", "", text)
    return re.sub(r"__attribute__\(\(.*?\)\)\s*|//.*", "", text)


def check(path):
    lines = path.read_text().splitlines()
    limit = LIMITS[".c" if path.parts[0] == "include" else path.suffix]
    if len(lines) > limit:
        yield f"{path}: {len(lines)} lines; at most {limit}"
    start, is_cuda = None, path.suffix in (".cu", ".cuh")
    for i, text in enumerate(lines):
        if text == "{" or (is_cuda and text == "    {"):
            start, end = i, text.replace("{", "}")
            signature = signature_before(lines, i)
            n = count_parameters(signature)
            limit = KERNEL_PARAMETERS if "__global__" in signature else PARAMETERS
            if n > limit:
                yield f"{path}:{i}: {n} parameters; at most {limit}"
        elif start is not None and text == end:
            if i - start - 1 > FUNCTION_LINES:
                yield (
                    f"{path}:{start}: function of {i - start - 1} lines;"
                    f" at most {FUNCTION_LINES}"
                )
            start = None


def check_folders(paths):
    """A corpus of a fuzzer is data: nobody looks for anything in it."""
    files = collections.Counter(p.parent for p in paths if p.is_file())
    for folder, n in files.items():
        if n > FOLDER_FILES and not {"corpus", "__pycache__"} & set(folder.parts):
            yield f"{folder}: {n} files; at most {FOLDER_FILES}: give a family a folder"


problems = []
for top in ("src", "include", "tests", "examples", "tools", "docs"):
    paths = sorted(pathlib.Path(top).rglob("*"))
    problems += check_folders(paths)
    for path in paths:
        # Stand-ins for other people's libraries have their signatures.
        if path.suffix in LIMITS and "emulate" not in path.parts:
            problems += check(path)
print("\n".join(problems), end="\n" if problems else "")
sys.exit(bool(problems))
