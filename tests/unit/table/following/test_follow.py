"""Following a table: where a reader begins, that no change is lost or told twice, and what ends it."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.backends.around.metered import MeteredStore
from lakelatch.backends.memory import MemoryStore
from lakelatch.coordinator.maintenance.expiry.expire import apply_expiry, plan_expiry
from lakelatch.coordinator.maintenance.expiry.retention import Retention
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.rows.types import AtomicType, Field
from lakelatch.table.following import reader as reading
from lakelatch.table.following.position import Position
from lakelatch.table.following.reader import ChangeBatch

COUNTER = itertools.count()
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])


def new_table(**about: Any) -> ll.Table:
    return ll.create_table(f"memory://follow-{next(COUNTER)}/t", SCHEMA, **about)


def rows(*keys: int, v: str = "x") -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int64()), "v": pa.array([v] * len(keys))})


def told(batch: ChangeBatch) -> tuple[int, list[str]]:
    """A batch as its snapshot and its changes, such as (3, ["+I 7"])."""
    changes = batch.to_arrow().to_pylist()
    assert {row["_snapshot_id"] for row in changes} <= {batch.snapshot_id}
    return batch.snapshot_id, sorted(f"{row['_row_kind']} {row['k']}" for row in changes)


def all_of(table: ll.Table, start: Any = "earliest", **about: Any) -> list[tuple[int, list[str]]]:
    return [told(batch) for batch in table.follow(start, wait=0, **about)]


def expire(table: ll.Table, retain_max: int) -> None:
    """Expire the oldest snapshots, as if ten days had passed."""
    newest = table.timeline.latest()
    assert newest is not None
    retention = Retention.of(table.schema.options, newest.time_ms + 864_000_000, retain_max=retain_max, retain_min=1)
    apply_expiry(table.timeline, plan_expiry(table.timeline, table.schema, retention))


@pytest.fixture
def table() -> ll.Table:
    """Three appends, an overwrite, a compaction that changes no row, and another append."""
    made = new_table()
    for key in (1, 2, 3):
        made.append(rows(key))
    made.overwrite(rows(3, 4), partition={})
    made.append(rows(5))
    assert made.compact(full=True).receipts
    made.append(rows(6))
    return made


EVERYTHING = [
    (1, ["+I 1"]),
    (2, ["+I 2"]),
    (3, ["+I 3"]),
    (4, ["+I 4", "-D 1", "-D 2"]),
    (5, ["+I 5"]),
    (7, ["+I 6"]),
]
"""The changes of the table; snapshot 6 is the compaction, and row 3 is in both states around the overwrite."""


def test_each_start_begins_where_it_says(table: ll.Table) -> None:
    assert all_of(table, "earliest") == all_of(table, 1) == all_of(table, 0) == EVERYTHING
    assert all_of(table, 4) == EVERYTHING[3:]
    assert all_of(table, "latest") == all_of(table, 8) == []
    table.store.put("tag/tag-eod", table.store.get("snapshot/snapshot-4"))
    assert all_of(table, "eod") == EVERYTHING[4:]
    time_ms = table.at(snapshot=5).snapshot().time_ms  # type: ignore[union-attr]
    before = [s.id for s in table.snapshots() if s.time_ms < time_ms]
    moment = datetime.fromtimestamp(time_ms / 1000, timezone.utc)
    since = [change for change in EVERYTHING if change[0] > max(before)]
    assert all_of(table, moment) == all_of(table, moment.isoformat()) == since


@pytest.mark.parametrize("start", ["latest", "earliest", 1, 3, 5, 6, 7])
def test_the_state_and_what_follows_give_the_newest_state(table: ll.Table, start: Any) -> None:
    batches = list(table.follow(start, full=True, wait=0))
    assert [batch.is_state for batch in batches] == [True] + [False] * (len(batches) - 1)
    count: Counter[int] = Counter()
    for batch in batches:
        for row in batch.to_arrow().to_pylist():
            count[row["k"]] += 1 if row["_row_kind"] == "+I" else -1
    assert +count == Counter(table.to_arrow()["k"].to_pylist())


def test_a_position_is_where_another_reader_goes_on(table: ll.Table) -> None:
    for batch, rest in zip(table.follow("earliest", wait=0), range(1, 99), strict=False):
        text = str(batch.position)
        assert Position.parse(text) == batch.position == Position.from_json(batch.position.as_json())
        assert all_of(table, batch.position) == all_of(table, text) == EVERYTHING[rest:]


def test_a_reader_waits_for_what_is_committed() -> None:
    table, seen = new_table(), []
    follower = table.follow("earliest", poll=0.01, wait=10)

    def write() -> None:
        for key in range(5):
            table.append(rows(key))

    writer = threading.Thread(target=write)
    writer.start()
    for batch in follower:
        seen.append(told(batch))
        if len(seen) == 5:
            break
    writer.join()
    assert seen == [(key + 1, [f"+I {key}"]) for key in range(5)]
    assert (follower.position.snapshot_id, follower.behind) == (4, follower.newest - 4), (
        "the last one is not acknowledged"
    )
    assert list(table.follow("latest", wait=0)) == []


def test_columns_and_filters_choose_what_is_read(table: ll.Table) -> None:
    batches = list(table.follow(3, columns=["v"], where="k > 3", wait=0))
    assert [batch.to_arrow().num_rows for batch in batches] == [1, 1, 1]
    assert batches[0].schema.names == ["v", "_row_kind", "_snapshot_id", "_commit_time"]
    assert pa.table(batches[0])["v"].to_pylist() == ["x"], "a batch is a stream of Arrow's C interface"


def test_a_key_table_with_a_changelog_tells_each_change_once() -> None:
    """Rows whose changelog a later compaction writes are not part of the state with which a reader begins."""
    table = new_table(
        primary_key=["k"], options={"bucket": "1", "changelog-producer": "full-compaction", "write-only": "true"}
    )
    table.upsert(rows(1, 2, v="a"))
    table.compact(full=True)
    table.upsert(rows(2, 3, v="b"))
    first, *later = table.follow("latest", full=True, wait=0)
    assert told(first) == (3, ["+I 1", "+I 2"])
    assert later == []
    table.compact(full=True)
    assert all_of(table, first.position) == [(4, ["+I 3", "+U 2", "-U 2"])]


def test_changes_that_have_expired_are_an_error_that_says_what_to_do(table: ll.Table) -> None:
    batch = next(table.follow(2, wait=0))
    expire(table, retain_max=3)
    with pytest.raises(ll.InvalidArgument, match=r"after snapshot 2 are not all there: the oldest .* snapshot 7"):
        next(table.follow(batch.position, wait=0))
    with pytest.raises(ll.InvalidArgument, match="consumer keeps what is still to be read"):
        table.follow(2)
    assert all_of(table, "earliest") == EVERYTHING[5:]
    with pytest.raises(ll.InvalidArgument, match="after snapshot 1 are not all there"):
        batch.to_arrow()


@pytest.mark.parametrize("how", ["announced first", "snapshots last", "in any order", "done"])
def test_a_follower_that_an_expiry_overtakes_is_told_so(
    table: ll.Table, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no consumer. lakelatch announces what goes first; Apache Paimon deletes snapshots after their files."""
    follower = table.follow(1, wait=0, poll=0.01)
    next(follower)
    timeline = table.timeline
    held = [timeline.snapshot(number) for number in range(1, 7)]
    files = [table.paths.manifest(name) for s in held for name in (s.base_manifest_list, s.delta_manifest_list)]
    snapshots = [table.paths.snapshot(s.id) for s in held]
    if how == "in any order":
        table.store.delete_many([*files, snapshots[2]])
        table.store.put("snapshot/EARLIEST", b"7")
        follower = table.follow(follower.position, wait=0, poll=0.01)
    elif how == "announced first":
        table.store.put("snapshot/EARLIEST", b"7")
        table.store.delete_many(files)
    elif how == "done":
        table.store.delete_many([*files, *snapshots])
    else:
        table.store.delete_many(files)
        monkeypatch.setattr(reading, "MACHINE", SimpleNamespace(sleep=lambda s: table.store.delete_many(snapshots)))
    with pytest.raises(
        ll.InvalidArgument, match="are not all there: the oldest that are there are those of snapshot 7"
    ):
        next(follower)


