"""Branches on real tables in memory: made from snapshots and tags, renamed, deleted, brought back into main; each cut
off at every request, and raced.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from dying_store import Died, DyingStore, contents

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import PutOutcome, Unknown
from lakelatch.coordinator.branches.claim import Answer, claim_of, create
from lakelatch.coordinator.branches.forward import apply_fast_forward
from lakelatch.coordinator.maintenance.expiry.expire import apply_expiry, plan_expiry
from lakelatch.coordinator.maintenance.expiry.retention import Retention
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.core.errors import (
    CommitConflict,
    InvalidArgument,
    OutcomeUnknown,
    StoreUnavailable,
    TableCorrupt,
    TableExists,
    TableNotFound,
)
from lakelatch.table.table import Table

COUNTER = itertools.count()
SCHEMA = pa.schema([("v", pa.int64())])
LATER_MS = 10 * 24 * 3_600_000


def rows(*values: int) -> pa.Table:
    return pa.table({"v": pa.array(values, pa.int64())})


def values(table: Table) -> list[int]:
    return sorted(table.to_arrow()["v"].to_pylist())


def new_table(store: MemoryStore | None = None) -> Table:
    """Three snapshots: 1; 1, 2; 1, 2, 3. Tag `eod` is on the second."""
    store = store or MemoryStore(f"memory://branches-{next(COUNTER)}/t")
    made = ll.create_table(store.url, SCHEMA)
    made = Table(store, made.schema, first_schema=store.get("schema/schema-0"))
    for value in (1, 2, 3):
        made.append(rows(value))
    made.committer.settle()
    made.store.put("tag/tag-eod", made.store.get("snapshot/snapshot-2"))
    return made


@pytest.fixture
def table() -> Table:
    return new_table()


def expired(table: Table, keep: int = 1) -> None:
    """Expire, days later."""
    newest = table.snapshot()
    assert newest is not None
    options = table.schema.options
    retention = Retention.of(options, newest.time_ms + LATER_MS, retain_max=keep, retain_min=keep)
    apply_expiry(table.timeline, plan_expiry(table.timeline, table.schema, retention))


# --------------------------------------------------------------------------------------------------------------- made


def kept(key: str) -> bool:
    """Is it a tag that keeps what a branch shares?"""
    return "tag/tag-branch-" in key


def test_a_branch_begins_with_a_snapshot_a_tag_or_nothing(table: Table) -> None:
    table.alter(ll.add_column("x", "INT"))
    table.create_branch("early", snapshot=1)
    table.create_branch("eod", tag="eod")
    table.create_branch("empty")
    assert [values(table.branch(name)) for name in ("early", "eod", "empty")] == [[1], [1, 2], []]
    assert [table.branch(name).schema.id for name in ("early", "eod", "empty")] == [0, 0, 1]
    files = {
        name: {i.key.split("/", 2)[2] for i in table.store.list(f"branch/branch-{name}/") if not kept(i.key)}
        for name in table.branches()
    }
    assert files["early"] == {"schema/schema-0", "snapshot/snapshot-1", "lakelatch/origin"}
    assert files["eod"] == {"schema/schema-0", "snapshot/snapshot-2", "tag/tag-eod", "lakelatch/origin"}
    assert files["empty"] == {"schema/schema-0", "schema/schema-1", "lakelatch/origin"}
    listed = table.branches()
    assert {name: (b.snapshot_id, b.schema_id, b.tags) for name, b in listed.items()} == {
        "early": (1, 0, 1), "eod": (2, 0, 2), "empty": (None, 1, 0),
    }  # fmt: skip
    assert str(listed["eod"]) == "branch 'eod': snapshot 2, schema 0, 2 tags"
    assert listed["empty"].to_dict() | {"created_ms": 0} == {
        "branch": "empty", "created_ms": 0, "schema": 1, "snapshot": None, "tags": 0,
    }  # fmt: skip


def test_schema_0_comes_last(table: Table) -> None:
    """A branch can be opened once it has a schema, and is told from others by schema 0: everything else is there by then."""
    table.alter(ll.add_column("x", "INT"))
    table.append(pa.table({"v": [4], "x": pa.array([1], pa.int32())}))
    table.store.put("tag/tag-new", table.store.get("snapshot/snapshot-4"))
    order = []

    class Watched(MemoryStore):
        def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
            order.append(key.removeprefix("branch/branch-b/"))
            return super().put_if_absent(key, data)

    Table(Watched(table.url), table.schema).create_branch("b", tag="new")
    assert [key for key in order if not kept(key)] == [
        "lakelatch/origin",
        "tag/tag-new",
        "snapshot/snapshot-4",
        "schema/schema-1",
        "schema/schema-0",
    ]


def test_a_tag_outlives_its_snapshot(table: Table) -> None:
    """The branch gets the snapshot without the fields that only tags have."""
    tagged = table.store.get("tag/tag-eod").replace(b'"version"', b'"tagTimeRetained": "5.0", "version"')
    table.store.put("tag/tag-eod", tagged)
    expired(table)
    table.create_branch("b", tag="eod")
    assert values(table.branch("b")) == [1, 2]
    assert b"tagTimeRetained" not in table.store.get("branch/branch-b/snapshot/snapshot-2")
    assert table.store.get("branch/branch-b/tag/tag-eod") == tagged


def test_a_branch_of_a_branch(table: Table) -> None:
    table.create_branch("a", snapshot=2)
    table.branch("a").append(rows(20))
    table.branch("a").create_branch("b", snapshot=3)
    assert values(table.branch("b")) == [1, 2, 20]
    claim = claim_of(table.store, "b")
    assert claim is not None and (claim.source, claim.snapshot) == ("a", 3)


@pytest.mark.parametrize("name", ["", " ", "main", "12", "a/b", "..", "a\\b"])
def test_names_that_a_branch_cannot_have(table: Table, name: str) -> None:
    before = contents(table.store)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="branch"):
        table.create_branch(name)
    table.create_branch("b")
    with pytest.raises(InvalidArgument, match="branch"):
        table.rename_branch("b", name)
    table.delete_branch("b")
    assert contents(table.store) == before  # type: ignore[arg-type]


def test_what_a_branch_cannot_be_made_from(table: Table) -> None:
    with pytest.raises(InvalidArgument, match="no snapshot 9"):
        table.create_branch("b", snapshot=9)
    with pytest.raises(InvalidArgument, match="no tag 'x'"):
        table.create_branch("b", tag="x")
    with pytest.raises(InvalidArgument, match="not both"):
        table.create_branch("b", tag="eod", snapshot=1)
    with pytest.raises(InvalidArgument, match="read only"):
        table.at(snapshot=1).create_branch("b")
    assert table.branches() == {}
    assert not list(table.store.list("branch/"))


def test_a_name_is_given_once(table: Table) -> None:
    table.create_branch("b", snapshot=1)
    for arguments in ({}, {"snapshot": 1}, {"tag": "eod"}):
        with pytest.raises(TableExists, match="branch 'b'"):
            table.create_branch("b", **arguments)
    assert values(table.branch("b")) == [1]


@pytest.mark.parametrize("same", [True, False])
def test_of_several_creators_one_wins(same: bool) -> None:
    """Whether they want the same or not: one branch, made from what one of them said."""
    for _ in range(5):
        table = new_table()

        def make(number: int, table: Table = table) -> int | None:
            mine = Table(table.store, table.schema)
            try:
                mine.create_branch("b", snapshot=2 if same else 1 + number % 3)
            except TableExists as error:
                assert "'b'" in str(error)
                return None
            return number

        with ThreadPoolExecutor(6) as pool:
            winners = [w for w in pool.map(make, range(6)) if w is not None]
        assert len(winners) == 1
        begin = 2 if same else 1 + winners[0] % 3
        assert values(table.branch("b")) == list(range(1, begin + 1))
        assert [i.key for i in table.store.list("branch/branch-b/snapshot/")] == [
            f"branch/branch-b/snapshot/snapshot-{begin}"
        ]


def test_a_creator_that_the_same_call_overtakes_is_told(table: Table) -> None:
    """Both found the claim to be of the same work; only the one that creates the last schema has made the branch."""

    class Overtaken(MemoryStore):
        hook: Callable[[], Any] | None = None

        def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
            if self.hook is not None and key.endswith("snapshot/snapshot-2"):
                hook, self.hook = self.hook, None
                hook()
            return super().put_if_absent(key, data)

    store = Overtaken(table.url)
    store.hook = lambda: ll.open_table(table.url).create_branch("b", snapshot=2)
    with pytest.raises(TableExists, match="'b'"):
        Table(store, table.schema).create_branch("b", snapshot=2)
    assert values(table.branch("b")) == [1, 2]


def test_an_expiry_at_the_same_time_takes_nothing_away(table: Table) -> None:
    """H10: the branch is refused if the expiry of its snapshot was announced before the branch's root could be seen."""
    table.store.put("snapshot/EARLIEST", b"3")
    with pytest.raises(InvalidArgument, match="about to"):
        table.create_branch("b", snapshot=2)
    assert not list(table.store.list("branch/"))
    table.create_branch("b", snapshot=3)
    table.create_branch("c", tag="eod")
    assert values(table.branch("c")) == [1, 2]


