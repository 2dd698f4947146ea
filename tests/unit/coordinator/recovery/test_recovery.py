"""How another process finishes a commit whose writer died, from the journal and the table alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fragile import ROWS, Died, Fragile, die, names, only, opened, recovered, recovered_later, snapshots

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import PutOutcome, Unknown
from lakelatch.coordinator.journal.file_journal import FileJournal
from lakelatch.coordinator.journal.lines import Entry
from lakelatch.coordinator.journal.object_journal import FOLDER, ObjectJournal
from lakelatch.coordinator.protocol import events as ev
from lakelatch.coordinator.recovery.recover import FORGOTTEN_AFTER_MS, RecoveredCommit, recover_journal
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.core.errors import CommitConflict, OutcomeUnknown, StoreUnavailable
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.rows.arrow import from_arrow_schema
from lakelatch.table.table import Table


@pytest.fixture
def store() -> Fragile:
    return Fragile()


@pytest.fixture(params=["file", "object"])
def journal(request: pytest.FixtureRequest, store: Fragile, tmp_path: Path) -> Any:
    """Opens the journal as one process; each call is another process."""
    return lambda: FileJournal(tmp_path / "journal") if request.param == "file" else ObjectJournal(store)


def test_a_snapshot_that_was_about_to_be_sent_is_finished(store: Fragile, journal: Any) -> None:
    """H9: the bytes are in the journal before the first send; any process can send them, once."""
    opened(store).append(ROWS)
    store.before["create snapshot/snapshot-2"] = die
    with pytest.raises(Died):
        opened(store, journal()).append(ROWS, commit_user="etl", identifier=7)
    commit = only(recovered(journal, store))
    assert (commit.outcome, commit.snapshot_id, commit.commit_user, commit.identifier) == ("finished", 2, "etl", 7)
    assert opened(store).to_arrow().num_rows == 2
    assert opened(store).append(ROWS, commit_user="etl", identifier=7).replayed
    assert [c.outcome for c in recovered(journal, store).commits] in ([], ["landed"]), "a second run reports the same"
    assert names(store, FOLDER) == []


def test_a_snapshot_that_landed_unheard_is_found(store: Fragile, journal: Any) -> None:
    """H2: the process dies after the publish, before it could report it."""
    opened(store).append(ROWS)
    store.before["create snapshot/snapshot-2"] = lambda: store.before.update({"get snapshot/snapshot-1": die})
    with pytest.raises(Died):
        opened(store, journal()).append(ROWS)
    commit = only(recovered(journal, store))
    assert (commit.outcome, commit.snapshot_id) == ("landed", 2)
    assert snapshots(store) == [1, 2]


def test_a_commit_that_never_came_to_publish_did_not_land_and_is_cleaned(store: Fragile, tmp_path: Path) -> None:
    """G5: nothing of it was sent, so its metadata can be deleted; its data files are left alone."""
    file = lambda: FileJournal(tmp_path / "journal")  # noqa: E731
    opened(store).append(ROWS)
    table, before = opened(store, file()), names(store, "manifest/")
    table.committer._run = dying_before_publish(table.committer._run)  # type: ignore[method-assign]
    with pytest.raises(Died):
        table.append(ROWS)
    written = set(names(store, "manifest/")) - set(before)
    assert written
    dry = ll.Recovery(tuple(recover_dry(file(), store)))
    assert set(only(dry).cleaned) == written <= set(names(store, "manifest/")), "a dry run deletes nothing"
    commit = only(recovered(file, store))
    assert commit.outcome == "not landed"
    assert set(commit.cleaned) == written
    assert names(store, "manifest/") == before
    assert len(names(store, "bucket-0/")) == 2


def dying_before_publish(make: Any) -> Any:
    def made(*args: Any, **kwargs: Any) -> Any:
        run = make(*args, **kwargs)
        run.prepare_snapshot = lambda effect: die()
        return run

    return made


def recover_dry(journal: FileJournal, store: Fragile) -> list[RecoveredCommit]:
    return list(recover_journal(journal, store, MACHINE, writers_are_gone=True, dry_run=True).commits)


def test_a_commit_whose_name_another_won_did_not_land(store: Fragile, journal: Any) -> None:
    """G2: reported only because the name holds another snapshot; the last send was never answered, so nothing is deleted (H5)."""
    store.before["create snapshot/snapshot-1"] = die
    with pytest.raises(Died):
        opened(store, journal()).append(ROWS)
    opened(store).append(pa.table({"v": [2]}))
    before = names(store, "manifest/")
    commit = only(recovered(journal, store))
    assert (commit.outcome, commit.cleaned) == ("not landed", ())
    assert names(store, "manifest/") == before
    assert opened(store).to_arrow().to_pylist() == [{"v": 2}]


def test_an_earlier_attempt_that_landed_late_is_found_first(store: Fragile, journal: Any) -> None:
    """H9, every tried name counts: the first send lands when a rollback frees its name; the second one is not sent again."""
    opened(store).append(ROWS)

    def another_first() -> PutOutcome:
        opened(store).append(pa.table({"v": [2]}))
        return Unknown("no answer")

    store.before["create snapshot/snapshot-2"] = another_first
    store.before["create snapshot/snapshot-3"] = die
    with pytest.raises(Died):
        opened(store, journal()).append(pa.table({"v": [3]}))
    past = journal().entries()
    first = next(e.event for e in past if isinstance(e.event, ev.SnapshotPrepared))
    store.delete_many(["snapshot/snapshot-2"])
    store.put_if_absent("snapshot/snapshot-2", first.text.encode())
    commit = only(recovered(journal, store))
    assert (commit.outcome, commit.snapshot_id) == ("landed", 2)
    assert snapshots(store) == [1, 2]
    assert sorted(opened(store).to_arrow()["v"].to_pylist()) == [1, 3]


def test_nothing_is_sent_on_a_base_that_is_gone(store: Fragile, journal: Any) -> None:
    """H6: the age limit of an attempt: a base that cannot be seen is not built on, and the commit does not count as failed."""
    opened(store).append(ROWS)
    store.before["create snapshot/snapshot-2"] = die
    with pytest.raises(Died):
        opened(store, journal()).append(ROWS)
    other = opened(store)
    for value in range(3):
        other.append(pa.table({"v": [value]}))
    store.delete_many([f"snapshot/snapshot-{n}" for n in (1, 2, 3)])
    commit = only(recovered(journal, store))
    assert commit.outcome == "unknown"
    assert snapshots(store) == [4]
    store.put("snapshot/EARLIEST", b"5")
    store.delete_many(["snapshot/snapshot-4"])
    other.append(ROWS)
    assert only(recovered(journal, store)).outcome == "unknown", "and again"


def test_the_next_snapshot_shows_what_expired(store: Fragile, journal: Any) -> None:
    """G1, G2: both names are gone, and the snapshot above names the one of the two that it was built on."""
    opened(store).append(ROWS)
    store.before["create snapshot/snapshot-2"] = die
    with pytest.raises(Died):
        opened(store, journal()).append(ROWS)
    other = opened(store)
    other.append(ROWS)
    other.append(ROWS)
    store.delete_many(["snapshot/snapshot-1", "snapshot/snapshot-2"])
    commit = only(recovered(journal, store))
    assert commit.outcome == "not landed"
    assert "another snapshot 2" in commit.reason


def test_inherited_manifests_show_what_landed_and_expired(store: Fragile, journal: Any) -> None:
    """G1: only inherited manifests still show it."""
    opened(store).append(ROWS)
    store.before["create snapshot/snapshot-2"] = lambda: store.before.update({"get snapshot/snapshot-1": die})
    with pytest.raises(Died):
        opened(store, journal()).append(ROWS)
    other = opened(store)
    for _ in range(3):
        other.append(ROWS)
    store.delete_many([f"snapshot/snapshot-{n}" for n in (1, 2, 3)])
    assert only(recovered(journal, store)).outcome == "landed"


def test_a_snapshot_on_a_freed_name_is_not_a_commit(store: Fragile, journal: Any) -> None:
    """H6: the unanswered send landed on a name that expiry had freed."""
    opened(store).append(ROWS)
    store.before["create snapshot/snapshot-2"] = die
    with pytest.raises(Died):
        opened(store, journal()).append(ROWS)
    other = opened(store)
    for _ in range(4):
        other.append(ROWS)
    other.committer.settle()
    store.delete_many([f"snapshot/snapshot-{n}" for n in (1, 2, 3)])
    prepared = next(e.event for e in journal().entries() if isinstance(e.event, ev.SnapshotPrepared))
    store.put_if_absent("snapshot/snapshot-2", prepared.text.encode())
    commit = only(recovered(journal, store))
    assert commit.outcome == "not landed"
    assert "freed" in commit.reason


def test_an_identity_that_its_rerun_landed_is_not_sent_again(store: Fragile, journal: Any) -> None:
    """G3: the job ran again before any recovery; the first run's snapshot must not follow."""
    opened(store).append(ROWS)
    store.before["create snapshot/snapshot-2"] = die
    with pytest.raises(Died):
        opened(store, journal()).append(ROWS, commit_user="etl", identifier=7)
    opened(store).append(ROWS, commit_user="etl", identifier=7)
    commit = only(recovered(journal, store))
    assert (commit.outcome, commit.snapshot_id) == ("landed", 2)
    carrier = opened(store).timeline.find(2)
    assert carrier is not None
    assert commit.snapshot_uuid == carrier.identity, "the one that landed, not the one that the journal names"
    assert opened(store).to_arrow().num_rows == 2


