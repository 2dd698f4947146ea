"""Commits through the whole coordinator, on a store in memory that can be made to fail."""

from __future__ import annotations

import itertools
import re
import threading
import time
from typing import Any

import pyarrow as pa
import pytest

from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import AlreadyThere, Created, PutOutcome, Unknown
from lakelatch.coordinator.commit.attempt import WRITER_PROPERTY
from lakelatch.coordinator.history.lost import ATTEMPTS_PROPERTY
from lakelatch.coordinator.journal.file_journal import FileJournal
from lakelatch.coordinator.journal.lines import MemoryJournal, read_journal
from lakelatch.coordinator.protocol import events as ev
from lakelatch.coordinator.protocol.machine import Phase, state_after
from lakelatch.core.errors import (
    CommitConflict,
    Fenced,
    InvalidArgument,
    LakelatchError,
    OutcomeUnknown,
    RetriesExhausted,
    StoreUnavailable,
)
from lakelatch.core.metadata.schema import TableSchema, new_schema
from lakelatch.core.rows.arrow import from_arrow_schema
from lakelatch.table.table import Table

COUNTER = itertools.count()
FIELDS = pa.schema([("part", pa.string()), ("v", pa.int64())])


class Lab(MemoryStore):
    """A store in memory whose next creates, reads and deletes can be replaced."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.answers: list[str] = []
        self.before_create: list[Any] = []
        self.deleted: list[str] = []
        self.latency_s = 0.0

    def put(self, key: str, data: bytes) -> None:
        time.sleep(self.latency_s)
        super().put(key, data)

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        if not key.startswith("snapshot/snapshot-"):
            return super().put_if_absent(key, data)
        if self.before_create:
            self.before_create.pop(0)()
        answer = self.answers.pop(0) if self.answers else "ok"
        if answer == "lost before":
            return Unknown("timeout")
        if answer == "403":
            raise StoreUnavailable("access denied")
        outcome = super().put_if_absent(key, data)
        if answer == "lost after":
            return Unknown("reset")
        return AlreadyThere() if answer == "refused though ours" and isinstance(outcome, Created) else outcome

    def delete_many(self, keys: Any) -> None:
        names = list(keys)
        self.deleted += names
        super().delete_many(names)


def schema(**options: str) -> TableSchema:
    return new_schema(from_arrow_schema(FIELDS), partition_keys=["part"], options=options)


@pytest.fixture
def store() -> Lab:
    return Lab(f"memory://commit-{next(COUNTER)}/table")


def opened(store: Lab, journal: Any = None, **options: str) -> Table:
    """The same table, as opened by another job."""
    made = schema(**options)
    store.put_if_absent("schema/schema-0", made.to_json())
    return Table(store, made, journal=journal)


def rows(part: str, *values: int) -> pa.Table:
    return pa.table({"part": [part] * len(values), "v": list(values)})


def parts(table: Table) -> dict[str, int]:
    listed = table.partitions()
    return dict(zip(listed["partition"].to_pylist(), listed["record_count"].to_pylist(), strict=True))


def test_a_warm_append_takes_seven_requests_three_of_them_in_sequence(store: Lab) -> None:
    """architecture §3: two round trips until visible, three until acknowledged; the hint is written afterwards."""
    table = opened(store)
    table.append(rows("a", 1))
    store.latency_s = 0.25  # threads of a busy machine start late
    receipt = table.append(rows("a", 2))
    assert receipt.requests == 7
    assert receipt.sequential_requests == 3
    table.committer.settle()
    assert store.get("snapshot/LATEST") == b"2"


def test_an_answer_that_was_lost_after_the_publish_landed_is_read_back(store: Lab) -> None:
    """G1, H2."""
    table = opened(store)
    store.answers = ["lost after"]
    assert table.append(rows("a", 1)).snapshot_id == 1
    assert parts(table) == {"part=a": 1}


def test_a_refusal_by_our_own_object_is_a_commit(store: Lab) -> None:
    """H3."""
    table = opened(store)
    store.answers = ["refused though ours"]
    assert table.append(rows("a", 1)).attempts == 1
    assert [s.id for s in table.snapshots()] == [1]
    assert ATTEMPTS_PROPERTY not in table.snapshots()[0].own_properties, "no race was lost"
    assert re.fullmatch("[0-9a-f]{16}", table.snapshots()[0].own_properties[WRITER_PROPERTY])


def test_a_send_that_never_arrived_is_sent_again_with_the_same_bytes(store: Lab) -> None:
    """H9: same id, same bytes."""
    table = opened(store)
    store.answers = ["lost before"]
    assert table.append(rows("a", 1)).snapshot_id == 1


def test_an_unknown_outcome_is_reported_as_unknown_and_resolves(store: Lab) -> None:
    """G2: never reported as failed; resolve() sends it again, and nothing was cleaned up (H5)."""
    table = opened(store)
    table.append(rows("a", 1))
    store.answers = ["lost before"] * 3
    with pytest.raises(OutcomeUnknown) as unknown:
        table.append(rows("a", 2), commit_user="me", identifier=1)
    assert unknown.value.identity["snapshot_id"] == 2
    assert store.deleted == []
    receipt = unknown.value.resolve(timeout=5)
    assert receipt.snapshot_id == 2
    assert table.append(rows("a", 2), commit_user="me", identifier=1).replayed
    assert parts(table) == {"part=a": 2}


def test_an_unknown_outcome_resolves_to_not_committed_when_another_holds_the_name(store: Lab) -> None:
    """G2: not committed only when the name holds another snapshot."""
    table, other = opened(store), opened(store)
    store.answers = ["lost before"] * 3
    with pytest.raises(OutcomeUnknown) as unknown:
        table.append(rows("a", 2))
    other.append(rows("b", 1))
    with pytest.raises(CommitConflict, match="another"):
        unknown.value.resolve(timeout=5)
    assert parts(table) == {"part=b": 1}


def test_a_lost_race_lands_on_the_winner(store: Lab) -> None:
    """G6: the base of N+1 is all of N."""
    table, other = opened(store), opened(store)
    table.append(rows("a", 1))
    store.before_create = [lambda: other.append(rows("b", 1)), lambda: None]
    receipt = table.append(rows("c", 1))
    assert (receipt.snapshot_id, receipt.attempts, receipt.requests) == (3, 2, 15), "the winner was read once"
    assert parts(table) == {"part=a": 1, "part=b": 1, "part=c": 1}
    latest = table.snapshot()
    assert latest is not None
    assert latest.total_record_count == 3
    assert "lost it to" in table.explain()
    table.committer.settle()
    assert len(store.deleted) == 1, "the base list of the lost attempt, and nothing else"


def test_a_spent_budget_is_reported_and_leaves_no_row(store: Lab) -> None:
    """G2: nothing of it can land, and the message gives the number of writers met and the option to set."""
    table, other = opened(store, **{"commit.max-retries": "1", "commit.min-retry-wait": "1 ms"}), opened(store)
    store.before_create = [lambda: other.append(rows("b", 1)), lambda: None] * 2
    with pytest.raises(RetriesExhausted, match=r"1 other writers.*commit\.max-retries"):
        table.append(rows("a", 1))
    assert parts(table) == {"part=b": 2}


@pytest.mark.parametrize("expired", [2, 3], ids=["expiry ended at our name", "expiry went beyond it"])
def test_a_writer_that_slept_is_fenced(store: Lab, expired: int) -> None:
    """H6, story (a): other writers created the name and expired it, so the create succeeds; VERIFY detects it."""
    table, other = opened(store), opened(store)
    table.append(rows("a", 1))

    def others_commit_and_expire() -> None:
        for value in range(3):
            other.append(rows("b", value))
        other.committer.settle()
        store.delete_many([f"snapshot/snapshot-{i}" for i in range(1, expired + 1)])

    store.before_create = [others_commit_and_expire]
    with pytest.raises(Fenced):
        table.append(rows("c", 1))
    latest = opened(store).snapshot()
    assert latest is not None
    assert latest.id == 4
    assert "part=c" not in parts(opened(store))


def test_a_base_that_expired_in_order_is_not_a_fork(store: Lab) -> None:
    """architecture §3, VERIFY: legitimate expiry between the publish and the look at the base."""
    table, other = opened(store), opened(store)
    table.append(rows("a", 1))
    get = store.get

    def expiring_get(key: str) -> bytes:
        if key == "snapshot/snapshot-1":
            store.put("snapshot/EARLIEST", b"2")
            store.delete_many([key])
        return get(key)

    store.get = expiring_get  # type: ignore[method-assign]
    assert table.append(rows("c", 1)).snapshot_id == 2
    assert parts(other) == {"part=a": 1, "part=c": 1}


def test_a_rollback_under_a_writer_fences_it(store: Lab) -> None:
    """H6, story (b): another engine rolls back 3 -> 1 while W publishes 4: W's base is gone."""
    table = opened(store)
    for value in range(3):
        table.append(rows("a", value))
    store.put("snapshot/EARLIEST", b"1")
    store.before_create = [lambda: store.delete_many(["snapshot/snapshot-2", "snapshot/snapshot-3"])]
    with pytest.raises(Fenced):
        table.append(rows("a", 9))
    cold = opened(store).snapshot()
    assert cold is not None
    assert cold.id == 1, "a cold reader does not build on the fork"


