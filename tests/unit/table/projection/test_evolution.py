"""Reading files of one schema as another: fields by id, types that widen, nested parts, odd physical layouts."""

from __future__ import annotations

import datetime as dt
import io
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakelatch.core.errors import InvalidArgument, TableCorrupt, Unsupported
from lakelatch.core.rows.arrow import arrow_schema, to_arrow
from lakelatch.core.rows.types import (
    ArrayType,
    AtomicType,
    Field,
    MapType,
    MultisetType,
    RowType,
    VectorType,
    parse_type,
    string,
)
from lakelatch.table.projection.plan import plan_projection

INT, BIGINT = AtomicType("INT"), AtomicType("BIGINT")


def read_as(column: Any, old: Any, new: Any) -> Any:
    """A column of a file, written as `old`, read as `new`."""
    plan = plan_projection([Field(0, "c", old)], [Field(0, "c", new)])
    return plan.column("c", pa.record_batch({"c": column}), "data file f")


# ------------------------------------------------------------------------------------------------------------ by id


def test_columns_are_found_by_id_and_named_by_their_own_schema() -> None:
    """G8: a renamed column keeps its values, a name that was used again does not get the old ones."""
    old = [Field(0, "a", INT), Field(1, "b", string()), Field(2, "gone", INT)]
    new = [Field(3, "gone", string()), Field(1, "a", string()), Field(0, "b", BIGINT)]
    batch = pa.record_batch(
        {"a": pa.array([1, None], pa.int32()), "b": ["x", "y"], "gone": pa.array([7, 8], pa.int32())}
    )
    plan = plan_projection(old, new)
    arrays = [plan.column(f.name, batch, "data file f") for f in new]
    assert [a.to_pylist() for a in arrays] == [[None, None], ["x", "y"], [1, None]]
    assert [a.type for a in arrays] == [f.type for f in arrow_schema(new)]


def test_a_column_that_the_file_lacks_is_null() -> None:
    """G8: a file of a migrated table may lack columns that its schema has."""
    fields = [Field(0, "a", INT), Field(1, "b", BIGINT)]
    plan, batch = plan_projection(fields, fields), pa.record_batch({"a": pa.array([1], pa.int32())})
    arrays = [plan.column(name, batch, "data file f") for name in ("a", "b")]
    assert [a.to_pylist() for a in arrays] == [[1], [None]]


def test_nested_fields_are_found_by_id() -> None:
    """G8: fields inside ROW, ARRAY and MAP are added, dropped, renamed and reordered like columns."""
    old_row = RowType((Field(1, "x", INT), Field(2, "y", string()), Field(3, "z", INT)))
    new_row = RowType((Field(4, "x", string()), Field(3, "zz", BIGINT), Field(1, "y", INT)))
    old = MapType(string(False), ArrayType(old_row))
    new = MapType(string(False), ArrayType(new_row))
    values = [[("k", [{"x": 1, "y": "a", "z": 2}, None])], None, [], [("l", None), ("m", [])]]
    result = read_as(pa.array(values, to_arrow(old)), old, new)
    assert result.type == to_arrow(new)
    result.validate(full=True)
    assert result.to_pylist() == [[("k", [{"x": None, "zz": 2, "y": 1}, None])], None, [], [("l", None), ("m", [])]]


def test_a_row_without_remaining_fields_is_null() -> None:
    """G8: as Apache Paimon reads it (format/data-files §5)."""
    old, new = RowType((Field(1, "x", INT),)), RowType((Field(2, "x", INT),))
    assert read_as(pa.array([{"x": 1}], to_arrow(old)), old, new).to_pylist() == [None]


_NESTED = MapType(string(False), RowType((Field(1, "a", ArrayType(INT)), Field(2, "b", string()))))
_WIDER = MapType(string(False), RowType((Field(2, "bb", string()), Field(1, "a", ArrayType(BIGINT)))))
_row = st.none() | st.fixed_dictionaries(
    {"a": st.none() | st.lists(st.none() | st.integers(-9, 9), max_size=3), "b": st.none() | st.text(max_size=2)}
)
_map = st.none() | st.lists(st.tuples(st.text(max_size=2), _row), max_size=3)