def test_a_young_commit_is_left_alone(store: Fragile, journal: Any) -> None:
    """A live writer: within 30 s of its last entry its commit is in flight, and nothing is sent or recorded."""
    opened(store).append(ROWS)
    store.before["create snapshot/snapshot-2"] = die
    with pytest.raises(Died):
        opened(store, journal()).append(ROWS)
    assert only(recovered(journal, store, gone=False)).outcome == "in flight"
    assert snapshots(store) == [1]
    assert not any(isinstance(e.event, ev.TakenOver) for e in journal().entries())


def test_a_slow_writer_whose_commit_was_taken_over_makes_no_further_attempt(store: Fragile, journal: Any) -> None:
    """G2: recovery reported "not landed" while the writer was between two attempts; it must not land after that."""
    opened(store).append(ROWS)
    told: list[str] = []

    def meanwhile() -> None:
        opened(store).append(pa.table({"v": [2]}))
        told.append(only(recovered_later(journal, store)).outcome)

    store.before["create snapshot/snapshot-2"] = meanwhile
    with pytest.raises(CommitConflict, match="took this commit over"):
        opened(store, journal()).append(pa.table({"v": [3]}))
    assert told == ["not landed"]
    assert sorted(opened(store).to_arrow()["v"].to_pylist()) == [1, 2]


