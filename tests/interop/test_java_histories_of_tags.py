"""Random histories of tags, branches, rollbacks, undos, compactions and expiries, by turns with Apache Paimon (Java): every
tag and branch reads what it read when it was made (G7, decisions 86 and 106).

Java is 1.4.2, and also 2.0.0 where its jar is given: then a history draws which of them takes the turn. A seed gives the same
history again; `LAKELATCH_NIGHTLY=1` runs 200. On failure the steps are printed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from figures import NIGHTLY

import lakelatch as ll
from lakelatch.coordinator.maintenance.expiry.expire import apply_expiry, plan_expiry
from lakelatch.coordinator.maintenance.expiry.retention import Retention
from lakelatch.core.errors import CommitConflict, InvalidArgument
from lakelatch.table.table import Table

pytestmark = [pytest.mark.java, pytest.mark.given]

SEEDS = range(200 if NIGHTLY else 4)
STEPS = 30
CHANGES = {"append", "overwrite", "java_overwrites", "drop", "roll_back", "undo", "fast_forward", "overtake"}
"""The steps that change the rows of main."""
PLAIN = pa.schema([("p", pa.string()), ("v", pa.int64())])
KEYED = pa.schema([pa.field("p", pa.string(), nullable=False), pa.field("v", pa.int64(), nullable=False)])
KEYS = {"primary_key": ["p", "v"], "partition_by": ["p"], "options": {"bucket": "1", "write-only": "true"}}


class History:
    """One seed: a table, its tags and branches with the rows that each must have, and steps as they are drawn."""

    def __init__(self, seed: int, path: Path, releases: dict[str, Any]) -> None:
        self.rng, self.releases, self.path = random.Random(seed), releases, path
        self.is_keyed, self.java_has_branches = self.rng.random() < 0.3, self.rng.random() < 0.5
        how: dict[str, Any] = KEYS if self.is_keyed else {"partition_by": ["p"]}
        ll.create_table(str(path), KEYED if self.is_keyed else PLAIN, **how).append(self.rows("a", 0))
        self.count, self.tags, self.branches = 0, dict[str, list[Any]](), dict[str, list[Any]]()
        self.log = [f"seed {seed}, {'keys' if self.is_keyed else 'no keys'}"]
        self.steps: list[tuple[int, Callable[[], object]]] = [
            (4, self.append), (4, self.overwrite), (3, self.java_overwrites), (3, self.roll_back), (3, self.undo),
            (2, self.compact), (4, self.tag), (3, self.java_tags), (2, self.branch), (2, self.untag),
            (4, self.java_expires), (1, self.expire), (1, self.drop), (1, self.fast_forward), (2, self.write_to_branch),
            (2, self.java_expires_branch), (1, self.drop_branch), (1, self.rename_branch), (2, self.overtake),
            (2, self.roll_branch_back), (1, self.tag_branch), (1, self.expire_tags),
        ]  # fmt: skip

    @property
    def java(self) -> Any:
        """The release whose turn it is."""
        name = self.rng.choice(sorted(self.releases))
        self.log[-1] += f" {name}"
        return self.releases[name]

    @property
    def table(self) -> Table:
        return ll.open_table(str(self.path))

    def rows(self, part: str, *values: int) -> pa.Table:
        made = pa.table({"p": [part] * len(values), "v": list(values)})
        return made.cast(KEYED if self.is_keyed else PLAIN)

    @staticmethod
    def read(table: Any) -> list[Any]:
        return sorted(tuple(row.values()) for row in table.to_arrow().to_pylist())

    def new(self) -> int:
        self.count += 1
        return self.count

    def part(self) -> str:
        return self.rng.choice("ab")

    def some_id(self) -> int:
        return self.rng.choice(self.table.timeline.snapshot_ids())

    # ------------------------------------------------------------------------------------------------------- steps

    def append(self) -> None:
        self.table.append(self.rows(self.part(), self.new()))

    def overwrite(self) -> None:
        part = self.part()
        self.table.overwrite(self.rows(part, self.new()), partition={"p": part})

    def java_overwrites(self) -> None:
        part = self.part()
        self.java.commit_rows(self.path, [[part, self.new()]], "java", self.count, {"p": part})

    def drop(self) -> None:
        self.table.drop_partitions([{"p": self.part()}])

    def roll_back(self) -> None:
        with suppress(InvalidArgument):  # it is the newest
            if self.tags and self.rng.random() < 0.5:
                self.table.rollback(tag=self.rng.choice(sorted(self.tags)))
            else:
                self.table.rollback(snapshot=self.some_id())

    def undo(self) -> None:
        with suppress(InvalidArgument, CommitConflict):
            self.table.undo(self.some_id())

    def compact(self) -> None:
        self.table.compact(full=True)

    def tag(self) -> None:
        name, number = f"t{self.new()}", self.some_id()
        self.table.create_tag(name, snapshot=number)
        self.tags[name] = self.read(self.table.at(tag=name))

    def java_tags(self) -> None:
        name = f"j{self.new()}"
        self.java.create_tag(self.path, name, self.some_id())
        self.tags[name] = self.read(self.table.at(tag=name))

    def untag(self) -> None:
        if self.tags:
            name = self.rng.choice(sorted(self.tags))
            self.table.delete_tag(name)
            del self.tags[name]

    def branch(self) -> None:
        """From a tag, a snapshot, or a snapshot of another branch."""
        name = f"b{self.new()}"
        which = self.rng.randrange(3)
        if which == 0 and self.tags:
            self.table.create_branch(name, tag=self.rng.choice(sorted(self.tags)))
        elif which == 1 and self.branches and not self.java_has_branches:
            other = self.table.branch(self.rng.choice(sorted(self.branches)))
            other.create_branch(name, snapshot=other.timeline.snapshot_ids()[-1])
        else:
            self.table.create_branch(name, snapshot=self.some_id())
        self.branches[name] = self.read(self.table.branch(name))

    def write_to_branch(self) -> None:
        if self.branches:
            name, part = self.rng.choice(sorted(self.branches)), self.part()
            if self.rng.random() < 0.5:
                self.table.branch(name).append(self.rows(part, self.new()))
            else:
                self.table.branch(name).overwrite(self.rows(part, self.new()), partition={"p": part})
            self.table.branch(name).committer.settle()
            self.branches[name] = self.read(self.table.branch(name))

    def roll_branch_back(self) -> None:
        """To a snapshot that main may have, too."""
        if self.branches and not self.java_has_branches:
            name = self.rng.choice(sorted(self.branches))
            branch = self.table.branch(name)
            with suppress(InvalidArgument):
                branch.rollback(snapshot=self.rng.choice(branch.timeline.snapshot_ids()))
                branch.committer.settle()
            self.branches[name] = self.read(self.table.branch(name))

    def tag_branch(self) -> None:
        """A branch of that tag has what the tag had."""
        if self.branches and not self.java_has_branches:
            branch, name = self.table.branch(self.rng.choice(sorted(self.branches))), f"b{self.new()}"
            number = self.rng.choice(branch.timeline.snapshot_ids())
            branch.create_tag(f"t{self.new()}", snapshot=number)
            branch.create_branch(name, tag=f"t{self.count}")
            self.branches[name] = self.read(self.table.branch(name))

    def expire_tags(self) -> None:
        """All that may go by their age."""
        self.table.expire_tags(older_than=2**42)
        self.tags = {name: rows for name, rows in self.tags.items() if name in {tag.name for tag in self.table.tags()}}

    def java_expires_branch(self) -> None:
        """Main and its tags stay, too. Java asks the tags of main for what a branch needs, and so takes files of the branch's own
        tags, rollbacks and branches: a history has either these or Java's expiry of branches.
        """
        if self.branches and self.java_has_branches:
            self.java.expire(self.path, 1, branch=self.rng.choice(sorted(self.branches)))

    def drop_branch(self) -> None:
        if self.branches:
            name = self.rng.choice(sorted(self.branches))
            self.table.delete_branch(name)
            del self.branches[name]

    def rename_branch(self) -> None:
        if self.branches:
            name, new = self.rng.choice(sorted(self.branches)), f"r{self.new()}"
            self.table.rename_branch(name, new)
            self.branches[new] = self.branches.pop(name)

    def overtake(self) -> None:
        """Main takes a branch over, which stays."""
        if self.branches:
            with suppress(InvalidArgument, CommitConflict):
                self.table.fast_forward(self.rng.choice(sorted(self.branches)))

    def fast_forward(self) -> None:
        """A branch of the newest snapshot is written to, and main takes it over."""
        name = f"f{self.new()}"
        self.table.create_branch(name, snapshot=self.table.timeline.snapshot_ids()[-1])
        self.table.branch(name).overwrite(self.rows("a", self.new()), partition={"p": "a"})
        with suppress(InvalidArgument):
            self.table.branch(name).rollback(snapshot=self.rng.choice(self.table.branch(name).timeline.snapshot_ids()))
        self.table.fast_forward(name)
        self.table.delete_branch(name)

    def java_expires(self) -> None:
        self.java.expire(self.path, self.rng.choice([1, 1, 2, 3]))

    def expire(self) -> None:
        table, kept = self.table, self.rng.choice([1, 2])
        now_ms = table.snapshots()[-1].time_ms + 10**9
        retention = Retention.of(table.schema.options, now_ms, retain_max=kept, retain_min=kept)
        apply_expiry(table.timeline, plan_expiry(table.timeline, table.schema, retention))

    # ------------------------------------------------------------------------------------------------------- checks

    def play(self) -> None:
        choices, weights = [step for _, step in self.steps], [weight for weight, _ in self.steps]
        for _ in range(STEPS):
            step = self.rng.choices(choices, weights)[0]
            before = self.read(self.table)
            self.log.append(step.__name__)
            step()
            self.table.committer.settle()
            self.log[-1] += f" -> {self.table.timeline.snapshot_ids()} {sorted(self.tags)}"
            self.check()
            if step.__name__ not in CHANGES:
                assert self.read(self.table) == before, self.log
        for name, wanted in self.tags.items():
            assert sorted(tuple(r) for r in self.java.rows(self.path, tag=name)) == wanted, (name, self.log)
        for name, wanted in self.branches.items():
            assert sorted(tuple(r) for r in self.java.rows(self.path, branch=name)) == wanted, (name, self.log)

    def check(self) -> None:
        for name, wanted in self.tags.items():
            try:
                assert self.read(self.table.at(tag=name)) == wanted
            except Exception as error:
                raise AssertionError(f"tag {name}: {error!r}: {self.log}") from error
        for name, wanted in self.branches.items():
            try:
                assert self.read(self.table.branch(name)) == wanted
            except Exception as error:
                raise AssertionError(f"branch {name}: {error!r}: {self.log}") from error
        for table in (self.table, *map(self.table.branch, self.branches)):
            found = table.verify("all", data=True)
            assert not [f for f in found if f.severity == "error"], (table.url, found, self.log)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_tag_and_branch_reads_what_it_read(seed: int, tmp_path: Path, each_java: dict[str, Any]) -> None:
    history = History(seed, tmp_path / "t", each_java)
    history.play()  # reads every tag and branch after each step, and at the end with Java
    assert len(history.log) == 1 + STEPS  # the seed, then a line for each step


def test_a_branch_of_a_snapshot_keeps_its_files(tmp_path: Path, paimon_java: Any) -> None:
    """Java's expiry of main does not look at branches, and its expiry of a branch at the tags of main alone."""
    path = tmp_path / "t"
    table = ll.create_table(str(path), PLAIN)
    table.append(pa.table({"p": ["a"], "v": [1]}))
    table.create_branch("b", snapshot=1)
    table.branch("b").overwrite(pa.table({"p": ["a"], "v": [9]}), partition={})
    table.branch("b").committer.settle()
    paimon_java.expire(path, 1, branch="b")
    assert table.to_arrow()["v"].to_pylist() == [1]
    table.create_branch("c", snapshot=1)
    table.overwrite(pa.table({"p": ["a"], "v": [2]}), partition={})
    table.append(pa.table({"p": ["a"], "v": [3]}))
    table.committer.settle()
    paimon_java.expire(path, 1)
    assert ll.open_table(str(path)).branch("c").to_arrow()["v"].to_pylist() == [1]


