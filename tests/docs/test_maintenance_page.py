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


def test_the_page_about_partitions_runs_and_prints_what_it_says(tmp_path: Path) -> None:
    page = "docs/partitions.md"
    printed = run_python("\n".join(blocks(page, "python")), tmp_path).splitlines()
    assert [line.split()[:2] for line in printed[:2]] == [["dt=2020-01-01/hour=10", "1"], ["dt=2020-01-01/hour=9", "1"]]
    assert printed[2].startswith("2 partitions expire: 2 rows in ")
    assert printed[3] == "1 partitions marked as done: dt=2999-01-01/hour=9"
    shown = run_shell("\n".join(blocks(page, "sh")), tmp_path)
    assert "no partition expires" in shown
    assert "snapshot 3" in shown
