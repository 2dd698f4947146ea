"""BLOB columns, written by either side in files of their own, and read by both (G8)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from interop.agreement import our_rows
from values import Row, assert_same_rows

import lakelatch as ll
from lakelatch.core.errors import InvalidArgument, Unsupported

pytestmark = pytest.mark.java

OPTIONS = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "bucket": "-1"}
COLUMNS = [("id", "INT"), ("pic", "BLOB"), ("p", "STRING"), ("thumb", "BLOB")]
VALUES = [None, b"", b"\x00", b"\xff" * 300, bytes(range(256)) * 40, b"text"]


def rows_from(first: int, count: int) -> list[list[Any]]:
    ids = range(first, first + count)
    return [[i, VALUES[i % 6], "ab"[i % 2], VALUES[(5 * i + 1) % 6]] for i in ids]


def encoded(rows: list[list[Any]]) -> list[Row]:
    return [[f"0x{v.hex()}" if isinstance(v, bytes) else v for v in row] for row in rows]


def given(rows: list[list[Any]]) -> pa.Table:
    schema = pa.schema([("id", pa.int32()), ("pic", pa.binary()), ("p", pa.string()), ("thumb", pa.large_binary())])
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)


@pytest.mark.parametrize(
    ("options", "creator", "count"),
    [
        ({"file.format": "parquet"}, "ours", 30),
        ({"file.format": "orc", "blob.target-file-size": "1 b"}, "java", 15),
        (
            {"file.format": "avro", "blob.target-file-size": "500 b", "metadata.stats-dense-store": "false"},
            "ours",
            30,
        ),
        ({"target-file-size": "1 kb", "data-file.external-paths.strategy": "round-robin"}, "java", 2200),
    ],
    ids=["parquet", "orc", "avro", "many files"],
)
def test_both_sides_write_blobs(
    tmp_path: Path, paimon_java: Any, options: dict[str, str], creator: str, count: int
) -> None:
    """G8: null, empty and large values, two columns, many files of a column, rows of several batches, then an overwrite."""
    path = tmp_path / "t"
    options = OPTIONS | options
    if "data-file.external-paths.strategy" in options:
        options["data-file.external-paths"] = f"file:{tmp_path}/outside"
        ll.allow(path, tmp_path / "outside")
    if creator == "ours":
        ll.create_table(str(path), ll.Schema(COLUMNS), partition_by="p", options=options)
    else:
        paimon_java.create_table(path, COLUMNS, partition_keys=["p"], options=options)
    table, rows = ll.open_table(str(path)), list[list[Any]]()
    for turn in range(2):
        new = rows_from(len(rows), 13)
        paimon_java.commit_rows(path, encoded(new), identifier=turn + 1)
        rows += new
        new = rows_from(len(rows), count if turn else 11)
        table.append(given(new))
        rows += new
    assert_same_rows(paimon_java.rows(path), encoded(rows))
    assert_same_rows(our_rows(ll.open_table(str(path))), encoded(rows))
    some = table.to_arrow(columns=["id", "thumb"], where="id < 20 AND p = 'a'").sort_by("id").to_pylist()
    assert some == [{"id": row[0], "thumb": row[3]} for row in rows if row[0] < 20 and row[2] == "a"]
    found = table.to_arrow(columns=["id", "_ROW_ID"])
    assert sorted(found["_ROW_ID"].to_pylist()) == list(range(len(rows)))
    table.overwrite(given([[7, b"new", "a", None]]), partition={"p": "a"})
    wanted = encoded([*(row for row in rows if row[2] == "b"), [7, b"new", "a", None]])
    assert_same_rows(paimon_java.rows(path), wanted)
    assert_same_rows(our_rows(table), wanted)


def test_manifests_describe_blobs_as_java_s_do(tmp_path: Path, paimon_java: Any) -> None:
    """What a manifest says of the files of one append, but for names, sizes and times."""
    said = []
    for writer in ("ours", "java"):
        path = tmp_path / writer
        paimon_java.create_table(path, COLUMNS, options=OPTIONS)
        table, rows = ll.open_table(str(path)), rows_from(0, 8)
        if writer == "ours":
            table.append(given(rows))
        else:
            paimon_java.commit_rows(path, encoded(rows))
        said.append([e.file._replace(file_name="", file_size=0, creation_time=0) for e in table.entries()])
        snapshot = table.snapshot()
        assert snapshot is not None
        assert (snapshot.next_row_id, snapshot.total_record_count) == (8, 24)
    assert said[0] == said[1]


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        (COLUMNS, {}, "'pic' is a BLOB, which needs data evolution"),
        ([("pic", "BLOB")], OPTIONS, "another column than BLOBs"),
        (COLUMNS, OPTIONS | {"deletion-vectors.enabled": "true"}, "cannot both be true"),
        (COLUMNS, {"data-evolution.enabled": "true"}, r"needs option 'row-tracking\.enabled'"),
        (COLUMNS, OPTIONS | {"bucket": "2", "bucket-key": "id"}, "'bucket' = -1"),
    ],
)
def test_tables_that_java_would_not_open_are_refused(
    tmp_path: Path, columns: list[tuple[str, str]], options: dict[str, str], said: str
) -> None:
    with pytest.raises(InvalidArgument, match=said):
        ll.create_table(str(tmp_path / "t"), ll.Schema(columns), options=options)


def test_columns_that_are_stored_in_another_way_are_refused_by_option(tmp_path: Path) -> None:
    options = OPTIONS | {"blob-descriptor-field": "pic"}
    table = ll.create_table(str(tmp_path / "t"), ll.Schema(COLUMNS), options=options)
    with pytest.raises(Unsupported, match="blob-descriptor-field"):
        table.append(given(rows_from(0, 1)))
    table = ll.create_table(str(tmp_path / "u"), ll.Schema(COLUMNS), options=OPTIONS)
    with pytest.raises(Unsupported, match=r"data-evolution\.enabled"):
        table.compact()
