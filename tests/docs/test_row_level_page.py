"""Runs the code on the page about changing rows: the Python blocks, then the shell block on the resulting table.

The block with a Spark session of its own runs by night; tests/spark/test_row_changes.py has the same calls.
"""

from __future__ import annotations

import os
from pathlib import Path

from pages import blocks, run_python, run_shell

PAGE = "docs/row-level.md"


def test_the_page_runs(tmp_path: Path) -> None:
    code = [block for block in blocks(PAGE, "python") if os.environ.get("LAKELATCH_NIGHTLY") or "spark" not in block]
    run_python("\n".join(code), tmp_path)
    shown = run_shell("\n".join(blocks(PAGE, "sh")), tmp_path)
    assert "0 rows inserted, 1 updated, 0 deleted" in shown
    assert "0 rows inserted, 0 updated, 1 deleted" in shown
