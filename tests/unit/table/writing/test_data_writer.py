"""Rows become files of about the size that is asked for, which are described exactly."""

from __future__ import annotations

import time
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakelatch.backends.local import LocalStore
from lakelatch.backends.memory import MemoryStore
from lakelatch.core.errors import InvalidArgument
from lakelatch.core.metadata.data_file import SOURCE_APPEND, DataFile
from lakelatch.core.metadata.schema import TableSchema, new_schema
from lakelatch.core.rows.arrow import from_arrow_schema
from lakelatch.table.formats.parquet.writer import ParquetOutput
from lakelatch.table.writing.files import data_writer, sink
from lakelatch.table.writing.files.data_writer import DataFileWriter, FileSettings

_names = count()
COLUMNS = pa.schema([("a", pa.int64()), ("t", pa.string())])


def schema_of(columns: pa.Schema = COLUMNS, **options: str) -> TableSchema:
    texts = {name.replace("__", ".").replace("_", "-"): text for name, text in options.items()}
    return new_schema(from_arrow_schema(columns), options=texts)


def writer_of(schema: TableSchema, travelling: bool = True, columns: Any = None) -> DataFileWriter:
    store = MemoryStore(f"memory://data-writer/{next(_names)}")
    return DataFileWriter(store, FileSettings.of(schema, columns), "p=1/bucket-0/", "data-x", travelling)


def batch(first: int, rows: int) -> pa.RecordBatch:
    values = range(first, first + rows)
    return pa.record_batch({"a": values, "t": [sha256(str(n).encode()).hexdigest() for n in values]}, COLUMNS)


def stored(writer: DataFileWriter) -> dict[str, bytes]:
    """What is in the store, and what goes there with the commit."""
    found = {info.key: writer._store.get(info.key) for info in writer._store.list("")}
    return found | {upload.key: upload.data for upload in writer.uploads}


@pytest.mark.parametrize("travelling", [True, False])
@pytest.mark.parametrize("batches", [1, 4, 50])
def test_files_are_closed_when_they_are_large_enough(batches: int, travelling: bool) -> None:
    """However the rows come. Each file says what is in it, and they are named one after the other."""
    writer = writer_of(schema_of(target_file_size="32 kb"), travelling)
    rows, most = 20_000 // batches, batch(0, 1000).nbytes
    for number in range(batches):
        writer.write(batch(number * rows, rows))
        assert writer.held_bytes <= most, "a thousand rows, which are more than a file of this size"
    assert len(writer.files) > 3, "not only at the end"
    writer.finish()
    names = [file.file_name for file in writer.files]
    assert names == [f"data-x-{n}.parquet" for n in range(len(names))]
    files = stored(writer)
    assert {key.rpartition("/")[0] for key in files} == {"p=1/bucket-0"}
    assert sum(file.row_count for file in writer.files) == 20_000
    for file in writer.files:
        assert file.file_size == len(files[f"p=1/bucket-0/{file.file_name}"])
        assert (file.min_sequence_number, file.max_sequence_number) == (0, file.row_count - 1)
        assert (file.schema_id, file.file_source, file.write_cols, file.extra_files) == (0, SOURCE_APPEND, None, ())
    assert all(file.file_size >= 32 << 10 for file in writer.files[:-1])
    assert max(file.file_size for file in writer.files) < 96 << 10
    keys = [f"p=1/bucket-0/{name}" for name in names]
    assert ([u.key for u in writer.uploads], writer.written_keys) == ((keys, []) if travelling else ([], keys))
    writer.finish()
    assert [file.file_name for file in writer.files] == names, "to finish twice adds nothing"


def test_without_rows_there_is_no_file() -> None:
    writer = writer_of(schema_of())
    writer.flush()
    writer.finish()
    assert (writer.files, stored(writer), writer.held_bytes) == ([], {}, 0)


def test_no_more_than_a_row_group_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_writer, "ROW_GROUP_BYTES", 100_000)
    writer = writer_of(schema_of())
    one = batch(0, 1000)
    for number in range(10):
        writer.write(one)
        assert writer.held_bytes <= 100_000
        assert (number + 1) * one.nbytes <= 100_000 or writer.held_bytes < (number + 1) * one.nbytes
    writer.write(batch(0, 100_000))
    assert writer.held_bytes <= 100_000 + 2 * one.nbytes
    writer.finish()
    (file,) = writer.files
    assert (file.row_count, writer.held_bytes) == (110_000, 0)


