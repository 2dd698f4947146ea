"""A store that answers too late, or never: what is asked at once ends within `operation_timeout`, and tells what hung."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.core.errors import StoreUnavailable

from .conftest import Faulty

SECONDS = 2.0
ROWS = pa.table({"id": [1]})


def followed(table: ll.Table) -> Any:
    return next(iter(table.follow("earliest", wait=0)))


CALLS: dict[str, tuple[str, Callable[[Faulty, ll.Table], Any]]] = {
    "open": ("/schema/", lambda faulty, table: ll.open_table(table.url, storage_options=faulty.options)),
    "plan": ("/manifest/", lambda faulty, table: table.plan()),
    "snapshots": ("/snapshot/", lambda faulty, table: table.snapshots()),
    "earlier": ("/snapshot/", lambda faulty, table: table.at(snapshot=1)),
    "follow": ("/snapshot/", lambda faulty, table: followed(table)),
    "catalog": (
        "/schema/",
        lambda faulty, table: ll.open_catalog(faulty.url, storage_options=faulty.options).tables("d"),
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_whose_requests_hang_ends_in_time(faulty: Faulty, name: str) -> None:
    """Else a request is given up after 20 s."""
    hangs, call = CALLS[name]
    faulty.options.update(operation_timeout=SECONDS, request_timeout=5)
    table = ll.create_table(f"{faulty.url}/d.db/t", ROWS.schema, storage_options=faulty.options)
    table.append(ROWS)
    table.committer.settle()
    faulty.proxy.plan("hang", method="GET", path=hangs, times=1_000)
    began = time.monotonic()
    with pytest.raises(StoreUnavailable) as raised:
        call(faulty, table)
    assert time.monotonic() - began < SECONDS + 8, "a busy machine may take some seconds more"
    assert hangs.strip("/") in raised.value.message
    assert "may take 2 s: storage option operation_timeout" in raised.value.next_step
