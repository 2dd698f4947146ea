"""Assigns keys to the dynamic buckets of one partition, by their hashes.

Owns: `HashBuckets`, `HashSet`, `with_room` (which buckets take new keys). Must not know: rows, index files, options.
Source: format/binary-row §5. Invariants: a hash that has a bucket keeps it. The same new hashes on the same index get the same
buckets, whoever assigns them, so that two writers that begin at the same time seldom disagree. No loop over hashes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ...errors import InvalidArgument
from ...typed import Array

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
        """The number of each int32 hash, -1 for one that is not there. Ascending ones are found faster."""
        found = np.full(len(hashes), -1, np.int32)
        for known, numbers in self._runs:
            places = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
            hit = known[places] == hashes
            found[hit] = numbers[places[hit]]
        return found

    def add(self, hashes: Array, numbers: Array) -> None:
        """Hashes that are not there yet, ascending, each once, and their numbers; both int32."""
        if not len(hashes):
            return
        self._runs.append((hashes, numbers))
        while len(self._runs) > 1 and len(self._runs[-2][0]) < 2 * len(self._runs[-1][0]):
            right, left = self._runs.pop(), self._runs.pop()
            both = np.concatenate([left[0], right[0]])
            order = np.argsort(both, kind="stable")
            self._runs.append((both[order], np.concatenate([left[1], right[1]])[order]))

    def where(self, number: int) -> Array:
        return np.sort(np.concatenate([np.empty(0, np.int32), *(h[n == number] for h, n in self._runs)]))


class HashBuckets:
    """The buckets of one partition: which hash is in which, and where new hashes go. Raises InvalidArgument for an
    option out of range.

    Args:
        known: the hashes in the partition's index files, by bucket.
        target: option `dynamic-bucket.target-row-num`: a bucket with this many hashes takes no new ones.
        most: option `dynamic-bucket.max-buckets`; -1 for no limit. Beyond it, full buckets take new hashes too.
        assigners: new hashes are divided among this many (`assigner_of`). Each owns the buckets whose number modulo `assigners`
            is its own number, so that the hashes of different assigners can be assigned in different processes.

    >>> buckets = HashBuckets({0: np.array([5, 9], np.int32)}, target=3)
    >>> buckets.assign(np.array([9, 7, 8, 7], np.int32)).tolist()
    [0, 0, 1, 0]
    """

    def __init__(
        self,
        known: Mapping[int, Array],
        *,
        target: int,
        most: int = _UNLIMITED,
        assigners: int = 1,
        partition_hash: int = 0,
    ) -> None:
        for option, value in (("target-row-num", target), ("initial-buckets", assigners)):
            if value < 1:
                raise InvalidArgument(f"option 'dynamic-bucket.{option}' = {value}: use a number above 0")
        if most != _UNLIMITED and most < 1:
            raise InvalidArgument(
                f"option 'dynamic-bucket.max-buckets' = {most}: use a number above 0, or -1 for no limit"
            )
        self._target, self._most = target, most
        self._assigners, self._partition_hash = assigners, partition_hash
        self._known, self._new, self._used = HashSet(), HashSet(), HashSet()
        self._counts: dict[int, int] = {}
        for bucket, hashes in sorted(known.items()):
            distinct = np.unique(hashes)
            free = distinct[self._known.find(distinct) < 0]
            self._known.add(free, np.full(len(free), bucket, np.int32))
            self._counts[bucket] = len(distinct)

    def assign(self, hashes: Array) -> Array:
        """The bucket of each row's int32 hash. New hashes are remembered. Raises InvalidArgument for too many buckets."""
        distinct, firsts, codes = np.unique(hashes, return_index=True, return_inverse=True)
        found = self._used.find(distinct)
        unused = np.flatnonzero(found < 0)
        if len(unused):
            found[unused] = self._known.find(distinct[unused])
            missing = unused[found[unused] < 0]
            in_order = missing[np.argsort(firsts[missing])]
            assigners = assigner_of(self._partition_hash, distinct[in_order], self._assigners)
            for assigner in np.unique(assigners).tolist():
                own = in_order[assigners == assigner]
                found[own] = self._buckets_for(distinct[own], assigner)
            self._new.add(distinct[missing], found[missing])
            self._used.add(distinct[unused], found[unused])
        return found[codes.reshape(-1)]

    def used_in(self, bucket: int) -> Array:
        """The hashes that were asked for and are in a bucket, ascending."""
        return self._used.where(bucket)

    def new_in(self, bucket: int) -> Array:
        return self._new.where(bucket)

    def _buckets_for(self, hashes: Array, assigner: int) -> Array:
        limit = MOST_BUCKETS if self._most == _UNLIMITED else self._most
        placed = with_room(self._counts, len(hashes), self._target, range(assigner, limit, self._assigners))
        if len(placed) == len(hashes):
            return placed
        if self._most == _UNLIMITED:
            raise InvalidArgument(
                f"a partition would have more than {limit} buckets",
                next_step=f"set option 'dynamic-bucket.target-row-num' above {self._target}",
            )
        return np.concatenate([placed, self._overflow(hashes[len(placed) :], assigner)])

    def _overflow(self, hashes: Array, assigner: int) -> Array:
        """Full buckets for hashes that no bucket has room for: chosen by the hash, so that all writers choose the same."""
        own = [b for b in sorted(self._counts) if b % self._assigners == assigner] or sorted(self._counts)
        if not own:
            raise InvalidArgument(
                f"option 'dynamic-bucket.max-buckets' = {self._most} leaves no bucket for one of {self._assigners} assigners",
                next_step="set it to at least 'dynamic-bucket.initial-buckets'",
            )
        picked: Array = np.array(own, np.int32)[hashes.astype(np.uint32) % len(own)]
        for bucket, size in zip(*np.unique(picked, return_counts=True), strict=True):
            self._counts[int(bucket)] += int(size)
        return picked


def with_room(counts: dict[int, int], wanted: int, target: int, allowed: range) -> Array:
    """The bucket (int32) of each new key, as long as there is room: first those that exist, by number, then new ones of
    `allowed`. `counts` (keys by bucket) grows; a bucket with `target` keys takes no new ones.

    >>> with_room({0: 2, 2: 9}, 5, 3, range(4)).tolist()
    [0, 1, 1, 1, 3]
    """

    def candidates() -> Iterator[int]:
        yield from [b for b in sorted(counts) if b in allowed]
        yield from (b for b in allowed if b not in counts)

    chosen: list[int] = []
    sizes: list[int] = []
    left = wanted
    for bucket in candidates():
        if not left:
            break
        size = min(target - counts.get(bucket, 0), left)
        if size > 0:
            chosen.append(bucket)
            sizes.append(size)
            left -= size
    for bucket, size in zip(chosen, sizes, strict=True):
        counts[bucket] = counts.get(bucket, 0) + size
    return np.repeat(np.array(chosen, np.int32), sizes)


def assigner_of(partition_hash: int, hashes: Array, assigners: int) -> Any:
    """The assigner of each hash, as Apache Paimon computes it for as many channels as assigners.

    >>> assigner_of(7, np.array([-3, 4], np.int32), 4).tolist()
    [2, 3]
    """
    own = np.abs(np.fmod(hashes.astype(np.int64), assigners))
    return (abs(partition_hash) % assigners + own) % assigners
