"""The hint of a commit does not stay if another engine's rollback takes the snapshot away at that moment (H7)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.backends.local import LocalStore
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import ObjectInfo
from lakelatch.coordinator.protocol import events as ev
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.table.methods import maintenance
from lakelatch.table.table import Table

ROWS = pa.table({"v": [1]})
TOP = "snapshot/snapshot-2"


class RolledBack(LocalStore):
    """A rollback to snapshot 1 deletes snapshot 2 before the hint, after it, or after so many looks for the snapshot."""

    when = ""
    looks = 0
    told: Any = None
    scheme = "file"
    slow: Callable[[], object] = staticmethod(lambda: None)

    @property
    def capabilities(self) -> Any:
        return replace(super().capabilities, native_scheme=self.scheme)

    def put(self, key: str, data: bytes) -> None:
        if key == "snapshot/LATEST":
            self._roll_back("before")
            self.slow()
        super().put(key, data)
        if key == "snapshot/LATEST":
            self._roll_back("after")

    def head(self, key: str) -> ObjectInfo:
        try:
            return super().head(key)
        finally:
            if key == TOP:
                self.looks += 1
                self._roll_back(f"after look {self.looks}")

    def _roll_back(self, moment: str) -> None:
        if self.when == moment:
            super().put("snapshot/LATEST", b"1")
            self.delete_many([TOP])


def committed(path: Path, **how: Any) -> RolledBack:
    table = ll.create_table(str(path / "t"), ROWS.schema)
    table.append(ROWS)
    table.committer.settle()
    store = RolledBack(table.url)
    for name, value in how.items():
        setattr(store, name, value)
    second = Table(store, table.schema)  # type: ignore[arg-type]
    assert second.append(ROWS).snapshot_id == 2
    second.committer.settle()
    store.told = [one.event for one in second.committer.journal.entries()][-1]  # type: ignore[attr-defined]
    return store


@pytest.mark.parametrize("when", ["before", "after", "after look 1"])
def test_a_hint_goes_with_its_snapshot(tmp_path: Path, when: str) -> None:
    """The rollback has written its own hint by then; Apache Paimon lists where there is none."""
    store = committed(tmp_path, when=when)
    table = ll.open_table(store.url)
    assert table.timeline.snapshot_ids() == [1] and table.timeline.hint("LATEST") is None
    why = "snapshot 2 was taken away, and the hint with it"
    assert store.told == ev.HintSkipped(why), "the journal says why there is none"
    table.append(ROWS)
    table.committer.settle()
    assert table.timeline.hint("LATEST") == 2


def test_a_hint_stays_with_its_snapshot(tmp_path: Path) -> None:
    store = committed(tmp_path)
    assert (store.get("snapshot/LATEST"), store.looks, store.told) == (b"2", 2, ev.HintWritten(2))


def test_an_object_store_is_asked_only_after_a_slow_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rollback takes many times as long as a hint there, and each look costs."""
    quick = committed(tmp_path / "quick", scheme="s3a")
    assert (quick.get("snapshot/LATEST"), quick.looks) == (b"2", 0)
    from lakelatch.coordinator.commit.steps import publishing

    monkeypatch.setattr(publishing, "SLOW_HINT_S", 0.0)
    slow = committed(tmp_path / "slow", scheme="s3a", when="after")
    with pytest.raises(FileNotFoundError):
        (tmp_path / "slow/t/snapshot/LATEST").read_bytes()
    assert slow.looks == 1


class LateHint(MemoryStore):
    """The first hint takes a while, as on a store that is slow just then; the order in which things happen is kept."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.is_late, self.done = False, list[str]()

    def put(self, key: str, data: bytes) -> None:
        if key.endswith("LATEST") and self.is_late:
            self.is_late = False
            time.sleep(0.2)
        super().put(key, data)
        self.done.append(key)

    def delete_many(self, keys: Iterable[str]) -> None:
        listed = list(keys)
        super().delete_many(listed)
        self.done += [f"deleted {key}" for key in listed]


def test_an_expiry_waits_for_the_hint_of_the_last_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would name a snapshot that is gone by then, and another engine would believe it."""
    made = ll.create_table("memory://late-hint/t", ROWS.schema)
    store = LateHint(made.url)
    table = Table(store, made.schema)
    table.append(ROWS)
    table.settle()
    store.is_late = True
    table.append(ROWS)
    monkeypatch.setattr(maintenance, "MACHINE", replace(MACHINE, wall_s=lambda: time.time() + 86_400))
    table.expire(retain_max=1, retain_min=1)
    table.settle()
    done = store.done
    assert done.count("snapshot/LATEST") == 2
    assert done.index("deleted snapshot/snapshot-1") > max(
        n for n, what in enumerate(done) if what == "snapshot/LATEST"
    )
