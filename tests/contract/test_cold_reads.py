"""The round trips in sequence of a reader that knows nothing of a table yet, counted by a proxy in front of a real server."""

from __future__ import annotations

import pyarrow as pa
import pytest
from servers import FaultProxy, S3Server, sequential_depth

import lakelatch as ll

from .conftest import KINDS, Faulty, stores_of

LATENCY_MS = 60.0


@pytest.mark.parametrize("commits", [1, 12])
def test_a_cold_read_of_one_row_takes_five_round_trips_in_sequence(commits: int, s3_host: S3Server) -> None:
    """The hint beside the schemas; the snapshot beside the schema; whether it is the newest, beside its lists; the manifests;
    the file. Three reads, because requests that start late on a busy machine look as if they had waited for each other."""
    url = f"{s3_host.new_root()}/table"
    table = ll.create_table(url, pa.schema([("id", pa.int64())]), storage_options=s3_host.storage_options())
    for number in range(commits):
        table.append(pa.table({"id": [number]}))
    table.committer.settle()
    depths = []
    with FaultProxy(s3_host.endpoint_url, latency_ms=LATENCY_MS) as proxy:
        for _ in range(3):
            proxy.clear()
            opened = ll.open_table(url, storage_options=s3_host.storage_options(proxy.url))
            assert opened.to_arrow(where="id = 0").num_rows == 1
            depths.append(sequential_depth(list(proxy.requests)))
            proxy.clear()
            assert opened.to_arrow(where="id = 0").num_rows == 1
            depths[-1] += sequential_depth(list(proxy.requests))
    assert min(depths) <= 5 + 2, "and two more to read it again: whether there is something new, and the file"


@pytest.mark.parametrize("served", [kind for kind in KINDS if kind not in ("generic", "hdfs")])
def test_a_listing_tells_whether_an_object_was_replaced(served: str, request: pytest.FixtureRequest) -> None:
    """By a tag, so that a snapshot that was read is not read again, and one that took its place is."""
    store = stores_of(served, request)("table")
    tags = []
    for data in (b"1", b"2", b"1"):
        store.put("snapshot/snapshot-1", data)
        seen, again = ([info.tag for info in store.list("snapshot/")] for _ in range(2))
        assert seen == again
        tags += seen
    assert all(tags)
    assert tags[0] != tags[1] != tags[2]


def test_a_plan_again_takes_two_requests(faulty: Faulty) -> None:
    """One listing of the snapshots, one of the schemas."""
    url = f"{faulty.url}/table"
    table = ll.create_table(url, pa.schema([("id", pa.int64())]), storage_options=faulty.options)
    for number in range(3):
        table.append(pa.table({"id": [number]}))
    table.committer.settle()
    opened = ll.open_table(url, storage_options=faulty.options)
    files = opened.plan().file_count
    faulty.proxy.clear()
    assert opened.plan().file_count == files == 3
    assert len(faulty.proxy.requests) == 2, faulty.proxy.requests
