"""Undo and explain of one commit of several that rode together: the others stay, and their reruns are replays."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest
from hooked_store import HookedStore

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.coordinator.intents.carried import carried_by
from lakelatch.core.errors import CommitConflict, InvalidArgument, TableCorrupt
from lakelatch.core.metadata.snapshot import parse_snapshot
from lakelatch.table.table import Table

COUNTER = itertools.count()
OPTIONS = {"commit.group": "auto", "commit.min-retry-wait": "1 ms"}


def rows(*values: int) -> pa.Table:
    return pa.table({"v": pa.array(values, pa.int64())})


class Rode:
    """Snapshot 3 has the rows 200 and 201 of job-2, which leads, and 100 of job-1, which rides."""

    def __init__(
        self, rider: tuple[str, int] | None = ("job-1", 1), leader: tuple[str, int] | None = ("job-2", 1)
    ) -> None:
        self.url = f"memory://undo-riders-{next(COUNTER)}/t"
        ll.create_table(self.url, rows().schema, options=OPTIONS).append(rows(0))
        job = self.hooked()
        hooks: Any = job.store
        hooks.before["snapshot/snapshot-"] = lambda: self.fresh.append(rows(2), group="off")
        hooks.after["lakelatch/intents/"] = lambda: self._lead(leader)
        self.rider = job.append(rows(100), **_identity(rider))
        job.committer.settle()
        assert (self.rider.snapshot_id, self.rider.leader) == (3, self.leader.commit_user)

    def hooked(self) -> Table:
        """The table, in a store in which others come at a chosen moment."""
        opened = self.fresh
        store: Any = HookedStore(MemoryStore(self.url))
        return Table(store, opened.schema, first_schema=opened._first_schema)

    def _lead(self, identity: tuple[str, int] | None) -> None:
        leading = self.fresh
        leading.committer.meet(2, 0.01)
        self.leader = leading.append(rows(200, 201), **_identity(identity))

    @property
    def fresh(self) -> Table:
        return ll.open_table(self.url)

    @property
    def values(self) -> list[int]:
        assert self.fresh.verify("all", data=True) == []
        return sorted(self.fresh.to_arrow()["v"].to_pylist())


def _identity(given: tuple[str, int] | None) -> dict[str, Any]:
    return {} if given is None else {"commit_user": given[0], "identifier": given[1]}


def test_a_rider_is_taken_back_alone() -> None:
    rode = Rode()
    plan = rode.fresh.plan_undo(("job-1", 1))
    assert str(plan).startswith("without the commit of job-1/1 in snapshot 3 (APPEND), as snapshot 4: ")
    assert plan.to_dict()["commit"] == "job-1/1" and plan.to_dict()["goes"]["rows"] == 1
    assert rode.fresh.undo(("job-1", 1)).snapshot_id == 4
    assert rode.values == [0, 2, 200, 201]
    newest = rode.fresh.snapshot()
    assert newest is not None
    assert newest.properties["undo.snapshot"] == "3" and newest.properties["undo.commit"] == carried_by(
        rode.fresh.timeline.snapshot(3)
    )[1].commit  # fmt: skip
    assert rode.fresh.append(rows(200, 201), commit_user="job-2", identifier=1).replayed
    assert rode.fresh.append(rows(100), commit_user="job-1", identifier=1).replayed, "an identity stays used"
    assert rode.values == [0, 2, 200, 201]
    with pytest.raises(
        CommitConflict, match=r"the commit of job-1/1 in snapshot 3 \(APPEND\) cannot be undone: snapshot 4 "
    ):
        rode.fresh.undo(("job-1", 1))
    rode.fresh.undo(4)
    assert rode.values == [0, 2, 100, 200, 201]


def test_a_leader_is_taken_back_alone_and_then_its_rider() -> None:
    rode = Rode()
    rode.fresh.undo(("job-2", 1), commit_user="ops", identifier=1)
    assert rode.values == [0, 2, 100]
    assert rode.fresh.undo(("job-2", 1), commit_user="ops", identifier=1).replayed
    rode.fresh.undo(("job-1", 1))
    assert rode.values == [0, 2]


def test_commits_without_an_identity_are_named_by_their_receipts() -> None:
    rode = Rode(None, None)
    assert rode.rider.identifier is None
    for named in (3, rode.rider.snapshot_id):
        with pytest.raises(InvalidArgument, match="snapshot 3 has 2 commits, which rode together") as told:
            rode.fresh.undo(named)
        assert str((rode.rider.commit_user, None)) in told.value.next_step
        assert str((rode.leader.commit_user, None)) in told.value.next_step
    rode.fresh.undo(rode.rider)
    assert rode.values == [0, 2, 200, 201]
    rode.fresh.undo((rode.leader.commit_user, None))
    assert rode.values == [0, 2]
    with pytest.raises(InvalidArgument, match="of this table has no commit of the receipt"):
        ll.open_table(Rode().url).undo(rode.rider)


def test_a_rider_is_found_after_its_user_has_another_commit() -> None:
    rode = Rode()
    rode.fresh.append(rows(101), commit_user="job-1", identifier=2)
    rode.fresh.append(rows(202), commit_user="job-2", identifier=2)
    told = rode.fresh.explain(("job-1", 1))
    assert "snapshot 3  APPEND" in told and "  commit    job-1/1: 1 rows, 1 files added, 0 deleted" in told
    assert rode.fresh.explain(rode.rider) == told != rode.fresh.explain(3)
    assert rode.fresh.explain(("job-2", 1)).splitlines()[1].startswith("  commit    job-2/1: 2 rows")
    rode.fresh.undo(("job-1", 1))
    rode.fresh.undo(("job-2", 1))
    assert rode.values == [0, 2, 101, 202]
    for nobody in (("job-1", 3), ("job-3", 1), ("job-3", None)):
        with pytest.raises(InvalidArgument, match="the table has no commit"):
            rode.fresh.undo(nobody)
        with pytest.raises(InvalidArgument, match="the table has no commit"):
            rode.fresh.explain(nobody)


def test_a_rider_that_was_compacted_or_dropped_is_a_conflict() -> None:
    rode = Rode()
    rode.fresh.compact(full=True)
    with pytest.raises(CommitConflict, match=r"snapshot 4 \(COMPACT by .*\) deleted or rewrote files that it added"):
        rode.fresh.undo(("job-1", 1))
    rode.fresh.undo(4)
    rode.fresh.undo(("job-1", 1))
    assert rode.values == [0, 2, 200, 201]


def test_an_undo_beside_a_commit_that_rides() -> None:
    """The undo loses a race to a snapshot that carries others, whose rows stay."""
    rode = Rode()
    undoing = rode.hooked()
    hooks: Any = undoing.store
    hooks.before["snapshot/snapshot-"] = lambda: rode.fresh.append(rows(3))
    assert undoing.undo(("job-1", 1)).snapshot_id == 5
    assert rode.values == [0, 2, 3, 200, 201]


def test_a_snapshot_that_lists_a_commit_without_manifests_is_damaged() -> None:
    rode = Rode()
    store, key = MemoryStore(rode.url), "snapshot/snapshot-3"
    snapshot = parse_snapshot(store.get(key), key)
    rider = carried_by(snapshot)[1].commit
    store.put(key, store.get(key).replace(rider.encode(), b"0" * len(rider)))
    with pytest.raises(
        TableCorrupt, match=r"snapshot/snapshot-3: property 'lakelatch.carries' names commit 0+, of which"
    ):
        rode.fresh.undo(("job-1", 1))


def test_a_job_that_waits_to_be_carried_is_found_under_its_own_name_only() -> None:
    """A user whose name is too long is stored as a hash."""
    long = "job-" * 100
    rode = Rode((long, 1))
    rode.fresh.append(rows(101), commit_user=long, identifier=2)
    rode.fresh.undo((long, 1))
    assert rode.values == [0, 2, 101, 200, 201]
