"""Deleting the files of a plan: in order, in batches, roots last and one by one; roots that were replaced stop it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import ObjectInfo
from lakelatch.coordinator.maintenance.deletion import BATCH, Steps, refuse_replaced, second_look
from lakelatch.coordinator.maintenance.reach.reachable import Candidates, Reach
from lakelatch.coordinator.maintenance.reach.roots import list_roots
from lakelatch.core.errors import CommitConflict

COUNTER = itertools.count()


class Watched(MemoryStore):
    """A store that records the batches of its deletions."""

    def __init__(self) -> None:
        super().__init__(f"memory://deletion-{next(COUNTER)}")
        self.batches: list[list[str]] = []

    def delete_many(self, keys: Iterable[str]) -> None:
        self.batches.append(list(keys))


def named(kind: str, count: int) -> tuple[str, ...]:
    return tuple(f"{kind}-{number}" for number in range(count))


def test_groups_go_one_after_another_in_batches_and_roots_one_by_one() -> None:
    """An interrupted deletion can be planned again: as long as a root exists, so does the way to the files that it names."""
    store, told = Watched(), list[tuple[int, int]]()
    steps = Steps(named("data", BATCH + 1), named("leaf", 2), named("list", 1), named("root", 2))
    steps.delete(store, lambda done, total: told.append((done, total)))
    assert [len(batch) for batch in store.batches] == [BATCH, 1, 2, 1, 1, 1]
    assert [key for batch in store.batches for key in batch] == [*steps.data, *steps.leaves, *steps.lists, *steps.roots]
    assert told == [(done, BATCH + 6) for done in (BATCH, BATCH + 1, BATCH + 3, BATCH + 4, BATCH + 5, BATCH + 6)]
    assert len(steps) == BATCH + 6


def test_a_full_batch_is_not_followed_by_an_empty_one() -> None:
    store = Watched()
    Steps(named("data", BATCH)).delete(store)
    assert [len(batch) for batch in store.batches] == [BATCH]
    Steps().delete(store)
    assert len(store.batches) == 1


def test_used_files_stay_and_roots_are_not_filtered() -> None:
    steps = Steps(("a", "b"), ("c", "d"), ("e", "f"), ("g", "h"))
    assert steps.without({"a", "d", "e", "g"}) == Steps(("b",), ("c",), ("f",), ("g", "h"))


def test_a_root_that_was_replaced_stops_the_deletion() -> None:
    """H18: the name is the same, but the content differs."""
    one, other = (ObjectInfo("snapshot/snapshot-1", 10, modified) for modified in (1, 2))
    steps = Steps(roots=(one.key,))
    refuse_replaced(steps, frozenset({one}), [one])
    refuse_replaced(steps, frozenset({one}), [])
    refuse_replaced(steps, frozenset(), [ObjectInfo("snapshot/snapshot-2", 10, 1)])
    with pytest.raises(CommitConflict, match="snapshot-1 was replaced"):
        refuse_replaced(steps, frozenset({one}), [other])


def test_a_second_look_spares_what_a_new_root_reaches() -> None:
    """H10: a tag that was made of the first snapshot since the plan keeps all of its files."""
    table = ll.create_table(f"memory://deletion-{next(COUNTER)}/t", pa.schema([("v", pa.int64())]))
    for value in (1, 2):
        table.overwrite(pa.table({"v": [value]}), partition={})
    table.committer.settle()
    first, data = table.timeline.snapshot(1), tuple(table.at(snapshot=1).files()["file_path"].to_pylist())
    leaves = tuple(f"manifest/{manifest.file_name}" for manifest in table.timeline.manifests(first))
    lists = tuple(f"manifest/{name}" for name in (first.base_manifest_list, first.delta_manifest_list))
    steps = Steps((*data, "bucket-0/data-orphan"), leaves, lists, ("snapshot/snapshot-1",))
    seen = frozenset(list_roots(table.timeline))

    def looked(**more: Any) -> Steps:
        return second_look(steps, seen, Reach(table.timeline, table.schema).usage(Candidates(frozenset(data))), **more)

    assert looked() == steps
    table.store.put("tag/tag-new", table.store.get("snapshot/snapshot-1"))
    assert looked() == Steps(("bucket-0/data-orphan",), (), (), ("snapshot/snapshot-1",))
    asked: list[str] = []
    assert looked(harmless=lambda root: not asked.append(root.key)) == steps
    assert asked == ["tag/tag-new"], "roots of the plan are not asked about"
    table.store.put("snapshot/snapshot-1", table.store.get("snapshot/snapshot-2"))
    with pytest.raises(CommitConflict, match="snapshot-1 was replaced"):
        looked()
