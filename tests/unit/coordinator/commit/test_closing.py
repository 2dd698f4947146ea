"""A commit that gives up while others may carry it closes its window, and says at once that it is not committed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from unit.coordinator.commit.test_group import World, rows

import lakelatch as ll
from lakelatch.backends.store import PutOutcome, Unknown
from lakelatch.coordinator.commit.committer import Committer
from lakelatch.coordinator.commit.steps.run import CommitRun
from lakelatch.coordinator.intents.carried import CLOSES_PROPERTY
from lakelatch.coordinator.journal.file_journal import FileJournal
from lakelatch.coordinator.protocol import effects as do
from lakelatch.coordinator.protocol import events as ev
from lakelatch.coordinator.recovery.recover import recover_journal
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.core.errors import OutcomeUnknown, StoreUnavailable
from lakelatch.core.paths import TablePaths
from lakelatch.table.table import Table


class Giving(World):
    """The store refuses some manifest lists of a writer, once it has asked to be carried."""

    def __init__(self, refused: int = 1, **options: str) -> None:
        super().__init__(**options)
        self.left = refused
        self.on_refusal: Callable[[], object] = lambda: None
        put = self.store.put

        def refuse(key: str, data: bytes) -> None:
            if self.asked and self.left and key.startswith("manifest/manifest-list"):
                self.left -= 1
                self.on_refusal()
                raise StoreUnavailable(f"{key}: access denied")
            put(key, data)

        self.asked = False
        self.store.put = refuse  # type: ignore[method-assign]
        self.store.after["lakelatch/intents/"] = lambda: setattr(self, "asked", True)

    def append(self) -> ll.Receipt:
        return self.table.append(rows(1, 2), commit_user="etl", identifier=7)

    @property
    def closing(self) -> list[int]:
        """The snapshots that close a window."""
        return [n for n in self.numbers if CLOSES_PROPERTY in self.snapshot(n).own_properties]

    @property
    def numbers(self) -> list[int]:
        return self.fresh.timeline.snapshot_ids()

    def snapshot(self, number: int):  # type: ignore[no-untyped-def]
        return self.fresh.timeline.snapshot(number)


@pytest.mark.parametrize("first", [True, False], ids=["asks first", "has lost"])
def test_it_is_not_committed_and_nobody_can_carry_it_any_more(first: bool) -> None:
    world = Giving()
    world.will_ask(first=first)
    with pytest.raises(StoreUnavailable, match="access denied"):
        world.append()
    world.table.committer.settle()
    assert (world.numbers, world.closing, world.intents) == ([1, 2, 3, 4], [3, 4], [])
    empty = world.snapshot(4)
    assert (empty.commit_kind, empty.delta_record_count, empty.total_record_count) == ("APPEND", 0, 2)
    assert "etl" not in empty.commit_user
    assert "closes    the window of commit" in str(world.fresh.explain(4))
    world.another(200, looks=True)
    assert world.values == [0, 100, 200]
    assert world.fresh.verify("all", data=True) == []


def test_rows_that_were_deleted_stay_deleted() -> None:
    """A snapshot that closes a window has the index files of the one before."""
    world = Giving(**{"deletion-vectors.enabled": "true"})
    world.other.append(rows(5, 6))
    world.other.delete(where="v = 5")
    world.other.committer.settle()
    world.loses()
    with pytest.raises(StoreUnavailable, match="access denied"):
        world.append()
    world.table.committer.settle()
    assert world.closing and world.values == [0, 6, 100]


def test_its_job_runs_again_and_lands_once() -> None:
    world = Giving()
    world.loses()
    with pytest.raises(StoreUnavailable):
        world.append()
    assert world.append().replayed is False
    assert world.append().replayed is True
    assert world.values == [0, 1, 2, 100]


def test_an_id_that_another_takes_need_not_be_closed() -> None:
    world = Giving()
    world.loses()
    world.on_refusal = lambda: world.another(200, group="off")
    with pytest.raises(StoreUnavailable):
        world.append()
    assert (world.closing, world.values) == ([4], [0, 100, 200])


def test_it_is_committed_if_another_carries_it_meanwhile() -> None:
    world = Giving()
    world.loses()
    world.on_refusal = lambda: world.another(200, looks=True)
    receipt = world.append()
    assert (receipt.snapshot_id, receipt.leader is not None, world.closing) == (3, True, [])
    world.table.committer.settle()
    assert (world.values, world.intents) == ([0, 1, 2, 100, 200], [])
    assert world.append().replayed


def test_another_that_carries_it_after_the_first_id_was_closed() -> None:
    """The second id is another's, which still sees the intent."""
    world = Giving()
    world.loses()

    def carry() -> None:
        world.store.before["snapshot/snapshot-4"] = lambda: world.another(200, looks=True)

    world.on_refusal = carry
    receipt = world.append()
    assert (receipt.snapshot_id, world.closing, world.values) == (4, [3], [0, 1, 2, 100, 200])


