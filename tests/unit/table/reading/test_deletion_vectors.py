"""Deletion vectors of append tables: both kinds of bitmap, counts, limits, and the errors for damage."""

from __future__ import annotations

import itertools
import random
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from marked_rows import INDEX, mark

from lakelatch.backends.around.metered import MeteredStore
from lakelatch.backends.memory import MemoryStore
from lakelatch.core.errors import LakelatchError, TableCorrupt
from lakelatch.core.metadata.manifest import encode_index_manifest
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.metadata.schemas.changes import rename_column
from lakelatch.core.rows.types import AtomicType, Field
from lakelatch.table.table import Table

COUNTER = itertools.count()


def table_of(rows: Iterable[int], options: Mapping[str, str] | None = None) -> Table:
    """A table of one column in one file."""
    store = MeteredStore(MemoryStore(f"memory://deletion-vectors-{__name__}-{next(COUNTER)}"))
    schema = new_schema([Field(0, "x", AtomicType("INT"))], options=dict(options or {}))
    store.put("schema/schema-0", schema.to_json())
    table = Table(store, schema)
    table.append(pa.table({"x": pa.array(list(rows), pa.int32())}))
    return table


def file_names(table: Table) -> list[str]:
    return [entry.file.file_name for entry in table.entries()]


@settings(max_examples=25, deadline=None)
@given(
    count=st.integers(1, 200),
    deleted=st.sets(st.integers(0, 199)),
    bits=st.sampled_from([32, 64]),
    counted=st.booleans(),
    limit=st.integers(0, 220),
)
def test_deleted_rows_are_not_read(count: int, deleted: set[int], bits: int, counted: bool, limit: int) -> None:
    """G8: from rows, counts, limits and predicates alike, whether the manifest counts them or not."""
    deleted = {d for d in deleted if d < count}
    table = table_of(range(count))
    mark(table, {file_names(table)[0]: deleted}, bits, counted=counted)
    expected = [x for x in range(count) if x not in deleted]
    assert table.to_arrow()["x"].to_pylist() == expected
    assert table.count() == table.to_arrow(columns=[]).num_rows == len(expected)
    assert table.to_arrow(limit=limit)["x"].to_pylist() == expected[:limit]
    assert table.to_arrow(columns=[], limit=limit).num_rows == min(limit, len(expected))
    assert table.to_arrow(where="x > 50")["x"].to_pylist() == [x for x in expected if x > 50]
    assert table.verify("all", data=True) == []


def test_positions_are_the_file_s_in_every_row_group() -> None:
    """G8: also where row groups are left out by their statistics."""
    table = table_of(range(200_000), {"file.block-size": "64 kb", "file.compression": "none"})
    mark(table, {file_names(table)[0]: range(0, 200_000, 7)})
    expected = [x for x in range(150_000, 200_000) if x % 7]
    assert table.to_arrow(where="x >= 150000")["x"].to_pylist() == expected
    assert table.count() == 200_000 - len(range(0, 200_000, 7))


def test_files_without_a_vector_keep_their_rows_and_counts_cost_nothing() -> None:
    """G8: one of two files is marked; a count with cardinalities reads neither data nor vectors."""
    table = table_of(range(10))
    table.append(pa.table({"x": pa.array(range(10, 20), pa.int32())}))
    mark(table, {file_names(table)[0]: [0, 9]})
    assert sorted(table.to_arrow()["x"].to_pylist()) == [*range(1, 9), *range(10, 20)]
    assert table.to_arrow(limit=9).num_rows == 9
    plain, marked = table.plan().splits
    assert (plain.needs_arrow, marked.needs_arrow) == ((), ("files have deleted rows",))
    assert "files have deleted rows" in str(table.plan())
    assert (plain.to_dict()["deletion_vectors"], marked.to_dict()["deletion_vectors"]) == (0, 1)
    table.store.delete_many([INDEX, *plain.keys, *marked.keys])
    assert table.count() == 18


def test_files_of_an_older_schema_are_not_read_with_those_that_only_have_deleted_rows() -> None:
    """Spark's own reader takes the latter, if nothing else in their split keeps it from it."""
    table = table_of(range(10))
    table.alter(rename_column("x", "y"))
    for start in (10, 20):
        table.append(pa.table({"y": pa.array(range(start, start + 10), pa.int32())}))
    old, new, _ = file_names(table)
    mark(table, {old: [1], new: [2]})
    reasons = [split.needs_arrow for split in table.plan().splits]
    assert reasons[:2] == [(), ("files have deleted rows",)]
    assert len(reasons) == 3 and len(reasons[2]) == 2
    assert table.count() == 28


