"""Decode Avro records into columns, many records at a time with NumPy.

Owns: `read_columns`. Must not know: what the records mean. Source: Avro specification 1.11 (object container files).

The start of a record is known only after the previous record was decoded. But records start with similar bytes, so their starts
are guessed, and all records are decoded at once. The guess is correct if the end of each record is the start of the next. If it
is not, each step decodes one record of every block, because blocks are independent.

Invariants: The result is that of a reader that decodes record by record. Bytes that do not match their schema completely raise
`Irregular`. The caller then uses such a reader, whose error says what is wrong and where.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..typed import Array
from .blocks import Irregular, StoredBlock, joined, stored_blocks
from .layout import Layout, layout_of
from .values import AvroColumn, Kind
from .varints import PADDING, Bytes

_NARROWEST, _WIDEST = 256, 2048
"""The bytes of a record that are decoded together."""
_MOST = 16 << 20
_HEAD, _LEAST_ALIKE, _FEWEST_BLOCKS = 16, 5, 4
"""The bytes of each block that are compared; how many consecutive bytes must be equal; in how many blocks."""
_AT_ONCE, _MOST_ROUNDS = 4096, 16
"""The number of records that are decoded together, so that their bytes stay in the cache; and how often some may be missing."""


class Columns:
    """Records as columns; `data` are the bytes that text and bytes columns point into."""

    def __init__(self, layout: Layout, data: Bytes, taken: Mapping[str, AvroColumn], order: Array) -> None:
        self.rows, self.data = len(order), data
        self._layout, self._taken, self._order = layout, dict(taken), order
        self._ordered: dict[str, AvroColumn] = {}
        self._whole: dict[str, AvroColumn] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._layout)

    def __contains__(self, name: str) -> bool:
        return name in self._layout

    def kind(self, name: str) -> Kind:
        return self._layout[name]

    def column(self, name: str, rows: Array | None = None) -> AvroColumn:
        """A column, by the path of its field (with a dot before a nested field); some of its rows, or all."""
        if rows is not None:
            taken = self._taken.get(name)
            found = self._ordered[name].picked(rows) if taken is None else taken.picked(self._order.take(rows))
            return self._layout[name].whole(self.data, found)
        if name not in self._whole:
            self._whole[name] = self._layout[name].whole(self.data, self._in_order(name))
        return self._whole[name]

    def _in_order(self, name: str) -> AvroColumn:
        taken = self._taken.get(name)
        if taken is not None:
            self._ordered[name] = taken.picked(self._order)
            self._taken.pop(name, None)
        return self._ordered[name]


def read_columns(containers: Sequence[bytes]) -> Columns:
    """Raises Irregular where the containers are damaged, differ in their schemas, or cannot be decoded as columns."""
    schemas, counts, blocks = set(), [], []
    for data in containers:
        schema, found = stored_blocks(data)
        schemas.add(schema)
        for count, block in found:
            counts.append(count)
            blocks.append(block)
    if len(schemas) != 1:
        raise Irregular("containers with different schemas")
    layout = layout_of(schemas.pop())
    return _decoded(layout, np.array(counts, np.int64), blocks)


def _decoded(layout: Layout, counts: Array, blocks: list[StoredBlock]) -> Columns:
    whole, ends = joined(blocks, PADDING)
    frame = _Frame(Bytes(whole), np.concatenate([[0], ends[:-1]]) if blocks else ends, ends, counts)
    if frame.rows > frame.data.end or np.any(counts < 0):
        raise Irregular("more records than bytes")
    guesses = _guessed(frame)
    if guesses is not None:
        try:
            return _by_guesses(layout, frame, guesses)
        except Irregular:
            pass  # a guess was wrong, or the bytes are damaged: the slower way finds out
    return _block_by_block(layout, frame)


@dataclass(frozen=True)
class _Frame:
    data: Bytes
    begins: Array
    ends: Array
    counts: Array

    @property
    def rows(self) -> int:
        return int(self.counts.sum())

    @property
    def first_rows(self) -> Array:
        return np.cumsum(self.counts) - self.counts


def _guessed(frame: _Frame) -> Array | None:
    """The likely starts of records: offsets of the bytes with which all blocks begin. None if these bytes are too few."""
    begins = frame.begins[frame.counts > 0]
    if len(begins) < _FEWEST_BLOCKS or begins[-1] + _HEAD > frame.data.end:
        return None
    heads = np.frombuffer(frame.data.cut(begins, _HEAD), np.uint8).reshape(-1, _HEAD)
    alike = "".join("x" if same else " " for same in (heads == heads[0]).all(axis=0).tolist())
    longest = max(alike.split(" "), key=len)
    if len(longest) < _LEAST_ALIKE:
        return None
    offset = alike.index(longest)
    needle = heads[0, offset : offset + len(longest)].tobytes()
    places = frame.data.places_of(needle) - offset
    return places[places >= 0]


def _by_guesses(layout: Layout, frame: _Frame, guesses: Array) -> Columns:
    """Decode all guessed records at once, then those found after them. Each record must end where the next one starts."""
    rows, data = frame.rows, frame.data
    columns = {name: kind.empty(rows) for name, kind in layout.items()}
    records, starts, ends = _Records(layout, columns, data), np.empty(rows, np.int64), np.empty(rows, np.int64)
    new, done = _different(np.append(frame.begins[frame.counts > 0], guesses)), 0
    for _ in range(_MOST_ROUNDS):
        if done + len(new) > rows:
            raise Irregular("more records than were counted")
        for first in range(0, len(new), _AT_ONCE):
            part = new[first : first + _AT_ONCE]
            here = slice(done, done + len(part))
            starts[here], ends[here] = part, records.taken(part, here, are_near=True)
            done += len(part)
        order = np.argsort(starts[:done], kind="stable")
        ordered = starts[order]
        is_known = ordered.take(np.searchsorted(ordered, ends[:done]), mode="clip") == ends[:done]
        new = _different(ends[:done][~is_known & (ends[:done] < data.end)])
        if not new.size:
            break
    first_rows = frame.first_rows[frame.counts > 0]
    if done != rows or (ends[order] != np.append(ordered[1:], data.end)).any():
        raise Irregular("records do not follow one another")
    if (ordered[first_rows] != frame.begins[frame.counts > 0]).any():
        raise Irregular("a record is longer than its block")
    return Columns(layout, data, columns, order)


def _different(places: Array) -> Array:
    ordered = np.sort(places, kind="stable")
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if ordered.size else ordered


def _block_by_block(layout: Layout, frame: _Frame) -> Columns:
    rows, counts = frame.rows, frame.counts
    # The blocks with most records come first, so that the blocks that have an n-th record are a slice, and so are their rows.
    order = np.argsort(-counts, kind="stable")
    fewest_first, end_of, first_row = -counts[order], frame.ends[order], frame.first_rows[order]
    at = frame.begins[order]
    columns = {name: kind.empty(rows) for name, kind in layout.items()}
    records, places, done = _Records(layout, columns, frame.data), np.empty(rows, np.int64), 0
    for number in range(int(counts.max(initial=0))):
        active = int(np.searchsorted(fewest_first, -number, side="left"))
        at[:active] = records.taken(at[:active], slice(done, done + active))
        if (at[:active] > end_of[:active]).any():
            raise Irregular("a record is longer than its block")
        places[first_row[:active] + number] = np.arange(done, done + active)
        done += active
    if (at != end_of).any():
        raise Irregular("a block has bytes left")
    return Columns(layout, frame.data, columns, places)


class _Records:
    """Decodes many records at a time. Records far from each other are read through windows as wide as the longest so far."""

    def __init__(self, layout: Layout, columns: Mapping[str, AvroColumn], data: Bytes) -> None:
        self._data, self._width = data, _NARROWEST
        self._fields = [(kind, columns[name]) for name, kind in layout.items()]
        self._pointers = [column for kind, column in self._fields if kind.points]

    def taken(self, places: Array, rows: slice, *, are_near: bool = False) -> Array:
        """Decode the records at these offsets into some rows and return their ends."""
        if not are_near and self._width <= min(_WIDEST, self._data.end) and self._width * len(places) <= _MOST:
            try:
                windows = self._data.windows(places, self._width)
                starts = np.arange(len(places)) * self._width
                sizes = self._taken(windows, starts, rows) - starts
                if (sizes <= self._width - len(PADDING)).all():
                    for column in self._pointers:
                        column.values[rows] += places - starts
                    return places + sizes
            except (Irregular, IndexError):
                pass  # a window was too narrow for its record
        try:
            ends = self._taken(self._data, places, rows)
        except IndexError as error:
            raise Irregular("a value is outside its block") from error
        self._width = max(self._width, int((ends - places).max(initial=0)) * 5 // 4 + len(PADDING))
        return ends

    def _taken(self, data: Bytes, places: Array, rows: slice) -> Array:
        for kind, column in self._fields:
            places = kind.take(data, places, column, rows)
        return places
