"""Tags keep what a branch shares with others: when they are made, whom they follow, and when they go (decision 106)."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.backends.refusals import DeletionRefused
from lakelatch.coordinator.branches.claim import claim_key, claim_of
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
