"""A file that is read alone: its row groups are read at the same time, and their rows come in order."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakelatch as ll
from lakelatch.core.errors import TableCorrupt
from lakelatch.table.formats.data_source import BATCH_ROWS
from lakelatch.table.formats.parquet import reader as parquet_reader
from lakelatch.table.formats.parquet.reader import ParquetFile
from lakelatch.table.reading import run_reader
from lakelatch.table.writing.files import data_writer

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])
ROWS = 20_000


def rows_from(start: int, count: int) -> pa.Table:
    ids = range(start, start + count)
    return pa.table({"id": list(ids), "text": [f"row {i}" for i in ids]}, SCHEMA)


def groups_of(table: ll.Table) -> list[int]:
    """The rows of each row group of the table's only file."""
    (path,) = (Path(table.url.removeprefix("file://")) / "bucket-0").glob("*.parquet")
    found = pq.ParquetFile(path).metadata
    return [found.row_group(i).num_rows for i in range(found.num_row_groups)]


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ll.Table:
    """A table of one file with many row groups."""
    monkeypatch.setattr(data_writer, "ROW_GROUP_BYTES", 1 << 16)
    made = ll.create_table(str(tmp_path / "t"), SCHEMA, options={"deletion-vectors.enabled": "true"})
    made.append(rows_from(0, ROWS))
    assert len(groups_of(made)) > 4
    return made


def test_row_groups_are_read_at_the_same_time(table: ll.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    both, read = threading.Barrier(2), ParquetFile._group

    def meets(self: ParquetFile, group: int, *told: Any) -> Iterator[Any]:
        if group < 2:
            both.wait(timeout=60)
        return read(self, group, *told)

    monkeypatch.setattr(ParquetFile, "_group", meets)
    assert table.to_arrow()["id"].to_pylist() == list(range(ROWS))


@pytest.mark.parametrize("at_once", [1, 2, 3, 50])
@pytest.mark.parametrize("where", [None, "id < 10 OR id > 19900", "id >= 9000 AND id < 9010", "id > 50000"])
def test_rows_come_in_order_however_many_groups_are_read_at_once(
    table: ll.Table, at_once: int, where: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_reader, "PARTS_AT_ONCE", at_once)
    kept = {
        None: lambda i: True,
        "id < 10 OR id > 19900": lambda i: i < 10 or i > 19_900,
        "id > 50000": lambda i: False,
    }
    wanted = [i for i in range(ROWS) if kept.get(where, lambda i: 9000 <= i < 9010)(i)]
    found = table.to_arrow(where=where)
    assert found["id"].to_pylist() == wanted
    assert found["text"].to_pylist() == [f"row {i}" for i in wanted]


@pytest.mark.parametrize("text", ["", "twelve bytes" * 20], ids=["narrow", "wide"])
def test_batches_of_narrow_rows_are_longer_once_it_is_known_that_they_are_narrow(
    tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The texts are in a dictionary, so that the file does not tell how long they are."""
    monkeypatch.setattr(data_writer, "ROW_GROUP_BYTES", (len(text) + 20) * 3 * BATCH_ROWS)
    monkeypatch.setattr(run_reader, "PARTS_AT_ONCE", 1)
    made = ll.create_table(str(tmp_path / "t"), SCHEMA)
    ids = pa.array(range(12 * BATCH_ROWS))
    made.append(pa.table([ids, pa.array([text] * len(ids))], SCHEMA))
    assert len(groups_of(made)) > 2
    first, *others = [batch.num_rows for batch in made.to_batches()]
    assert first == BATCH_ROWS
    assert (max(others) > BATCH_ROWS) == (text == "")
    assert made.to_arrow()["id"].combine_chunks().equals(ids)


def test_deleted_rows_stay_deleted_at_their_positions(table: ll.Table) -> None:
    table.delete(where="id % 3 = 0")
    assert table.to_arrow()["id"].to_pylist() == [i for i in range(ROWS) if i % 3]


@pytest.mark.parametrize("limit", [1, 1000, ROWS - 1])
def test_a_reader_that_stops_early_ends_every_thread(table: ll.Table, limit: int) -> None:
    assert table.to_arrow(limit=limit)["id"].to_pylist() == list(range(limit))
    assert [t.name for t in threading.enumerate() if t.name.startswith("lakelatch-read")] == []


def test_a_damaged_row_group_is_an_error_that_names_the_file(table: ll.Table) -> None:
    (path,) = (Path(table.url.removeprefix("file://")) / "bucket-0").glob("*.parquet")
    described = pq.ParquetFile(path).metadata.row_group(2).column(0)
    damaged = bytearray(path.read_bytes())
    middle = described.data_page_offset + described.total_compressed_size // 2
    damaged[middle : middle + 20] = bytes(20)
    path.write_bytes(damaged)
    sound, read = sum(groups_of(table)[:2]), 0
    with pytest.raises(TableCorrupt, match=path.name):
        for batch in table.to_batches():
            read += batch.num_rows
    assert read <= sound


def test_large_row_groups_are_read_one_after_the_other(table: ll.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four of them could be more than the memory of a reader."""
    monkeypatch.setattr(parquet_reader, "_MOST_PART_BYTES", 1)
    monkeypatch.setattr(ParquetFile, "_apart", None)
    assert table.to_arrow()["id"].to_pylist() == list(range(ROWS))


@pytest.mark.parametrize("batches", [1, 3, 17])
def test_no_row_group_is_larger_than_its_limit(batches: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However large the batches are that come in, and nothing is left in groups of a few rows."""
    monkeypatch.setattr(data_writer, "ROW_GROUP_BYTES", 1 << 18)
    made = ll.create_table(str(tmp_path / "t"), SCHEMA)
    each = 30_000 // batches
    made.append(pa.concat_tables(rows_from(i * each, each) for i in range(batches)))
    groups = groups_of(made)
    row_bytes = rows_from(0, 30_000).nbytes / 30_000
    assert max(groups) * row_bytes <= 1.05 * (1 << 18)
    assert len(groups) <= 2 * -(-sum(groups) * row_bytes // (1 << 18)) + 1