def test_a_file_that_is_missing_without_an_expiry_is_damage(table: ll.Table) -> None:
    follower = table.follow(1, wait=0, poll=0.01)
    next(follower)
    table.store.delete_many([table.paths.manifest(table.timeline.snapshot(2).delta_manifest_list)])
    with pytest.raises(ll.TableCorrupt, match="is missing"):
        list(follower)


def test_a_history_that_was_rolled_back_by_deleting_snapshots_is_noticed(table: ll.Table) -> None:
    """H6: Apache Paimon's rollback frees ids, and other snapshots get them."""
    batches = list(table.follow(5, wait=0))
    follower = table.follow(batches[-1].position, wait=0)
    table.store.delete_many([*(f"snapshot/snapshot-{gone}" for gone in (7, 6, 5)), "snapshot/LATEST"])
    with pytest.raises(ll.InvalidArgument, match=r"snapshot 7, up to which .* rolled the table back"):
        next(follower)
    again = ll.open_table(table.url)
    for key in (50, 60, 70):
        again.append(rows(key))
    for batch in batches:
        with pytest.raises(ll.InvalidArgument, match="no longer part of the table's history"):
            next(again.follow(batch.position, wait=0))
    assert all_of(again, 5) == [(5, ["+I 50"]), (6, ["+I 60"]), (7, ["+I 70"])]


