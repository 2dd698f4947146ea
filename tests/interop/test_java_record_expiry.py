"""Rows that have expired are left out by a compaction of lakelatch's as by one of Apache Paimon's (Java) (G8)."""

from __future__ import annotations

import datetime as dt
import shutil
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from interop.agreement import our_rows
from values import assert_same_rows

import lakelatch as ll

pytestmark = pytest.mark.java
NOW, DAY = int(time.time()), 86_400
UTC = dt.timezone.utc
KINDS: dict[str, Any] = {
    "INT": int,
    "BIGINT": lambda second: second * (1000 if second % 2 else 1),
    "TIMESTAMP(3)": lambda second: dt.datetime.fromtimestamp(second, UTC).replace(tzinfo=None),
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": lambda second: dt.datetime.fromtimestamp(second, UTC),
}
ENGINES = [
    {},
    {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
    {"merge-engine": "partial-update"},
    {"changelog-producer": "full-compaction"},
]


@pytest.mark.parametrize(("kind", "options"), zip(KINDS, ENGINES, strict=True))
def test_both_leave_out_the_same_rows(kind: str, options: dict[str, str], tmp_path: Path, paimon_java: Any) -> None:
    expiring = {"bucket": "1", "record-level.expire-time": "1 d", "record-level.time-field": "t"}
    columns = [("k", "INT NOT NULL"), ("t", kind), ("v", "INT")]
    table = ll.create_table(
        str(tmp_path / "ours"),
        ll.Schema(columns),
        primary_key=["k"],
        options=expiring | options | {"write-only": "true"},
    )
    at = KINDS[kind]
    for offsets in (
        [-2 * DAY, -DAY - 600, -DAY + 600, 0, -3 * DAY],
        [1 - 3 * DAY, 0, None, 1 - NOW],
        [DAY, 1 - 2 * DAY, None, None],
    ):
        rows = [{"k": k, "t": None if o is None else at(NOW + o), "v": k + 1} for k, o in enumerate(offsets)]
        table.upsert(pa.Table.from_pylist(rows, table.arrow_schema))
    shutil.copytree(tmp_path / "ours", tmp_path / "java")
    assert_same_rows(paimon_java.rows(tmp_path / "ours"), our_rows(ll.open_table(table.url)))
    ll.open_table(table.url).compact(full=True)
    paimon_java.compact(tmp_path / "java")
    ours = our_rows(ll.open_table(table.url))
    assert_same_rows(paimon_java.rows(tmp_path / "java"), ours)
    assert_same_rows(paimon_java.rows(tmp_path / "ours"), ours)
    assert {row[0] for row in ours} == {0, 1, 2, 3}
