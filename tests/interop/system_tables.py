"""Reads system tables of Apache Paimon (Java) and of lakelatch in one form, and compares them.

Owns: which columns Java 1.4.2 has, and what cannot be equal. Must not know: how tables were made.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from interop.java.java_values import reader
from jpype import JClass
from values import assert_same_rows, encode_rows

import lakelatch as ll
from lakelatch.table.system.read import SYSTEM_TABLES

OWN = ("changelog",)
"""Apache Paimon has no such table."""
LATER = {
    "snapshots": 14,
    "partitions": 9,
    "table_indexes": 7,
}
"""How many columns Apache Paimon 1.4.2 has, where later versions have more."""


def names_of(table: ll.Table) -> list[str]:
    """The system tables that a table has in both."""
    tracked = table.options.get("row-tracking.enabled") == "true"
    return [n for n in SYSTEM_TABLES if n not in OWN and (tracked or n != "row_tracking")]


def java_system(
    java: Any, path: Path | str, name: str, *, branch: str | None = None
) -> tuple[list[tuple[str, str]], list[Any]]:
    """Columns (name, SQL type) and encoded rows of a system table as Java reads it."""
    loader = JClass("org.apache.paimon.table.system.SystemTableLoader")
    table = loader.load(name, java.open(path, branch=branch))
    fields = [(str(f.name()), str(f.type().asSQLString())) for f in table.rowType().getFields()]
    builder = table.newReadBuilder()
    readers = [reader(t) for t in table.rowType().getFieldTypes()]
    read = builder.newRead().withIOManager(java._io_manager())
    found = JClass("org.apache.paimon.reader.RecordReaderIterator")(
        read.createReader(builder.newScan().plan().splits())
    )
    rows = []
    try:
        while found.hasNext():
            row = found.next()
            rows.append([get(row, i) for i, get in enumerate(readers)])
    finally:
        found.close()
    return fields, rows


def our_system(table: ll.Table, name: str) -> tuple[list[tuple[str, str]], list[Any]]:
    """The same as lakelatch reads it."""
    from lakelatch.table.system.texts import java_sql

    fields = SYSTEM_TABLES[name].fields(table.schema)
    rows = encode_rows(table.system(name), fields)
    return [(f.name, java_sql(f.type)) for f in fields], rows


def assert_system_tables_agree(
    java: Any, path: Path | str, *, branch: str | None = None, without: Sequence[str] = ()
) -> int:
    """Every system table has the same columns and rows in both, but those `without`; returns how many rows were compared."""
    table = ll.open_table(str(path)) if branch is None else ll.open_table(str(path)).branch(branch)
    compared = 0
    for name in names_of(table):
        our_fields, our_rows = our_system(table, name)
        if name in without:
            continue
        java_fields, java_rows = java_system(java, path, name, branch=branch)
        width = len(java_fields)
        assert our_fields[:width] == java_fields, name
        assert width == LATER.get(name, len(our_fields)), f"{name} has columns that Java lacks: {our_fields[width:]}"
        where = f"{path} system table {name}"
        assert_same_rows(_comparable(name, [r[:width] for r in our_rows]), _comparable(name, java_rows), where)
        compared += len(java_rows)
    return compared


def _comparable(name: str, rows: list[Any]) -> list[Any]:
    """The age of a branch is that of its folder in Java, and of its oldest file here. Java shows the time of a tag with more
    digits than the column's type has."""
    if name == "tags":
        return [[*row[:5], row[5] and row[5][:23], *row[6:]] for row in rows]
    return [row[:1] for row in rows] if name == "branches" else rows
