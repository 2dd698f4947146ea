"""The names of branches, and which branches a listing shows."""

from __future__ import annotations

from typing import Any

import pytest
from by_hand.snapshots import bare, timeline

from lakelatch.backends.store import ObjectInfo
from lakelatch.coordinator.branches.names import Branch, branch_root, branches_among, check_branch_name, list_branches
from lakelatch.core.errors import InvalidArgument


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (7, "branch 7 is not text"),
        (None, "branch None is not text"),
        ("", "branch '' cannot be a file name"),
        ("a/b", "branch 'a/b' cannot be a file name"),
        ("main", "branch 'main' is the table itself"),
        ("12", "branch '12' is a number"),
        (" dev", "branch ' dev' has control characters, or spaces at an end"),
        ("dev\n", "branch 'dev\\n' has control characters, or spaces at an end"),
        ("é" * 101, f"branch '{'é' * 20}'… is longer than 200 bytes"),
    ],
)
def test_a_name_that_cannot_be_a_branchs_says_why(name: Any, told: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        check_branch_name(name)
    assert raised.value.message == told


@pytest.mark.parametrize("name", ["dev", "1a", "Main", "main2", "1.5", "über", "a b", "é" * 100])
def test_other_names_are_returned(name: str) -> None:
    assert check_branch_name(name) == name
    assert branch_root(name) == f"branch/branch-{name}/"


def test_a_folder_outside_of_the_branches_is_never_named() -> None:
    with pytest.raises(InvalidArgument, match="branch"):
        branch_root("../x")


def seen(*keys: str) -> list[ObjectInfo]:
    """Files as listed, each modified a millisecond before the one in front of it."""
    return [ObjectInfo(key, 1, 1_000 - place) for place, key in enumerate(keys)]


def test_a_listing_shows_what_each_branch_has() -> None:
    """Created when its first schema was, though a later schema may have an earlier time by the store's clock."""
    found = branches_among(
        seen(
            "branch/README",
            "branch/branch-z/schema/schema-4",
            "branch/branch-dev/schema/schema-0",
            "branch/branch-dev/schema/schema-1",
            "branch/branch-dev/lakelatch/origin",
            "branch/branch-dev/snapshot/snapshot-9",
            "branch/branch-dev/snapshot/snapshot-10",
            "branch/branch-dev/snapshot/snapshot-3",
            "branch/branch-dev/snapshot/LATEST",
            "branch/branch-dev/tag/tag-a",
            "branch/branch-dev/tag/tag-b",
            "branch/branch-dev/tag/tag-success-file/a_SUCCESS",
            "branch/branch-dev/tag/a-tag-",
            "branch/branch-a/schema/schema-0",
        )
    )
    assert list(found.items()) == [
        ("a", Branch("a", 987, 0, None, 0)),
        ("dev", Branch("dev", 998, 1, 10, 2)),
        ("z", Branch("z", 999, 4, None, 0)),
    ]


@pytest.mark.parametrize(
    "key",
    [
        "snapshot/schema-1", "tag/schema-1", "schema/schema-1.tmp", "schema/snapshot-1", "lakelatch/origin",
        "snapshot/snapshot-1", "tag/tag-a", "schema/deeper/schema-1", "lakelatch/tag-a",
    ],
)  # fmt: skip
def test_without_a_schema_there_is_no_branch(key: str) -> None:
    assert branches_among(seen(f"branch/branch-x/{key}")) == {}
    assert branches_among([]) == {}


@pytest.mark.parametrize("key", ["schema/snapshot-7", "consumer/snapshot-7", "changelog/tag-a", "snapshot/tag-a"])
def test_a_file_in_another_folder_does_not_count(key: str) -> None:
    found = branches_among(seen("branch/branch-x/schema/schema-0", f"branch/branch-x/{key}"))
    assert found == {"x": Branch("x", 1_000, 0, None, 0)}


def test_a_branch_prints_and_goes_into_json() -> None:
    branch = Branch("dev", 5, 1, 9, 2)
    assert str(branch) == "branch 'dev': snapshot 9, schema 1, 2 tags"
    assert branch.to_dict() == {"branch": "dev", "created_ms": 5, "schema": 1, "snapshot": 9, "tags": 2}
    assert str(Branch("dev", 5, 1, None, 0)) == "branch 'dev': no snapshot, schema 1, 0 tags"


def test_the_branches_of_a_table_take_one_listing() -> None:
    store = bare(0, 1, branch="dev", store=bare())
    assert list(list_branches(timeline(store))) == ["dev"]
    assert store.reads == ["list branch/"]
