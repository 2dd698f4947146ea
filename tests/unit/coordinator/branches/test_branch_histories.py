"""Random histories of branches: after every step, every snapshot and tag of every branch reads its exact rows (G1, G7)."""

from __future__ import annotations

import itertools
import os
import random
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.coordinator.maintenance.expiry.expire import apply_expiry, plan_expiry
from lakelatch.coordinator.maintenance.expiry.retention import Retention
from lakelatch.coordinator.maintenance.orphans import apply_clean, plan_orphans
from lakelatch.core.errors import CommitConflict, InvalidArgument

COUNTER = itertools.count()
SCHEMA = pa.schema([pa.field("p", pa.int32(), nullable=False), pa.field("v", pa.int64(), nullable=False)])
SEEDS = range(300 if os.environ.get("LAKELATCH_NIGHTLY") else 4)
STEPS = 14
LATER_MS = 10 * 24 * 3_600_000
NAMES = ("a", "b", "c")

Rows = tuple[tuple[int, int], ...]


@dataclass
class World:
    """A table, and the rows that each of its snapshots and tags must read.

    Attributes:
        snapshots: the rows of each branch's snapshots, by id.
        tags: the rows of each branch's tags.
    """

    dice: random.Random
    keyed: bool
    table: ll.Table = field(init=False)
    snapshots: dict[str, dict[int, Rows]] = field(default_factory=lambda: {"main": {}})
    tags: dict[str, dict[str, Rows]] = field(default_factory=lambda: {"main": {}})
    values: Any = field(default_factory=lambda: itertools.count(1))
    told: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        more: dict[str, Any] = {"primary_key": ["p", "v"], "options": {"bucket": "1"}} if self.keyed else {}
        url = f"memory://branch-histories-{next(COUNTER)}/t"
        self.table = ll.create_table(url, SCHEMA, partition_by=["p"], **more)

    def of(self, branch: str) -> ll.Table:
        return ll.open_table(self.table.url, branch=branch)

    def some_branch(self) -> str:
        return self.dice.choice(sorted(self.snapshots))

    def newest(self, branch: str) -> Rows:
        known = self.snapshots[branch]
        return known[max(known)] if known else ()

    def committed(self, branch: str, table: ll.Table, rows: Rows) -> None:
        table.committer.settle()
        before = max(self.snapshots[branch], default=0)  # a compaction may have followed, as a commit of its own
        self.snapshots[branch].update((i, rows) for i in table.timeline.snapshot_ids() if i > before)

    # ------------------------------------------------------------------------------------------------------- the steps

    def append(self) -> None:
        branch = self.some_branch()
        rows = tuple((self.dice.randrange(2), next(self.values)) for _ in range(self.dice.randrange(1, 4)))
        table = self.of(branch)
        table.append(table_of(rows))
        self.committed(branch, table, tuple(sorted((*self.newest(branch), *rows))))

    def overwrite(self) -> None:
        branch, part = self.some_branch(), self.dice.randrange(2)
        row = (part, next(self.values))
        table = self.of(branch)
        table.overwrite(table_of((row,)), partition={"p": part})
        rows = (*(r for r in self.newest(branch) if r[0] != part), row)
        self.committed(branch, table, tuple(sorted(rows)))

    def compact(self) -> None:
        branch = self.some_branch()
        table = self.of(branch)
        table.compact(full=True)
        if table.timeline.snapshot_ids():
            self.committed(branch, table, self.newest(branch))

    def tag(self) -> None:
        branch = self.some_branch()
        if self.snapshots[branch]:
            snapshot, name = self.dice.choice(sorted(self.snapshots[branch])), f"t{next(self.values)}"
            paths = self.of(branch).paths
            self.table.store.put(paths.tag(name), self.table.store.get(paths.snapshot(snapshot)))
            self.tags[branch][name] = self.snapshots[branch][snapshot]

    def untag(self) -> None:
        branch = self.some_branch()
        if self.tags[branch]:
            name = self.dice.choice(sorted(self.tags[branch]))
            self.table.store.delete_many([self.of(branch).paths.tag(name)])
            del self.tags[branch][name]

    def branch(self) -> None:
        source = self.some_branch()
        free = [name for name in NAMES if name not in self.snapshots]
        if not free:
            return
        name, table = free[0], self.of(source)
        if self.tags[source] and self.dice.random() < 0.3:
            tag = self.dice.choice(sorted(self.tags[source]))
            snapshot = table.at(tag=tag).snapshot()
            assert snapshot is not None
            table.create_branch(name, tag=tag)
            self.snapshots[name], self.tags[name] = {snapshot.id: self.tags[source][tag]}, {tag: self.tags[source][tag]}
        elif self.snapshots[source]:
            begin = max(self.snapshots[source])
            table.create_branch(name, snapshot=begin)
            self.snapshots[name], self.tags[name] = {begin: self.snapshots[source][begin]}, {}

    def fast_forward(self) -> None:
        others = sorted(set(self.snapshots) - {"main"})
        if not others:
            return
        name = self.dice.choice(others)
        before = max(self.snapshots["main"], default=0)
        try:
            done = self.of("main").fast_forward(name)
        except (CommitConflict, InvalidArgument):
            return
        assert done.snapshot_ids == tuple(range(before + 1, before + 1 + len(done.snapshot_ids)))
        for snapshot in done.snapshot_ids:
            self.snapshots["main"][snapshot] = self.snapshots[name][snapshot]
        if done.snapshot_ids:
            assert self.newest("main") == self.newest(name)
        for tag in done.tags:
            self.tags["main"][tag] = self.tags[name][tag]

    def expire(self) -> None:
        branch = self.some_branch()
        table, keep = self.of(branch), self.dice.randrange(1, 4)
        newest = table.snapshot()
        if newest is None:
            return
        retention = Retention.of(table.schema.options, newest.time_ms + LATER_MS, retain_max=keep, retain_min=keep)
        done = apply_expiry(table.timeline, plan_expiry(table.timeline, table.schema, retention))
        for snapshot in done.snapshot_ids:
            del self.snapshots[branch][snapshot]

    def clean(self) -> None:
        schema = self.table.schema
        apply_clean(plan_orphans(self.table.timeline, schema, 2**62))

    def rename(self) -> None:
        others = sorted(set(self.snapshots) - {"main"})
        free = [name for name in NAMES if name not in self.snapshots]
        if others and free:
            name = self.dice.choice(others)
            self.table.rename_branch(name, free[0])
            self.snapshots[free[0]], self.tags[free[0]] = self.snapshots.pop(name), self.tags.pop(name)

    def delete(self) -> None:
        others = sorted(set(self.snapshots) - {"main"})
        if others:
            name = self.dice.choice(others)
            self.table.delete_branch(name)
            del self.snapshots[name], self.tags[name]

    # ------------------------------------------------------------------------------------------------------- the check

    def check(self) -> None:
        assert set(self.table.branches()) == set(self.snapshots) - {"main"}
        for branch, known in self.snapshots.items():
            table = self.of(branch)
            assert table.timeline.snapshot_ids() == sorted(known), branch
            for snapshot, rows in known.items():
                assert rows_of(table.at(snapshot=snapshot)) == rows, (branch, snapshot)
            for tag, rows in self.tags[branch].items():
                assert rows_of(table.at(tag=tag)) == rows, (branch, tag)