def test_our_own_rollback_is_a_change_like_any_other(table: ll.Table) -> None:
    position = list(table.follow(5, wait=0))[-1].position
    table.rollback(snapshot=3)
    assert all_of(table, position) == [(8, ["+I 1", "+I 2", "-D 4", "-D 5", "-D 6"])]


def test_a_table_that_was_made_again_is_noticed() -> None:
    table = new_table()
    table.append(rows(1))
    (batch,) = table.follow(1, wait=0)
    table.store.delete_many([info.key for info in table.store.list("")])
    again = ll.create_table(table.url, SCHEMA)
    again.append(rows(1))
    with pytest.raises(ll.InvalidArgument, match="made again"):
        next(again.follow(batch.position, wait=0))


def test_new_columns_appear_after_a_restart_and_a_dropped_one_is_an_error(table: ll.Table) -> None:
    follower = table.follow("latest", wait=0)
    chosen = table.follow("latest", columns=["k"], wait=0)
    other = ll.open_table(table.url)
    other.alter(ll.add_column("w", "BIGINT"))
    other.append(pa.table({"k": [7], "v": ["y"], "w": [1]}))
    batch = next(follower)
    assert batch.to_arrow().column_names[:2] == ["k", "v"]
    (anew,) = table.follow(8, wait=0)
    assert anew.to_arrow()["w"].to_pylist() == [1]
    other.alter(ll.drop_column("v"))
    other.append(pa.table({"k": [8], "w": [2]}))
    with pytest.raises(ll.InvalidArgument, match=r"column 'v'.* was dropped before snapshot 9 .*position 8@"):
        next(follower)
    assert [told(b) for b in chosen] == [(8, ["+I 7"]), (9, ["+I 8"])], "a column that is not read may go"


