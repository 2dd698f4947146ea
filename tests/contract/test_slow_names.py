"""GCS takes one write a second of a name: neither followers nor writers wait for a name that they rewrite."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

import lakelatch as ll

from .conftest import Faulty

SNAPSHOTS, WRITERS, COMMITS = 12, 4, 4


def row(number: int) -> pa.Table:
    return pa.table({"v": [number]})


@pytest.mark.parametrize("kind", ["gcs"])
def test_a_follower_moves_its_consumer_without_a_refusal(faulty: Faulty) -> None:
    url = f"{faulty.url}/table"
    table = ll.create_table(url, row(0).schema, storage_options=faulty.past_options)
    for number in range(SNAPSHOTS):
        table.append(row(number))
    faulty.proxy.set(rest_s=1.0)
    follower = ll.open_table(url, storage_options=faulty.options).follow("earliest", consumer="c", poll=0.2, wait=0)
    assert [batch.snapshot_id for batch in follower] == list(range(1, SNAPSHOTS + 1))
    moves = [request.status for request in faulty.proxy.requests if "/consumer/" in request.path and request.sent_bytes]
    assert set(moves) == {200} and len(moves) < SNAPSHOTS
    assert [consumer.next_snapshot for consumer in table.consumers()] == [SNAPSHOTS + 1]


@pytest.mark.parametrize("kind", ["gcs"])
def test_writers_do_not_wait_for_their_hints(faulty: Faulty) -> None:
    """The limit is for one name. A commit makes new ones, and its hint, which all rewrite, comes behind it."""
    url = f"{faulty.url}/table"
    table = ll.create_table(url, row(0).schema, storage_options=faulty.options)
    writers = [ll.open_table(url, storage_options=faulty.options) for _ in range(WRITERS)]
    table.append(row(0))
    table.settle()
    faulty.proxy.clear()
    faulty.proxy.set(rest_s=1.0)
    with ThreadPoolExecutor(WRITERS) as pool:
        jobs = [pool.submit(one.append, row(number)) for number in range(COMMITS) for one in writers]
        assert len({job.result().snapshot_id for job in jobs}) <= WRITERS * COMMITS
    for one in writers:
        one.settle()
    hints = [request for request in faulty.proxy.requests if request.path.endswith("/LATEST") and request.sent_bytes]
    assert sum(request.status == 200 for request in hints) <= 1 + (hints[-1].start_s - hints[0].start_s) / 1.0
    found = ll.open_table(url, storage_options=faulty.past_options).to_arrow()
    assert found.num_rows == 1 + WRITERS * COMMITS, "a hint that came too late is given up, and nobody needs it"