def test_a_commit_on_a_replaced_base_is_committed_as_everybody_reads_it(store: Lab) -> None:
    """H6, story (c): a writer without a lock replaces the base that was read."""
    table, foreign = opened(store), Lab(f"memory://commit-{next(COUNTER)}/table")
    table.append(rows("a", 1))
    opened(foreign).append(rows("z", 1))
    store.before_create = [lambda: store.put("snapshot/snapshot-1", foreign.get("snapshot/snapshot-1"))]
    assert table.append(rows("a", 2)).snapshot_id == 2
    assert parts(opened(store)) == {"part=a": 2}


def test_an_impossible_store_is_not_committed(store: Lab) -> None:
    table = opened(store)
    store.answers = ["403"]
    with pytest.raises(StoreUnavailable, match="access denied"):
        table.append(rows("a", 1))
    assert table.snapshots() == []


# ------------------------------------------------------------------------------------------------------ exactly once


def test_an_identity_lands_once_across_processes_and_foreign_snapshots(store: Lab) -> None:
    """G3: also past a snapshot of another writer, and when a copy of the job publishes first."""
    first, twin = opened(store), opened(store)
    first.append(rows("a", 1), commit_user="etl", identifier=5)
    first.append(rows("b", 1))
    replay = twin.append(rows("a", 1), commit_user="etl", identifier=5)
    assert (replay.replayed, replay.snapshot_id) == (True, 1)
    assert (replay.attempts, replay.retries, replay.requests, replay.elapsed_ms) == (0, 0, 0, 0.0)
    store.before_create = [lambda: twin.append(rows("a", 2), commit_user="etl", identifier=6), lambda: None]
    raced = first.append(rows("a", 2), commit_user="etl", identifier=6)
    assert (raced.replayed, raced.snapshot_id) == (True, 3)
    assert parts(first) == {"part=a": 2, "part=b": 1}


