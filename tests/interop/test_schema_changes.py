"""Schema changes by both sides: Apache Paimon reads tables after lakelatch's changes, and allows and refuses the same types."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from values import assert_same_rows

import lakelatch as ll
from lakelatch.core.casts.allowed import retyping
from lakelatch.core.rows.types import parse_type, sql, type_json

pytestmark = pytest.mark.java

TYPES = [
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL(9, 2)",
    "CHAR(3)",
    "VARCHAR(5)",
    "STRING",
    "STRING NOT NULL",
    "BINARY(3)",
    "VARBINARY(5)",
    "BYTES",
    "DATE",
    "TIME(3)",
    "TIMESTAMP(3)",
    "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "VARIANT",
    {"type": "ARRAY", "element": "INT"},
    {"type": "MAP", "key": "INT NOT NULL", "value": "INT"},
]


def test_the_same_types_may_be_changed_as_in_java(paimon_java: Any) -> None:
    """Its rule table and its executors both allow a change: every pair of types."""
    from jpype import JClass

    casts = JClass("org.apache.paimon.types.DataTypeCasts")
    executors = JClass("org.apache.paimon.casting.CastExecutors")
    ours: dict[str, str | None] = {}
    theirs: dict[str, str | None] = {}
    for old, new in product(map(parse_type, TYPES), repeat=2):
        if old == new or (
            retyping(old, new) == "implicit" and old.nullable > new.nullable
        ):  # nullability is a change of its own
            continue
        pair = f"{sql(old)} -> {sql(new)}"
        java_old, java_new = paimon_java.data_type(type_json(old)), paimon_java.data_type(type_json(new))
        able = executors.resolve(java_old, java_new) is not None
        implicit = able and casts.supportsCast(java_old, java_new, False)
        explicit = able and casts.supportsCast(java_old, java_new, True)
        theirs[pair] = "implicit" if implicit else "explicit" if explicit else None
        ours[pair] = retyping(old, new)
    differing = [
        f"{pair}: {allowed} here, {theirs[pair]} in Java" for pair, allowed in ours.items() if allowed != theirs[pair]
    ]
    assert not differing, "\n".join(differing)


def test_java_reads_and_continues_after_lakelatch_changes(tmp_path: Path, paimon_java: Any) -> None:
    """G8: columns renamed, added with a default, moved, nested, retyped; then a change by Java, and rows of both."""
    path = tmp_path / "t"
    row = {"type": "ROW", "fields": [{"id": 3, "name": "x", "type": "INT"}]}
    table = ll.create_table(str(path), ll.Schema([("id", "INT"), ("name", "STRING"), ("r", row)]))
    table.append(pa.table({"id": [1], "name": ["a"], "r": [{"x": 7}]}).cast(table.arrow_schema))
    table.alter(
        ll.rename_column("name", "label"),
        ll.add_column("price", "DECIMAL(9, 2)", default="1.50", after="id", comment="in euros"),
        ll.add_column("r.y", pa.struct([("deep", pa.int64())])),
        ll.update_type("id", "BIGINT"),
        ll.set_comment("flights"),
    )
    assert_same_rows(paimon_java.rows(path), [[1, None, "a", [7, None]]])
    assert_same_rows(paimon_java.rows(path, snapshot=1), [[1, "a", [7]]])
    read = paimon_java.schema(path)
    assert [f["id"] for f in read["fields"]] == [0, 4, 1, 2]
    paimon_java.commit_rows(path, [[2, None, "b", [8, [9]]]], commit_user="java", identifier=1)
    paimon_java.alter(path, "renameColumn", "label", "title")
    reopened = ll.open_table(str(path))
    reopened.alter(ll.drop_column("r"))
    reopened.append(pa.table({"id": [3], "title": ["c"]}))
    expected = [[1, None, "a"], [2, "1.50", "b"], [3, "1.50", "c"]]
    assert_same_rows(paimon_java.rows(path), expected)
    found = reopened.to_arrow().sort_by("id").to_pylist()
    assert [[r["id"], r["price"] and str(r["price"]), r["title"]] for r in found] == expected
