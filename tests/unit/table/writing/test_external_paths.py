"""Files outside the table's folder: those of a commit that did not land are deleted there too."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.table.writing.files import data_writer
from lakelatch.table.writing.writer import TableWriter, keys_of


def test_files_of_other_processes_are_deleted_where_they_are(tmp_path: Path) -> None:
    """H5: a transaction that commits nothing deletes the files that it was given, and the indexes beside them."""
    outside = tmp_path / "out"
    options = {"data-file.external-paths": f"file://{outside}", "data-file.external-paths.strategy": "entropy-inject"}
    options |= {"file-index.bloom-filter.columns": "v", "file-index.in-manifest-threshold": "1 b"}
    table = ll.create_table(str(tmp_path / "t"), ll.Schema([("v", "INT")]), options=options)
    writer = TableWriter(table.store, table.schema, "job")
    writer.write(pa.table({"v": pa.array([1], pa.int32())}))
    messages = writer.finish()
    files = {str(file) for file in outside.rglob("*") if file.is_file()}
    assert len(files) == 2 and not list((tmp_path / "t").glob("bucket-*"))
    assert {key.removeprefix("file:") for key in keys_of(table.schema, messages)} == files
    with pytest.raises(ZeroDivisionError), table.transaction() as tx:
        tx.append_messages(messages)
        raise ZeroDivisionError
    assert not [file for file in outside.rglob("*") if file.is_file()]


def test_jobs_that_write_one_file_each_begin_at_different_locations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    roots = [tmp_path / "a", tmp_path / "b"]
    options = {
        "data-file.external-paths": ",".join(f"file://{root}" for root in roots),
        "data-file.external-paths.strategy": "round-robin",
    }
    table = ll.create_table(str(tmp_path / "t"), ll.Schema([("v", "INT")]), options=options)
    for drawn in (0.0, 0.999999):
        monkeypatch.setattr(data_writer, "random", lambda drawn=drawn: drawn)
        writer = TableWriter(table.store, table.schema, "job")
        writer.write(pa.table({"v": pa.array([1], pa.int32())}))
        writer.finish()
    assert [len([file for file in root.rglob("*") if file.is_file()]) for root in roots] == [1, 1]