def test_the_mark_of_a_taken_over_commit_goes_after_a_day(store: Fragile, journal: Any) -> None:
    """Until then a writer that wakes up must find it; the recorded outcome is kept with it."""
    store.before["create snapshot/snapshot-1"] = die
    with pytest.raises(Died):
        opened(store, journal()).append(ROWS)
    assert only(recovered_later(journal, store)).outcome == "finished"
    again = only(recovered_later(journal, store))
    assert (again.outcome, again.known) == ("landed", True)
    assert len(names(store, FOLDER)) in (0, 2)
    recovered_later(journal, store, 25 * 3600)
    assert names(store, FOLDER) == []


def test_a_slow_writer_and_its_recovery_agree_on_a_commit(store: Fragile, journal: Any) -> None:
    """G1: recovery finishes the very attempt that its writer is about to send."""
    opened(store).append(ROWS)
    told: list[str] = []
    store.before["create snapshot/snapshot-2"] = lambda: told.append(only(recovered_later(journal, store)).outcome)
    receipt = opened(store, journal()).append(ROWS)
    assert (receipt.snapshot_id, told) == (2, ["finished"])
    assert snapshots(store) == [1, 2]


def test_a_writer_that_lost_to_its_recovery_leaves_the_entries_of_its_commit(store: Fragile, journal: Any) -> None:
    """How the commit ended is the recovery's to say; the next recovery finds that instead of nothing."""
    opened(store).append(ROWS)

    def taken_over_then_refused() -> None:
        recovered_later(journal, store)
        raise Died

    store.before["create snapshot/snapshot-2"] = taken_over_then_refused
    held = journal()
    with pytest.raises(Died):
        opened(store, held).append(ROWS)
    (name,) = {entry.commit for entry in held.entries()}
    prepared = next(e for e in held.entries() if isinstance(e.event, ev.SnapshotPrepared))
    held.record(prepared, decisive=True)
    held.conclude(name)
    again = only(recovered_later(journal, store))
    assert (again.outcome, again.known) == ("landed", True)


