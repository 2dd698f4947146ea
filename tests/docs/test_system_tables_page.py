"""Runs the code on the page about system tables."""

from __future__ import annotations

from pathlib import Path

from pages import blocks, run_python

PAGE = "docs/system-tables.md"


def test_the_page_runs_and_prints_what_it_says(tmp_path: Path) -> None:
    printed = run_python(blocks(PAGE, "python")[0], tmp_path).splitlines()
    assert printed[0] == "{'snapshot_id': 2, 'commit_kind': 'APPEND', 'total_record_count': 4}"
    assert printed[1].startswith("[{'partition': '{2}', 'bucket': ") and printed[1].endswith("'level': 0}]")
    assert printed[2] == "[{'rowkind': '+I', 'month': 1, 'carrier': 'AA', 'delay': 4.0}]"
