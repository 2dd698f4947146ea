"""Runs the code on the page about other Python tools. DuckDB is in the extra `test`."""

from __future__ import annotations

from pathlib import Path

from pages import blocks, run_python

PAGE = "docs/python-tools.md"


def test_the_page_runs(tmp_path: Path) -> None:
    python = blocks(PAGE, "python")
    assert len(python) == 6
    assert "read by all" in run_python("\n".join([*python, "print('read by all')"]), tmp_path)