@settings(max_examples=60, deadline=None)
@given(values=st.lists(_map, max_size=8), start=st.integers(0, 8), count=st.integers(0, 8))
def test_slices_of_nested_columns_convert_to_slices(values: list[Any], start: int, count: int) -> None:
    """G8: what a slice of a nested array shows is converted, no more and no less."""
    whole = pa.array(values, to_arrow(_NESTED))
    result = read_as(whole.slice(start, count), _NESTED, _WIDER)
    result.validate(full=True)
    assert result.to_pylist() == read_as(whole, _NESTED, _WIDER).to_pylist()[start : start + count]


# ------------------------------------------------------------------------------------------------------------- types

_D = dt.datetime
WIDENINGS = [
    ("TINYINT", "SMALLINT", [-128, None, 127]),
    ("TINYINT", "BIGINT", [-128, 127]),
    ("SMALLINT", "INT", [-(2**15), 2**15 - 1]),
    ("INT", "BIGINT", [-(2**31), 2**31 - 1]),
    ("FLOAT", "DOUBLE", [0.5, float("inf"), None]),
    ("DECIMAL(9, 2)", "DECIMAL(18, 4)", [Decimal("-1234567.89"), None]),
    ("DECIMAL(9, 2)", "DECIMAL(30, 10)", [Decimal("1234567.89")]),
    ("TIMESTAMP(3)", "TIMESTAMP(6)", [_D(1969, 12, 31, 23, 59, 59, 999000), _D(9999, 12, 31)]),
    ("TIMESTAMP(0)", "TIMESTAMP(3)", [_D(2024, 1, 1)]),
    ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "TIMESTAMP(6) WITH LOCAL TIME ZONE", [None]),
    ("TIME(0)", "TIME(3)", [dt.time(1, 2, 3)]),
    ("VARCHAR(5)", "VARCHAR(10)", ["abcde", ""]),
    ("CHAR(3)", "STRING", ["a  "]),
    ("VARBINARY(2)", "BYTES", [b"\x00\xff"]),
    ("BINARY(2)", "VARBINARY(3)", [b"ab"]),
    ("INT NOT NULL", "INT", [1]),
]


@pytest.mark.parametrize(("old", "new", "values"), WIDENINGS, ids=lambda v: v if isinstance(v, str) else "")
def test_widening_keeps_every_value(old: str, new: str, values: list[Any]) -> None:
    """G8: a column that was widened reads as the new type, inside of collections too."""
    old_type, new_type = parse_type(old), parse_type(new)
    result = read_as(pa.array(values, to_arrow(old_type)), old_type, new_type)
    assert result.type == to_arrow(new_type)
    assert result.to_pylist() == values
    nested = read_as(pa.array([values], to_arrow(ArrayType(old_type))), ArrayType(old_type), ArrayType(new_type))
    assert nested.to_pylist() == [values]


CASTS = [
    ("BIGINT", "TINYINT", [300, None, -1], [44, None, -1]),
    ("DECIMAL(10, 3)", "DECIMAL(4, 2)", [Decimal("-1.235"), Decimal("99.995")], [Decimal("-1.24"), None]),
    ("CHAR(3)", "CHAR(5)", ["abc"], ["abc  "]),
    ("STRING", "INT", ["12", "-7", None], [12, -7, None]),
    ("DOUBLE", "STRING", [1e10, -0.0, 0.1], ["1.0E10", "-0.0", "0.1"]),
    ("BOOLEAN", "DECIMAL(3, 1)", [True], [Decimal("1.0")]),
    ("TIMESTAMP(6)", "DATE", [_D(1969, 12, 31, 23, 59, 59, 999999)], [dt.date(1969, 12, 31)]),
    ("TIMESTAMP(6)", "STRING", [_D(2024, 1, 2, 3, 4, 5, 600000)], ["2024-01-02 03:04:05.600000"]),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "values", "expected"), CASTS, ids=lambda v: v if isinstance(v, str) else "")
