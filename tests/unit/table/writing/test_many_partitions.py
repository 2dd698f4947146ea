"""Rows of many partitions in one write: each goes to its own, in its order, whether files are written one by one or at once."""

from __future__ import annotations

import random
import uuid
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.backends.local import LocalStore
from lakelatch.core.errors import InvalidArgument, StoreUnavailable
from lakelatch.table.writing import writer
from lakelatch.table.writing.buckets.placement import cut, partition_codes
from lakelatch.table.writing.files.data_writer import DataFileWriter, FileSettings

COUNT = 200_000


def rows(partitions: int) -> pa.Table:
    """Several megabytes; `v` ascends, so that it shows the order."""
    parts = np.random.default_rng(partitions).integers(0, partitions, COUNT)
    return pa.table({"p": parts.astype(np.int32), "v": np.arange(COUNT), "s": pa.array(["text of a row"] * COUNT)})


def by_partition(data: pa.Table) -> dict[int, list[int]]:
    """The values of each partition, in the order of the rows; partitions in the order of their first rows."""
    found = defaultdict[int, list[int]](list)
    for part, value in zip(data["p"].to_pylist(), data["v"].to_pylist(), strict=True):
        found[part].append(value)
    return dict(found)


@pytest.mark.parametrize("held", [writer.HELD_BYTES, 1 << 20], ids=["held to the end", "flushed early"])
def test_every_row_is_in_its_partition_in_its_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: int) -> None:
    monkeypatch.setattr(writer, "HELD_BYTES", held)
    data = rows(30)
    table = ll.create_table(str(tmp_path / "t"), data.schema, partition_by=["p"])
    table.append(data)
    assert by_partition(table.to_arrow()) == by_partition(data)


def test_rows_are_cut_by_more_places_than_sixteen_bits_can_number() -> None:
    (batch,) = rows(70_000).to_batches()
    codes, firsts = partition_codes([batch.column("p")])
    targets = [(b"", part) for part in batch.column("p").take(firsts).to_pylist()]
    found = {target[1]: part.column("v").to_pylist() for target, part in cut(batch, np.asarray(codes), targets)}
    assert len(found) > 1 << 16
    assert found == by_partition(pa.Table.from_batches([batch]))


def test_numbers_of_combinations_are_in_the_order_of_first_sight() -> None:
    """Also of columns with nulls, and of a batch without rows."""
    rng = random.Random(3)
    values = [(rng.choice(["a", "b", None]), rng.choice([1, 2, None]), rng.choice([True, None])) for _ in range(500)]
    for some in (values, values[:1], []):
        columns = [pa.array([v[i] for v in some], t) for i, t in enumerate((pa.string(), pa.int64(), pa.bool_()))]
        codes, firsts = partition_codes(columns)
        distinct = list(dict.fromkeys(some))
        assert codes.to_pylist() == [distinct.index(v) for v in some]
        assert firsts.to_pylist() == [some.index(v) for v in distinct]


def test_where_one_file_of_many_cannot_be_stored_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other files are being written at the same time."""
    data = rows(8)
    table = ll.create_table(str(tmp_path / "t"), data.schema, partition_by=["p"])
    monkeypatch.setattr("lakelatch.table.writing.files.sink.TRAVELLING_BYTES", 0)
    put = LocalStore.put

    def refused(self: LocalStore, key: str, content: bytes) -> None:
        if key.startswith("p=5/"):
            raise StoreUnavailable("the disk is full")
        put(self, key, content)

    monkeypatch.setattr(LocalStore, "put", refused)
    with pytest.raises(StoreUnavailable, match="the disk is full"):
        table.append(data)
    assert not list((tmp_path / "t").glob("p=*/*/*"))
    assert table.snapshots() == []


def test_what_an_overwrite_replaces_is_said_once() -> None:
    plain = ll.create_table("memory://overwrites/plain", pa.schema([("v", pa.int64())]))
    parted = ll.create_table(
        "memory://overwrites/parted", pa.schema([("p", pa.string()), ("v", pa.int64())]), partition_by=["p"]
    )
    row = pa.table({"p": ["a"], "v": [1]})
    with pytest.raises(InvalidArgument, match="dynamic=True needs a partitioned table"):
        plain.overwrite(row.select(["v"]), dynamic=True)
    with pytest.raises(InvalidArgument, match="not both"):
        parted.overwrite(row, partition={"p": "a"}, dynamic=True)
    with pytest.raises(InvalidArgument, match="needs a partition"):
        parted.overwrite(row)
    assert plain.snapshots() == parted.snapshots() == []


def test_where_memory_ends_the_largest_go_first_and_no_more_than_must(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "HELD_BYTES", 1 << 20)
    table = ll.create_table(
        f"memory://{uuid.uuid4().hex}/t", pa.schema([("p", pa.int32()), ("v", pa.int64())]), partition_by=["p"]
    )
    flushed: list[int] = []
    flush = DataFileWriter.flush

    def watched(self: DataFileWriter) -> None:
        flushed.append(self.held_bytes)
        flush(self)

    monkeypatch.setattr(DataFileWriter, "flush", watched)
    open_writer = writer.TableWriter(table.store, table.schema, "job")
    sizes = [1000 + 100 * part for part in range(60)]
    codes = np.repeat(np.arange(60, dtype=np.int32), sizes)
    np.random.default_rng(2).shuffle(codes)
    for batch in pa.table({"p": codes, "v": np.arange(len(codes))}).to_batches(max_chunksize=5_000):
        open_writer.write_batch(batch)
        held = [w.held_bytes for w in open_writer._writers.values()]
        assert sum(held) <= 1 << 20
        assert sum(held) + sum(flushed[-writer.WRITE_THREADS :]) > 1 << 20 or not flushed
        assert min(flushed[-writer.WRITE_THREADS :], default=0) >= max(held, default=0) or not flushed
    assert 0 < len(flushed) < 200


class Counted:
    """Stands for a batch, and counts how often its bytes are asked for."""

    def __init__(self, num_rows: int, asked: list[int]) -> None:
        self.num_rows, self._asked = num_rows, asked

    @property
    def nbytes(self) -> int:
        self._asked.append(self.num_rows)
        return 8 * self.num_rows

    def slice(self, start: int, rows: int) -> Counted:
        return Counted(min(rows, self.num_rows - start), self._asked)


def test_the_bytes_of_a_piece_are_found_once() -> None:
    """That takes longer than anything else that is done with a piece of a few rows."""
    table = ll.create_table(f"memory://{uuid.uuid4().hex}/t", pa.schema([("v", pa.int64())]))
    files = DataFileWriter(table.store, FileSettings.of(table.schema), "bucket-0/", "data-x", False)
    asked: list[int] = []
    for _ in range(5):
        files.write(Counted(100, asked))  # type: ignore[arg-type]
    assert asked == [100] * 5
    assert files.held_bytes == 4000
    files._group_bytes, asked[:] = 8000, []
    pieces = list(files._slices(Counted(2500, asked)))  # type: ignore[arg-type]
    assert [(part.num_rows, size) for part, size in pieces] == [(1000, 8000), (1000, 8000), (500, 4000)]
    assert asked == [2500, 1000, 1000, 500]
