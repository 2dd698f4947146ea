"""Snapshots that carry several commits, read by pypaimon 2.1 and followed by its own commits (G8)."""

from __future__ import annotations

from pathlib import Path

from interop import pypaimon_env
from interop.agreement import our_rows
from interop.grouped import grouped_table
from interop.pypaimon_env import Read
from values import assert_same_rows

from lakelatch.coordinator.intents.carried import riders_of


def test_pypaimon_reads_groups_at_every_snapshot_and_commits_in_between(tmp_path: Path) -> None:
    """The whole state at each snapshot; lakelatch carries riders on pypaimon's snapshots, and pypaimon commits on such ones."""
    path = tmp_path / "t"
    made, expected = grouped_table(path, lambda batch, number: pypaimon_env.append(path, batch))
    assert [len(riders_of(one)) for one in made.snapshots()] == [0, 0, 1, 0, 0, 1]
    reads = [Read(path), *(Read(path, snapshot=number) for number in expected)]
    for read, found in zip(reads, pypaimon_env.read_all(reads), strict=True):
        wanted = expected[read.snapshot or len(expected)]
        assert isinstance(found, list), found
        assert_same_rows(found, wanted, f"pypaimon at {read.snapshot}")
        assert_same_rows(
            our_rows(made.at(snapshot=read.snapshot) if read.snapshot else made),
            wanted,
            f"lakelatch at {read.snapshot}",
        )
    assert made.verify("all", data=True) == []
