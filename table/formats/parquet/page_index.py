"""The pages of a Parquet row group that can hold a wanted row, and these alone, as columns.

Owns: a file's index of pages; the small Parquet files from which some pages are decoded, as Arrow reads whole columns only. Must
not know: stores, the table's types. Source: Parquet's own specification of page indexes.

Invariants: No matching row is left out: what the index does not say, or says in another way than is known here, is unknown. Only
columns that are no part of others are read in this way. Memory holds the wanted pages of one row group.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise
from struct import error as StructError  # noqa: N812
from struct import pack, unpack
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ....coordinator.surroundings import MACHINE
from ....core.expressions.tree import Predicate
from ....core.statistics.collect import ColumnStats
from ....core.statistics.pruning import may_match
from .thrift_compact import I32, I64, LIST, STRUCT, Struct, decode_struct, encode_struct

Rows = list[tuple[int, int]]
"""Ranges of a row group's rows: first, and the one after the last; in their order."""
Fetch = Callable[[int, int], bytes]
"""Reads a range of the file's bytes."""

_MAGIC = b"PAR1"
_TAIL_BYTES = 8
_END_BYTES = 1 << 16
"""So much of a file's end was read for its footer, at least. In most files the index is there."""
_INDEX_BYTES = 1 << 17
"""So much of a larger index is fetched with one request."""
_GAP_BYTES = 1 << 17
"""Pages that are nearer to each other than this are fetched with one request."""
_LEAST_GAIN = 2
"""By so much, fewer bytes must be read than by reading all."""
_MOST_CHUNKS = 5_000
"""The footers of files with more columns and row groups are not decoded once more: that takes longer than reading."""
_MOST_BYTES = 4 << 20
"""Nor are larger footers and indexes: each byte may become an object."""
_BOUNDS = {1: "<i", 2: "<q"}  # INT32, INT64
_TEXT = 6  # BYTE_ARRAY


@dataclass(frozen=True)
class _Page:
    offset: int
    size: int
    first: int
    end: int


