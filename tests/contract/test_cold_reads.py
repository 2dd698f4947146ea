"""The round trips in sequence of a reader that knows nothing of a table yet, counted by a proxy in front of a real server."""

from __future__ import annotations

import pyarrow as pa
import pytest
from servers import FaultProxy, S3Server, sequential_depth

import lakelatch as ll

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
    assert min(depths) <= 5 + 3, "and three more to read it again"