def test_a_store_without_an_answer(table: Table) -> None:
    """The outcome is unknown; a second call finishes."""

    class Silent(MemoryStore):
        silent = True

        def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
            if self.silent and key.startswith("branch/"):
                return Unknown("timeout")
            return super().put_if_absent(key, data)

    store = Silent(table.url)
    mine = Table(store, table.schema)
    with pytest.raises(OutcomeUnknown, match="origin"):
        mine.create_branch("b", snapshot=1)
    store.silent = False
    mine.create_branch("b", snapshot=1)
    assert values(mine.branch("b")) == [1]


# ------------------------------------------------------------------------------------------------- deleted and renamed


def test_a_deleted_branch_leaves_its_data_to_the_cleaning(table: Table) -> None:
    table.create_branch("b", snapshot=2)
    branch = table.branch("b")
    branch.append(rows(20))
    branch.committer.settle()
    before = contents(table.store)  # type: ignore[arg-type]
    plan = table.delete_branch("b", dry_run=True)
    assert contents(table.store) == before  # type: ignore[arg-type]
    assert str(plan) == "branch 'b': snapshot 3, schema 0, 1 tags: 6 files of metadata"
    assert (plan.to_dict()["branch"], plan.to_dict()["snapshot"]) == ("b", 3)
    assert table.delete_branch("b") == plan
    gone = set(before) - set(contents(table.store))  # type: ignore[arg-type]
    assert {key for key in gone if not key.startswith("tag/")} == {
        *plan.to_dict()["files"],
        "branch/branch-b/lakelatch/origin",
    }
    assert len(gone) == len(plan.to_dict()["files"]) + 2, "and the tag that kept its files in main"
    assert values(table) == [1, 2, 3]
    with pytest.raises(TableNotFound, match="dropped"):
        Table(branch.store, branch.schema, branch="b", first_schema=before["schema/schema-0"]).append(rows(21))
    with pytest.raises(InvalidArgument, match="no branch 'b'"):
        table.delete_branch("b")
    table.create_branch("b")
    assert values(table.branch("b")) == []