class PageIndex:
    """The index of a file of `size` bytes. `fetch` reads ranges of them, `at_once` at the same time; `again` reads what was read
    for the footer.

    Raises `ValueError` if the footer cannot be decoded.
    """

    def __init__(self, metadata: Any, size: int, fetch: Fetch, at_once: int = 1, again: Fetch | None = None) -> None:
        self._size, self._fetch, self._at_once, self._schema = size, fetch, at_once, metadata.schema
        end = size - _TAIL_BYTES
        footer = end - metadata.serialized_size
        self._start = min(footer, max(0, size - _END_BYTES))
        self._tail = (again or fetch)(self._start, end)
        self._footer = decode_struct(self._tail[footer - self._start :])
        self._leaves = _plain_leaves(_value(self._footer, 2)[1])
        start = max(self._first_byte(footer), footer - _INDEX_BYTES, 0)
        if start < self._start:
            self._tail = fetch(start, self._start) + self._tail
            self._start = start

    @staticmethod
    def is_worth_a_look(metadata: Any) -> bool:
        """Has the file an index, and is its footer small enough to be decoded once more?"""
        return (
            0 < metadata.num_columns * metadata.num_row_groups <= _MOST_CHUNKS
            and metadata.serialized_size <= _MOST_BYTES
            and not (metadata.metadata and b"ARROW:schema" in metadata.metadata)  # its types would be others without it
            and any(metadata.row_group(0).column(i).has_offset_index for i in range(metadata.num_columns))
        )

    def rows_of(self, group: int, predicate: Predicate, places: Iterable[tuple[int, str]]) -> Rows:
        """The rows of a row group that can match. `places` are the columns with trusted bounds, see `bounded_columns`."""
        found = [(0, self._rows(group))]
        for leaf, name in places:
            pages = self._pages(group, leaf)
            bounds = self._bounds(group, leaf, pages)
            if bounds is not None:
                kept = [
                    (p.first, p.end)
                    for p, s in zip(pages, bounds, strict=True)
                    if may_match(predicate, {name: s}, p.end - p.first)
                ]
                found = _common(found, _joined(kept))
        return found

    def columns(self, group: int, leaves: Sequence[int], rows: Rows, **how: Any) -> list[pa.Array] | None:
        """The wanted rows of some columns, or None where reading the row group whole is better, or all that is possible."""
        pages = [_wanted(self._pages(group, leaf), rows) for leaf in leaves]
        if not all(pages) or not all(leaf in self._leaves for leaf in leaves):
            return None
        heads = [self._dictionary(group, leaf) for leaf in leaves]
        if None in heads:
            return None
        spans = [head for head in heads if head]
        spans += [(page.offset, page.offset + page.size) for chosen in pages for page in chosen]
        whole = sum(_value(self._chunk(group, leaf), 7) for leaf in leaves)
        if _LEAST_GAIN * sum(end - start for start, end in spans) > whole:
            return None
        read = self._read(spans)
        return [
            self._decoded(group, leaf, read, head, chosen, rows, how)
            for leaf, head, chosen in zip(leaves, heads, pages, strict=True)
        ]

    # What the index says.

    def _first_byte(self, footer: int) -> int:
        """Where the index begins: that of the bounds, then that of the places, both before the footer."""
        groups = _value(self._footer, 4)[1]
        starts = [_value(chunk, field) for group in groups for chunk in _value(group, 1)[1] for field in (4, 6)]
        return min((start for start in starts if start is not None), default=footer)

    def _rows(self, group: int) -> int:
        return int(_value(_value(self._footer, 4)[1][group], 3))

    def _group(self, group: int, leaf: int) -> Struct:
        chunk: Struct = _value(_value(self._footer, 4)[1][group], 1)[1][leaf]
        return chunk

    def _chunk(self, group: int, leaf: int) -> Struct:
        found: Struct = _value(self._group(group, leaf), 3)
        return found

    def _part(self, group: int, leaf: int, offset: int, length: int) -> Struct | None:
        """A struct of the index, whose place is in two fields of the footer."""
        chunk = self._group(group, leaf)
        start, size = _value(chunk, offset), _value(chunk, length)
        if start is None or size is None or not (start > 0 and 0 < size <= min(_MOST_BYTES, self._size - start)):
            return None
        inside = self._start <= start and start + size <= self._start + len(self._tail)
        return decode_struct(self._tail[start - self._start :][:size] if inside else self._fetch(start, start + size))

    def _pages(self, group: int, leaf: int) -> list[_Page]:
        """The pages of a column; none where the index lacks them, or contradicts itself."""
        index = self._part(group, leaf, 4, 5)
        located = _value(index, 1) if index else None
        if not located or not located[1]:
            return []
        places = [tuple(_value(page, field) for field in (1, 2, 3)) for page in located[1]]
        firsts = [first for _, _, first in places]
        ends = [*firsts[1:], self._rows(group)]
        pages = [_Page(at, size, first, end) for (at, size, first), end in zip(places, ends, strict=True)]
        sound = all(p.size > 0 and 0 <= p.first < p.end and p.offset + p.size <= self._size for p in pages)
        in_order = all(a.offset + a.size <= b.offset for a, b in pairwise(pages))
        return pages if sound and in_order and firsts[0] == 0 else []

    def _bounds(self, group: int, leaf: int, pages: list[_Page]) -> list[ColumnStats] | None:
        index = self._part(group, leaf, 6, 7) if pages else None
        if index is None:
            return None
        nulls = _value(index, 5)
        lists = [_value(index, field) for field in (1, 2, 3)]
        parts = [part[1] if part else [] for part in lists]
        counts = nulls[1] if nulls else [None] * len(pages)
        if any(len(part) != len(pages) for part in (*parts, counts)):
            return None
        kind = _value(self._chunk(group, leaf), 1)
        is_date = self._schema.column(leaf).logical_type.type == "DATE"
        return [
            ColumnStats(null_count=page.end - page.first)
            if empty in (True, b"\x01")
            else _stats(kind, low, high, count, is_date)
            for page, empty, low, high, count in zip(pages, *parts, counts, strict=True)
        ]

    def _dictionary(self, group: int, leaf: int) -> tuple[int, int] | tuple[()] | None:
        """Where the dictionary of a column is; () where it has none; None where that is not clear."""
        chunk = self._chunk(group, leaf)
        first, start = self._pages(group, leaf)[0].offset, _value(chunk, 11)
        has_one = bool({2, 8} & set(_value(chunk, 2)[1]))
        if start is not None and 0 < start < first:
            return start, first
        return None if has_one else ()

    # Reading.

    def _read(self, spans: list[tuple[int, int]]) -> Callable[[int, int], bytes]:
        """The bytes of some spans, those that are near each other with one request."""
        together: list[tuple[int, int]] = []
        for start, end in sorted(spans):
            if together and start - together[-1][1] <= _GAP_BYTES:
                together[-1] = together[-1][0], max(end, together[-1][1])
            else:
                together.append((start, end))
        starts, ends = zip(*together, strict=True)
        if min(self._at_once, len(together)) > 1:
            with MACHINE.executor(min(self._at_once, len(together)), "lakelatch-read") as pool:
                read = list(pool.map(self._fetch, starts, ends))
        else:
            read = [self._fetch(start, end) for start, end in together]
        parts = list(zip(starts, read, strict=True))

        def found(start: int, end: int) -> bytes:
            at, data = next((at, data) for at, data in parts if at <= start and end <= at + len(data))
            return data[start - at : end - at]

        return found

    def _decoded(
        self, group: int, leaf: int, read: Fetch, head: Any, pages: list[_Page], rows: Rows, how: dict[str, Any]
    ) -> pa.Array:
        """The wanted rows of one column, by a Parquet file that has nothing but its wanted pages."""
        out = io.BytesIO()
        out.write(_MAGIC)
        if head:
            out.write(read(*head))
        data_at = out.tell()
        for page in pages:
            out.write(read(page.offset, page.offset + page.size))
        count = sum(page.end - page.first for page in pages)
        out.write(self._small_footer(group, leaf, count, data_at if head else None, data_at, out.tell()))
        column = pq.ParquetFile(pa.BufferReader(out.getvalue()), **how).read(use_threads=False).column(0)
        if len(column) != count:
            raise ValueError(f"its pages have {len(column)} rows and not {count}")
        before = np.cumsum([0, *(page.end - page.first for page in pages)])
        parts, starts = [], [page.first for page in pages]
        for start, end in rows:
            at = int(np.searchsorted(starts, start, side="right")) - 1
            parts.append(column.slice(int(before[at]) + start - starts[at], end - start))
        return pa.concat_arrays([chunk for part in parts for chunk in part.chunks])

    def _small_footer(self, group: int, leaf: int, rows: int, has_head: int | None, data_at: int, end: int) -> bytes:
        chunk = self._chunk(group, leaf)
        about: Struct = {field: chunk[field] for field in (1, 2, 3, 4) if field in chunk}
        about |= {5: (I64, rows), 6: (I64, _value(chunk, 6)), 7: (I64, end - len(_MAGIC)), 9: (I64, data_at)}
        if has_head is not None:
            about[11] = I64, len(_MAGIC)
        root, element = dict(_value(self._footer, 2)[1][0]), self._leaves[leaf]
        root[5] = I32, 1
        columns: Struct = {2: (I64, len(_MAGIC)), 3: (STRUCT, about)}
        groups: Struct = {1: (LIST, (STRUCT, [columns])), 2: (I64, end), 3: (I64, rows)}
        footer: Struct = {
            1: self._footer[1],
            2: (LIST, (STRUCT, [root, element])),
            3: (I64, rows),
            4: (LIST, (STRUCT, [groups])),
        }
        if 6 in self._footer:
            footer[6] = self._footer[6]
        data = encode_struct(footer)
        return data + pack("<I", len(data)) + _MAGIC


