"""Rows whose columns lie in several files: runs, alignment, row ids, BLOBs, and the errors for damage."""

from __future__ import annotations

import io
import itertools
import random
import zlib
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakelatch.backends.memory import MemoryStore
from lakelatch.core.blob_file import decode_lengths
from lakelatch.core.errors import TableCorrupt, Unsupported
from lakelatch.core.metadata.data_file import DataFile
from lakelatch.core.metadata.schema import ROW_ID, ROW_SEQUENCE, TableSchema, new_schema
from lakelatch.core.options import TableOptions
from lakelatch.core.rows.types import AtomicType, Field, string
from lakelatch.table.formats import blob_reader
from lakelatch.table.reading.run_reader import RunReader
from lakelatch.table.scan.refusals import check_schema_readable
from lakelatch.table.scan.row_runs import givers, row_count, row_runs

COUNTER = itertools.count()
FIELDS = (Field(0, "id", AtomicType("INT")), Field(1, "a", string()), Field(2, "pic", AtomicType("BLOB")))
SCHEMA = TableSchema(0, FIELDS, 2)


class Run:
    """Files of one run in memory."""

    def __init__(self) -> None:
        self.store = MemoryStore(f"memory://runs-{next(COUNTER)}")
        self.files: list[DataFile] = []

    def add(
        self, name: str, data: bytes, rows: int, columns: Sequence[str], *, first: int = 0, sequence: int = 1
    ) -> None:
        self.store.put(name, data)
        file = DataFile(
            name, len(data), rows, max_sequence_number=sequence, first_row_id=first, write_cols=tuple(columns)
        )
        self.files.append(file)

    def parquet(self, name: str, columns: dict[str, Any], *, sequence: int = 1, group: int = 1 << 20) -> None:
        sink = io.BytesIO()
        table = pa.table(columns)
        pq.write_table(table, sink, row_group_size=group)
        self.add(name, sink.getvalue(), table.num_rows, list(columns), sequence=sequence)

    def blob(self, name: str, values: Sequence[Any], *, first: int = 0, sequence: int = 1) -> None:
        self.add(name, blob_bytes(values), len(values), ["pic"], first=first, sequence=sequence)

    def read(self, *fields: Field) -> dict[str, list[Any]]:
        (run,) = row_runs(self.files)
        reader = RunReader(fields, {0: SCHEMA}, TableOptions({}))
        reader.check(run)
        out: dict[str, list[Any]] = {field.name: [] for field in fields}
        seen = 0
        for position, rows in reader.rows({f: (self.store, f.file_name) for f in run}, None, True):
            assert position == seen
            seen += len(rows)
            for field in fields:
                out[field.name] += rows.column(field.name).to_pylist()
        assert seen == row_count(run)
        return out


def zigzag(number: int) -> bytes:
    number, out = (number << 1) ^ (number >> 63), bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes((*out, number))


PLACEHOLDER = object()


def blob_bytes(values: Sequence[Any]) -> bytes:
    """A file of BLOBs, as Apache Paimon writes it (the golden table append_blob has one)."""
    data, lengths = b"", []
    for value in values:
        if value is None or value is PLACEHOLDER:
            lengths.append(-1 if value is None else -2)
            continue
        frame = bytes.fromhex("cf114e58") + value
        frame += (len(frame) + 12).to_bytes(8, "little")
        frame += zlib.crc32(frame).to_bytes(4, "little")
        lengths.append(len(frame))
        data += frame
    index = b"".join(zigzag(b - a) for a, b in itertools.pairwise([0, *lengths]))
    return data + index + len(index).to_bytes(4, "little") + b"\x01"


ID, A, PIC = FIELDS


def test_the_newest_file_gives_a_column_whatever_its_row_groups() -> None:
    """G8: rows of files with other row groups and batches are put side by side."""
    run = Run()
    count = 200_000
    run.parquet("old.parquet", {"id": pa.array(range(count), pa.int32()), "a": ["old"] * count}, group=70_000)
    run.parquet("new.parquet", {"a": [f"new {i}" for i in range(count)]}, sequence=2, group=33_333)
    found = run.read(ID, A)
    assert found["id"] == list(range(count))
    assert found["a"] == [f"new {i}" for i in range(count)]
    assert run.read(A)["a"][-1] == f"new {count - 1}"


