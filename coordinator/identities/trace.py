"""Which identifiers of one commit user have landed, as ranges.

Owns: `Trace`, and its form in JSON. Must not know: users, where a trace is kept. Source: decision 88; H8.
Invariants: an identifier in the ranges has landed. One above `last` has not, and neither has one between the ranges, unless it
is below the floor, or the page or leaf that `unread` speaks of knows it. A trace over an older one loses nothing.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..protocol.snapshot_ref import SnapshotRef

RECENT = 8
"""Of so many landings the snapshot is remembered, besides that of the last identifier."""
SHORT = 8
"""The ranges that a property keeps of a user whose older ones are in a page."""

Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Trace:
    """What is known of one commit user.

    Attributes:
        last: the largest identifier that has landed, in snapshot `carrier`.
        ranges: the first and last identifier of each unbroken run that has landed, ascending.
        recent: identifiers that landed lately, other than `last`, each with its snapshot's id, the latest landing last.
        floor: an identifier below it may have landed, although no range holds it; None where all of them are known.
        unread: 0 if this is everything; 1 if page or leaf know older ranges; 2 if they may even know larger identifiers.
        query: the query of a stream that the identifiers belong to; empty where none was told.
    """

    last: int
    carrier: SnapshotRef
    ranges: Ranges
    recent: tuple[tuple[int, int], ...] = ()
    floor: int | None = None
    unread: int = 0
    query: str = ""

    @staticmethod
    def of(identifier: int, snapshot: SnapshotRef, unread: int = 0, query: str = "") -> Trace:
        return Trace(identifier, snapshot, ((identifier, identifier),), unread=unread, query=query)

    @property
    def is_single(self) -> bool:
        return self == Trace.of(self.last, self.carrier)

    @property
    def is_short(self) -> bool:
        return len(self.ranges) <= SHORT

    def __contains__(self, identifier: int) -> bool:
        at = bisect_right(self.ranges, identifier, key=_first) - 1
        return at >= 0 and identifier <= self.ranges[at][1]

    def settles(self, identifier: int) -> bool:
        """Whether this trace alone tells about an identifier, so that no page or leaf has to be read."""
        return identifier in self or self.unread == 0 or (self.unread == 1 and identifier > self.last)

    def doubts(self, identifier: int) -> bool:
        """Whether an identifier may have landed, although nothing remembers it."""
        return self.floor is not None and identifier < self.floor and identifier not in self

    def with_landing(self, identifier: int, snapshot: SnapshotRef, query: str = "") -> Trace:
        return Trace.of(identifier, snapshot, self.unread, query).over(self)

    def over(self, older: Trace) -> Trace:
        ahead = self if self.last >= older.last else older
        landings = {**dict(older._landings), **dict(self._landings)}
        recent = [(i, s) for i, s in sorted(landings.items(), key=lambda one: one[1]) if i != ahead.last]
        floors = [one.floor for one in (self, older) if one.floor is not None]
        return Trace(
            ahead.last,
            ahead.carrier,
            _joined((*older.ranges, *self.ranges)),
            tuple(recent[-RECENT:]),
            max(floors, default=None),
            min(self.unread, older.unread),
            self.query or older.query,
        )

    def short(self) -> Trace:
        """This trace without the older of its many ranges, which must be in a page."""
        if self.is_short:
            return self
        return replace(self, ranges=self.ranges[-SHORT:], unread=max(self.unread, 1))

    def with_floor(self) -> Trace:
        """This trace, if nothing is known of the identifiers below its last one but what it holds."""
        return replace(self, floor=self.last)

    @property
    def _landings(self) -> tuple[tuple[int, int], ...]:
        return (*self.recent, (self.last, self.carrier.id))


def _first(run: tuple[int, int]) -> int:
    return run[0]


def _joined(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Ranges in any order as runs that neither touch nor overlap, ascending.

    >>> _joined([(7, 8), (1, 3), (4, 4), (2, 2)])
    ((1, 4), (7, 8))
    """
    runs: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if runs and first <= runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], max(last, runs[-1][1]))
        else:
            runs.append((first, last))
    return tuple(runs)


def landed_to_json(trace: Trace) -> list[Any]:
    """What is known of a user besides its last identifier: [ranges, recent landings, floor, unread], and its query if it has one.

    Ranges are differences, each from the number before it, because those are short and repeat.
    """
    ends = list(itertools.chain.from_iterable(trace.ranges))
    steps = [ends[0], *(b - a for a, b in itertools.pairwise(ends))]
    told = [steps, list(itertools.chain.from_iterable(trace.recent)), trace.floor, trace.unread]
    return [*told, trace.query] if trace.query else told


def trace_from_json(last: Trace, raw: Any, name: str) -> Trace:
    """The trace of a user whose last identifier is known. Raises ValueError or TypeError as `users_from_json`."""
    steps, recent, floor, unread, *more = raw
    query = more[0] if more else ""
    if len(more) > 1 or type(query) is not str:
        raise TypeError(f"the query of {name!r} is not a text")
    numbers = [*steps, *recent, unread, *([] if floor is None else [floor])]
    if not all(type(number) is int for number in numbers):
        raise TypeError(f"what has landed of {name!r} is not made of whole numbers")
    ranges, pairs = _pairs(list(itertools.accumulate(steps))), _pairs(recent)
    apart = all(a[1] + 1 < b[0] for a, b in itertools.pairwise(ranges))
    if not (ranges and apart and all(a <= b for a, b in ranges) and ranges[-1][1] == last.last and unread in (0, 1, 2)):
        raise ValueError(f"what has landed of {name!r} is not ascending ranges that end with {last.last}")
    return Trace(last.last, last.carrier, ranges, pairs, floor, unread, query)


def _pairs(numbers: Sequence[int]) -> Ranges:
    if len(numbers) % 2:
        raise ValueError("an odd number of numbers cannot be pairs")
    return tuple(zip(numbers[::2], numbers[1::2], strict=True))
