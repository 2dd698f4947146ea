"""Read sorted files side by side, one range of keys after another, so that a section may be larger than memory.

Owns: `Piece`, `Window`, `windows`. Must not know: how rows are merged, stores. Source: format/primary-keys §1, §2.

Invariants: All rows of a key are in one window, and the keys of a window are above those of the windows before. A window's pieces
are oldest file first. Memory holds about the bytes that are given, but at least a batch of each run. Nothing is read twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ...core import options as opt
from ...core.errors import TableCorrupt
from ...core.metadata.schemas.merge_rules import LEVEL
from ..formats.file_rows import Rows
from ..merging.key_codes import key_codes
from .waiting_rows import WaitingRows

SORTING_BYTES = 48
"""What sorting takes for each row: its code, its position, and a few of their kind."""


class Piece(NamedTuple):
    """Some rows of one file that are not deleted. `file` is its number in its section, oldest first; `where` is for errors."""

    file: int
    level: int
    rows: Rows
    where: str = ""

    def slice(self, offset: int, length: int) -> Piece:
        if length == len(self.rows):
            return self
        return self._replace(rows=self.rows.slice(offset, length))


class Window:
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
    """The rows of some runs of pieces, cut into ranges of keys. Without a budget in bytes there is a single window.

    Pieces come by ascending keys, or in any order if all rows fit into the budget. `TableCorrupt`: they do not.
    """
    cursors = [_Cursor(run, keys) for run in runs]
    for cursor in cursors:
        cursor.fill()
    cursors = [cursor for cursor in cursors if cursor.pieces]
    if budget is not None:
        budget = _enough(budget, sum(cursor.size for cursor in cursors))
    order = _Ascending(len(cursors), keys)
    while True:
        for cursor in cursors:
            if not cursor.pieces:
                cursor.fill()
        reading = [cursor for cursor in cursors if not cursor.is_done]
        while reading and _fill_lowest(reading, keys, budget, sum(cursor.size for cursor in cursors)):
            reading = [cursor for cursor in cursors if not cursor.is_done]
        if not reading:
            yield from _divided([piece for cursor in cursors for piece in cursor.pieces], keys, budget, is_last=True)
            return
        order.check(cursors)
        yield from _divided(_taken(cursors, _lowest(reading, keys).last, keys), keys, budget)


class _Cursor:
    """The place that has been reached in one run; the first `checked` pieces are known to ascend."""

    def __init__(self, run: Iterable[Piece], keys: Sequence[str]) -> None:
        self._run, self._keys = iter(run), keys
        self.pieces: list[Piece] = []
        self.is_done = False
        self.size = self.checked = 0
        self.last: dict[str, Any] = {}

    def fill(self) -> None:
        for piece in self._run:
            if len(piece.rows):
                self.pieces.append(piece)
                self.size += _weight(piece)
                self.last = {name: piece.rows.column(name).slice(len(piece.rows) - 1) for name in self._keys}
                return
        self.is_done = True

    def replace(self, pieces: list[Piece]) -> None:
        """Keep only these pieces, which are at the end of those that there were."""
        self.pieces, self.checked = pieces, len(pieces)
        self.size = sum(map(_weight, pieces))


class _Ascending:
    """Refuses rows whose keys do not ascend, because rows of one key could then be in two windows.

    All runs are looked at together, so that a window costs few steps, however many runs there are.
    """

    def __init__(self, runs: int, keys: Sequence[str]) -> None:
        self._keys = keys
        self._before: list[Any] = []  # for each key column, the last that was checked of each run
        self._runs = range(runs)

    def check(self, cursors: Sequence[_Cursor]) -> None:
        fresh = [cursor.pieces[cursor.checked :] for cursor in cursors]
        new = [run for run in self._runs if fresh[run]]
        if not new:
            return
        before = 1 if self._before else 0
        columns = [
            pa.concat_arrays(
                [
                    part
                    for run in new
                    for part in (
                        *([self._before[number].slice(run, 1)] if before else []),
                        *(piece.rows.column(name) for piece in fresh[run]),
                    )
                ]
            )
            for number, name in enumerate(self._keys)
        ]
        starts = np.cumsum([0, *(before + sum(len(piece.rows) for piece in fresh[run]) for run in new)])
        codes = key_codes(columns)
        ascend = codes[1:] > codes[:-1]
        ascend[starts[1:-1] - 1] = True
        if not ascend.all():
            run = new[int(np.searchsorted(starts, np.argmin(ascend), side="right")) - 1]
            raise TableCorrupt(
                f"{fresh[run][0].where}: the rows are not sorted by key, although tables with a primary key are",
                next_step=f"set option '{opt.MERGE_MEMORY.key}' to more than the size of the bucket, and compact the table",
            )
        # Copies, so that batches can be freed.
        self._before = [_copy([cursor.last[name] for cursor in cursors]) for name in self._keys]


def _copy(parts: Sequence[Any]) -> Any:
    return pa.concat_arrays(parts).take(pa.array(np.arange(len(parts))))


def _weight(piece: Piece) -> int:
    return piece.rows.nbytes + SORTING_BYTES * len(piece.rows)


def _enough(budget: int, held: int) -> int:
    """A budget with which a window takes about a piece of each run.

    With less, each piece is a window of its own, with a slice of every other run.
    """
    return 2 * held if held > budget else max(budget, min(2 * held, budget + budget // 4))


def _fill_lowest(cursors: Sequence[_Cursor], keys: Sequence[str], budget: int | None, held: int) -> bool:
    """Read on in the half of the cursors that have come less far than the others. Returns whether there was room.

    One look at the last keys serves all of them, so that a piece costs no more for many runs than for few.
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
    return cursors[_order(cursors, keys)[0]]


