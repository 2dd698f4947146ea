"""A condition keeps the rows that DuckDB keeps, in reads and in deletes, whichever files are left out by it."""

from __future__ import annotations

import datetime as dt
import math
import os
import random
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.core.expressions.binding import condition_of
from lakelatch.core.expressions.evaluate import to_arrow_mask
from lakelatch.table.reading.arrow import read_batches
from lakelatch.table.rowlevel.append_table import AppendChange
from lakelatch.table.rowlevel.edit import Edit

CONDITIONS = 5_200
AT_ONCE = 100
EACH = 1 if os.environ.get("LAKELATCH_NIGHTLY") else 8
"""Of how many conditions one is read and deleted by."""
_NESTED = pa.struct([("a", pa.int32()), ("d", pa.float64()), ("s", pa.string())])
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int32(), False),
        ("i", pa.int32()),
        ("l", pa.int64()),
        ("f", pa.float32()),
        pa.field("d", pa.float64(), False),
        ("m", pa.decimal128(12, 2)),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("a", pa.date32()),
        ("t", pa.timestamp("us")),
        ("st", _NESTED),
        ("g", pa.float64()),
    ]
)
VALUES: dict[str, list[Any]] = {
    "i": [None, -(2**31), -1, 0, 1, 2, 7, 2**31 - 1],
    "l": [None, -(2**63), -1, 0, 1, 2**53 + 1, 2**63 - 1],
    "f": [None, math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5, -1.5],
    "d": [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5, -1.5, 1e300, 5e-324],
    "m": [None, Decimal("-1.50"), Decimal("0.00"), Decimal("1.25"), Decimal("9999999999.99")],
    "s": [None, "", "a", "it's", 'say "x"', "a%b_c", "ä", "\U0001f600", "A", " a ", "prefix-of-sixteen-and-more"],
    "b": [None, True, False],
    "a": [None, dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(9999, 12, 31)],
    "t": [None, dt.datetime(1, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), dt.datetime(2024, 2, 29, 12)],
    "g": [None, 0.0, -0.0, 1.5, math.nan],
}
TABLES: dict[str, dict[str, Any]] = {
    "partitions and indexes": {
        "partition_by": ["g"],
        "options": {
            "deletion-vectors.enabled": "true",
            "file-index.bloom-filter.columns": "d,s",
            "file-index.bitmap.columns": "i,f",
            "file-index.range-bitmap.columns": "l,m",
            "file-index.in-manifest-threshold": "1 mb",
        },
    },
    "buckets": {"options": {"bucket": "4", "bucket-key": "d", "file-index.range-bitmap.columns": "d,f"}},
}


def _rows() -> pa.Table:
    dice, rows = random.Random(3), []
    for number in range(72):
        row = {name: dice.choice(values) for name, values in VALUES.items()}
        inner = {"a": dice.choice(VALUES["i"]), "d": dice.choice(VALUES["d"]), "s": dice.choice(VALUES["s"])}
        rows.append(row | {"id": number, "st": dice.choice([inner, inner, inner, None])})
    return pa.Table.from_pylist(rows, schema=SCHEMA)


