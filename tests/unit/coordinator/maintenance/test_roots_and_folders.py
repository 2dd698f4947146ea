"""Which files are roots, the second look before a deletion, and the folders that become empty by it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest
from at_each_request import Struck

import lakelatch as ll
from lakelatch.backends.local import LocalStore
from lakelatch.backends.memory import MemoryStore
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.coordinator.maintenance.expiry.empty_folders import remove_empty
from lakelatch.coordinator.maintenance.expiry.expire import expire
from lakelatch.coordinator.maintenance.expiry.retention import Retention
from lakelatch.coordinator.maintenance.reach.roots import list_roots, read_roots
from lakelatch.core.errors import TableCorrupt
from lakelatch.core.metadata.snapshot import Snapshot
from lakelatch.core.paths import TablePaths

COUNTER = itertools.count()
SNAPSHOT = Snapshot(1, 0, "b", "d", "me", 7, "APPEND", 0, 1, 1)


def stored(*keys: str) -> MemoryStore:
    store = MemoryStore(f"memory://roots-{next(COUNTER)}/t")
    for key in keys:
        store.put(key, SNAPSHOT.to_json())
    return store


ROOTS = {
    "snapshot/snapshot-3": ("snapshot", "main"),
    "tag/tag-eod": ("tag", "main"),
    "changelog/changelog-2": ("changelog", "main"),
    "branch/branch-dev/snapshot/snapshot-1": ("snapshot", "dev"),
    "branch/branch-dev/tag/tag-tag-x": ("tag", "dev"),
    "branch/branch-dev/changelog/changelog-9": ("changelog", "dev"),
}
OTHERS = (
    *("snapshot/LATEST", "snapshot/EARLIEST", "snapshot/.snapshot-4.x.tmp", "snapshot/snapshot-x", "snapshot/tag-4"),
    *("tag/eod", "tag/snapshot-1", "changelog/LATEST", "changelog/snapshot-2", "snapshot/deep/snapshot-5"),
    *("branch/branch-dev/schema/schema-0", "branch/branch-dev/snapshot/LATEST", "branch/dev/snapshot/snapshot-1"),
    *("schema/schema-0", "manifest/snapshot-1", "consumer/consumer-a", "lakelatch/snapshot/snapshot-1"),
)


def test_the_roots_of_all_branches_are_listed_and_read() -> None:
    store = stored(*ROOTS, *OTHERS)
    timeline = Timeline(store, TablePaths())
    infos = list_roots(timeline)
    assert sorted(info.key for info in infos) == sorted(ROOTS)
    roots = read_roots(timeline, infos)
    assert {root.key: (root.kind, root.branch) for root in roots} == ROOTS
    assert all(root.snapshot == SNAPSHOT and root.info == store.head(root.key) for root in roots)


def test_a_root_that_is_gone_by_now_is_left_out_and_a_damaged_one_is_an_error() -> None:
    """H11."""
    store = stored("snapshot/snapshot-1", "snapshot/snapshot-2")
    timeline = Timeline(store, TablePaths())
    infos = list_roots(timeline)
    store.delete_many(["snapshot/snapshot-1"])
    assert [root.key for root in read_roots(timeline, infos)] == ["snapshot/snapshot-2"]
    store.put("snapshot/snapshot-2", b"{")
    with pytest.raises(TableCorrupt, match="snapshot/snapshot-2"):
        read_roots(timeline, infos)


# ------------------------------------------------------------------------------------------------------ empty folders


def folders(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_dir())


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(str(tmp_path), {"fsync": False})


def deleted(store: LocalStore, keys: Iterable[str], above: str = "") -> None:
    """Files that were there, and what becomes of their folders."""
    store.delete_many(keys)
    remove_empty(store, keys, above)


def test_empty_folders_go_and_so_do_those_above_them(store: LocalStore, tmp_path: Path) -> None:
    keys = ["p=1/q=1/bucket-0/a", "p=1/q=2/bucket-0/b", "p=2/bucket-0/c", "bucket-3/d"]
    for key in (*keys, "p=2/bucket-1/stays"):
        store.put(key, b"")
    deleted(store, keys)
    assert folders(tmp_path) == ["p=2", "p=2/bucket-1"]
    assert tmp_path.is_dir()


def test_a_folder_with_a_file_stays(store: LocalStore, tmp_path: Path) -> None:
    for key in ("p=1/bucket-0/a", "p=1/bucket-0/stays"):
        store.put(key, b"")
    deleted(store, ["p=1/bucket-0/a"])
    assert folders(tmp_path) == ["p=1", "p=1/bucket-0"]
    assert store.get("p=1/bucket-0/stays") == b""


def test_a_folder_of_others_stays_with_those_above_it(store: LocalStore, tmp_path: Path) -> None:
    """Nothing was deleted in it: somebody has made it, perhaps a moment ago, to write into it."""
    store.put("p=1/bucket-0/a", b"")
    (tmp_path / "p=1/bucket-1").mkdir()
    deleted(store, ["p=1/bucket-0/a"])
    assert folders(tmp_path) == ["p=1", "p=1/bucket-1"]


@pytest.mark.parametrize("above", ["data", "/data/"])
def test_the_folder_of_all_data_stays(store: LocalStore, tmp_path: Path, above: str) -> None:
    store.put("data/p=1/bucket-0/a", b"")
    deleted(store, ["data/p=1/bucket-0/a"], above)
    assert folders(tmp_path) == ["data"]


def test_files_outside_of_the_table_are_no_matter(store: LocalStore, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    remove_empty(store, [f"file://{tmp_path}/out/a", f"{tmp_path}/out/b"])
    assert folders(tmp_path) == ["out"]


@pytest.mark.parametrize(("option", "left"), [("true", ["p=b"]), ("false", ["p=a", "p=b"])])
def test_an_expiry_removes_the_folders_of_a_dropped_partition_if_the_table_says_so(
    tmp_path: Path, option: str, left: list[str]
) -> None:
    schema = pa.schema([("p", pa.string()), ("v", pa.int64())])
    options = {"snapshot.clean-empty-directories": option}
    table = ll.create_table(str(tmp_path / "t"), schema, partition_by=["p"], options=options)
    for part in ("a", "b"):
        table.append(pa.table({"p": [part], "v": [1]}))
    table.drop_partitions([{"p": "a"}])
    table.committer.settle()
    timeline = table.timeline
    done = expire(timeline, timeline.latest_schema(), Retention(1, 1, 2**62, 2**62, 10))
    assert done.snapshot_ids == (1, 2)
    assert [key.partition("/")[0] for key in done.steps.data] == ["p=a"]
    assert [name for name in folders(tmp_path / "t") if name.startswith("p=") and "/" not in name] == left
    assert table.to_arrow()["p"].to_pylist() == ["b"]


def test_a_store_without_folders_is_not_asked() -> None:
    store = Struck()
    remove_empty(store, ["p=1/bucket-0/a"])
    assert store.asked == []