def test_a_refused_writer_does_not_contradict_its_recovery(store: Fragile, journal: Any) -> None:
    """G2: the writer's own send is refused for good, but its snapshot is in the journal, and recovery sent it."""
    opened(store).append(ROWS)

    def finished_then_refused() -> None:
        assert only(recovered_later(journal, store)).outcome == "finished"
        raise StoreUnavailable("access denied")

    store.before["create snapshot/snapshot-2"] = finished_then_refused
    with pytest.raises(OutcomeUnknown) as unknown:
        opened(store, journal()).append(ROWS)
    assert unknown.value.resolve(5).snapshot_id == 2


def test_a_refused_writer_that_was_first_is_believed(store: Fragile, journal: Any) -> None:
    """G2: reported as "not committed", and recovery does not send a snapshot that was given up, even without clean-up."""
    opened(store).append(ROWS)

    def refused() -> None:
        raise StoreUnavailable("access denied")

    store.before["create snapshot/snapshot-2"] = refused
    store.before[f"delete {FOLDER}"] = refused
    table = opened(store, journal())
    with pytest.raises(StoreUnavailable, match="access denied"):
        table.append(ROWS)
    table.committer.settle()
    assert only(recovered(journal, store)).outcome == "not landed"
    assert snapshots(store) == [1]
    assert names(store, FOLDER) == []


def test_an_unknown_outcome_is_resolved_elsewhere_at_once(store: Fragile, journal: Any) -> None:
    """G2: a writer that reported "unknown" is done; a file records that at once, an object was last written before the send."""
    table = opened(store, journal())
    table.append(ROWS)
    store.put_if_absent = losing(store, 3)  # type: ignore[method-assign]
    with pytest.raises(OutcomeUnknown):
        table.append(ROWS)
    commit = recovered_later(journal, store, 31 if isinstance(journal(), ObjectJournal) else 0).commits[-1]
    assert (commit.outcome, commit.snapshot_id) == ("finished", 2)


def losing(store: Fragile, times: int) -> Any:
    left = [None] * times

    def create(key: str, data: bytes) -> PutOutcome:
        if key.startswith("snapshot/snapshot-") and left:
            left.pop()
            return Unknown("no answer")
        return MemoryStore.put_if_absent(store, key, data)

    return create


def test_resolving_in_the_process_is_recorded_in_the_journal(store: Fragile, journal: Any) -> None:
    """Recovery need not look up again what `resolve()` found out."""
    table = opened(store, journal())
    store.put_if_absent = losing(store, 3)  # type: ignore[method-assign]
    with pytest.raises(OutcomeUnknown) as unknown:
        table.append(ROWS)
    assert unknown.value.resolve(5).snapshot_id == 1
    commits = recovered(journal, store).commits
    assert all(c.known and c.outcome == "landed" for c in commits)
    assert names(store, FOLDER) == []


