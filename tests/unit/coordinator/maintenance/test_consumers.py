"""Consumers: reading, setting, deleting and expiring them, in every branch, and beside an expiry."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.coordinator.maintenance.expiry.consumers import (
    Consumer,
    expire_consumers,
    list_consumers,
    place_consumer,
    read_consumer,
    write_consumer,
)
from lakelatch.coordinator.maintenance.expiry.expire import apply_expiry, plan_expiry
from lakelatch.coordinator.maintenance.expiry.retention import Retention
from lakelatch.core.errors import CommitConflict, InvalidArgument, TableCorrupt
from lakelatch.table.table import Table

COUNTER = itertools.count()


@pytest.fixture
def table() -> Table:
    """Five snapshots."""
    made = ll.create_table(f"memory://consumers-{next(COUNTER)}/t", pa.schema([("v", pa.int64())]))
    for value in range(5):
        made.append(pa.table({"v": [value]}))
    made.committer.settle()
    return made


def plan(table: Table, keep: int) -> Any:
    retention = Retention.of(table.schema.options, 2**62, retain_max=keep)
    return plan_expiry(table.timeline, table.schema, retention)


def told(table: Table) -> dict[str, int]:
    return {consumer.name: consumer.next_snapshot for consumer in table.consumers()}


def test_a_consumer_is_set_moved_and_deleted(table: Table) -> None:
    assert table.consumers() == []
    made = table.set_consumer("etl", 2)
    assert (made.name, made.next_snapshot) == ("etl", 2) and made.modified_ms > 0
    assert table.store.get("consumer/consumer-etl") == b'{"nextSnapshot": 2}'
    table.set_consumer("etl", 4)
    table.set_consumer("all", "earliest")
    table.set_consumer("new", "latest")
    assert told(table) == {"all": 1, "etl": 4, "new": 6}
    assert read_consumer(table.timeline, "etl") == 4
    assert read_consumer(table.timeline, "nobody") is None
    assert table.delete_consumer("etl") and not table.delete_consumer("etl")
    assert told(table) == {"all": 1, "new": 6}


def test_each_branch_has_its_own_consumers(table: Table) -> None:
    for name in ("schema/schema-0", "snapshot/snapshot-2"):
        table.store.put(f"branch/branch-dev/{name}", table.store.get(name))
    branch = table.branch("dev")
    branch.set_consumer("etl", 2)
    assert told(branch) == {"etl": 2} and told(table) == {}
    assert table.store.get("branch/branch-dev/consumer/consumer-etl") == b'{"nextSnapshot": 2}'
    table.set_consumer("etl", 3)
    assert branch.delete_consumer("etl") and told(table) == {"etl": 3}


@pytest.mark.parametrize("name", ["", " ", "a/b", "a\\b", "..", ".", "a\0b"])
def test_a_name_that_cannot_be_a_file_is_refused(table: Table, name: str) -> None:
    """H16: neither written, nor read, nor deleted."""
    for call in (lambda: table.set_consumer(name, 1), lambda: table.delete_consumer(name)):
        with pytest.raises(InvalidArgument, match="consumer"):
            call()
    with pytest.raises(InvalidArgument):
        read_consumer(table.timeline, name)


@pytest.mark.parametrize("wanted", [0, -1, True, "3", None, 1.5])
def test_what_is_no_snapshot_id_is_refused(table: Table, wanted: Any) -> None:
    with pytest.raises(InvalidArgument, match="next_snapshot"):
        table.set_consumer("etl", wanted)
    with pytest.raises(InvalidArgument, match="next_snapshot"):
        write_consumer(table.timeline, "etl", wanted)
    assert table.consumers() == []


def test_a_snapshot_that_has_expired_cannot_be_read_next(table: Table) -> None:
    apply_expiry(table.timeline, plan(table, keep=2))
    with pytest.raises(InvalidArgument, match="oldest changes are those of 4"):
        table.set_consumer("etl", 3)
    assert table.consumers() == []
    table.set_consumer("etl", "earliest")
    assert told(table) == {"etl": 4}
    with pytest.raises(InvalidArgument, match="set it to 4 or later"):
        table.set_consumer("etl", 1)
    assert told(table) == {"etl": 4}, "it is what it was before"


def test_a_consumer_that_comes_between_plan_and_deletion_stops_the_expiry(table: Table) -> None:
    """H10: whichever comes first, the consumer is refused or the snapshot stays."""
    made = plan(table, keep=1)
    table.set_consumer("etl", 2)
    with pytest.raises(CommitConflict, match="'etl' reads snapshot 2"):
        apply_expiry(table.timeline, made)
    assert table.timeline.snapshot_ids() == [1, 2, 3, 4, 5]
    table.set_consumer("etl", 2)
    assert apply_expiry(table.timeline, plan(table, keep=1)).snapshot_ids == (1,)


def test_a_consumer_is_refused_once_an_expiry_has_announced_itself(table: Table) -> None:
    """Decision 10, the other side: EARLIEST rises between the consumer's first look and its file."""
    store, put = table.store, table.store.put

    def announced(key: str, data: bytes) -> None:
        put(key, data)
        if key.startswith("consumer/"):
            put("snapshot/EARLIEST", b"4")

    store.put = announced  # type: ignore[method-assign]
    with pytest.raises(InvalidArgument, match="oldest changes are those of 4"):
        place_consumer(table.timeline, "etl", 2)
    assert table.consumers() == []


def test_consumers_that_have_not_moved_for_long_expire(table: Table) -> None:
    for name, snapshot in (("idle", 1), ("busy", 2)):
        table.set_consumer(name, snapshot)
    newest = max(consumer.modified_ms for consumer in table.consumers())
    assert table.expire_consumers() == [], "without the option none does"
    assert [c.name for c in table.expire_consumers(older_than=newest + 1, dry_run=True)] == ["busy", "idle"]
    assert len(table.consumers()) == 2
    moved = [Consumer("busy", 2, newest - 5), *(c for c in table.consumers() if c.name == "idle")]
    assert [c.name for c in expire_consumers(table.timeline, moved)] == ["idle"], "the other has moved since"
    assert told(table) == {"busy": 2}
    table.alter(ll.set_option("consumer.expiration-time", "1 h"))
    assert table.expire_consumers() == []
    table.alter(ll.set_option("consumer.expiration-time", "0 ms"))
    table.store.put("consumer/consumer-busy", b'{"nextSnapshot": 3}')
    while not (gone := table.expire_consumers()):
        pass  # until the clock has moved a millisecond
    assert [c.name for c in gone] == ["busy"] and table.consumers() == []


def test_a_file_that_is_being_written_is_read_again(table: Table) -> None:
    """Apache Paimon writes it in place: for a moment it is empty."""
    table.set_consumer("etl", 3)
    answers = [b"", b'{"nextSn']
    store, get = table.store, table.store.get
    store.get = lambda key: answers.pop() if answers and key.startswith("consumer/") else get(key)  # type: ignore[method-assign]
    assert told(table) == {"etl": 3} and not answers
    del store.get  # type: ignore[method-assign]
    table.store.put("consumer/consumer-etl", b"")
    with pytest.raises(TableCorrupt, match="consumer/consumer-etl does not say"):
        list_consumers(table.timeline)


def test_a_table_of_an_earlier_snapshot_sets_nothing(table: Table) -> None:
    earlier = table.at(snapshot=2)
    for call in (
        lambda: earlier.set_consumer("etl", 1),
        lambda: earlier.delete_consumer("etl"),
        earlier.expire_consumers,
    ):
        with pytest.raises(InvalidArgument, match="read only"):
            call()
