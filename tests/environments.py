"""Environments of Python in the cache, each for packages that this run cannot have.

Owns: how one is made once, by whichever process comes first. Must not know: what is installed.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from servers.go_binaries import cache_folder


def clean_environment() -> dict[str, str]:
    """The variables of this process, without those that lead Python to this run's packages."""
    return {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}


def environment(name: str, install: Callable[[Path, Path], None], *options: str) -> Path:
    """The Python of an environment, made now if the cache lacks it.

    Args:
        name: the folder's name begins with it; the rest is the version of Python.
        install: installs the packages, given the environment's Python and its folder.
        options: of `python -m venv`.
    """
    folder = cache_folder() / f"{name}-py{sys.version_info[0]}.{sys.version_info[1]}"
    python, complete = folder / "bin" / "python", folder / "complete"
    if complete.exists():
        return python
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_name(folder.name + ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.exists():
            made = [sys.executable, "-m", "venv", "--clear", *options, str(folder)]
            subprocess.run(made, check=True, env=clean_environment())
            install(python, folder)
            complete.touch()
    return python
