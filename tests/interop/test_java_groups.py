"""Snapshots that carry several commits, read by Apache Paimon (Java 1.4.2) and followed by its own commits (G8)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from interop.agreement import assert_agreed
from interop.grouped import ride
from values import Row, assert_same_rows, encode_rows

import lakelatch as ll

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
        receipt = ride(made, batch[1], batch[2], batch[3], turn)
        landed(batch[1])
        landed(batch[2], batch[3])
        assert receipt.snapshot_id == len(expected)
    assert_agreed(paimon_java, path, expected)
    came = paimon_java.rows(path, options={"incremental-between": "2,3"})
    assert_same_rows(came, [row for row in expected[3] if row not in expected[2]])
    made.store.put(INTENT, b"{}")
    paimon_java.remove_orphans(path)
    assert made.store.get(INTENT) == b"{}"
    assert_agreed(paimon_java, path, expected)
