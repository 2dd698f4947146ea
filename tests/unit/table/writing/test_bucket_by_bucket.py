"""A writer whose rows come bucket by bucket holds the rows of one bucket only."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.table.writing.buckets.placement import bucket_function
from lakelatch.table.writing.writer import TableWriter


def test_a_bucket_is_written_when_the_next_one_begins() -> None:
    """Each bucket gets one run, however many rows follow; the others are not in memory meanwhile."""
    schema = pa.schema([("id", pa.int64()), ("v", pa.string())])
    url = "memory://bucket-by-bucket/t"
    table = ll.create_table(url, schema, primary_key=["id"], options={"bucket": "4", "write-buffer-size": "1 mb"})
    bucket_of = bucket_function(table.schema)
    assert bucket_of is not None
    ids = np.arange(1000)
    rows = pa.record_batch({"id": ids, "v": [str(i) for i in ids]})
    rows = rows.take(pa.array(np.argsort(bucket_of(rows), kind="stable")))
    for one_by_one in (True, False):
        writer = TableWriter(table.store, table.schema, f"job-{one_by_one}", bucket_by_bucket=one_by_one)
        most = 0
        for start in range(0, 1000, 50):
            writer.write(rows.slice(start, 50))
            writer._place()  # large batches go to their places at once
            most = max(most, sum(w.held_bytes > 0 for w in writer._writers.values()))
        messages = writer.finish()
        assert most == (1 if one_by_one else 4)
        assert [len(m.new_files) for m in messages] == [1] * 4
        assert sum(f.row_count for m in messages for f in m.new_files) == 1000


@pytest.mark.parametrize("order", [[3, 1, 2], [1, 2, 3]])
def test_rows_that_are_in_order_already_are_written_as_they_are(order: list[int]) -> None:
    """The result does not depend on whether rows had to be moved."""
    url = f"memory://in-order-already/{'-'.join(map(str, order))}"
    schema = pa.schema([("id", pa.int64()), ("v", pa.string())])
    table = ll.create_table(url, schema, primary_key=["id"], options={"bucket": "1"})
    table.upsert(pa.table({"id": order, "v": [f"v{i}" for i in order]}))
    assert table.to_arrow().sort_by("id").to_pydict() == {"id": [1, 2, 3], "v": ["v1", "v2", "v3"]}
