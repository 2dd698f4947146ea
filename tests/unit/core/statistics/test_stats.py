"""Statistics: truncation, floats, footers, and a comparison with Apache Paimon's if its files are available."""

from __future__ import annotations

import datetime as dt
import io
import math
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakelatch.core.avro.records import read_records
from lakelatch.core.errors import InvalidArgument, TableCorrupt
from lakelatch.core.metadata.data_file import ADD, NO_STATS, DataFile, ManifestEntry, SimpleStats
from lakelatch.core.metadata.folding import summarise
from lakelatch.core.metadata.schema import TableSchema, parse_schema
from lakelatch.core.rows.arrow import to_arrow
from lakelatch.core.rows.binary.binary_row import encode_row
from lakelatch.core.rows.dates import FarDate
from lakelatch.core.rows.types import ArrayType, AtomicType, Field, decimal, parse_atomic, string, timestamp
from lakelatch.core.rows.values import order_key
from lakelatch.core.statistics.bounds import Bounds, truncated
from lakelatch.core.statistics.collect import (
    UNKNOWN,
    ColumnStats,
    StatsCollector,
    StatsMode,
    decode_stats,
    file_stats_fields,
)
from lakelatch.tests.collected import collect_stats, row_stats
from lakelatch.tests.golden_filters import golden_folder

FULL, COUNTS, NONE = StatsMode("full"), StatsMode("counts"), StatsMode("none")


def one(array: Any, type_text: str = "", data_type: Any = None, mode: StatsMode = FULL) -> ColumnStats:
    """Statistics of one column, by way of the bytes."""
    field = Field(0, "c", data_type or parse_atomic(type_text))
    stats, _ = collect_stats(pa.table({"c": array}), [field], {"c": mode})
    return decode_stats(stats, [field])[0]


# ------------------------------------------------------------------------------------------------------------- modes


def test_modes() -> None:
    """G8: the four modes of the format."""
    assert [StatsMode.parse(t) for t in ("none", "COUNTS", "full", "truncate(5)")] == [
        NONE,
        COUNTS,
        FULL,
        StatsMode("truncate", 5),
    ]
    for text in ("", "truncate", "truncate(0)", "truncate(x)", "some"):
        with pytest.raises(InvalidArgument, match="stats-mode"):
            StatsMode.parse(text)
    strings = pa.array(["abcdefgh", None, "abcdefghi"])
    assert one(strings, "STRING", mode=StatsMode("truncate", 5)) == ColumnStats("abcde", "abcdf", 1)
    assert one(strings, "STRING", mode=COUNTS) == ColumnStats(None, None, 1)
    assert one(strings, "STRING", mode=FULL) == ColumnStats("abcdefgh", "abcdefghi", 1)


def test_dense_and_sparse() -> None:
    """G8: a column without statistics is left out, or keeps its position with nulls."""
    fields = [Field(0, "a", AtomicType("INT")), Field(1, "b", AtomicType("INT"))]
    table = pa.table({"a": pa.array([1, 2], pa.int32()), "b": pa.array([3, None], pa.int32())})
    dense, columns = collect_stats(table, fields, {"a": NONE, "b": FULL})
    assert columns == ("b",) and decode_stats(dense, fields[1:]) == [ColumnStats(3, 3, 1)]
    sparse, columns = collect_stats(table, fields, {"a": NONE, "b": FULL}, dense=False)
    assert columns is None and decode_stats(sparse, fields) == [ColumnStats(None, None, None), ColumnStats(3, 3, 1)]
    nothing, columns = collect_stats(table, fields, {"a": NONE, "b": NONE})
    assert columns == () and nothing == NO_STATS
    _, columns = collect_stats(table, fields, {})
    assert columns is None


# -------------------------------------------------------------------------------------------------------- truncation


@pytest.mark.parametrize(
    ("low", "high", "length", "expected"),
    [
        ("Two roads diverged in", "Two roads diverged in", 16, ("Two roads diverg", "Two roads diverh")),
        ("a", "Whether I shall turn", 16, ("a", "Whether I shall!")),
        ("abc", "abc", 3, ("abc", "abc")),
        ("a", "ab\U0010ffff\U0010ffffz", 4, ("a", "ac")),
        ("a", "\U0010ffff" * 6, 5, (None, None)),
        ("a", "ab\ud7ffz".encode("utf-16", "surrogatepass").decode("utf-16"), 3, ("a", "ab\ue000")),
        ("🚀🚀🚀", "漢字漢字", 2, ("🚀🚀", "漢" + chr(ord("字") + 1))),
        (1, 2, 1, (1, 2)),
    ],
)
def test_truncation(low: Any, high: Any, length: int, expected: tuple[Any, Any]) -> None:
    """G8: the minimum is cut, the maximum is cut and raised, or both are dropped."""
    assert truncated(Bounds(low, high), length) == Bounds(*expected)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=("Cs",)), max_size=6), min_size=1), st.integers(1, 4))
