"""Every public method of a table with every argument of a wrong kind: an error of ours, or none, and never a raw one.

A few methods run without end.
"""

from __future__ import annotations

import datetime as dt
import inspect
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakelatch as ll

SCHEMA = pa.schema([pa.field("id", pa.int64(), False), ("v", pa.string()), ("p", pa.int32())])
ROWS = pa.table({"id": [1, 2], "v": ["a", "b"], "p": [1, 2]}, schema=SCHEMA)
TABLES: dict[str, dict[str, Any]] = {
    "rows": {},
    "keys": {"primary_key": ["id"], "options": {"bucket": "1"}},
    "partitions": {"partition_by": ["p"]},
}
WRONG: list[Any] = [
    *(None, 5, -1, 1.5, True, "x", "", b"x", object(), [], [5], ["x"], {}, {"x": 1}, {5: 5}, ("a", "b"), 2**70, "\x00"),
    *(dt.date(2024, 1, 1), float("nan"), pa.table({"z": [1]}), ll.col("nope") == 1),
]
FITTING: dict[str, Any] = {
    "data": ROWS, "name": "new", "new_name": "other", "where": "id = 1", "set": {"v": "'x'"}, "on": ["id"], "start": 0,
    "url": "memory://any-argument/copy", "partition": {"p": 1}, "next_snapshot": 1, "commit": 1, "by": ["id"],
    "partitions": [{"p": 1}], "columns": ["id"], "older_than": "7 d",
}  # fmt: skip
"""What the other arguments of a method get that have no default."""
ENDLESS = {"follow", "settle", "to_duckdb"}


def methods() -> Iterator[tuple[str, str]]:
    for name in sorted(name for name in dir(ll.Table) if not name.startswith("_")):
        method = inspect.getattr_static(ll.Table, name)
        if callable(method) and name not in ENDLESS:
            for parameter in list(inspect.signature(method).parameters.values())[1:]:
                if parameter.kind is not parameter.VAR_KEYWORD:
                    yield name, parameter.name


METHODS = sorted(set(methods()))


@pytest.mark.parametrize("name", sorted({name for name, _ in METHODS}))
@pytest.mark.parametrize("kind", TABLES)
def test_no_argument_gives_a_raw_error(kind: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a wrong argument may be a folder's name
    url = f"memory://any-argument-{kind}-{name}/t"
    table = ll.create_table(url, SCHEMA, **TABLES[kind])
    table.append(ROWS)
    parameters = list(inspect.signature(inspect.getattr_static(ll.Table, name)).parameters.values())[1:]
    needed = [p for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    for parameter in (p for p in parameters if (name, p.name) in METHODS):
        given = {p.name: FITTING.get(p.name) for p in needed if p is not parameter}
        for wrong in WRONG:
            called = getattr(table, name)
            try:
                if parameter.kind is parameter.VAR_POSITIONAL:
                    found = called(wrong, **given)
                else:
                    found = called(**given, **{parameter.name: wrong})
                if hasattr(found, "__next__"):
                    list(itertools.islice(found, 2))
            except ll.LakelatchError as error:
                assert str(error)
            except Exception as error:
                raise AssertionError(f"{name}({parameter.name}={wrong!r}): {error!r}") from error


def test_the_walk_sees_the_methods() -> None:
    assert {("to_batches", "columns"), ("append", "data"), ("alter", "changes")} <= set(METHODS)
    assert len(METHODS) > 150


def test_a_consumer_takes_a_number_of_numpy() -> None:
    table = ll.create_table("memory://any-argument-numpy/t", SCHEMA)
    table.append(ROWS)
    assert table.set_consumer("etl", np.int64(1)).next_snapshot == 1
