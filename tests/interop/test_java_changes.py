"""Changes between snapshots and reads as of a watermark, of tables that lakelatch and Apache Paimon (Java) both write (G8)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from interop.ledger import COMPACT, Java, Lakelatch, Ledger, append, drop, dynamic, overwrite
from values import Row, assert_same_rows, encode_rows

import lakelatch as ll
from lakelatch.core.errors import InvalidArgument
from lakelatch.core.rows.types import Field, string

pytestmark = pytest.mark.java

COLUMNS = [("id", "INT NOT NULL"), ("p", "STRING"), ("s", "STRING"), ("t", "TIMESTAMP(9)")]
KIND = Field(0, "_row_kind", string())


def row(i: int, partition: str | None = "a") -> list[Any]:
    return [i, partition, f"s{i}" if i % 3 else None, f"2024-01-01T00:00:{i % 60:02d}.{i:09d}"]


def changes(table: ll.Table, start: Any, end: Any, **more: Any) -> list[Row]:
    """The changes, each row with its kind in front, as `PaimonJava.rows` gives them."""
    return encode_rows(table.changes(start, end, **more).read_all(), (KIND, *table.schema.fields))


def applied(rows: list[Row], changed: list[Row]) -> list[Row]:
    """The rows after their changes. A row that goes may have come in the same range."""
    after = rows + [values for kind, *values in changed if kind == "+I"]
    for kind, *values in changed:
        if kind == "-D":
            after.remove(values)
    return after


def test_changes_of_a_table_that_both_write(tmp_path: Path, paimon_java: Any) -> None:
    """G8: appended rows as Java's incremental-between gives them; with overwrites, the ledger's rows from state to state."""
    path = tmp_path / "t"
    paimon_java.create_table(path, COLUMNS, partition_keys=["p"])
    ledger, ours, java = Ledger(path), Lakelatch(), Java(paimon_java)
    ledger.change(java, append([row(0, "a"), row(1, "b"), row(2, None)]))
    ledger.change(ours, append([row(3, "a"), row(4, "b")], watermark_ms=1_000))
    ledger.change(java, append([row(5, "a"), row(5, "a")]))
    ledger.change(java, overwrite([row(3, "a"), row(6, "a")], {"p": "a"}))
    ledger.change(java, COMPACT)
    ledger.change(ours, append([row(7, "b")], watermark_ms=3_000))
    ledger.change(ours, COMPACT)
    ledger.change(ours, dynamic([row(7, "b"), row(8, None)]))
    ledger.change(java, append([row(9, "c")]))
    ledger.change(java, drop({"p": "c"}))
    table = ll.open_table(str(path))
    last = max(ledger.expected)
    states = {0: [], **ledger.expected}
    for start in range(last):
        for end in {start + 1, last}:
            told = f"{start} to {end}"
            assert_same_rows(applied(states[start], changes(table, start, end)), states[end], told)
            options = {"incremental-between": f"{start},{end}"}
            added = paimon_java.rows(path, options=options, with_kind=True)
            assert_same_rows(changes(table, start, end, overwrites=False), added, told)
    paimon_java.create_tag(path, "early", 1)
    paimon_java.create_tag(path, "late", 3)
    difference = paimon_java.rows(path, options={"incremental-between": "early,late"}, with_kind=True)
    assert_same_rows(changes(table, "early", "late"), difference)
    for watermark in (500, 1_000, 1_001, 3_000):
        seen = table.at(watermark=watermark)
        expected = paimon_java.rows(path, options={"scan.watermark": str(watermark)})
        assert_same_rows(encode_rows(seen.to_arrow(), table.schema.fields), expected, f"watermark {watermark}")
    with pytest.raises(
        InvalidArgument, match=r"no snapshot has reached the watermark .*newest watermark is 1970-01-01T00:00:03"
    ):
        table.at(watermark=3_001)


def test_changes_of_single_columns(tmp_path: Path, paimon_java: Any) -> None:
    """G8: a file with new values of some columns changes the rows that were there; it is not an append of rows."""
    path = tmp_path / "t"
    options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "bucket": "-1"}
    paimon_java.create_table(path, [("id", "INT"), ("a", "STRING"), ("b", "STRING")], options=options)
    paimon_java.commit_rows(path, [[1, "x", "k"], [2, "y", "l"]], identifier=1)
    paimon_java.write_columns(path, ["a"], [["x"], ["z"]], 0, 2)
    paimon_java.commit_rows(path, [[3, "w", "m"]], identifier=3)
    table = ll.open_table(str(path))
    assert changes(table, 0, 1) == [["+I", 1, "x", "k"], ["+I", 2, "y", "l"]]
    assert changes(table, 1, 2) == [["+I", 2, "z", "l"], ["-D", 2, "y", "l"]]
    assert changes(table, 2, 3) == [["+I", 3, "w", "m"]]
