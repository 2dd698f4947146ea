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


def test_rows_with_keys_are_not_counted(caplog: pytest.LogCaptureFixture) -> None:
    """Of several rows of a key one is stored."""
    keyed = pa.schema([pa.field("v", pa.int64(), False)])
    table = ll.create_table(f"memory://replays-{next(COUNTER)}/t", keyed, primary_key=["v"], options={"bucket": "1"})
    twice = pa.table({"v": [1, 1, 2]}, keyed)
    for replayed in (False, True):
        with caplog.at_level(logging.WARNING, "lakelatch"):
            assert table.upsert(twice, commit_user="etl", identifier=1).replayed is replayed
    assert caplog.text == ""
