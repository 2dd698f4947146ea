"""Which files a failed commit may delete: none, while a snapshot that names them may be there or can still land (H5)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from fragile import ROWS, Fragile, names, opened

from lakelatch.backends.store import PutOutcome, Unknown
from lakelatch.core.errors import LakelatchError, OutcomeUnknown, RetriesExhausted, StoreUnavailable
from lakelatch.lab.world.simulated_store import Reply, Request, answer
from lakelatch.lab.world.stage import Stage, lab_schema
from lakelatch.table.table import Table
from lakelatch.table.writing.writer import TableWriter


@pytest.fixture
def store() -> Fragile:
    return Fragile()


def by_this_process(table: Table) -> Any:
    """With files that are too large to travel with the commit."""
    with table.transaction() as tx:
        tx._rows._writer = TableWriter(table.store, table.schema, "job", travelling=False)
        tx.append(ROWS)
    return tx.receipt


def by_other_processes(table: Table) -> Any:
    """Like Spark's executors: the files are already written, and the driver commits their messages."""
    writer = TableWriter(table.store, table.schema, "job", travelling=False)
    writer.write(ROWS)
    with table.transaction() as tx:
        tx.append_messages(writer.finish())
    return tx.receipt


WRITES = pytest.mark.parametrize("write", [by_this_process, by_other_processes])


@WRITES
def test_data_files_stay_where_the_outcome_is_unknown(store: Fragile, write: Any) -> None:
    """G1: the snapshot may land late and needs its rows."""
    left: list[PutOutcome] = [Unknown("no answer")] * 3
    create = store.put_if_absent
    store.put_if_absent = lambda key, data: (  # type: ignore[method-assign]
        left.pop() if key.startswith("snapshot/snapshot-") and left else create(key, data)
    )
    table = opened(store)
    with pytest.raises(OutcomeUnknown) as unknown:
        write(table)
    table.committer.settle()
    assert len(names(store, "bucket-0/")) == 1
    assert unknown.value.resolve(5).snapshot_id == 1
    assert opened(store).to_arrow().num_rows == 1


def by_this_process_with_the_commit(table: Table) -> Any:
    """With files that travel, so that the lost attempt has stored them."""
    return table.append(ROWS)


@pytest.mark.parametrize("write", [by_this_process, by_other_processes, by_this_process_with_the_commit])
def test_data_files_go_where_a_sent_snapshot_has_provably_lost_its_last_race(store: Fragile, write: Any) -> None:
    """The send was refused, and the name holds another's snapshot: no snapshot can name them any more."""
    table = opened(store, None, **{"commit.max-retries": "0"})
    store.before["create snapshot/snapshot-1"] = lambda: opened(store).append(ROWS) and None
    with pytest.raises(RetriesExhausted) as lost:
        write(table)
    table.committer.settle()
    assert not lost.value.sent
    assert len(names(store, "bucket-0/")) == 1
    assert opened(store).to_arrow().num_rows == 1


@WRITES
def test_data_files_stay_where_an_earlier_send_of_a_lost_race_was_not_answered(store: Fragile, write: Any) -> None:
    """A late duplicate of it could land on a name that was freed meanwhile (H6, H9)."""
    table = opened(store, None, **{"commit.max-retries": "0"})
    create, answers = store.put_if_absent, [None, Unknown("no answer")]

    def beaten(key: str, data: bytes) -> PutOutcome:
        if key == "snapshot/snapshot-1" and answers:
            answer = answers.pop()
            if answer is not None:
                store.put_if_absent = create  # type: ignore[method-assign]
                opened(store).append(ROWS)
                return answer
        return create(key, data)

    store.put_if_absent = beaten  # type: ignore[method-assign]
    with pytest.raises(LakelatchError) as lost:
        write(table)
    table.committer.settle()
    assert lost.value.sent
    assert len(names(store, "bucket-0/")) == 2


@WRITES
def test_data_files_stay_where_the_table_went_on_without_the_snapshot(store: Fragile, write: Any) -> None:
    """H6: a fork is not part of the history, but still a file that names them."""
    opened(store).append(ROWS)

    def freed() -> None:
        other = opened(store)
        for _ in range(4):
            other.append(ROWS)
        store.delete_many([f"snapshot/snapshot-{number}" for number in (1, 2, 3)])

    store.before["create snapshot/snapshot-2"] = freed
    with pytest.raises(LakelatchError) as fenced:
        write(opened(store))
    assert fenced.value.code == "fenced"
    assert len(names(store, "bucket-0/")) == 6


@WRITES
def test_data_files_go_where_nothing_was_sent(store: Fragile, write: Any) -> None:
    def refused() -> None:
        raise StoreUnavailable("access denied")

    store.before["put manifest/"] = refused
    with pytest.raises(StoreUnavailable):
        write(opened(store))
    assert names(store, "bucket-0/") == []