def test_an_index_file_beside_the_data() -> None:
    """G8: option `index-file-in-data-file-dir`."""
    table = table_of(range(3), {"index-file-in-data-file-dir": "true"})
    mark(table, {file_names(table)[0]: [1]})
    table.store.put("bucket-0/index-1", table.store.get(INDEX))
    table.store.delete_many([INDEX])
    assert table.to_arrow()["x"].to_pylist() == [0, 2]


# ------------------------------------------------------------------------------------------------------------- damage


def told(table: Table) -> str:
    with pytest.raises(TableCorrupt) as caught:
        Table(table.store, table.schema).to_arrow()
    found = [finding for finding in table.verify("all", data=True) if finding.severity == "error"]
    assert found, "verify sees it too"
    return str(caught.value)


def test_a_missing_vector() -> None:
    """H11: a missing index file does not bring deleted rows back."""
    table = table_of(range(5))
    mark(table, {file_names(table)[0]: [1]})
    table.store.delete_many([INDEX])
    snapshot = table.snapshot()
    assert snapshot is not None
    needed_by = f"manifest/{snapshot.index_manifest} of snapshot/snapshot-{snapshot.id}"
    assert f": {INDEX} is missing; {needed_by} needs it" in told(table)


@pytest.mark.parametrize("bits", [32, 64])
def test_damaged_vectors_name_the_index_file(bits: int) -> None:
    """H11: magic, length, checksum, cardinality and range are checked; Apache Paimon checks two of them
    (format/deletion-vectors §3)."""
    table = table_of(range(100))
    (name,) = file_names(table)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"length": 7}, "_DELETIONS_VECTORS_RANGES"),
        ({"cardinality": 3}, "_CARDINALITY"),
        ({"offset": 2}, "magic"),
        ({"offset": 10_000}, "magic"),
    ]
    for changed, word in cases:
        mark(table, {name: [1, 2]}, bits, **changed)
        message = told(table)
        assert INDEX in message and name in message and word in message
    mark(table, {name: [1, 100]}, bits)
    assert "marks row 100, but the file has 100 rows" in told(table)
    mark(table, {name: [1, 2]}, bits)
    data = table.store.get(INDEX)
    for position, word in ((5, "magic"), (len(data) - 1, "checksum"), (20, "checksum")):
        table.store.put(INDEX, data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
        assert word in told(table)
    table.store.put(INDEX, data[:-3])
    assert "checksum" in told(table)


def test_two_vectors_of_one_file() -> None:
    """H12: each would bring back rows that the other deletes."""
    table = table_of(range(5))
    (name,) = file_names(table)
    mark(table, {name: [1]})
    snapshot = table.snapshot()
    assert snapshot is not None
    (entry,) = table.timeline.index_entries(snapshot)
    second = replace(entry, file=replace(entry.file, file_name="index-2"))
    table.store.put("manifest/index-manifest-1", encode_index_manifest([entry, second]))
    with pytest.raises(TableCorrupt, match=r"index-1 and index-2.*" + name):
        table.plan()


def test_any_damage_ends_in_one_error() -> None:
    """H11: mutated bytes, with a checksum that fits them: rows, or an error that names the index file."""
    table = table_of(range(1000))
    (name,) = file_names(table)
    rng = random.Random(4)
    errors = 0
    for number in range(300):
        bits = rng.choice((32, 64))
        mark(table, {name: rng.sample(range(1000), 300)}, bits, counted=False)
        data = bytearray(table.store.get(INDEX))
        for _ in range(rng.choice((1, 1, 3))):
            data[rng.randrange(9, len(data) - 4)] = rng.randrange(256)
        if number % 2:
            data[-4:] = zlib.crc32(data[5:-4]).to_bytes(4, "big")
        table.store.put(INDEX, bytes(data))
        try:
            assert table.to_arrow().num_rows <= 1000
        except LakelatchError as error:
            errors += 1
            assert INDEX in str(error)
    assert errors > 100


def test_an_append_beside_vectors_reads_none_of_them() -> None:
    """An append changes no index entry, so it costs the same as on any other table."""
    table = table_of(range(10))
    mark(table, {file_names(table)[0]: {3}})
    warm = Table(table.store, table.schema)
    rows = pa.table({"x": pa.array([1], pa.int32())})
    warm.append(rows)
    receipt = warm.append(rows)
    assert receipt.requests == 7
    assert warm.to_arrow().num_rows == 11
