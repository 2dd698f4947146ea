"""Runs the code on the page about the names of commits."""

from __future__ import annotations

from pathlib import Path

from pages import blocks, run_python


def test_the_page_runs(tmp_path: Path) -> None:
    """G3: each name lands once, in any order, and `explain` finds it."""
    printed = run_python("\n".join(blocks("docs/naming-commits.md", "python")), tmp_path)
    assert "air.load" in printed and "20261101" in printed
