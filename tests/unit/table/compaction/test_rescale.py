"""Partitions are rewritten into another number of buckets; no row is lost or doubled, whatever other writers do meanwhile."""

from __future__ import annotations

import itertools

import pytest
from unit.table.compaction.test_compact_keys import again, batch, created, levels, upsert, values

import lakelatch as ll
from lakelatch.core.errors import CommitConflict, InvalidArgument, Unsupported
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.metadata.snapshot import OPERATIONS
from lakelatch.table.compaction import rescale as rescaling
from lakelatch.table.table import Table

LATE = (1 << 63) - 1000
"""A sequence number above those that the clock gives."""


def buckets(table: Table) -> dict[int, set[int]]:
    """The buckets with files, by bucket count."""
    found: dict[int, set[int]] = {}
    for entry in table.entries():
        found.setdefault(entry.total_buckets, set()).add(entry.bucket)
    return found


def filled(**options: str) -> Table:
    table = created(**options)
    for part in ("a", "b"):
        table.upsert(batch(part, {k: k for k in range(50)}))
        table.upsert(batch(part, {k: -k for k in range(0, 50, 3)}))
    table.delete(keys=batch("a", {1: None, 3: None}).select(["part", "k"]))
    return table


def test_every_partition_has_the_new_number_of_buckets() -> None:
    table = filled()
    before = values(table)
    table.alter(ll.set_option("bucket", "4"))
    with pytest.raises(CommitConflict, match="another_bucket_count"):
        table.upsert(batch("a", {1: 1}))
    receipts = table.rescale()
    assert [receipt.kind for receipt in receipts] == ["OVERWRITE"] * 2
    assert buckets(table) == {4: {0, 1, 2, 3}} and values(table) == before
    assert {level for level, _, _ in levels(table)} == {5}
    table.upsert(batch("a", {1: 1}))
    assert values(table) == before | {("a", 1): 1}
    assert table.to_arrow(where="part = 'a' and k = 2").num_rows == 1
    table.alter(ll.set_option("bucket", "3"))
    assert len(table.rescale("part = 'a'")) == 1
    assert buckets(table) == {3: {0, 1, 2}, 4: {0, 1, 2, 3}}
    assert len(table.rescale()) == 1 and table.rescale() == []
    assert {s.operation for s in table.snapshots()} <= set(OPERATIONS), "decision 87"
    assert buckets(table) == {3: {0, 1, 2}} and values(table) == before | {("a", 1): 1}
    assert table.verify("all", data=True) == []


def test_rows_keep_their_sequence_numbers() -> None:
    """An older row that comes late, or a newer one, counts as it would have before."""
    table = created()
    upsert(table, "a", {1: 1, 2: 2}, number=1 << 60)
    table.alter(ll.set_option("bucket", "2"))
    table.rescale()
    assert {e.file.max_sequence_number for e in table.entries()} <= {1 << 60, (1 << 60) + 1}


def test_rows_that_readers_do_not_see_yet_are_kept() -> None:
    table = created(merge_engine="first-row", bucket="1")
    upsert(table, "a", {1: 1, 2: 2})
    assert values(table) == {}
    table.alter(ll.set_option("bucket", "2"))
    table.rescale()
    assert values(table) == {("a", 1): 1, ("a", 2): 2}


def test_an_upsert_meanwhile_is_a_conflict_after_which_the_partition_is_read_again() -> None:
    table = filled()
    other = again(table)  # a job that began before the option was changed
    table.alter(ll.set_option("bucket", "4"))
    table.store.before_create.append(lambda: upsert(other, "a", {1: 77}, number=LATE))
    assert len(table.rescale()) == 2
    assert values(table)["a", 1] == 77 and buckets(table) == {4: {0, 1, 2, 3}}
    assert table.verify("all", data=True) == []


def test_a_compaction_meanwhile_does_not_stop_it_and_gives_up_if_it_comes_later() -> None:
    table = filled()
    before, other = values(table), again(table)
    table.alter(ll.set_option("bucket", "4"))
    table.store.before_create.append(lambda: other.compact("part = 'a'", full=True))
    assert len(table.rescale("part = 'a'")) == 1
    table.store.before_create.append(lambda: table.rescale())
    assert [given.partition for given in other.compact(full=True).given_up] == ["part=b"]
    assert values(table) == before and buckets(table) == {4: {0, 1, 2, 3}}


def test_it_ends_with_the_conflict_if_others_never_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rescaling, "MOST_ATTEMPTS", 2)
    table, later = filled(), itertools.count(LATE)
    other = again(table)  # a job that began before the option was changed
    table.alter(ll.set_option("bucket", "4"))
    table.store.before_create += [lambda: upsert(other, "a", {1: 77}, number=next(later)), lambda: None] * 2
    with pytest.raises(CommitConflict, match="read 2 times"):
        table.rescale("part = 'a'")


def test_what_has_no_fixed_buckets_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="'bucket' = -1"):
        created(bucket="-1").rescale()
    table = created()
    plain = Table(table.store, new_schema(table.schema.fields, options={"bucket": "2", "bucket-key": "k"}))
    plain.timeline.store.put("schema/schema-0", plain.schema.to_json())
    with pytest.raises(Unsupported, match="without a primary key"):
        plain.rescale()
    with pytest.raises(InvalidArgument, match="chooses rows"):
        created().rescale("k = 1")
