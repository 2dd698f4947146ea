"""How another process finishes an append that had asked others to carry it when its writer died (decision 71)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fragile import Died, Fragile, die, names, only, opened, recovered, recovered_later

import lakelatch as ll
from lakelatch.coordinator.intents.carried import carried_by
from lakelatch.coordinator.intents.intent import parse_intent
from lakelatch.coordinator.intents.shelf import FOLDER as INTENTS
from lakelatch.coordinator.journal.file_journal import FileJournal
from lakelatch.coordinator.journal.object_journal import FOLDER, ObjectJournal
from lakelatch.coordinator.recovery.recover import RecoveredCommit, recover_journal
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.core.errors import CommitConflict, OutcomeUnknown, StoreUnavailable
from lakelatch.core.metadata.manifest import decode_manifest
from lakelatch.table.table import Table

MINE = pa.table({"v": [7, 7]})
IDENTITY = {"commit_user": "etl", "identifier": 7}
ASKED, BUILDING = "create lakelatch/intents/", "put manifest/"


@pytest.fixture
def store() -> Fragile:
    """A table with one snapshot."""
    made = Fragile()
    another(made, 0)
    return made


@pytest.fixture(params=["file", "object"])
def journal(request: pytest.FixtureRequest, store: Fragile, tmp_path: Path) -> Any:
    """Opens the journal as one process; each call is another process."""
    return lambda: FileJournal(tmp_path / "journal") if request.param == "file" else ObjectJournal(store)


def table_of(store: Fragile, journal: Any = None) -> Table:
    return opened(store, journal, **{"commit.group": "auto"})


def another(store: Fragile, value: int, *, looks: bool = False, **more: Any) -> int:
    """Another writer's append; it looks whom it can carry if it has met others."""
    table = table_of(store)
    if looks:
        table.committer.meet(3, 0.001)
    receipt = table.append(pa.table({"v": [value]}), **more)
    table.committer.settle()
    return receipt.snapshot_id


def rider(store: Fragile, journal: Any, at: str = BUILDING, then: Callable[[], Any] = die, **identity: Any) -> None:
    """A writer loses snapshot 2, asks others to carry it in snapshot 3 or 4, and is struck: while it asks, or soon after."""
    store.before["create snapshot/snapshot-2"] = lambda: another(store, 100) and None
    store.before[ASKED] = then if at == ASKED else lambda: store.before.update({at: then})
    table_of(store, journal()).append(MINE, **identity)


def dead_rider(store: Fragile, journal: Any, at: str = BUILDING, **identity: Any) -> None:
    with pytest.raises(Died):
        rider(store, journal, at, **identity)


def values(store: Fragile) -> list[int]:
    return sorted(table_of(store).to_arrow()["v"].to_pylist())


def sound(store: Fragile) -> bool:
    return table_of(store).verify("all", data=True) == []


def once_more(journal: Any, store: Fragile) -> list[str]:
    return [c.outcome for c in recovered(journal, store).commits]


@pytest.mark.parametrize("identity", [IDENTITY, {}], ids=["with identity", "without"])
@pytest.mark.parametrize("at", [ASKED, BUILDING])
def test_a_dead_rider_is_published_with_its_own_manifests(
    store: Fragile, journal: Any, at: str, identity: dict[str, Any]
) -> None:
    """G1: it died before or after its intent was written; its rows land once, in the next snapshot, which names it."""
    dead_rider(store, journal, at, **identity)
    commit = only(recovered(journal, store))
    assert (commit.outcome, commit.snapshot_id, commit.cleaned) == ("finished", 3, ())
    made = table_of(store).timeline.snapshot(3)
    assert [(one.commit, one.rows) for one in carried_by(made)] == [(commit.commit, 2)]
    assert commit.snapshot_uuid == made.uuid
    assert (made.commit_kind, made.delta_record_count, made.commit_user) == ("APPEND", 2, commit.commit_user)
    assert values(store) == [0, 7, 7, 100]
    assert sound(store)
    assert names(store, INTENTS) == []
    assert once_more(journal, store) in ([], ["landed"])
    assert names(store, FOLDER) == []
    if identity:
        assert table_of(store).append(MINE, **identity).replayed
    assert another(store, 300, looks=True) == 4
    assert values(store) == [0, 7, 7, 100, 300]


def test_what_the_writer_wrote_for_its_lost_attempt_stays(store: Fragile, journal: Any) -> None:
    """H5: recovery deletes nothing of a commit that landed; its snapshot needs some of those files."""
    dead_rider(store, journal)
    before = names(store, "manifest/")
    recovered(journal, store)
    assert set(before) <= set(names(store, "manifest/"))


