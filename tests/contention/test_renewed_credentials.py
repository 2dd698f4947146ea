"""Credentials that end while many processes write: no error, nothing lost. `make nightly` runs half an hour, with new ones
every two minutes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from figures import keep
from report import TOLD
from servers import S3Server, s3_server

from . import renewing
from .contended import PROCESSES, Contention
from .renewing import PROVIDERS, Ending, Renewed, RenewedOrders, append_and_look

RUNS = [("s3", "fsspec"), ("s3", "obstore"), ("adls", "fsspec"), ("adls", "obstore"), ("gcs", "fsspec")]
_ENDLESS = 1_000_000
_PATIENT_S = 120
"""Emulators on a busy machine answer late, which is another error than that of credentials."""

HOSTS = {"s3": "believing_s3", "gcs": "gcs_host", "adls": "azure_host"}


@pytest.fixture(scope="module")
def believing_s3() -> Iterator[S3Server]:
    """A server that looks at no session token: the proxy does. Others refuse every one that they have not given."""
    with s3_server("moto") as server:
        yield server


class OfRenewed(Contention):
    """Writers whose credentials end. They write until `folder/stop` is there."""

    def __init__(self, folder: Path, host: Any, ending: Ending, transport: str, pause_s: float, writers: int) -> None:
        folder.mkdir()
        provider, url = ending.provider, f"{host.new_root()}/t"
        super().__init__(folder, url, host.storage_options(), writers=writers, commits=_ENDLESS)
        given = {
            **provider.options(host, ending.proxy.url, ending.file),
            "transport": transport,
            "request_timeout": _PATIENT_S,
        }
        has = Renewed(provider.environment(ending.file), ending.file if provider.dialect == "azure" else None)
        self.orders = {
            name: RenewedOrders(name, folder, url, given, _ENDLESS, pause_s, write=append_and_look, provided=has)
            for name in self.names
        }

    def start(self, name: str) -> None:
        self.running[name] = PROCESSES.Process(target=renewing.run, args=(self.orders[name],))
        self.running[name].start()


def wait_until_met(jobs: list[OfRenewed], refused: list[int], until_s: float) -> None:
    """Wait, on a busy machine, until each job has committed and has been refused."""
    while time.monotonic() < until_s:
        if all(refused) and all(job.told(name) for job in jobs for name in job.names):
            return
        time.sleep(0.2)


@pytest.mark.parametrize(
    ("seconds", "every_s", "pause_s", "writers"),
    [
        pytest.param(6.0, 2.0, 0.02, 2, id="seconds"),
        pytest.param(1800.0, 120.0, 1.0, 4, id="half an hour", marks=[pytest.mark.slow, pytest.mark.timeout(2700)]),
    ],
)
def test_writers_go_on_while_credentials_end(
    request: pytest.FixtureRequest, tmp_path: Path, seconds: float, every_s: float, pause_s: float, writers: int
) -> None:
    with ExitStack() as stack:
        endings, jobs = list[Ending](), list[OfRenewed]()
        for store, transport in RUNS:
            host = request.getfixturevalue(HOSTS[store])
            ending = stack.enter_context(Ending(PROVIDERS[store], host, tmp_path / f"{store}-{transport}.credentials"))
            folder = tmp_path / f"{store}-{transport}"
            endings.append(ending)
            jobs.append(OfRenewed(folder, host, ending, transport, pause_s, writers))
        began, refused = time.monotonic(), [0] * len(RUNS)
        for job in jobs:
            for name in job.names:
                job.start(name)
        for job in jobs:
            job.open_gate()
        with renewing.renewed_every(endings, every_s, refused):
            time.sleep(seconds)
            wait_until_met(jobs, refused, time.monotonic() + 60)
        for job in jobs:
            (job.folder / "stop").touch()
        lines, all_books = [], []
        for (store, transport), job, ending, strangers in zip(RUNS, jobs, endings, refused, strict=True):
            books = job.finish(began)
            lines.append(f"* {store} by {transport}, {ending.number} renewals, {strangers} requests refused: {books}")
            all_books.append((strangers, books))
    TOLD.extend(line.removeprefix("* ") for line in lines)
    for line, (strangers, books) in zip(lines, all_books, strict=True):
        assert strangers > 0, f"no credentials ended in the middle: {line}"
        assert (books.lost, books.doubled, books.errors) == (0, 0, []), line
        assert books.visible == books.acknowledged > 0, line
    if seconds > 60:
        keep("guarantees.md", "renewed credentials", "\n".join(lines))
