"""Expiry and rollback beside Apache Paimon (Java 1.4.2): the same files go, and each goes on after the other's (G7, G8).

Guards H6 (a rollback frees no id), H11, and that tags, branches and consumers of Java's making hold what they reach.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import golden_tables
import pytest
from interop.agreement import assert_agreed
from interop.ledger import COMPACT, COMPACT_MANIFESTS, Java, Lakelatch, Ledger, append, dynamic, overwrite
from interop.test_java_commits_on_top import new_table, row
from values import assert_same_rows

import lakelatch as ll
from lakelatch.backends.local import LocalStore
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.coordinator.maintenance.expiry.expire import ExpiryPlan, apply_expiry, plan_expiry
from lakelatch.coordinator.maintenance.expiry.retention import Retention
from lakelatch.coordinator.maintenance.orphans import apply_clean, plan_orphans
from lakelatch.core.metadata.schema import TableSchema
from lakelatch.core.paths import TablePaths

pytestmark = pytest.mark.java

NOW_MS = 2**62
HISTORIES = [
    table
    for prefix in ("life_", "pk_", "append_overwrite", "append_compacted", "append_dv", "append_manifest_", "append_path",
                   "append_index_bloom", "append_part", "append_evolve_parquet")
    for table in golden_tables.packed(prefix, "paimon-java-1.4.2")
    if not table.endswith("life_changelog_decoupled")
]  # fmt: skip
"""Tables with a history worth expiring: tags, branches, consumers, statistics, deletion vectors, a primary key, sidecars. The one
whose changelogs are kept longer than its snapshots is in `test_java_expiry`."""


def expire(path: Path, keep: int, branch: str = "main") -> ExpiryPlan:
    """Ours, long after everything that happened."""
    timeline = timeline_of(path, branch)
    schema: TableSchema = timeline.latest_schema()
    retention = Retention.of(schema.options, NOW_MS, retain_max=keep, retain_min=keep, max_deletes=1_000)
    return apply_expiry(timeline, plan_expiry(timeline, schema, retention))


def timeline_of(path: Path, branch: str = "main") -> Timeline:
    return Timeline(LocalStore(str(path)), TablePaths(branch))


def files(path: Path) -> dict[str, bytes]:
    return {
        os.path.relpath(os.path.join(folder, name), path): Path(folder, name).read_bytes()
        for folder, _, names in os.walk(path)
        for name in names
    }


def snapshot_ids(path: Path) -> list[int]:
    return timeline_of(path).snapshot_ids()


# ------------------------------------------------------------------------------------------------------ the same files


@pytest.mark.parametrize("table_id", HISTORIES)
def test_the_same_files_go(table_id: str, tmp_path: Path, paimon_java: Any) -> None:
    """On two copies of a table, lakelatch's and Java's expiry leave the same files, byte for byte.

    But for branches: Java asks main's tags alone, and takes away what a branch's own snapshots need.
    """
    golden = golden_tables.unpack(table_id, tmp_path)
    theirs = shutil.copytree(golden.path, tmp_path / "theirs")
    before = files(golden.path)
    paimon_java.expire(theirs, 1)
    expire(golden.path, 1)
    ours_left, theirs_left = files(golden.path), files(theirs)
    assert {k: v for k, v in ours_left.items() if k in theirs_left} == theirs_left
    kept = ours_left.keys() - theirs_left.keys()
    if kept:
        assert table_id.endswith("life_branch_fast_forward"), kept
        assert _named_by_branches(golden.path) >= kept
    assert len(ours_left) < len(before) or snapshot_ids(golden.path) == snapshot_ids(theirs)


def _named_by_branches(path: Path) -> set[str]:
    """The metadata of all snapshots of all branches."""
    found: set[str] = set()
    for folder in path.glob("branch/branch-*"):
        timeline = timeline_of(path, folder.name.removeprefix("branch-"))
        for number in timeline.snapshot_ids():
            snapshot = timeline.snapshot(number)
            names = {snapshot.base_manifest_list, snapshot.delta_manifest_list}
            names |= {m.file_name for m in timeline.manifests(snapshot)}
            found |= {f"manifest/{name}" for name in names}
    return found


@pytest.mark.parametrize("name", ["life_tags", "life_branches", "life_branch_fast_forward", "life_consumers"])
def test_what_java_tagged_and_branched_reads_on(name: str, tmp_path: Path, paimon_java: Any) -> None:
    """G7: after our expiry of main, then of every branch, Java reads every remaining snapshot, tag and branch as before."""
    path = golden_tables.unpack(f"paimon-java-1.4.2/{name}", tmp_path).path
    branches = sorted(folder.name.removeprefix("branch-") for folder in path.glob("branch/branch-*"))

    def seen() -> dict[Any, Any]:
        found: dict[Any, Any] = {("snapshot", i): paimon_java.rows(path, snapshot=i) for i in snapshot_ids(path)}
        found |= {("tag", tag): paimon_java.rows(path, tag=tag) for tag in paimon_java.tags(path)}
        return found | {("branch", b): paimon_java.rows(path, branch=b) for b in branches}

    wanted = seen()
    plan = expire(path, 1)
    assert plan.snapshot_ids or plan.consumer
    for branch in branches:
        expire(path, 1, branch)
    left = seen()
    assert {key for key in wanted if key[0] != "snapshot"} <= left.keys()
    assert left == {key: rows for key, rows in wanted.items() if key in left}
    if name == "life_consumers":
        assert plan.consumer is not None
        assert min(snapshot_ids(path)) == plan.consumer[1]


# --------------------------------------------------------------------------------------------------------------- turns


def test_either_expires_what_the_other_wrote(tmp_path: Path, paimon_java: Any) -> None:
    """G8: changes by both, expired by lakelatch, Java, and lakelatch again. Both read the same rows from what remains."""
    new_table(tmp_path / "t")
    ledger, ours, java = Ledger(tmp_path / "t"), Lakelatch(), Java(paimon_java)

    def busy(i: int) -> None:
        ledger.change(ours, append([row(i), row(i + 1, "b")]))
        ledger.change(java, append([row(i + 2), row(i + 3, None)]))
        ledger.change(ours, overwrite([row(i + 4)], {"p": "a"}))
        ledger.change(java, COMPACT)
        ledger.change(java, dynamic([row(i + 5, "b")]))
        ledger.change(java, COMPACT_MANIFESTS)
        ledger.change(ours, append([row(i + 6, "c")]))

    def agree() -> None:
        left = snapshot_ids(ledger.path)
        assert_agreed(paimon_java, ledger.path, {i: ledger.expected[i] for i in left})
        ledger.expected = {i: ledger.expected[i] for i in left}

    busy(0)
    paimon_java.create_tag(ledger.path, "early", 3)
    tagged = paimon_java.rows(ledger.path, tag="early")
    expire(ledger.path, 3)
    agree()
    busy(10)
    paimon_java.expire(ledger.path, 2)
    agree()
    busy(20)
    expire(ledger.path, 1)
    agree()
    assert paimon_java.rows(ledger.path, tag="early") == tagged
    assert paimon_java.remove_orphans(ledger.path) == 0, "an expiry leaves nothing over"


def test_java_goes_on_after_a_rollback(tmp_path: Path, paimon_java: Any) -> None:
    """H6, format/commit §11: Java reads the state that came back, commits on top, and its expiry keeps the files."""
    new_table(tmp_path / "t")
    ledger, ours, java = Ledger(tmp_path / "t"), Lakelatch(), Java(paimon_java)
    ledger.change(ours, append([row(1), row(2, "b")]))
    ledger.change(java, append([row(3)]))
    ledger.change(java, overwrite([row(4)], {"p": "a"}))
    ledger.change(java, COMPACT_MANIFESTS)
    table = ll.open_table(str(ledger.path))
    assert table.rollback(snapshot=2).snapshot_id == 5
    ledger.expected[5] = ledger.expected[2]
    assert_agreed(paimon_java, ledger.path, ledger.expected)
    ledger.change(java, append([row(6, "c")]))
    table.rollback(snapshot=4)
    ledger.expected[7] = ledger.expected[4]
    assert_agreed(paimon_java, ledger.path, ledger.expected)
    table.rollback(snapshot=6)
    ledger.expected[8] = ledger.expected[6]
    ledger.change(ours, append([row(7, "d")]))
    paimon_java.expire(ledger.path, 1)
    assert_same_rows(paimon_java.rows(ledger.path), ledger.expected[9])
    assert table.verify(data=True) == []
    paimon_java.commit_rows(ledger.path, [row(8)])
    assert len(paimon_java.rows(ledger.path)) == len(ledger.expected[9]) + 1


def test_java_keeps_what_came_back_twice(tmp_path: Path, paimon_java: Any) -> None:
    """Java's expiry asks the last tag before a deletion: files that were deleted twice need one before each."""
    new_table(tmp_path / "t")
    ledger, java = Ledger(tmp_path / "t"), Java(paimon_java)
    table = ll.open_table(str(ledger.path))
    ledger.change(java, append([row(1)]))
    ledger.change(java, overwrite([row(20)], {"p": "a"}))
    paimon_java.create_tag(ledger.path, "without", 2)
    for snapshot in (3, 5):
        assert table.rollback(snapshot=1).snapshot_id == snapshot
        ledger.expected[snapshot] = ledger.expected[1]
        ledger.change(java, overwrite([row(10 * snapshot)], {"p": "a"}))
    table.rollback(snapshot=1)
    ledger.expected[7] = ledger.expected[1]
    ledger.change(java, append([row(8, "b")]))
    assert_agreed(paimon_java, ledger.path, ledger.expected)
    paimon_java.expire(ledger.path, 1)
    assert_same_rows(paimon_java.rows(ledger.path), ledger.expected[8])
    assert table.verify(data=True) == []