def test_a_rider_that_another_carried_is_found(store: Fragile, journal: Any) -> None:
    dead_rider(store, journal, **IDENTITY)
    assert another(store, 200, looks=True) == 3
    commit = only(recovered(journal, store))
    assert (commit.outcome, commit.snapshot_id) == ("landed", 3)
    assert values(store) == [0, 7, 7, 100, 200]


def test_a_rider_whose_window_is_closed_did_not_land_and_is_cleaned(store: Fragile, journal: Any) -> None:
    """G2, G5: both snapshots are published without it."""
    dead_rider(store, journal, **IDENTITY)
    written = {name for name in names(store, "manifest/") if name not in files_of(store)}
    assert (another(store, 200), another(store, 201)) == (3, 4)
    commit = only(recovered(journal, store))
    assert (commit.outcome, set(commit.cleaned)) == ("not landed", written)
    assert values(store) == [0, 100, 200, 201]
    assert sound(store)
    assert not table_of(store).append(MINE, **IDENTITY).replayed


def files_of(store: Fragile) -> set[str]:
    """The manifests and lists of all snapshots."""
    timeline = table_of(store).timeline
    found = set[str]()
    for made in table_of(store).snapshots():
        found |= {made.base_manifest_list, made.delta_manifest_list, *(m.file_name for m in timeline.manifests(made))}
    return {f"manifest/{name}" for name in found}


def test_whoever_finishes_a_rider_may_lose_the_first_of_its_snapshots(store: Fragile, journal: Any) -> None:
    dead_rider(store, journal)
    store.before["create snapshot/snapshot-3"] = lambda: another(store, 200) and None
    commit = only(recovered(journal, store))
    assert (commit.outcome, commit.snapshot_id) == ("finished", 4)
    assert values(store) == [0, 7, 7, 100, 200]
    assert sound(store)


def test_whoever_loses_both_snapshots_of_a_rider_reports_that_it_did_not_land(store: Fragile, journal: Any) -> None:
    """G2: it goes no further than the intent holds, because its writer, or a new run of the job, may go on from there."""
    dead_rider(store, journal, **IDENTITY)
    for number in (3, 4):
        store.before[f"create snapshot/snapshot-{number}"] = lambda n=number: another(store, n) and None
    commit = only(recovered(journal, store))
    assert commit.outcome == "not landed"
    assert "its writer is gone, and snapshots 3 and 4 are others'" in commit.reason
    assert commit.cleaned
    assert values(store) == [0, 3, 4, 100]
    assert sound(store)
    assert files_of(store) == set(names(store, "manifest/")), "neither has left anything"


def test_two_that_finish_a_rider_at_once_land_it_once(store: Fragile, journal: Any) -> None:
    """G3: the second publishes while the first is about to."""
    dead_rider(store, journal)
    others: list[RecoveredCommit] = []
    store.before["create snapshot/snapshot-3"] = lambda: others.append(only(recovered(journal, store)))
    commit = only(recovered(journal, store))
    assert (others[0].outcome, commit.outcome) == ("finished", "landed")
    assert commit.snapshot_uuid == others[0].snapshot_uuid
    assert values(store) == [0, 7, 7, 100]
    assert sound(store)


def test_a_new_run_of_the_job_and_whoever_finishes_the_old_one_land_it_once(store: Fragile, journal: Any) -> None:
    """G3: one identity, two commits."""
    dead_rider(store, journal, **IDENTITY)
    store.before["create snapshot/snapshot-3"] = lambda: another(store, 7, **IDENTITY) and None
    commit = only(recovered(journal, store))
    assert (commit.outcome, commit.snapshot_id) == ("landed", 3)
    assert values(store) == [0, 7, 100]


def test_a_rider_that_is_alive_after_all_lands_once(store: Fragile, journal: Any) -> None:
    """It was merely slow: it is not told that it has not landed, and it learns the truth when it asks."""
    told: list[RecoveredCommit] = []
    with pytest.raises(OutcomeUnknown) as unknown:
        rider(store, journal, ASKED, lambda: told.append(only(recovered_later(journal, store))), **IDENTITY)
    assert (told[0].outcome, told[0].snapshot_id) == ("finished", 3)
    receipt = unknown.value.resolve(timeout=0)
    assert (receipt.snapshot_id, receipt.leader, receipt.replayed) == (3, None, False)
    assert values(store) == [0, 7, 7, 100]