def test_a_deletion_ends_with_what_keeps_files_and_its_name_is_held_until_then() -> None:
    """Schemas go first, so that nobody opens it; snapshots and tags last; and no new branch takes the name in the midst of it."""
    space = contents(prepared(MemoryStore(f"memory://branches-{next(COUNTER)}/t")).store)  # type: ignore[arg-type]
    refused = 0
    for last in itertools.count(1):
        store = _copy_of(space)
        table = _opened(store)
        store.requests, store.last = 0, last
        try:
            table.delete_branch("b")
            break
        except Died:
            store.last = 10**9
        left = [key.split("/")[2] for key in contents(store) if key.startswith("branch/branch-b/")]
        assert "schema" not in left or left.count("snapshot") == 5
        assert left.count("snapshot") == 5 or "consumer" not in left
        if left.count("schema") == 2:
            continue
        with pytest.raises(TableExists, match="is being deleted" if "schema" not in left else "branch 'b'"):
            table.create_branch("b", snapshot=3)
        refused += 1
    assert refused > 5


def test_a_branch_that_partitions_are_read_from_stays(table: Table) -> None:
    table.create_branch("b")
    for option in ("scan.fallback-branch", "scan.primary-branch"):
        table.alter(ll.set_option(option, "b"))
        with pytest.raises(InvalidArgument, match=f"'{option}' names it"):
            table.delete_branch("b")
        with pytest.raises(InvalidArgument, match=f"'{option}' names it"):
            table.branch("b").rename_branch("b", "c")
        table.alter(ll.remove_option(option))
    with pytest.raises(InvalidArgument, match="the table itself"):
        table.delete_branch("main")
    with pytest.raises(InvalidArgument, match="the table itself"):
        table.rename_branch("main", "c")
    table.delete_branch("b")


