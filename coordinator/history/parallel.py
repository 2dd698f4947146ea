"""Reads of one branch of a table, several at the same time.

Owns: `ParallelReads`, on which every reader of a branch stands. Must not know: what is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from typing import TypeVar

from ...backends.store import Store
from ...core.paths import TablePaths, version_of
from ..surroundings import MACHINE

READ_THREADS = 8

T = TypeVar("T")
R = TypeVar("R")


class ParallelReads:
    """The files of one branch of one table, and a way to read several of them at once. Thread-safe."""

    def __init__(
        self, store: Store, paths: TablePaths, executor: Callable[[int, str], Executor] = MACHINE.executor
    ) -> None:
        self.store = store
        self.paths = paths
        self._executor = executor

    def ids_in(self, folder: str, kind: str) -> list[int]:
        """The numbers of the files `<kind>-<number>` in a folder, ascending."""
        found = (version_of(info.key[len(folder) :], kind) for info in self.store.list(folder))
        return sorted(number for number in found if number is not None)

    @property
    def is_near(self) -> bool:
        """Are a few small files read one after the other?"""
        return self.store.capabilities.near

    def both(self, first: Callable[[], T], second: Callable[[], R]) -> tuple[T, R]:
        if self.is_near:
            return first(), second()
        with self._executor(2, "lakelatch-read") as pool:
            one, other = pool.submit(first), pool.submit(second)
            return one.result(), other.result()

    def parallel(self, read: Callable[[T], R], items: Iterable[T], at_once: int = READ_THREADS) -> list[R]:
        todo = list(items)
        if len(todo) < 2 or (self.is_near and len(todo) <= READ_THREADS):
            return [read(item) for item in todo]
        with self._executor(min(at_once, len(todo)), "lakelatch-read") as pool:
            return list(pool.map(read, todo))
