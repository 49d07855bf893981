"""Finds a Python that has PyTorch: the newest one that this machine offers.

Looked at in this order: $TUTTI_TORCH_PYTHON, build/torch-venv (bench/setup-peer
makes it), python3 on the path, Debian's /usr/bin/python3. As a program it prints
the interpreter's path, or says why there is none and exits with 1.
"""
import os
import pathlib
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


def find():
    """(interpreter, version), or (None, why not)."""
    chosen = os.environ.get("TUTTI_TORCH_PYTHON")
    if chosen:
        version = version_of(chosen)
        if version is None:
            return None, "TUTTI_TORCH_PYTHON=%s has no PyTorch" % chosen
        return chosen, version
    for python in (str(ROOT / "build" / "torch-venv" / "bin" / "python"),
                   shutil.which("python3"), "/usr/bin/python3"):
        version = version_of(python) if python else None
        if version:
            return python, version
    return None, "no PyTorch here; bench/setup-peer installs it"


if __name__ == "__main__":
    found, text = find()
    if found is None:
        sys.exit(text)
    print(found)
