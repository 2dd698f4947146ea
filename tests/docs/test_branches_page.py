"""Runs the code on the page about branches and repair: first the Python blocks, then the shell block on the resulting table."""

from __future__ import annotations

from pathlib import Path

from pages import blocks, run_python, run_shell

PAGE = "docs/branches.md"


def test_the_page_runs_and_prints_what_it_says(tmp_path: Path) -> None:
    printed = run_python("\n".join(blocks(PAGE, "python")), tmp_path).splitlines()
    assert printed[:3] == [
        "branch 'staging': snapshot 3, schema 0, 1 tags",
        "main gets snapshot 3 of branch 'staging', 0 schemas, 0 tags: 3 rows",
        "branch 'checked': snapshot 3, schema 0, 2 tags: 7 files of metadata",
    ]
    assert printed[3].startswith(
        "1. take 1 files that cannot be read out of the newest state, with a commit: day=1: 1 rows"
    )
    shown = run_shell("\n".join(blocks(PAGE, "sh")), tmp_path)
    assert "created branch 'dev': snapshot 2" in shown
    assert "branch 'dev' has nothing that main lacks" in shown
    assert "'dev' is now branch 'next'" in shown
    assert "the newest snapshot does not need this file" in shown
