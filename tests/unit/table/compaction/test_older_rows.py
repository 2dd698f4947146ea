"""Older rows of some keys are found in the files of higher levels, lowest level first."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakelatch.backends.memory import MemoryStore
from lakelatch.core.metadata.data_file import EMPTY_ROW, DataFile
from lakelatch.core.metadata.schema import TableSchema, new_schema
from lakelatch.core.metadata.schemas.merge_rules import merge_rules
from lakelatch.core.rows.types import AtomicType, Field, parse_type, string, timestamp
from lakelatch.table.compaction.older_rows import OlderRows
from lakelatch.table.merging.key_lookup import KeySet
from lakelatch.table.scan.split import Split
from lakelatch.table.writing.files import data_writer
from lakelatch.table.writing.files.key_files import KeyFileWriter, arrow_rows

FIELDS = (
    Field(0, "k", AtomicType("INT", nullable=False)),
    Field(1, "t", timestamp(6)),
    Field(2, "v", string()),
)
find_all = KeySet.find
Row = tuple[Any, int | None, str | None]


def schema_of(**options: str) -> TableSchema:
    texts = {name.replace("_", "-"): value for name, value in options.items()}
    return new_schema(FIELDS, primary_keys=["k", "t"], options={"bucket": "1"} | texts)


def written(store: MemoryStore, schema: TableSchema, level: int, rows: list[Row], name: str) -> DataFile:
    columns = [range(len(rows)), [0] * len(rows), *(list(c) for c in zip(*rows, strict=True))]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, arrow_rows(schema), strict=True)]
    writer = KeyFileWriter(store, schema, "bucket-0/", name, level=level)
    writer.write(pa.RecordBatch.from_arrays(arrays, schema=arrow_rows(schema)))
    writer.finish()
    return writer.files[0]


class Opened(MemoryStore):
    """Remembers which files are read."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.read: list[str] = []

    def get_range(self, key: str, *args: Any, **kwargs: Any) -> bytes:
        self.read.append(key)
        return super().get_range(key, *args, **kwargs)

    def get(self, key: str, *args: Any, **kwargs: Any) -> bytes:
        self.read.append(key)
        return super().get(key, *args, **kwargs)


def older(
    store: MemoryStore, schema: TableSchema, files: list[DataFile], above: int = 0, **deleted: list[int]
) -> OlderRows:
    rules = merge_rules(schema)
    assert rules is not None
    keys = tuple(f"bucket-0/{f.file_name}" for f in files)
    marked = {f.file_name: np.array(deleted[f.file_name[0]]) for f in files if f.file_name[0] in deleted}
    bucket = Split(EMPTY_ROW, "", 0, 1, tuple(files), keys)
    return OlderRows(store, schema, rules, {schema.id: schema}, bucket, above, marked.get)


def find(
    rows: OlderRows, keys: list[tuple[int, int | None]]
) -> dict[tuple[int, int | None], tuple[str, int, str | None]]:
    found = {}
    columns = [pa.array([k for k, _ in keys], pa.int32()), pa.array([t for _, t in keys], pa.timestamp("us"))]
    for part in rows.find(columns):
        count, values = rows.read(part)
        assert count == len(part.keys) == len(values["_SEQUENCE_NUMBER"])
        for key, position, value in zip(part.keys, part.positions, values["v"].to_pylist(), strict=True):
            found[keys[key]] = (part.file.file_name[0], int(position), value)
    return found


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_the_row_in_the_lowest_level_is_found(file_format: str) -> None:
    store, schema = MemoryStore(f"memory://older/{file_format}"), schema_of(file_format=file_format)
    files = [
        written(store, schema, 3, [(1, 5, "a1"), (3, 4, "a3"), (3, 6, "a36")], "a"),
        written(store, schema, 3, [(7, 0, "b7"), (9, 0, "b9")], "b"),
        written(store, schema, 4, [(1, 5, "c1"), (2, 5, "c2"), (7, 0, "c7")], "c"),
        written(store, schema, 1, [(2, 5, "d2")], "d"),
        written(store, schema, 0, [(1, 5, "e1")], "e"),
    ]
    keys: list[tuple[int, int | None]] = [(9, 0), (1, 5), (2, 5), (3, 4), (3, 5), (8, 0), (7, 0)]
    expected = {
        (9, 0): ("b", 1, "b9"),
        (1, 5): ("a", 0, "a1"),
        (2, 5): ("d", 0, "d2"),
        (3, 4): ("a", 1, "a3"),
        (7, 0): ("b", 0, "b7"),
    }
    assert find(older(store, schema, files), keys) == expected
    assert find(older(store, schema, files, above=1), keys) == expected | {(2, 5): ("c", 1, "c2")}
    marked = find(older(store, schema, files, a=[0, 1], b=[0]), keys)
    assert marked == {k: v for k, v in expected.items() if k != (3, 4)} | {
        (1, 5): ("c", 0, "c1"),
        (7, 0): ("c", 2, "c7"),
    }
    assert older(store, schema, files, above=4).find([pa.array([1]), pa.array([5])]) == []
    assert older(store, schema, files).find([pa.array([], pa.int32()), pa.array([], pa.timestamp("us"))]) == []