def test_a_renamed_branch_keeps_everything(table: Table) -> None:
    table.create_branch("b", tag="eod")
    branch = table.branch("b")
    branch.append(rows(20))
    branch.committer.settle()
    before = {key.removeprefix("branch/branch-b/"): data for key, data in contents(table.store).items() if "-b/" in key}  # type: ignore[arg-type]
    table.create_branch("taken")
    with pytest.raises(TableExists, match="'taken'"):
        table.rename_branch("b", "taken")
    with pytest.raises(InvalidArgument, match="branches are: b, taken"):
        table.rename_branch("x", "c")
    table.rename_branch("b", "c")
    after = {key.removeprefix("branch/branch-c/"): data for key, data in contents(table.store).items() if "-c/" in key}  # type: ignore[arg-type]
    del before["lakelatch/origin"], after["lakelatch/origin"]
    assert after == before
    assert list(table.branches()) == ["c", "taken"]
    table.create_branch("b")
    with pytest.raises(TableExists, match="'c'"):
        table.rename_branch("b", "c")  # another branch than the one that became c
    table.rename_branch("b", "d")
    assert values(table.branch("c")) == [1, 2, 20]


# ------------------------------------------------------------------------------------------------------- fast-forward


def test_main_takes_over_what_a_branch_has(table: Table) -> None:
    """The same files and ids, byte for byte; then once more, after more commits to the branch."""
    table.create_branch("b", snapshot=3)
    branch = table.branch("b")
    branch.append(rows(4), commit_user="etl", identifier=7)
    branch.alter(ll.add_column("x", "INT"))
    branch.overwrite(rows(5), partition={})
    branch.committer.settle()
    table.store.put("branch/branch-b/tag/tag-new", table.store.get("branch/branch-b/snapshot/snapshot-4"))
    plan = table.plan_fast_forward("b")
    assert str(plan) == "main gets snapshots 4 to 5 of branch 'b', 1 schemas, 1 tags: 1 rows"
    assert plan.to_dict() == {"branch": "b", "from": 3, "snapshots": [4, 5], "schemas": [1], "tags": ["new"], "rows": 1}
    assert values(table) == [1, 2, 3]
    assert table.fast_forward("b") == plan
    for name in ("snapshot/snapshot-4", "snapshot/snapshot-5", "schema/schema-1", "tag/tag-new"):
        assert table.store.get(name) == table.store.get(f"branch/branch-b/{name}")
    assert table.store.get("snapshot/LATEST") == b"5"
    assert values(table) == [5]
    assert values(table.at(snapshot=4)) == values(table.at(tag="new")) == [1, 2, 3, 4]
    assert table.verify(snapshots="all") == []
    assert table.append(rows(4), commit_user="etl", identifier=7).replayed, "G3: the identities come too"
    assert str(table.fast_forward("b")) == "branch 'b' has nothing that main lacks"
    branch.append(rows(6))
    assert table.fast_forward("b").snapshot_ids == (6,)
    table.append(rows(7))
    assert values(table) == [5, 6, 7]
    assert table.fast_forward("b").snapshot_ids == (), "main is ahead"


