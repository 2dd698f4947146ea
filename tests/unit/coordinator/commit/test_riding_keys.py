"""Upserts that ride: rows that only their numbers order land in the snapshot of another commit, in the order of their jobs."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise, product
from typing import Any
from unittest.mock import patch

import pytest
from changes import without_numbers, written
from riding import ASKED, ENGINES, NOON, WINNER, Job, Keys, began, data, in_turn, upserts
from unit.coordinator.commit.test_group import Hooked

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.coordinator.commit.attempt import NO_LIST_YET, Delta
from lakelatch.coordinator.commit.checks.changes_since import ChangesSince
from lakelatch.coordinator.commit.request import CommitRequest, Remarks
from lakelatch.coordinator.commit.riding.group import Group
from lakelatch.coordinator.commit.settling.settler import Settler
from lakelatch.coordinator.history.row_numbers import Span
from lakelatch.coordinator.intents.intent import Intent, Numbered, parse_intent
from lakelatch.coordinator.maintenance.orphans import plan_orphans
from lakelatch.coordinator.protocol.snapshot_ref import SnapshotRef
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.core.errors import CommitConflict
from lakelatch.core.metadata.data_file import ADD, EMPTY_ROW, DataFile, ManifestEntry
from lakelatch.table.table import Table
from lakelatch.table.writing.beginning import Beginning

FILE = ManifestEntry(ADD, EMPTY_ROW, 0, 2, DataFile("f", 1, 5, max_sequence_number=4))
BUCKETS: dict[str, dict[str, str]] = {
    "fixed": {"bucket": "2"},
    "postponed, in real buckets": {"bucket": "-2", "postpone.default-bucket-num": "2"},
    "postponed, set aside": {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"},
}
VECTORS = {"": {}, "vectors": {"deletion-vectors.enabled": "true"}}
MINE = ((1, 1, "mine"), (4, None, "mine"), (5, 7, "mine"))
BOSS = ((1, 2, "boss"), (4, 8, None), (6, 9, "boss"))


@pytest.mark.parametrize("is_older", [True, False], ids=["the rider is older", "the leader is older"])
@pytest.mark.parametrize(
    ("engine", "kind", "vectors"),
    [case for case in product(ENGINES, BUCKETS, VECTORS) if case[::2] != ("first-row", "vectors")],
)
def test_an_upsert_rides_and_readers_see_the_rows_of_a_serial_order(
    engine: str, kind: str, vectors: str, is_older: bool
) -> None:
    """In buckets that of the jobs' beginnings; rows that are set aside have that of the snapshot: its leader's come first."""
    options = {**ENGINES[engine], **BUCKETS[kind], **VECTORS[vectors]}
    world = Keys(options)
    mine = upserts(*MINE, at=0 if is_older else 200, commit_user="etl", identifier=7)
    boss = upserts(*BOSS, at=100, commit_user="boss", identifier=1)
    receipt, led = world.meets(mine, boss)
    assert (receipt.leader, receipt.snapshot_id, led.riders, led.snapshot_id) == ("boss", 3, 1, 3)
    assert world.riders == ["etl/7"]
    assert world.latest.delta_record_count == len(MINE) + len(BOSS)
    assert world.problems == []
    by_landing = kind == "postponed, set aside"
    order = [WINNER, boss, mine] if by_landing or not is_older else [mine, WINNER, boss]
    wanted = in_turn(options, *order)
    if not (by_landing or vectors or engine == "first-row"):  # these show what was compacted
        assert world.rows() == wanted
    assert world.rows(compacted=True) == wanted
    assert world.problems == []
    again = mine(world.fresh)
    assert (again.replayed, again.snapshot_id) == (True, 3)
    assert world.rows() == wanted


def test_a_key_deleted_by_a_rider_is_gone_and_comes_back_if_a_later_job_wrote_it() -> None:
    for at, wanted in ((200, [2, 3]), (0, [1, 2, 3])):
        world = Keys()
        receipt, _ = world.meets(upserts((1, None, "-"), at=at), upserts((1, 2, "boss"), at=100))
        assert receipt.leader is not None
        assert [row[0] for row in world.rows()] == wanted
        assert [row[0] for row in world.rows(compacted=True)] == wanted


def test_rows_of_partitions_and_buckets_ride_together() -> None:
    world = Keys(partition_by=["b"])
    mine, boss = ((n, n, "base") for n in range(10, 20)), ((n, n, "boss") for n in range(10, 30))
    receipt, led = world.meets(upserts(*mine), upserts(*boss, at=100))
    assert (receipt.leader is not None, led.riders) == (True, 1)
    assert len(world.rows()) == 3 + 10 + 20
    assert {entry.bucket for entry in world.entries} == {0, 1}
    assert world.problems == []


@pytest.mark.parametrize("bucket", ["2", "-2"])
def test_the_changelog_of_a_rider_is_published_with_its_rows(bucket: str) -> None:
    world = Keys({"changelog-producer": "input", "bucket": bucket})
    receipt, _ = world.meets(upserts((1, 1, "mine"), (2, None, "-"), (4, 4, "mine")), upserts((1, 2, "boss"), at=100))
    latest = world.latest
    assert (receipt.leader is not None, receipt.snapshot_id) == (True, 3)
    assert (latest.changelog_record_count, latest.delta_record_count) == (4, 4)
    assert latest.changelog_manifest_list is not None
    lines = world.fresh.timeline.manifest_list(latest.changelog_manifest_list)
    entries = world.fresh.timeline.entries(lines)
    assert sum(entry.file.row_count for entry in entries) == 4
    changes = world.fresh.changes(start=2, end=3).read_all()
    found = sorted(zip(changes["k"].to_pylist(), changes["b"].to_pylist(), strict=True))
    assert [pair for pair in found if pair[0] != 2] == [(1, "boss"), (1, "mine"), (4, "mine")]
    assert len(found) == 4 and world.whole()


def test_a_rider_with_a_changelog_is_carried_by_one_without() -> None:
    """Its leader has no changelog files of its own, and publishes those of its rider."""
    world = Keys({"changelog-producer": "input"})

    def leader(table: Table) -> ll.Receipt:
        with began(100):
            entries = written(table, data((9, 9, "boss")))
        read = table.timeline.latest()
        request = CommitRequest("APPEND", entries, "boss", 1, read_snapshot=read, remarks=Remarks("WRITE"))
        return table.committer.commit(request)

    receipt, led = world.meets(upserts((1, 1, "mine"), (2, None, "-")), leader)
    assert (receipt.leader is not None, led.riders) == (True, 1)
    assert (world.latest.changelog_record_count, world.latest.delta_record_count) == (2, 3)
    assert world.problems == []


def test_the_snapshot_after_one_with_a_riders_changelog_has_none_of_it() -> None:
    """A leader that has lost its try with a rider keeps no list in which the rider's changelog is."""
    world = Keys({"changelog-producer": "input"})
    world.meets(upserts((1, 1, "mine")), upserts((1, 2, "boss"), at=100))
    upserts((7, 7, "next"), at=300)(world.other)
    assert world.latest.changelog_record_count == 1
    assert world.fresh.changes(start=3, end=4).read_all()["k"].to_pylist() == [7]


