"""Snapshots that carry several commits, read by Apache Paimon (Java 1.4.2) and followed by its own commits (G8)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from hooked_store import HookedStore
from interop.agreement import assert_agreed
from values import Row, assert_same_rows, encode_rows

import lakelatch as ll
from lakelatch.backends.store import Store
from lakelatch.coordinator.intents.carried import riders_of
from lakelatch.table.table import Table

pytestmark = pytest.mark.java

COLUMNS = [("id", "INT"), ("p", "STRING")]
INTENT = "lakelatch/intents/intent-9-left.json"


def rows(first: int, count: int) -> pa.Table:
    return pa.table({"id": pa.array(range(first, first + count), pa.int32()), "p": ["ab"[i % 2] for i in range(count)]})


def test_java_reads_groups_at_every_snapshot_and_commits_in_between(tmp_path: Path, paimon_java: Any) -> None:
    """The whole state, and the rows that came between two snapshots, as a stream reads them. Its cleaner leaves intents alone."""
    path = tmp_path / "t"
    made = ll.create_table(str(path), ll.Schema(COLUMNS), partition_by="p", options={"commit.group": "auto"})
    expected: dict[int, list[Row]] = {}
    known: list[Row] = []

    def landed(*added: pa.Table) -> None:
        known.extend(row for one in added for row in encode_rows(one, made.schema.fields))
        expected[len(expected) + 1] = list(known)

    for turn in range(2):
        batch = [rows(100 * turn + 10 * n, n + 2) for n in range(4)]
        paimon_java.commit_rows(path, encode_rows(batch[0], made.schema.fields), identifier=turn + 1)
        landed(batch[0])
        hooked = HookedStore(made.store)
        rider = Table(cast(Store, hooked), made.schema)
        winner, leader = (Table(made.store, made.schema) for _ in range(2))
        hooked.before["snapshot/snapshot-"] = lambda w=winner, b=batch: w.append(b[1])  # type: ignore[misc]
        leader.committer.meet(3, 0.001)
        hooked.after["lakelatch/intents/"] = lambda one=leader, b=batch: one.append(b[2])  # type: ignore[misc]
        receipt = rider.append(batch[3], commit_user="rider", identifier=turn)
        landed(batch[1])
        landed(batch[2], batch[3])
        for table in (rider, winner, leader):
            table.committer.settle()
        assert receipt.snapshot_id == len(expected)
        assert [str(one) for one in riders_of(made.timeline.snapshot(receipt.snapshot_id))] == [f"rider/{turn}"]
    assert_agreed(paimon_java, path, expected)
    came = paimon_java.rows(path, options={"incremental-between": "2,3"})
    assert_same_rows(came, [row for row in expected[3] if row not in expected[2]])
    made.store.put(INTENT, b"{}")
    paimon_java.remove_orphans(path)
    assert made.store.get(INTENT) == b"{}"
    assert_agreed(paimon_java, path, expected)
