#!/usr/bin/env python3
"""Every def has one line in its folder's list.h, and every line has its def.

A def is `const tt_<kind>_def tt_<...>_<name>` in a .c file; its line in the
nearest list.h, in the file's folder or above, is `TT_<KIND>(<name>)`. A file may
have its defs in one array, `const tt_<kind>_def tt__<folder>_<file>_<kind>s[]`; its
line is `TT_<KIND>S(<file>)`. The array ends with {0}, or whoever searches it does not.
A family of vectorised functions, `const tt_simd_<name> TT_SYMBOL(tt_simd_<name>)`, has
the line `TT_SIMD(<name>)`.
"""
import collections
import pathlib
import re
import sys

SRC = pathlib.Path("src")
LINE = re.compile(r"^\s*TT_([A-Z0-9_]+)\(([A-Za-z0-9_]+)\)")
DEF = re.compile(r"^const tt_([a-z0-9_]+?)_def\s+tt_([a-z0-9_]+)\s*=", re.M)
ARRAY = re.compile(
    r"^const tt_([a-z0-9_]+?)_def\s+(tt_\w+)\[\]\s*=(.*?)^\};", re.M | re.S
)
SIMD = re.compile(r"^const tt_simd_(\w+)\s+TT_SYMBOL\(tt_simd_\1\)\s*=", re.M)


def read_list(path):
    """Returns {(kind, name): line number} of a list.h, and complaints."""
    lines, problems = {}, []
    for n, text in enumerate(path.open(), 1):
        m = LINE.match(text)
        if not m:
            continue
        key = (m[1].lower(), m[2])
        if key in lines:
            problems.append(f"{path}:{n}: TT_{m[1]}({m[2]}) stands here twice")
        lines[key] = n
    return lines, problems


def nearest_list(path, lists):
    for folder in path.parents:
        if folder / "list.h" in lists:
            return folder / "list.h"
    return None


def name_of(symbol, kind, folder, names):
    """The list name a def's symbol stands for: tt_op_gelu is gelu."""
    for prefix in (kind, f"{folder}_{kind}", f"{kind}_{folder}", folder):
        if symbol.startswith(prefix + "_"):
            return symbol[len(prefix) + 1 :]
    return next((n for n in names if symbol.endswith("_" + n)), symbol)


lists, problems = {}, []
for path in sorted(SRC.rglob("list.h")):
    lists[path], found = read_list(path)
    problems += found

defined = collections.defaultdict(set)
for path in sorted(SRC.rglob("*.c")):
    home = nearest_list(path, lists)
    if home is None:
        continue
    kinds = {kind for kind, _ in lists[home]}
    for m in DEF.finditer(path.read_text()):
        kind, symbol = m.groups()
        if kind not in kinds and kinds:
            continue
        names = {n for k, n in lists[home] if k == kind}
        key = (kind, name_of(symbol, kind, home.parent.name, names))
        defined[home].add(key)
        if key not in lists[home]:
            problems.append(
                f"{path}: tt_{symbol} has no line TT_{kind.upper()}({key[1]}) in {home}"
            )

    for m in SIMD.finditer(path.read_text()):
        defined[home].add(("simd", m[1]))
        if ("simd", m[1]) not in lists[home]:
            problems.append(f"{path}: tt_simd_{m[1]} has no line TT_SIMD({m[1]}) in {home}")

    for m in ARRAY.finditer(path.read_text()):
        kind, symbol = m[1] + "s", m[2]
        wanted = f"tt__{home.parent.name}_{path.stem}_{kind}"
        defined[home].add((kind, path.stem))
        if not m[3].rstrip().endswith("{0},"):
            problems.append(f"{path}: {symbol} does not end with {{0}}")
        if symbol != wanted:
            problems.append(f"{path}: {symbol} should be {wanted}")
        elif (kind, path.stem) not in lists[home]:
            problems.append(
                f"{path}: {symbol} has no line TT_{kind.upper()}({path.stem}) in {home}"
            )

for path, lines in lists.items():
    for (kind, name), n in lines.items():
        if (kind, name) not in defined[path]:
            problems.append(f"{path}:{n}: nothing defines {kind} {name}")

print("\n".join(problems), end="\n" if problems else "")
sys.exit(bool(problems))
