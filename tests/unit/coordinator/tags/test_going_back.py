"""Going back to what only a tag still has: reading it, and making it the newest state."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.coordinator.maintenance.expiry.expire import apply_expiry, plan_expiry
from lakelatch.coordinator.maintenance.expiry.retention import Retention
from lakelatch.core.errors import InvalidArgument
from lakelatch.table.table import Table

COUNTER = itertools.count()
SCHEMA = pa.schema([pa.field("k", pa.int32(), nullable=False), ("v", pa.string())])
KINDS: dict[str, dict[str, Any]] = {
    "append": {},
    "fixed buckets": {"primary_key": ["k"], "options": {"bucket": "2"}},
    "changelog by lookup": {"primary_key": ["k"], "options": {"bucket": "1", "changelog-producer": "lookup"}},
    "dynamic buckets": {"primary_key": ["k"], "options": {"bucket": "-1", "dynamic-bucket.target-row-num": "3"}},
    "deletion vectors": {"primary_key": ["k"], "options": {"bucket": "1", "deletion-vectors.enabled": "true"}},
}

SHOWN_BY_COMPACTION = ("changelog by lookup", "deletion vectors")


def rows(v: str, *keys: int) -> pa.Table:
    return pa.table({"k": list(keys), "v": [v] * len(keys)}).cast(SCHEMA)


def lived(kind: str) -> tuple[Table, dict[int, list[Any]]]:
    """A table with a tag `early` of a snapshot that has expired, and the rows of each snapshot."""
    table = ll.create_table(f"memory://back-{next(COUNTER)}/t", SCHEMA, **KINDS[kind])
    table.append(rows("a", 1, 2, 3, 4, 5))
    table.append(rows("b", 2, 6))
    table.create_tag("early")
    table.compact(full=True)
    table.overwrite(rows("c", 7, 8), partition={})
    table.append(rows("d", 9))
    table.committer.settle()
    states = {n: held(table.at(snapshot=n)) for n in table.timeline.snapshot_ids()}
    newest = table.timeline.latest()
    assert newest is not None
    retention = Retention.of(table.schema.options, newest.time_ms + 10**9, retain_max=1)
    apply_expiry(table.timeline, plan_expiry(table.timeline, table.schema, retention))
    return table, states


def held(table: Any) -> list[Any]:
    return sorted(tuple(row.items()) for row in table.to_arrow().to_pylist())


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_that_only_a_tag_has_comes_back(kind: str) -> None:
    table, states = lived(kind)
    early = table.at(tag="early").snapshot()
    assert early is not None
    newest = table.rollback(tag="early").snapshot_id
    table = Table(table.store, table.timeline.latest_schema())
    assert held(table) == states[early.id]
    assert table.verify("all", data=True) == []
    first = table.append(rows("z", 1, 99)).snapshot_id
    for number in reversed(range(first, table.timeline.snapshot_ids()[-1] + 1)):  # compactions came after it
        shows = table.at(snapshot=number).snapshot().commit_kind == "COMPACT" and kind in SHOWN_BY_COMPACTION
        if shows:  # what makes rows visible is not taken back by itself, but together with them
            with pytest.raises(InvalidArgument, match="is a compaction"):
                table.undo(number)
            table.rollback(snapshot=newest)
            break
        table.undo(number)
    assert held(Table(table.store, table.schema)) == states[early.id]
    for tag in table.tags():
        table.delete_tag(tag.name)
    assert held(table.at(snapshot=newest)) == states[early.id]
    assert table.verify(data=True) == []


def test_what_has_expired_is_found_among_the_tags() -> None:
    """By its id, and by time: the newest tag that is not later. A snapshot that exists comes first."""
    table, states = lived("append")
    table.create_tag("late")
    early, late = (tag.snapshot for tag in table.tags())
    assert held(table.at(snapshot=early.id)) == states[early.id]
    assert held(table.at(timestamp=early.time_ms)) == states[early.id]
    assert held(table.at(timestamp=late.time_ms)) == states[late.id]
    with pytest.raises(InvalidArgument, match="no snapshot is as old"):
        table.at(timestamp=early.time_ms - 100_000)
    with pytest.raises(InvalidArgument, match=f"there is no snapshot {early.id - 1}"):
        table.at(snapshot=early.id - 1)
    assert table.rollback(timestamp=early.time_ms).kind == "OVERWRITE"
    assert held(Table(table.store, table.schema)) == states[early.id]
