"""The command, run in this process, and tables to run it on."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.cli.main import main


@dataclass(frozen=True)
class Answer:
    """What a run of the command came to."""

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
    """Runs the command with these words; its journal goes to the test's folder."""
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
    """A partitioned table of three snapshots: two appends, one overwrite of a partition."""
    schema = pa.schema([("carrier", pa.string()), ("delay", pa.decimal128(8, 2)), ("month", pa.int32())])
    table = ll.create_table(str(tmp_path / "flights"), schema, partition_by=["month"])
    for rows in (
        {"carrier": ["AA", "UA", None], "delay": ["1.50", "-3.00", None], "month": [1, 1, 2]},
        {"carrier": ["DL", "B6"], "delay": ["0.25", "7.00"], "month": [2, 3]},
    ):
        table.append(pa.table({**rows, "delay": pa.array(rows["delay"], pa.string()).cast(pa.decimal128(8, 2))}))
    table.overwrite(pa.table({"carrier": ["WN"], "delay": pa.nulls(1), "month": [3]}), partition={"month": 3})
    table.committer.settle()
    return table
