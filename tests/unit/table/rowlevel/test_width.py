"""What MERGE and UPDATE cost: it grows with the number of columns, and not with its square; and memory for a few large values."""

from __future__ import annotations

import gc
import time
import uuid
from collections.abc import Callable

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.core.rows import sizes

NARROW, WIDE = 500, 2500
MOST = 2.0 * WIDE / NARROW
"""Squares would cost 25 times as much, lines 5 times; the rest is for a busy machine."""
TRIES = 5
_LONG = [("id", pa.int64()), ("kind", pa.int64()), ("note", pa.string())]


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


@pytest.mark.parametrize("options", [{}, {"row-tracking.enabled": "true"}])
def test_a_long_text_that_many_rows_of_a_file_take_is_not_held_for_all_of_them_at_once(
    options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that get it, others that keep their own, and some that go: each is in its place in the new file."""
    monkeypatch.setattr(sizes, "PIECE_BYTES", 1 << 20)
    count, long = 12_000, ["a" * 10_000, "b" * 10_000]
    kinds = [n % 4 for n in range(count)]
    table = ll.create_table(f"memory://{uuid.uuid4().hex}/t", pa.schema(_LONG), options=options)
    table.append(pa.table({"id": range(count), "kind": kinds, "note": [f"own {n}" for n in range(count)]}))
    source = pa.table({"kind": [0, 1, 2], "text": [*long, ""]})
    merge = table.merge(source, on=["kind"]).when_matched_delete("s.text = ''").when_matched_update({"note": "text"})
    usual, watched = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(watched)
    try:
        receipt = merge.execute()
    finally:
        pa.set_memory_pool(usual)
    assert watched.max_memory() < count * 10_000 * 3 // 4, "half of the rows have such a text"
    assert (receipt.rows_updated, receipt.rows_deleted) == (count // 2, count // 4)
    found = table.to_arrow().select(["id", "note"]).to_pylist()
    left = [n for n in range(count) if n % 4 != 2]
    assert [row["id"] for row in found] == left
    assert all(row["note"] == (f"own {n}" if n % 4 == 3 else long[n % 4]) for n, row in zip(left, found, strict=True))
