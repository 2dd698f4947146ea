"""A plan says which buckets are merged, of how many sorted runs, and what is read as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from sorted_files import add_files

import lakelatch as ll


def rows(first: int, last: int, number: int, kind: int = 0) -> list[dict[str, Any]]:
    return [{"id": i, "_SEQUENCE_NUMBER": number + i, "_VALUE_KIND": kind, "v": number} for i in range(first, last)]


def test_runs_and_bytes_by_bucket(tmp_path: Path) -> None:
    """Two files of one level beside each other are one run; a file that nothing overlaps is read as it is."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.int64())])
    table = ll.create_table(
        str(tmp_path / "t"), schema, primary_key=["id"], options={"bucket": "1", "write-only": "true"}
    )
    assert table.plan().to_dict()["merged_buckets"] == []
    base = (rows(0, 50, 0), rows(50, 100, 0), rows(200, 300, 0))
    add_files(table, *base, rows(25, 75, 1000), rows(70, 80, 2000), levels=[5, 5, 5, 0, 0])
    plan = table.plan()
    raw, merged = sorted(plan.splits, key=lambda split: len(split.sections))
    assert (raw.section_runs, merged.section_runs) == ((), (3,))
    (bucket,) = plan.to_dict()["merged_buckets"]
    assert bucket == {
        "partition": "",
        "bucket": 0,
        "runs": 3,
        "sections": 1,
        "merged_files": 4,
        "merged_bytes": merged.size,
        "raw_files": 1,
        "raw_bytes": raw.size,
    }
    line = (
        f"bucket-0: 3 runs, 4 files ({merged.size} bytes) are merged, 1 files ({raw.size} bytes) are read as they are"
    )
    assert line in str(plan)
    assert "bucket-0" not in str(table.plan(where="id = 250"))
