"""Read sorted files side by side, one range of keys after another, so that a section may be larger than memory.

Owns: `Piece`, `Window`, `windows`. Must not know: how rows are merged, stores. Source: format/primary-keys §1, §2.

Invariants: All rows of a key are in one window, and the keys of a window are above those of the windows before. A window's pieces
are oldest file first. Memory holds about the bytes that are given, but at least a batch of each run. Nothing is read twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ...core import options as opt
from ...core.errors import TableCorrupt
from ...core.metadata.merge_rules import LEVEL
from ..formats.file_rows import Rows
from ..merging.key_codes import key_codes

_SORTING_BYTES = 48
"""What sorting takes for each row: its code, its position, and a few of their kind."""


class Piece(NamedTuple):
    """Some rows of one file, one after the other.

    Attributes:
        file: the number of the file in its section, oldest first.
        level: the file's level.
        rows: the rows that are not deleted.
        where: the file, for errors.
    """

    file: int
    level: int
    rows: Rows
    where: str = ""

    def slice(self, offset: int, length: int) -> Piece:
        return self._replace(rows=self.rows.slice(offset, length))


class Window:
    """All rows of some range of keys.

    Args:
        is_last: no range follows.
    """

    def __init__(self, pieces: Iterable[Piece], is_last: bool = False) -> None:
        self.pieces = sorted((p for p in pieces if len(p.rows)), key=lambda piece: piece.file)
        self._is_last = is_last
        self._columns: dict[str, Any] = {}

    def __len__(self) -> int:
        return sum(len(piece.rows) for piece in self.pieces)

    def release(self) -> None:
        """Forget the rows, before the next window is read. The machine gets their memory back only if there is another one,
        because whatever comes next would have to ask for it again, page by page."""
        self.pieces.clear()
        self._columns.clear()
        if not self._is_last:
            pa.default_memory_pool().release_unused()

    def column(self, name: str) -> Any:
        """A column of all rows, made once; `_LEVEL` too."""
        if name not in self._columns:
            self._columns[name] = self._levels() if name == LEVEL.name else _column(self.pieces, name)
        return self._columns[name]

    def _levels(self) -> Any:
        counts = [len(piece.rows) for piece in self.pieces]
        return pa.array(np.repeat([piece.level for piece in self.pieces], counts), pa.int32())


def windows(runs: Sequence[Iterable[Piece]], keys: Sequence[str], budget: int | None) -> Iterator[Window]:
    """The rows of some runs, cut into ranges of keys.

    Args:
        runs: each gives pieces by ascending keys. If all rows fit into the budget, pieces may come in any order.
        keys: the names of the key columns.
        budget: bytes of rows that are held; None for no limit, which gives a single window.

    Raises:
        TableCorrupt: a file's rows are not sorted by key.
    """
    cursors = [_Cursor(run, keys) for run in runs]
    for cursor in cursors:
        cursor.fill()
    if budget is not None:
        budget = _enough(budget, sum(cursor.size for cursor in cursors))
    while True:
        for cursor in cursors:
            if not cursor.pieces:
                cursor.fill()
        reading = [cursor for cursor in cursors if not cursor.is_done]
        while reading and _fill_lowest(reading, keys, budget, sum(cursor.size for cursor in cursors)):
            reading = [cursor for cursor in cursors if not cursor.is_done]
        if not reading:
            last = Window((piece for cursor in cursors for piece in cursor.pieces), is_last=True)
            if len(last):
                yield last
            return
        for cursor in cursors:
            cursor.check()
        yield Window(_taken(cursors, _lowest(reading, keys).pieces[-1], keys))


class _Cursor:
    """The place that has been reached in one run."""

    def __init__(self, run: Iterable[Piece], keys: Sequence[str]) -> None:
        self._run, self._keys = iter(run), keys
        self.pieces: list[Piece] = []
        self.is_done = False
        self.size = 0
        self._checked = 0
        self._before: list[Any] | None = None

    def fill(self) -> None:
        """Read one more piece that has rows."""
        for piece in self._run:
            if len(piece.rows):
                self.pieces.append(piece)
                self.size += _weight(piece)
                return
        self.is_done = True

    def replace(self, pieces: list[Piece]) -> None:
        """Keep only these pieces, which are at the end of those that there were."""
        if self.pieces:  # a copy, so that the batch can be freed
            self._before = [_column([_last_row(self.pieces[-1])], name).take(pa.array([0])) for name in self._keys]
        self.pieces, self._checked = pieces, len(pieces)
        self.size = sum(map(_weight, pieces))

    def check(self) -> None:
        """Refuse new pieces whose keys do not ascend, because rows of one key could then be in two windows."""
        fresh, self._checked = self.pieces[self._checked :], len(self.pieces)
        if not fresh:
            return
        columns = [_column(fresh, name) for name in self._keys]
        older = self.pieces[: -len(fresh)]
        before = [_column([_last_row(older[-1])], name) for name in self._keys] if older else self._before
        if before is not None:
            columns = [pa.concat_arrays(pair) for pair in zip(before, columns, strict=True)]
        codes = key_codes(columns)
        if not (codes[1:] > codes[:-1]).all():
            raise TableCorrupt(
                f"{fresh[0].where}: the rows are not sorted by key, although tables with a primary key are",
                next_step=f"set option '{opt.MERGE_MEMORY.key}' to more than the size of the bucket, and compact the table",
            )


def _weight(piece: Piece) -> int:
    return piece.rows.nbytes + _SORTING_BYTES * len(piece.rows)


def _enough(budget: int, held: int) -> int:
    """A budget with which a window takes about a piece of each run. With less, each piece is a window of its own, with a slice of
    every other run.

    Args:
        held: the bytes of a piece of each run.
    """
    return 2 * held if held > budget else max(budget, min(2 * held, budget + budget // 4))


def _fill_lowest(cursors: Sequence[_Cursor], keys: Sequence[str], budget: int | None, held: int) -> bool:
    """Read on in the half of the cursors that have come less far than the others, as long as there is room. One look at the last
    keys serves all of them, so that a piece costs no more for many runs than for few.

    Args:
        held: the bytes that all cursors have.

    Returns:
        Whether there was room.
    """
    if budget is None:
        for cursor in cursors:
            cursor.fill()
        return True
    had_room = held < budget
    for place in _order(cursors, keys)[: -(-len(cursors) // 2)] if had_room else ():
        held -= cursors[place].size
        cursors[place].fill()
        held += cursors[place].size
        if held >= budget:
            break
    return had_room


def _lowest(cursors: Sequence[_Cursor], keys: Sequence[str]) -> _Cursor:
    """The cursor whose last row has the smallest key."""
    return cursors[_order(cursors, keys)[0]]


def _order(cursors: Sequence[_Cursor], keys: Sequence[str]) -> list[int]:
    """The places of cursors by the keys of their last rows."""
    if len(cursors) == 1:
        return [0]
    codes = key_codes([_column([_last_row(c.pieces[-1]) for c in cursors], name) for name in keys])
    return [int(place) for place in np.argsort(codes, kind="stable")]


def _taken(cursors: Sequence[_Cursor], end: Piece, keys: Sequence[str]) -> list[Piece]:
    """Take all rows up to the last key of a piece."""
    held = [(cursor, piece) for cursor in cursors for piece in cursor.pieces]
    ends = [row for _, piece in held for row in (piece.slice(0, 1), _last_row(piece))] + [_last_row(end)]
    codes = key_codes([_column(ends, name) for name in keys])
    begins, lasts, cut = codes[0:-1:2], codes[1:-1:2], codes[-1]
    counts = [
        len(piece.rows) if last <= cut else 0 if first > cut else -1
        for (_, piece), first, last in zip(held, begins, lasts, strict=True)
    ]
    divided = [piece for (_, piece), count in zip(held, counts, strict=True) if count < 0]
    if divided:
        codes = key_codes([_column([*divided, _last_row(end)], name) for name in keys])
        offsets = np.cumsum([0, *(len(piece.rows) for piece in divided)])
        found = iter(int(np.searchsorted(codes[a:b], codes[-1], side="right")) for a, b in pairwise(offsets))
        counts = [next(found) if count < 0 else count for count in counts]
    taken, left = [], {id(cursor): list[Piece]() for cursor in cursors}
    for (cursor, piece), count in zip(held, counts, strict=True):
        if count:
            taken.append(piece.slice(0, count))
        if count < len(piece.rows):
            left[id(cursor)].append(piece.slice(count, len(piece.rows) - count))
    for cursor in cursors:
        cursor.replace(left[id(cursor)])
    return taken


def _last_row(piece: Piece) -> Piece:
    return piece.slice(len(piece.rows) - 1, 1)


def _column(pieces: Sequence[Piece], name: str) -> Any:
    if len(pieces) == 1:
        return pieces[0].rows.column(name)
    return pa.concat_arrays([piece.rows.column(name) for piece in pieces])