def test_truncated_bounds_enclose(values: list[str], length: int) -> None:
    """G4: no value lies outside of its column's bounds, in the order of UTF-8 bytes."""
    found = truncated(Bounds(min(values), max(values)), length)
    if found.min is not None:
        assert found.min.encode() <= min(v.encode() for v in values)
        assert found.max.encode() >= max(v.encode() for v in values)
        assert len(found.min) <= length and len(found.max) <= length
    else:
        assert found.max is None


# ------------------------------------------------------------------------------------------------------------- floats


@pytest.mark.skipif(int(pa.__version__.split(".")[0]) < 23, reason="older Arrow leaves NaN out of both bounds")
@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.none() | st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf]) | st.floats(width=32), max_size=8),
    st.sampled_from(["FLOAT", "DOUBLE"]),
    st.integers(0, 3),
)
def test_floats_as_java_compares_them(values: list[float | None], root: str, cut: int) -> None:
    """G4: NaN is the largest, -0.0 is below 0.0, in one batch or in several."""
    kind = pa.float32() if root == "FLOAT" else pa.float64()
    array = pa.chunked_array([pa.array(values[:cut], kind), pa.array(values[cut:], kind)])
    present = [v for v in values if v is not None]
    found = one(array, root)
    assert found.null_count == len(values) - len(present)
    assert repr(found.min) == repr(min(present, key=order_key, default=None))
    assert repr(found.max) == repr(max(present, key=order_key, default=None))


def test_every_nan_is_one() -> None:
    """G4: a NaN with its sign set is as large as any other."""
    odd = np.array([1.0, np.nan], np.float64)
    odd.view(np.uint64)[1] |= np.uint64(1 << 63)
    assert math.isnan(one(pa.array(odd), "DOUBLE").max) and one(pa.array(odd), "DOUBLE").min == 1.0


# -------------------------------------------------------------------------------------------------------- other types


@pytest.mark.parametrize(
    ("array", "data_type", "expected"),
    [
        (pa.array([True, False, None]), AtomicType("BOOLEAN"), ColumnStats(False, True, 1)),
        (pa.array(["\uffff", "\U00010000"]), string(), ColumnStats("\uffff", "\U00010000", 0)),
        (pa.array([b"\xff", b"\x7f"]), AtomicType("VARBINARY", length=9), ColumnStats(None, None, 0)),
        (pa.array(["b", "a", "b"]).dictionary_encode(), string(), ColumnStats("a", "b", 0)),
        (pa.array(["b", "a"], pa.string_view()), string(), ColumnStats("a", "b", 0)),
        (
            pa.array([Decimal("-1.50"), Decimal("2.00")], pa.decimal128(38, 2)),
            decimal(38, 2),
            ColumnStats(Decimal("-1.50"), Decimal("2.00"), 0),
        ),
        (pa.array([1, -1, None], pa.timestamp("ns")), timestamp(9), ColumnStats(-1, 1, 1)),
        (pa.nulls(3, pa.int32()), AtomicType("INT"), ColumnStats(None, None, 3)),
        (pa.array([], pa.int32()), AtomicType("INT"), ColumnStats(None, None, 0)),
        (pa.array([[1], None]), ArrayType(AtomicType("INT")), ColumnStats(None, None, 1)),
        (pa.array([b"x", None]), AtomicType("BLOB"), ColumnStats(None, None, 1)),
        (
            pa.array([0, 10_000_000], pa.int32()).cast(pa.date32()),
            AtomicType("DATE"),
            ColumnStats(dt.date(1970, 1, 1), FarDate(10_000_000), 0),
        ),
    ],
)
def test_types(array: Any, data_type: Any, expected: ColumnStats) -> None:
    """G8: bounds for types that have them, and null for types without bounds or if they are unknown."""
    assert one(array, data_type=data_type) == expected


