"""A transaction is several appends or one overwrite; what it says before and after, and what it looks up before it begins."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from changes import Raced, meanwhile

import lakelatch as ll
from lakelatch.backends.around.metered import MeteredStore
from lakelatch.core.errors import CommitConflict, InvalidArgument, Unsupported
from lakelatch.table.table import Table
from lakelatch.table.writing.transaction import Transaction
from lakelatch.table.writing.writer import TableWriter

NUMBERS = itertools.count()
ROWS = pa.table({"p": [1, 2, 1], "v": [1, 2, 3]})


def made(*key: str, partitioned: bool = True, **options: str) -> Table:
    store = Raced(f"memory://transactions-{next(NUMBERS)}/t")
    texts = {name.replace("__", ".").replace("_", "-"): text for name, text in options.items()}
    about: dict[str, Any] = {"primary_key": list(key) or None, "partition_by": ["p"] if partitioned else []}
    created = ll.create_table(store.url, ROWS.schema, options=texts, **about)
    return Table(store, created.schema)


def values(table: Table) -> list[int]:
    return sorted(Table(table.store, table.schema).to_arrow()["v"].to_pylist())


def data_keys(table: Table) -> set[str]:
    return {info.key for info in table.store.list("") if "bucket-" in info.key}


def test_a_transaction_has_a_receipt_only_after_it_has_ended_well() -> None:
    table = made()
    with table.transaction(commit_user="etl", identifier=4) as tx:
        assert (tx.commit_user, tx.replayed) == ("etl", False)
        tx.append(ROWS)
        tx.append(ROWS.slice(1))
        with pytest.raises(InvalidArgument, match="has not been committed"):
            _ = tx.receipt
    assert (tx.receipt.snapshot_id, tx.receipt.kind, tx.replayed) == (1, "APPEND", False)
    assert values(table) == [1, 2, 2, 3, 3]
    with pytest.raises(ZeroDivisionError), table.transaction() as lost:
        lost.append(ROWS)
        raise ZeroDivisionError
    with pytest.raises(InvalidArgument, match="has not been committed"):
        _ = lost.receipt
    first, second = table.transaction(), table.transaction()
    assert first.commit_user != second.commit_user, "each has a user of its own, by which its snapshot is found"


def test_a_transaction_without_any_change_is_an_error_and_commits_nothing() -> None:
    table = made()
    with pytest.raises(InvalidArgument, match="the transaction changed nothing"), table.transaction():
        pass
    assert table.snapshot() is None


def test_a_replayed_transaction_without_any_change_is_a_replay(caplog: pytest.LogCaptureFixture) -> None:
    """It names no rows, so that it does not say that they are others."""
    for options in ({}, {"commit__replay": "error"}):
        table = made(**options)
        table.append(ROWS, commit_user="etl", identifier=1)
        with caplog.at_level(logging.WARNING, "lakelatch"):
            with table.transaction(commit_user="etl", identifier=1) as tx:
                assert tx.replayed and tx.receipt.snapshot_id == 1
        assert tx.receipt.replayed and caplog.text == "" and values(table) == [1, 2, 3]


def test_an_error_in_a_replayed_transaction_is_that_error() -> None:
    table = made(commit__replay="error")
    table.append(ROWS, commit_user="etl", identifier=1)
    with pytest.raises(ZeroDivisionError), table.transaction(commit_user="etl", identifier=1) as tx:
        tx.append(ROWS.slice(1))
        raise ZeroDivisionError


Change = Callable[[Transaction], Any]
CHANGES: dict[str, Change] = {
    "append": lambda tx: tx.append(ROWS),
    "overwrite": lambda tx: tx.overwrite(ROWS, dynamic=True),
    "drop": lambda tx: tx.drop_partitions(["p=1"]),
    "truncate": lambda tx: tx.truncate(),
}


@pytest.mark.parametrize(("first", "second"), [*itertools.product(CHANGES, CHANGES)])
def test_only_appends_go_together(first: str, second: str) -> None:
    table = made()
    table.append(ROWS)
    before = data_keys(table)
    if first == second == "append":
        with table.transaction() as tx:
            CHANGES[first](tx)
            CHANGES[second](tx)
        assert values(table) == [1, 1, 1, 2, 2, 2, 3, 3, 3]
        return
    with pytest.raises(InvalidArgument, match="either appends or one overwrite"), table.transaction() as tx:
        CHANGES[first](tx)
        CHANGES[second](tx)
    assert values(table) == [1, 2, 3] and len(list(table.snapshots())) == 1
    assert data_keys(table) == before


@pytest.mark.parametrize(
    ("partitions", "told"),
    [
        ([], "at least one partition column per partition"),
        ([{}], "at least one partition column per partition"),
        (["p=1", {}], "at least one partition column per partition"),
        ("p=1", "a list of partitions"),
        (["v=1"], "'v'"),
    ],
)
def test_partitions_to_drop_are_named(partitions: Any, told: str) -> None:
    table = made()
    table.append(ROWS)
    with pytest.raises(InvalidArgument, match=told):
        table.drop_partitions(partitions)
    assert values(table) == [1, 2, 3]
    table.drop_partitions(["p=1", {"p": 7}])
    assert values(table) == [2]
    snapshot = table.snapshot()
    assert snapshot is not None and (snapshot.commit_kind, snapshot.operation) == ("OVERWRITE", "DELETE")
    table.truncate()
    assert values(table) == [] and table.snapshot().operation == "TRUNCATE"


@pytest.mark.parametrize("partitions", [[], [{}], ["p=1"], [{"v": 1}]])
def test_a_table_without_partitions_has_none_to_drop(partitions: Any) -> None:
    with pytest.raises(InvalidArgument, match="the table has no partitions") as refused:
        made(partitioned=False).drop_partitions(partitions)
    assert refused.value.next_step == "use truncate()"


def begun(table: Table, **about: Any) -> Transaction:
    given: dict[str, Any] = {
        "commit_user": "stream",
        "identifier": 9,
        "isolation": "snapshot",
        "properties": {},
    } | about
    return Transaction(table.committer, table.timeline, **given)


@pytest.mark.parametrize(
    ("about", "told"),
    [
        ({"identifier": 3, "in_order": True}, "stream"),
        ({"identifier": 6, "query": "another"}, "another"),
    ],
    ids=["an older batch", "another query"],
)
def test_an_identity_that_cannot_be_right_is_refused_before_any_row_is_written(about: Any, told: str) -> None:
    """A stream's batches come in order, and a commit user is that of one query."""
    table = made()
    with begun(table, identifier=5, in_order=True, query="mine") as tx:
        tx.append(ROWS)
    with pytest.raises(InvalidArgument, match=told), begun(table, **about):
        pytest.fail("the block has begun")
    with begun(table, identifier=6, in_order=True, query="mine") as tx:
        assert not tx.replayed
        tx.append(ROWS)
    assert values(table) == [1, 1, 2, 2, 3, 3]


