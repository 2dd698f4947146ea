"""Runs the code on the page about many writers."""

from __future__ import annotations

from pathlib import Path

from pages import blocks, run_python


def test_the_page_runs(tmp_path: Path) -> None:
    run_python("\n".join(blocks("docs/many-writers.md", "python")), tmp_path)
    assert (tmp_path / "lake/busy/snapshot/snapshot-1").exists()