def test_a_rider_that_was_taken_over_asks_nobody_else_to_carry_it(store: Fragile, journal: Any) -> None:
    """G2: once its window is closed, another process may report that it has not landed."""
    told: list[str] = []

    def taken_over() -> None:
        with headless(store):
            told.append(only(recovered_later(journal, store)).outcome)

    def closed() -> None:
        another(store, 201)
        told.append(only(recovered(journal, store)).outcome)

    with pytest.raises(OutcomeUnknown) as unknown:
        rider(store, journal, ASKED, taken_over, **IDENTITY)
    another(store, 200)
    store.before["create snapshot/snapshot-4"] = closed
    with pytest.raises(OutcomeUnknown, match=r"took this commit over.* may still carry it"):
        unknown.value.resolve(timeout=0)
    assert another(store, 300) == 5
    assert told == ["unknown", "not landed"]
    with pytest.raises(CommitConflict):
        unknown.value.resolve(timeout=0)
    assert values(store) == [0, 100, 200, 201, 300]


def away() -> None:
    raise StoreUnavailable("the store is away")


@contextmanager
def headless(store: Fragile) -> Iterator[None]:
    """Meanwhile the store does not say which files exist."""
    store.head = lambda key: away()  # type: ignore[method-assign,assignment,return-value]
    yield
    del store.head


@pytest.mark.parametrize("kind", ["data", "manifest"])
def test_a_rider_whose_files_are_gone_is_not_published(store: Fragile, journal: Any, kind: str) -> None:
    """H10: the orphan cleaner of another engine, say. It stays unknown until its window is closed."""
    dead_rider(store, journal)
    (key,) = names(store, INTENTS)
    (line,) = parse_intent(store.get(key), key).manifests
    (entry,) = decode_manifest(store.get(f"manifest/{line.file_name}"), line.file_name)
    gone = f"manifest/{line.file_name}" if kind == "manifest" else f"bucket-0/{entry.file.file_name}"
    store.delete_many([gone])
    commit = only(recovered(journal, store))
    assert commit.outcome == "unknown"
    needed_by = key.removeprefix(INTENTS)
    assert commit.reason.startswith(f"it cannot be finished: {gone} is missing; the intent {needed_by} needs it;")
    assert commit.reason.endswith("it did not land once snapshots 3 and 4 are others'")
    assert values(store) == [0, 100]
    assert (another(store, 200), another(store, 201)) == (3, 4)
    assert only(recovered(journal, store)).outcome == "not landed"


def test_a_store_that_does_not_answer_leaves_a_rider_unknown(store: Fragile, journal: Any) -> None:
    dead_rider(store, journal)
    with headless(store):
        commit = only(recovered(journal, store))
    assert (commit.outcome, commit.reason) == ("unknown", "the store is away")
    assert only(recovered(journal, store)).outcome == "finished"


def test_a_dry_run_tells_that_a_rider_can_be_finished_and_sends_nothing(store: Fragile, journal: Any) -> None:
    dead_rider(store, journal)
    commit = only(recover_journal(journal(), store, MACHINE, writers_are_gone=True, dry_run=True))
    assert commit.outcome == "unknown"
    assert commit.reason == "snapshot 3 or 4 may still carry it: it can be finished"
    assert values(store) == [0, 100]


def test_an_intent_that_was_refused_is_not_published_by_others(store: Fragile, journal: Any) -> None:
    """G2: its writer then gave up and said so, but could not remove its journal."""

    def refused() -> None:
        store.before[BUILDING] = away
        raise StoreUnavailable("403")

    before, store.delete_many = store.delete_many, lambda keys: away()  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable, match="the store is away"):
        rider(store, journal, ASKED, refused)
    store.delete_many = before  # type: ignore[method-assign]
    assert all(c.outcome == "not landed" for c in recovered(journal, store).commits)
    assert values(store) == [0, 100]


def test_a_rider_that_waits_finds_itself_in_the_snapshot_of_whoever_took_it_over(store: Fragile, journal: Any) -> None:
    """That snapshot is of its own commit: nobody else's carries it."""

    def taken_over() -> None:
        store.put(f"{INTENTS}intent-3-0.json", b"of one who may lead before it, and has died")
        assert only(recovered_later(journal, store)).outcome == "finished"

    store.before["create snapshot/snapshot-2"] = lambda: another(store, 100) and None
    store.before[ASKED] = taken_over
    receipt = table_of(store, journal()).append(MINE, **IDENTITY)
    assert (receipt.snapshot_id, receipt.leader, receipt.riders) == (3, None, 0)
    assert values(store) == [0, 7, 7, 100]


@pytest.mark.parametrize("clean", [True, False])
def test_recovery_that_is_not_to_clean_leaves_the_intent(store: Fragile, clean: bool) -> None:
    dead_rider(store, lambda: ObjectJournal(store))
    (commit,) = ll.recover(store.url, writers_are_gone=True, clean=clean).commits
    assert commit.outcome == "finished"
    assert len(names(store, INTENTS)) == (0 if clean else 1)
    assert another(store, 300, looks=True) == 4
    assert values(store) == [0, 7, 7, 100, 300], "an intent that has landed is not carried"