def test_casts_reach_into_collections(old: str, new: str, values: list[Any], expected: list[Any]) -> None:
    """G8: a column, an element, a value and a field of that type (tests/interop holds every pair of types to Java)."""
    old_type, new_type = parse_type(old), parse_type(new)
    assert read_as(pa.array(values, to_arrow(old_type)), old_type, new_type).to_pylist() == expected
    for wrap, value in (
        (lambda t: ArrayType(t), lambda v: [v]),
        (lambda t: MapType(string(False), t), lambda v: [("k", v)]),
        (lambda t: RowType((Field(1, "f", t),)), lambda v: {"f": v}),
    ):
        column = pa.array([value(v) for v in values], to_arrow(wrap(old_type)))
        for part in (column, column.slice(1)):
            result = read_as(part, wrap(old_type), wrap(new_type))
            assert result.type == to_arrow(wrap(new_type))
            result.validate(full=True)
            assert result.to_pylist() == [value(v) for v in expected][len(values) - len(part) :]


def test_collections_and_slices_of_them_become_text() -> None:
    """G8: as Apache Paimon prints them."""
    old = ArrayType(MapType(string(False), INT))
    column = pa.array([[[("a", 1), ("b", None)], None], [], None, [[]]], to_arrow(old))
    texts = ["[{a -> 1, b -> null}, null]", "[]", None, "[{}]"]
    assert read_as(column, old, string()).to_pylist() == texts
    assert read_as(column.slice(1), old, string()).to_pylist() == texts[1:]


def test_a_text_that_cannot_be_cast_is_reported_with_its_column() -> None:
    """G8: Apache Paimon fails such a read, too; lakelatch says which value and what to do."""
    with pytest.raises(InvalidArgument, match=r"data file f: column 'c'.*' -7 ' is not a valid INT") as caught:
        read_as(pa.array(["1", " -7 "]), string(), INT)
    assert "change the type back" in caught.value.next_step


@pytest.mark.parametrize(
    ("old", "new"),
    [("DATE", "INT"), ("BOOLEAN", "DATE"), ("FLOAT", "BOOLEAN"), ("TIMESTAMP(3)", "SMALLINT"), ("STRING", "VARIANT")],
)
def test_changes_without_a_cast_are_refused_by_name(old: str, new: str) -> None:
    """G8: the message names column and both types."""
    with pytest.raises(Unsupported) as caught:
        plan_projection([Field(0, "old_name", parse_type(old))], [Field(0, "price", parse_type(new))], "schema 0")
    for word in ("'price'", f"from {old} to {new}", "schema 0"):
        assert word in caught.value.message


@pytest.mark.parametrize("old", ["TIMESTAMP(6)", "TIMESTAMP(9)"])
def test_a_time_that_arrow_cannot_hold_is_refused(old: str) -> None:
    """Nanoseconds end in 2262: the value is right, Arrow's form of it is too small; never a wrapped one."""
    far = pa.array([dt.datetime(9999, 12, 31)], pa.timestamp("us"))
    with pytest.raises(Unsupported, match="column 'c' holds a value that Arrow"):
        read_as(far, parse_type(old), parse_type("TIMESTAMP(9)"))


def test_a_change_inside_a_row_names_its_path() -> None:
    """G8: the message says which part of the column it is."""
    old = RowType((Field(1, "x", ArrayType(string())),))
    new = RowType((Field(1, "y", ArrayType(AtomicType("VARIANT"))),))
    with pytest.raises(Unsupported, match=r"column 'c'\.y\.element"):
        plan_projection([Field(0, "c", old)], [Field(0, "c", new)])
    with pytest.raises(Unsupported, match=r"ARRAY<STRING>"):
        plan_projection([Field(0, "c", old.fields[0].type)], [Field(0, "c", INT)])


def test_a_refused_column_does_not_matter_to_others() -> None:
    """G8: only columns that are read must be readable."""
    old = [Field(0, "a", string()), Field(1, "b", INT)]
    plan = plan_projection(old, [Field(1, "b", BIGINT)])
    assert plan.column("b", pa.record_batch({"b": pa.array([1], pa.int32())}), "f").to_pylist() == [1]


# ---------------------------------------------------------------------------------------------------- odd layouts

