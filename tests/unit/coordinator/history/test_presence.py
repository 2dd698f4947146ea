"""Which files exist: few are looked at one by one, many are listed by folder."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import ObjectInfo
from lakelatch.coordinator.history.presence import sizes_of
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.core.paths import TablePaths

COUNTER = itertools.count()
FEW_FILES, MANY_FOLDERS = 16, 64
"""Written out: a change of either changes what a verification costs."""


class Watched(MemoryStore):
    """A store that records its requests."""

    def __init__(self) -> None:
        super().__init__(f"memory://presence-{next(COUNTER)}")
        self.asked: list[str] = []

    def head(self, key: str) -> ObjectInfo:
        self.asked.append(f"head {key}")
        return super().head(key)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        self.asked.append(f"list {prefix}")
        return super().list(prefix)


def filled(keys: list[str]) -> Watched:
    """A store in which every second file exists, as many bytes long as its index; and a file that was not asked for."""
    store = Watched()
    for place, key in enumerate(keys):
        if place % 2:
            store.put(key, b"x" * place)
    store.put(keys[0].rpartition("/")[0] + "/another", b"1234567")
    return store


def expected(keys: list[str]) -> dict[str, int]:
    return {key: place for place, key in enumerate(keys) if place % 2}


def asked(store: Watched, keys: list[str]) -> list[str]:
    assert sizes_of(Timeline(store, TablePaths()), keys) == expected(keys)
    return sorted(store.asked)


def test_few_files_are_looked_at_one_by_one() -> None:
    keys = [f"a/{number}" for number in range(FEW_FILES)]
    assert asked(filled(keys), keys) == sorted(f"head {key}" for key in keys)


def test_many_files_are_listed_by_folder() -> None:
    keys = [f"{'ab'[number % 2]}/deep/{number}" for number in range(FEW_FILES + 1)]
    assert asked(filled(keys), keys) == ["list a/deep/", "list b/deep/"]


@pytest.mark.parametrize(("folders", "everything"), [(MANY_FOLDERS, False), (MANY_FOLDERS + 1, True)])
def test_files_of_very_many_folders_are_listed_at_once(folders: int, everything: bool) -> None:
    keys = [f"{number}/x" for number in range(folders)]
    listings = ["list "] if everything else sorted(f"list {number}/" for number in range(folders))
    assert asked(filled(keys), keys) == listings


def test_no_files_need_no_request() -> None:
    store = Watched()
    assert sizes_of(Timeline(store, TablePaths()), []) == {}
    assert store.asked == []
