"""Types that people write as SQL text, with their parts."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.core.errors import InvalidArgument
from lakelatch.core.rows.type_text import parse_sql_type
from lakelatch.core.rows.types import RowType, sql, walk_fields


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("array<int>", "ARRAY<INT>"),
        (" ARRAY < INT NOT NULL > NOT NULL", "ARRAY<INT NOT NULL> NOT NULL"),
        ("ARRAY<ARRAY<DECIMAL(10,2)>>", "ARRAY<ARRAY<DECIMAL(10, 2)>>"),
        ("MULTISET<STRING>", "MULTISET<STRING>"),
        ("VECTOR<FLOAT, 3>", "VECTOR<FLOAT, 3>"),
        ("map<string,array<timestamp(3)>> null", "MAP<STRING, ARRAY<TIMESTAMP(3)>>"),
        (
            "MAP<INT, TIMESTAMP(6) WITH LOCAL TIME ZONE NOT NULL>",
            "MAP<INT, TIMESTAMP(6) WITH LOCAL TIME ZONE NOT NULL>",
        ),
        ("ROW<a INT, `b c` STRING NOT NULL>", "ROW<a INT, b c STRING NOT NULL>"),
        ("STRUCT<a: INT COMMENT 'it''s <a>, b', b: ROW<c DATE>>", "ROW<a INT, b ROW<c DATE>>"),
        ("bigint", "BIGINT"),
    ],
)
def test_types_with_parts_are_read_from_text(text: str, printed: str) -> None:
    assert sql(parse_sql_type(text)) == printed


def test_comments_and_ids_of_fields() -> None:
    kind = parse_sql_type("ROW<a INT COMMENT 'it''s, <a>', b ROW<c INT, d INT>>")
    assert isinstance(kind, RowType)
    assert kind.fields[0].description == "it's, <a>"
    assert len({f.id for f in walk_fields(kind.fields)}) == 4


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("LIST<INT>", "unknown type 'LIST<INT>'"),
        ("ARRAY<INTEGERS>", "unknown type 'INTEGERS'"),
        ("ARRAY<INT, INT>", "ARRAY takes 1 parts, and 'ARRAY<INT, INT>' has 2"),
        ("MAP<INT>", "MAP takes 2 parts"),
        ("ARRAY<INT>>", "brackets"),
        ("ARRAY<INT", "unknown type"),
        ("ROW<a>", "'a' is not a field of a ROW"),
        ("ROW<>", "'' is not a field of a ROW"),
        ("VECTOR<FLOAT, x>", "the length of a VECTOR is a number"),
        ("ARRAY<" * 80 + "INT" + ">" * 80, "more than 50 types inside each other"),
    ],
)
def test_a_wrong_type_is_refused_with_its_column(text: str, problem: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        ll.Schema([("c", text)])
    assert problem in caught.value.message and "column 'c'" in caught.value.message
    assert "ARRAY<INT>" in caught.value.next_step


def test_a_table_is_made_and_altered_with_types_as_text(tmp_path: Path) -> None:
    schema = ll.Schema([("id", "INT"), ("st", "ROW<a INT, b ROW<c STRING>>"), ("l", "ARRAY<ROW<x INT>>")])
    table = ll.create_table(str(tmp_path / "t"), schema)
    ids = [f.id for f in walk_fields(table.schema.fields)]
    assert len(ids) == len(set(ids)) == 7 and max(ids) == table.schema.highest_field_id
    table.alter(ll.add_column("m", "MAP<STRING, INT>"), ll.add_column("late", "ROW<y INT>"))
    row = {"id": 1, "st": {"a": 2, "b": {"c": "x"}}, "l": [{"x": 3}], "m": [("k", 4)], "late": {"y": 5}}
    table.append(pa.Table.from_pylist([row], ll.open_table(table.url).arrow_schema))
    assert ll.open_table(table.url).to_arrow().to_pylist() == [row]
