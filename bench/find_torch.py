"""Finds a Python that has PyTorch.

$TUTTI_TORCH_PYTHON if set; else the one with the newest PyTorch of
build/torch-venv (bench/setup-peer makes it), python3 on the path and Debian's
/usr/bin/python3. As a program it prints the interpreter's path, or says why
there is none and exits with 1.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def version_of(python):
    """PyTorch's version as text, or None."""
    try:
        done = subprocess.run(
            [python, "-c", "import torch; print(torch.__version__)"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=120,
            check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode().strip() if done.returncode == 0 else None


def as_numbers(version):
    return [int(n) for n in re.findall(r"\d+", version)[:2]]


def find():
    """(interpreter, version), or (None, why not)."""
    chosen = os.environ.get("TUTTI_TORCH_PYTHON")
    if chosen:
        version = version_of(chosen)
        if version is None:
            return None, "TUTTI_TORCH_PYTHON=%s has no PyTorch" % chosen
        return chosen, version
    best = None, "no PyTorch here; bench/setup-peer installs it"
    for python in (str(ROOT / "build" / "torch-venv" / "bin" / "python"),
                   shutil.which("python3"), "/usr/bin/python3"):
        version = version_of(python) if python else None
        if version and (best[0] is None or
                        as_numbers(version) > as_numbers(best[1])):
            best = python, version
    return best


if __name__ == "__main__":
    found, text = find()
    if found is None:
        sys.exit(text)
    print(found)
