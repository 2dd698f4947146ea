"""The probe of a store asks for no right that a writer of rows does not need."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.probe import PROBED
from lakelatch.backends.store import Created, PutOutcome
from lakelatch.core.errors import StoreUnavailable, UnsafeBackend
from lakelatch.table.table import Table

COUNTER = itertools.count()
ROWS = pa.table({"v": [1]})


class Limited(MemoryStore):
    """Refuses writes to some folders, and may ignore conditions."""

    refused: tuple[str, ...] = ("schema/",)
    overwrites = False

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        if key.startswith(self.refused):
            raise StoreUnavailable(f"cannot create {key}: AccessDenied", next_step="check your rights")
        if self.overwrites:
            self.put(key, data)
            return Created()
        return super().put_if_absent(key, data)


@pytest.fixture
def writer() -> Iterator[tuple[Table, Limited]]:
    """A table with a snapshot, as a writer has it open that has no right to schemas, in a new process."""
    url = f"memory://probes-{next(COUNTER)}/t"
    made = ll.create_table(url, ROWS.schema)
    made.append(ROWS)
    made.committer.settle()
    PROBED.forget(url)
    store = Limited(url)
    yield Table(store, made.schema, first_schema=made._first_schema), store
    PROBED.forget(url)


def test_a_writer_needs_no_right_to_write_schemas(writer: tuple[Table, Limited]) -> None:
    table, store = writer
    assert table.append(ROWS).snapshot_id == 2 and store.url in PROBED


def test_a_store_that_overwrites_is_found_by_the_hint_too(writer: tuple[Table, Limited]) -> None:
    table, store = writer
    store.overwrites = True
    with pytest.raises(UnsafeBackend, match="LATEST"):
        table.append(ROWS)
    assert table.count() == 1


def test_an_error_of_the_probe_says_so(writer: tuple[Table, Limited]) -> None:
    table, store = writer
    store.refused = ("schema/", "snapshot/")
    with pytest.raises(
        StoreUnavailable, match=r"the probe, which creates a file that exists .*schema-0.*check your rights"
    ):
        table.append(ROWS)
