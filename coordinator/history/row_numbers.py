"""What a snapshot says of the sequence numbers of its rows, so that others can compare theirs without a look at its manifests.

Owns: `RowNumbers`, `Span` and the property that holds them. Must not know: stores, how rows are numbered, what follows where
numbers meet. Source: H14; decision 128.
Invariant: a snapshot says this only above one that says it, or where every manifest below it was read. Snapshots of other engines
say nothing, and what is garbled or out of reach counts as nothing: the manifests are read then, as they always can be.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ...core.json_text import parse_json
from ...core.metadata.snapshot import Snapshot

NUMBERS_PROPERTY = "lakelatch.numbers"
"""JSON: `largest`, `buckets`, `writes` and `merged`, as in `RowNumbers`; each span is a list of two numbers."""
NUMBERS_MAX = (1 << 63) - (1 << 40)
"""Larger ones are believed of no snapshot: the next rows could not be numbered above them."""
_COUNTS = (int, type(None))


@dataclass(frozen=True, slots=True)
class Span:
    """The sequence numbers of the new rows of one commit, in all buckets together: the smallest and the largest.

    >>> Span(3, 5).meets(Span(5, 9)), Span(3, 5).meets(Span(6, 9)), Span(3, 5).meets(NO_ROWS)
    (True, False, False)
    """

    first: int
    last: int

    def meets(self, other: Span) -> bool:
        return max(self.first, other.first) <= min(self.last, other.last)

    def to_json(self) -> list[int]:
        return [self.first, self.last]


NO_ROWS = Span(0, -1)
"""That of rows that get their numbers later, or of none."""


def span_of(raw: object) -> Span:
    """The span that a list of two numbers in order stands for. Raises ValueError for anything else."""
    if not isinstance(raw, list) or [type(number) for number in raw] != [int, int]:
        raise ValueError(f"{raw!r} is not a list of two numbers")
    found = Span(*raw)
    if found != NO_ROWS and not 0 <= found.first <= found.last <= NUMBERS_MAX:
        raise ValueError(f"{raw!r} are not the first and the last of some sequence numbers")
    return found


@dataclass(frozen=True, slots=True)
class RowNumbers:
    """What a snapshot says.

    Attributes:
        largest: of all rows of the table, or a larger one; -1 if there are none.
        buckets: the bucket count of all files in fixed buckets; None where it differs, 0 before there is one.
        writes: the numbers of each commit in the snapshot; None unless all of them only add rows and read none; empty where the
            snapshot has the same rows as the one before.
        merged: rows older than this number cannot be added any more, because newer ones were merged without them.
    """

    largest: int
    buckets: int | None
    writes: tuple[Span, ...] | None = ()
    merged: int = -1

    def leaves_room_for(self, span: Span) -> bool:
        """Whether rows with these numbers may be added after this snapshot, although they were numbered before it."""
        if self.writes is None or (span != NO_ROWS and span.first <= self.merged):
            return False
        return not any(span.meets(other) for other in self.writes)

    def carrying(self, riders: Iterable[Span]) -> RowNumbers:
        """The same with the numbers of the riders."""
        spans = tuple(riders)
        largest = max([self.largest, *(span.last for span in spans)])
        return replace(self, largest=largest, writes=None if self.writes is None else (*self.writes, *spans))

    def without_rows(self) -> RowNumbers:
        """What a snapshot without rows says above this one."""
        return replace(self, writes=(), merged=-1)

    def to_property(self) -> str:
        writes = None if self.writes is None else [span.to_json() for span in self.writes]
        said = {"largest": self.largest, "buckets": self.buckets, "writes": writes, "merged": self.merged}
        return json.dumps(said, separators=(",", ":"))


def row_numbers(snapshot: Snapshot | None) -> RowNumbers | None:
    """What a snapshot says; None if it says nothing, or nothing that can be believed."""
    text = snapshot.own_properties.get(NUMBERS_PROPERTY) if snapshot is not None else None
    if text is None:
        return None
    try:
        raw = parse_json(text)
        writes = None if raw["writes"] is None else tuple(span_of(span) for span in raw["writes"])
        found = RowNumbers(raw["largest"], raw["buckets"], writes, raw["merged"])
        for number in (found.largest, found.merged):
            if type(number) is not int or not -1 <= number <= NUMBERS_MAX:
                raise ValueError(f"{number!r} is not a sequence number")
        if type(found.buckets) not in _COUNTS or (found.buckets or 0) < 0:
            raise ValueError(f"{found.buckets!r} is not a number of buckets")
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    return found