def test_a_snapshot_that_closed_the_first_id_keeps_its_files_if_the_second_one_is_lost() -> None:
    """What the lost attempt has written is deleted, and none of it is in a snapshot."""
    world = World()
    world.loses()
    get, fails = world.store.get, list[str]()

    def once_away(key: str) -> bytes:
        if fails and key.startswith("manifest/"):
            raise StoreUnavailable(fails.pop())
        return get(key)

    def taken() -> None:
        world.store.before["snapshot/snapshot-4"] = lambda: world.another(200, group="off")
        fails.append("away")

    world.store.get = once_away  # type: ignore[method-assign]
    world.store.after["lakelatch/intents/"] = taken
    with pytest.raises(StoreUnavailable, match="away"):
        world.table.append(rows(1, 2), commit_user="etl", identifier=7)
    world.table.committer.settle()
    assert CLOSES_PROPERTY in world.fresh.timeline.snapshot(3).own_properties
    assert (world.fresh.timeline.snapshot_ids(), world.values) == ([1, 2, 3, 4], [0, 100, 200])
    assert world.fresh.verify("all", data=True) == []


def test_the_outcome_is_unknown_where_the_window_cannot_be_closed() -> None:
    """Then it goes on when it is resolved, because its caller was not told that it has not landed."""
    world = Giving(refused=4)
    world.loses()
    with pytest.raises(OutcomeUnknown, match="access denied") as told:
        world.append()
    assert world.values == [0, 100]
    world.left = 0
    assert told.value.resolve(timeout=0).snapshot_id == 3
    assert (world.values, world.closing) == ([0, 1, 2, 100], [])


def test_a_commit_that_goes_on_when_it_is_resolved_has_its_time_once_more() -> None:
    """That of its first try is spent by then. So what the store does not answer is sent again."""
    world, later_s = Giving(refused=4, **{"commit.timeout": "10 min"}), [0.0]
    around = replace(MACHINE, monotonic_s=lambda: MACHINE.monotonic_s() + later_s[0])
    world.table._committer = Committer(world.store, TablePaths(), world.schema, around=around)
    world.loses()
    with pytest.raises(OutcomeUnknown, match="access denied") as told:
        world.append()
    world.left, later_s[0] = 0, 3600.0
    create, silent = world.store.put_if_absent, [Unknown("no answer")]

    def once_silent(key: str, data: bytes) -> PutOutcome:
        return silent.pop() if silent and key == "snapshot/snapshot-3" else create(key, data)

    world.store.put_if_absent = once_silent  # type: ignore[method-assign]
    assert told.value.resolve(timeout=0).snapshot_id == 3
    assert (world.values, silent) == ([0, 1, 2, 100], [])


def test_a_window_is_closed_although_a_base_was_too_old_to_publish_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has sent no snapshot of its own."""
    world, publish, slow = Giving(), CommitRun.publish, [True]
    world.will_ask(first=True)

    def slowly(run: CommitRun, effect: do.Publish) -> ev.Event:
        return ev.BaseAged() if run.left.closes is not None and slow and slow.pop() else publish(run, effect)

    monkeypatch.setattr(CommitRun, "publish", slowly)
    with pytest.raises(StoreUnavailable, match="access denied"):
        world.append()
    assert (world.closing, world.values, slow) == ([3, 4], [0, 100], [])


def test_who_is_interrupted_while_it_closes_its_window_can_still_ask() -> None:
    """Its caller was not told that it gave up, so whoever finishes it may land it."""
    world = Giving()
    world.loses()
    world.on_refusal = lambda: world.store.before.update({"snapshot/snapshot-3": stop})
    with pytest.raises(KeyboardInterrupt) as told:
        world.append()
    unknown = told.value.__cause__
    assert isinstance(unknown, OutcomeUnknown)
    assert world.values == [0, 100]
    assert unknown.resolve(timeout=0).snapshot_id == 3
    assert (world.values, world.append().replayed) == ([0, 1, 2, 100], True)


def test_a_journal_tells_of_a_writer_that_died_while_it_closed_its_window(tmp_path: Path) -> None:
    world = Giving()
    journal = FileJournal(tmp_path / "journal")
    world.table = Table(world.store, world.schema, journal=journal)
    world.loses()
    world.on_refusal = lambda: world.store.after.update({"snapshot/snapshot-3": stop})
    with pytest.raises(KeyboardInterrupt):
        world.append()
    (found,) = recover_journal(journal, world.store, MACHINE, writers_are_gone=True).commits
    assert (found.outcome, found.snapshot_id) == ("finished", 4)
    assert (world.closing, world.values) == ([3], [0, 1, 2, 100])
    assert world.fresh.verify("all", data=True) == []


def stop() -> None:
    raise KeyboardInterrupt