def test_a_commit_that_a_twin_made_leaves_no_file_behind(store: Lab) -> None:
    """G5: the race was lost to the same identity; what this process wrote for its own snapshot goes, and nothing else."""
    table, twin = opened(store), opened(store)
    table.append(rows("a", 1))
    store.before_create = [lambda: twin.append(rows("b", 2), commit_user="etl", identifier=1), lambda: None]
    assert table.append(rows("b", 2), commit_user="etl", identifier=1).replayed
    table.committer.settle()
    twin.committer.settle()
    needed = {m.file_name for s in table.snapshots() for m in table.timeline.manifests(s)}
    lists = {name for s in table.snapshots() for name in (s.base_manifest_list, s.delta_manifest_list)}
    assert {info.key.rpartition("/")[2] for info in store.list("manifest/")} == needed | lists
    assert table.to_arrow().num_rows == 2


def test_an_identity_is_remembered_beyond_the_snapshot_that_carried_it(store: Lab) -> None:
    """G3: snapshots carry on the identities of older ones."""
    table = opened(store)
    table.append(rows("a", 1), commit_user="etl", identifier=5)
    for value in range(3):
        table.append(rows("b", value))
    store.delete_many(["snapshot/snapshot-1", "snapshot/snapshot-2"])
    assert opened(store).append(rows("a", 1), commit_user="etl", identifier=5).replayed


def test_a_commit_is_explained_by_its_identity(store: Lab) -> None:
    table = opened(store)
    table.append(rows("a", 1), commit_user="etl", identifier=5)
    table.append(rows("b", 1))
    assert table.explain(("etl", 5)).startswith("snapshot 1  APPEND")
    with pytest.raises(InvalidArgument, match="'etl'"):
        table.explain(("etl", 6))


@pytest.mark.parametrize("half", [{"commit_user": "etl"}, {"identifier": 3}])
def test_half_an_identity_is_refused(store: Lab, half: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match="both or neither"):
        opened(store).append(rows("a", 1), **half)


# --------------------------------------------------------------------------------------------------------- isolation


def raced(store: Lab, ours: Any, theirs: Any) -> None:
    store.before_create = [theirs, *[lambda: None] * 5]
    ours()


