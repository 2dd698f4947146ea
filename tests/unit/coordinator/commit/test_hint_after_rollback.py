"""The hint of a commit does not stay if another engine's rollback takes the snapshot away at that moment (H7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.backends.local import LocalStore
from lakelatch.backends.store import ObjectInfo
from lakelatch.table.table import Table

ROWS = pa.table({"v": [1]})
TOP = "snapshot/snapshot-2"


class RolledBack(LocalStore):
    """A rollback to snapshot 1 deletes snapshot 2 before the hint, after it, or after so many looks for the snapshot."""

    when = ""
    looks = 0
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
    return store


@pytest.mark.parametrize("when", ["before", "after", "after look 1"])
def test_a_hint_goes_with_its_snapshot(tmp_path: Path, when: str) -> None:
    """The rollback has written its own hint by then; Apache Paimon lists where there is none."""
    store = committed(tmp_path, when=when)
    table = ll.open_table(store.url)
    assert table.timeline.snapshot_ids() == [1] and table.timeline.hint("LATEST") is None
    table.append(ROWS)
    table.committer.settle()
    assert table.timeline.hint("LATEST") == 2


def test_a_hint_stays_with_its_snapshot(tmp_path: Path) -> None:
    store = committed(tmp_path)
    assert (store.get("snapshot/LATEST"), store.looks) == (b"2", 2)


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
