"""The README's tour is run as it stands: what a reader types works."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import java_home
import pytest

README = Path(__file__).parents[2] / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.spark
def test_the_tour_runs(tmp_path: Path) -> None:
    """Python, then PySpark, then the shell on the table that they left; each as a user types it, in one folder."""
    java_home.wire()
    python = blocks("python")
    assert len(python) == 2
    script = tmp_path / "tour.py"
    script.write_text("\n".join([*python, "assert again.replayed; print('the tour is over')"]))
    assert "the tour is over" in run([sys.executable, str(script)], tmp_path)
    shell = next(block for block in blocks("sh") if "lakelatch log" in block)
    command = tmp_path / "bin" / "lakelatch"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m lakelatch "$@"\n')
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    printed = run(["bash", "-ec", shell], tmp_path, PATH=f"{command.parent}:{os.environ['PATH']}")
    assert printed.count('"carrier"') == 4


def run(command: list[str], folder: Path, **environment: str) -> str:
    done = subprocess.run(
        command, check=False, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_two_commands_are_recipes() -> None:
    makefile = (README.parent / "Makefile").read_text()
    for command in re.findall(r"^make (\w+)", "\n".join(blocks("sh")), re.MULTILINE):
        assert re.search(rf"^{command}:", makefile, re.MULTILINE), command


def test_every_link_leads_somewhere() -> None:
    for target in re.findall(r"\]\(([^)h][^)]*)\)", README.read_text()):
        assert (README.parent / target).exists(), target
