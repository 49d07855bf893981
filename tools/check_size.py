#!/usr/bin/env python3
"""Limits: .c and the public header 600 lines, .h 200, a function 80 lines and 6 parameters.

Relies on clang-format: a function's braces stand alone in the first column.
"""
import pathlib
import re
import sys

LIMITS = {".c": 600, ".h": 200}
FUNCTION_LINES, PARAMETERS = 80, 6


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
    return re.sub(r"__attribute__\(\(.*?\)\)\s*|//.*", "", text)


def check(path):
    lines = path.read_text().splitlines()
    limit = LIMITS[".c" if path.parts[0] == "include" else path.suffix]
    if len(lines) > limit:
        yield f"{path}: {len(lines)} lines; at most {limit}"
    start = None
    for i, text in enumerate(lines):
        if text == "{":
            start = i
            signature = signature_before(lines, i)
            n = count_parameters(signature)
            if n > PARAMETERS:
                yield f"{path}:{i}: {n} parameters; at most {PARAMETERS}"
        elif text == "}" and start is not None:
            if i - start - 1 > FUNCTION_LINES:
                yield (
                    f"{path}:{start}: function of {i - start - 1} lines;"
                    f" at most {FUNCTION_LINES}"
                )
            start = None


problems = []
for top in ("src", "include", "tests", "examples"):
    for path in sorted(pathlib.Path(top).rglob("*.[ch]")):
        problems += check(path)
print("\n".join(problems), end="\n" if problems else "")
sys.exit(bool(problems))