def test_batches_add_up() -> None:
    """G8: a file that is written in pieces has the statistics of the whole."""
    field = [Field(0, "c", AtomicType("INT"))]
    collector = StatsCollector(field, {})
    for piece in ([5, None], [None, None], [-3, 9], []):
        collector.update(pa.record_batch({"c": pa.array(piece, pa.int32())}))
    assert decode_stats(collector.finish()[0], field) == [ColumnStats(-3, 9, 3)]
    assert collector.row_count == 6


@pytest.mark.parametrize("values", [["b", None, "äa", "x" * 40], [None, None], [], ["y" * 5000, "a"]])
def test_text_bounds_from_the_parquet_footer(values: list[str | None]) -> None:
    """G4: the encoder's bounds equal those that lakelatch computes. Bounds that it left out are unknown, never wrong."""
    fields = [Field(0, "s", string()), Field(1, "n", AtomicType("INT"))]
    table = pa.table({"s": pa.array(values, pa.string()), "n": pa.array(range(len(values)), pa.int32())})
    buffer = io.BytesIO()
    pq.write_table(table, buffer, row_group_size=2)
    collector = StatsCollector(fields, {}, parquet_footer=True)
    for batch in table.to_batches():
        collector.update(batch)
    found = decode_stats(collector.finish(pq.read_metadata(buffer))[0], fields)
    measured = decode_stats(collect_stats(table, fields, {})[0], fields)
    if any(v and len(v) > 4096 for v in values):
        measured[0] = ColumnStats(None, None, 0)
    assert found == measured
    assert decode_stats(collector.finish()[0], fields)[0].null_count == values.count(None)


def test_a_footer_that_was_promised_and_never_came_gives_unknown() -> None:
    """G4: unknown is safe, wrong is not."""
    field = [Field(0, "s", string())]
    collector = StatsCollector(field, {}, parquet_footer=True)
    collector.update(pa.record_batch({"s": ["a", "b"]}))
    assert decode_stats(collector.finish()[0], field) == [ColumnStats(None, None, 0)]


def test_statistics_of_partitions_are_never_cut() -> None:
    """G4: those of a manifest are full, whatever the length of a partition's text."""
    fields = [Field(0, "a", string()), Field(1, "d", AtomicType("DOUBLE"))]
    types = [f.type for f in fields]
    rows = [("x" * 40, math.nan), (None, -0.0), ("b", 0.0)]
    file = DataFile("f", 1, 1)
    entries = [ManifestEntry(ADD, encode_row(row, types), 0, -1, file) for row in rows]
    stats = summarise("manifest", 1, entries, fields, 0).partition_stats
    assert repr(decode_stats(stats, fields)) == repr([ColumnStats("b", "x" * 40, 1), ColumnStats(-0.0, math.nan, 0)])


# ------------------------------------------------------------------------------------------------------------ reading


def test_reading_foreign_statistics() -> None:
    """H11: none at all is unknown, another width is damage."""
    fields = [Field(0, "a", AtomicType("INT")), Field(1, "t", AtomicType("DATE"))]
    assert decode_stats(NO_STATS, fields) == [UNKNOWN, UNKNOWN]
    good = row_stats([(1, None)], fields)
    assert decode_stats(SimpleStats(good.min_values, good.max_values, None), fields)[0] == ColumnStats(1, 1, None)
    with pytest.raises(TableCorrupt, match="f-1"):
        decode_stats(good, fields[:1], "f-1")
    with pytest.raises(TableCorrupt, match="null counts"):
        decode_stats(SimpleStats(good.min_values, good.max_values, (1,)), fields, "f.parquet")
    far = bytes.fromhex("000000010000000000000000ffffff7f00000000")
    assert decode_stats(SimpleStats(far, far, (0,)), fields[1:]) == [
        ColumnStats(FarDate(2**31 - 1), FarDate(2**31 - 1), 0)
    ]


def test_the_columns_of_statistics() -> None:
    """G8: `_VALUE_STATS_COLS`, else `_WRITE_COLS`, else the schema. With an unknown column, the statistics are not used."""
    fields = [Field(0, "a", AtomicType("INT")), Field(1, "b", AtomicType("INT"))]
    assert file_stats_fields(fields, None, None) == fields
    assert file_stats_fields(fields, ["b", "a"], None) == fields[::-1]
    assert file_stats_fields(fields, ["b", "a"], ["a"]) == fields[:1]
    assert [f.name for f in file_stats_fields(fields, ["a", "_ROW_ID"], None) or []] == ["a", "_ROW_ID"]
    assert file_stats_fields(fields, None, ["zzz"]) is None


# ------------------------------------------------------------------------------------------------------------- golden