def test_the_files_of_an_older_tag_stay_after_a_rollback(tmp_path: Path, paimon_java: Any) -> None:
    """Monday's file goes, comes back with the rollback, and goes again; tuesday's tag, which is the nearest, does not have it."""
    path = tmp_path / "t"
    table = ll.create_table(str(path), PLAIN)
    table.append(pa.table({"p": ["a"], "v": [1]}))
    table.create_tag("monday")
    table.overwrite(pa.table({"p": ["a"], "v": [2]}), partition={})
    table.create_tag("tuesday")
    table.rollback(tag="monday")
    table.overwrite(pa.table({"p": ["a"], "v": [3]}), partition={})
    table.append(pa.table({"p": ["a"], "v": [4]}))
    table.committer.settle()
    paimon_java.expire(path, 1)
    for name, wanted in (("monday", [1]), ("tuesday", [2])):
        assert ll.open_table(str(path)).at(tag=name).to_arrow()["v"].to_pylist() == wanted
    assert ll.open_table(str(path)).verify("all", data=True) == []


@pytest.mark.parametrize("cut_off", [False, True])
def test_the_older_snapshots_of_a_branch_stay_after_main_has_taken_it_over(
    cut_off: bool, tmp_path: Path, paimon_java: Any
) -> None:
    """They can be read, be rolled back to and expire, also where the first run died before it had made its tags."""
    path = tmp_path / "t"
    table = ll.create_table(str(path), PLAIN)
    table.append(pa.table({"p": ["a"], "v": [1]}))
    table.create_branch("b", snapshot=1)
    for value in (2, 3, 4):
        table.branch("b").overwrite(pa.table({"p": ["a"], "v": [value]}), partition={})
    table.branch("b").committer.settle()
    table.fast_forward("b")
    if cut_off:
        table.store.delete_many(info.key for info in table.store.list("tag/") if "branch-1-" not in info.key)
        table.fast_forward("b")
    table.overwrite(pa.table({"p": ["a"], "v": [5]}), partition={})
    table.append(pa.table({"p": ["a"], "v": [6]}))
    table.committer.settle()
    paimon_java.expire(path, 1)
    branch = ll.open_table(str(path)).branch("b")
    assert [branch.at(snapshot=number).to_arrow()["v"].to_pylist() for number in (1, 2, 3, 4)] == [[1], [2], [3], [4]]
    branch.rollback(snapshot=2)
    branch.committer.settle()
    paimon_java.expire(path, 1, branch="b")
    assert ll.open_table(str(path)).branch("b").to_arrow()["v"].to_pylist() == [2]
    assert branch.verify("all", data=True) == []
    assert table.expire(retain_max=1, retain_min=1).snapshot_ids == ()