def test_a_concurrent_append_stays_under_an_overwrite(store: Lab) -> None:
    """H13, isolation snapshot: the append stays, as if it came after the overwrite."""
    table, other = opened(store), opened(store)
    table.append(rows("a", 1, 2))
    raced(store, lambda: table.overwrite(rows("a", 9), partition={"part": "a"}), lambda: other.append(rows("a", 5)))
    assert parts(table) == {"part=a": 2}


def test_serializable_makes_a_concurrent_append_a_conflict(store: Lab) -> None:
    table, other = opened(store), opened(store)
    table.append(rows("a", 1, 2))
    with pytest.raises(CommitConflict, match=r"appended_meanwhile.*snapshot 2"):
        raced(
            store,
            lambda: table.overwrite(rows("a", 9), partition={"part": "a"}, isolation="serializable"),
            lambda: other.append(rows("a", 5)),
        )
    assert parts(table) == {"part=a": 3}


@pytest.mark.parametrize(
    "theirs", ["overwrite", "drop", "truncate"], ids=["against overwrite", "against drop", "against truncate"]
)
def test_the_first_of_two_overwrites_of_a_partition_wins(store: Lab, theirs: str) -> None:
    table, other = opened(store), opened(store)
    table.append(rows("a", 1, 2))
    other.append(rows("b", 1))
    change = {
        "overwrite": lambda: other.overwrite(rows("a", 7), dynamic=True),
        "drop": lambda: other.drop_partitions([{"part": "a"}]),
        "truncate": lambda: other.truncate(),
    }[theirs]
    with pytest.raises(CommitConflict, match="overwritten_meanwhile"):
        raced(store, lambda: table.overwrite(rows("a", 9), partition={"part": "a"}), change)


def test_overwrites_of_different_partitions_both_land(store: Lab) -> None:
    table, other = opened(store), opened(store)
    table.append(rows("a", 1, 2))
    table.append(rows("b", 1, 2))
    raced(
        store,
        lambda: table.overwrite(rows("a", 9), dynamic=True),
        lambda: other.overwrite(rows("b", 9), partition={"part": "b"}),
    )
    assert parts(table) == {"part=a": 1, "part=b": 1}


def test_an_append_lands_after_an_overwrite_that_won(store: Lab) -> None:
    table, other = opened(store), opened(store)
    table.append(rows("a", 1, 2))
    raced(store, lambda: table.append(rows("a", 9)), lambda: other.truncate())
    assert parts(table) == {"part=a": 1}


def test_overwrites_state_what_they_replace(store: Lab) -> None:
    """Static, dynamic, whole table, drop, truncate; rows outside the static partition are refused."""
    table = opened(store)
    with table.transaction() as tx:
        tx.append(rows("a", 1, 2))
        tx.append(rows("b", 1))
    assert [s.id for s in table.snapshots()] == [1]
    table.overwrite(pa.table({"v": [7]}), partition={"part": "a"})
    assert parts(table) == {"part=a": 1, "part=b": 1}
    table.overwrite(rows("c", 1), dynamic=True)
    assert parts(table) == {"part=a": 1, "part=b": 1, "part=c": 1}
    table.drop_partitions([{"part": "a"}, {"part": "b"}])
    assert parts(table) == {"part=c": 1}
    table.overwrite(rows("d", 1, 2), partition={})
    assert parts(table) == {"part=d": 2}
    with pytest.raises(InvalidArgument, match="part=x"):
        table.overwrite(rows("x", 1), partition={"part": "d"})
    with pytest.raises(InvalidArgument, match="dynamic"):
        table.overwrite(rows("d", 1))
    for nothing in ([], [{}], [{"part": "d"}, {}]):
        with pytest.raises(InvalidArgument, match="at least one partition column"):
            table.drop_partitions(nothing)
    assert parts(table) == {"part=d": 2}
    table.truncate()
    assert parts(table) == {}
    latest = table.snapshot()
    assert latest is not None
    assert latest.total_record_count == 0


def test_a_transaction_that_fails_publishes_nothing(store: Lab) -> None:
    table = opened(store)
    with pytest.raises(ZeroDivisionError):
        with table.transaction() as tx:
            tx.append(rows("a", 1))
            _ = 1 / 0
    with pytest.raises(InvalidArgument, match="do not mix"):
        with table.transaction() as tx:
            tx.append(rows("a", 1))
            tx.truncate()
    assert table.snapshots() == []
    assert [i.key for i in store.list("part=a/")] == []


# ------------------------------------------------------------------------------------------ manifests, journal, hints