def test_files_of_other_processes_go_if_their_overwrite_is_refused() -> None:
    """H5: of rows outside of the partition that is replaced, and of arguments that do not say what is replaced."""
    table = made()
    table.append(ROWS)
    before = data_keys(table)
    for about, told in (({"partition": {"p": 1}}, "outside the one to be replaced"), ({}, "needs a partition")):
        writer = TableWriter(table.store, table.schema, f"job-{next(NUMBERS)}")
        writer.write(ROWS)
        messages = writer.finish()
        assert len(data_keys(table) - before) == 2
        with pytest.raises(InvalidArgument, match=told), table.transaction() as tx:
            tx.overwrite_messages(messages, table.snapshot(), **about)
        assert data_keys(table) == before and values(table) == [1, 2, 3]


@pytest.mark.parametrize("timeout", ["1 min", "1 d"])
def test_keys_that_others_put_elsewhere_are_moved_within_the_time_of_a_commit(timeout: str) -> None:
    """The time is counted from when the commit began."""
    table = made("p", "v", dynamic_bucket__target_row_num="1", write_only="true", commit__timeout=timeout)
    meanwhile(table, lambda: Table(table.store, table.schema).upsert(pa.table({"p": [1, 1], "v": [2, 1]})))
    table.upsert(pa.table({"p": [1, 1], "v": [1, 2]}))
    assert values(table) == [1, 2]
    assert Table(table.store, table.schema).verify(data=True) == []


def test_keys_that_others_put_elsewhere_are_a_conflict_once_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    table = made("p", "v", dynamic_bucket__target_row_num="1", write_only="true", commit__timeout="1 min")
    clock = itertools.count(0, 61)
    monkeypatch.setattr("lakelatch.table.writing.transaction.time.monotonic", lambda: float(next(clock)))
    meanwhile(table, lambda: Table(table.store, table.schema).upsert(pa.table({"p": [1, 1], "v": [2, 1]})))
    with pytest.raises(CommitConflict) as told:
        table.upsert(pa.table({"p": [1, 1], "v": [1, 2]}))
    assert "fixed or postponed buckets" in told.value.next_step


def test_a_table_with_keys_that_cannot_be_written_is_refused_before_anything_is_read() -> None:
    """The numbers and buckets of its rows are read before new ones are written."""
    table = made("p", "v", bucket="1", vector__file__format="lance")
    metered = MeteredStore(table.store)
    with pytest.raises(Unsupported, match=r"vector\.file\.format"), begun(Table(metered, table.schema)) as tx:
        metered.reset()
        tx.upsert(ROWS)
    assert metered.snapshot().requests == 0
