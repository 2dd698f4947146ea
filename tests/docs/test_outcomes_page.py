"""Runs the code on the page about outcomes: first the Python blocks, then the shell block on the resulting table."""

from __future__ import annotations

from pathlib import Path

from pages import blocks, run_python, run_shell

PAGE = "docs/outcomes.md"


def test_the_page_runs_and_ends_as_it_says(tmp_path: Path) -> None:
    """G1, G2: every call and command on the page ends as the page says."""
    printed = run_python("\n".join(blocks(PAGE, "python")), tmp_path)
    assert printed.startswith("landed      APPEND by etl-7/1 to ")
    (tmp_path / "more.csv").write_text("carrier,delay\nUA,1.5\n")
    shown = run_shell("\n".join(blocks(PAGE, "sh")), tmp_path)
    assert [line.split()[:3] for line in shown.splitlines() if line.startswith("landed")] == [
        ["landed", "etl-7", "2"],
        *[["landed", "etl-7", "1"], ["landed", "etl-7", "2"]] * 2,
    ]
