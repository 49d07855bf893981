#!/usr/bin/env python3
"""Writes a .cu file as C++ for the emulated device: k<<<grid, ...>>>(x) becomes
launch([=](auto... a) { k(a...); }, shape(grid, ...), x).   Usage: translate.py FILE.cu >FILE.cpp"""
import re
import sys


def closing(text, at, opening, closing_):
    """Where what opens at `at` closes."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == opening) - (text[i] == closing_)
        if depth == 0:
            return i
    raise SystemExit(f"{sys.argv[1]}: {opening} without {closing_}")


def kernel_start(text, end):
    """Where the name, with template arguments, begins that ends before `end`."""
    i = len(text[:end].rstrip())
    if text[i - 1] == ">":
        depth = 0
        while True:
            i -= 1
            depth += (text[i] == ">") - (text[i] == "<")
            if depth == 0:
                break
    return re.search(r"[A-Za-z_]\w*\s*$", text[:i]).start()


def translate(text):
    while "<<<" in text:
        at = text.index("<<<")
        end = text.index(">>>", at)
        start = kernel_start(text, at)
        open_ = text.index("(", end)
        close = closing(text, open_, "(", ")")
        given = re.sub(r"\bNULL\b", "nullptr", text[open_ + 1:close])
        text = (f"{text[:start]}emulated::launch([=](auto... emulated_a) {{ "
                f"{text[start:at]}(emulated_a...); }}, "
                f"emulated::shape({text[at + 3:end]}), {given})"
                f"{text[close + 1:]}")
    return re.sub(r"extern __shared__ (\w+) (\w+)\[\];",
                  r"\1 *\2 = (\1 *)emulated::shared();", text)


print(f'#line 1 "{sys.argv[1]}"')
print(translate(open(sys.argv[1], encoding="utf-8").read()))