def _avro_table(path: Path, schema: TableSchema) -> pa.Table:
    with open(path, "rb") as file:
        records = list(fastavro.reader(file))
    columns = {}
    for field in schema.fields:
        if isinstance(field.type, AtomicType) and records and field.name in records[0]:
            values = [r[field.name] for r in records]
            kind = to_arrow(field.type)
            if pa.types.is_timestamp(kind):  # the format swaps Avro's two timestamp types: only the wall clock counts
                values = [None if v is None else v.replace(tzinfo=None) for v in values]
                columns[field.name] = pa.array(values, pa.timestamp(kind.unit)).cast(pa.int64()).cast(kind)
            else:
                columns[field.name] = pa.array(values, kind)
    return pa.table(columns)


def _same_or_explained(java: ColumnStats, ours: ColumnStats, field: Field, suffix: str) -> str:
    """Why two statistics differ, "" where they do not; anything else is a failure."""
    if repr(java) == repr(ours):
        return ""
    root, precision = getattr(field.type, "root", ""), getattr(field.type, "precision", 0)
    if java.null_count == ours.null_count and java.min is None and java.max is None:
        if root.startswith("TIMESTAMP") and precision > 6 and suffix == ".parquet":
            return "taken from a footer that has none"
        if root in ("FLOAT", "DOUBLE") and ours.max is not None and math.isnan(ours.max):
            return "Parquet's footer drops bounds with NaN"
    if root in ("FLOAT", "DOUBLE") and suffix == ".parquet" and ours.min == java.min and ours.max == java.max:
        return "Parquet widens zeros"
    if root in ("FLOAT", "DOUBLE") and suffix == ".orc":
        return "ORC does not count NaN"
    if root == "" and java.null_count is None:
        return "no null counts of nested columns"
    raise AssertionError(f"column {field.name} {suffix}: Java {java}, ours {ours}")


@pytest.mark.given
@pytest.mark.skipif(int(pa.__version__.split(".")[0]) < 23, reason="older Arrow leaves NaN out of both bounds")
def test_statistics_that_apache_paimon_wrote(tmp_path: Path) -> None:
    """G8: our statistics of its data files are its own, in every mode, but for the known limits of its footers."""
    same: Counter[str] = Counter()
    for root in sorted(golden_folder(tmp_path).glob("paimon-java-*/append_*/table")):
        if not root.parent.name.startswith(("append_stats", "append_types", "append_compression")):
            continue
        schemas = {s.id: s for s in (parse_schema(p.read_bytes(), p.name) for p in root.glob("schema/schema-*"))}
        files = {p.name: p for p in root.rglob("bucket-*/data-*")}
        for manifest in root.glob("manifest/manifest-[0-9a-f]*"):
            for entry in read_records(manifest.read_bytes(), manifest.name):
                meta = entry["_FILE"]
                schema, path = schemas[meta["_SCHEMA_ID"]], files.get(meta["_FILE_NAME"])
                fields = file_stats_fields(schema.fields, meta.get("_WRITE_COLS"), meta.get("_VALUE_STATS_COLS"))
                if path is None or fields is None or (path.suffix == ".orc" and "compression" in root.parent.name):
                    continue
                table = _read(path, schema)
                stats = meta["_VALUE_STATS"]
                java = decode_stats(
                    SimpleStats(stats["_MIN_VALUES"], stats["_MAX_VALUES"], tuple(stats["_NULL_COUNTS"])), fields
                )
                modes = {
                    f.name: StatsMode.parse(schema.options.stats_mode_of(f.name, i))
                    for i, f in enumerate(schema.fields)
                }
                covered = [(f, j) for f, j in zip(fields, java, strict=True) if f.name in table.column_names]
                mine, columns = collect_stats(
                    table, [f for f, _ in covered], modes, dense=meta.get("_VALUE_STATS_COLS") is not None
                )
                assert columns is None, "the columns that Java left out are those of mode none"
                for (field, theirs), ours in zip(covered, decode_stats(mine, [f for f, _ in covered]), strict=True):
                    same[_same_or_explained(theirs, ours, field, path.suffix) or "same"] += 1
    assert same["same"] > 150 and same["same"] > 4 * (same.total() - same["same"])


def _read(path: Path, schema: TableSchema) -> pa.Table:
    if path.suffix == ".avro":
        return _avro_table(path, schema)
    if path.suffix == ".orc":
        from pyarrow import orc

        return orc.read_table(path)
    return pq.read_table(path)
