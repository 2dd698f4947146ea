"""Fixtures that run the command in this process, and tables to run it on."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from damage import flights_table

import lakelatch as ll
from lakelatch.cli.main import main


@dataclass(frozen=True)
class Answer:
    """The exit code and the output of one run of the command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def error(self) -> Any:
        return json.loads(self.err)


Run = Callable[..., Answer]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """A function that runs the command with the given arguments; its journal is kept in the test's folder."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("LAKELATCH_JOURNAL", raising=False)
    monkeypatch.delenv("LAKELATCH_DEBUG", raising=False)

    def execute(*words: object) -> Answer:
        capsys.readouterr()
        code = main([str(word) for word in words])
        out, err = capsys.readouterr()
        return Answer(code, out, err)

    return execute


@pytest.fixture
def flights(tmp_path: Path) -> ll.Table:
    """A partitioned table with three snapshots."""
    return flights_table(str(tmp_path / "flights"))