def test_a_column_of_another_type_ends_a_reader() -> None:
    table = ll.create_table(f"memory://follow-{next(COUNTER)}/t", pa.schema([("k", pa.int32())]))
    follower = table.follow("latest", wait=0)
    other = ll.open_table(table.url)
    other.alter(ll.update_type("k", "BIGINT"))
    other.append(pa.table({"k": [1 << 40]}))
    with pytest.raises(ll.InvalidArgument, match=r"column 'k'.* is BIGINT since snapshot 1, and was INT"):
        next(follower)


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ("no-such-tag", "none of latest, earliest, no tag"),
        (99, "no snapshot 99 to start at.*newest is snapshot 7"),
        (True, "no start"),
        ("7@", "rolled"),
        ("x@y", "not a position"),
    ],
)
def test_a_start_that_does_not_exist_is_an_error(table: ll.Table, start: Any, message: str) -> None:
    if start == "7@":  # a position without an identity is taken as it is
        assert all_of(table, start) == []
        return
    with pytest.raises(ll.InvalidArgument, match=message):
        table.follow(start)


def test_a_table_without_snapshots_can_be_followed() -> None:
    table = new_table()
    for start in ("latest", "earliest", 1):
        follower = table.follow(start, full=True, wait=0)
        assert list(follower) == []
    position = follower.position
    table.append(rows(1))
    assert all_of(table, position) == [(1, ["+I 1"])]
    with pytest.raises(ll.InvalidArgument, match="never changes"):
        table.at(snapshot=1).follow()
    with pytest.raises(ll.InvalidArgument, match="compares two states"):
        table.follow(mode="diff")


def next_of(table: ll.Table, name: str) -> int:
    return next(consumer.next_snapshot for consumer in table.consumers() if consumer.name == name)


def test_a_consumer_is_moved_only_past_batches_that_were_worked_on(table: ll.Table) -> None:
    """A reader that fails on a batch gets it again; one that goes on under the same name begins where the other was."""
    seen = []

    def work() -> None:
        for batch in table.follow("earliest", consumer="etl", wait=0):
            if batch.snapshot_id == 4 and 4 not in seen:
                seen.append(4)
                raise OSError("the target is down")
            seen.append(batch.snapshot_id)

    with pytest.raises(OSError, match="down"):
        work()
    assert next_of(table, "etl") == 4
    work()
    assert seen == [1, 2, 3, 4, 4, 5, 7]
    assert next_of(table, "etl") == 8
    table.append(rows(8))
    for batch in table.follow("earliest", consumer="etl", wait=0):
        batch.acknowledge()
        break
    assert next_of(table, "etl") == 9
    assert all_of(table, "earliest", consumer="etl") == []


def test_expiry_keeps_what_a_consumer_has_still_to_read(table: ll.Table) -> None:
    table.follow(5, consumer="etl")
    expire(table, retain_max=1)
    assert all_of(table, "latest", consumer="etl") == EVERYTHING[4:]
    expire(table, retain_max=1)
    with pytest.raises(ll.InvalidArgument, match="oldest"):
        table.follow(2, consumer="other")
    assert [consumer.name for consumer in table.consumers()] == ["etl"]


def test_a_state_that_was_not_read_to_its_end_is_read_again(table: ll.Table) -> None:
    follower = table.follow("latest", consumer="copy", full=True, wait=0)
    assert next(follower).is_state
    assert table.consumers() == []
    follower.close()
    batches = list(table.follow("latest", consumer="copy", full=True, wait=0))
    assert [batch.is_state for batch in batches] == [True]
    assert next_of(table, "copy") == 8
    assert list(table.follow("latest", consumer="copy", full=True, wait=0)) == []


def test_what_a_look_for_new_changes_costs() -> None:
    """What was listed when following began is not listed again: the next id is asked for."""
    store = MeteredStore(MemoryStore(f"memory://follow-{next(COUNTER)}"))
    schema = new_schema([Field(0, "k", AtomicType("BIGINT"))])
    store.put("schema/schema-0", schema.to_json())
    table = ll.Table(store, schema, first_schema=schema.to_json())
    costs = []
    for _ in range(2):
        table.append(pa.table({"k": [1]}))
        table.committer.settle()
        follower = table.follow(1 + len(costs), wait=0)
        store.reset()
        batches = list(follower)
        costs.append((len(batches), dict(store.snapshot().by_operation)))
    assert costs == [(1, {"get": 6, "list": 1}), (1, {"get": 7, "list": 1})], "a glance, one snapshot, and a glance"
