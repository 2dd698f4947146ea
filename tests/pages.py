"""Runs the code blocks of documentation pages: the Python blocks, and then the shell blocks on the resulting tables."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import ready_workers

CHECKOUT = Path(__file__).parents[1]


def blocks(page: str, language: str) -> list[str]:
    """The code blocks of a page, whose path is relative to the checkout."""
    return re.findall(rf"^```{language}\n(.*?)^```", (CHECKOUT / page).read_text(), re.MULTILINE | re.DOTALL)


def run_python(code: str, folder: Path, *, by_default: bool = False) -> str:
    """Run Python code in a folder and return its output.

    Args:
        by_default: Spark sessions have Spark's own defaults. Otherwise their Python workers start quickly.
    """
    return _run([sys.executable, "-c", code], folder, **({} if by_default else ready_workers.environment()))


def run_shell(code: str, folder: Path) -> str:
    """Run shell commands in a folder, with `lakelatch` on the path, and return their output."""
    command = folder / "bin" / "lakelatch"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m lakelatch "$@"\n')
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    return _run(["bash", "-ec", code], folder, PATH=f"{command.parent}:{os.environ['PATH']}")


def _run(command: list[str], folder: Path, **environment: str) -> str:
    done = subprocess.run(
        command, check=False, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
