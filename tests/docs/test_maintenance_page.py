"""The page about maintenance is run as it stands: Python first, then the shell on the table that it left."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "maintenance.md"


def blocks(language: str) -> str:
    return "\n".join(re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL))


def run(command: list[str], folder: Path, **environment: str) -> str:
    done = subprocess.run(
        command, check=False, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_what_the_page_says_is_so(tmp_path: Path) -> None:
    printed = run([sys.executable, "-c", blocks("python")], tmp_path).splitlines()
    assert printed[0].startswith("3 snapshots, 1 to 3: ")
    assert printed[1].startswith("back to snapshot 4, as snapshot 6: 4 files with 4 rows come back, 1 with 1 go")
    assert printed[2] == "0 of 0 files are orphans: 0 bytes"
    assert printed[3].startswith("4 of 4 files of 1 partitions, 4 rows in ")
    command = tmp_path / "bin" / "lakelatch"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m lakelatch "$@"\n')
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    shown = run(["bash", "-ec", blocks("sh")], tmp_path, PATH=f"{command.parent}:{os.environ['PATH']}")
    assert "nothing to compact: 1 files" in shown
    assert "snapshot 8" in shown
    assert "0 of 0 files are orphans" in shown
