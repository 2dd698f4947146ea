"""A job that runs again under its identity with rows that are evidently others is told (H8)."""

from __future__ import annotations

import itertools
import logging
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll

COUNTER = itertools.count()


def rows(number: int) -> pa.Table:
    return pa.table({"v": pa.array(range(number), pa.int64())})


def made(**options: str) -> ll.Table:
    table = ll.create_table(f"memory://replays-{next(COUNTER)}/t", rows(1).schema, options=options)
    table.append(rows(10), commit_user="etl", identifier=1)
    return table


@pytest.mark.parametrize(
    ("again", "told"),
    [
        (lambda table, about: table.append(rows(10), **about), None),
        (lambda table, about: table.append(rows(7), **about), "appended 10 rows, and these are 7"),
        (lambda table, about: table.append(rows(7).to_batches()[0], **about), "appended 10 rows, and these are 7"),
        (lambda table, about: table.append(iter(rows(7).to_batches()), **about), None),
        (lambda table, about: table.overwrite(rows(10), **about), "was APPEND, and this is OVERWRITE"),
    ],
    ids=["the same", "fewer", "a batch", "unknown before it is read", "an overwrite"],
)
def test_a_replay_of_other_rows_is_told(again: Any, told: str | None, caplog: pytest.LogCaptureFixture) -> None:
    about = {"commit_user": "etl", "identifier": 1}
    with caplog.at_level(logging.WARNING, "lakelatch"):
        table = made()
        receipt = again(table, about)
    assert (receipt.replayed, receipt.snapshot_id, table.count()) == (True, 1, 10)
    if told is None:
        assert caplog.text == ""
    else:
        assert f"etl/1 had landed before and {told}" in caplog.text
        assert "snapshot 1 (APPEND by etl/1)" in caplog.text
    strict = made(**{"commit.replay": "error"})
    if told is None:
        assert again(strict, about).replayed
    else:
        with pytest.raises(ll.InvalidArgument, match=told):
            again(strict, about)
    assert strict.count() == 10


def test_two_parts_of_a_replayed_transaction_count_together(caplog: pytest.LogCaptureFixture) -> None:
    table = made()
    with caplog.at_level(logging.WARNING, "lakelatch"):
        with table.transaction(commit_user="etl", identifier=1) as tx:
            tx.append(rows(4))
            tx.append(rows(6))
        assert caplog.text == ""
        with table.transaction(commit_user="etl", identifier=1) as tx:
            tx.append(rows(4))
    assert "appended 10 rows, and these are 4" in caplog.text


DAYS = pa.table({"d": ["a", "a", "b"], "h": [1, 2, 1]})
DAY_A, HOUR_1, HOUR_2 = {"d": "a"}, {"d": "a", "h": 1}, {"d": "a", "h": 2}


@pytest.mark.parametrize(
    ("first", "again", "told"),
    [
        (DAY_A, DAY_A, None),
        (DAY_A, {"d": "b"}, "replaced d=a, and this replaces d=b"),
        (HOUR_1, HOUR_2, "replaced d=a/h=1, and this replaces d=a/h=2"),
        (HOUR_1, {"h": 1, "d": "a"}, None),
        (HOUR_1, DAY_A, "replaced d=a/h=1, and this replaces d=a"),
        ({}, DAY_A, "replaced the whole table, and this replaces d=a"),
        (DAY_A, {}, "replaced d=a, and this replaces the whole table"),
        (DAY_A, None, "replaced d=a, and this replaces the partitions of its rows"),
        (None, DAY_A, None),
    ],
)
def test_a_replay_that_replaces_another_partition_is_told(
    first: Any, again: Any, told: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """What the first one named stands in its snapshot, which the look for the identity has read. A dynamic one names none."""

    def overwrite(table: ll.Table, partition: Any) -> Any:
        chosen = {"dynamic": True} if partition is None else {"partition": partition}
        return table.overwrite(DAYS.slice(0, 0), commit_user="etl", identifier=1, **chosen)

    for options in ({}, {"commit.replay": "error"}):
        url = f"memory://replays-{next(COUNTER)}/t"
        table = ll.create_table(url, DAYS.schema, partition_by=["d", "h"], options=options)
        table.append(DAYS)
        before = overwrite(table, first)
        table.append(DAYS)
        if told is not None and options:
            with pytest.raises(ll.InvalidArgument, match=told):
                overwrite(table, again)
        else:
            with caplog.at_level(logging.WARNING, "lakelatch"):
                receipt = overwrite(table, again)
            assert (receipt.replayed, receipt.snapshot_id) == (True, before.snapshot_id)
        assert table.timeline.latest().id == 3
    assert f"etl/1 had landed before and {told}" in caplog.text if told else caplog.text == ""


def test_a_replay_that_drops_other_partitions_is_told(caplog: pytest.LogCaptureFixture) -> None:
    table = ll.create_table(f"memory://replays-{next(COUNTER)}/t", DAYS.schema, partition_by=["d", "h"])
    table.append(DAYS)
    about = {"commit_user": "etl", "identifier": 1}
    with caplog.at_level(logging.WARNING, "lakelatch"):
        table.drop_partitions([DAY_A], **about)
        assert table.drop_partitions([DAY_A], **about).replayed
        assert caplog.text == ""
        assert table.drop_partitions([{"d": "b"}], **about).replayed
    assert "replaced d=a, and this replaces d=b" in caplog.text


def test_a_replay_beside_a_garbled_property_is_a_replay(caplog: pytest.LogCaptureFixture) -> None:
    """The first one has landed, whatever another writer has written beside it."""
    table = ll.create_table(f"memory://replays-{next(COUNTER)}/t", DAYS.schema, partition_by=["d", "h"])
    about = {"partition": DAY_A, "commit_user": "etl", "identifier": 1}
    table.overwrite(DAYS.slice(0, 2), **about)
    text = table.store.get("snapshot/snapshot-1")
    garbled = text.replace(b'[\\"d=a\\"]', b"[d")
    assert garbled != text
    table.store.put("snapshot/snapshot-1", garbled)
    again = ll.open_table(table.url)
    with caplog.at_level(logging.WARNING, "lakelatch"):
        assert again.overwrite(DAYS.slice(0, 2), **about).replayed
    assert caplog.text == ""


def test_rows_with_keys_are_not_counted(caplog: pytest.LogCaptureFixture) -> None:
    """Of several rows of a key one is stored."""
    keyed = pa.schema([pa.field("v", pa.int64(), False)])
    table = ll.create_table(f"memory://replays-{next(COUNTER)}/t", keyed, primary_key=["v"], options={"bucket": "1"})
    twice = pa.table({"v": [1, 1, 2]}, keyed)
    for replayed in (False, True):
        with caplog.at_level(logging.WARNING, "lakelatch"):
            assert table.upsert(twice, commit_user="etl", identifier=1).replayed is replayed
    assert caplog.text == ""


def test_files_that_a_replay_does_not_hand_over_are_not_counted() -> None:
    """Spark's workers write none for a commit that has landed."""
    with made(**{"commit.replay": "error"}).transaction(commit_user="etl", identifier=1) as tx:
        tx.append_messages([])
    assert tx.receipt.replayed


def test_what_is_computed_from_rows_of_the_table_may_be_other_rows_the_second_time() -> None:
    table = made(**{"commit.replay": "error"})
    with table.transaction(commit_user="etl", identifier=1) as tx:
        tx.update_messages([], table.timeline.latest())
    assert tx.receipt.replayed
