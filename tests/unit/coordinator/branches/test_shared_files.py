"""Tags keep what a branch shares with others: when they are made, whom they follow, and when they go (decision 106)."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from by_hand.snapshots import Refusing, bare, chain, keys, landed, raising, snapshot, timeline

import lakelatch as ll
from lakelatch.backends.requests.refusals import DeletionRefused
from lakelatch.backends.store import ObjectNotFound
from lakelatch.coordinator.branches.claim import Claim, claim_key, claim_of
from lakelatch.coordinator.branches.hold import hold_shared, inherited, release_shared
from lakelatch.core.metadata.snapshot import Snapshot
from lakelatch.table.table import Table

COUNTER = itertools.count()


@pytest.fixture
def table() -> Table:
    made = ll.create_table(f"memory://shared-files-{next(COUNTER)}/t", pa.schema([("v", pa.int64())]))
    for value in (1, 2):
        made.append(pa.table({"v": [value]}))
    made.committer.settle()
    return made


def kept(table: Table, branch: str = "main") -> list[int]:
    """The snapshots that tags of branches keep in a branch."""
    tags = (table if branch == "main" else table.branch(branch)).tags()
    return sorted(tag.snapshot.id for tag in tags if tag.name.startswith("branch-"))


@pytest.mark.parametrize("begin", [{"snapshot": 1}, {"tag": "eod"}])
def test_both_branches_have_the_tag_until_the_branch_goes(table: Table, begin: dict[str, object]) -> None:
    table.create_tag("eod", snapshot=1)
    table.create_branch("b", **begin)  # type: ignore[arg-type]
    table.create_branch("empty")
    assert (kept(table), kept(table, "b"), kept(table, "empty")) == ([1], [1], [])
    table.delete_tag("eod")
    table.delete_branch("empty")
    assert kept(table) == [1]
    table.delete_branch("b")
    assert kept(table) == []


def test_the_tags_of_a_branch_outlive_its_old_name(table: Table) -> None:
    table.create_branch("b", snapshot=1)
    table.rename_branch("b", "c")
    table.rename_branch("c", "d")
    assert (kept(table), kept(table, "d")) == ([1], [1])
    table.delete_branch("d")
    assert kept(table) == []


def test_a_branch_of_a_branch_keeps_what_that_shares_with_main(table: Table) -> None:
    table.create_branch("a", snapshot=1)
    table.branch("a").append(pa.table({"v": [3]}))
    table.branch("a").committer.settle()
    table.branch("a").create_branch("b", snapshot=2)
    table.branch("b").create_branch("c", snapshot=2)
    table.delete_branch("a")
    table.delete_branch("b")
    assert kept(table) == [1]
    table.delete_branch("c")
    assert kept(table) == []


def test_a_branch_of_another_engine_is_kept_once_main_has_taken_it_over(table: Table) -> None:
    """It has no claim; its tags follow it to a new name."""
    table.create_branch("b", snapshot=2)
    table.store.delete_many([claim_key("b"), *(i.key for i in table.store.list("tag/"))])
    table.branch("b").append(pa.table({"v": [3]}))
    table.branch("b").committer.settle()
    table.fast_forward("b")
    assert kept(table) == [2, 2, 3]
    table.rename_branch("b", "c")
    table.delete_branch("c")
    assert kept(table) == [2], "it came with a tag of the branch, and is not known to be one of these"


def test_a_claim_that_nobody_can_read_keeps_the_tags(table: Table) -> None:
    for name in ("a", "b"):
        table.create_branch(name, snapshot=1)
    table.store.put(claim_key("b"), b"{")
    table.delete_branch("a")
    assert kept(table) == [1, 1]


def test_a_branch_that_cannot_be_made_leaves_no_tag(table: Table) -> None:
    table.store.put("snapshot/EARLIEST", b"2")
    with pytest.raises(ll.InvalidArgument, match="has expired, or is about to"):
        table.create_branch("b", snapshot=1)
    assert kept(table) == []
    assert claim_of(table.store, "b") is None


def test_a_refusal_to_undo_a_branch_does_not_hide_why_it_cannot_be_made(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.store.put("snapshot/EARLIEST", b"2")
    with monkeypatch.context() as patched:

        def refuses(keys: Any) -> None:
            raise DeletionRefused(dict.fromkeys(keys, "a legal hold"))

        patched.setattr(table.store, "delete_many", refuses)
        with pytest.raises(ll.InvalidArgument, match="has expired, or is about to") as raised:
            table.create_branch("b", snapshot=1)
        assert isinstance(raised.value.__cause__, DeletionRefused)
    table.delete_branch("b")
    assert kept(table) == []
    assert claim_of(table.store, "b") is None


def test_tags_that_expire_by_age_are_not_these(table: Table) -> None:
    table.create_tag("old", snapshot=1)
    table.create_branch("b", snapshot=1)
    assert [tag.name for tag in table.expire_tags(older_than=2**42).tags] == ["old"]
    assert kept(table) == [1]


# ------------------------------------------------------------------------------------------------- what has the tags

CLAIM = Claim("a1b2c3d4e5", "main", 2, "uuid-2", None, 0, 5)
BRANCH = "branch/branch-b/"


def sharing(main: list[Snapshot], branch: list[Snapshot]) -> Refusing:
    store = bare(branch="b", store=bare())
    landed(store, *main)
    landed(store, *branch, branch="b")
    store.plain().put(claim_key("b"), CLAIM.to_json())
    return store


def held(store: Refusing) -> tuple[list[str], list[str]]:
    """What main and the branch have tagged, without the beginning of the names."""
    hold_shared(timeline(store), timeline(store, "b"))
    main, branch = (
        [key.removeprefix(f"{folder}tag-") for key in keys(store, folder)] for folder in ("tag/", f"{BRANCH}tag/")
    )
    return main, branch


def test_only_the_snapshots_that_both_have_are_tagged() -> None:
    """Two snapshots of one id are no shared one: here one of them has expired from both, and another took its place in main."""
    history = chain(1, 2, 3, 4, 5)
    store = sharing([snapshot(1, "other"), *history[1:4]], [history[0], *history[2:]])
    names = ["branch-3-a1b2c3d4", "branch-4-a1b2c3d4"]
    assert held(store) == (names, names)
    for number in (3, 4):
        for folder in ("tag/", f"{BRANCH}tag/"):
            assert store.get(f"{folder}tag-branch-{number}-a1b2c3d4") == history[number - 1].to_json()
    assert not [change for change in store.changes if "-branch-1-" in change], (
        "nobody sees such a tag even for a moment"
    )


@pytest.mark.parametrize("lacking", ["tag/", f"{BRANCH}tag/"])
def test_a_tag_that_only_one_of_them_has_is_completed(lacking: str) -> None:
    """A run was cut off between the two, or somebody deleted one of them."""
    history = chain(1, 2, 3)
    store = sharing(history, history[1:])
    before = held(store)
    store.plain().delete_many([f"{lacking}tag-branch-3-a1b2c3d4"])
    store.changes.clear()
    assert held(store) == before
    assert store.changes == [f"create {folder}tag-branch-3-a1b2c3d4" for folder in ("tag/", f"{BRANCH}tag/")]
    store.changes.clear()
    assert held(store) == before
    assert store.changes == [], "what both have is not made again"


@pytest.mark.parametrize("where", ["snapshot/", f"{BRANCH}snapshot/"])
def test_a_snapshot_that_expires_before_it_is_tagged_gets_no_tag(where: str) -> None:
    history = chain(1, 2, 3)
    store = sharing(history, history[1:])
    store.plans[f"get {where}snapshot-2"] = raising(ObjectNotFound("expired"))
    assert held(store) == (["branch-3-a1b2c3d4"], ["branch-3-a1b2c3d4"])


def test_a_branch_of_main_inherits_no_tag_and_one_of_a_branch_those_of_that_one() -> None:
    history = chain(1, 2)
    store = sharing(history, history)
    held(store)
    tags = {
        f"{folder}tag-branch-{n}-": history[n - 1].to_json() for folder in ("tag/", f"{BRANCH}tag/") for n in (1, 2)
    }
    assert inherited(store, "main", "9f8e7d6c5b") == {}
    assert inherited(store, "b", "9f8e7d6c5b") == {f"{key}9f8e7d6c": data for key, data in tags.items()}
    store.plans["get tag/tag-branch-1-"] = raising(ObjectNotFound("deleted"))
    del tags["tag/tag-branch-1-"]
    assert inherited(store, "b", "9f8e7d6c5b") == {f"{key}9f8e7d6c": data for key, data in tags.items()}


@pytest.mark.parametrize(
    ("other", "released"),
    [
        ({}, True),
        ({claim_key("c"): replace(CLAIM, maker="a1b2c3d4e6").to_json()}, True),
        ({"branch/branch-c/schema/schema-0": b"{}", "branch/branch-/notes": b"", "branch/notes": b""}, True),
        ({"branch/branch-c/lakelatch/notes": CLAIM.to_json()}, True),
        ({claim_key("c"): CLAIM.to_json()}, False),
        ({claim_key("c"): b"{"}, False),
    ],
    ids=[
        "alone",
        "another's claim",
        "files without a claim",
        "another file",
        "renamed",
        "a claim that nobody can read",
    ],
)
def test_the_tags_of_a_branch_go_unless_it_goes_on_under_another_name(other: dict[str, bytes], released: bool) -> None:
    """With its own tags alone: those that people made, and those of other branches, stay."""
    history = chain(1, 2)
    store = sharing(history, history)
    names = held(store)[0]
    stay = ["tag/tag-branch-2-a1b2c3d5", "tag/tag-branch-2-a1b2c3d4-of-may", "tag/tag-branch-x-a1b2c3d4", "tag/tag-eod"]
    for key, data in (*other.items(), *((key, history[1].to_json()) for key in stay)):
        store.plain().put(key, data)
    release_shared(store, "b", CLAIM)
    kept_of_it = [] if released else [f"tag/tag-{name}" for name in names]
    assert keys(store, "tag/") == sorted([*stay, *kept_of_it])
    assert keys(store, f"{BRANCH}tag/") == [f"{BRANCH}{key}" for key in kept_of_it]
