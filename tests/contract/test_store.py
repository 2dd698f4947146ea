"""Runs the contract on each store of lakelatch, and on a generic fsspec store. The cases are in `lakelatch.lab.contract`."""

from __future__ import annotations

from typing import Any

import pytest
from servers import AzureServer

from lakelatch.backends.registry import open_store
from lakelatch.backends.store import Store
from lakelatch.lab.contract import NIGHTLY, FaultContract, StoreContract

from .conftest import KINDS, REAL, TRANSPORTS, Faulty, Stores, stores_of

IN_THIS_PROCESS = ("memory", "generic", "metered", "faulty")


class TestStores(StoreContract):
    """The contract of every store."""

    @pytest.fixture(params=KINDS)
    def kind(self, request: pytest.FixtureRequest) -> Any:
        return request.param

    @pytest.fixture
    def stores(self, kind: str, request: pytest.FixtureRequest) -> Stores:
        return stores_of(kind, request)

    @pytest.fixture
    def start_method(self, kind: str) -> str:
        if kind in IN_THIS_PROCESS:
            return "threads"
        # The child of a fork uses fsspec, so that only processes of their own race through obstore. They start slowly.
        by_obstore = NIGHTLY and TRANSPORTS.get(kind) == "obstore"
        return "spawn" if kind == "hdfs" or by_obstore else "fork"

    @pytest.fixture
    def many(self, kind: str) -> int:
        return 50 if kind == "hdfs" else 1010  # HDFS lists in one stream, and takes half a second to close a file


class TestFaults(FaultContract):
    """The contract on a failing network and with missing rights."""

    @pytest.fixture(params=REAL)
    def kind(self, request: pytest.FixtureRequest) -> Any:
        return request.param

    @pytest.fixture
    def network(self, faulty: Faulty) -> Faulty:
        return faulty

    @pytest.fixture
    def denied(self, faulty: Faulty) -> Store:
        status, code = EXPIRED[faulty.dialect]
        for method in ("GET", "HEAD", "PUT", "POST", "DELETE"):
            faulty.proxy.plan("refuse", method=method, times=1000, status=status, code=code)
        return faulty.store()

    @pytest.fixture
    def nowhere(self, faulty: Faulty) -> Store:
        return open_store(f"{faulty.url.partition('://')[0]}://no-such-place-here/table", faulty.past_options)

    @pytest.fixture
    def read_only(self, faulty: Faulty, request: pytest.FixtureRequest) -> Store:
        faulty.past().put("there", b"1")
        if faulty.dialect == "azure":
            host: AzureServer = request.getfixturevalue("azure_host")
            return open_store(f"{faulty.url}/table", host.shared_access_options(permission="rl"))
        status, code = (403, "AccessDenied") if faulty.dialect == "s3" else (403, "forbidden")
        faulty.proxy.plan("refuse", method="WRITE", times=1000, status=status, code=code)
        return faulty.store()


EXPIRED = {"s3": (400, "ExpiredToken"), "gcs": (401, "authError"), "azure": (403, "AuthenticationFailed")}