def _wanted(pages: list[_Page], rows: Rows) -> list[_Page]:
    return [page for page in pages if any(start < page.end and page.first < end for start, end in rows)]


def _value(struct: Struct, field: int) -> Any:
    return struct[field][1] if field in struct else None


def _plain_leaves(elements: list[Struct]) -> dict[int, Struct]:
    """The columns that are no part of others and not repeated: number of the leaf -> its element of the schema."""
    found: dict[int, Struct] = {}
    leaf, inside = 0, 0
    for element in elements[1:]:
        children = _value(element, 5) or 0
        if not children:
            if not inside and _value(element, 3) != 2:
                found[leaf] = element
            leaf += 1
        inside = max(0, inside - 1) + children
    return found


def _stats(kind: int, low: bytes, high: bytes, nulls: int | None, is_date: bool) -> ColumnStats:
    """The bounds of a page; unknown where they are cut inside of a letter, or are dates that Python does not have."""
    try:
        if kind == _TEXT:
            return ColumnStats(low.decode(), high.decode(), nulls)
        ends = [unpack(_BOUNDS[kind], part)[0] for part in (low, high)]
        least, most = map(_day, ends) if is_date else ends
        return ColumnStats(least, most, nulls)
    except (StructError, UnicodeDecodeError, KeyError, OverflowError):
        return ColumnStats(null_count=nulls)


def _day(number: int) -> date:
    return date(1970, 1, 1) + timedelta(days=number)


def _joined(rows: Rows) -> Rows:
    """Ranges of which none begins where another one ends."""
    found: Rows = []
    for start, end in rows:
        if found and found[-1][1] == start:
            found[-1] = found[-1][0], end
        else:
            found.append((start, end))
    return found


def _common(left: Rows, right: Rows) -> Rows:
    """The rows that are in both.

    >>> _common([(0, 10), (20, 30)], [(5, 25)])
    [(5, 10), (20, 25)]
    """
    found = [(max(a, c), min(b, d)) for a, b in left for c, d in right]
    return sorted((start, end) for start, end in found if start < end)