def _order(cursors: Sequence[_Cursor], keys: Sequence[str]) -> list[int]:
    if len(cursors) == 1:
        return [0]
    codes = key_codes([pa.concat_arrays([c.last[name] for c in cursors]) for name in keys])
    return [int(place) for place in np.argsort(codes, kind="stable")]


def _taken(cursors: Sequence[_Cursor], end: Mapping[str, Any], keys: Sequence[str]) -> list[Piece]:
    held = [(cursor, piece) for cursor in cursors for piece in cursor.pieces]
    columns = {name: [piece.rows.column(name) for _, piece in held] for name in keys}
    ends = [
        pa.concat_arrays([part for c in columns[name] for part in (c.slice(0, 1), c.slice(len(c) - 1))] + [end[name]])
        for name in keys
    ]
    codes = key_codes(ends)
    begins, lasts, cut = codes[0:-1:2], codes[1:-1:2], codes[-1]
    counts = [
        len(piece.rows) if last <= cut else 0 if first > cut else -1
        for (_, piece), first, last in zip(held, begins, lasts, strict=True)
    ]
    divided = [place for place, count in enumerate(counts) if count < 0]
    if divided:
        codes = key_codes([pa.concat_arrays([*(columns[n][place] for place in divided), end[n]]) for n in keys])
        offsets = np.cumsum([0, *(len(held[place][1].rows) for place in divided)])
        for place, (a, b) in zip(divided, pairwise(offsets), strict=True):
            counts[place] = int(np.searchsorted(codes[a:b], codes[-1], side="right"))
    taken, left = [], {id(cursor): list[Piece]() for cursor in cursors}
    for (cursor, piece), count in zip(held, counts, strict=True):
        if count:
            taken.append(piece.slice(0, count))
        if count < len(piece.rows):
            left[id(cursor)].append(piece.slice(count, len(piece.rows) - count))
    for cursor in cursors:
        cursor.replace(left[id(cursor)])
    return taken


def _divided(
    pieces: Sequence[Piece], keys: Sequence[str], budget: int | None, is_last: bool = False
) -> Iterator[Window]:
    """All rows of some pieces in one window, or in several where columns that wait would take more than the budget.

    Without a budget, pieces may come in any order; with one, each by ascending keys.
    """
    if not pieces:
        return
    waiting = [piece.rows.waiting_bytes if isinstance(piece.rows, WaitingRows) else 0 for piece in pieces]
    if budget is None or sum(waiting) <= budget:
        yield Window(pieces, is_last)
        return
    counts = [len(piece.rows) for piece in pieces]
    codes = key_codes([_column(pieces, name) for name in keys])
    order = np.argsort(codes, kind="stable")
    weights = np.repeat([size / count for size, count in zip(waiting, counts, strict=True)], counts)[order]
    ends = np.cumsum(weights)
    cuts = np.unique(codes[order][np.searchsorted(ends, np.arange(budget, ends[-1], budget), side="right") - 1])
    offsets = np.cumsum([0, *counts])
    places = [[0, *np.searchsorted(codes[a:b], cuts, side="right"), b - a] for a, b in pairwise(offsets)]
    for number in range(len(cuts) + 1):
        # Rows of their own, so that what is read for them goes with the window.
        found = [
            piece._replace(rows=piece.rows.slice(int(of_piece[number]), int(of_piece[number + 1] - of_piece[number])))
            for piece, of_piece in zip(pieces, places, strict=True)
            if of_piece[number + 1] > of_piece[number]
        ]
        if found:
            yield Window(found, is_last and number == len(cuts))


def _column(pieces: Sequence[Piece], name: str) -> Any:
    if len(pieces) == 1:
        return pieces[0].rows.column(name)
    return pa.concat_arrays([piece.rows.column(name) for piece in pieces])