# ------------------------------------------------------------------------------------------------------------- orphans


@pytest.mark.parametrize("name", ["life_tags", "life_branches", "append_dv", "life_statistics", "pk_first_row"])
def test_the_same_orphans_go(name: str, tmp_path: Path, paimon_java: Any) -> None:
    """G7: on two copies of a table, what our cleaning deletes, Java's does too; the rest reads on."""
    golden = golden_tables.unpack(f"paimon-java-1.4.2/{name}", tmp_path)
    for orphan in ("manifest/manifest-left-0", "index/index-left-0", "statistics/stat-left-0"):
        (golden.path / orphan).parent.mkdir(exist_ok=True)
        (golden.path / orphan).write_bytes(b"left over")
    theirs = shutil.copytree(golden.path, tmp_path / "theirs")
    before = files(golden.path)
    timeline = timeline_of(golden.path)
    plan = plan_orphans(timeline, timeline.latest_schema(), NOW_MS)
    assert {info.key for info in plan.files} >= {
        "manifest/manifest-left-0",
        "index/index-left-0",
        "statistics/stat-left-0",
    }
    apply_clean(plan)
    paimon_java.remove_orphans(theirs)
    ours_left, theirs_left = files(golden.path), files(theirs)
    assert before.keys() - ours_left.keys() == {info.key for info in plan.files}
    assert ours_left == theirs_left
    assert plan_orphans(timeline, timeline.latest_schema(), NOW_MS).files == ()