def table_of(rows: Rows) -> pa.Table:
    return pa.Table.from_pylist([{"p": p, "v": v} for p, v in rows], SCHEMA)


def rows_of(table: ll.Table) -> Rows:
    return tuple(sorted((row["p"], row["v"]) for row in table.to_arrow().to_pylist()))


WEIGHTS = {
    "append": 6, "overwrite": 3, "compact": 1, "tag": 1, "untag": 1, "branch": 4, "fast_forward": 4, "expire": 4,
    "clean": 1, "rename": 1, "delete": 1,
}  # fmt: skip


@pytest.mark.parametrize("keyed", [False, True])
def test_every_snapshot_of_every_branch_reads_its_rows(keyed: bool) -> None:
    seen = dict.fromkeys(WEIGHTS, 0)
    for seed in SEEDS:
        world = World(random.Random(f"{seed} {keyed}"), keyed)
        for _ in range(STEPS):
            step = world.dice.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
            world.told.append(step)
            getattr(world, step)()
            seen[step] += 1
            try:
                world.check()
            except Exception as error:
                raise AssertionError(f"seed {seed}: {' '.join(world.told)}") from error
        assert all(world.of(branch).verify(snapshots="all") == [] for branch in world.snapshots)
        left = plan_orphans(world.table.timeline, world.table.schema, 2**62)
        apply_clean(left)
        world.check()
        assert isinstance(world.table.store, MemoryStore)
    assert min(seen.values()) > 0