@pytest.mark.parametrize(("rows", "parts"), [(6002, 3), (6001, 3), (6000, 3), (9003, 4), (8004, 4), (4001, 2)])
def test_a_large_batch_makes_as_few_row_groups_as_can_hold_it(
    rows: int, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And they are of about equal size, not several full ones and a rest."""
    most = -(-rows // parts)
    monkeypatch.setattr(data_writer, "ROW_GROUP_BYTES", most * 8)
    columns = pa.schema([("a", pa.int64())])
    writer = writer_of(schema_of(columns))
    writer.write(pa.record_batch({"a": range(rows)}, columns))
    writer.finish()
    ((data,),) = [[*stored(writer).values()]]
    footer = pq.read_metadata(pa.BufferReader(data))
    groups = [footer.row_group(i).num_rows for i in range(footer.num_row_groups)]
    assert len(groups) == parts and max(groups) == most and min(groups) > most - parts
    assert pq.read_table(pa.BufferReader(data))["a"].to_pylist() == [*range(rows)]


def test_a_file_that_has_grown_to_just_the_target_size_is_closed() -> None:
    one = batch(0, 1000)

    def first_files(**options: str) -> tuple[list[DataFile], int]:
        """The files that are closed when rows that are one row group were written, and the size of all."""
        writer = writer_of(schema_of(file__format="csv", file__compression="none", **options))  # which has no footer
        writer.write(one)
        writer.flush()
        closed = [*writer.files]
        writer.finish()
        (file,) = writer.files
        return closed, file.file_size

    _, size = first_files()
    for target, is_closed in ((size - 1, True), (size, True), (size + 1, False)):
        closed, written = first_files(target_file_size=f"{target} b")
        assert written == size and len(closed) == is_closed, target


def test_a_file_that_holds_some_columns_names_them() -> None:
    schema = schema_of()
    writer = writer_of(schema, columns=schema.fields[1:])
    writer.write(batch(0, 3).select(["t"]))
    writer.finish()
    assert writer.files[0].write_cols == ("t",)
    whole = writer_of(schema, columns=schema.fields)
    whole.write(batch(0, 3))
    whole.finish()
    assert whole.files[0].write_cols is None


def test_a_file_that_holds_some_columns_has_the_indexes_and_the_bounds_of_these() -> None:
    options = {"file_index__bloom_filter__columns": "a,t", "metadata__stats_keep_first_n_columns": "1"}
    options["file_index__in_manifest_threshold"] = "10 mb"
    schema = schema_of(**options)
    assert [spec.column for spec in FileSettings.of(schema).indexes] == ["a", "t"]
    modes = FileSettings.of(schema).modes
    assert [modes[name].kind for name in ("a", "t")] == ["truncate", "none"], "the first column of the file"
    some = FileSettings.of(schema, schema.fields[1:])
    assert [spec.column for spec in some.indexes] == ["t"] and some.modes["t"].kind == "truncate"
    writer = writer_of(schema, columns=schema.fields[1:])
    writer.write(batch(0, 3).select(["t"]))
    writer.finish()
    assert writer.files[0].embedded_file_index is not None and writer.files[0].row_count == 3


def indexed(threshold: str, rows: int = 500) -> tuple[DataFile, DataFileWriter]:
    options = {"file_index__bloom_filter__columns": "t", "file_index__in_manifest_threshold": threshold}
    writer = writer_of(schema_of(**options))
    writer.write(batch(0, rows))
    writer.finish()
    (file,) = writer.files
    return file, writer


def test_a_large_index_lies_beside_its_file_and_a_small_one_in_the_manifest() -> None:
    file, writer = indexed("10 mb")
    assert file.embedded_file_index is not None and file.extra_files == () and len(writer.uploads) == 1
    size = len(file.embedded_file_index)
    assert indexed(f"{size} b")[0].embedded_file_index == file.embedded_file_index, "as large as it may be"
    beside, writer = indexed(f"{size - 1} b")
    assert beside.embedded_file_index is None and beside.extra_files == (f"{beside.file_name}.index",)
    assert stored(writer)[f"p=1/bucket-0/{beside.file_name}.index"] == file.embedded_file_index
    assert len(writer.uploads) == 2


def test_a_file_says_when_it_was_made_by_the_clock_on_the_wall() -> None:
    def wall_ms() -> int:
        now = time.time()
        return int((now + time.localtime(now).tm_gmtoff) * 1000)

    before = wall_ms()
    writer = writer_of(schema_of())
    writer.write(batch(0, 1))
    writer.finish()
    assert before <= (writer.files[0].creation_time or 0) <= wall_ms()


@pytest.mark.parametrize("rows", [10, 50_000])
def test_a_file_that_is_given_up_is_not_stored(rows: int) -> None:
    writer = writer_of(schema_of(target_file_size="1 gb"))
    writer.write(batch(0, rows))
    writer.flush()
    writer.abort()
    assert stored(writer) == {} and writer.files == []


@pytest.mark.parametrize("file_format", ["parquet", "csv"])
def test_a_file_that_is_given_up_leaves_nothing_in_its_folder(
    file_format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if a part of it was written there already. Files that were complete before stay."""
    monkeypatch.setattr(sink, "SPILL_BYTES", 1000)
    options = {"file__format": file_format, "file__compression": "none", "target_file_size": "20 kb"}
    settings = FileSettings.of(schema_of(**options))
    writer = DataFileWriter(LocalStore(tmp_path.as_uri()), settings, "bucket-0/", "data-x", travelling=False)
    while not writer.files:
        writer.write(batch(0, 100))
    whole = [file.file_name for file in writer.files]
    writer.write(batch(0, 100))
    writer.flush()
    on_disk = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert on_disk > {*whole}, "a part of the next file"
    writer.abort()
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == {*whole}
    assert [file.file_name for file in writer.files] == whole


@pytest.mark.parametrize(("key", "size"), [(None, 256 << 20), (["a"], 128 << 20)])
def test_how_large_files_are_where_no_option_says_so(key: list[str] | None, size: int) -> None:
    columns = pa.schema([pa.field("a", pa.int64(), nullable=False), ("t", pa.string())])
    schema = new_schema(from_arrow_schema(columns), primary_keys=key or [], options={"bucket": "1"} if key else {})
    assert FileSettings.of(schema).target_bytes == size
    assert FileSettings.of(schema_of(target_file_size="5 mb")).target_bytes == 5 << 20


def test_what_a_file_cannot_hold_is_an_error_of_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some values only the file format refuses."""

    def refusing(*_: Any) -> None:
        raise pa.ArrowInvalid("value too large")

    monkeypatch.setattr(ParquetOutput, "write", refusing)
    writer = writer_of(schema_of())
    writer.write(batch(0, 3))
    with pytest.raises(InvalidArgument) as caught:
        writer.finish()
    assert caught.value.message == "rows cannot be written: value too large"
