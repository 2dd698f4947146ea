"""Files of BLOBs: each as large as the option says, and all rows of a data file are in them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.core.errors import InvalidArgument
from lakelatch.core.rows.types import sql


@pytest.fixture
def table(tmp_path: Path) -> ll.Table:
    options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "blob-field": "pic"}
    columns = pa.schema([("id", pa.int64()), ("pic", pa.binary())])
    return ll.create_table(str(tmp_path / "t"), columns, options={**options, "blob.target-file-size": "1 kb"})


def test_blobs_go_into_files_of_the_size_that_the_option_says(table: ll.Table) -> None:
    pictures = [None if n % 3 == 1 else bytes([n]) * 300 for n in range(11)]
    table.append(pa.table({"id": range(11), "pic": pictures}))
    files = [entry.file for entry in table.entries()]
    blobs = [file for file in files if file.file_name.endswith(".blob")]
    assert sum(file.row_count for file in blobs) == 11 and len(blobs) > 1
    assert all(file.file_size < 1024 + 400 for file in blobs)
    assert table.to_arrow().sort_by("id").column("pic").to_pylist() == pictures
    assert table.verify("all", data=True) == []


def test_blobs_of_a_write_that_fails_are_not_left_behind(table: ll.Table) -> None:
    def batches() -> object:
        yield pa.record_batch({"id": [1, 2], "pic": [b"x" * 2000, b"y"]})
        raise RuntimeError("the source ends early")

    reader = pa.RecordBatchReader.from_batches(pa.schema([("id", pa.int64()), ("pic", pa.binary())]), batches())
    with pytest.raises(RuntimeError, match="ends early"):
        table.append(reader)
    assert [str(path) for path in Path(table.url).rglob("*.blob")] == []
    assert table.count() == 0


def test_the_option_makes_a_column_of_bytes_a_blob(table: ll.Table) -> None:
    assert str(sql(table.schema.by_name["pic"].type)) == "BLOB"
    options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "blob-field": "id"}
    with pytest.raises(InvalidArgument, match=r"'blob-field': column 'id' is BIGINT, and not BYTES"):
        ll.create_table("memory://blobs/t", table.arrow_schema, options=options)
    with pytest.raises(InvalidArgument, match="nobody"):
        ll.create_table("memory://blobs/t", table.arrow_schema, options={**options, "blob-field": "nobody"})