def test_data_files_stay_where_the_outcome_of_a_mixed_transaction_is_unknown(store: Fragile) -> None:
    create = store.put_if_absent
    store.put_if_absent = lambda key, data: (  # type: ignore[method-assign]
        Unknown("no answer") if key.startswith("snapshot/snapshot-") else create(key, data)
    )
    table = opened(store)
    writer = TableWriter(table.store, table.schema, "job", travelling=False)
    writer.write(ROWS)
    with pytest.raises(OutcomeUnknown), table.transaction() as tx:
        tx.append(pa.table({"v": [2]}))
        tx.append_messages(writer.finish())
    assert len(names(store, "bucket-0/")) == 2


# ------------------------------------------------------------------------------------------- outputs of a compaction


def compactable(store: Fragile, **options: str) -> Table:
    table = opened(store, None, **options)
    for _ in range(3):
        table.append(ROWS)
    table.committer.settle()
    return opened(store, None, **options)


def test_outputs_of_a_compaction_stay_where_its_outcome_is_unknown(store: Fragile) -> None:
    """G5: the snapshot that names them may land late and needs them."""
    table = compactable(store)
    create, left = store.put_if_absent, [Unknown("no answer")] * 3
    store.put_if_absent = lambda key, data: (  # type: ignore[method-assign]
        left.pop() if key == "snapshot/snapshot-4" and left else create(key, data)
    )
    with pytest.raises(OutcomeUnknown) as unknown:
        table.compact(min_files=2)
    assert len(names(store, "bucket-0/")) == 4
    assert unknown.value.resolve(5).snapshot_id == 4
    assert opened(store).to_arrow().num_rows == 3


def test_outputs_of_a_compaction_go_where_a_sent_snapshot_has_provably_lost_its_last_race(store: Fragile) -> None:
    table = compactable(store, **{"commit.max-retries": "0"})
    store.before["create snapshot/snapshot-4"] = lambda: opened(store).append(ROWS) and None
    with pytest.raises(RetriesExhausted) as lost:
        table.compact(min_files=2)
    assert not lost.value.sent
    assert len(names(store, "bucket-0/")) == 4, "three inputs and the rival's file"


def test_outputs_of_a_compaction_go_where_nothing_was_sent(store: Fragile) -> None:
    def refused() -> None:
        raise StoreUnavailable("access denied")

    table = compactable(store)
    store.before["put manifest/"] = refused
    with pytest.raises(StoreUnavailable):
        table.compact(min_files=2)
    assert len(names(store, "bucket-0/")) == 3


# ------------------------------------------------------------------------------------- the adapter's own earlier sends


class Wire:
    """A store's contents, and its answers to the first creates of one snapshot."""

    def __init__(self, *statuses: int) -> None:
        self.objects: Any = {"schema/schema-0": lab_schema().to_json()}
        self.statuses = list(statuses)
        self.deleted: list[str] = []

    def __call__(self, request: Request) -> Reply:
        if request.operation == "create" and request.key == "snapshot/snapshot-2" and self.statuses:
            status = self.statuses.pop(0)
            if not self.statuses:
                self._rival()
            if status:
                return Reply(status)
        self.deleted += request.keys
        self.objects, reply = answer(self.objects, request)
        return reply

    def _rival(self) -> None:
        append(Stage("B", 2, self))


def append(stage: Stage) -> Any:
    from lakelatch.coordinator.commit.message import PendingUpload
    from lakelatch.coordinator.commit.request import CommitRequest
    from lakelatch.lab.actors.jobs import data_entry

    entry = data_entry(f"{stage.name}{len(stage.events)}")
    upload = PendingUpload(f"bucket-0/{entry.file.file_name}", b"rows")
    committer = stage.committer()
    receipt = committer.commit(CommitRequest("APPEND", (entry,), f"user-{stage.name}", uploads=(upload,)))
    committer.settle()
    return receipt


@pytest.mark.parametrize(("first", "kept"), [(503, True), (409, True), (500, True), (0, False)])
def test_nothing_is_deleted_where_the_adapters_own_first_send_may_land_late(first: int, kept: bool) -> None:
    """H3, H9, G5: the store was busy, the adapter sent again and was refused: its first send may still arrive.

    If the only send was refused (0: no answer is forged), the base list of the lost attempt is deleted.
    """
    wire = Wire(first)
    stage = Stage("A", 1, wire)
    append(stage)
    assert append(stage).snapshot_id == 3
    lists = [key for key in wire.deleted if "manifest-list" in key]
    assert (lists == []) == kept