def test_files_without_wanted_columns_are_not_opened() -> None:
    """The number of rows is known without opening them."""
    run = Run()
    run.parquet("old.parquet", {"id": pa.array([1, 2], pa.int32())})
    run.parquet("new.parquet", {"a": ["x", "y"]}, sequence=2)
    run.store.delete_many(["new.parquet"])
    assert run.read(ID) == {"id": [1, 2]}
    run.store.delete_many(["old.parquet"])
    assert run.read() == {}


def test_row_ids_are_counted_or_stored() -> None:
    """G8: what a rewritten file holds comes first, and of a run the newest file's sequence number (format/data-files §7)."""
    run = Run()
    run.parquet("old.parquet", {"id": pa.array([1, 2, 3], pa.int32())}, sequence=4)
    assert run.read(ROW_ID, ROW_SEQUENCE) == {"_ROW_ID": [0, 1, 2], "_SEQUENCE_NUMBER": [4, 4, 4]}
    run.parquet("new.parquet", {"a": ["x", "y", "z"]}, sequence=7)
    assert run.read(ID, ROW_SEQUENCE) == {"id": [1, 2, 3], "_SEQUENCE_NUMBER": [7, 7, 7]}
    stored = Run()
    stored.parquet(
        "c.parquet",
        {"id": pa.array([1, 2], pa.int32()), "_ROW_ID": [9, None], "_SEQUENCE_NUMBER": [None, 2]},
        sequence=5,
    )
    assert stored.read(ROW_ID, ROW_SEQUENCE) == {"_ROW_ID": [9, 1], "_SEQUENCE_NUMBER": [5, 2]}


def test_runs_that_overlap_in_part_are_damage() -> None:
    """G6: rows that have two ids, or none, are never shown."""
    files = [DataFile("a", 1, 5, first_row_id=0), DataFile("b", 1, 5, first_row_id=3)]
    with pytest.raises(TableCorrupt, match="a, b"):
        row_runs(files)
    assert [len(run) for run in row_runs([DataFile("a", 1, 5), DataFile("b", 1, 5)])] == [1, 1]
    run = Run()
    run.parquet("a.parquet", {"id": pa.array([1], pa.int32())})
    run.parquet("b.parquet", {"a": ["x"]}, sequence=2)
    given = givers(row_runs(run.files)[0], FIELDS, lambda _: SCHEMA)
    assert {file.file_name: [f.name for f in fields] for file, fields in given.items()} == {
        "b.parquet": ["a", "pic"],
        "a.parquet": ["id"],
    }


# -------------------------------------------------------------------------------------------------------------- BLOBs


def test_blobs_of_several_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """G8: files of some rows each; newer values hide older ones, but for placeholders; nulls are values."""
    monkeypatch.setattr(blob_reader, "_BATCH_BYTES", 40)
    run = Run()
    run.parquet("d.parquet", {"id": pa.array(range(6), pa.int32())})
    run.blob("b0.blob", [b"zero", b"", None], sequence=1)
    run.blob("b1.blob", [b"three", b"four" * 20, b"five"], first=3, sequence=1)
    run.blob("b2.blob", [b"new", PLACEHOLDER, None], first=2, sequence=2)
    assert run.read(PIC, ID) == {"pic": [b"zero", b"", b"new", b"three", None, b"five"], "id": list(range(6))}


def test_damaged_blobs_name_their_file() -> None:
    """H11: lengths that do not add up, checksums, and rows that no file has."""
    good = blob_bytes([b"abc", b"de"])
    rng = random.Random(3)
    told = 0
    for _ in range(200):
        data = bytearray(good)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        run = Run()
        run.parquet("d.parquet", {"id": pa.array([1, 2], pa.int32())})
        run.add("b.blob", bytes(data), 2, ["pic"])
        try:
            run.read(PIC)
        except TableCorrupt as error:
            told += 1
            assert "b.blob" in str(error)
    assert told > 190
    run = Run()
    run.parquet("d.parquet", {"id": pa.array([1, 2], pa.int32())})
    run.blob("b.blob", [b"x", PLACEHOLDER])
    with pytest.raises(TableCorrupt, match=r"row 1; the newest is data file b\.blob"):
        run.read(PIC)
    with pytest.raises(ValueError, match="cut off"):
        decode_lengths(b"\x80", 0)


def test_references_to_blobs_elsewhere_are_refused() -> None:
    schema = new_schema(
        FIELDS,
        options={"row-tracking.enabled": "true", "data-evolution.enabled": "true", "blob-descriptor-field": "pic"},
    )
    with pytest.raises(Unsupported, match=r"'pic'.*blob-descriptor-field"):
        check_schema_readable(schema)
