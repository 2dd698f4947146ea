"""Skip Avro values, or decode them into columns, at many offsets at once.

Owns: `AvroColumn`, and each type that manifests have. Must not know: schemas, containers, what the records mean.
Source: Avro specification 1.11 (binary encoding).

Invariant: Bytes that manifests never have raise `Irregular`, and are never read as something else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

import numpy as np

from ..typed import Array
from .blocks import Irregular
from .varints import Bytes

_MOST_ITEMS = np.uint64(1 << 16)

Some: TypeAlias = Any


@dataclass
class AvroColumn:
    """The values of one field.

    Attributes:
        values: numbers; for text and bytes, their offsets in the data; for arrays, the offset of the first item.
        lengths: of text and bytes, in bytes; of arrays, in items.
        valid: False where the field is null; None if it cannot be null.
    """

    values: Array
    lengths: Array | None = None
    valid: Array | None = None
    items: AvroColumn | None = None

    @property
    def sizes(self) -> Array:
        assert self.lengths is not None
        return self.lengths

    @property
    def is_empty(self) -> bool:
        return self.valid is not None and not self.valid.any()

    def numbers(self) -> list[Any]:
        return self._or_none(self.values.tolist())

    def slices(self, data: Bytes) -> list[Any]:
        return self._or_none(data.slices(self.values.tolist(), (self.values + self.sizes).tolist()))

    def lists(self, items: Sequence[Any]) -> list[Any]:
        ends = (self.values + self.sizes).tolist()
        return self._or_none([tuple(items[start:end]) for start, end in zip(self.values.tolist(), ends, strict=True)])

    def picked(self, rows: Array) -> AvroColumn:
        """Some rows, or all in another order. Only for columns without items."""
        lengths = None if self.lengths is None else self.lengths.take(rows)
        return AvroColumn(self.values.take(rows), lengths, None if self.valid is None else self.valid.take(rows))

    def _or_none(self, found: list[Any]) -> list[Any]:
        if self.valid is None or self.valid.all():
            return found
        return [value if valid else None for value, valid in zip(found, self.valid.tolist(), strict=True)]


class Kind(Protocol):
    """A type of values. `points` says whether the values of its columns are offsets in the bytes."""

    @property
    def points(self) -> bool: ...

    def empty(self, rows: int) -> AvroColumn:
        """An empty column for this many rows."""

    def passed(self, data: Bytes, places: Array) -> Array:
        """The ends of the values at these offsets."""

    def take(self, data: Bytes, places: Array, column: AvroColumn, rows: Some) -> Array:
        """Decode the values at these offsets into some rows of a column, and return their ends."""

    def whole(self, data: Bytes, column: AvroColumn) -> AvroColumn:
        """The column, after decoding the parts that are decoded only on demand."""


@dataclass(frozen=True)
class Long:
    points = False

    def empty(self, rows: int) -> AvroColumn:
        return AvroColumn(np.zeros(rows, np.int64))

    def passed(self, data: Bytes, places: Array) -> Array:
        return data.longs(places)[1]

    def take(self, data: Bytes, places: Array, column: AvroColumn, rows: Some) -> Array:
        column.values[rows], ends = data.longs(places)
        return ends

    def whole(self, data: Bytes, column: AvroColumn) -> AvroColumn:
        return column


@dataclass(frozen=True)
class ByteString:
    points = True

    def empty(self, rows: int) -> AvroColumn:
        return AvroColumn(np.zeros(rows, np.int64), np.zeros(rows, np.int64))

    def passed(self, data: Bytes, places: Array) -> Array:
        lengths, starts = data.longs(places)
        if (lengths.view(np.uint64) > np.uint64(data.end)).any():
            raise Irregular("a length is negative, or longer than the file")
        return starts + lengths

    def take(self, data: Bytes, places: Array, column: AvroColumn, rows: Some) -> Array:
        lengths, starts = data.longs(places)
        if (lengths.view(np.uint64) > np.uint64(data.end)).any():
            raise Irregular("a length is negative, or longer than the file")
        column.values[rows], column.sizes[rows] = starts, lengths
        return starts + lengths

    def whole(self, data: Bytes, column: AvroColumn) -> AvroColumn:
        return column


@dataclass(frozen=True)
class Nullable:
    inner: Kind
    null: int

    @property
    def points(self) -> bool:
        return self.inner.points

    def empty(self, rows: int) -> AvroColumn:
        return replace(self.inner.empty(rows), valid=np.zeros(rows, bool))

    def passed(self, data: Bytes, places: Array) -> Array:
        there, behind = self._branch(data, places)
        if there.any():
            lanes = np.flatnonzero(there)
            behind[lanes] = self.inner.passed(data, behind[lanes])
        return behind

    def take(self, data: Bytes, places: Array, column: AvroColumn, rows: Some) -> Array:
        there, behind = self._branch(data, places)
        assert column.valid is not None
        column.valid[rows] = there
        if there.all():
            return self.inner.take(data, behind, column, rows)
        if there.any():
            lanes = np.flatnonzero(there)
            some = lanes + rows.start if isinstance(rows, slice) else rows[lanes]
            behind[lanes] = self.inner.take(data, behind[lanes], column, some)
        return behind

    def whole(self, data: Bytes, column: AvroColumn) -> AvroColumn:
        if not isinstance(self.inner, List):
            return column
        assert column.valid is not None
        there = np.flatnonzero(column.valid)
        found = self.inner.whole(data, AvroColumn(column.values[there]))
        counts = np.zeros(len(column.values), np.int64)
        counts[there] = found.sizes
        return AvroColumn(np.cumsum(counts) - counts, counts, column.valid, found.items)

    def _branch(self, data: Bytes, places: Array) -> tuple[Array, Array]:
        branch = data.at(places)
        if (branch & np.uint8(0xFD)).any():
            raise Irregular("a union has two branches")
        return branch != 2 * self.null, places + 1


_COUNT = Nullable(Long(), 0)


@dataclass(frozen=True)
class List:
    item: Kind

    points = True

    def empty(self, rows: int) -> AvroColumn:
        return AvroColumn(np.zeros(rows, np.int64))

    def passed(self, data: Bytes, places: Array) -> Array:
        counts, behind = self._counts(data, places)
        if not counts.any():
            return behind
        behind = self._items_passed(data, behind, counts)
        if data.at(behind[counts > 0]).any():
            raise Irregular("an array in several parts")
        return behind + (counts > 0)

    def take(self, data: Bytes, places: Array, column: AvroColumn, rows: Some) -> Array:
        column.values[rows] = places
        return self.passed(data, places)

    def whole(self, data: Bytes, column: AvroColumn) -> AvroColumn:
        counts, behind = self._counts(data, column.values)
        firsts = np.cumsum(counts) - counts
        items = self.item.empty(int(counts.sum()))
        for position, here in enumerate(_positions(counts)):
            behind[here] = self.item.take(data, behind[here], items, firsts[here] + position)
        return AvroColumn(firsts, counts, None, items)

    def _items_passed(self, data: Bytes, places: Array, counts: Array) -> Array:
        if self.item != _COUNT:
            for here in _positions(counts):
                places[here] = self.item.passed(data, places[here])
            return places
        left = counts.copy()
        while left.any():
            small = np.minimum(data.small_pairs(places), left)
            places, left = places + 2 * small, left - small
            odd = np.flatnonzero((small == 0) & (left > 0))
            if odd.size:
                places[odd] = self.item.passed(data, places[odd])
                left[odd] -= 1
        return places

    def _counts(self, data: Bytes, places: Array) -> tuple[Array, Array]:
        counts, behind = data.longs(places)
        if (counts.view(np.uint64) > _MOST_ITEMS).any():
            raise Irregular("an array in parts with sizes, or a very long one")
        return counts, behind


def _positions(counts: Array) -> Iterator[Array]:
    for position in range(int(counts.max(initial=0))):
        yield np.flatnonzero(counts > position)
