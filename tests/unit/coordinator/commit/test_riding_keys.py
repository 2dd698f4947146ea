"""Upserts that ride: rows that only their numbers order land in the snapshot of another commit, in the order of their jobs."""

from __future__ import annotations

from itertools import product

import pytest
from changes import written
from riding import ENGINES, WINNER, Keys, began, data, in_turn, upserts

import lakelatch as ll
from lakelatch.coordinator.commit.request import CommitRequest, Remarks
from lakelatch.table.table import Table

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
