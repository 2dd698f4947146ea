"""lakelatch writes on tables that Apache Paimon (Java, of several versions) made, and Java reads them, and writes on (G8)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from figures import NIGHTLY
from golden_tables import GoldenTable, packed
from interop.agreement import our_rows
from values import assert_same_rows, decode_rows

import lakelatch as ll
from lakelatch.core.errors import Unsupported
from lakelatch.core.rows.types import AtomicType
from lakelatch.table.writing.files.data_writer import FileSettings
from lakelatch.table.writing.writer import check_writable

pytestmark = pytest.mark.java

NOT_WRITTEN = (
    "primary key",
    "in other time zones",
)
"""What a refusal to write to a golden table may name."""


def with_defaults(rows: list[list[Any]], table: ll.Table) -> list[list[Any]]:
    """Nulls as a writer stores them in columns with a default."""
    defaults = [None if f.default_value is None else json.loads(f.default_value) for f in table.schema.fields]
    return [[d if v is None else v for v, d in zip(values, defaults, strict=True)] for values in rows]


TABLES = [t for t in packed("append_") if "cast_failing" not in t]  # Java cannot read that
CHOSEN = TABLES if NIGHTLY else TABLES[::2]


@pytest.mark.parametrize("table_id", CHOSEN)
def test_golden_tables_are_written_on(table_id: str, golden: Callable[[str], GoldenTable], paimon_java: Any) -> None:
    """G8: rows of their own, appended to tables that Java made with all sorts of options; or a refusal that says why."""
    path = golden(table_id).path
    table = ll.open_table(str(path))
    try:
        check_writable(table.schema)
        FileSettings.of(table.schema)
    except Unsupported as error:
        assert any(word in error.message for word in NOT_WRITTEN), error
        return
    java_opens = "paimon-java-0.7" not in table_id  # whose tables without a bucket option Java 1.4.2 does not open
    rows = our_rows(table)
    assert not java_opens or paimon_java.rows(path) == rows
    before = table.verify()  # a hint of 0.7 may be no snapshot id
    variants = any(isinstance(f.type, AtomicType) and f.type.root == "VARIANT" for f in table.schema.fields)
    table.append(
        table.to_arrow() if variants else decode_rows(rows or [[None] * len(table.schema.fields)], table.schema.fields)
    )
    added = with_defaults(rows, table)
    if java_opens and rows:
        assert_same_rows(paimon_java.rows(path), rows + added, table_id)
        paimon_java.commit_rows(path, rows)
        rows = rows + added
    if rows:
        assert_same_rows(our_rows(ll.open_table(str(path))), rows + added, table_id)
    assert table.verify() == before
    table.truncate()
    if java_opens:
        assert paimon_java.rows(path) == []
