"""G1, G2, G3, G6 under contention on every other store: real servers, lost answers, a slow network that cuts connections.

The small runs are of `make test`; the whole ones, of 8 processes with 25 commits each, of `make nightly`.
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
"""A third of the connections takes a request and answers nothing; it is reset that long after the answer should have come."""
CUT_EVERY_S = 2.0
"""So often every connection is cut, whatever is on its way then."""


@contextmanager
def cut_again_and_again(line: ToxicProxy) -> Iterator[list[float]]:
    """Cuts all connections of a proxy every now and then; the moments."""
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
    """Check the books; those of a whole run are kept on the page of guarantees."""
    check(books, writers * commits, f"{run}, {writers} x {commits}{told}")
    if (writers, commits) == (WRITERS, COMMITS):
        keep("guarantees.md", f"contended {run}", f"* {run}{told}: {books}")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "writers"
    made.mkdir()
    return made


@sizes((3, 3))
@pytest.mark.parametrize("kind", ["gcs", "adls", "hdfs"])
def test_contended_appends(kind: str, writers: int, commits: int, request: pytest.FixtureRequest, folder: Path) -> None:
    """G1: nothing lost, nothing doubled, no error with default options."""
    host = request.getfixturevalue(HOSTS[kind])
    run = Contention(folder, f"{host.new_root()}/table", host.storage_options(), writers=writers, commits=commits)
    books = run.run(1500)
    settle(books, writers, commits, kind)
    assert books.acknowledged == books.visible == writers * commits


@sizes((4, 8))
@pytest.mark.parametrize("kind", ["gcs", "adls"])
def test_a_tenth_of_the_answers_dropped_after_they_were_applied(
    kind: str, writers: int, commits: int, request: pytest.FixtureRequest, folder: Path
) -> None:
    """G1, G2, G3, H2, H3: the request was applied, the connection was cut before the answer."""
    host = request.getfixturevalue(HOSTS[kind])
    url, options = f"{host.new_root()}/table", host.storage_options()
    with FaultProxy(host.endpoint_url, drop_put_answers=0.1, seed=7) as proxy:
        through = host.storage_options(proxy.url)
        books = Contention(folder, url, options, writers=writers, commits=commits, through=through).run(1500)
        dropped = sum(request.fault == "drop_answer" for request in proxy.requests)
    settle(books, writers, commits, f"{kind}, answers dropped", f" ({dropped} of them)")
    assert dropped >= writers * commits // 10, "too little was dropped to show anything"


@sizes((3, 3))
@pytest.mark.parametrize("kind", [pytest.param("s3", marks=pytest.mark.slow), "gcs", "adls", "hdfs"])
def test_a_slow_network_that_cuts_connections(
    kind: str, writers: int, commits: int, request: pytest.FixtureRequest, folder: Path
) -> None:
    """G1, G2, G3, H2, H9: 20 ms to each answer, answers that never come, and connections that end in the middle of anything.

    HDFS's too: its name node is asked through the proxy, which knows nothing of what it carries.
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
    assert len(cuts) > 1, "too little was cut to show anything"
