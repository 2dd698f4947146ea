"""Avro records as columns: the blocks of many containers, decoded side by side in NumPy.

Owns: `read_columns`: where a record begins is only known once the one before it was passed over, but blocks are independent;
so one step takes one record of every block at once. Must not know: what the records mean.
Source: Avro specification 1.11 (object container files).

Invariants: what comes out is what a reader record by record would give; bytes that do not fit their schema to the last one
raise `Irregular`, and the caller asks such a reader, which says what is wrong and where.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from .avro_blocks import Irregular, blocks_of
from .avro_layout import Layout, layout_of
from .avro_numbers import PADDING, Array, Bytes
from .avro_values import Column, Kind

_NARROWEST, _WIDEST = 256, 2048
"""Bytes of a record that are looked at together."""
_MOST = 16 << 20
"""Bytes of all of them."""


class Columns:
    """Records as columns.

    Attributes:
        rows: how many records.
        data: what text and bytes columns point into.
    """

    def __init__(self, layout: Layout, data: Bytes, taken: Mapping[str, Column], order: Array) -> None:
        self.rows, self.data = len(order), data
        self._layout, self._taken, self._order = layout, taken, order
        self._whole: dict[str, Column] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._layout)

    def __contains__(self, name: str) -> bool:
        return name in self._layout

    def kind(self, name: str) -> Kind:
        """The type of a column."""
        return self._layout[name]

    def column(self, name: str, rows: Array | None = None) -> Column:
        """A column, by the path of its field, parts of a record behind a dot; some rows of it, or all."""
        if rows is not None:
            return self._read(name, self._order.take(rows))
        if name not in self._whole:
            self._whole[name] = self._read(name, self._order)
        return self._whole[name]

    def _read(self, name: str, places: Array) -> Column:
        return self._layout[name].whole(self.data, self._taken[name].picked(places))


def read_columns(containers: Sequence[bytes]) -> Columns:
    """The records of containers that were written with one schema, in order.

    Raises:
        Irregular: damaged, of several schemas, or of a kind that is not decoded side by side.
    """
    schemas, counts, blocks = set(), [], []
    for data in containers:
        schema, found = blocks_of(data)
        schemas.add(schema)
        for count, block in found:
            counts.append(count)
            blocks.append(block)
    if len(schemas) != 1:
        raise Irregular("containers of several schemas")
    layout = layout_of(schemas.pop())
    return _decoded(layout, np.array(counts, np.int64), blocks)


def _decoded(layout: Layout, counts: Array, blocks: list[bytes]) -> Columns:
    """All records, one of each block at a time."""
    ends = np.cumsum([len(block) for block in blocks], dtype=np.int64)
    rows = int(counts.sum())
    if rows > ends.max(initial=0) or np.any(counts < 0):
        raise Irregular("more records than bytes")
    data = Bytes(b"".join([*blocks, PADDING]))
    # The blocks with most records come first: then those that have an n-th record are a slice, and so are their rows.
    order = np.argsort(-counts, kind="stable")
    fewest_first, end_of, first_row = -counts[order], ends[order], (np.cumsum(counts) - counts)[order]
    at = np.concatenate([np.zeros(1, np.int64), ends])[:-1][order]
    columns = {name: kind.empty(rows) for name, kind in layout.items()}
    records, places, done = _Records(layout, columns, data), np.empty(rows, np.int64), 0
    for number in range(int(counts.max(initial=0))):
        active = int(np.searchsorted(fewest_first, -number, side="left"))
        at[:active] = records.taken(at[:active], slice(done, done + active))
        if (at[:active] > end_of[:active]).any():
            raise Irregular("a record is longer than its block")
        places[first_row[:active] + number] = np.arange(done, done + active)
        done += active
    if (at != end_of).any():
        raise Irregular("a block has bytes left")
    return Columns(layout, data, columns, places)


class _Records:
    """Takes one record of each block at a time, through a window as wide as the longest so far."""

    def __init__(self, layout: Layout, columns: Mapping[str, Column], data: Bytes) -> None:
        self._data, self._width = data, _NARROWEST
        self._fields = [(kind, columns[name]) for name, kind in layout.items()]
        self._pointers = [column for kind, column in self._fields if kind.points]

    def taken(self, places: Array, rows: slice) -> Array:
        """Put the records at these places into some rows; where they end. Raises Irregular."""
        if self._width <= min(_WIDEST, self._data.end) and self._width * len(places) <= _MOST:
            try:
                windows = self._data.windows(places, self._width)
                starts = np.arange(len(places)) * self._width
                sizes = self._taken(windows, starts, rows) - starts
                if (sizes <= self._width - len(PADDING)).all():
                    for column in self._pointers:
                        column.values[rows] += places - starts
                    return places + sizes
            except (Irregular, IndexError):
                pass  # a window that is too narrow shows what is not there
        try:
            ends = self._taken(self._data, places, rows)
        except IndexError as error:
            raise Irregular("a value lies outside of its block") from error
        self._width = max(self._width, int((ends - places).max(initial=0)) * 5 // 4 + len(PADDING))
        return ends

    def _taken(self, data: Bytes, places: Array, rows: slice) -> Array:
        for kind, column in self._fields:
            places = kind.take(data, places, column, rows)
        return places
