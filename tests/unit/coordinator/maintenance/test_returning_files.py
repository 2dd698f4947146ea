"""Files that come back under an earlier identity: what is added once more is never hidden by an earlier DELETE (decision 75)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hooked_store import HookedStore

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.coordinator.commit.checks.returning import Returning
from lakelatch.coordinator.maintenance.expiry.expire import apply_expiry, plan_expiry
from lakelatch.coordinator.maintenance.expiry.retention import Retention
from lakelatch.coordinator.maintenance.orphans import plan_orphans
from lakelatch.core.metadata.data_file import RETURN_MARK
from lakelatch.core.places import FileKeys
from lakelatch.table.table import Table

COUNTER = itertools.count()
BLOOM = "file-index.bloom-filter.columns"


def made(**options: str) -> Table:
    """1: one file at level 0; 2: a compaction has raised it."""
    schema = ll.Schema([("k", "INT NOT NULL"), ("v", "STRING")])
    url = f"memory://returning-{next(COUNTER)}/t"
    table = ll.create_table(url, schema, primary_key=["k"], options={"bucket": "1", "write-only": "true", **options})
    table.upsert(rows("a", 1, 2))
    table.compact(full=True)
    assert [e.file.level for e in table.entries()] == [5]
    return table


def rows(v: str, *keys: int) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int32()), "v": [v] * len(keys)})


def held(table: Table) -> dict[int, str]:
    found = ll.open_table(table.url).to_arrow()
    return dict(zip(found["k"].to_pylist(), found["v"].to_pylist(), strict=True))


def marks(table: Table) -> list[str]:
    return [info.key for info in table.store.list("") if info.key.endswith(RETURN_MARK)]


def expire(table: Table) -> None:
    newest = table.timeline.latest()
    assert newest is not None
    for tag in table.tags():
        table.delete_tag(tag.name)
    retention = Retention.of(table.schema.options, newest.time_ms + 10**9, retain_max=1, retain_min=1)
    apply_expiry(table.timeline, plan_expiry(table.timeline, table.schema, retention))


def assert_sound(table: Table) -> None:
    assert table.verify("all", data=True) == []
    assert plan_orphans(table.timeline, table.schema, 2**62).files == ()


def undo(table: Table) -> None:
    table.undo(2)


def roll_back(table: Table) -> None:
    table.rollback(snapshot=1)


@pytest.mark.parametrize("back", [undo, roll_back])
def test_a_file_that_is_lowered_can_be_raised_again(back: Callable[[Table], None]) -> None:
    table = made()
    for times in range(1, 4):
        back(table) if times == 1 else table.undo(table.timeline.snapshot_ids()[-1])
        assert [e.file.level for e in table.entries()] == [0]
        assert held(table) == {1: "a", 2: "a"}, times
        table.compact(full=True)
        assert held(table) == {1: "a", 2: "a"}, times
        assert [e.file.level for e in table.entries()] == [5]
        assert_sound(table)
    expire(table)
    assert_sound(table)
    assert len(marks(table)) == 1
    table.upsert(rows("b", 1))
    table.compact(full=True)
    expire(table)
    assert held(table) == {1: "b", 2: "a"}
    assert_sound(table)
    assert marks(table) == []


@pytest.mark.parametrize("loses", [True, False])
def test_marks_of_attempts_that_were_beaten_stay_only_if_the_commit_lands(loses: bool) -> None:
    table = made()
    store: Any = HookedStore(MemoryStore(table.url))
    beaten = Table(store, table.schema, first_schema=table._first_schema)
    other = ll.open_table(table.url)
    store.before["snapshot/snapshot-3"] = lambda: other.truncate() if loses else other.compact_manifests()
    if loses:
        with pytest.raises(ll.LakelatchError, match="not committed"):
            beaten.undo(2)
        assert (held(table), marks(table)) == ({}, [])
    else:
        assert beaten.undo(2).attempts == 2
        assert held(table) == {1: "a", 2: "a"}
        assert len(marks(table)) == 1
    assert table.verify("all", data=True) == []


def test_commits_are_undone_to_the_first_one_through_a_compaction() -> None:
    table = made()
    table.upsert(rows("b", 1))
    for number in (3, 2, 1):
        table.undo(number)
    assert held(table) == {}
    table.undo(6)
    assert held(table) == {1: "a", 2: "a"}
    assert_sound(table)


def test_a_rollback_leaves_a_file_alone_that_is_at_its_level_under_another_identity() -> None:
    table = made()
    table.undo(2)
    identities = [e.identity for e in table.entries()]
    plan = table.plan_rollback(snapshot=1)
    assert plan.added == plan.removed == ()
    table.upsert(rows("b", 1))
    assert table.plan_rollback(snapshot=3).added == ()
    table.rollback(snapshot=1)
    assert [e.identity for e in table.entries()] == identities
    assert held(table) == {1: "a", 2: "a"}
    assert_sound(table)


def test_indexes_come_and_go() -> None:
    table = ll.create_table(f"memory://returning-{next(COUNTER)}/t", ll.Schema([("k", "INT"), ("v", "STRING")]))
    table.append(rows("a", 1, 2))
    for times in range(3):
        table.alter(ll.set_option(BLOOM, "k"))
        assert len(ll.open_table(table.url).rewrite_file_index().receipts) == 1
        assert held(table) == {1: "a", 2: "a"}, times
        table.alter(ll.remove_option(BLOOM))
        assert len(ll.open_table(table.url).rewrite_file_index().receipts) == 1
        assert held(table) == {1: "a", 2: "a"}, times
        assert_sound(table)
    expire(table)
    assert_sound(table)
    assert marks(table) == []


def test_nothing_is_written_beside_files_outside_the_table(tmp_path: Path) -> None:
    options = {
        "data-file.external-paths": f"file://{tmp_path / 'out'}",
        "data-file.external-paths.strategy": "round-robin",
    }
    table = made(**options)
    table.undo(2)
    table.compact(full=True)
    assert held(table) == {1: "a", 2: "a"}
    assert_sound(table)
    assert [name for e in table.entries() for name in e.file.extra_files if name.endswith(RETURN_MARK)] != []
    assert [path for path in tmp_path.rglob("*") if path.name.endswith(RETURN_MARK)] == []
    keys = FileKeys(table.schema)
    assert [len(keys.data(e)) for e in table.entries()] == [1]
    assert not any(key.endswith(RETURN_MARK) for key in keys.named(table.entries()))


def test_verify_names_a_file_that_an_earlier_delete_hides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of earlier versions may be in this state."""
    table = made()
    monkeypatch.setattr(Returning, "marked", lambda self, entries: (tuple(entries), ()))
    table.undo(2)
    table.compact(full=True)
    monkeypatch.undo()
    assert held(table) == {}
    for which in (None, "all"):
        (found,) = table.verify(which)
        assert "again, which an earlier DELETE hides from readers" in str(found)


def test_a_file_that_comes_back_keeps_its_index() -> None:
    table = made(**{BLOOM: "v", "file-index.in-manifest-threshold": "1 b"})
    (before,) = table.entries()
    assert [name.endswith(".index") for name in before.file.extra_files] == [True]
    undo(table)
    (entry,) = table.entries()
    assert set(before.file.extra_files) < set(entry.file.extra_files)
    assert_sound(table)