def test_a_snapshot_whose_files_were_cleaned_is_not_published(store: Fragile, journal: Any) -> None:
    """G4, H10: files of a snapshot that no root named for a day may be gone; if it were sent, the table could not be read."""
    opened(store).append(ROWS)
    before = set(names(store, "bucket-0/"))
    store.before["create snapshot/snapshot-2"] = die
    with pytest.raises(Died):
        opened(store, journal()).append(ROWS)
    store.delete_many(set(names(store, "bucket-0/")) - before)
    commit = only(recovered(journal, store))
    assert commit.outcome == "unknown"
    assert "is gone" in commit.reason
    assert snapshots(store) == [1]


def test_a_snapshot_whose_index_was_cleaned_is_not_published(store: Fragile, journal: Any) -> None:
    """G4, H10: of a table with dynamic buckets, in which the keys of a bucket are in an index file."""
    fields = pa.schema([pa.field("k", pa.int32(), nullable=False)])
    keyed = new_schema(from_arrow_schema(fields), primary_keys=["k"], options={"write-only": "true"})
    store.put_if_absent("schema/schema-0", keyed.to_json())
    Table(store, keyed).append(pa.table({"k": [1]}, schema=fields))
    before = set(names(store, "index/"))
    store.before["create snapshot/snapshot-2"] = die
    with pytest.raises(Died):
        Table(store, keyed, journal=journal()).append(pa.table({"k": [2]}, schema=fields))
    (index,) = [key for key in names(store, "index/") if key not in before and "index-manifest" not in key]
    store.delete_many([index])
    commit = only(recovered(journal, store))
    assert commit.outcome == "unknown" and f"{index} is gone" in commit.reason
    assert snapshots(store) == [1]


def test_a_mark_stays_for_a_day_to_the_millisecond(store: Fragile, journal: Any) -> None:
    """A writer that wakes up within the day finds that its commit was taken over."""
    store.before["create snapshot/snapshot-1"] = die
    with pytest.raises(Died):
        opened(store, journal()).append(ROWS)
    assert only(recovered_later(journal, store)).outcome == "finished"
    last_ms = max(line.at_ms for line in journal().lines() if isinstance(line, Entry))
    for more_ms, left in ((0, True), (1, False)):
        then = replace(MACHINE, wall_s=lambda more_ms=more_ms: (last_ms + FORGOTTEN_AFTER_MS + more_ms) / 1000)
        recover_journal(journal(), store, then, writers_are_gone=False)
        assert bool(names(store, FOLDER)) == left or isinstance(journal(), FileJournal)


def test_a_dry_run_leaves_every_journal_and_object_as_it_was(store: Fragile, journal: Any, tmp_path: Path) -> None:
    """Whether the outcome is known already, can be found out, or could be finished; whoever says that the writers are gone."""
    opened(store).append(ROWS)
    for number, way in ((2, die), (3, lambda: store.before.update({"get snapshot/snapshot-2": die}))):
        store.before[f"create snapshot/snapshot-{number}"] = way
        with pytest.raises(Died):
            opened(store, journal()).append(ROWS, commit_user=f"etl-{number}", identifier=7)
        if number == 2:
            recovered_later(journal, store)  # known from now on, and kept
        before = contents(store, tmp_path)
        for gone in (False, True):
            told = recover_journal(journal(), store, MACHINE, writers_are_gone=gone, dry_run=True)
            assert told.commits
            assert contents(store, tmp_path) == before
    (known, unheard) = sorted(told.commits, key=lambda commit: commit.commit_user)
    assert known.known and (known.outcome, known.snapshot_id) == ("landed", 2)
    assert (unheard.known, unheard.outcome, unheard.snapshot_id) == (False, "landed", 3)
    latest = opened(store).timeline.find(3)
    assert latest is not None and unheard.snapshot_uuid == latest.uuid


def contents(store: Fragile, folder: Path) -> dict[str, bytes]:
    """Every object of the store and every file of a folder."""
    objects = {key: MemoryStore.get(store, key) for key in names(store, "")}
    return objects | {str(path): path.read_bytes() for path in folder.iterdir()}
