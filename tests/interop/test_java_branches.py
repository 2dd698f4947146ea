"""Branches beside Apache Paimon (Java 1.4.2): each reads, writes and takes over what the other made (G8); so after a repair."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from interop.test_java_commits_on_top import new_table, row
from interop.test_java_maintenance import expire
from values import assert_same_rows

import lakelatch as ll
from lakelatch.core.errors import CommitConflict

pytestmark = pytest.mark.java


def ours(path: Path, branch: str = "main", **at: Any) -> list[Any]:
    table = ll.open_table(str(path), branch=branch)
    return sorted((table.at(**at) if at else table).to_arrow().column("id").to_pylist())


def theirs(java: Any, path: Path, **of: Any) -> list[Any]:
    return sorted(found[0] for found in java.rows(path, **of))


def java_branches(java: Any, path: Path) -> list[str]:
    return sorted(str(name) for name in java.open(path).branchManager().branches())


def test_java_goes_on_with_our_branches(tmp_path: Path, paimon_java: Any) -> None:
    """Java lists and reads them, commits on one, expires on both sides, and takes over our branch; we read all of it."""
    path = tmp_path / "t"
    table = new_table(path)
    for i in (1, 2):
        paimon_java.commit_rows(path, [row(i)], identifier=i)
    paimon_java.create_tag(path, "eod", 1)
    table.create_branch("ours", snapshot=2)
    table.create_branch("tagged", tag="eod")
    table.create_branch("empty")
    assert java_branches(paimon_java, path) == ["empty", "ours", "tagged"]
    assert [theirs(paimon_java, path, branch=b) for b in ("ours", "tagged", "empty")] == [[1, 2], [1], []]
    paimon_java.commit_rows(path, [row(3)], branch="ours", identifier=3)
    branch = table.branch("ours")
    branch.append(branch.to_arrow(where="id = 3"))
    paimon_java.commit_rows(path, [row(5)], branch="ours", identifier=5)
    paimon_java.commit_rows(path, [row(9)], branch="empty", identifier=1)
    assert theirs(paimon_java, path, branch="ours") == ours(path, "ours") == [1, 2, 3, 3, 5]
    assert ours(path, "empty") == [9]
    assert table.fast_forward("ours").snapshot_ids == (3, 4, 5)
    assert theirs(paimon_java, path) == ours(path) == [1, 2, 3, 3, 5]
    for snapshot in range(1, 6):
        assert theirs(paimon_java, path, snapshot=snapshot) == ours(path, snapshot=snapshot)
    paimon_java.commit_rows(path, [row(6)], identifier=6)
    table.branch("tagged").truncate()
    with pytest.raises(CommitConflict, match=r"snapshot 2 \(APPEND by 'java'\), 3 "):
        table.fast_forward("tagged")
    table.rename_branch("ours", "renamed")
    table.delete_branch("empty")
    assert java_branches(paimon_java, path) == ["renamed", "tagged"]
    assert theirs(paimon_java, path, branch="renamed") == [1, 2, 3, 3, 5]
    expire(path, 1)  # Java's own would take away what the branch needs
    assert theirs(paimon_java, path, branch="renamed") == ours(path, "renamed") == [1, 2, 3, 3, 5]
    assert paimon_java.remove_orphans(path) == 4, (
        "the commit to the deleted branch; an empty folder of it would stop this"
    )
    assert theirs(paimon_java, path) == ours(path) == [1, 2, 3, 3, 5, 6]
    assert ours(path, "renamed") == [1, 2, 3, 3, 5]


def test_we_go_on_with_branches_of_java(tmp_path: Path, paimon_java: Any) -> None:
    """A branch that Java made is written to, taken over and deleted; Java's own fast-forward takes ours over."""
    path = tmp_path / "t"
    table = new_table(path)
    for i in (1, 2):
        table.append(pa.table({"id": pa.array([i], pa.int32()), "p": ["a"]}))
    table.committer.settle()
    paimon_java.create_tag(path, "eod", 2)
    paimon_java.open(path).createBranch("java", "eod")
    paimon_java.open(path).createBranch("none")
    assert {name: b.snapshot_id for name, b in table.branches().items()} == {"java": 2, "none": None}
    paimon_java.commit_rows(path, [row(3)], branch="java")
    table.branch("java").append(pa.table({"id": pa.array([4], pa.int32()), "p": ["b"]}))
    plan = table.fast_forward("java")
    assert (plan.snapshot_ids, plan.tags) == ((3, 4), ())
    assert theirs(paimon_java, path) == ours(path) == [1, 2, 3, 4]
    assert table.verify(snapshots="all") == []
    table.create_branch("ahead", snapshot=4)
    ahead = table.branch("ahead")
    ahead.alter(ll.add_column("x", "INT"))
    ahead.append(pa.table({"id": pa.array([5], pa.int32()), "p": ["b"], "x": pa.array([1], pa.int32())}))
    ahead.committer.settle()
    paimon_java.open(path).fastForward("ahead")
    table.refresh()
    assert theirs(paimon_java, path) == ours(path) == [1, 2, 3, 4, 5]
    assert table.schema.id == 1
    table.append(pa.table({"id": pa.array([6], pa.int32()), "p": ["b"], "x": pa.array([1], pa.int32())}))
    for name in ("java", "none", "ahead"):
        table.delete_branch(name)
    assert java_branches(paimon_java, path) == []
    assert os.listdir(path / "branch") == []
    assert theirs(paimon_java, path) == ours(path) == [1, 2, 3, 4, 5, 6]


def test_java_reads_what_a_repair_leaves(tmp_path: Path, paimon_java: Any) -> None:
    """A file of each side is gone: what is left is the same for both, and both commit on top."""
    path = tmp_path / "t"
    table = new_table(path)
    for i in (1, 2, 3):
        paimon_java.commit_rows(path, [row(2 * i, "a")], identifier=i)
        table.append(pa.table({"id": pa.array([2 * i + 1], pa.int32()), "p": ["b"]}))
    table.committer.settle()
    files = table.files().to_pylist()
    for part in ("p=a", "p=b"):
        (path / next(f["file_path"] for f in files if f["file_path"].startswith(part))).unlink()
    plan = table.repair(dry_run=False, accept_loss=True)
    assert [(p.partition, p.rows) for p in plan.steps[0].lost] == [("p=a", 1), ("p=b", 1)]
    left = ours(path)
    assert len(left) == 4
    assert theirs(paimon_java, path) == left
    paimon_java.commit_rows(path, [row(50)], identifier=50)
    assert_same_rows([[i] for i in ours(path)], [[i] for i in sorted([*left, 50])])
    assert theirs(paimon_java, path) == ours(path)
