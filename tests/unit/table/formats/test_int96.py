"""TIMESTAMP(7..9) in Parquet: INT96 for these columns alone, as Apache Paimon reads and writes them (decision 2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakelatch as ll
from lakelatch.table.formats.parquet.int96 import with_int96_footer
from lakelatch.table.formats.parquet.thrift_compact import decode_struct, encode_struct

EDGES = [0, 1, -1, 86_400_000_000_000, -86_400_000_000_000, 2**63 - 1, 1000 - 2**63, None, 1_700_000_000_123_456_789]
NANO = pa.timestamp("ns")
COLUMNS = {
    "id": pa.array(range(len(EDGES)), pa.int64()),
    "d": pa.array([None if e is None else e % 10**25 for e in EDGES], pa.decimal128(28)),
    "us": pa.array(EDGES, NANO).cast(pa.timestamp("us"), safe=False),
    "n": pa.array(EDGES, NANO),
    "z": pa.array(EDGES, pa.timestamp("ns", "UTC")),
    "list": pa.array([[e, 5] for e in EDGES[:-1]] + [None], pa.list_(pa.field("element", NANO))),
    "map": pa.array([[(e or 7, e)] for e in EDGES], pa.map_(NANO, NANO)),
    "row": pa.array(
        [{"b": i, "t": e, "s": "x"} for i, e in enumerate(EDGES[:-1])] + [None],
        pa.struct([("b", pa.int32()), ("t", NANO), ("s", pa.string())]),
    ),
}


def footer_of(data: bytes) -> bytes:
    size = int.from_bytes(data[-8:-4], "little")
    return data[-8 - size : -8]


def data_file(path: Path) -> Path:
    (found,) = path.rglob("*.parquet")
    return found


@pytest.mark.parametrize("codec", ["zstd", "none", "snappy", "gzip"])
def test_nanoseconds_come_back(tmp_path: Path, codec: str) -> None:
    """G8: every instant that Arrow holds survives, nested and null ones too, beside columns of other types."""
    rows = pa.table(COLUMNS)
    table = ll.create_table(str(tmp_path / "t"), rows.schema, options={"file.compression": codec})
    table.append(rows)
    assert table.to_arrow().equals(rows.cast(table.arrow_schema))


def test_only_these_columns_are_int96(tmp_path: Path) -> None:
    """G8: microseconds stay INT64 (Java refuses filters on INT96 there), a DECIMAL of twelve bytes stays what it is."""
    rows = pa.table(COLUMNS)
    ll.create_table(str(tmp_path / "t"), rows.schema).append(rows)
    schema = pq.ParquetFile(data_file(tmp_path)).schema
    physical = {schema.column(i).path: schema.column(i).physical_type for i in range(len(schema))}
    assert physical == {
        "id": "INT64",
        "d": "FIXED_LEN_BYTE_ARRAY",
        "us": "INT64",
        "n": "INT96",
        "z": "INT96",
        "list.list.element": "INT96",
        "map.key_value.key": "INT96",
        "map.key_value.value": "INT96",
        "row.b": "INT32",
        "row.t": "INT96",
        "row.s": "BYTE_ARRAY",
    }


def test_other_columns_keep_their_bounds(tmp_path: Path) -> None:
    """Pruning by row group works beside INT96, which itself has no bounds: bytes do not sort as times."""
    rows = pa.table(COLUMNS)
    ll.create_table(str(tmp_path / "t"), rows.schema).append(rows)
    group = pq.ParquetFile(data_file(tmp_path)).metadata.row_group(0)
    bounded = {}
    for i in range(group.num_columns):
        statistics = group.column(i).statistics
        bounded[group.column(i).path_in_schema] = statistics is not None and statistics.has_min_max
    assert bounded["id"] and bounded["d"] and bounded["us"] and bounded["row.b"] and bounded["row.s"]
    assert not any(bounded[name] for name in bounded if "list" in name or "map" in name or name in ("n", "z", "row.t"))
    (entry,) = ll.open_table(str(tmp_path / "t")).entries()
    assert entry.file.file_size == data_file(tmp_path).stat().st_size


def test_row_groups_and_rolling(tmp_path: Path) -> None:
    """Several files, and several row groups in a file that is streamed: each footer is changed, each file is whole."""
    rows = pa.table({"id": pa.array(range(30_000)), "t": pa.array(range(30_000), NANO)})
    table = ll.create_table(
        str(tmp_path / "t"), rows.schema, options={"target-file-size": "64 kb", "file.compression": "none"}
    )
    table.append(rows)
    assert len(list(tmp_path.rglob("*.parquet"))) > 1
    assert table.to_arrow().sort_by("id").equals(rows)
    assert table.to_arrow(where=ll.col("id") == 29_999).to_pydict()["id"] == [29_999]


@pytest.mark.parametrize("wide", [1, 14, 15, 40])
def test_a_footer_that_is_not_changed_keeps_its_bytes(wide: int) -> None:
    """The Thrift codec loses nothing: lists longer than 14, unknown fields, negative numbers, booleans."""
    columns: dict[str, Any] = {f"c{i}": pa.array([i, None, -i]) for i in range(wide)}
    sink = pa.BufferOutputStream()
    table = pa.table({**columns, "f": [1.5, -0.0, None], "b": [True, False, None]}).replace_schema_metadata({"k": "v"})
    pq.write_table(table, sink, row_group_size=1, write_page_index=True, sorting_columns=[pq.SortingColumn(0)])
    data = sink.getvalue().to_pybytes()
    assert encode_struct(decode_struct(footer_of(data))) == footer_of(data)
    assert with_int96_footer(data) == data


def test_a_cut_footer_is_an_error() -> None:
    with pytest.raises(ValueError, match="too early"):
        decode_struct(bytes([0x15]))
    with pytest.raises(ValueError, match="type 11"):
        decode_struct(bytes([0x1B, 0]))
