"""Read a BLOB column for the rows of one run, from the files that hold its values.

Owns: choosing the file that has the value of a row, and fetching values in bounded pieces. Must not know: other columns, plans.
Source: format/data-files §7.

Invariants: A newer file's value replaces an older one's, unless it is a placeholder, which stands for the older value. Memory
holds a bounded number of values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ...core.blob_file import FOOTER_BYTES, NULL, PLACEHOLDER, decode_lengths, index_size, unframed
from ...core.errors import TableCorrupt
from ...core.metadata.data_file import DataFile
from .data_source import DataSource

_BATCH_BYTES = 32 << 20
_BATCH_VALUES = 1 << 14
_NOWHERE = -1


def blob_values(sources: Sequence[DataSource], first_row: int, rows: int) -> Iterator[pa.Array]:
    """The values of a column in pieces, in the order of the run's rows. The first of them has the row id `first_row`."""
    oldest_first = sorted(sources, key=lambda source: source.file.max_sequence_number)
    giver = np.full(rows, _NOWHERE)
    starts, lengths = np.zeros(rows, np.int64), np.full(rows, PLACEHOLDER, np.int64)
    for number, source in enumerate(oldest_first):
        file = source.file
        begin = (file.first_row_id or 0) - first_row
        found = _lengths_of(source, file)
        said = found != PLACEHOLDER
        part = slice(begin, begin + file.row_count)
        giver[part] = np.where(said, number, giver[part])
        starts[part] = np.where(said, np.cumsum(np.maximum(found, 0)) - np.maximum(found, 0), starts[part])
        lengths[part] = np.where(said, found, lengths[part])
    if (giver == _NOWHERE).any():
        row = first_row + int(np.argmin(giver))
        raise TableCorrupt(f"no file of BLOBs has the value of row {row}; the newest is {oldest_first[-1].where}")
    for begin, end in _pieces(lengths):
        yield pa.array([_value(oldest_first, giver[i], starts[i], lengths[i]) for i in range(begin, end)], pa.binary())


def blob_count(source: DataSource) -> int:
    """The number of values of a file, from its index."""
    return len(_lengths_of(source, source.file))


def _lengths_of(source: DataSource, file: DataFile) -> Any:
    with source.blamed():
        size = file.file_size
        footer = source.range(size - FOOTER_BYTES, size)
        index_bytes = index_size(footer)
        if not 0 <= index_bytes <= size - FOOTER_BYTES:
            raise ValueError(f"an index of {index_bytes} bytes")
        start = size - FOOTER_BYTES - index_bytes
        lengths = decode_lengths(source.range(start, size - FOOTER_BYTES), start)
    source.check_rows(len(lengths))
    return lengths


def _pieces(lengths: Any) -> Iterator[tuple[int, int]]:
    begin = size = 0
    for row, length in enumerate(lengths.tolist()):
        if row > begin and (size + length > _BATCH_BYTES or row - begin >= _BATCH_VALUES):
            yield begin, row
            begin, size = row, 0
        size += max(length, 0)
    if begin < len(lengths):
        yield begin, len(lengths)


def _value(sources: Sequence[DataSource], giver: Any, start: Any, length: Any) -> bytes | None:
    if length == NULL:
        return None
    source = sources[giver]
    with source.blamed():
        return unframed(source.range(int(start), int(start + length)))
