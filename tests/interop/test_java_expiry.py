"""Changelogs that outlive snapshots, empty folders and consumers, beside Apache Paimon (Java): the same files are left, and Java
reads the same rows (G7, G8).
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import golden_tables
import pyarrow as pa
import pytest
from values import assert_same_rows

import lakelatch as ll
from lakelatch.backends.local import LocalStore
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.coordinator.maintenance.expiry.expire import ExpiryPlan, expire
from lakelatch.coordinator.maintenance.expiry.retention import Retention
from lakelatch.core.paths import TablePaths
from lakelatch.core.places import FileKeys

pytestmark = pytest.mark.java

NEVER_MS = 2**62
SCHEMA = pa.schema([pa.field("k", pa.int32(), nullable=False), ("v", pa.string())])
KINDS: dict[str, tuple[list[str], dict[str, str]]] = {
    "rows without keys": ([], {}),
    "keys without changelog files": (["k"], {"bucket": "1"}),
    "changelog of the input": (["k"], {"bucket": "1", "changelog-producer": "input"}),
    "changelog by lookup": (["k"], {"bucket": "1", "changelog-producer": "lookup"}),
    "deletion vectors": (["k"], {"bucket": "1", "deletion-vectors.enabled": "true"}),
}


def rows(v: str, *keys: int) -> pa.Table:
    return pa.table({"k": list(keys), "v": [v] * len(keys)}).cast(SCHEMA)


def lived(path: Path, kind: str) -> list[int]:
    """Appends, deletes and compactions; the ids of the snapshots."""
    primary_key, options = KINDS[kind]
    table = ll.create_table(str(path), SCHEMA, primary_key=primary_key, options=options)
    for number in range(3):
        table.append(rows("a", number, number + 1))
    table.compact(full=True, **({} if primary_key else {"min_files": 2}))
    table.append(rows("b", 3, 4))
    if primary_key:
        table.delete(pa.table({"k": pa.array([0], pa.int32())}))
    for number in range(4, 6):
        table.append(rows("c", number, number + 1))
    table.committer.settle()
    return table.timeline.snapshot_ids()


def ours(path: Path, keep: int, changelogs: int) -> ExpiryPlan:
    """Ours, long after everything that happened."""
    timeline = Timeline(LocalStore(str(path)), TablePaths())
    of_changelogs = Retention(changelogs, changelogs, NEVER_MS, NEVER_MS, 1_000)
    retention = Retention(keep, keep, NEVER_MS, NEVER_MS, 1_000, changelogs=of_changelogs)
    return expire(timeline, timeline.latest_schema(), retention)


def files(path: Path) -> dict[str, bytes]:
    return {
        os.path.relpath(os.path.join(folder, name), path): Path(folder, name).read_bytes()
        for folder, _, names in os.walk(path)
        for name in names
        if not folder.startswith(str(path / "lakelatch"))
    }


def same_files(one: Path, other: Path, only_ours: frozenset[str] = frozenset()) -> None:
    """The same files and bytes. Java writes changelogs in its own spelling, and their EARLIEST although none expired.

    Args:
        only_ours: files that Java may have deleted, which the first copy must still have.
    """
    left, right = files(one), files(other)
    assert only_ours <= left.keys()
    left = {key: data for key, data in left.items() if key in right or key not in only_ours}
    if "changelog/EARLIEST" not in left:
        right.pop("changelog/EARLIEST", None)
    assert left.keys() == right.keys(), sorted(left.keys() ^ right.keys())
    differ = {key for key in left if left[key] != right[key]}
    assert all(key.startswith("changelog/changelog-") for key in differ), sorted(differ)


def changelog_of(path: Path, branch: str) -> frozenset[str]:
    """The changelog of the oldest snapshot of a branch, which Java's expiry of main does not ask for."""
    timeline = Timeline(LocalStore(str(path)), TablePaths(branch))
    begin = timeline.snapshot(timeline.snapshot_ids()[0])
    manifests = timeline.changelog_manifests(begin)
    keys = FileKeys(timeline.latest_schema())
    data = {key for entry in timeline.entries(manifests) for key in keys.data(entry)}
    lists = {begin.changelog_manifest_list} - {None}
    return frozenset({*data, *(f"manifest/{name}" for name in (*lists, *(m.file_name for m in manifests)))})


