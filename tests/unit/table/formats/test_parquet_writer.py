"""What Parquet files leave out so that other readers' filters lose no row (decision 5)."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakelatch as ll
from lakelatch.core.rows.types import Field, parse_type
from lakelatch.core.statistics.collect import decode_stats
from lakelatch.table.formats.parquet.dictionaries import overflowing_columns
from lakelatch.table.formats.parquet.writer import ParquetForm
from lakelatch.table.writing.files.sink import SpillingSink


def columns_of(path: Path) -> dict[str, Any]:
    (file,) = path.rglob("*.parquet")
    group = pq.ParquetFile(file).metadata.row_group(0)
    return {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}


def test_bounds_and_dictionaries(tmp_path: Path) -> None:
    """G8: no footer bounds where Arrow's leave NaN out, nested too; no dictionary of padded decimals; the rest has both."""
    rows = pa.table(
        {
            "i": pa.array([1, 1, None] * 9),
            "f": pa.array([1.0, math.nan, None] * 9, pa.float32()),
            "d18": pa.array([Decimal(1), Decimal(1), None] * 9, pa.decimal128(18)),
            "d19": pa.array([Decimal(1), Decimal(1), None] * 9, pa.decimal128(19)),
            "s": pa.array(["x", "x", None] * 9),
            "r": pa.array([{"d": math.nan, "b": b"x"}, None, {"d": 1.0, "b": b"x"}] * 9),
            "l": pa.array([[1.0], [math.nan], None] * 9),
        }
    )
    ll.create_table(str(tmp_path / "t"), rows.schema).append(rows)
    found = columns_of(tmp_path)
    bounded = {name for name, c in found.items() if c.statistics is not None and c.statistics.has_min_max}
    assert bounded == {"i", "d18", "d19", "s", "r.b"}
    plain = {name for name, c in found.items() if "RLE_DICTIONARY" not in c.encodings}
    assert plain == {"d19"}


@pytest.mark.parametrize("count", [9, 100, 999, 1000, 5000])
def test_a_column_where_nothing_repeats_has_no_dictionary(count: int) -> None:
    """However few its rows are: a dictionary would be larger than the values."""
    different = pa.table({"n": pa.array(range(count)), "s": [f"{n:016}" for n in range(count)]})
    assert overflowing_columns(different) == {"n", "s"}
    same = pa.table(
        {"n": pa.array([7] * count), "s": ["sixteen letters "] * count, "none": pa.nulls(count, pa.int64())}
    )
    assert overflowing_columns(same) == frozenset()


def test_no_column_may_have_bounds(tmp_path: Path) -> None:
    """A table of floats alone, and one of wide decimals alone, are written all the same."""
    for name, values in {"f": pa.array([1.0, None]), "d": pa.array([Decimal(1), None], pa.decimal128(38))}.items():
        rows = pa.table({name: values})
        table = ll.create_table(str(tmp_path / name), rows.schema)
        table.append(rows)
        assert table.to_arrow().equals(rows)
    assert ParquetForm.of([Field(0, "f", parse_type("FLOAT"))]).bounded == ()
    assert ParquetForm.of([Field(0, "d", parse_type("DECIMAL(38, 0)"))]).dictionaries == ()


def test_the_manifest_counts_nan_and_has_no_bounds_of_bytes(tmp_path: Path) -> None:
    """G4, G8: NaN is a float's largest value; binary columns have null counts alone."""
    rows = pa.table({"f": [1.0, math.nan, None], "b": [b"\x00", b"\xff", None]})
    table = ll.create_table(str(tmp_path / "t"), rows.schema, options={"metadata.stats-mode": "full"})
    table.append(rows)
    (entry,) = table.entries()
    floats, binary = decode_stats(entry.file.value_stats, table.schema.fields)
    assert (floats.min, math.isnan(floats.max), floats.null_count) == (1.0, True, 1)
    assert (binary.min, binary.max, binary.null_count) == (None, None, 1)


def test_a_column_with_a_dot_is_not_a_field_of_a_row(tmp_path: Path) -> None:
    """G1: in Parquet, `a.b` and field b of a ROW a have one path: the bounds of one must not hide rows of the other."""
    row = pa.struct([("b", pa.string()), ("n", pa.int64())])
    first = pa.table({"a": pa.array([{"b": "m", "n": 0}], row), "a.b": ["z"], "a.n": [9]})
    for number, names in enumerate((["a", "a.b", "a.n"], ["a.b", "a.n", "a"])):
        rows = first.select(names)
        table = ll.create_table(str(tmp_path / str(number)), rows.schema)
        table.append(rows)
        for where in (ll.col("a.b") == "z", ll.col("a.n") == 9, ll.col("a.n").is_not_null()):
            assert table.to_arrow(where=where).equals(rows)
        assert table.plan(ll.col("a.b") == "m").file_count == 0
        assert table.to_arrow(columns=["a.b"]).equals(rows.select(["a.b"]))


def test_a_page_is_not_ended_after_a_few_thousand_rows(tmp_path: Path) -> None:
    """New versions of Arrow end it after 20,000 rows by default, which costs bytes and helps nobody without an index of pages."""
    rows = pa.table({"at": pa.array([n * 1_000_003 for n in range(60_000)])})
    ll.create_table(str(tmp_path / "t"), rows.schema).append(rows)
    (found,) = columns_of(tmp_path).values()
    assert "RLE_DICTIONARY" not in found.encodings
    assert found.total_uncompressed_size - 8 * 60_000 < 100, "more than the head of one page"


def test_a_file_reaches_its_store_in_few_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each piece waits until Python is free. Arrow makes two of each page, and more of the footer."""
    pieces: list[int] = []
    write = SpillingSink.write
    monkeypatch.setattr(SpillingSink, "write", lambda self, data: pieces.append(len(data)) or write(self, data))
    columns = {f"c{i}": pa.array(range(1000), pa.int64()) for i in range(40)}
    rows = pa.table({**columns, "x": pa.array(["v"] * 1000)})
    table = ll.create_table(str(tmp_path / "t"), rows.schema)
    table.append(rows)
    ((file,),) = (split.files for split in table.plan().splits)
    assert sum(pieces) == file.file_size == next(tmp_path.rglob("*.parquet")).stat().st_size
    assert len(pieces) < 20
    assert table.to_arrow() == rows


def test_files_end_at_their_size_although_bytes_wait(tmp_path: Path) -> None:
    """What is on its way to the sink counts as soon as a row group ends."""
    rows = pa.table({"v": np.random.default_rng(1).integers(0, 1 << 60, 20_000)})
    options = {"target-file-size": "16 kb"}
    table = ll.create_table(str(tmp_path / "t"), rows.schema, options=options)
    table.append(rows)
    sizes = [file.file_size for split in table.plan().splits for file in split.files]
    assert max(sizes) < 33 << 10
    assert table.to_arrow().sort_by("v") == rows.sort_by("v")
