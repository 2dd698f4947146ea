"""Runs the blocks of the first page for each role, one after the other, on the same table."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import blocks, run_python, run_shell

PAGE = "docs/quick-start.md"


@pytest.mark.spark
def test_the_page_runs(tmp_path: Path) -> None:
    spark, python = blocks(PAGE, "python")
    run_python(spark, tmp_path)
    assert "AA" in run_python(python, tmp_path)
    (shell,) = blocks(PAGE, "sh")
    assert "rows      +1, 4 in all" in run_shell(shell, tmp_path)
