#!/usr/bin/env python3
"""check_names.py [FOLDER] - one name, one meaning. Fails on

  a type (`tt_x`, a struct, union, enum or typedef) that is defined twice,
  a prefix (`tt_job_...`, `tt__job_...`) under which two folders declare functions, and
  two names of headers that differ by an underscore alone: `tt_x` and `tt__x`.

A function belongs to the longest type that begins its name: tt_comm_wire_open to
tt_comm_wire, tt_comm_send to tt_comm. Where there is no such type the prefix is the
first word. A folder that declares one function under another's prefix is let be: ops
has tt_shape_broadcasts. Words of SHARED are used by several folders on purpose.

Types and functions that one .c file keeps to itself may be called anything.
"""
import collections
import pathlib
import re
import sys

SHARED = {
    "add": "a verb: appends to a text, a graph or a list",
    "is": "a verb: asks",
    "model": "model has the models, train the paths of their files",
    "place": "graph has placements, ops the operators that change them",
    "run": "store has the files of a run, train says which folder is one",
    "utf8": "base reads characters, train the ones that are not yet complete",
}
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.M)
BRACES = re.compile(r"\{[^{}]*\}")
# After braces are emptied.
TYPEDEF = re.compile(r"^typedef\b([^;]*);", re.M)
TAG = re.compile(r"^(?:typedef\s+)?(?:struct|union|enum)\s+(tt_\w+)\s*\{\}", re.M)
FUNCTION = re.compile(r"^(?!typedef|return)[\w][\w *]*?\b(tt__?[a-z]\w*)\s*\(", re.M)


def read(path):
    text = DIRECTIVE.sub("", COMMENT.sub("", path.read_text()))
    before = None
    while before != text:
        before, text = text, BRACES.sub("\0", text)
    return text.replace("\0", "{}")


def types_of(text):
    """The types that a header defines, and those that it only announces."""
    found, announced = set(TAG.findall(text)), set()
    for m in TYPEDEF.finditer(text):
        body = m[1].strip()
        if re.fullmatch(r"(?:struct|union|enum)\s+\w+\s+\w+", body):
            announced.add(body.split()[-1])
            continue
        pointer = re.search(r"\(\s*\*\s*(\w+)\s*\)\s*\(", body)
        function = re.search(r"\b(\w+)\s*\(", body)
        name = pointer or function or re.search(r"(\w+)\s*(?:\[[^]]*\]\s*)*$", body)
        if name and name[1].startswith("tt_"):
            found.add(name[1])
    return found, announced


def plain(name):
    """tt__wire_job and tt_wire_job are both wire_job."""
    return re.sub(r"^tt__?", "", name)


def prefix_of(function, objects):
    words = plain(function).split("_")
    for n in range(len(words) - 1, 0, -1):
        if "_".join(words[:n]) in objects:
            return "_".join(words[:n])
    return words[0]


root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "src")
types, objects = collections.defaultdict(set), set()
functions = collections.defaultdict(set)  # name: folders of headers that declare it
for path in sorted(list(root.rglob("*.h")) + list(root.rglob("*.cuh"))):
    text = read(path)
    found, announced = types_of(text)
    for name in found:
        types[name].add(path)
    objects |= {plain(name) for name in found | announced}
    folder = path.relative_to(root).parts[0]
    for name in FUNCTION.findall(text):
        functions[name].add(folder)

problems = [
    f"{name} is a type of {' and '.join(map(str, sorted(paths)))}"
    for name, paths in sorted(types.items())
    if len(paths) > 1
]
used = collections.defaultdict(lambda: collections.defaultdict(set))
for name, folders in functions.items():
    if "_" in plain(name):
        for folder in folders:
            used[prefix_of(name, objects)][folder].add(name)
for prefix, folders in sorted(used.items()):
    many = {f: names for f, names in folders.items() if len(names) > 1}
    if len(many) > 1 and prefix not in SHARED:
        problems.append(
            f"tt_{prefix}_ is a prefix of "
            + " and of ".join(
                f"{f}/ ({', '.join(sorted(names)[:3])})" for f, names in many.items()
            )
        )
names = set(types) | set(functions)
for name in sorted(names):
    twin = name.replace("tt__", "tt_", 1)
    if twin != name and twin in names:
        problems.append(f"{name} and {twin} differ by an underscore alone")
print("\n".join(problems), end="\n" if problems else "")
sys.exit(bool(problems))
