"""Do lakelatch and Apache Paimon (Java) agree about a table, at every snapshot, with what a test knows to be in it?

Owns: the comparison of rows, filtered rows, files, counts and snapshot fields. Must not know: how the table came about.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from golden_filters import golden_predicate
from values import Row, assert_same_rows, encode_rows

import lakelatch as ll
from lakelatch.core.rows.values import root_of

from .filters import Filter, kept

UNKNOWN_TO_JAVA = {"operation", "writerVersion", "uuid"}
"""Snapshot fields of later versions of the format: Java 1.4.2 skips them."""


def our_rows(table: ll.Table) -> list[Row]:
    """What lakelatch reads, encoded."""
    return encode_rows(table.to_arrow(), table.schema.fields)


def assert_agreed(java: Any, path: Path, expected: Mapping[int, Sequence[Row]]) -> None:
    """Everything that can be compared without a filter.

    Args:
        expected: the rows of each snapshot that the table has, and of no other.
    """
    table = ll.open_table(str(path))
    assert_same_snapshots(java, path)
    assert [s.id for s in table.snapshots()] == sorted(expected)
    for snapshot in table.snapshots():
        where = f"{path.name} at snapshot {snapshot.id}"
        rows = expected[snapshot.id]
        assert_same_rows(java.rows(path, snapshot=snapshot.id), rows, f"Java, {where}")
        then = table.at(snapshot=snapshot.id)
        assert_same_rows(our_rows(then), rows, f"lakelatch, {where}")
        assert then.count() == snapshot.total_record_count == len(rows), where
        planned = java.plan(path, snapshot=snapshot.id)
        assert sum(split["rows"] for split in planned) == len(rows), where
        ours = sorted(entry.file.file_name for entry in then.entries())
        assert sorted(name for split in planned for name in split["files"]) == ours, where
    assert_same_rows(java.rows(path), expected[max(expected)], f"Java, {path.name}")
    found = table.verify("all", data=True)
    assert [f for f in found if f.field != "_EXTERNAL_PATH" or f.severity == "error"] == []


def assert_same_snapshots(java: Any, path: Path) -> None:
    """Every field of every snapshot means the same to both."""
    for theirs, snapshot in zip(java.snapshots(path), ll.open_table(str(path)).snapshots(), strict=True):
        ours = json.loads(snapshot.to_json())
        for key in ours.keys() | {key for key, value in theirs.items() if value is not None}:
            if key not in UNKNOWN_TO_JAVA:
                assert theirs.get(key) == ours.get(key), f"{path.name}, snapshot {snapshot.id}, field {key}"


def assert_filters_agree(
    java: Any,
    path: Path,
    rows: Sequence[Row],
    filters: Iterable[Filter],
    *,
    snapshot: int | None = None,
    columns: Sequence[str] | None = None,
) -> tuple[int, int]:
    """Java, by our statistics, and lakelatch give the rows that each filter keeps, and lakelatch opens no more files.

    But for floats: bounds of writers who know no NaN look the same, so lakelatch believes them less than Java does.

    Args:
        rows: all rows of the snapshot, by default the latest.
        columns: what is read; by default all.

    Returns:
        Files that Java opened over all filters, and files that there are to be opened.
    """
    table = ll.open_table(str(path))
    if snapshot is not None:
        table = table.at(snapshot=snapshot)
    fields = table.schema.fields
    types = {f.name: f.type for f in fields}
    chosen = [f for f in fields if columns is None or f.name in columns]
    places = [fields.index(f) for f in chosen]
    opened = there = 0
    for filter_ in filters:
        wanted = [[row[place] for place in places] for row in kept(rows, filter_, fields)]
        what = f"{path.name}, {str(filter_)[:120]}"
        found = java.rows(path, snapshot=snapshot, columns=columns, predicate=filter_)
        assert_same_rows(found, wanted, f"Java, {what}")
        where = golden_predicate(filter_, types)
        ours = encode_rows(table.to_arrow(columns=columns, where=where), chosen)
        assert_same_rows(ours, wanted, f"lakelatch, {what}")
        planned = sum(len(split["files"]) for split in java.plan(path, snapshot=snapshot, predicate=filter_))
        assert table.plan(where).file_count <= planned or root_of(types[filter_[1]]) in ("FLOAT", "DOUBLE"), what
        opened, there = opened + planned, there + len(table.entries())
    return opened, there
