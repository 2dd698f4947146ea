"""What MERGE and UPDATE cost grows with the number of columns, and not with its square."""

from __future__ import annotations

import gc
import time
import uuid
from collections.abc import Callable

import pyarrow as pa
import pytest

import lakelatch as ll

NARROW, WIDE = 500, 2500
MOST = 2.0 * WIDE / NARROW
"""Squares would cost 25 times as much, lines 5 times; the rest is for a busy machine."""
TRIES = 5


def merged(table: ll.Table, rows: pa.Table) -> None:
    merge = table.merge(rows, on=["c1"]).when_matched_update_all().when_not_matched_insert_all()
    assert merge.execute().rows_updated == 2


def updated(table: ll.Table, rows: pa.Table) -> None:
    assert table.update(set={name: f"{name} + 1" for name in rows.column_names[2:]}).rows_updated == 2


def altered(table: ll.Table, _rows: pa.Table) -> None:
    table.alter(ll.add_column("new", "INT"))


def cost_s(columns: int, act: Callable[[ll.Table, pa.Table], None]) -> float:
    """The CPU seconds of one `act` on a new table, without Python's collector of cycles.

    That one walks everything that the tests before this one have left.
    """
    rows = pa.table({f"c{i}": [i, i + 1] for i in range(columns)})
    table = ll.create_table(f"memory://{uuid.uuid4().hex}/t", rows.schema)
    table.append(rows)
    gc.collect()
    gc.disable()
    try:
        began = time.process_time()
        act(table, rows)
        return time.process_time() - began
    finally:
        gc.enable()


@pytest.mark.parametrize(("act", "times"), [(altered, 5), (merged, 1), (updated, 1)])
def test_five_times_the_columns_cost_five_times_as_much(act: Callable[[ll.Table, pa.Table], None], times: int) -> None:
    """The least of several runs counts: a square is one in each of them."""
    cost_s(10, act)  # imports
    narrow, wide = [cost_s(times * NARROW, act)], []
    for _ in range(TRIES):
        narrow.append(cost_s(times * NARROW, act))
        wide.append(cost_s(times * WIDE, act))
        if min(wide) < MOST * min(narrow):
            break
    assert min(wide) < MOST * min(narrow)
