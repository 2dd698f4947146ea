"""Assigns keys to the dynamic buckets of one partition, by their hashes.

Owns: `HashBuckets`, `HashSet`. Must not know: rows, index files, options. Source: format/binary-row §5.
Invariants: a hash that has a bucket keeps it. The same new hashes on the same index get the same buckets, whoever assigns them,
so that two writers that begin at the same time seldom disagree. No loop over hashes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import InvalidArgument
from ..typed import Array

MOST_BUCKETS = 32_767
"""Apache Paimon holds the number of a dynamic bucket in a short."""
_UNLIMITED = -1


class HashSet:
    """A growing map from hashes to numbers, as sorted runs whose lengths at least double: each hash moves a few times only."""

    def __init__(self) -> None:
        self._runs: list[tuple[Array, Array]] = []

    def __len__(self) -> int:
        return sum(len(hashes) for hashes, _ in self._runs)

    def find(self, hashes: Array) -> Array:
        """The number of each hash, -1 for one that is not there.

        Args:
            hashes: int32. Ascending ones are found faster.
        """
        found = np.full(len(hashes), -1, np.int32)
        for known, numbers in self._runs:
            places = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
            hit = known[places] == hashes
            found[hit] = numbers[places[hit]]
        return found

    def add(self, hashes: Array, numbers: Array) -> None:
        """Add hashes that are not there yet.

        Args:
            hashes: int32, ascending, each once.
            numbers: int32, one for each.
        """
        if not len(hashes):
            return
        self._runs.append((hashes, numbers))
        while len(self._runs) > 1 and len(self._runs[-2][0]) < 2 * len(self._runs[-1][0]):
            right, left = self._runs.pop(), self._runs.pop()
            both = np.concatenate([left[0], right[0]])
            order = np.argsort(both, kind="stable")
            self._runs.append((both[order], np.concatenate([left[1], right[1]])[order]))

    def where(self, number: int) -> Array:
        """The hashes with a number, ascending."""
        return np.sort(np.concatenate([np.empty(0, np.int32), *(h[n == number] for h, n in self._runs)]))


class HashBuckets:
    """The buckets of one partition: which hash is in which, and where new hashes go.

    Args:
        known: the hashes in the partition's index files, by bucket.
        target: option `dynamic-bucket.target-row-num`: a bucket with this many hashes takes no new ones.
        most: option `dynamic-bucket.max-buckets`; -1 for no limit. Beyond it, full buckets take new hashes too.
        assigner, assigners: this one owns the buckets whose number modulo `assigners` is `assigner`, and gives new hashes to no
            other, so that assigners of different hashes can work side by side.

    Raises:
        InvalidArgument: an option is out of range.

    >>> buckets = HashBuckets({0: np.array([5, 9], np.int32)}, target=3)
    >>> buckets.assign(np.array([9, 7, 8, 7], np.int32)).tolist()
    [0, 0, 1, 0]
    """

    def __init__(
        self, known: Mapping[int, Array], *, target: int, most: int = _UNLIMITED, assigner: int = 0, assigners: int = 1
    ) -> None:
        if most != _UNLIMITED and most < 1:
            raise InvalidArgument(
                f"option 'dynamic-bucket.max-buckets' = {most}: use a number above 0, or -1 for no limit"
            )
        if target < 1:
            raise InvalidArgument(f"option 'dynamic-bucket.target-row-num' = {target}: use a number above 0")
        self._target, self._most = target, most
        self._assigner, self._assigners = assigner, assigners
        self._known, self._new = HashSet(), HashSet()
        self._counts: dict[int, int] = {}
        for bucket, hashes in sorted(known.items()):
            distinct = np.unique(hashes)
            free = distinct[self._known.find(distinct) < 0]
            self._known.add(free, np.full(len(free), bucket, np.int32))
            self._counts[bucket] = len(distinct)

    def assign(self, hashes: Array) -> Array:
        """The bucket of each hash. New hashes are remembered.

        Args:
            hashes: int32, one for each row, in the order of the rows.

        Raises:
            InvalidArgument: there are more buckets than the format can number.
        """
        distinct, firsts, codes = np.unique(hashes, return_index=True, return_inverse=True)
        found = self._known.find(distinct)
        missing = np.flatnonzero(found < 0)
        found[missing] = self._new.find(distinct[missing])
        missing = missing[found[missing] < 0]
        if len(missing):
            in_order = missing[np.argsort(firsts[missing])]
            found[in_order] = self._buckets_for(distinct[in_order])
            self._new.add(distinct[missing], found[missing])
        return found[codes.reshape(-1)]

    def new_in(self, bucket: int) -> Array:
        """The hashes that were assigned to a bucket and were in none before, ascending."""
        return self._new.where(bucket)

    def _buckets_for(self, hashes: Array) -> Array:
        """Buckets for new hashes: those with room first, then new ones, then any."""
        count = len(hashes)
        chosen, sizes = [], []
        for bucket in sorted(b for b in self._counts if self._is_own(b)):
            room = min(self._target - self._counts[bucket], count)
            if room > 0:
                chosen.append(bucket)
                sizes.append(room)
                count -= room
        number = self._assigner
        limit = MOST_BUCKETS if self._most == _UNLIMITED else self._most
        while count and number < limit:
            if number not in self._counts:
                chosen.append(number)
                sizes.append(min(self._target, count))
                count -= sizes[-1]
            number += self._assigners
        if count and self._most == _UNLIMITED:
            raise InvalidArgument(
                f"a partition would have more than {limit} buckets",
                next_step=f"set option 'dynamic-bucket.target-row-num' above {self._target}",
            )
        for bucket, size in zip(chosen, sizes, strict=True):
            self._counts[bucket] = self._counts.get(bucket, 0) + size
        placed = np.repeat(np.array(chosen, np.int32), sizes)
        return placed if not count else np.concatenate([placed, self._overflow(hashes[len(placed) :])])

    def _overflow(self, hashes: Array) -> Array:
        """Full buckets for hashes that no bucket has room for: chosen by the hash, so that all writers choose the same."""
        own = sorted(b for b in self._counts if self._is_own(b)) or sorted(self._counts)
        if not own:
            raise InvalidArgument(
                f"option 'dynamic-bucket.max-buckets' = {self._most} leaves none of {self._assigners} assigners a bucket",
                next_step="set it to at least 'dynamic-bucket.initial-buckets'",
            )
        picked: Array = np.array(own, np.int32)[hashes.astype(np.uint32) % len(own)]
        for bucket, size in zip(*np.unique(picked, return_counts=True), strict=True):
            self._counts[int(bucket)] += int(size)
        return picked

    def _is_own(self, bucket: int) -> bool:
        return bucket % self._assigners == self._assigner


def assigner_of(partition_hash: int, hashes: Array, assigners: int) -> Any:
    """The assigner of each hash, as Apache Paimon computes it for as many channels as assigners.

    >>> assigner_of(7, np.array([-3, 4], np.int32), 4).tolist()
    [2, 3]
    """
    own = np.abs(np.fmod(hashes.astype(np.int64), assigners))
    return (abs(partition_hash) % assigners + own) % assigners
