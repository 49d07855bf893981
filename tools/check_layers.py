#!/usr/bin/env python3
"""Fails if a file includes a header that tools/layers.txt does not let it see."""
import pathlib
import re
import sys

SRC = pathlib.Path("src")
INCLUDE = re.compile(r'\s*#\s*include\s+(["<])([^">]+)')


def read_layers(path):
    """Returns {folder: folders it sees} and {"<prefix": places}, and complaints."""
    folders, vendors, problems = {}, {}, []
    for n, line in enumerate(open(path), 1):
        line = line.split("#")[0]
        if ":" not in line:
            continue
        name, sees = line.split(":")
        name, sees = name.strip(), sees.split()
        if name.startswith("<"):
            vendors[name[1:]] = sees
            continue
        for other in sees:
            if other not in folders:
                problems.append(f"{path}:{n}: {other} does not stand above {name}")
        folders[name] = set(sees) | {name}
    return folders, vendors, problems


def check_file(path, folders, vendors):
    folder = path.relative_to(SRC).parts[0]
    if folder not in folders:
        yield f"{path}: {folder}/ is not in tools/layers.txt"
        return
    place = str(path.relative_to(SRC))
    for n, text in enumerate(path.open(), 1):
        m = INCLUDE.match(text)
        if not m:
            continue
        quote, header = m.groups()
        if quote == "<":
            for prefix, places in vendors.items():
                if header.startswith(prefix) and not any(
                    place.startswith(p) for p in places
                ):
                    yield f"{path}:{n}: <{header}> belongs in {' '.join(places)}"
            continue
        other = header.split("/")[0]
        if "/" not in header:
            yield f'{path}:{n}: write "folder/{header}"'
        elif other not in folders[folder] and other != "tutti":
            yield f"{path}:{n}: {folder}/ may not include {other}/"
        elif not (SRC / header).exists() and other != "tutti":
            yield f"{path}:{n}: there is no src/{header}"


folders, vendors, problems = read_layers("tools/layers.txt")
for path in sorted(SRC.rglob("*")):
    if path.suffix in (".c", ".h", ".cu", ".cuh"):
        problems += check_file(path, folders, vendors)
print("\n".join(problems), end="\n" if problems else "")
sys.exit(bool(problems))
