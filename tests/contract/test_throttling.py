"""Under throttling a process has fewer requests under way, so that many jobs do not make it worse."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from servers import Request

from lakelatch.backends.requests import throttle as throttling
from lakelatch.backends.requests.patience import Patience
from lakelatch.backends.store import Created

from .conftest import Faulty

READERS = 12
STATUS = {"s3": (503, "SlowDown"), "gcs": (503, "backendError"), "azure": (503, "ServerBusy")}


def most_at_once(requests: list[Request], since_s: float, until_s: float) -> int:
    """The largest number of requests that were under way together in some time."""
    spans = [(r.start_s, r.end_s or r.start_s) for r in requests if since_s <= r.start_s < until_s]
    return max((sum(start <= at < end for start, end in spans) for at, _ in spans), default=0)


def test_fewer_requests_are_under_way_while_the_store_is_busy(faulty: Faulty) -> None:
    patient = Patience(sends=4, first_wait_seconds=0.01, longest_wait_seconds=0.1, busy_seconds=30.0)
    store = faulty.store(patient)
    store.put("a", b"1")
    with ThreadPoolExecutor(READERS) as pool:
        faulty.proxy.set(latency_ms=60)
        began_s = time.monotonic()
        list(pool.map(lambda _: store.get("a"), range(4 * READERS)))
        free = most_at_once(faulty.proxy.requests, began_s, time.monotonic())
        faulty.proxy.set(answer=(*STATUS[faulty.dialect], "", {}))
        began_s = time.monotonic()
        jobs = [pool.submit(store.get, "a") for _ in range(READERS)]
        time.sleep(2.0)
        busy = most_at_once(faulty.proxy.requests, began_s + 1.0, time.monotonic())
        faulty.proxy.set(answer=None)
        assert [job.result(30) for job in jobs] == [b"1"] * READERS
    assert free > READERS / 2 and 1 <= busy <= 2, (free, busy)
    assert store._throttle().under_way == 0


def test_a_create_takes_no_turn(faulty: Faulty, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others wait for a snapshot that is being made, and its base grows old."""
    monkeypatch.setattr(throttling, "LONGEST_WAIT_S", 60.0)
    store = faulty.store()
    throttle = store._throttle()
    monkeypatch.setattr(throttle, "limit", 1.0)
    with ThreadPoolExecutor(1) as pool, throttle.request(lambda error: False, False, 0.0):
        assert pool.submit(store.put_if_absent, "a", b"1").result(20) == Created()
