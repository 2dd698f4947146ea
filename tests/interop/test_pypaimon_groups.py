"""Snapshots that carry several commits, read by pypaimon 2.1 and followed by its own commits (G8)."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from interop import pypaimon_env
from interop.agreement import our_rows
from interop.grouped import ride
from interop.pypaimon_env import Read
from values import Row, assert_same_rows, encode_rows

import lakelatch as ll
from lakelatch.coordinator.intents.carried import riders_of

COLUMNS = [("id", "INT"), ("p", "STRING")]


def rows(first: int, count: int) -> pa.Table:
    return pa.table({"id": pa.array(range(first, first + count), pa.int32()), "p": ["ab"[i % 2] for i in range(count)]})


def test_pypaimon_reads_groups_at_every_snapshot_and_commits_in_between(tmp_path: Path) -> None:
    """The whole state at each snapshot; lakelatch carries riders on pypaimon's snapshots, and pypaimon commits on such ones."""
    path = tmp_path / "t"
    made = ll.create_table(str(path), ll.Schema(COLUMNS), partition_by="p", options={"commit.group": "auto"})
    expected: dict[int, list[Row]] = {}
    known: list[Row] = []

    def landed(*added: pa.Table) -> None:
        known.extend(row for one in added for row in encode_rows(one, made.schema.fields))
        expected[len(expected) + 1] = list(known)

    for turn in range(2):
        batch = [rows(100 * turn + 10 * n, n + 2) for n in range(4)]
        pypaimon_env.append(path, batch[0])
        landed(batch[0])
        receipt = ride(made, batch[1], batch[2], batch[3], turn)
        landed(batch[1])
        landed(batch[2], batch[3])
        assert receipt.snapshot_id == len(expected)
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