_MOMENT = dt.datetime(1969, 12, 31, 23, 59, 59, 999999)
LAYOUTS = [
    ("STRING", pa.array(["a", None]).dictionary_encode(), ["a", None]),
    ("STRING", pa.array(["a"], pa.large_string()), ["a"]),
    ("STRING", pa.array(["a"], pa.string_view()), ["a"]),
    ("STRING", pa.array([b"a"], pa.binary()), ["a"]),
    ("BYTES", pa.array([b"ab"], pa.binary(2)), [b"ab"]),
    ("TINYINT", pa.array([1], pa.int32()), [1]),
    ("TIME(3)", pa.array([3_600_000], pa.int32()), [dt.time(1)]),
    ("TIME(3)", pa.array([dt.time(1)], pa.time64("us")), [dt.time(1)]),
    ("DATE", pa.array([1], pa.int32()), [dt.date(1970, 1, 2)]),
    ("TIMESTAMP(6)", pa.array([_MOMENT], pa.timestamp("ns")), [_MOMENT]),
    ("TIMESTAMP(6)", pa.array([_MOMENT], pa.timestamp("us", "UTC")), [_MOMENT]),
    ("TIMESTAMP(3)", pa.array([_MOMENT], pa.timestamp("us")), [_MOMENT.replace(microsecond=999000)]),
    (
        "TIMESTAMP(6) WITH LOCAL TIME ZONE",
        pa.array([_MOMENT], pa.timestamp("ns")),
        [_MOMENT.replace(tzinfo=dt.timezone.utc)],
    ),
    ("DECIMAL(5, 2)", pa.array([Decimal("1.50")], pa.decimal128(20, 2)), [Decimal("1.50")]),
]


@pytest.mark.parametrize(("data_type", "array", "values"), LAYOUTS)
def test_odd_layouts_become_the_column_s_type(data_type: str, array: Any, values: list[Any]) -> None:
    """G8: whatever Arrow layout a writer used, the result has the table's type."""
    column = parse_type(data_type)
    result = read_as(array, column, column)
    assert result.type == to_arrow(column)
    assert result.to_pylist() == values


@pytest.mark.parametrize(
    ("data_type", "array"),
    [
        ("INT", pa.array(["1"])),
        ("INT", pa.array([2**40])),
        ("STRING", pa.array([b"\xff\xfe"])),
        ("ROW<a INT>", pa.array([1])),
        ("ARRAY<INT>", pa.array([1])),
        ("MAP<STRING, INT>", pa.array([1])),
        ("TIMESTAMP(6)", pa.array([1])),
        ("DECIMAL(3, 2)", pa.array([Decimal("100.00")])),
    ],
)
def test_a_file_that_contradicts_its_schema_is_corrupt(data_type: str, array: Any) -> None:
    """One error that names file and column, never a guess at what was meant."""
    nested = {
        "ROW<a INT>": RowType((Field(1, "a", INT),)),
        "ARRAY<INT>": ArrayType(INT),
        "MAP<STRING, INT>": MapType(string(False), INT),
    }
    column = nested.get(data_type) or parse_type(data_type)
    with pytest.raises(TableCorrupt, match="data file f: column 'c'"):
        read_as(array, column, column)


def test_vectors_and_multisets_are_read_from_what_files_hold() -> None:
    """G8: a VECTOR lies as a plain list in a file."""
    vector = VectorType(AtomicType("FLOAT"), 2)
    result = read_as(pa.array([[1.0, 2.0], None], pa.list_(pa.float32())), vector, vector)
    assert (result.type, result.to_pylist()) == (to_arrow(vector), [[1.0, 2.0], None])
    bag = MultisetType(string())
    assert read_as(pa.array([[("a", 2)]], to_arrow(bag)), bag, bag).to_pylist() == [[("a", 2)]]


# ------------------------------------------------------------------------------------------------------------ leaves


def test_only_leaves_that_are_wanted_are_read() -> None:
    """Projection reaches into ROW, ARRAY and MAP: leaves of dropped fields are not decoded."""
    row = RowType((Field(1, "x", INT), Field(2, "y", string()), Field(3, "z", RowType((Field(4, "w", INT),)))))
    fields = [Field(0, "m", MapType(string(False), ArrayType(row))), Field(5, "other", INT), Field(6, "s", row)]
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_batches([], schema=arrow_schema(fields)), sink)
    file = pq.ParquetFile(pa.BufferReader(sink.getvalue()))
    kept = RowType((Field(3, "z", RowType((Field(4, "w", INT),))),))
    plan = plan_projection(fields, [Field(0, "m", MapType(string(False), ArrayType(kept))), Field(6, "s", kept)])
    paths = [file.schema.column(i).path for i in plan.leaves(file.schema_arrow)]
    assert paths == ["m.key_value.key", "m.key_value.value.list.element.z.w", "s.z.w"]
