"""Random lives of tables: whatever is written, tagged, branched, rolled back, expired and cleaned, every root reads its rows.

A model keeps the rows of each snapshot, tag and branch. After each step that removes something, all that can still be reached
reads exactly these. In the end a clean leaves no file that nothing names. A seed gives the same life again;
`LAKELATCH_NIGHTLY=1` runs thousands.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable

import pyarrow as pa
import pytest
from figures import NIGHTLY

import lakelatch as ll
from lakelatch.coordinator.maintenance.expiry.expire import apply_expiry, plan_expiry
from lakelatch.coordinator.maintenance.expiry.retention import Retention
from lakelatch.coordinator.maintenance.orphans import apply_clean, plan_orphans
from lakelatch.core.errors import CommitConflict
from lakelatch.core.places import FileKeys
from lakelatch.table.table import Table

NUMBERS = itertools.count()
SEEDS = 3000 if NIGHTLY else 200
TOGETHER = 20
"""So many lives are one test."""
STEPS = 12
SCHEMA = pa.schema([("p", pa.int32()), ("k", pa.int32()), ("v", pa.string())])
LATER_MS = 10 * 24 * 3_600_000
NEVER_MS = 2**62
KINDS: list[tuple[list[str], dict[str, str]]] = [
    ([], {}),
    ([], {"bucket": "2", "bucket-key": "k"}),
    ([], {"row-tracking.enabled": "true"}),
    ([], {"deletion-vectors.enabled": "true"}),
    (["p", "k"], {"bucket": "1"}),
    (["p", "k"], {"bucket": "2", "changelog-producer": "input"}),
    (["p", "k"], {"bucket": "1", "write-only": "true"}),
    (["p", "k"], {"dynamic-bucket.target-row-num": "3"}),
]
Row = tuple[int, int, str]
Rows = Counter[Row]


def named(table: Table) -> set[str]:
    """The tags of a table, without those that keep what its branches share."""
    return {tag.name for tag in table.tags() if not tag.name.startswith("branch-")}


class Life:
    """One table, and what its branches, snapshots and tags must read."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(f"life {seed}")
        self.keys, options = KINDS[seed % len(KINDS)]
        self.url = f"memory://life-{next(NUMBERS)}/t"
        made = {"manifest.merge-min-count": "3", "num-sorted-run.compaction-trigger": "3", **options}
        ll.create_table(self.url, SCHEMA, partition_by=["p"], primary_key=self.keys, options=made)
        self.newest: dict[str, Rows] = {"main": Rows()}
        self.snapshots: dict[str, dict[int, Rows]] = {"main": {}}
        self.tags: dict[str, dict[str, Rows]] = {"main": {}}
        self.gone_before: set[str] = set()
        """Changelog lists that had expired when a branch was made of the tag of their snapshot."""
        self.log = [f"seed {seed}: key {self.keys}, {made}"]
        self.names = (f"n{i}" for i in itertools.count())

    def table(self, branch: str) -> Table:
        """A handle of a process of its own."""
        return ll.open_table(self.url) if branch == "main" else ll.open_table(self.url, branch=branch)

    def step(self) -> None:
        """One act that can happen on one of the branches."""
        act: Callable[[Life, str], bool | None] | None = None
        while act is None:
            branch = self.dice.choice(list(self.newest))
            act = self.dice.choices(list(ACTS), list(ACTS.values()))[0]
            self.log.append(f"{act.__name__} on {branch}")
            if act(self, branch) is False:
                self.log.pop()
                act = None
        if act in REMOVING:
            self.check_all()
        elif branch in self.newest:
            self.check_newest(branch)

    def chosen(self, branch: str) -> int | None:
        """One of the snapshots of a branch."""
        return self.dice.choice(list(self.snapshots[branch])) if self.snapshots[branch] else None

    def rows(self) -> list[Row]:
        count = self.dice.randint(1, 4)
        keys = self.dice.sample(range(6), count)
        return [(self.dice.randrange(2), key, f"{len(self.log)}.{key}") for key in keys]

    # --------------------------------------------------------------------------------------------------------- changes

    def written(self, branch: str, rows: Rows) -> None:
        """All snapshots that came since have these rows, whether a compaction followed or not."""
        self.newest[branch] = rows
        for snapshot_id in self.table(branch).timeline.snapshot_ids():
            if snapshot_id > max(self.snapshots[branch], default=0):
                self.snapshots[branch][snapshot_id] = rows

    def with_rows(self, old: Rows, rows: list[Row]) -> Rows:
        if not self.keys:
            return old + Rows(rows)
        by_key = {row[:2]: row for row in [*old, *rows]}
        return Rows(by_key.values())

    def append(self, branch: str) -> None:
        rows = self.rows()
        self.table(branch).append(frame(rows))
        self.written(branch, self.with_rows(self.newest[branch], rows))

    def delete_keys(self, branch: str) -> bool | None:
        if not self.keys:
            return False
        gone = {row[:2] for row in self.rows()}
        self.table(branch).delete(keys=frame([(*key, "") for key in gone]).drop_columns(["v"]))
        self.written(branch, Rows({row: 1 for row in self.newest[branch] if row[:2] not in gone}))

    def overwrite(self, branch: str) -> None:
        part, old = self.dice.randrange(2), self.newest[branch]
        rows = [(part, k, v) for _, k, v in self.rows()]
        self.table(branch).overwrite(frame(rows), partition={"p": part})
        self.written(branch, self.with_rows(Rows({r: n for r, n in old.items() if r[0] != part}), rows))

    def drop_partition(self, branch: str) -> None:
        part = self.dice.randrange(2)
        self.table(branch).drop_partitions([{"p": part}])
        self.written(branch, Rows({r: n for r, n in self.newest[branch].items() if r[0] != part}))

    def compact(self, branch: str) -> None:
        self.table(branch).compact(full=self.dice.random() < 0.7)
        self.written(branch, self.newest[branch])

    def alter(self, branch: str) -> None:
        """A change of the options makes a schema; each branch has schemas of its own."""
        self.table(branch).alter(ll.set_option("target-file-size", f"{self.dice.randint(50, 100)} mb"))

    def reindex(self, branch: str) -> None:
        """Indexes come and go, of the same files."""
        table, option = self.table(branch), "file-index.bloom-filter.columns"
        table.alter(ll.remove_option(option) if option in table.options else ll.set_option(option, "k"))
        self.table(branch).rewrite_file_index()
        self.written(branch, self.newest[branch])

    def roll_back(self, branch: str) -> bool | None:
        target = self.chosen(branch)
        if target is None or target == max(self.snapshots[branch]):
            return False
        rows = self.snapshots[branch][target]
        self.table(branch).rollback(snapshot=target)
        self.written(branch, rows)
        self.protected(branch)
        return None

    def protected(self, branch: str) -> None:
        """The tags that keep what was restored, wherever it had been deleted."""
        for name in named(self.table(branch)) - set(self.tags[branch]):
            kind, snapshot_id, _ = name.split("-")
            assert kind == "rollback"
            self.tags[branch][name] = self.snapshots[branch][int(snapshot_id)]

    def undo(self, branch: str) -> bool | None:
        """Any commit of an append table; the newest one of a table with a primary key, whose rows hide older ones."""
        known, newest = self.snapshots[branch], self.newest[branch]
        target = max(known, default=0) if self.keys else self.chosen(branch) or 0
        if target - 1 not in known:
            return False
        before, after = known[target - 1], known[target]
        try:
            self.table(branch).undo(target)
        except (CommitConflict, ll.InvalidArgument):
            self.log.append("refused")
            return None
        self.written(branch, before if self.keys else newest - (after - before) + (before - after))
        self.protected(branch)
        return None

    def delete_where(self, branch: str) -> bool | None:
        if self.keys:
            return False
        below = self.dice.randrange(5)
        self.table(branch).delete(where=f"k < {below}")
        self.written(branch, Rows({row: n for row, n in self.newest[branch].items() if row[1] >= below}))
        return None

    def update_where(self, branch: str) -> bool | None:
        if self.keys:
            return False
        key = self.dice.randrange(6)
        self.table(branch).update(where=f"k = {key}", set={"v": "v || '+'"})
        rows = Rows()
        for (p, k, v), count in self.newest[branch].items():
            rows[p, k, v + "+" * (k == key)] += count
        self.written(branch, rows)
        return None

    # ------------------------------------------------------------------------------------------------- tags, branches

    def tag(self, branch: str) -> bool | None:
        if (target := self.chosen(branch)) is None:
            return False
        name = next(self.names)
        self.table(branch).create_tag(name, snapshot=target)
        self.tags[branch][name] = self.snapshots[branch][target]
        return None

    def move_tag(self, branch: str) -> bool | None:
        if not self.tags[branch] or (target := self.chosen(branch)) is None:
            return False
        name = self.dice.choice(list(self.tags[branch]))
        self.table(branch).create_tag(name, snapshot=target, replace=True)
        self.tags[branch][name] = self.snapshots[branch][target]
        return None

    def untag(self, branch: str) -> bool | None:
        if not self.tags[branch]:
            return False
        name = self.dice.choice(list(self.tags[branch]))
        self.table(branch).delete_tag(name)
        del self.tags[branch][name]
        return None

    def rename_tag(self, branch: str) -> bool | None:
        if not self.tags[branch]:
            return False
        name, new = self.dice.choice(list(self.tags[branch])), next(self.names)
        self.table(branch).rename_tag(name, new)
        self.tags[branch][new] = self.tags[branch].pop(name)
        return None

    def make_branch(self, branch: str) -> bool | None:
        if len(self.newest) > 3:
            return False
        name, table = f"b-{next(self.names)}", self.table(branch)
        snapshots: dict[int, Rows] = {}
        tags: dict[str, Rows] = {}
        how = self.dice.choice(["snapshot", "tag", "empty"])
        if how == "snapshot" and (target := self.chosen(branch)) is not None:
            table.create_branch(name, snapshot=target)
            snapshots = {target: self.snapshots[branch][target]}
        elif how == "tag" and self.tags[branch]:
            tag = self.dice.choice(list(self.tags[branch]))
            table.create_branch(name, tag=tag)
            tags = {tag: self.tags[branch][tag]}
            held = table.at(tag=tag).snapshot()
            assert held is not None
            snapshots = {held.id: tags[tag]}
            if (told := held.changelog_manifest_list) and f"manifest/{told}" not in keys_of(table):
                self.gone_before.add(told)
        else:
            table.create_branch(name)
        self.snapshots[name], self.tags[name] = snapshots, tags
        self.newest[name] = next(iter(snapshots.values()), Rows())
        return None

    def delete_branch(self, branch: str) -> bool | None:
        if branch == "main":
            return False
        self.table("main").delete_branch(branch)
        for known in (self.newest, self.snapshots, self.tags):
            del known[branch]
        return None

    def rename_branch(self, branch: str) -> bool | None:
        if branch == "main":
            return False
        new = f"b-{next(self.names)}"
        self.table("main").rename_branch(branch, new)
        for known in (self.newest, self.snapshots, self.tags):
            known[new] = known.pop(branch)  # type: ignore[attr-defined]
        return None

    def fast_forward(self, branch: str) -> bool | None:
        """Where `main` has what the branch lacks nothing changes; `check_all` compares it."""
        if branch == "main":
            return False
        before = max(self.snapshots["main"], default=0)
        try:
            done = self.table("main").fast_forward(branch)
        except (CommitConflict, ll.InvalidArgument):
            self.log.append("refused")
            return None
        self.tags["main"] |= {name: self.tags[branch][name] for name in done.tags}
        if max(self.snapshots[branch]) > before:
            self.newest["main"] = self.newest[branch]
            self.snapshots["main"] |= {i: rows for i, rows in self.snapshots[branch].items() if i > before}
        return None

    # --------------------------------------------------------------------------------------------------- maintenance

    def expire(self, branch: str) -> bool | None:
        table, newest = self.table(branch), max(self.snapshots[branch], default=0)
        if len(self.snapshots[branch]) < 2:
            return False
        now_ms = table.timeline.snapshot(newest).time_ms + LATER_MS
        retention = Retention.of(table.schema.options, now_ms, retain_max=self.dice.randint(1, 2), retain_min=1)
        apply_expiry(table.timeline, plan_expiry(table.timeline, table.schema, retention))
        left = set(table.timeline.snapshot_ids())
        assert newest in left
        for gone in set(self.snapshots[branch]) - left:
            del self.snapshots[branch][gone]
        return None

    def clean(self, branch: str) -> None:
        """Nobody is writing, so that files of any age may go."""
        table = self.table(branch)
        apply_clean(plan_orphans(table.timeline, table.schema, NEVER_MS))

    # --------------------------------------------------------------------------------------------------------- checks

    def check_newest(self, branch: str) -> Table:
        """The snapshots and tags of a branch are there, and its newest rows."""
        table = self.table(branch)
        assert set(table.timeline.snapshot_ids()) == set(self.snapshots[branch]), branch
        assert named(table) == set(self.tags[branch]), branch
        assert read(table) == self.newest[branch], branch
        return table

    def check_all(self) -> None:
        """Every branch, snapshot and tag is there, and reads its rows."""
        assert set(self.table("main").branches()) == set(self.newest) - {"main"}
        for branch in self.newest:
            table = self.check_newest(branch)
            for snapshot_id, rows in self.snapshots[branch].items():
                assert read(table.at(snapshot=snapshot_id)) == rows, f"{branch}, snapshot {snapshot_id}"
            for name, rows in self.tags[branch].items():
                assert read(table.at(tag=name)) == rows, f"{branch}, tag {name}"

    def check_end(self) -> None:
        """After a clean each data file is named by a snapshot or tag of some branch, and each branch is sound."""
        self.clean("main")
        self.check_all()
        named: set[str] = set()
        for branch, snapshots in self.snapshots.items():
            table = self.table(branch)
            assert table.verify("all") == [], branch
            keys = FileKeys(table.schema)
            states = [table.at(snapshot=i) for i in snapshots] + [table.at(tag=name) for name in self.tags[branch]]
            for number, state in enumerate(states):
                snapshot, timeline = state.snapshot(), state.timeline
                assert snapshot is not None
                lists = [timeline.manifests(snapshot), timeline.delta_manifests(snapshot)]
                told = snapshot.changelog_manifest_list
                if (
                    told and told not in self.gone_before and number < len(snapshots)
                ):  # a tag does not keep its changelog
                    lists.append(timeline.manifest_list(told))
                named.update(key for found in lists for e in timeline.entries(found) for key in keys.data(e))
        stored = {key for key in keys_of(self.table("main")) if "/bucket-" in key}
        assert stored <= named, stored - named