def seen(paimon_java: Any, path: Path, branches: tuple[str, ...] = ()) -> dict[tuple[Any, ...], list[Any]]:
    """The rows that Java reads at each snapshot, tag and branch that is there."""
    ids = Timeline(LocalStore(str(path)), TablePaths()).snapshot_ids()
    found: dict[tuple[Any, ...], list[Any]] = {("snapshot", i): paimon_java.rows(path, snapshot=i) for i in ids}
    found |= {("tag", name): paimon_java.rows(path, tag=name) for name in paimon_java.tags(path)}
    for branch in branches:
        found["branch", branch] = paimon_java.rows(path, branch=branch)
        for i in Timeline(LocalStore(str(path)), TablePaths(branch)).snapshot_ids():
            found["branch", branch, i] = paimon_java.rows(path, snapshot=i, branch=branch)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_files_and_rows_stay_for_changes(kind: str, tmp_path: Path, paimon_java: Any) -> None:
    """On two copies: snapshots expire to two and become changelogs, which then expire step by step; tags of an expired and of a
    living snapshot and a branch are in between. Java reads the same rows at each of them as before, whoever expired. We keep the
    changelog of the branch's first snapshot, for which Java does not look into branches.
    """
    ids = lived(tmp_path / "ours", kind)
    paimon_java.create_tag(tmp_path / "ours", "eod", ids[2])
    paimon_java.create_tag(tmp_path / "ours", "newest", ids[-1])
    ll.open_table(str(tmp_path / "ours")).create_branch("b", tag="eod")
    paimon_java.commit_rows(tmp_path / "ours", [[7, "java"]], branch="b")
    theirs = shutil.copytree(tmp_path / "ours", tmp_path / "theirs")
    wanted = seen(paimon_java, theirs, ("b",))
    assert len({str(found) for found in wanted.values()}) > 3, "states differ, so that reading another one is noticed"
    kept = changelog_of(tmp_path / "ours", "b")
    told = ll.open_table(str(theirs)).changes(start=0, end=ids[-1]).read_all()
    for changelogs in (len(ids), len(ids) - 1, 4, 3):
        done = ours(tmp_path / "ours", 2, changelogs)
        paimon_java.expire(theirs, 2, changelogs)
        assert done.snapshot_ids or done.changelogs.ids
        same_files(tmp_path / "ours", theirs, kept)
        if changelogs == len(ids):
            for path in (tmp_path / "ours", theirs):
                assert ll.open_table(str(path)).changes(start=0, end=ids[-1]).read_all().equals(told)
    stay = {key for key in wanted if key[0] != "snapshot" or key[1] in ids[-2:]}
    for path in (tmp_path / "ours", theirs):
        left = seen(paimon_java, path, ("b",))
        assert left.keys() == stay
        for key in stay:
            assert_same_rows(left[key], wanted[key])
        assert ll.open_table(str(path)).verify("all", data=True) == []
        assert ll.open_table(str(path), branch="b").verify("all", data=True) == []


def test_the_same_files_stay_of_a_table_that_java_made(tmp_path: Path, paimon_java: Any) -> None:
    """The golden table whose changelogs are kept longer than its snapshots."""
    path = golden_tables.unpack("paimon-java-1.4.2/life_changelog_decoupled", tmp_path).path
    theirs = shutil.copytree(path, tmp_path / "theirs")
    wanted = seen(paimon_java, path)
    timeline = Timeline(LocalStore(str(path)), TablePaths())
    ids = [*timeline.changelog_ids(), *timeline.snapshot_ids()]
    for changelogs in (ids[-1] - ids[0] + 1, 2):
        ours(path, 1, changelogs)
        paimon_java.expire(theirs, 1, changelogs)
        same_files(path, theirs)
    for side in (path, theirs):
        assert seen(paimon_java, side) == {("snapshot", ids[-1]): wanted["snapshot", ids[-1]]}


def test_the_same_folders_stay(tmp_path: Path, paimon_java: Any) -> None:
    """`snapshot.clean-empty-directories`: what a dropped partition leaves, two levels deep."""
    schema = pa.schema([("p", pa.string()), ("q", pa.int32()), ("v", pa.int64())])
    options = {"snapshot.clean-empty-directories": "true"}
    table = ll.create_table(str(tmp_path / "ours"), schema, partition_by=["p", "q"], options=options)
    for p, q in (("a", 1), ("a", 2), ("b", 1), ("c", 1)):
        table.append(pa.table({"p": [p], "q": pa.array([q], pa.int32()), "v": [1]}))
    table.drop_partitions([{"p": "a", "q": 1}, {"p": "b"}])
    table.append(pa.table({"p": ["c"], "q": pa.array([1], pa.int32()), "v": [2]}))
    table.committer.settle()
    theirs = shutil.copytree(tmp_path / "ours", tmp_path / "theirs")
    timeline = Timeline(LocalStore(str(tmp_path / "ours")), TablePaths())
    expire(timeline, timeline.latest_schema(), Retention(1, 1, NEVER_MS, NEVER_MS, 1_000))
    paimon_java.expire(theirs, 1)

    def folders(path: Path) -> set[str]:
        return {os.path.relpath(folder, path) for folder, _, _ in os.walk(path) if "=" in folder[len(str(path)) :]}

    assert (
        folders(tmp_path / "ours")
        == folders(theirs)
        == {"p=a", "p=a/q=2", "p=a/q=2/bucket-0", "p=c", "p=c/q=1", "p=c/q=1/bucket-0"}
    )
    same_files(tmp_path / "ours", theirs)


def test_java_reads_and_heeds_our_consumers(tmp_path: Path, paimon_java: Any) -> None:
    """A consumer that we set holds Java's expiry back, and Java's file is read by us."""
    lived(tmp_path / "t", "rows without keys")
    table = ll.open_table(str(tmp_path / "t"))
    table.set_consumer("etl", 3)
    paimon_java.expire(tmp_path / "t", 1)
    assert table.timeline.snapshot_ids()[0] == 3
    (tmp_path / "t" / "consumer" / "consumer-java").write_text('{\n  "nextSnapshot" : 4\n}')
    assert [(c.name, c.next_snapshot) for c in table.consumers()] == [("etl", 3), ("java", 4)]
