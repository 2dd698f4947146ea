"""The page about outcomes is run as it stands: Python first, then the shell on the table that it left."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "outcomes.md"


def blocks(language: str) -> str:
    return "\n".join(re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL))


def run(command: list[str], folder: Path, **environment: str) -> str:
    done = subprocess.run(
        command, check=False, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_what_the_page_says_is_so(tmp_path: Path) -> None:
    """G1, G2: every call and command on the page ends as the page says."""
    assert run([sys.executable, "-c", blocks("python")], tmp_path).startswith("landed      APPEND by etl-7/1 to ")
    (tmp_path / "more.csv").write_text("carrier,delay\nUA,1.5\n")
    command = tmp_path / "bin" / "lakelatch"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m lakelatch "$@"\n')
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    shown = run(["bash", "-ec", blocks("sh")], tmp_path, PATH=f"{command.parent}:{os.environ['PATH']}")
    assert [line.split()[:3] for line in shown.splitlines() if line.startswith("landed")] == [
        ["landed", "etl-7", "2"],
        *[["landed", "etl-7", "1"], ["landed", "etl-7", "2"]] * 2,
    ]
