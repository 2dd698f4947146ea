"""Which manifests are worth a compaction, and how its plan is told before and after."""

from __future__ import annotations

from typing import Any

import pytest

from lakelatch.coordinator.commit.receipt import Receipt
from lakelatch.coordinator.commit.request import CommitRequest, ManifestMerge
from lakelatch.coordinator.maintenance.manifests import ManifestPlan, compact_manifests, plan_manifests
from lakelatch.core.metadata.data_file import NO_STATS
from lakelatch.core.metadata.manifest import ManifestFile
from lakelatch.core.metadata.schema import TableSchema
from lakelatch.core.metadata.snapshot import Snapshot

TARGET = 1_000
SCHEMA = TableSchema(0, (), 0, option_texts={"manifest.target-file-size": f"{TARGET} b"})
RECEIPT = Receipt(9, "uuid", "ops", 4, "COMPACT", 1, 0, 7, 3, 12.5, False)
NEWEST = Snapshot(8, 0, "b", "d", "me", 7, "APPEND", 0, 1, 1)


def manifest(size: int, deleted: int = 0) -> ManifestFile:
    return ManifestFile(f"manifest-{size}-{deleted}", size, 5, deleted, NO_STATS, 0)


SMALL, SMALLER, FULL, CLEARED = manifest(999), manifest(10), manifest(TARGET), manifest(TARGET, 2)


class History:
    """A timeline of snapshots that have these manifests."""

    def __init__(self, *manifests: ManifestFile, newest: Snapshot | None = NEWEST) -> None:
        self.held, self.newest = manifests, newest
        self.found: dict[int, Snapshot] = {}

    def latest(self) -> Snapshot | None:
        return self.newest

    def find(self, snapshot_id: int) -> Snapshot | None:
        return self.found.get(snapshot_id)

    def manifests(self, snapshot: Snapshot) -> tuple[ManifestFile, ...]:
        return self.held


def planned(*manifests: ManifestFile, **more: Any) -> ManifestPlan:
    history: Any = History(*manifests, **more)
    return plan_manifests(history, SCHEMA)


@pytest.mark.parametrize(
    ("manifests", "merged"),
    [
        ((), ()),
        ((SMALL,), ()),
        ((FULL,), ()),
        ((FULL, SMALL), ()),
        ((SMALL, SMALLER), (SMALL, SMALLER)),
        ((SMALL, FULL, SMALLER), (SMALL, SMALLER)),
        ((CLEARED,), (CLEARED,)),
        ((FULL, CLEARED, FULL), (CLEARED,)),
        ((manifest(5, 1),), (manifest(5, 1),)),
    ],
    ids=lambda found: "+".join(m.file_name.removeprefix("manifest-") for m in found) or "none",
)
def test_manifests_with_deletions_are_merged_and_small_ones_if_there_are_two(
    manifests: tuple[ManifestFile, ...], merged: tuple[ManifestFile, ...]
) -> None:
    plan = planned(*manifests)
    assert (plan.snapshot_id, plan.manifests, plan.merged) == (8, manifests, merged)
    assert plan.is_due is bool(merged)


def test_a_table_without_a_snapshot_has_nothing_to_merge() -> None:
    plan = planned(SMALL, SMALLER, newest=None)
    assert plan == ManifestPlan(None, (), ())
    assert str(plan) == "nothing to compact: 0 manifests (0 bytes, 0 deletions)"


def test_a_plan_before_and_after() -> None:
    before = ManifestPlan(8, (SMALL, FULL, CLEARED), (SMALL, CLEARED))
    assert str(before) == "2 manifests (1999 bytes, 2 deletions) of 3 would be merged"
    told = {"manifests": 3, "bytes": 2999, "deleted_files": 2, "to_merge": 2}
    assert before.to_dict() == {"snapshot_id": None, **told, "manifests_after": None, "bytes_after": None}
    after = ManifestPlan(8, (SMALL, FULL, CLEARED), (SMALL, CLEARED), RECEIPT, (FULL, SMALLER))
    assert str(after) == (
        "3 manifests (2999 bytes, 2 deletions) became 2 manifests (1010 bytes, 0 deletions), snapshot 9"
    )
    assert after.to_dict() == {"snapshot_id": 9, **told, "manifests_after": 2, "bytes_after": 1010}
    assert str(ManifestPlan(8, (SMALL,), ())) == "nothing to compact: 1 manifest (999 bytes, 0 deletions)"


@pytest.mark.parametrize("expired", [False, True])
def test_the_manifests_of_the_commit_are_looked_up_if_its_snapshot_is_still_there(expired: bool) -> None:
    requests: list[CommitRequest] = []

    class Commits:
        def commit(self, request: CommitRequest) -> Receipt:
            requests.append(request)
            return RECEIPT

    history: Any = History(FULL)
    history.found = {} if expired else {9: NEWEST}
    committer: Any = Commits()
    plan = ManifestPlan(8, (SMALL, SMALLER), (SMALL, SMALLER))
    done = compact_manifests(committer, history, plan, "ops", 4)
    assert done == ManifestPlan(8, plan.manifests, plan.merged, RECEIPT, () if expired else (FULL,))
    assert requests == [ManifestMerge("COMPACT", (), "ops", 4)]