def test_a_main_that_has_moved_is_a_conflict_by_name(table: Table) -> None:
    table.create_branch("b", snapshot=2)
    table.branch("b").append(rows(20))
    before = contents(table.store)  # type: ignore[arg-type]
    with pytest.raises(CommitConflict, match=r"snapshot 3 \(WRITE by '.*'\), which the branch lacks"):
        table.fast_forward("b")
    assert contents(table.store) == before  # type: ignore[arg-type]


def test_a_fast_forward_where_main_has_expired_the_snapshot_that_the_branch_began_with(table: Table) -> None:
    """Nothing to take over where nobody wrote to the branch; else a conflict that tells what has expired, and what works."""
    table.create_branch("idle", snapshot=3)
    table.create_branch("b", snapshot=3)
    table.branch("b").append(rows(20))
    table.branch("b").committer.settle()
    for value in (4, 5, 6):
        table.append(rows(value))
    table.compact_manifests()
    table.committer.settle()
    expired(table)
    before = contents(table.store)  # type: ignore[arg-type]
    assert table.timeline.snapshot_ids() == [7]
    assert str(table.fast_forward("idle")) == "branch 'idle' has nothing that main lacks"
    with pytest.raises(
        CommitConflict, match=r"it has snapshot 7 \(.*its snapshots 4 to 6, which came before, have expired"
    ) as raised:
        table.fast_forward("b")
    assert "overwrite(branch('b').to_arrow(), partition={})" in raised.value.next_step
    assert contents(table.store) == before  # type: ignore[arg-type]
    table.overwrite(table.branch("b").to_arrow(), partition={})  # the way that works
    assert values(table) == [1, 2, 3, 20]


def test_a_fast_forward_to_a_branch_of_a_snapshot_that_was_taken_back(table: Table) -> None:
    """As Apache Paimon's rollback does it: main ends below the snapshot that the branch began with, or has another one there."""
    table.create_branch("b", snapshot=3)
    table.store.put("snapshot/LATEST", b"1")
    table.store.delete_many(["snapshot/snapshot-3", "snapshot/snapshot-2", "tag/tag-eod"])
    with pytest.raises(
        CommitConflict, match="main was taken back to snapshot 1 since branch 'b' was made from its snapshot 3"
    ):
        table.fast_forward("b")
    for value in (8, 9):
        ll.open_table(table.url).append(rows(value))
    with pytest.raises(CommitConflict, match=r", 3 \(WRITE by '.*'\), which the branch lacks \("):
        table.fast_forward("b")
    assert values(ll.open_table(table.url)) == [1, 8, 9]


def test_what_else_a_fast_forward_refuses(table: Table) -> None:
    for name in ("s", "t", "e"):
        table.create_branch(name, snapshot=3)
        table.branch(name).append(rows(30))
    table.create_branch("none")
    before = list(table.timeline.snapshot_ids())
    with pytest.raises(InvalidArgument, match="has no snapshot"):
        table.fast_forward("none")
    with pytest.raises(InvalidArgument, match="no branch 'x'"):
        table.fast_forward("x")
    with pytest.raises(InvalidArgument, match="only main"):
        table.branch("s").fast_forward("t")
    table.branch("e").append(rows(31))
    table.store.put("branch/branch-e/snapshot/EARLIEST", b"5")
    with pytest.raises(InvalidArgument, match="snapshot 4 has expired"):
        table.fast_forward("e")  # an expiry has announced it, and its files may be going
    expired(table.branch("e"))
    with pytest.raises(InvalidArgument, match="snapshot 4 has expired"):
        table.fast_forward("e")
    table.store.put("branch/branch-t/tag/tag-eod", table.store.get("snapshot/snapshot-1"))
    with pytest.raises(CommitConflict, match="tag 'eod'"):
        table.fast_forward("t")
    table.branch("s").alter(ll.add_column("x", "INT"))
    table.alter(ll.add_column("y", "INT"))
    with pytest.raises(CommitConflict, match="different schemas 1"):
        table.fast_forward("s")
    assert table.timeline.snapshot_ids() == before


