"""The stores that the contract runs on. Each test gets its own root in every one of them."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from servers import FaultProxy

from lakelatch.backends.adls import AdlsStore
from lakelatch.backends.around.faulty import FaultyStore
from lakelatch.backends.around.metered import MeteredStore
from lakelatch.backends.files.object_store import FsspecStore
from lakelatch.backends.gcs import GcsStore
from lakelatch.backends.local import LocalStore
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.registry import open_store
from lakelatch.backends.requests.patience import Patience
from lakelatch.backends.s3 import S3Store
from lakelatch.lab.contract import NIGHTLY, Stores
from lakelatch.lab.contract_faults import LATE_MS

from . import store_table
from .generic_store import GenericStore

HOSTS = {
    "s3": "s3_host",
    "s3 fsspec": "s3_host",
    "minio": "minio_host",
    "gcs": "gcs_host",
    "adls": "azure_host",
    "adls fsspec": "azure_host",
    "hdfs": "hdfs_host",
}
"""Kinds of store with a real server, and the fixture that runs it."""

HAS_OBSTORE = sys.version_info >= (3, 11)  # obstore has no version for Python 3.10, where fsspec carries all requests
collect_ignore = [] if HAS_OBSTORE else ["test_transport.py"]

TRANSPORTS = {"s3": "obstore" if HAS_OBSTORE else "fsspec", "s3 fsspec": "fsspec"}
TRANSPORTS |= {"adls": TRANSPORTS["s3"], "adls fsspec": "fsspec"}
"""Kinds that run on a transport of their own. `s3` and `adls` insist on obstore, so that it cannot be replaced unnoticed."""

DIALECTS = {"s3": "s3", "s3 fsspec": "s3", "minio": "s3", "gcs": "gcs", "adls": "azure", "adls fsspec": "azure"}
NIGHTLY_ONLY = (
    () if NIGHTLY else ("minio", "s3 fsspec", "adls fsspec")
)  # building it takes minutes, and the shape of its refusals is tested in `test_answers.py` too
REAL = tuple(kind for kind in DIALECTS if kind not in NIGHTLY_ONLY)
"""The kinds that speak HTTP, so that a proxy can stand in front of them."""

KINDS = ("memory", "local", *(kind for kind in HOSTS if kind not in NIGHTLY_ONLY), "generic", "metered", "faulty")

QUICK = Patience(sends=4, first_wait_seconds=0.01, longest_wait_seconds=0.05)
ADAPTERS: dict[str, Callable[..., FsspecStore]] = {"s3": S3Store, "gcs": GcsStore, "azure": AdlsStore}
FAULTS = {
    "lost": "drop_answer",
    "dropped": "drop_request",
    "throttled": "throttle",
    "doubled": "throttle_after",
    "late": "land_late",
}


def stores_of(kind: str, request: pytest.FixtureRequest) -> Stores:
    """Return a function that opens the store of this kind at a path. The same path gives the same objects."""
    place = uuid.uuid4().hex
    if kind == "local":
        folder = request.getfixturevalue("tmp_path")
        return lambda path: LocalStore(f"{folder}/{path}")
    if kind in HOSTS:
        host = request.getfixturevalue(HOSTS[kind])
        url, options = host.new_root(), {**host.storage_options(), **transport_of(kind)}
        return lambda path: open_store(f"{url}/{place}/{path}", options)
    if kind == "generic":
        return lambda path: GenericStore(f"generic://{place}/{path}")
    if kind == "metered":
        return lambda path: MeteredStore(MemoryStore(f"memory://{place}/{path}"))
    if kind == "faulty":
        return lambda path: FaultyStore(MemoryStore(f"memory://{place}/{path}"), 0, {})
    return lambda path: MemoryStore(f"memory://{place}/{path}")


def transport_of(kind: str) -> dict[str, str]:
    """The storage option that chooses the transport of this kind."""
    return {"transport": TRANSPORTS[kind]} if kind in TRANSPORTS else {}


@dataclass(frozen=True)
class Faulty:
    """A store of one kind behind a proxy that injects faults."""

    kind: str
    dialect: str
    url: str
    options: dict[str, Any]
    proxy: FaultProxy
    past_options: dict[str, Any]

    def store(self, patience: Patience | None = None, **more: Any) -> FsspecStore:
        return ADAPTERS[self.dialect](f"{self.url}/table", {**self.options, **more}, patience or QUICK)

    def past(self) -> FsspecStore:
        """The same store, reached without the proxy."""
        return ADAPTERS[self.dialect](f"{self.url}/table", self.past_options)

    def fail(self, fault: str, key: str, times: int = 1) -> None:
        """Plan a fault, as the contract asks for it."""
        self.proxy.plan(FAULTS[fault], method="WRITE", path=f"/{key}$", times=times, delay_ms=LATE_MS)

    def writes(self) -> int:
        """The number of requests that wrote or tried to."""
        asked = self.proxy.requests
        return sum(r.method == "PUT" or r.path.startswith("/upload/") for r in asked)


@pytest.fixture(params=["s3", "s3 fsspec", "gcs", "adls", *(["adls fsspec"] if NIGHTLY else [])])
def kind(request: pytest.FixtureRequest) -> Any:
    """One server of each dialect, and both transports."""
    return request.param


@pytest.fixture
def faulty(kind: str, request: pytest.FixtureRequest) -> Iterator[Faulty]:
    """A fresh bucket of this kind, reached through a proxy."""
    host = request.getfixturevalue(HOSTS[kind])
    dialect = DIALECTS[kind]
    with FaultProxy(host.endpoint_url, dialect=dialect) as proxy:
        options = {**host.storage_options(proxy.url), **transport_of(kind)}
        yield Faulty(kind.partition(" ")[0], dialect, host.new_root(), options, proxy, host.storage_options())


SEEN: store_table.Seen = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: Any) -> Iterator[None]:
    """Collect the results of the contract's cases for the table of stores."""
    report = yield
    kind = getattr(item, "callspec", None) and item.callspec.params.get("kind")
    if kind in store_table.COLUMNS and item.cls is not None and (report.when == "call" or report.outcome != "passed"):
        SEEN.setdefault(store_table.case_of(item.originalname), {}).setdefault(kind, []).append(report.outcome)
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    used = next(plugin.USED for plugin in session.config.pluginmanager.get_plugins() if hasattr(plugin, "USED"))
    store_table.write(SEEN, used)
