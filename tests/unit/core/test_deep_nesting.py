"""Every parser of what others write has a limit for what is inside each other: an error with a name, and no RecursionError."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest

import lakelatch as ll
from lakelatch.core.errors import InvalidArgument, LakelatchError, TableCorrupt, Unsupported
from lakelatch.core.expressions.sql import parse_expression
from lakelatch.core.json_text import loads, parse_json
from lakelatch.core.metadata.schema import parse_schema
from lakelatch.core.rows.partition_times import PartitionTimes
from lakelatch.core.rows.type_text import parse_sql_type
from lakelatch.core.rows.types import Field, parse_type, string
from lakelatch.table.formats.parquet.thrift_compact import decode_struct

DEEP = (60, 101, 500, 2_000)


def array(depth: int) -> str:
    return '{"type":"ARRAY","element":' * depth + '"INT"' + "}" * depth


def row(depth: int) -> str:
    return '{"type":"ROW","fields":[{"id":1,"name":"f","type":' * depth + '"INT"' + "}]}" * depth


def schema(kind: str) -> bytes:
    fields = f'[{{"id":0,"name":"a","type":{kind}}}]'
    rest = '"highestFieldId":1,"partitionKeys":[],"primaryKeys":[],"options":{},"timeMillis":0'
    return f'{{"version":3,"id":0,"fields":{fields},{rest}}}'.encode()


def times(formatter: str) -> Any:
    made = PartitionTimes((Field(0, "dt", string()),), None, formatter)
    return made.of(["2024"])


PARSERS: dict[str, tuple[Callable[[int], Any], type[Exception]]] = {
    "JSON of a table": (lambda n: parse_json("[" * n + "]" * n), ValueError),
    "JSON of rows": (lambda n: loads('{"a":' * n + "1" + "}" * n), ValueError),
    "a schema with arrays": (lambda n: parse_schema(schema(array(n)), "schema-0"), TableCorrupt),
    "a schema with rows": (lambda n: parse_schema(schema(row(n)), "schema-0"), TableCorrupt),
    "a type as text": (lambda n: parse_sql_type("ARRAY<" * n + "INT" + ">" * n), InvalidArgument),
    "a formatter of times": (lambda n: times("[" * n + "yyyy"), Unsupported),
    "an expression": (lambda n: parse_expression("(" * n + "1" + ")" * n), InvalidArgument),
    "a Thrift struct": (lambda n: decode_struct(b"\x1c" * n + b"\0" * (n + 1)), ValueError),
    "a Thrift list": (lambda n: decode_struct(b"\x19" + b"\x19" * n + b"\x05" + b"\0" * n), ValueError),
}


@pytest.mark.parametrize("name", PARSERS)
def test_what_is_nested_too_deeply_is_an_error(name: str) -> None:
    parse, expected = PARSERS[name]
    found = []
    for depth in DEEP:
        try:
            parse(depth)
        except expected as error:
            found.append(error)
    assert found, "the deepest at least"


def test_types_of_a_schema_have_one_limit_whatever_the_stack() -> None:
    """What is read can be shown, compared and written again."""
    kind = parse_type(json.loads(array(100)))
    assert kind == parse_type(json.loads(array(100))) and repr(kind)
    for deep in (array(102), row(102)):
        with pytest.raises(TableCorrupt, match="more than 100 types inside each other"):
            parse_type(json.loads(deep), "schema-0")
    assert sys.getrecursionlimit() >= 1000


def test_a_table_with_such_a_formatter_is_refused_by_name() -> None:
    import pyarrow as pa

    options = {"partition.timestamp-formatter": "[" * 500 + "yyyy-MM-dd", "partition.expiration-time": "1 d"}
    rows = pa.table({"dt": ["2024-01-01"], "v": [1]})
    with pytest.raises(LakelatchError, match=r"partition\.timestamp-formatter"):
        table = ll.create_table("memory://deep/t", rows.schema, partition_by=["dt"], options=options)
        table.append(rows)
        table.expire_partitions()