def test_an_empty_main_gets_the_history_of_a_branch() -> None:
    table = ll.create_table(f"memory://branches-{next(COUNTER)}/t", SCHEMA)
    table.create_branch("b")
    for value in (1, 2):
        table.branch("b").append(rows(value))
    assert table.fast_forward("b").snapshot_ids == (1, 2)
    assert table.store.get("snapshot/EARLIEST") == b"1"
    table.append(rows(3))
    assert values(table) == [1, 2, 3]
    assert table.verify(snapshots="all") == []


def test_a_branch_whose_first_snapshot_has_expired(table: Table) -> None:
    """Main's newest snapshot need not be in the branch any more, if the branch's oldest one names it as its base."""
    table.create_branch("b", snapshot=3)
    branch = table.branch("b")
    branch.append(rows(4))
    branch.append(rows(5))
    expired(branch, keep=2)
    assert table.fast_forward("b").snapshot_ids == (4, 5)
    assert values(table) == [1, 2, 3, 4, 5]


class Overtaking(MemoryStore):
    """Runs a hook just before a snapshot of main is created."""

    hooks: dict[int, Callable[[], Any]]

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        if key.startswith("snapshot/snapshot-"):
            hook = self.hooks.pop(int(key.rpartition("-")[2]), None)
            if hook is not None:
                hook()
        return super().put_if_absent(key, data)


@pytest.mark.parametrize("at", [4, 5])
def test_a_writer_that_commits_in_the_midst_of_it(table: Table, at: int) -> None:
    """Its rows stay, the error says how far it came, and main is sound."""
    table.create_branch("b", snapshot=3)
    branch = table.branch("b")
    branch.append(rows(4))
    branch.append(rows(5))
    store = Overtaking(table.url)
    store.hooks = {at: lambda: ll.open_table(table.url).append(rows(100))}
    with pytest.raises(CommitConflict, match=f"snapshot {at} to main meanwhile") as raised:
        Table(store, table.schema).fast_forward("b")
    assert ("1 of the branch's 2 snapshots are in main" in str(raised.value)) == (at == 5)
    assert values(table) == [*range(1, at), 100]
    assert table.verify(snapshots="all") == []
    with pytest.raises(CommitConflict, match=rf"snapshot {at} \(WRITE"):
        table.fast_forward("b")


def test_a_name_that_an_expiry_has_freed_is_given_back(table: Table) -> None:
    """H6: main moved on by many commits and expired them, all between the look and the create."""
    table.create_branch("b", snapshot=3)
    table.branch("b").append(rows(4))
    store = Overtaking(table.url)

    def many() -> None:
        other = ll.open_table(table.url)
        for value in range(5):
            other.append(rows(100 + value))
        other.committer.settle()
        expired(other)

    store.hooks = {4: many}
    with pytest.raises(CommitConflict, match="main has moved meanwhile"):
        Table(store, table.schema).fast_forward("b")
    assert values(table) == [1, 2, 3, *range(100, 105)]
    assert table.timeline.snapshot_ids() == [8]
    assert table.verify(snapshots="all") == []


def test_an_expiry_of_the_branch_at_the_same_time_takes_nothing_from_main(table: Table) -> None:
    """H10: what the branch's expiry may have missed does not stay in main; what it must have seen does."""
    table.create_branch("b", snapshot=3)
    for value in (4, 5):
        table.branch("b").append(rows(value))
    branch = table.branch("b")
    branch.overwrite(rows(6), partition={})
    branch.committer.settle()
    store = Overtaking(table.url)
    store.hooks = {4: lambda: expired(branch)}
    assert Table(store, table.schema).fast_forward("b").snapshot_ids == (4, 5, 6)
    assert branch.timeline.snapshot_ids() == [6]
    assert [values(table.at(snapshot=n)) for n in (4, 5, 6)] == [[1, 2, 3, 4], [1, 2, 3, 4, 5], [6]]
    assert table.verify(snapshots="all") == []
    branch.append(rows(7))
    store.hooks = {
        7: lambda: store.put("branch/branch-b/snapshot/EARLIEST", b"8")
    }  # it will see the tag, and keep the files
    assert Table(store, table.schema).fast_forward("b").snapshot_ids == (7,)
    branch.append(rows(8))
    store.put("branch/branch-b/snapshot/EARLIEST", b"9")  # it may have looked for tags already
    with pytest.raises(InvalidArgument, match="snapshot 8 has expired"):
        table.fast_forward("b")
    store.put("branch/branch-b/snapshot/EARLIEST", b"6")
    plan = table.plan_fast_forward("b")
    store.put("branch/branch-b/snapshot/EARLIEST", b"9")  # between the plan and its execution
    with pytest.raises(InvalidArgument, match="snapshot 8 has expired"):
        apply_fast_forward(table.timeline, plan)
    assert all(kept(info.key) for info in table.store.list("branch/branch-b/tag/"))
    assert values(table) == [6, 7]


