"""G1, G2, G3, G6 under contention on all other stores, with real servers, lost answers and a slow, unreliable network.

`make test` does the small runs, and `make nightly` the whole ones with 8 processes of 25 commits each.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from contention.contended import Books, Contention
from contention.test_contention import COMMITS, WRITERS, check
from figures import keep
from servers import FaultProxy, toxiproxy
from servers.toxiproxy import ToxicProxy

HOSTS = {"s3": "s3_host", "gcs": "gcs_host", "adls": "azure_host", "hdfs": "hdfs_host"}
LATENCY_MS = 20
SWALLOWED, RESET_AFTER_MS = 0.33, 700
"""A third of the connections never passes the answer on, and is reset this long after the answer was due."""
CUT_EVERY_S = 2.0
"""How often all connections are cut, whatever they carry at that moment."""


@contextmanager
def cut_again_and_again(line: ToxicProxy) -> Iterator[list[float]]:
    """Cut all connections of a proxy regularly; yields the times of the cuts."""
    over, moments = threading.Event(), list[float]()

    def cut() -> None:
        while not over.wait(CUT_EVERY_S):
            line.enable(False)
            moments.append(time.monotonic())
            line.enable(True)

    thread = threading.Thread(target=cut)
    thread.start()
    try:
        yield moments
    finally:
        over.set()
        thread.join()


def sizes(small: tuple[int, int]) -> Any:
    whole = pytest.param(WRITERS, COMMITS, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])
    return pytest.mark.parametrize(("writers", "commits"), [small, whole], ids=["small", "whole"])


def settle(books: Books, writers: int, commits: int, run: str, told: str = "") -> None:
    """Check the books; those of a whole run are saved in docs/guarantees.md."""
    check(books, writers * commits, f"{run}, {writers} x {commits}{told}")
    if (writers, commits) == (WRITERS, COMMITS):
        keep("guarantees.md", f"contended {run}", f"* {run}{told}: {books}")


@sizes((3, 3))
@pytest.mark.parametrize("kind", ["gcs", "adls", "hdfs"])
def test_contended_appends(kind: str, writers: int, commits: int, request: pytest.FixtureRequest, folder: Path) -> None:
    """G1: No row is lost or written twice, and there is no error with default options."""
    host = request.getfixturevalue(HOSTS[kind])
    run = Contention(folder, f"{host.new_root()}/table", host.storage_options(), writers=writers, commits=commits)
    books = run.run(1500)
    settle(books, writers, commits, kind)
    assert books.acknowledged == books.visible == writers * commits


@sizes((4, 8))
@pytest.mark.parametrize("kind", ["gcs", "adls"])
def test_a_tenth_of_the_answers_dropped_after_the_server_applied_the_write(
    kind: str, writers: int, commits: int, request: pytest.FixtureRequest, folder: Path
) -> None:
    """G1, G2, G3, H2, H3: The server applied the request, and the connection was cut before the answer."""
    host = request.getfixturevalue(HOSTS[kind])
    url, options = f"{host.new_root()}/table", host.storage_options()
    with FaultProxy(host.endpoint_url, drop_put_answers=0.1, seed=7) as proxy:
        through = host.storage_options(proxy.url)
        books = Contention(folder, url, options, writers=writers, commits=commits, through=through).run(1500)
        dropped = sum(request.fault == "drop_answer" for request in proxy.requests)
    settle(books, writers, commits, f"{kind}, answers dropped", f" ({dropped} of them)")
    assert dropped >= writers * commits // 10, "too few answers were dropped to prove anything"


@sizes((3, 3))
@pytest.mark.parametrize(
    "kind", [pytest.param("s3", marks=pytest.mark.slow), "gcs", "adls", pytest.param("hdfs", marks=pytest.mark.slow)]
)
def test_a_slow_network_that_cuts_connections(
    kind: str, writers: int, commits: int, request: pytest.FixtureRequest, folder: Path
) -> None:
    """G1, G2, G3, H2, H9: Each answer takes 20 ms longer, some never come, and connections end at arbitrary points.

    This includes HDFS, whose name node is reached through the proxy; the proxy does not interpret the bytes.
    """
    host = request.getfixturevalue(HOSTS[kind])
    root, options = host.new_root(), host.storage_options()
    with ExitStack() as stack:
        line = stack.enter_context(toxiproxy()).proxy(host.endpoint_url)
        stack.enter_context(line.toxic("latency", latency=LATENCY_MS))
        stack.enter_context(line.toxic("reset_peer", toxicity=SWALLOWED, timeout=RESET_AFTER_MS))
        if kind == "hdfs":
            ways: dict[str, Any] = {
                "way": f"{root.replace(host.endpoint_url, line.url.replace('http:', 'hdfs:'))}/table"
            }
        else:
            ways = {"through": host.storage_options(line.url)}
        run = Contention(folder, f"{root}/table", options, writers=writers, commits=commits, **ways)
        with cut_again_and_again(line) as cuts:
            books = run.run(1500)
    settle(books, writers, commits, f"{kind}, cut", f" ({len(cuts)} times)")
    assert len(cuts) > 1, "too few connections were cut to prove anything"
