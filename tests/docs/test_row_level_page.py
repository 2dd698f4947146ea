"""Runs the code on the page about changing rows: the Python blocks, then the shell block on the resulting table."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import blocks, run_python, run_shell

PAGE = "docs/row-level.md"


@pytest.mark.spark
def test_the_page_runs(tmp_path: Path) -> None:
    run_python("\n".join(blocks(PAGE, "python")), tmp_path)
    shown = run_shell("\n".join(blocks(PAGE, "sh")), tmp_path)
    assert "0 rows inserted, 1 updated, 0 deleted" in shown
    assert "0 rows inserted, 0 updated, 1 deleted" in shown
