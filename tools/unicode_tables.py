#!/usr/bin/env python3
"""Writes src/data/tokenizer/unicode_tables.c: what normalizers of text need of Unicode.

    tools/unicode_tables.py > src/data/tokenizer/unicode_tables.c

The data are those of python3's unicodedata, the age of a character those of perl (both
of Debian). The package `tokenizers` normalizes by Unicode 9, takes punctuation from
Unicode 8 and lower-cases by a newer version than unicodedata may have. Ids must be equal to those it gives, so characters
younger than Unicode 9 have no decomposition, combining class or mark here, and the
lower case of the newest letters is written out below.
"""
import subprocess
import sys
import unicodedata as u

AGE = "9.0"
AGE_PUNCTUATION = "8.0"
PERL = r"""
for my $c (0 .. 0x10ffff) {
    next if $c >= 0xd800 && $c <= 0xdfff;
    print "$c\n" if chr($c) =~ /\p{Present_In: AGE}/;
}
"""
# Characters whose category changed since then.
WERE_MARKS, WERE_PUNCTUATION = {0x1CF2, 0x1CF3}, {0x166D, 0x111C9}

# Unicode 15 to 17: first, last, what is added.
NEWER_LOWER = [
    (0x1C89, 0x1C89, 1), (0xA7CB, 0xA7CB, 0x264 - 0xA7CB), (0xA7CC, 0xA7CC, 1),
    (0xA7CE, 0xA7CE, 1), (0xA7D2, 0xA7D2, 1), (0xA7D4, 0xA7D4, 1),
    (0xA7DA, 0xA7DA, 1), (0xA7DC, 0xA7DC, 0x19B - 0xA7DC),
    (0x10D50, 0x10D65, 0x20), (0x16EA0, 0x16EB8, 0x1B),
]


def digits(value):
    """A number from 0 on: 5 bits a character, the lowest first; +32: more follow."""
    text = ""
    while True:
        digit = value % 32 + (32 if value >= 32 else 0)
        text += {92: "0", 127: "1"}.get(64 + digit, chr(64 + digit))
        value //= 32
        if value == 0:
            return text


def signed(value):
    return digits(2 * value if value >= 0 else -2 * value - 1)


def decompositions(codes):
    """Distance to the last code, 4 * length + 2 * compatible + excluded, codes."""
    text, last, before = "", 0, [0] * 32
    for c in codes:
        words = u.decomposition(chr(c)).split()
        if not words:
            continue
        is_compatible = words[0].startswith("<")
        to = [int(w, 16) for w in words[is_compatible:]]
        is_excluded = not is_compatible and u.normalize("NFC", chr(c)) != chr(c)
        text += digits(c - last) + digits(4 * len(to) + 2 * is_compatible + is_excluded)
        last = c
        for i, code in enumerate(to):
            text += signed(code - before[i] - (i == 0))
            before[i] = code
    return text


def ranges(codes, kind):
    """Distance, length less one and kind of runs of the same kind."""
    text, last, runs = "", 0, []
    for c in codes:
        k = kind(chr(c))
        if k and runs and runs[-1][1] == c - 1 and runs[-1][2] == k:
            runs[-1][1] = c
        elif k:
            runs.append([c, c, k])
    for first, end, k in runs:
        text += digits(first - last) + digits(end - first) + digits(k)
        last = end
    return text


def lower():
    """Distance, and what is added. U+0130 alone becomes two and is not here."""
    to = {}
    for c in range(0x110000):
        if not 0xD800 <= c < 0xE000 and c != 0x130 and chr(c).lower() != chr(c):
            to[c] = ord(chr(c).lower())
    for first, end, add in NEWER_LOWER:
        to.update({c: c + add for c in range(first, end + 1)})
    text, last = "", 0
    for c in sorted(to):
        text += digits(c - last) + signed(to[c] - c)
        last = c
    return text


def mark_kind(c):
    """1: nonspacing, 2: other marks."""
    if ord(c) in WERE_MARKS:
        return 2
    is_mark = u.category(c)[0] == "M" and ord(c) not in WERE_PUNCTUATION
    return is_mark and (1 if u.category(c) == "Mn" else 2)


def is_punctuation(c):
    return u.category(c)[0] == "P" or ord(c) in WERE_PUNCTUATION


def present_in(age):
    script = PERL.replace("AGE", age)
    answer = subprocess.run(["perl", "-e", script], check=True, capture_output=True)
    return [int(line) for line in answer.stdout.split()]


def table(name, text):
    print(f"\nconst char {name}[] =")
    lines = [text[i : i + 74] for i in range(0, len(text), 74)]
    print("\n".join(f'    "{line}"' for line in lines) + ";")


def main():
    codes = present_in(AGE)
    print("// unicode_tables - decompositions, classes, marks, punctuation, lower case.")
    print("//")
    print("// Written by tools/unicode_tables.py, which says what the texts mean; not by")
    print(f"// hand. Characters up to Unicode {AGE}, lower case up to 17.")
    print('\n#include "data/tokenizer/unicode.h"\n\n// clang-format off')
    print('#pragma GCC diagnostic ignored "-Woverlength-strings"')
    table("tt__unicode_decompositions", decompositions(codes))
    table("tt__unicode_classes", ranges(codes, u.combining))
    table("tt__unicode_marks", ranges(codes, mark_kind))
    table("tt__unicode_punctuation", ranges(present_in(AGE_PUNCTUATION), is_punctuation))
    table("tt__unicode_lower", lower())
    print("// clang-format on")
    return 0


sys.exit(main())
