"""Many names of files in little memory: those that are found, in their order, and those that are used, as a set.

Owns: `FileSpool`, `NameSet`, what is kept on disk. Must not know: which files are candidates, stores.
Invariants: memory does not grow with the number of files that a spool holds, and by eight bytes at most for each name of a set.
A set never says of a name in it that it is not there; that it says so of another name is as likely as that two fingerprints of 64
bits agree. A file is then kept that could have been deleted.
"""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import chain
from typing import Any, overload

import numpy as np

from ....backends.store import ObjectInfo
from ....core.typed import Array

CHUNK = 1_000
"""How many files of a spool are read or written together, which is also what one request of a store deletes."""
HELD = 10 * CHUNK
"""A spool of more files than this is kept on disk."""
RUN = 1 << 20
"""So many names of a set become one sorted run; further runs are kept on disk."""


class FileSpool(Sequence[ObjectInfo]):
    """Files as they were listed, in the order in which they were added. Those that do not fit lie in an unnamed temporary file.

    >>> spool = FileSpool([ObjectInfo("a", 1, 5), ObjectInfo("b", 2, 6)])
    >>> len(spool), spool[1].key, spool.size, spool == (ObjectInfo("a", 1, 5), ObjectInfo("b", 2, 6))
    (2, 'b', 3, True)
    """

    def __init__(self, files: Iterable[ObjectInfo] = ()) -> None:
        self._fresh: list[ObjectInfo] = []
        self._held: list[list[ObjectInfo]] = []
        self._disk: Any = None
        self._places: list[tuple[int, int]] = []
        self._count = 0
        self.size = 0
        """The bytes of all files together."""
        for info in files:
            self.add(info)

    def add(self, info: ObjectInfo) -> None:
        self._fresh.append(info)
        self._count += 1
        self.size += info.size
        if len(self._fresh) == CHUNK:
            self._held.append(self._fresh)
            self._fresh = []
            if len(self._held) * CHUNK > HELD:
                self._spill()

    def extend(self, files: Iterable[ObjectInfo]) -> None:
        for info in files:
            self.add(info)

    def chunks(self) -> Iterator[list[ObjectInfo]]:
        yield from (self._read(place) for place in self._places)
        yield from self._held
        if self._fresh:
            yield self._fresh

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[ObjectInfo]:
        return chain.from_iterable(self.chunks())

    @overload
    def __getitem__(self, index: int) -> ObjectInfo: ...

    @overload
    def __getitem__(self, index: slice) -> list[ObjectInfo]: ...

    def __getitem__(self, index: int | slice) -> ObjectInfo | list[ObjectInfo]:
        if isinstance(index, slice):
            return [self._at(i) for i in range(*index.indices(self._count))]
        if not -self._count <= index < self._count:
            raise IndexError(index)
        return self._at(index % self._count)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(other) == len(self) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"FileSpool({self._count} files)"

    def _at(self, index: int) -> ObjectInfo:
        number, place = divmod(index, CHUNK)
        if number < len(self._places):
            return self._read(self._places[number])[place]
        number -= len(self._places)
        return self._held[number][place] if number < len(self._held) else self._fresh[place]

    def _spill(self) -> None:
        if self._disk is None:
            self._disk = tempfile.TemporaryFile(prefix="lakelatch-")  # noqa: SIM115 - as long as the spool lives
        for files in self._held:
            start = self._disk.seek(0, os.SEEK_END)
            data = pickle.dumps([(info.key, info.size, info.modified_ms) for info in files])
            self._disk.write(data)
            self._places.append((start, len(data)))
        self._disk.flush()
        self._held = []

    def _read(self, place: tuple[int, int]) -> list[ObjectInfo]:
        start, length = place
        return [ObjectInfo(*values) for values in pickle.loads(os.pread(self._disk.fileno(), length, start))]


def fingerprints(names: Iterable[str]) -> Array:
    """64 bits for each name, the same in every process."""
    digests = [blake2b(name.encode(), digest_size=8).digest() for name in names]
    return np.frombuffer(b"".join(digests), np.uint64)


class NameSet:
    """A set of names, kept as sorted runs of their fingerprints.

    >>> names = NameSet()
    >>> names.add(["a", "b"])
    >>> names.holds(["b", "c"]).tolist()
    [True, False]
    """

    def __init__(self) -> None:
        self._fresh: list[Array] = []
        self._waiting = 0
        self._runs: list[Array] = []

    def add(self, names: Iterable[str]) -> None:
        self.add_fingerprints(fingerprints(names))

    def add_fingerprints(self, found: Array) -> None:
        self._fresh.append(found)
        self._waiting += len(found)
        if self._waiting >= RUN:
            self._sort()

    def holds(self, names: Sequence[str]) -> Array:
        self._sort()
        asked = fingerprints(names)
        found = np.zeros(len(asked), bool)
        for run in self._runs:
            places = np.minimum(np.searchsorted(run, asked), len(run) - 1)
            found |= run[places] == asked
        return found

    def _sort(self) -> None:
        if not self._waiting:
            return
        run = np.unique(np.concatenate(self._fresh))
        self._fresh, self._waiting = [], 0
        if self._runs and len(self._runs[-1]) + len(run) <= RUN:
            run = np.union1d(self._runs.pop(), run)
        self._runs.append(run if not self._runs else _on_disk(run))


def _on_disk(run: Array) -> Array:
    with tempfile.TemporaryFile(prefix="lakelatch-") as file:
        run.tofile(file)
        file.flush()
        return np.memmap(file, run.dtype, mode="r")