def test_a_store_that_fails_midway_leaves_the_outcome_open(table: Table) -> None:
    """What landed is told; the next run finishes, also where main has expired the snapshots since."""
    table.create_branch("b", snapshot=3)
    for value in (4, 5):
        table.branch("b").append(rows(value))

    class Failing(MemoryStore):
        def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
            if key == "snapshot/snapshot-5":
                raise StoreUnavailable("503")
            return super().put_if_absent(key, data)

    with pytest.raises(OutcomeUnknown, match="snapshots 4 to 4, but not 5"):
        Table(Failing(table.url), table.schema).fast_forward("b")
    assert table.fast_forward("b").snapshot_ids == (5,)
    for value in (6, 7):
        table.append(rows(value))
    table.committer.settle()
    expired(table)
    assert table.fast_forward("b").snapshot_ids == (), "main has taken it over, and expired it since"
    assert values(table) == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize(("answers", "wanted"), [("?!", OutcomeUnknown), ("!", StoreUnavailable), ("?=", None)])
def test_a_file_is_created_or_not_or_that_is_not_known(answers: str, wanted: type[Exception] | None) -> None:
    """`?`: applied, and not answered; `!`: refused, with nothing applied; `=`: answered."""
    plan = iter(answers)

    class Answering(MemoryStore):
        last = "="

        def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
            self.last = next(plan, self.last)
            if self.last == "!":
                raise StoreUnavailable("503")
            answer = super().put_if_absent(key, data)
            return Unknown("timeout") if self.last == "?" else answer

        def get(self, key: str) -> bytes:
            if self.last != "=":
                raise StoreUnavailable("503")
            return super().get(key)

    store = Answering(f"memory://branches-{next(COUNTER)}/t")
    around = replace(MACHINE, sleep=lambda seconds: None)
    if wanted is None:
        assert create(store, "k", b"v", around) is Answer.CREATED
    else:
        with pytest.raises(wanted):
            create(store, "k", b"v", around)


# ------------------------------------------------------------------------------------------------------- shared files


@pytest.mark.parametrize("order", list(itertools.permutations(("main", "b", "tag"))))
def test_what_goes_on_one_side_leaves_the_other_whole(order: tuple[str, ...]) -> None:
    """G7: main expires, the branch expires, the tag at the fork goes, in any order; each side reads on."""
    table = new_table()
    table.create_branch("b", tag="eod")
    branch = table.branch("b")
    table.overwrite(rows(30), partition={})
    branch.overwrite(rows(20), partition={})
    branch.append(rows(21))
    for held in (table, branch):
        held.committer.settle()
    for what in order:
        if what == "tag":
            table.store.delete_many(["tag/tag-eod", "branch/branch-b/tag/tag-eod"])
        else:
            expired({"main": table, "b": branch}[what])
        for held in (table, branch):
            for snapshot in held.snapshots():
                assert held.at(snapshot=snapshot.id).to_arrow().num_rows == snapshot.total_record_count
            assert held.verify(snapshots="all") == []
    assert (values(table), values(branch)) == ([30], [20, 21])
    assert table.timeline.snapshot_ids() == [4]
    assert branch.timeline.snapshot_ids() == [4]


# ------------------------------------------------------------------------------------------------------------ crashes


