"""Runs the code on the page for operators, and holds it to the names of metrics, outcomes and columns that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pages import CHECKOUT, blocks, run_python, run_shell

PAGE = "docs/operations.md"


def test_the_page_runs(tmp_path: Path) -> None:
    run_python("\n".join(blocks(PAGE, "python")), tmp_path)
    shown = run_shell("\n".join(blocks(PAGE, "sh")), tmp_path)
    assert "landed" in shown and "snapshot" in shown


@pytest.mark.parametrize("name", re.findall(r"`(lakelatch\.[a-z.]+)`", (CHECKOUT / PAGE).read_text()))
def test_each_metric_and_logger_is_one_that_is_reported(name: str) -> None:
    assert f"`{name}`" in (CHECKOUT / "docs/observability.md").read_text()
