"""What a drop deletes, in which order, and how it is told: on files that need hold nothing."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from lakelatch.backends.local import LocalStore
from lakelatch.backends.memory import MemoryStore
from lakelatch.coordinator.maintenance.deletion import BATCH
from lakelatch.coordinator.maintenance.drop import DropPlan, apply_drop, is_own, plan_drop
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.core.errors import InvalidArgument, StoreUnavailable, TableNotFound
from lakelatch.core.json_text import parse_json

COUNTER = itertools.count()
FIRST = "schema/schema-0"


class Watched(MemoryStore):
    """A store in memory that records what is deleted together, and to which others bring files.

    Attributes:
        batches: the keys of each request.
        brought: files that come with the next deletions.
    """

    def __init__(self, *keys: str) -> None:
        super().__init__(f"memory://dropped-{next(COUNTER)}/t")
        self.batches: list[list[str]] = []
        self.puts: list[str] = []
        self.brought: list[str] = []
        for key in keys:
            super().put(key, b'{"options": {}}' if key == FIRST else b"xy")

    def put(self, key: str, data: bytes) -> None:
        self.puts.append(key)
        super().put(key, data)

    def delete_many(self, keys: Iterable[str]) -> None:
        names = list(keys)
        self.batches.append(names)
        super().delete_many(names)
        if self.brought:
            super().put(self.brought.pop(0), b"xy")


def keys(store: MemoryStore) -> list[str]:
    return sorted(info.key for info in store.list(""))


def test_a_plan_names_and_counts_what_goes_and_what_stays() -> None:
    store = Watched(
        *("z.txt", "snapshot/snapshot-2", FIRST, "bucket-0/data-1", "a.txt", "snapshot/snapshot-10", "snapshot/LATEST"),
        *("branch/branch-dev/snapshot/snapshot-1", "branch/branch-dev/schema/schema-0", "snapshot/snapshot-x"),
    )
    plan = plan_drop(store)
    own = [
        *("branch/branch-dev/schema/schema-0", "branch/branch-dev/snapshot/snapshot-1", "bucket-0/data-1", FIRST),
        *("snapshot/LATEST", "snapshot/snapshot-10", "snapshot/snapshot-2", "snapshot/snapshot-x"),
    ]
    assert [info.key for info in plan.files] == own
    assert plan.foreign == ("a.txt", "z.txt")
    size = 2 * 7 + len(b'{"options": {}}')
    told = f"{store.url}: 3 snapshots, 8 files, {size} bytes"
    assert str(plan) == f"{told}; 2 files that are not the table's stay"
    assert str(replace(plan, foreign=())) == told
    assert plan.to_dict() == {
        "url": store.url,
        "snapshots": 3,
        "files": 8,
        "bytes": size,
        "foreign": ["a.txt", "z.txt"],
        "referenced_by": [],
    }


def test_a_plan_of_nothing_is_told_with_zeros() -> None:
    assert str(DropPlan("file:///t", ())) == "file:///t: 0 snapshots, 0 files, 0 bytes"


@pytest.mark.parametrize(
    ("key", "directory", "own"),
    [
        ("lakelatch/journal/1", "", True),
        ("branch/branch-a/anything", "", True),
        ("manifest/m", "", True),
        ("manifests/m", "", False),
        ("dt=1/hour=2/bucket-0/data-1", "", True),
        ("dt=1", "", False),
        ("=1/x", "", False),
        ("bucket-postpone/data-1", "", True),
        ("bucket-x/data-1", "", False),
        ("notes/bucket-0/data-1", "", False),
        ("data/bucket-0/data-1", "", False),
        ("data/bucket-0/data-1", "data", True),
        ("data/bucket-0/data-1", "/data/", True),
        ("data", "data", False),
        ("database/x", "data", False),
        ("README.md", "", False),
    ],
)
def test_which_files_are_the_tables_own(key: str, directory: str, own: bool) -> None:
    assert is_own(key, directory) is own


@pytest.mark.parametrize("left", [FIRST, "schema/schema-3", "snapshot/snapshot-4"])
def test_what_is_left_of_a_table_is_dropped(left: str) -> None:
    store = Watched(left, "manifest/m")
    apply_drop(store, plan_drop(store))
    assert keys(store) == []


@pytest.mark.parametrize("files", [(), ("manifest/m", "bucket-0/data-1", "tag/tag-a", "snapshot/LATEST")])
def test_files_without_a_schema_or_a_snapshot_are_no_table(files: tuple[str, ...]) -> None:
    store = Watched(*files)
    with pytest.raises(TableNotFound, match=f"there is no table at {store.url}"):
        plan_drop(store)
    assert keys(store) == sorted(files)


@pytest.mark.parametrize(
    "inner", ["inner/schema/schema-0", "dt=1/t/schema/schema-7", "branch/branch-a/t/schema/schema-0"]
)
def test_a_table_below_is_named_and_nothing_is_dropped(inner: str) -> None:
    store = Watched(FIRST, inner)
    with pytest.raises(InvalidArgument) as caught:
        plan_drop(store)
    assert caught.value.message.endswith(f"another table lies below it, at {inner.partition('/schema/')[0]}")
    assert caught.value.next_step == "move that table away first"
    plan_drop(Watched(FIRST, "branch/branch-a/schema/schema-0", "inner/schema/schema-x", "inner/schema"))


def test_schemas_go_first_then_roots_then_the_rest_and_the_first_schema_last() -> None:
    roots = ["branch/branch-dev/snapshot/snapshot-1", "changelog/changelog-1", "consumer/consumer-a", "tag/tag-a"]
    store = Watched(
        "bucket-0/data-1", "manifest/m", *roots, "branch/branch-dev/schema/schema-0", "schema/schema-1", FIRST
    )
    told: list[tuple[int, int]] = []
    plan = plan_drop(store)
    assert apply_drop(store, plan, lambda *count: told.append(count)) is plan
    assert [sorted(batch) for batch in store.batches] == [
        ["branch/branch-dev/schema/schema-0", "schema/schema-1"],
        roots,
        ["bucket-0/data-1", "manifest/m"],
        [FIRST],
    ]
    assert told == [(2, 9), (6, 9), (8, 9), (9, 9)]


def test_many_files_go_in_batches() -> None:
    store = Watched(FIRST, *(f"bucket-0/data-{number}" for number in range(BATCH + 1)))
    apply_drop(store, plan_drop(store))
    assert [len(batch) for batch in store.batches] == [BATCH, 1, 1]


def test_files_that_come_meanwhile_go_too_and_count_no_further_than_the_total() -> None:
    store = Watched(FIRST, "snapshot/snapshot-1", "README.md")
    store.brought = ["bucket-0/data-2", "manifest/m", "notes.txt", "snapshot/snapshot-2"]
    told: list[tuple[int, int]] = []
    apply_drop(store, plan_drop(store), lambda *count: told.append(count))
    assert [key for batch in store.batches for key in batch] == [
        *("snapshot/snapshot-1", "bucket-0/data-2", "manifest/m", FIRST)
    ]
    assert told == [(1, 2), (2, 2), (2, 2), (2, 2)]
    assert keys(store) == ["README.md", "notes.txt", "snapshot/snapshot-2"], "nothing is looked for after the end"


def test_no_empty_folder_is_left_on_a_disk(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path / "t"), {"fsync": False})
    for key in (FIRST, "p=1/bucket-0/data-1", "snapshot/snapshot-1"):
        store.put(key, b"{}")
    apply_drop(store, plan_drop(store))
    assert list(tmp_path.rglob("*")) == []


def test_a_table_that_jobs_keep_writing_to_is_not_dropped_yet() -> None:
    """Its first schema stays, so that the drop can be run again."""
    store = Watched(FIRST, "snapshot/snapshot-1")
    store.brought = [f"bucket-0/data-{number}" for number in range(1_000)]
    with pytest.raises(StoreUnavailable, match=f"{store.url} is not dropped yet: jobs keep writing") as caught:
        apply_drop(store, plan_drop(store))
    assert caught.value.next_step == "stop these jobs, then run it again"
    assert FIRST in keys(store)
    assert len(store.batches) == 50, "it has looked again and again"
    store.brought = []
    apply_drop(store, plan_drop(store))
    assert keys(store) == []


def test_the_first_schema_is_marked_once_with_the_time() -> None:
    store = Watched(FIRST, "snapshot/snapshot-1")
    store.brought = [f"bucket-0/data-{number}" for number in range(1_000)]
    for seconds in (5.0, 6.0):
        with pytest.raises(StoreUnavailable):
            apply_drop(store, plan_drop(store), around=replace(MACHINE, wall_s=lambda seconds=seconds: seconds))
    assert parse_json(store.get(FIRST))["options"] == {"lakelatch.dropped": "5000"}
    assert store.puts == [FIRST]
    without = Watched("snapshot/snapshot-1")
    apply_drop(without, plan_drop(without))
    assert without.puts == []
