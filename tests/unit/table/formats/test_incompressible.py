"""Columns that the default codec would hardly make smaller are written without it (decision 81)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from interop.domains import EVERY, columns, edge_rows
from values import decode_rows

import lakelatch as ll
from lakelatch.table.formats.parquet.incompressible import SAMPLE_ROWS, incompressible_leaves
from lakelatch.table.formats.parquet.writer import ParquetForm

ROWS = 3 * SAMPLE_ROWS
DICE = np.random.default_rng(81)


def noise(count: int = ROWS) -> Any:
    return DICE.random(count) * 1000


def with_nulls(values: Any) -> pa.Array:
    """Every other value is null. Arrow has zeros in their places, and Parquet has nothing."""
    is_null = np.arange(len(values)) % 2 == 0
    return pa.array(np.where(is_null, 0.0, values), mask=is_null)


def lists_of(values: Any) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(np.arange(0, len(values) + 1, 2, dtype=np.int32)), pa.array(values))


ROWS_OF_ALL_KINDS = pa.table(
    {
        "noise": noise(),
        "with nulls": with_nulls(noise()),
        "count": np.arange(ROWS),
        "price": np.round(noise(), 2),
        "text": [f"user {n}" for n in range(ROWS)],
        "embedding": lists_of(DICE.normal(size=2 * ROWS).astype(np.float32)),
        "row": pa.StructArray.from_arrays([pa.array(noise()), pa.array(np.zeros(ROWS))], ["noise", "zeros"]),
        "map": pa.MapArray.from_arrays(np.arange(ROWS + 1, dtype=np.int32), np.arange(ROWS), noise()),
        "nothing": pa.nulls(ROWS, pa.float64()),
        "time": pa.array(DICE.integers(-(2**62), 2**62, ROWS), pa.timestamp("us")),
        "narrow": DICE.integers(-(2**31), 2**31, ROWS).astype(np.int32),
    }
)
PLAIN = {"noise", "with nulls", "embedding.list.element", "row.noise", "time", "narrow"}
"""A MAP is never looked into."""


def codecs(folder: Path) -> dict[str, str]:
    (file,) = folder.rglob("*.parquet")
    group = pq.ParquetFile(file).metadata.row_group(0)
    return {group.column(i).path_in_schema: group.column(i).compression for i in range(group.num_columns)}


def test_each_column_has_the_codec_only_if_its_values_become_smaller(tmp_path: Path) -> None:
    rows = ROWS_OF_ALL_KINDS
    table = ll.create_table(str(tmp_path / "t"), rows.schema)
    table.append(rows)
    found = codecs(tmp_path)
    assert {path for path, codec in found.items() if codec == "UNCOMPRESSED"} == PLAIN
    assert {codec for path, codec in found.items() if path not in PLAIN} == {"ZSTD"}
    assert table.to_arrow().equals(rows)
    assert table.verify("all", data=True) == []


@pytest.mark.parametrize("codec", ["zstd", "snappy", "gzip", "lz4"])
def test_a_codec_that_the_table_names_is_used_for_all_columns(tmp_path: Path, codec: str) -> None:
    rows = ROWS_OF_ALL_KINDS
    ll.create_table(str(tmp_path / "t"), rows.schema, options={"file.compression": codec}).append(rows)
    assert set(codecs(tmp_path).values()) == {codec.upper()}


def test_the_level_of_zstd_goes_on_counting_where_columns_do_without(tmp_path: Path) -> None:
    sizes = {}
    rows = pa.table({"noise": noise(), "text": [f"user {n * 7919 % 10_007} of {n % 211}" for n in range(ROWS)]})
    for level in ("1", "19"):
        folder = tmp_path / level
        ll.create_table(str(folder), rows.schema, options={"file.compression.zstd-level": level}).append(rows)
        assert codecs(folder) == {"noise": "UNCOMPRESSED", "text": "ZSTD"}
        (file,) = folder.rglob("*.parquet")
        sizes[level] = pq.ParquetFile(file).metadata.row_group(0).column(1).total_compressed_size
    assert sizes["19"] < sizes["1"]


@pytest.mark.parametrize("where", ["beginning", "middle", "end"])
def test_values_that_are_regular_anywhere_keep_the_codec(where: str) -> None:
    """They may be regular in all of the rows that follow."""
    values = noise()
    begin = {"beginning": 0, "middle": SAMPLE_ROWS, "end": 2 * SAMPLE_ROWS}[where]
    values[begin : begin + SAMPLE_ROWS] = 0.0
    assert incompressible_leaves(pa.table({"v": values}), "zstd", 1) == [False]


@pytest.mark.parametrize("rows", [0, 1, 100])
def test_few_values_keep_the_codec(rows: int, tmp_path: Path) -> None:
    """A look at them would take longer than it saves."""
    data = pa.table({"v": noise(rows), "text": ["x" * 100] * rows})
    assert incompressible_leaves(data, "zstd", 1) == [False, False]
    if rows:
        ll.create_table(str(tmp_path / "t"), data.schema).append(data)
        assert set(codecs(tmp_path).values()) == {"ZSTD"}


def test_the_leaves_of_every_type_are_those_of_a_file() -> None:
    schema = ll.Schema(columns(list(EVERY)))
    form = ParquetForm.of(schema.fields)
    rows = decode_rows(edge_rows(list(EVERY)) * 40, schema.fields)
    assert len(incompressible_leaves(rows, "zstd", 1)) == len(form.columns)


def test_a_part_of_longer_columns_is_judged_by_itself() -> None:
    """Rows are often a slice of a batch, whose buffers hold other rows too."""
    values = np.concatenate([np.zeros(ROWS), noise(), np.zeros(ROWS)])
    whole = pa.table({"v": values, "l": pa.array(values.reshape(-1, 1).tolist(), pa.list_(pa.float64()))})
    assert incompressible_leaves(whole, "zstd", 1) == [False, False]
    assert incompressible_leaves(whole.slice(ROWS, ROWS), "zstd", 1) == [True, True]
    assert incompressible_leaves(whole.slice(0, ROWS), "zstd", 1) == [False, False]