# --------------------------------------------------------------------------------------------------- numbers that meet


@pytest.mark.parametrize("shift", [0, 1, 2], ids=["equal", "overlapping", "the last is the first"])
@pytest.mark.parametrize("options", [{}, ENGINES["aggregation"]], ids=["deduplicate", "aggregation"])
def test_rows_whose_numbers_meet_those_of_a_leader_are_not_carried(options: dict[str, str], shift: int) -> None:
    """They land next, with other numbers, and each row counts once."""
    world = Keys({**options, "bucket": "1"})
    mine, boss = ((n, 1, "mine") for n in (1, 4, 5)), ((n, 2, "boss") for n in (1, 4, 6))
    receipt, led = world.meets(numbered(100, *mine), numbered(100 + shift, *boss), winner=numbered(50, (3, 30, "w")))
    assert (led.riders, led.snapshot_id, receipt.leader, receipt.snapshot_id) == (0, 3, None, 4)
    assert both_apart(world)
    sums = {row[0]: row[1] for row in world.rows()}
    added = options != {}
    assert (sums[1], sums[4]) == ((13, 3) if added else (1, 1))
    assert world.problems == []


def test_rows_next_to_those_of_a_leader_are_carried() -> None:
    world = Keys({"bucket": "1"})
    mine, boss = ((n, 1, "mine") for n in (1, 4, 5)), ((n, 2, "boss") for n in (1, 4, 6))
    receipt, led = world.meets(numbered(100, *mine), numbered(103, *boss), winner=numbered(50, (3, 30, "w")))
    assert (led.riders, receipt.snapshot_id) == (1, 3)
    assert both_apart(world)


