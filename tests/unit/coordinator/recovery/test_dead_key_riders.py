"""How another process finishes an upsert that had asked others to carry it when its writer died: above what others did since."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from changes import without_numbers
from fragile import Died, die, only
from riding import ASKED, ENGINES, NOON, Job, Keys, Row, upserts
from unit.coordinator.commit.test_group import Hooked

import lakelatch as ll
from lakelatch.coordinator.history.row_numbers import RowNumbers, row_numbers
from lakelatch.coordinator.identities.memory import memory_of
from lakelatch.coordinator.journal.object_journal import ObjectJournal
from lakelatch.coordinator.recovery.recover import RecoveredCommit, recover_journal
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.table.table import Table

MINE = upserts((1, 1, "mine"), (4, 4, "mine"), at=100, commit_user="etl", identifier=7)


class Dying(Keys):
    """A table on which a writer with a journal in the store dies once it has asked to be carried."""

    def __init__(self, options: dict[str, str] | None = None) -> None:
        super().__init__(options)
        self.table = Table(self.store, self.schema, journal=ObjectJournal(self.store))

    def dies(self, job: Job = MINE, *, winner: Job | None = None) -> None:
        self.loses(winner)
        self.store.after[ASKED] = die
        with pytest.raises(Died):
            job(self.table)

    def recovered(self) -> RecoveredCommit:
        store = Hooked(self.url)
        store.before, store.after = self.store.before, self.store.after
        return only(recover_journal(ObjectJournal(store), store, MACHINE, writers_are_gone=True))

    @property
    def data_files(self) -> set[str]:
        return {info.key for info in self.store.list("") if "/data-" in info.key or "/changelog-" in info.key}


BASE_ROWS: dict[int, Row] = {1: (1, 1, "mine"), 2: (2, 20, "base"), 3: (3, 30, "winner"), 4: (4, 4, "mine")}


@pytest.mark.parametrize("bucket", ["2", "-2"])
def test_a_dead_upsert_is_finished_under_its_own_numbers(bucket: str) -> None:
    world = Dying({"bucket": bucket})
    world.dies()
    written = world.data_files
    commit = world.recovered()
    assert (commit.outcome, commit.snapshot_id, commit.cleaned) == ("finished", 3, ())
    assert world.rows() == list(BASE_ROWS.values())
    assert written <= world.data_files
    said, below = world.said, row_numbers(world.fresh.timeline.snapshot(2))
    assert said is not None and below is not None and said.writes is not None
    (span,) = said.writes
    assert said.largest == max(below.largest, span.last)
    assert world.problems == []
    again = MINE(world.fresh)
    assert (again.replayed, again.snapshot_id) == (True, 3)
    assert not list(world.store.list("lakelatch/intents/"))


@pytest.mark.parametrize("at", [10, 900], ids=["the winner is older", "the winner is newer"])
def test_a_dead_upsert_is_finished_in_the_order_of_the_jobs(at: int) -> None:
    world = Dying()
    world.dies(winner=upserts((1, 30, "winner"), at=at))
    assert world.recovered().outcome == "finished"
    assert world.rows()[0] == ((1, 1, "mine") if at < 100 else (1, 30, "winner"))


def test_its_changelog_is_published_with_it() -> None:
    world = Dying({"changelog-producer": "input"})
    world.dies(upserts((1, 1, "mine"), (2, None, "-"), at=100, commit_user="etl", identifier=7))
    assert world.recovered().outcome == "finished"
    latest = world.latest
    assert (latest.id, latest.changelog_record_count, latest.delta_record_count) == (3, 2, 2)
    changes = world.fresh.changes(start=2, end=3).read_all()
    assert sorted(changes["k"].to_pylist()) == [1, 2]
    assert world.rows() == [(1, 1, "mine"), (3, 30, "winner")]
    assert world.problems == []


def test_what_it_said_of_itself_is_published_with_it() -> None:
    """Its properties are those of its snapshot, and its watermark counts."""
    world = Dying()
    world.dies(
        upserts((1, 1, "mine"), at=100, properties={"by": "me"}, watermark_ms=77, commit_user="etl", identifier=7)
    )
    assert world.recovered().outcome == "finished"
    assert world.latest.own_properties["by"] == "me"
    assert (world.latest.watermark, world.latest.operation) == (77, "WRITE")
    assert memory_of(world.latest).users["etl"].last == 7


def silent(world: Dying) -> None:
    without_numbers(world.store, 2)


def overtaken(world: Dying) -> None:
    upserts((1, 6, "later"), at=800)(Table(world.other.store, world.schema))
    without_numbers(world.store, 3)


def far_above(world: Dying) -> None:
    """Another snapshot takes the first of its two names, and says larger numbers than any clock."""
    upserts((5, 6, "later"), at=10_000)(Table(world.other.store, world.schema))


@pytest.mark.parametrize(
    ("since", "wanted"),
    [(silent, (1, 1, "mine")), (overtaken, (1, 6, "later")), (far_above, (1, 1, "mine"))],
    ids=["silent", "overtaken in silence", "overtaken"],
)
@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
def test_it_is_finished_above_what_others_did_since(since: Callable[[Dying], None], wanted: Row, engine: str) -> None:
    """Where snapshots do not say what their numbers are, manifests are read."""
    world = Dying(ENGINES[engine])
    world.dies()
    since(world)
    commit = world.recovered()
    assert commit.outcome == "finished"
    assert (world.latest.id, world.rows()[0]) == (commit.snapshot_id, wanted)
    assert 4 in [row[0] for row in world.rows()]
    assert world.problems == []
    assert MINE(world.fresh).replayed


def test_on_a_table_that_was_rescaled_since_it_does_not_land_and_its_files_are_cleaned() -> None:
    """H13: its files are of another bucket count."""
    world = Dying()
    world.dies()
    before = world.rows()
    world.fresh.alter(ll.set_option("bucket", "4"))
    world.fresh.rescale()
    assert world.latest.id == 3
    commit = world.recovered()
    assert commit.outcome == "not landed" and "has files of 4 buckets" in commit.reason
    assert all(name not in world.data_files for name in commit.cleaned)
    assert world.rows() == before
    world.other = world.fresh
    assert world.lead(upserts((6, 6, "x"), at=900)).riders == 0, "and it stays so (G2)"
    assert not MINE(world.fresh).replayed
    assert world.rows() == sorted([*before[1:], (1, 1, "mine"), (4, 4, "mine"), (6, 6, "x")])
    assert world.problems == []


def test_whoever_finishes_it_and_loses_both_snapshots_deletes_only_what_is_nobodys() -> None:
    """G5: neither the rows that others published, nor those of the rider that one of them may have carried."""
    world = Dying({"changelog-producer": "input"})
    world.dies()
    for number in (3, 4):
        job = upserts((10 + number, 0, "other"), at=500 + number)
        world.store.before[f"snapshot/snapshot-{number}"] = lambda job=job: job(Table(world.other.store, world.schema))
    commit = world.recovered()
    assert commit.outcome == "not landed"
    assert [row[0] for row in world.rows()] == [1, 2, 3, 13, 14]
    assert world.problems == []


@pytest.mark.parametrize("changelog", ["none", "input"])
def test_whoever_finishes_it_and_loses_to_a_leader_that_carried_it_deletes_nothing_of_it(changelog: str) -> None:
    """G1, G5: its rows are in the leader's snapshot, under the same files."""
    world = Dying({"changelog-producer": changelog})
    world.dies()
    written = world.data_files
    world.store.before["snapshot/snapshot-3"] = lambda: world.lead(upserts((5, 5, "boss"), at=500))
    commit = world.recovered()
    assert (commit.outcome, commit.snapshot_id) == ("landed", 3)
    assert world.riders == ["etl/7"]
    assert written <= world.data_files
    assert world.rows() == [*BASE_ROWS.values(), (5, 5, "boss")]
    assert world.problems == []


def test_the_base_of_a_dead_upsert_may_say_nothing_that_can_be_believed() -> None:
    world = Dying()
    world.dies()
    for number in (1, 2):
        without_numbers(world.store, number)
    assert world.recovered().outcome == "finished"
    assert world.rows() == list(BASE_ROWS.values())
    said = world.said
    assert isinstance(said, RowNumbers) and said.largest >= NOON << 22
    assert world.problems == []