def frame(rows: list[Row]) -> pa.Table:
    return pa.table([list(column) for column in zip(*rows, strict=True)], schema=SCHEMA)


def keys_of(table: Table) -> set[str]:
    return {info.key for info in table.store.list("")}


def read(table: Table) -> Rows:
    found = table.to_arrow(columns=["p", "k", "v"])
    return Rows(zip(*(column.to_pylist() for column in found.columns), strict=True))


ACTS: dict[Callable[[Life, str], bool | None], int] = {
    Life.append: 10,
    Life.overwrite: 3,
    Life.delete_keys: 3,
    Life.drop_partition: 1,
    Life.compact: 5,
    Life.alter: 1,
    Life.reindex: 2,
    Life.roll_back: 2,
    Life.undo: 3,
    Life.delete_where: 2,
    Life.update_where: 2,
    Life.tag: 6,
    Life.move_tag: 2,
    Life.untag: 5,
    Life.rename_tag: 1,
    Life.make_branch: 3,
    Life.delete_branch: 1,
    Life.rename_branch: 1,
    Life.fast_forward: 2,
    Life.expire: 6,
    Life.clean: 1,
}
"""What can happen, and how often. An act that cannot happen on a branch gives False."""
REMOVING = {
    *(Life.move_tag, Life.untag, Life.rename_tag),
    *(Life.delete_branch, Life.rename_branch, Life.fast_forward),
    *(Life.expire, Life.clean),
}
"""After these all that was there before is read."""


@pytest.mark.parametrize("first", range(0, SEEDS, TOGETHER))
def test_whatever_happens_every_root_reads_its_rows(first: int) -> None:
    for seed in range(first, first + TOGETHER):
        life = Life(seed)
        try:
            for _ in range(STEPS):
                life.step()
            life.check_end()
        except BaseException:
            print("\n".join(life.log))
            raise