def numbered(first: int, *rows: Any) -> Job:
    """A job whose rows have this number above noon, and those that follow."""

    def job(table: Table) -> ll.Receipt:
        number = (NOON << 22) + first
        with patch.object(Beginning, "first_number", lambda self, largest: max(number, largest + 1)):
            return upserts(*rows)(table)

    return job


def both_apart(world: Keys) -> bool:
    """No two files of a bucket share a number, and each snapshot says spans that are apart."""
    spans = sorted((e.bucket, e.file.min_sequence_number, e.file.max_sequence_number) for e in world.entries)
    return all(a[0] != b[0] or a[2] < b[1] for a, b in pairwise(spans))


def test_two_riders_whose_numbers_meet_land_one_after_the_other() -> None:
    world = Keys({"bucket": "1"})
    second = Hooked(world.url)
    led = list[ll.Receipt]()
    receipts = list[ll.Receipt]()
    mine, twin = numbered(100, (1, 1, "mine"), (4, 1, "mine")), numbered(101, (1, 2, "twin"), (5, 2, "twin"))

    def also_asks() -> None:
        second.after[ASKED] = lambda: led.append(world.lead(numbered(900, (6, 6, "boss"))))
        table = Table(second, world.schema)
        table.committer.meet(3, 0.001)
        receipts.append(twin(table))

    world.loses(numbered(50, (3, 30, "w")))
    world.store.after[ASKED] = also_asks
    receipts.append(mine(world.table))
    assert led[0].riders == 1
    assert sorted(receipt.snapshot_id for receipt in receipts) == [3, 4]
    assert both_apart(world) and len(world.rows()) == 6
    assert world.problems == []


@pytest.mark.parametrize("meets", [True, False])
def test_a_leader_that_numbers_its_rows_again_leaves_those_behind_that_they_meet(meets: bool) -> None:
    """It chose its riders for the numbers that it had."""
    group = Group(CommitRequest("APPEND", (FILE,), "boss"), "c0", Keys().schema, MACHINE, allowed=True)
    riders = tuple(
        Intent(f"c{n}", "job", n, SnapshotRef(1, "u"), 0, 2, 1, (), numbered=Numbered(Span(*span), 2))
        for n, span in enumerate(((200, 209), (300, 309)))
    )
    plain = Intent("c9", "job", 9, SnapshotRef(1, "u"), 0, 2, 1, ())
    group.riders = (*riders, plain)
    delta = Delta((FILE,), (), (), NO_LIST_YET)
    group.keep(delta, (FILE,))
    assert group.riders == (*riders, plain), "they are the rows that it had"
    new = FILE._replace(file=FILE.file._replace(min_sequence_number=290, max_sequence_number=300 if meets else 299))
    group.keep(None, (new,))
    assert group.riders == (*riders, plain)
    group.keep(delta, (new,))
    assert group.riders == ((riders[0], plain) if meets else (*riders, plain))


# ------------------------------------------------------------------------------------------------ what has changed meanwhile


