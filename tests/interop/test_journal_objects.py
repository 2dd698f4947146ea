"""A journal beside the table disturbs neither Apache Paimon's reader nor its orphan cleaner, and outlives both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.backends.local import LocalStore
from lakelatch.backends.store import PutOutcome


class Died(BaseException):
    """The writer's process is gone."""


def test_orphan_cleaning_leaves_journals_alone(
    paimon_java: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """format/commit §12, G4: it ignores the folder, and takes what the journal's snapshot needs: that is not sent then."""
    rows = pa.table({"month": pa.array([1, 2], pa.int32()), "v": [1, 2]})
    table = ll.create_table(str(tmp_path / "t"), rows.schema, partition_by=["month"], journal="object")
    table.append(rows)
    table.committer.settle()
    create = LocalStore.put_if_absent

    def dying(self: LocalStore, key: str, data: bytes) -> PutOutcome:
        if key.startswith("snapshot/snapshot-"):
            raise Died
        return create(self, key, data)

    with monkeypatch.context() as patched, pytest.raises(Died):
        patched.setattr(LocalStore, "put_if_absent", dying)
        table.append(rows)
    (journal,) = (tmp_path / "t" / "lakelatch" / "journal").iterdir()
    orphan = tmp_path / "t" / "manifest" / "manifest-orphan-0"
    orphan.write_bytes(b"nobody names this")
    assert len(paimon_java.rows(tmp_path / "t")) == 2
    assert paimon_java.remove_orphans(tmp_path / "t") > 1
    assert not orphan.exists()
    assert journal.exists()
    (commit,) = ll.recover(tmp_path / "t", writers_are_gone=True).commits
    assert (commit.outcome, len(table.snapshots())) == ("unknown", 1), "what was cleaned away is not published"
    assert "missing" in commit.reason or "gone" in commit.reason
    table.append(rows)
    table.committer.settle()
    assert [c.outcome for c in ll.recover(tmp_path / "t", writers_are_gone=True).commits] == ["not landed"]
    assert not journal.exists()
    assert len(paimon_java.rows(tmp_path / "t")) == 4
