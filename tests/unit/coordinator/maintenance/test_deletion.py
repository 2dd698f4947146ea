"""Deleting the files of a plan: in order, in batches, roots last and one by one; roots that were replaced stop it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest

from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import ObjectInfo
from lakelatch.coordinator.maintenance.deletion import BATCH, Steps, refuse_replaced
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
