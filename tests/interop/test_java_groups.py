"""Snapshots that carry several commits, read by Apache Paimon (Java 1.4.2) and followed by its own commits (G8)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from interop.agreement import assert_agreed
from interop.grouped import COLUMNS, grouped_table
from values import assert_same_rows, encode_rows

import lakelatch as ll

pytestmark = pytest.mark.java

INTENT = "lakelatch/intents/intent-9-left.json"


def test_java_reads_groups_at_every_snapshot_and_commits_in_between(tmp_path: Path, paimon_java: Any) -> None:
    """The whole state, and the rows that came between two snapshots, as a stream reads them. Its cleaner leaves intents alone."""
    path = tmp_path / "t"
    fields = ll.Schema(COLUMNS).fields

    def append(batch: pa.Table, number: int) -> None:
        paimon_java.commit_rows(path, encode_rows(batch, fields), identifier=number)

    made, expected = grouped_table(path, append)
    assert_agreed(paimon_java, path, expected)
    came = paimon_java.rows(path, options={"incremental-between": "2,3"})
    assert_same_rows(came, [row for row in expected[3] if row not in expected[2]])
    made.store.put(INTENT, b"{}")
    paimon_java.remove_orphans(path)
    assert made.store.get(INTENT) == b"{}"
    assert_agreed(paimon_java, path, expected)
