"""Runs the code on the page about tags: first the Python blocks, then the commands, in this process, on the resulting tables."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from pages import blocks, run_python

from lakelatch.cli.main import main

PAGE = "docs/tags.md"


def test_the_page_runs_and_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = run_python("\n".join(blocks(PAGE, "python")), tmp_path).splitlines()
    assert printed[:3] == [
        "tag first: snapshot 1 with 1 rows, kept for 7 days, 0:00:00",
        "tag eod: snapshot 3 with 3 rows",
        "tag eom: 0 data files, 0 files of metadata",
    ]
    assert printed[3].startswith("without snapshot 2 (APPEND by etl), as snapshot 4: ")
    assert printed[4].startswith("snapshot 3 cannot be undone: snapshot 6 (OVERWRITE by ")
    assert printed[5] == "no new tag"
    monkeypatch.chdir(tmp_path)
    for line in "\n".join(blocks(PAGE, "sh")).splitlines():
        assert main(shlex.split(line)[1:]) == 0, line
    shown = capsys.readouterr().out
    assert "tag eod: snapshot 2 with 2 rows, kept for 7 days, 0:00:00" in shown
    assert "tag eod: 0 data files, 0 files of metadata" in shown
    assert "snapshot 8" in shown
