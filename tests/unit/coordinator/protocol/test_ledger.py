"""One record of the files that a commit wrote: its writer never deletes a file that a published snapshot names (G5, H20)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import PutOutcome
from lakelatch.coordinator.commit.committer import Committer
from lakelatch.coordinator.protocol.ledger import Ledger, check_discard
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.core.errors import ProtocolViolation, StoreUnavailable
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.paths import TablePaths
from lakelatch.core.rows.arrow import from_arrow_schema
from lakelatch.table.table import Table

COUNTER = itertools.count()
ROWS = pa.table({"v": pa.array([1], pa.int64())})
NAMES = st.lists(st.sampled_from("abcdef"), unique=True)


class Watched(MemoryStore):
    """A store in memory that passes each request to a hook first; an exception from the hook is the request's answer."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.hook: Callable[[str, str], None] = lambda operation, key: None
        self.deleted: list[str] = []

    def get(self, key: str) -> bytes:
        self.hook("get", key)
        return super().get(key)

    def put(self, key: str, data: bytes) -> None:
        self.hook("put", key)
        super().put(key, data)

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        self.hook("create", key)
        return super().put_if_absent(key, data)

    def delete_many(self, keys: Any) -> None:
        names = list(keys)
        self.deleted += names
        super().delete_many(names)


class Clock:
    """A clock that a test sets; it advances a little at each reading."""

    now_s = 1_000.0

    def tick(self) -> float:
        self.now_s += 0.001
        return self.now_s


def opened(store: MemoryStore, clock: Clock, **options: str) -> Table:
    made = new_schema(from_arrow_schema(ROWS.schema), options=options)
    store.put_if_absent("schema/schema-0", made.to_json())
    table = Table(store, made)
    around = replace(MACHINE, monotonic_s=clock.tick, sleep=lambda seconds: None)
    table._committer = Committer(store, TablePaths(), made, around=around)
    return table


def test_a_merge_that_a_later_attempt_uses_again_is_not_discarded() -> None:
    """A merge is made; the base ages before the send; the merge is given up in the second pass, and used in the second attempt.

    The names of the merged manifest were once kept twice, and the commit deleted it after it had landed.
    """
    store, clock = Watched(f"memory://ledger-{next(COUNTER)}/t"), Clock()
    table, rival = opened(store, clock, **{"manifest.merge-min-count": "3"}), opened(store, clock)
    for _ in range(3):
        table.append(ROWS)
    table.committer.settle()
    seen: list[str] = []

    def hook(operation: str, key: str) -> None:
        seen.append(f"{operation} {key}")
        if operation == "create":
            store.hook = lambda operation, key: None
            rival.append(ROWS)  # the race is lost, after a second pass of the same attempt
        is_manifest = operation == "put" and key.startswith("manifest/manifest-") and "-list-" not in key
        manifests = [s for s in seen if s.startswith("put manifest/manifest-") and "-list-" not in s]
        if is_manifest and len(manifests) == 2:
            clock.now_s += 3_600  # the merge is written, the delta is next: the base is now too old for a send
        if is_manifest and len(manifests) > 2:
            raise StoreUnavailable("503")  # the second pass cannot merge again
        if key == "snapshot/snapshot-3" and seen.count("get snapshot/snapshot-3") in (1, 3):
            raise StoreUnavailable("503")  # the base cannot be checked, nor later whether the merge still fits

    store.hook = hook
    receipt = table.append(ROWS)
    table.committer.settle()
    assert receipt.snapshot_id == 5
    assert receipt.attempts == 2
    assert table.verify(snapshots="all") == []
    assert table.to_arrow().num_rows == 5
    needed = {f"manifest/{m.file_name}" for m in table.timeline.manifests(table.timeline.snapshot(5))}
    assert not needed & set(store.deleted)
    assert store.deleted, "the files of the lost attempt alone were cleaned up"


@given(NAMES, NAMES, st.booleans())
def test_all_written_files_that_no_snapshot_names_are_discarded(
    written: list[str], named: list[str], doubt: bool
) -> None:
    own = tuple(name for name in named if name in written)
    ledger = Ledger().with_files(written[:2]).with_snapshot(()).with_files(written).with_snapshot(own)
    if doubt:
        assert ledger.with_doubt().discardable(landed=True) == ()
        assert ledger.with_doubt().discardable(landed=False) == ()
        return
    assert set(ledger.discardable(landed=True)) == set(written) - set(own)
    assert set(ledger.discardable(landed=False)) == set(written)


def test_a_snapshot_whose_files_were_not_recorded_keeps_all_of_them() -> None:
    """A journal of an earlier version does not record what its snapshots reference."""
    ledger = Ledger().with_files(["a"]).with_snapshot(None)
    assert ledger.discardable(landed=True) == ()
    assert ledger.discardable(landed=False) == ("a",), "nobody needs the files of a snapshot that is not there"


def test_a_snapshot_must_not_reference_a_file_that_was_not_written() -> None:
    with pytest.raises(ProtocolViolation, match="did not write"):
        Ledger().with_files(["a"]).with_snapshot(("a", "b"))
    with pytest.raises(ProtocolViolation, match="references b,"):
        Ledger().with_files(["a"]).with_snapshot(("d", "b", "c", "a"))


def test_files_are_discarded_in_the_order_in_which_they_were_written() -> None:
    ledger = Ledger().with_files(["c", "a"]).with_files(["a", "b"]).with_snapshot(("a",))
    assert ledger.written == ("c", "a", "b")
    assert ledger.discardable(landed=True) == ("c", "b")


def test_nothing_is_deleted_if_the_ledger_and_the_snapshot_disagree() -> None:
    check_discard(("a",), {"b"})
    with pytest.raises(ProtocolViolation, match="a was about to be deleted"):
        check_discard(("d", "b", "a", "c"), {"b", "a", "d"})
