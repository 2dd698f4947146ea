"""Filters on the fields of ROW columns: the rows that they keep, and the files that they leave out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.core.errors import InvalidArgument
from lakelatch.core.expressions.binding import bind, condition_of
from lakelatch.core.expressions.tree import Comparison

INNER = pa.struct([("n", pa.int64()), ("a b", pa.string())])
SCHEMA = pa.schema(
    [
        ("id", pa.int32()),
        ("st", pa.struct([("a", pa.int32()), ("t", pa.string()), ("in", INNER)])),
        ("m", pa.map_(pa.string(), pa.int32())),
    ]
)
ROWS = [
    {"id": 0, "st": {"a": 1, "t": "ax", "in": {"n": 10, "a b": "x"}}, "m": [("k", 1)]},
    {"id": 1, "st": {"a": None, "t": "bx", "in": None}, "m": []},
    {"id": 2, "st": None, "m": None},
    {"id": 3, "st": {"a": 3, "t": None, "in": {"n": None, "a b": "y"}}, "m": None},
    {"id": 4, "st": {"a": 4, "t": "ay", "in": {"n": 40, "a b": None}}, "m": None},
]


def inner(row: dict[str, Any], *path: str) -> Any:
    value: Any = row
    for name in path:
        value = None if value is None else value[name]
    return value


CASES: list[tuple[str, Any, Callable[[dict[str, Any]], bool | None]]] = [
    ("st.a = 3", ll.col("st.a") == 3, lambda r: inner(r, "st", "a") == 3),
    ("st.a <> 3", ll.col("st.a") != 3, lambda r: inner(r, "st", "a") not in (3, None)),
    ("st.a > 1.5", ll.col("st.a") > 1.5, lambda r: (inner(r, "st", "a") or 0) > 1.5),
    ("NOT st.a IN (3)", ~ll.col("st.a").is_in([3]), lambda r: inner(r, "st", "a") not in (3, None)),
    ("st.a IS NULL", ll.col("st.a").is_null(), lambda r: inner(r, "st", "a") is None),
    ("st.a IS NOT NULL", ll.col("st.a").is_not_null(), lambda r: inner(r, "st", "a") is not None),
    ("st.t LIKE 'a%'", ll.col("st.t").starts_with("a"), lambda r: (inner(r, "st", "t") or "").startswith("a")),
    ("st.t BETWEEN 'ay' AND 'z'", ll.col("st.t").between("ay", "z"), lambda r: (inner(r, "st", "t") or "") >= "ay"),
    ("10 < `st`.`in`.n", ll.col("st.in.n") > 10, lambda r: (inner(r, "st", "in", "n") or 0) > 10),
    ("st.in.\"a b\" = 'y'", ll.col("st.in.a b") == "y", lambda r: inner(r, "st", "in", "a b") == "y"),
    (
        "st.a = 1 OR id = 2 AND st IS NULL",
        (ll.col("st.a") == 1) | ((ll.col("id") == 2) & ll.col("st").is_null()),
        lambda r: inner(r, "st", "a") == 1 or r["id"] == 2,
    ),
]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_fields_of_rows_are_tested_like_columns(tmp_path: Path, file_format: str) -> None:
    """Text and `col()` keep the same rows, of several files, also after a field was renamed and one was added."""
    table = ll.create_table(str(tmp_path), SCHEMA, options={"file.format": file_format})
    for chunk in (ROWS[:2], ROWS[2:3], ROWS[3:]):
        table.append(pa.Table.from_pylist(chunk, SCHEMA))
    for text, predicate, keeps in CASES:
        expected = [row["id"] for row in ROWS if keeps(row)]
        for where in (text, predicate):
            assert table.to_arrow(columns=["id"], where=where)["id"].to_pylist() == expected, text
    table.alter(ll.rename_column("st.a", "b"), ll.add_column("st.late", "STRING"))
    assert table.to_arrow(columns=["id"], where="st.b = 3")["id"].to_pylist() == [3]
    assert table.to_arrow(columns=["id"], where="st.late IS NULL").num_rows == 5
    with pytest.raises(InvalidArgument, match="column 'st' has no field 'a'"):
        table.to_arrow(where="st.a = 3")


def test_files_whose_rows_are_all_null_are_left_out(tmp_path: Path) -> None:
    """Statistics say nothing about a field, except where its ROW is always null."""
    table = ll.create_table(str(tmp_path), SCHEMA)
    for chunk in (ROWS[:2], ROWS[2:3], ROWS[3:]):
        table.append(pa.Table.from_pylist(chunk, SCHEMA))
    pruned = {where: table.plan(where=where).files_pruned_by_statistics for where in ("st.a = 100", "st.a IS NULL")}
    assert pruned == {"st.a = 100": 1, "st.a IS NULL": 0}
    assert table.plan(where="NOT st.a IS NULL").files_pruned_by_statistics == 1
    assert table.to_arrow(columns=["id"], where="st.a IS NULL")["id"].to_pylist() == [1, 2]


def test_a_column_whose_name_has_a_dot_comes_first(tmp_path: Path) -> None:
    schema = pa.schema([("st.a", pa.int32()), ("st", pa.struct([("a", pa.int32()), ("x.y", pa.int32())]))])
    table = ll.create_table(str(tmp_path), schema)
    table.append(pa.Table.from_pylist([{"st.a": 1, "st": {"a": 2, "x.y": 3}}], schema))
    found = {
        text: table.to_arrow(where=where).num_rows
        for text, where in {
            "the column": ll.col("st.a") == 1,
            "not the field": ll.col("st.a") == 2,
            "the quoted column": "`st.a` = 1",
            "the field": "st.a = 2",
            "a dot in a field": ll.col("st.`x.y`") == 3,
            "the same as text": "st.`x.y` = 3",
        }.items()
    }
    assert found == dict.fromkeys(found, 1) | {"not the field": 0}


def test_a_plan_prints_the_field_so_that_it_can_be_parsed(tmp_path: Path) -> None:
    fields = ll.create_table(str(tmp_path), SCHEMA).schema.fields
    bound = condition_of("st.in.`a b` = 'x' AND st.a > 1.5", fields)
    assert str(bound) == "st.in.`a b` = 'x' AND st.a > 1"
    assert condition_of(str(bound), fields) == bind(bound, fields) == bound
    assert Comparison("=", "st", (1,), ("a",)) == bind(ll.col("st.a") == 1, fields)


@pytest.mark.parametrize(
    ("where", "problem"),
    [
        ("st.z = 1", "column 'st' has no field 'z'"),
        ("m.k = 1", "column 'm' is of type MAP<STRING NOT NULL, INT>, so there is no 'm.k'"),
        ("id.a = 1", "column 'id' is of type INT, so there is no 'id.a'"),
        ("no.a = 1", "there is no column 'no.a'"),
        ("st.a LIKE 'x%'", "column 'st.a' is of type INT: starts_with needs a column of text"),
        ("st.a = 'x'", "column 'st.a' is of type INT, and 'x' does not fit it"),
        ("st.in = 1", "column 'st.in' is of type ROW"),
        ("st. = 1", "a name is expected after the dot"),
    ],
)
def test_wrong_paths_are_refused_by_name(tmp_path: Path, where: str, problem: str) -> None:
    table = ll.create_table(str(tmp_path), SCHEMA)
    with pytest.raises(InvalidArgument) as caught:
        table.plan(where=where)
    assert problem in str(caught.value)