@pytest.mark.parametrize(
    ("mode", "options"),
    [
        ("minor", {"manifest.merge-min-count": "3"}),
        ("full", {"manifest.merge-min-count": "100", "manifest.full-compaction-threshold-size": "8 kb"}),
    ],
)
def test_manifest_compaction_keeps_every_row_and_few_manifests(store: Lab, mode: str, options: dict[str, str]) -> None:
    """format/manifests §5: minor and full merges give the same state."""
    table = opened(store, **options)
    for value in range(40):
        table.append(rows(f"p{value % 5}", value))
        if value % 10 == 9:
            table.overwrite(rows("p0", value), dynamic=True)
    latest = table.snapshot()
    assert latest is not None
    manifests = table.timeline.manifests(latest)
    assert len(manifests) <= 8
    assert sum(parts(table).values()) == latest.total_record_count == 32 + 1
    modes = {e.event.mode for e in table.committer.journal.entries() if isinstance(e.event, ev.ManifestsCompacted)}
    assert modes == {"none", mode}


def test_a_merge_is_reused_after_a_lost_race(store: Lab) -> None:
    """H15: under contention an earlier merge is kept and no new one begins."""
    table, other = opened(store, **{"manifest.merge-min-count": "3"}), opened(store)
    for value in range(3):
        other.append(rows("a", value))
    raced(store, lambda: table.append(rows("b", 1)), lambda: other.append(rows("a", 9)))
    modes = [e.event.mode for e in table.committer.journal.entries() if isinstance(e.event, ev.ManifestsCompacted)]
    assert modes == ["minor", "reused"]
    assert parts(table) == {"part=a": 4, "part=b": 1}


def test_the_journal_replays_to_the_same_end(store: Lab, tmp_path: Any) -> None:
    """Event sourced: the state is folded from the journal's events, and a truncated last line is dropped."""
    journal = FileJournal(tmp_path / "journal.jsonl")
    table, other = opened(store, journal), opened(store)
    raced(store, lambda: table.append(rows("a", 1)), lambda: other.append(rows("b", 1)))
    table.committer.settle()
    with (tmp_path / "journal.jsonl").open("ab") as out:
        out.write(b'{"commit": "x", "at')
    entries = list(read_journal(tmp_path / "journal.jsonl"))
    assert len({e.commit for e in entries}) == 1
    state = state_after([e.event for e in entries])
    assert state.phase is Phase.DONE
    assert state.attempt == 2
    assert state.ours is not None
    assert state.ours.id == 2


def test_an_overwrite_counts_the_files_that_it_adds_and_deletes(store: Lab) -> None:
    """The event in the journal records the size of the change."""
    journal = MemoryJournal()
    table = opened(store, journal)
    table.append(rows("a", 1))
    table.append(rows("a", 2))
    receipt = table.overwrite(rows("a", 3), partition={"part": "a"})
    assert receipt.snapshot_id == 3
    collected = [entry.event for entry in journal.entries() if isinstance(entry.event, ev.ChangesCollected)]
    assert [(event.added, event.deleted) for event in collected] == [(1, 0), (1, 0), (1, 2)]


def test_a_hint_is_never_needed_and_a_late_one_is_not_written(store: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """H7: garbage, outdated or missing hints change nothing; story (d): no hint is written an hour later."""
    table = opened(store)
    table.append(rows("a", 1))
    table.append(rows("a", 2))
    table.committer.settle()
    for garbage in (b"", b"banana", b"1", b"99"):
        store.put("snapshot/LATEST", garbage)
        latest = opened(store).snapshot()
        assert latest is not None
        assert latest.id == 2
    monkeypatch.setattr("lakelatch.coordinator.commit.steps.publishing.HINT_WITHIN_MS", -1)
    store.put("snapshot/LATEST", b"2")
    table.append(rows("a", 3))
    table.committer.settle()
    assert store.get("snapshot/LATEST") == b"2"


def test_threads_share_one_committer(store: Lab) -> None:
    """G1: the committer is thread-safe."""
    table = opened(store)
    failures: list[LakelatchError] = []

    def append(number: int) -> None:
        try:
            for value in range(5):
                table.append(rows(f"t{number}", value))
        except LakelatchError as error:
            failures.append(error)

    threads = [threading.Thread(target=append, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert parts(table) == {f"part=t{n}": 5 for n in range(6)}


def test_memory_journals_forget_the_oldest() -> None:
    journal = MemoryJournal(limit=10)
    from lakelatch.coordinator.journal.lines import Entry

    for number in range(25):
        journal.record(Entry("c", "t", number, ev.HintWritten(number)))
    assert journal.entries()[-1].at_ms == 24
    assert len(journal.entries()) <= 10
