#!/usr/bin/env python3
"""check_tidy.py WORD [compiler flags] - clang-tidy over src/, a file per process.

Only files with WORD in their path are read; an empty word means all of them.

A file that passed is not looked at again until it, a header it includes, the
flags or .clang-tidy change: its hash is remembered under build/tidy.
"""
import concurrent.futures
import hashlib
import pathlib
import re
import shutil
import subprocess
import sys

JOBS = 2
CACHE = pathlib.Path("build/tidy")
ROOTS = [pathlib.Path("src"), pathlib.Path("include")]
INCLUDE = re.compile(rb'^\s*#\s*include\s+"([^"]+)"', re.M)
FLAGS = ["-std=gnu17", "-fopenmp", "-Isrc", "-Iinclude"] + sys.argv[2:]
SIMD_FLAGS = ["-DTT_ISA=v3", "-march=x86-64-v3"]


def closure(path, seen):
    """Adds to `seen` the file and all of our headers that it reaches."""
    if path in seen:
        return
    seen[path] = path.read_bytes()
    for name in INCLUDE.findall(seen[path]):
        for root in ROOTS:
            header = root / name.decode()
            if header.is_file():
                closure(header, seen)


def mpi_flags():
    """Where an MPI's headers are; nothing if there is none."""
    for wrapper in (["mpicc.openmpi", "--showme:compile"], ["mpicc.mpich", "-show"]):
        if shutil.which(wrapper[0]):
            text = subprocess.run(wrapper, capture_output=True, text=True).stdout
            return [f"-isystem{w[2:]}" for w in text.split() if w.startswith("-I")]
    return []


MPI_FLAGS = mpi_flags()


def is_readable(path):
    return path.name != "mpi_plugin.c" or MPI_FLAGS


def flags_for(path):
    flags = FLAGS + (SIMD_FLAGS if "simd" in path.parts else [])
    if path.name == "mpi_plugin.c":
        flags = flags + MPI_FLAGS
    if path.name != "status.c":
        flags = ["-include", "tools/tidy.h"] + flags
    return flags


def key(path, salt):
    seen = {}
    closure(path, seen)
    h = hashlib.sha256(salt + " ".join(flags_for(path)).encode())
    for name in sorted(seen):
        h.update(str(name).encode() + b"\0" + seen[name] + b"\0")
    return h.hexdigest()


def without_notes(text):
    """Keeps the complaints with their lines of code; drops the paths to them."""
    kept, keep = [], True
    for line in text.replace(str(pathlib.Path.cwd()) + "/", "").splitlines():
        if re.match(r"\S+:\d+:\d+: ", line):
            keep = ": note: " not in line
        if keep:
            kept.append(line)
    return "\n".join(kept)


def check(path, salt):
    """Returns what clang-tidy says about the file, or "" if all is well."""
    passed = CACHE / key(path, salt)
    if passed.exists():
        return ""
    command = ["clang-tidy", "--quiet", str(path)]
    if path.name == "mpi_plugin.c":  # its requests are waited for elsewhere
        command.append("--checks=-clang-analyzer-optin.mpi.MPI-Checker")
    command += ["--"] + flags_for(path)
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return without_notes(done.stdout or done.stderr)
    passed.touch()
    return ""


def main():
    CACHE.mkdir(parents=True, exist_ok=True)
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True)
    salt = version.stdout + pathlib.Path(".clang-tidy").read_bytes()
    salt += pathlib.Path("tools/tidy.h").read_bytes()
    files = [f for f in sorted(ROOTS[0].rglob("*.c")) if sys.argv[1] in str(f)]
    files = list(filter(is_readable, files))
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        results = list(pool.map(lambda f: check(f, salt), files))
    for text in filter(None, results):
        print(text)
    return any(results)


sys.exit(main())