def test_files_whose_keys_do_not_overlap_are_not_opened() -> None:
    store, schema = Opened("memory://older/opened"), schema_of()
    files = [
        written(store, schema, 2, [(1, 1, "a"), (4, 1, "a")], "a"),
        written(store, schema, 2, [(5, 1, "b"), (6, 1, "b")], "b"),
        written(store, schema, 3, [(4, 1, "c"), (5, 1, "c")], "c"),
        written(store, schema, 3, [(8, 1, "d")], "d"),
    ]
    store.read.clear()
    assert find(older(store, schema, files), [(5, 1), (7, 1)]) == {(5, 1): ("b", 0, "b")}
    assert {key[len("bucket-0/")] for key in store.read} == {"b", "c"}
    store.read.clear()
    assert find(older(store, schema, files), [(6, 1)]) == {(6, 1): ("b", 1, "b")}
    assert {key[len("bucket-0/")] for key in store.read} == {"b"}, "every key is found"


def test_row_groups_are_skipped_without_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_writer, "ROW_GROUP_BYTES", 1 << 14)
    monkeypatch.setattr(
        KeySet, "find", lambda self, columns: looked_at.append(len(columns[0])) or find_all(self, columns)
    )
    looked_at: list[int] = []
    store, schema = MemoryStore("memory://older/groups"), schema_of()
    rows: list[Row] = [(i, 0, f"value {i}") for i in range(20_000)]
    files = [written(store, schema, 2, rows, "a")]
    keys: list[tuple[int, int | None]] = [(12_345, 0), (12_347, 1), (12_350, 0)]
    found = find(older(store, schema, files, a=[12_350]), keys)
    assert found == {(12_345, 0): ("a", 12_345, "value 12345")}
    assert 0 < sum(looked_at) <= 2_000


@pytest.mark.parametrize(
    ("kind", "key_of"),
    [
        ("BIGINT", lambda number: number),
        ("DATE", lambda number: date(1970, 1, 1) + timedelta(number)),
        ("STRING", lambda number: f"{number:06}"),
    ],
    ids=["BIGINT", "DATE", "STRING"],
)
def test_row_groups_are_skipped_by_keys_of_these_types(
    kind: str, key_of: Callable[[int], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_writer, "ROW_GROUP_BYTES", 1 << 14)
    looked_at: list[int] = []
    monkeypatch.setattr(
        KeySet, "find", lambda self, columns: looked_at.append(len(columns[0])) or find_all(self, columns)
    )
    store = MemoryStore(f"memory://older/groups-{kind}")
    fields = (Field(0, "k", parse_type(f"{kind} NOT NULL")), *FIELDS[1:])
    schema = new_schema(fields, primary_keys=["k", "t"], options={"bucket": "1"})
    files = [written(store, schema, 2, [(key_of(i), 0, "v") for i in range(20_000)], "a")]
    (found,) = older(store, schema, files).find([pa.array([key_of(12_345)]), pa.array([0], pa.timestamp("us"))])
    assert found.positions.tolist() == [12_345]
    assert 0 < sum(looked_at) <= 2_000


def test_the_smallest_and_the_largest_key_are_found_in_files_of_their_own() -> None:
    store, schema = MemoryStore("memory://older/ends"), schema_of()
    files = [
        written(store, schema, 2, [(1, 1, "a"), (1, 3, "a3")], "a"),
        written(store, schema, 2, [(4, 1, "b"), (5, 1, "b5")], "b"),
        written(store, schema, 2, [(9, 1, "c"), (9, 7, "c7")], "c"),
    ]
    keys: list[tuple[int, int | None]] = [(5, 1), (9, 1), (4, 2), (1, 3)]
    expected = {(1, 3): ("a", 1, "a3"), (5, 1): ("b", 1, "b5"), (9, 1): ("c", 0, "c")}
    rows = older(store, schema, files)
    assert find(rows, keys) == expected
    for few in ([(5, 1), (9, 1)], [(9, 1), (1, 3)], [(1, 3), (5, 1)], [(9, 1)], [(1, 3)]):
        wanted: list[tuple[int, int | None]] = [*few]
        assert find(rows, wanted) == {key: expected[key] for key in few}


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_rows_all_over_a_large_file_are_read_with_their_values(
    file_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_writer, "ROW_GROUP_BYTES", 1 << 14)
    store, schema = MemoryStore(f"memory://older/all-over-{file_format}"), schema_of(file_format=file_format)
    files = [written(store, schema, 2, [(i, 0, f"value {i}") for i in range(20_000)], "a")]
    numbers = [*range(0, 20_000, 1237), 19_999, 1, 2]
    found = find(older(store, schema, files, a=[1237, 2]), [(number, 0) for number in numbers])
    assert found == {(i, 0): ("a", i, f"value {i}") for i in numbers if i not in (1237, 2)}