def prepared(store: MemoryStore) -> Table:
    """A table with a branch that is ahead by two snapshots, a schema and a tag."""
    table = new_table(store)
    table.create_branch("b", snapshot=3)
    branch = table.branch("b")
    branch.append(rows(4))
    branch.alter(ll.add_column("x", "INT"))
    branch.append(rows(5))
    branch.committer.settle()
    store.put("branch/branch-b/tag/tag-new", store.get("branch/branch-b/snapshot/snapshot-4"))
    return table


OPERATIONS: dict[str, Callable[[Table], Any]] = {
    "create": lambda table: table.create_branch("new", tag="eod"),
    "delete": lambda table: table.delete_branch("b"),
    "rename": lambda table: table.rename_branch("b", "new"),
    "fast_forward": lambda table: table.fast_forward("b"),
}
MAIN = ([1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 4, 5])


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_that_dies_at_any_request_is_finished_by_the_next(operation: str, applied: bool) -> None:
    """The end is the same as without the crash, and main is readable, in a state that it or the branch had, at each moment."""
    space = contents(prepared(MemoryStore(f"memory://branches-{next(COUNTER)}/t")).store)  # type: ignore[arg-type]
    whole = _copy_of(space)
    OPERATIONS[operation](_opened(whole))
    wanted = _told(whole)
    for last in itertools.count(1):
        store = _copy_of(space)
        table = _opened(store)
        store.requests, store.last, store.applied = 0, last, applied
        died = True
        try:
            OPERATIONS[operation](table)
            died = False
        except Died:
            pass
        store.last = 10**9
        table = _opened(store)
        assert values(table) in MAIN
        assert table.verify(snapshots="all") == []
        if died:
            try:
                OPERATIONS[operation](table)
            except TableExists:  # it died after its last effect
                assert operation == "create"
            except InvalidArgument:
                assert operation in ("delete", "rename")
        assert _told(store) == wanted, f"died at request {last}"
        if not died:
            break
    assert last > 8


def _copy_of(space: dict[str, bytes]) -> DyingStore:
    store = DyingStore(f"memory://branches-{next(COUNTER)}/t")
    for key, data in space.items():
        store.put(key, data)
    return store


def _opened(store: DyingStore) -> Table:
    table = ll.open_table(store.url)
    return Table(store, table.schema, first_schema=table._first_schema)


def _told(store: DyingStore) -> dict[str, bytes]:
    """What a store holds, without who made a branch and when."""
    found = contents(store)
    named = {re.sub(r"(tag-branch-\d+-)\w{8}$", r"\1", key): data for key, data in found.items()}
    return {key: b"" if key.endswith("lakelatch/origin") else data for key, data in named.items()}


def test_a_branch_that_is_deleted_while_it_is_made_is_not_reported_as_made(table: Table) -> None:
    """The deletion takes what it finds for what a dead process has left: the maker is told, and leaves no schema behind."""

    class Slow(MemoryStore):
        def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
            if key == "branch/branch-b/schema/schema-0":
                ll.open_table(table.url).delete_branch("b")
            return super().put_if_absent(key, data)

    with pytest.raises(TableExists, match=r"'b' of .* is being deleted"):
        Table(Slow(table.url), table.schema).create_branch("b", snapshot=2)
    assert list(table.store.list("branch/")) == []
    table.create_branch("b", snapshot=2)
    assert values(table.branch("b")) == [1, 2]


def test_a_creation_that_was_cut_off_holds_its_name(table: Table) -> None:
    """Another branch of the name is refused by what the first was made from; it can be deleted."""
    store = DyingStore(table.url)
    mine = Table(store, table.schema)
    for last in itertools.count(1):
        store.requests, store.last = 0, last
        try:
            mine.create_branch("b", snapshot=2)
        except Died:
            if claim_of(MemoryStore(table.url), "b") is None:
                continue
            break
    with pytest.raises(TableExists, match="from snapshot 2 of branch 'main'"):
        table.create_branch("b", snapshot=1)
    assert table.branches() == {}
    assert "what is left of branch 'b'" in str(table.delete_branch("b"))
    table.create_branch("b", snapshot=1)
    table.store.put("branch/branch-b/lakelatch/origin", b"{")
    with pytest.raises(TableCorrupt, match="origin"):
        claim_of(table.store, "b")
