"""Rows leave a table some time after the time that they have, in compactions (format/primary-keys §7)."""

from __future__ import annotations

import datetime as dt
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.core.errors import InvalidArgument
from lakelatch.table.compaction import key_plan, key_rewrite
from lakelatch.table.reading import key_rows

DAY = 86_400
NOW = int(time.time())
TIMES: dict[str, Any] = {
    "INT": int,
    "BIGINT": int,
    "BIGINT of milliseconds": lambda second: second * 1000,
    "TIMESTAMP(3)": lambda second: dt.datetime.fromtimestamp(second, dt.timezone.utc).replace(tzinfo=None),
    "TIMESTAMP(9)": lambda second: dt.datetime.fromtimestamp(second, dt.timezone.utc).replace(tzinfo=None),
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": lambda second: dt.datetime.fromtimestamp(second, dt.timezone.utc),
}


def made(path: Path, kind: str = "INT", **options: str) -> ll.Table:
    texts = {name.replace("__", ".").replace("_", "-"): text for name, text in options.items()}
    expiring = {"record-level.expire-time": "1 d", "record-level.time-field": "t", "bucket": "1"}
    columns = [("k", "INT NOT NULL"), ("t", kind.partition(" of ")[0]), ("v", "INT")]
    return ll.create_table(str(path / "t"), ll.Schema(columns), primary_key=["k"], options=expiring | texts)


def upsert(table: ll.Table, *rows: tuple[int, Any, Any]) -> None:
    ll.open_table(table.url).upsert(
        pa.Table.from_pylist([dict(zip("ktv", row, strict=True)) for row in rows], table.arrow_schema)
    )


def compacted(table: ll.Table) -> list[tuple[Any, Any]]:
    ll.open_table(table.url).compact(full=True)
    return [(row["k"], row["v"]) for row in ll.open_table(table.url).to_arrow().to_pylist()]


@pytest.mark.parametrize(
    ("kind", "file_format"),
    [(k, f) for k in TIMES for f in ("parquet", "orc", "avro") if (f, k) != ("avro", "TIMESTAMP(9)")],
)
def test_a_compaction_leaves_out_rows_whose_time_is_over(kind: str, file_format: str, tmp_path: Path) -> None:
    """A row without a time, and one of the future, stay; reads show all until then."""
    at, table = TIMES[kind], made(tmp_path, kind, file__format=file_format)
    upsert(table, (1, at(NOW - 2 * DAY), 1), (2, at(NOW - DAY // 2), 2), (3, None, 3))
    upsert(table, (4, at(NOW + DAY), 4), (5, at(1), 5))
    assert len(ll.open_table(table.url).to_arrow()) == 5
    assert compacted(table) == [(2, 2), (3, 3), (4, 4)]


def test_a_file_of_the_last_level_is_rewritten_once_a_row_of_it_expires(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path)
    upsert(table, (1, NOW, 1), (2, NOW + DAY, 2))
    assert compacted(table) == [(1, 1), (2, 2)]
    (kept,) = (e.file.file_name for e in ll.open_table(table.url).entries())
    assert compacted(table) == [(1, 1), (2, 2)]
    assert [e.file.file_name for e in ll.open_table(table.url).entries()] == [kept]
    later = replace(MACHINE, wall_s=lambda: NOW + 1.5 * DAY)
    for module in (key_plan, key_rewrite, key_rows):
        monkeypatch.setattr(module, "MACHINE", later)
    assert compacted(table) == [(2, 2)]


def test_a_file_that_would_only_move_is_written_anew_if_a_row_of_it_has_expired(tmp_path: Path) -> None:
    """Its keys are in no other file. One without such a row keeps its name, also after a change of the schema."""
    table = made(tmp_path)
    upsert(table, (1, NOW - 2 * DAY, 1), (2, NOW, 2))
    assert compacted(table) == [(2, 2)]
    (made_anew,) = (e.file.file_name for e in ll.open_table(table.url).entries())
    ll.open_table(table.url).alter(ll.rename_column("v", "w"), ll.rename_column("t", "v"))
    assert [row["k"] for row in ll.open_table(table.url).to_arrow().to_pylist()] == [2]
    ll.open_table(table.url).compact(full=True)
    assert [e.file.file_name for e in ll.open_table(table.url).entries()] == [made_anew]


def test_an_expired_row_is_left_out_before_the_others_of_its_key_are_merged(tmp_path: Path) -> None:
    """As in Apache Paimon, the sum is that of the rows which have not expired."""
    table = made(tmp_path, merge_engine="aggregation", fields__v__aggregate_function="sum")
    upsert(table, (1, NOW - 2 * DAY, 10))
    upsert(table, (1, NOW, 1))
    assert ll.open_table(table.url).to_arrow()["v"].to_pylist() == [11]
    assert compacted(table) == [(1, 1)]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"record_level__time_field": ""}, "needs option 'record-level.time-field'"),
        ({"record_level__time_field": "z"}, "there is no column 'z'"),
        ({"kind": "STRING"}, "column 't' is of type STRING"),
    ],
)
def test_a_time_field_that_is_none_is_refused(options: dict[str, str], told: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=told):
        made(tmp_path, **options)
