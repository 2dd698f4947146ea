"""A store that refuses every request for seconds, again and again: commits and plans wait it out, none is lost, none doubled."""

from __future__ import annotations

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from servers import FaultProxy

import lakelatch as ll
from lakelatch.lab.contract import NIGHTLY

from .conftest import DIALECTS, HOSTS, TRANSPORTS

WRITERS = 3
SHORT = [(kind, 1.2, 3.0, 6.0) for kind in ("s3", "gcs", "adls")]
"""Kind, seconds of a storm, from one storm to the next, and for how long commits are begun."""
LONG = [
    (kind, storm, 40.0, 90.0)
    for kind in ("s3", "s3 fsspec", "gcs", "adls", "adls fsspec")
    for storm in (5.0, 15.0, 30.0)
]
STATUS = {"s3": 503, "gcs": 429, "azure": 503}


def rows(writer: int, number: int) -> pa.Table:
    return pa.table({"writer": [writer], "number": [number]})


@pytest.mark.timeout(420)
@pytest.mark.parametrize(("kind", "storm_s", "every_s", "run_s"), LONG if NIGHTLY else SHORT)
def test_storms_fail_nothing(
    kind: str, storm_s: float, every_s: float, run_s: float, request: pytest.FixtureRequest
) -> None:
    host, dialect = request.getfixturevalue(HOSTS[kind]), DIALECTS[kind]
    url = f"{host.new_root()}/storms"
    with FaultProxy(host.endpoint_url, dialect=dialect) as proxy:
        options = {**host.storage_options(proxy.url), "transport": "fsspec" if dialect == "gcs" else TRANSPORTS[kind]}
        table = ll.create_table(url, rows(0, 0).schema, storage_options=options)
        table.append(rows(WRITERS, 0))
        table.committer.settle()
        proxy.set(storms=(storm_s, every_s, STATUS[dialect]))
        until_s, done = time.monotonic() + run_s, threading.Event()

        def write(writer: int) -> int:
            mine, number = ll.open_table(url, storage_options=options), 0
            while not number or time.monotonic() < until_s:  # to open the table may take all of that time
                mine.append(rows(writer, number))
                number += 1
            mine.committer.settle()
            return number

        def plan() -> list[int]:
            seen, mine = [0], ll.open_table(url, storage_options=options)
            while not done.is_set():
                seen.append(mine.plan().row_count)
                time.sleep(0.1)
            return seen

        with ThreadPoolExecutor(WRITERS + 1) as pool:
            planned = pool.submit(plan)
            try:
                written = [job.result() for job in [pool.submit(write, n) for n in range(WRITERS)]]
            finally:
                done.set()
            seen = planned.result()
        refused = Counter(one.fault for one in proxy.requests)["storm"]
    found: Any = ll.open_table(url, storage_options=host.storage_options()).to_arrow().to_pylist()
    wanted = [{"writer": w, "number": n} for w, count in enumerate([*written, 1]) for n in range(count)]
    print(
        f"{kind}: storms of {storm_s:g} s every {every_s:g} s, {len(wanted)} commits, {len(seen)} plans, {refused} refused"
    )
    assert Counter(map(str, found)) == Counter(map(str, wanted))
    assert refused > 0
    assert seen == sorted(seen), "no plan goes back"