def test_a_rider_on_a_table_that_was_rescaled_meanwhile_is_not_carried() -> None:
    """H13: its files are of another bucket count. Its caller hears of it."""
    world = Keys()
    world.loses()

    def rescaled() -> None:
        table = world.fresh
        table.alter(ll.set_option("bucket", "4"))
        world.fresh.rescale()
        world.other = ll.open_table(world.url)
        assert world.lead(upserts((1, 2, "boss"), at=100)).riders == 0

    world.store.after[ASKED] = rescaled
    with pytest.raises(CommitConflict, match="has files of 4 buckets"):
        upserts((1, 1, "mine"))(world.table)
    assert world.rows() == [(1, 2, "boss"), (2, 20, "base"), (3, 30, "winner")]
    world.table.committer.settle()
    assert not list(world.store.list("lakelatch/intents/"))
    assert world.problems == []


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.update(where="k = 1", set={"a": "a + 1"}),
        lambda table: table.delete(where="k = 1"),
        lambda table: table.rollback(snapshot=1),
    ],
    ids=["UPDATE", "DELETE", "rollback"],
)
def test_a_rider_above_whose_base_rows_were_read_or_removed_is_not_carried(change: Any) -> None:
    """The change knows nothing of its rows: it lands as a commit that goes alone would."""
    outcomes = []
    for rides in ("auto", "off"):
        world = Keys({"commit.group": rides})

        def changed(world: Keys = world) -> None:
            change(world.fresh)
            world.lead(upserts((7, 7, "boss"), at=900))

        world.loses()
        if rides == "auto":
            world.store.after[ASKED] = changed
        else:
            world.store.before["snapshot/snapshot-"] = lambda w=world, c=changed: (WINNER(w.other), c())
        with suppress(CommitConflict):
            upserts((1, 1, "mine"), at=500)(world.table)
        assert world.riders == [] and world.problems == []
        outcomes.append(world.rows())
    assert outcomes[0] == outcomes[1]


def test_an_upsert_of_a_silent_table_does_not_ride_with_its_own_kind_of_leader() -> None:
    """What was given meanwhile is not known of it, so it goes alone, and lands in order."""
    world = Keys()

    def silently(table: Table) -> ll.Receipt:
        receipt = WINNER(table)
        without_numbers(world.store, receipt.snapshot_id)
        return receipt

    world.loses(silently)
    receipt = upserts((1, 1, "mine"))(world.table)
    assert (receipt.leader, receipt.snapshot_id) == (None, 3)
    assert not world.has_asked or world.riders == []
    assert world.rows() == [(1, 1, "mine"), (2, 20, "base"), (3, 30, "winner")]


# ------------------------------------------------------------------------------------------------------------- the requests


@pytest.mark.parametrize("bucket", ["2", "-2"])
def test_where_nobody_rides_an_upsert_that_loses_once_costs_few_requests(bucket: str) -> None:
    world = Keys({"bucket": bucket})
    table = world.table
    upserts((8, 8, "warm"), at=-900)(table)
    world.loses()
    receipt = upserts((1, 1, "mine"), at=60)(table)
    assert (receipt.snapshot_id, receipt.leader, receipt.attempts) == (4, None, 2)
    assert receipt.requests <= 16


def test_an_upsert_that_meets_nobody_costs_what_it_costs_without_riding() -> None:
    costs = []
    for option in ("auto", "off"):
        world = Keys({"commit.group": option})
        upserts((8, 8, "warm"), at=1)(world.table)
        costs.append(upserts((1, 1, "mine"), at=60)(world.table).requests)
    assert costs[0] == costs[1]


def test_an_intent_that_is_refused_is_not_asked_for_again_without_end() -> None:
    """The rows may have to be numbered again, so that others could not carry them; the commit goes on alone."""
    world = Keys()
    world.table.committer.meet(3, 0.5)

    def unclear(run: Any, base: Any) -> bool:
        return False

    with patch.object(Settler, "stays", unclear):
        receipt = upserts((1, 1, "mine"))(world.table)
    events = [type(entry.event).__name__ for entry in world.table.committer.journal.entries()]  # type: ignore[attr-defined]
    assert events.count("IntentRefused") == 1
    assert (receipt.snapshot_id, receipt.attempts) == (2, 1)
    assert world.rows()[0] == (1, 1, "mine")


def test_an_upsert_that_asks_before_its_first_try_reads_no_manifests_of_its_base() -> None:
    """Others are to carry it, and what it has to know of them their snapshots say."""
    world = Keys()
    table = world.table
    upserts((8, 8, "warm"), at=1)(table)
    world.lead(upserts((9, 9, "other"), at=20))
    table.committer.meet(3, 0.5)
    read = list[str]()
    get = world.store.get

    def noted(key: str) -> bytes:
        read.append(key)
        return get(key)

    world.store.get = noted  # type: ignore[method-assign]
    before = list[list[str]]()
    world.store.after[ASKED] = lambda: (before.append([*read]), world.lead(upserts((1, 2, "boss"), at=100)))
    receipt = upserts((1, 1, "mine"), at=60)(table)
    assert receipt.leader is not None
    assert [key for key in before[0] if key.startswith("manifest/")] == []


# --------------------------------------------------------------------------------------------------------- orphans, files