class _Conditions:
    """Random conditions as text that DuckDB and we understand alike."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)

    def any(self, depth: int = 0) -> str:
        kind = self._dice.random()
        if depth < 3 and kind < 0.45:
            op = self._dice.choice(["AND", "OR"])
            return f"({self.any(depth + 1)} {op} {self.any(depth + 1)})"
        return f"NOT ({self.any(depth + 1)})" if depth < 3 and kind < 0.55 else self._test()

    def _test(self) -> str:
        pick = self._dice.choice
        column = pick(["i", "l", "f", "d", "m", "s", "b", "a", "t", "st.a", "st.d", "st.s", "g", "d", "f"])
        op, literal = pick(["=", "<>", "<", "<=", ">", ">="]), self._literal(column)
        number = pick(["i", "f", "d", "st.a", "st.d"])
        text = pick(["s", "st.s"])
        forms = [
            f"{column} {op} {literal}",
            f"{literal} {op} {column}",
            f"{column} IS {pick(['', 'NOT '])}NULL",
            f"{column} {pick(['', 'NOT '])}IN ({literal}, {self._literal(column)}, {pick(['NULL', self._literal(column)])})",
            f"{column} {pick(['', 'NOT '])}BETWEEN {literal} AND {self._literal(column)}",
            f"{number} + 0 {op} {self._literal(number)}",
            f"- {pick(['d', 'f', 'st.d'])} * 1.5 {op} {pick(['i', 'd', 'st.d'])}",
            f"{pick(['f', 'd', 'g', 'st.d'])} {op} {pick(['f', 'd', 'g', 'i', 'st.d'])}",
            f"{text} {pick(['', 'NOT '])}LIKE {pick(['$a%$', '$%a$', '$%a%$', '$_$', '$$', '$it$$s$'])}".replace(
                "$", "'"
            ),
            f"{text} LIKE 'a!%b!_%' ESCAPE '!'",
            f"lower({text}) {op} {self._literal(text)}",
            f"length({text}) {op} {pick('0123')}",
            f"{text} || 'a' {op} {self._literal(text)}",
            f"CASE WHEN {column} {op} {literal} THEN b ELSE {text} IS NULL END",
            f"coalesce({number}, 0) {op} {self._literal(number)}",
            "b",
            f"year(a) {op} {pick([1969, 2024])}",
            f"CASE WHEN i > 0 THEN l % i {op} 1 END",
            f"abs(d) {op} {self._literal('d')}",
            f"nullif(st.a, 1) {op} i",
            f"greatest(i, 0) {op} st.a",
            f"CAST(i AS DOUBLE) {op} d",
        ]
        return pick(forms)

    def _literal(self, column: str) -> str:
        kind = {"st.a": "i", "st.d": "d", "st.s": "s"}.get(column, column)
        value = self._dice.choice([v for v in VALUES[kind] if v is not None])
        if isinstance(value, float):
            return (
                f"CAST('{value}' AS DOUBLE)"
                if not math.isfinite(value) or value in (0.0, 1e300, 5e-324)
                else repr(value)
            )
        if isinstance(value, str):
            return "'" + value.replace("'", "''") + "'"
        if isinstance(value, dt.datetime):
            return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
        return f"DATE '{value}'" if isinstance(value, dt.date) else str(value)


def _expected(conditions: list[str], rows: pa.Table) -> Iterator[set[int]]:
    """The rows that DuckDB keeps, for many conditions in one query."""
    con = duckdb.connect()
    con.register("t", rows)
    tests = ", ".join(f"({text}) IS TRUE" for text in conditions)
    found = con.sql(f"SELECT id, {tests} FROM t").fetchall()
    return ({row[0] for row in found if row[1 + i]} for i in range(len(conditions)))


def _rows_by_file(table: ll.Table, plan: Any) -> dict[str, set[int]]:
    """The rows of each file of a plan."""
    found: dict[str, set[int]] = {}
    for split in plan.splits:
        for i, file in enumerate(split.files):
            alone = replace(split, files=(file,), keys=(split.keys[i],), deletions=())
            batches = read_batches(table.timeline, replace(plan, splits=(alone,)), table.schema, ["id"])
            found[file.file_name] = {number for batch in batches for number in batch.column("id").to_pylist()}
    return found


@pytest.mark.parametrize("name", TABLES)
def test_reads_and_deletes_keep_the_rows_of_duckdb(name: str) -> None:
    """G4: random conditions with signed zeros, NaN, nulls, extremes, quotes and nested fields.

    Each is compared as a condition on rows, and is the same for a delete. Every second one chooses files; by night each one is
    read and deleted by.
    """
    rows = _rows()
    table = ll.create_table(f"memory://conditions-{name[:4]}/t", SCHEMA, **TABLES[name])
    table.append(rows)
    timeline, snapshot, schema = table._seen()
    files = _rows_by_file(table, table.plan())
    made = _Conditions(len(name))
    conditions = [made.any() for _ in range(CONDITIONS // len(TABLES))]
    kept = pruned = 0
    for first in range(0, len(conditions), AT_ONCE):
        some = conditions[first : first + AT_ONCE]
        for number, (text, expected) in enumerate(zip(some, _expected(some, rows), strict=True)):
            bound = condition_of(text, schema.fields)
            assert bound is not None
            mask = to_arrow_mask(bound, rows).to_pylist()
            assert {i for i, keeps in enumerate(mask) if keeps} == expected, text
            delete = Edit.of(schema, text, None)
            assert delete.predicate == bound
            kept += len(expected)
            if number % 2 == 0:
                chosen = {file.file_name for split in table.plan(text).splits for file in split.files}
                assert expected <= set().union(*(files[file] for file in chosen)), text
                pruned += len(files) - len(chosen)
            if number % EACH == 0:
                assert set(table.to_arrow(columns=["id"], where=text).column("id").to_pylist()) == expected, text
                change = AppendChange(table.store, schema, delete).plan(timeline, snapshot)
                assert change.counts.rows_deleted == len(expected), text
    assert kept > 10_000 and pruned > 75  # of every second condition
