"""Rows in small batches cost about as much as the same rows in one, into however many partitions and buckets they go."""

from __future__ import annotations

import time
import uuid
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.table.writing.buckets import placement

ROWS, PLACES, COLUMNS = 40_000, 200, 10
KINDS: dict[str, dict[str, Any]] = {
    "partitions": {"partition_by": ["p"]},
    "buckets": {"options": {"bucket": str(PLACES), "bucket-key": "c0"}},
    "keys": {"primary_key": ["p", "c0"], "partition_by": ["p"], "options": {"bucket": "1"}},
    "dynamic buckets": {"primary_key": ["p", "c0"], "partition_by": ["p"]},
}


def rows() -> pa.Table:
    values = np.arange(ROWS)
    columns = {f"c{i}": (values * (i + 1)) % 10_007 for i in range(1, COLUMNS)}
    return pa.table({"p": pa.array(values * 7919 % PLACES, pa.int32()), "c0": values, **columns})


def written(data: Any, kind: str) -> tuple[ll.Table, float]:
    fields = [f.with_nullable(f.name not in ("p", "c0")) for f in rows().schema]
    table = ll.create_table(f"memory://{uuid.uuid4().hex}/t", pa.schema(fields), **KINDS[kind])
    began = time.process_time()
    table.append(data)
    return table, time.process_time() - began


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_cut_by_place_once(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cuts = []
    cut = placement.cut
    monkeypatch.setattr(placement, "cut", lambda batch, *about: cuts.append(batch.num_rows) or cut(batch, *about))
    data = rows()
    whole, _ = written(data, kind)
    assert cuts == [ROWS]
    cuts.clear()
    small, _ = written(pa.RecordBatchReader.from_batches(data.schema, data.to_batches(max_chunksize=500)), kind)
    assert cuts == [ROWS]
    assert small.to_arrow().sort_by("c0") == whole.to_arrow().sort_by("c0") == data.cast(whole.arrow_schema)


def test_small_batches_cost_as_much_as_one() -> None:
    """1.1 times as much on a quiet machine; cut one by one they cost 8 times as much. The least of several runs counts."""
    data = rows()
    batches = data.to_batches(max_chunksize=500)
    whole, small = [], []
    for _ in range(5):
        whole.append(written(data, "partitions")[1])
        small.append(written(pa.RecordBatchReader.from_batches(data.schema, batches), "partitions")[1])
        if min(small) < 2 * min(whole):
            break
    assert min(small) < 2 * min(whole)


def test_rows_that_wait_are_gone_after_an_error() -> None:
    data = rows()
    table, _ = written(data.slice(0, 10), "partitions")

    def batches() -> Any:
        yield data.slice(10, 10)
        raise RuntimeError("the source fails")

    with pytest.raises(RuntimeError):
        table.append(batches())
    assert table.count() == 10