def test_the_changelog_of_an_open_intent_is_no_orphan() -> None:
    """G7: its manifest and its data are what the next snapshots may carry."""
    world = Keys({"changelog-producer": "input"})
    found = list[set[str]]()

    def looked() -> None:
        (key,) = [info.key for info in world.store.list("lakelatch/intents/")]
        intent = parse_intent(world.store.get(key), key)
        assert len(intent.changelog) == 1
        names = {f"manifest/{line.file_name}" for line in intent.all_manifests}
        orphans = {i.key for i in plan_orphans(world.fresh.timeline, world.schema, 2**62).files}
        found.append(orphans & {*names, key})
        found.append({name for name in orphans if "/changelog-" in name or "/data-" in name})
        world.lead(upserts((1, 2, "boss"), at=100))

    world.loses()
    world.store.after[ASKED] = looked
    assert upserts((1, 1, "mine"))(world.table).leader is not None
    assert found == [set(), set()]
    assert world.problems == []


def test_a_rider_that_is_numbered_again_before_it_lands_leaves_no_file_behind() -> None:
    world = Keys({"bucket": "1", "changelog-producer": "input"})
    receipt, _ = world.meets(
        numbered(100, (1, 1, "mine")), numbered(100, (1, 2, "boss")), winner=numbered(50, (3, 3, "w"))
    )
    assert receipt.snapshot_id == 4
    live = {entry.file.file_name for entry in world.entries}
    data_files = {i.key.rpartition("/")[2] for i in world.store.list("") if "/data-" in i.key}
    assert data_files == live
    assert world.problems == []


@pytest.mark.parametrize("changelog", ["none", "input"])
def test_a_rider_that_was_carried_after_it_had_written_its_rows_again_keeps_the_files_of_its_intent(
    changelog: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G5: it could not read what had come since, so it took new numbers; a leader could, and carried the old ones."""
    world, chain = Keys({"changelog-producer": changelog}), ChangesSince._chain
    gone = [False]

    def read(self: ChangesSince, *span: Any) -> Any:
        return None if gone[0] else chain(self, *span)

    def others(job: Job) -> ll.Receipt:
        gone[0] = False
        receipt = world.lead(job)
        gone[0] = True
        return receipt

    def overtaken() -> None:
        with began(300):
            world.other.append(data((5, 5, "alone")), group="off")
        world.store.before["snapshot/snapshot-4"] = lambda: others(upserts((6, 6, "boss"), at=1000))
        gone[0] = True

    monkeypatch.setattr(ChangesSince, "_chain", read)
    world.loses()
    world.store.after[ASKED] = overtaken
    receipt = upserts((1, 1, "mine"), (4, 4, "mine"), at=100, commit_user="etl", identifier=7)(world.table)
    gone[0] = False
    assert (receipt.snapshot_id, receipt.leader is not None, world.riders) == (4, True, ["etl/7"])
    assert world.problems == []
    assert [row[0] for row in world.rows()] == [1, 2, 3, 4, 5, 6]
    live = {entry.file.file_name for entry in world.entries}
    assert {i.key.rpartition("/")[2] for i in world.store.list("") if "/data-" in i.key} == live


def test_each_commit_in_a_snapshot_is_compared_apart_where_the_snapshot_says_nothing_of_its_numbers() -> None:
    """The rider and its leader have numbers on both sides of those of a third job, which meet neither."""
    world = Keys({"bucket": "1"})
    late = Table(MemoryStore(world.url), world.schema)
    rider: list[ll.Receipt] = []
    with began(200), late.transaction() as between:
        between.upsert(data((1, 2, "between")))
        rider += world.meets(upserts((1, 1, "early"), at=100), upserts((1, 3, "late"), at=300))
        without_numbers(world.other.store, world.latest.id)
        written = [entry.file.file_name for entry in world.entries]
    assert rider[0].leader is not None and rider[1].riders == 1
    assert between.receipt is not None and between.receipt.snapshot_id == rider[1].snapshot_id + 1
    (new,) = [entry.file for entry in world.entries if entry.file.file_name not in written]
    assert new.min_sequence_number < max(entry.file.max_sequence_number for entry in world.entries), (
        "it was not numbered again"
    )
    assert (1, 3, "late") in world.rows(compacted=True) and world.whole()
