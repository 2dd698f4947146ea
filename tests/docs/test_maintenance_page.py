"""Runs the code on the page about maintenance: first the Python blocks, then the shell block on the resulting table."""

from __future__ import annotations

from pathlib import Path

from pages import blocks, run_python, run_shell

PAGE = "docs/maintenance.md"


def test_the_page_runs_and_prints_what_it_says(tmp_path: Path) -> None:
    printed = run_python("\n".join(blocks(PAGE, "python")), tmp_path).splitlines()
    assert printed[0].startswith("3 snapshots, 1 to 3: ")
    assert printed[1].startswith("back to snapshot 4, as snapshot 6: 4 files with 4 rows come back, 1 with 1 go")
    assert printed[2] == "0 of 0 files are orphans: 0 bytes"
    assert printed[3].startswith("4 of 4 files of 1 partitions, 4 rows in ")
    shown = run_shell("\n".join(blocks(PAGE, "sh")), tmp_path)
    assert "nothing to compact: 1 files" in shown
    assert "snapshot 8" in shown
    assert "0 of 0 files are orphans" in shown
