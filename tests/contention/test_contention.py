"""G1, G2, G3, G6 under contention, with real processes, a real disk, a real S3 server, lost answers and SIGKILL."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from contention.contended import Books, Contention
from figures import NIGHTLY
from report import tell
from servers import FaultProxy, S3Server

WRITERS, COMMITS = 8, 25
COMMITS_ON_S3 = COMMITS if NIGHTLY else 10


TRANSPORTS = ("auto", "fsspec") if NIGHTLY else ("auto",)
"""Storage option `transport`: by itself obstore carries the requests, where it is installed."""


def check(books: Books, expected: int, what: str) -> None:
    tell(f"contention, {what}: {books}")
    assert books.acknowledged == books.visible == expected
    assert (books.lost, books.doubled, books.errors) == (0, 0, [])


def test_contended_appends_on_local_disk(tmp_path: Path, folder: Path) -> None:
    """G1: Eight processes lose no row, write none twice, and get no error with default options."""
    run = Contention(folder, str(tmp_path / "table"), {}, writers=WRITERS, commits=COMMITS)
    check(run.run(), WRITERS * COMMITS, f"local, {WRITERS} x {COMMITS}")


def test_sigkill_and_restart_with_the_same_identities_on_local_disk(tmp_path: Path, folder: Path) -> None:
    """G3: Two writers are killed midway and restarted; each token lands once."""
    run = Contention(folder, str(tmp_path / "table"), {}, writers=WRITERS, commits=COMMITS, pause_s=0.05)
    check(kill_two_and_restart(run), WRITERS * COMMITS, "local, SIGKILL of two")


def kill_two_and_restart(run: Contention) -> Books:
    began = time.monotonic()
    for name in run.names:
        run.start(name)
    run.open_gate()
    victims = run.names[:2]
    for count, name in enumerate(victims):
        run.kill(name, run.commits // 3 + count)
    for name in victims:
        assert len(run.told(name)) < run.commits, "killed too late to prove anything"
        run.start(name)
    return run.finish(began)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_contended_appends_on_s3(s3: Any, folder: Path, transport: str) -> None:
    """G1 on a real S3 server."""
    url, options = s3
    given = {**options, "transport": transport}
    run = Contention(folder, f"{url}/table", given, writers=WRITERS, commits=COMMITS_ON_S3)
    check(run.run(), WRITERS * COMMITS_ON_S3, f"S3, transport {transport}, {WRITERS} x {COMMITS_ON_S3}")


def test_sigkill_and_restart_on_s3(s3: Any, folder: Path) -> None:
    """G3 on a real S3 server."""
    url, options = s3
    run = Contention(folder, f"{url}/table", options, writers=WRITERS, commits=COMMITS_ON_S3, pause_s=0.05)
    check(kill_two_and_restart(run), WRITERS * COMMITS_ON_S3, "S3, SIGKILL of two")


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_tenth_of_the_put_answers_dropped_after_the_server_applied_them(
    s3_host: S3Server, folder: Path, transport: str
) -> None:
    """G1, G2, G3, H2, H3, H9: The server applied the request, and the connection was cut before the answer."""
    url = f"s3://{s3_host.create_bucket()}/table"
    with FaultProxy(s3_host.endpoint_url, drop_put_answers=0.1, seed=7) as proxy:
        through = {**s3_host.storage_options(proxy.url), "transport": transport}
        run = Contention(
            folder, url, s3_host.storage_options(), through=through, writers=WRITERS, commits=COMMITS_ON_S3
        )
        books = run.run()
        dropped = sum(request.fault == "drop_answer" for request in proxy.requests)
    check(books, WRITERS * COMMITS_ON_S3, f"S3, transport {transport}, {dropped} answers to PUT dropped")
    assert dropped >= WRITERS * COMMITS_ON_S3 // 10, "too few answers were dropped to prove anything"
