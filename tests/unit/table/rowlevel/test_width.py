"""What MERGE and UPDATE cost grows with the number of columns, and not with its square."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

import pyarrow as pa
import pytest

import lakelatch as ll

NARROW, WIDE = 500, 2500
MOST = 2.0 * WIDE / NARROW
"""Squares would cost 25 times as much, lines 5 times; the rest is for a busy machine."""


def merged(table: ll.Table, rows: pa.Table) -> None:
    merge = table.merge(rows, on=["c1"]).when_matched_update_all().when_not_matched_insert_all()
    assert merge.execute().rows_updated == 2


def updated(table: ll.Table, rows: pa.Table) -> None:
    assert table.update(set={name: f"{name} + 1" for name in rows.column_names[2:]}).rows_updated == 2


def alter_s(columns: int) -> float:
    schema = pa.schema([(f"c{i}", pa.int64()) for i in range(columns)])
    table = ll.create_table(f"memory://{uuid.uuid4().hex}/t", schema)
    began = time.process_time()
    table.alter(ll.add_column("new", "INT"))
    return time.process_time() - began


def test_a_new_column_costs_what_a_schema_costs() -> None:
    alter_s(10)  # imports
    assert alter_s(5 * WIDE) < MOST * max(alter_s(WIDE), alter_s(WIDE))


def cost_s(columns: int, act: Callable[[ll.Table, pa.Table], None]) -> float:
    rows = pa.table({f"c{i}": [i, i + 1] for i in range(columns)})
    found = []
    for _ in range(2):
        table = ll.create_table(f"memory://{uuid.uuid4().hex}/t", rows.schema)
        table.append(rows)
        began = time.process_time()
        act(table, rows)
        found.append(time.process_time() - began)
    return min(found)


@pytest.mark.parametrize("act", [merged, updated])
def test_twice_the_columns_cost_twice_as_much(act: Callable[[ll.Table, pa.Table], None]) -> None:
    cost_s(10, act)  # imports
    assert cost_s(WIDE, act) < MOST * cost_s(NARROW, act)
