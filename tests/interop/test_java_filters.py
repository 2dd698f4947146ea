"""Every kind of filter on every type: Java prunes by what lakelatch wrote, and loses no row (G8, decision 5).

It looks at our bounds in manifests, at our bounds in Parquet footers, and at our dictionaries, before it looks at a value.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
from interop.agreement import assert_filters_agree
from interop.domains import ATOMIC, NESTED, columns, edge_rows, random_rows
from interop.filters import SIGNED, Filter, filters_of, java_filters_of, kept, order_of
from values import Row, assert_same_rows, decode_rows

import lakelatch as ll
from lakelatch.core.rows.types import BINARY_ROOTS, Field
from lakelatch.core.rows.values import root_of

pytestmark = pytest.mark.java

NIGHTLY = bool(os.environ.get("LAKELATCH_NIGHTLY"))
ALIKE = {"ts1", "ts2", "ts4", "ts5", "ts8", "tz1", "tz2", "tz4", "tz5", "tz7", "tz8"}
"""Precisions with the physical form of another one: in `make nightly` only."""
NAMES = [name for name in ATOMIC if NIGHTLY or name not in ALIKE]
ONCE_WRONG = ("f32", "d28", "by")
"""Types for which Java lost rows. They are always tested with every filter."""


def sorted_values(field: Field) -> list[Any]:
    return sorted(ATOMIC[field.name][1], key=order_of(field))


def asked(field: Field, rng: random.Random) -> list[Filter]:
    """Filters of each kind with the smallest and largest literal, and one between."""
    values = sorted_values(field)
    between = rng.choice(values[1:-1]) if len(values) > 2 else values[0]
    chosen = values if NIGHTLY else [values[0], between, values[-1]]
    return java_filters_of(field, chosen)


def in_order(fields: list[Field]) -> list[list[Row]]:
    """Six files whose values do not overlap, some with nulls, and one of nulls alone."""
    files: list[list[Row]] = []
    for number in range(6):
        parts = []
        for field in fields:
            values = sorted_values(field)
            start = number * len(values) // 6
            parts.append(values[start : max((number + 1) * len(values) // 6, start + 1)])
        files.append([[part[i % len(part)] for part in parts] for i in range(max(map(len, parts)))])
        if number % 2 == 0:
            files[-1].append([None] * len(fields))
    return [*files, [[None] * len(fields)]]


@pytest.mark.parametrize(
    "mixed", [pytest.param(False, id="in order", marks=pytest.mark.slow), pytest.param(True, id="mixed")]
)
def test_every_filter_on_every_type(tmp_path: Path, paimon_java: Any, mixed: bool) -> None:
    """G8: with files that bounds can distinguish, and with files that mix small and large values."""
    rng = random.Random(7)
    schema = ll.Schema(columns(NAMES))
    files = in_order(list(schema.fields))
    if mixed:
        files = [list(random_rows(rng, NAMES, rng.randint(2, 6))) for _ in range(5)]
        files.append(edge_rows(NAMES))
    table = ll.create_table(str(tmp_path / "t"), schema)
    for file in files:
        table.append(decode_rows(file, schema.fields))
    rows = [row for file in files for row in file]
    for field in schema.fields:
        filters = asked(field, rng)
        if not NIGHTLY and field.name not in ONCE_WRONG:
            filters = rng.sample(filters, 3)
        opened, there = assert_filters_agree(paimon_java, tmp_path / "t", rows, filters, columns=[field.name])
        assert mixed or opened < there or root_of(field.type) in (*BINARY_ROOTS, "BOOLEAN"), field.name
    filters = [asked(field, rng)[3] for field in schema.fields[::4]]
    assert_filters_agree(paimon_java, tmp_path / "t", rows, filters)


MODES = [(mode, dense) for dense in ("true", "false") for mode in ("none", "counts", "full", "truncate(1)")]


@pytest.mark.parametrize(("mode", "dense"), [one for n, one in enumerate(MODES) if NIGHTLY or n % 2 == n // 4])
def test_every_mode_of_statistics(tmp_path: Path, paimon_java: Any, mode: str, dense: str) -> None:
    """G8: what is left out, or cut short, never hides a row; what is not counted is not looked for."""
    names = ["i32", "f64", "d28", "st", "by", "dt", "ts3", "ts9"]
    options = {"metadata.stats-mode": mode, "metadata.stats-dense-store": dense, "fields.i32.stats-mode": "full"}
    schema = ll.Schema(columns(names))
    table = ll.create_table(str(tmp_path / "t"), schema, options=options)
    files = in_order(list(schema.fields))
    for file in files:
        table.append(decode_rows(file, schema.fields))
    rng, rows = random.Random(mode + dense), [row for file in files for row in file]
    filters = [rng.choice(asked(field, rng)) for field in schema.fields for _ in range(2)]
    assert_filters_agree(paimon_java, tmp_path / "t", rows, [["=", "i32", 0], *filters])


def test_nested_columns_are_null_or_not(tmp_path: Path, paimon_java: Any) -> None:
    """G8: null counts of columns with parts; a filter on another column leaves them whole."""
    names = ["i32", *NESTED]
    schema = ll.Schema(columns(names))
    table = ll.create_table(str(tmp_path / "t"), schema)
    rows = edge_rows(names)
    for start in range(0, len(rows), 3):
        table.append(decode_rows(rows[start : start + 3], schema.fields))
    table.append(decode_rows(rows[-1:], schema.fields))
    rows = [*rows, rows[-1]]
    filters = [[op, name] for op in ("is_null", "is_not_null") for name in NESTED]
    opened, there = assert_filters_agree(paimon_java, tmp_path / "t", rows, [["=", "i32", 1], *filters])
    assert opened < there


def test_ranges_of_binary_are_wrong_in_java_itself(tmp_path: Path, paimon_java: Any) -> None:
    """Why the filters above leave them out: Java loses rows of its own files. It finds no fewer in lakelatch's."""
    values = ["0x00", "0x7f", "0x80", "0xff"]
    rows = [[v] for v in values]
    paimon_java.create_table(tmp_path / "java", [("b", "BYTES")])
    paimon_java.commit_rows(tmp_path / "java", rows)
    table = ll.create_table(str(tmp_path / "ours"), ll.Schema([("b", "BYTES")]))
    table.append(decode_rows(rows, table.schema.fields))
    wrong = 0
    for filter_ in filters_of(table.schema.fields[0], values):
        found = paimon_java.rows(tmp_path / "ours", predicate=filter_)
        assert_same_rows(found, paimon_java.rows(tmp_path / "java", predicate=filter_), str(filter_))
        if filter_[0] in SIGNED:
            wrong += found != sorted(kept(rows, filter_, table.schema.fields))
        else:
            assert_same_rows(found, kept(rows, filter_, table.schema.fields), str(filter_))
    assert wrong > 0, "Java has learnt it: ask for ranges of binary above, too"
