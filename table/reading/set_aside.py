"""Merge many sorted runs with few open decoders: the rows wait in a temporary file.

Owns: `takes_too_much`, `windows_set_aside`. Must not know: how rows are merged. Source: decision 115.

Invariants: An open decoder holds pages of its columns, however few rows are wanted at a time. Where the decoders of all runs
would take more than their share of the memory, one run after the other is decoded into the file, and memory holds one
decoder, then a piece of each run. Of a row that is larger than a piece, memory holds the columns that decide the merge: the
others stay in the file until they are wanted. Conversions that wait for wanted rows still wait. The file has no name, so that
nothing of it stays.
"""

from __future__ import annotations

import os
import tempfile
from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from ...core import options as opt
from ...core.errors import InvalidArgument
from ...core.metadata.data_file import DataFile
from ...core.rows import sizes
from ..formats.data_source import SMALL_FILE_BYTES
from ..formats.file_rows import FileRows, Rows
from .waiting_rows import WaitingRows
from .windows import Piece, Window, windows

_PAGE_BYTES, _FETCHED_BYTES = 1 << 20, 1 << 16
"""What a decoder holds of a column: a page, and what is fetched at a time."""
PARTS_WHILE_SET_ASIDE = 8
"""The part of the memory for rows that wait, of which a single file may take as much while it is decoded."""
_ALWAYS_FREE, _SHARE = 50 << 20, 4
_LEAST_PIECE_BYTES = 1 << 14


def takes_too_much(runs: Sequence[Sequence[DataFile]], columns: int, memory: int) -> bool:
    """Whether open decoders, one for each run, would take more than their share of the memory of the whole read."""
    held = sum(max(_decoder_bytes(file, columns) for file in run) for run in runs)
    return len(runs) > 1 and held > _ALWAYS_FREE + memory // _SHARE


def _decoder_bytes(file: DataFile, columns: int) -> int:
    fetched = file.file_size if file.file_size <= SMALL_FILE_BYTES else columns * _FETCHED_BYTES
    return fetched + min(columns * _PAGE_BYTES, 2 * file.file_size)


def windows_set_aside(
    runs: Sequence[Iterator[Piece]],
    keys: Sequence[str],
    deciding: Sequence[Sequence[str]],
    budget: int,
    piece_bytes: int,
) -> Iterator[Window]:
    """The rows of some runs, cut into ranges of keys as by `windows`.

    `deciding` has the columns of each file that decide a merge, keys too. `InvalidArgument`: the folder for temporary files has
    no room.
    """
    with tempfile.TemporaryFile(prefix="lakelatch-", buffering=0) as file:
        kept = [_keep(file, run, deciding, max(piece_bytes, _LEAST_PIECE_BYTES)) for run in runs]
        pa.default_memory_pool().release_unused()
        yield from windows([_given_back(file.fileno(), stretches) for stretches in kept], keys, budget)


class _Stretch(NamedTuple):
    """A piece of a file in several parts, which lie one after the other.

    Before a part that is a row which waits, its head has the columns that decide, once more.
    """

    file: int
    level: int
    where: str
    unpacked: Callable[[pa.RecordBatch], FileRows]
    start: int
    lengths: array[int]
    heads: dict[int, int]


def _keep(file: Any, run: Iterator[Piece], deciding: Sequence[Sequence[str]], piece_bytes: int) -> list[_Stretch]:
    found = []
    for piece in run:
        assert isinstance(piece.rows, FileRows)  # files of sorted runs have all columns
        batch, unpacked = piece.rows.packed()
        start = file.seek(0, os.SEEK_END)
        lengths, heads, at = array("q"), dict[int, int](), 0
        for part in sizes.pieces(batch, piece_bytes) if len(piece.rows) else ():
            if part.num_rows == 1 and part.nbytes > piece_bytes:
                rows = piece.rows.slice(at, part.num_rows)
                names = deciding[piece.file]
                heads[len(lengths)] = _write(
                    file, pa.RecordBatch.from_arrays([rows.column(name) for name in names], names)
                )
            lengths.append(_write(file, part))
            at += part.num_rows
        found.append(_Stretch(piece.file, piece.level, piece.where, unpacked, start, lengths, heads))
    return found


def _write(file: Any, batch: pa.RecordBatch) -> int:
    data = pa.BufferOutputStream()
    with pa.ipc.new_stream(data, batch.schema, options=pa.ipc.IpcWriteOptions(use_threads=False)) as stream:
        stream.write_batch(batch)
    view = memoryview(data.getvalue())
    length = len(view)
    try:
        while view:
            view = view[file.write(view) :]
    except OSError as error:
        raise InvalidArgument(
            f"the folder for temporary files, {tempfile.gettempdir()}, has no room for rows of many sorted runs: {error}",
            next_step=f"set TMPDIR to a folder with more room, set option '{opt.MERGE_MEMORY.key}' to more, or compact the"
            " table more often",
        ) from error
    return length


def _given_back(descriptor: int, stretches: Sequence[_Stretch]) -> Iterator[Piece]:
    for stretch in stretches:
        start = stretch.start
        for number, length in enumerate(stretch.lengths):
            head = stretch.heads.get(number, 0)
            load = partial(_loaded, descriptor, start + head, length, stretch.unpacked)
            rows: Rows
            if head:
                deciding = _read(descriptor, start, head)
                columns = dict(zip(deciding.schema.names, deciding.columns, strict=True))
                rows = WaitingRows(columns, deciding.num_rows, load, length)
            else:
                rows = load()
            yield Piece(stretch.file, stretch.level, rows, stretch.where)
            start += head + length


def _loaded(descriptor: int, start: int, length: int, unpacked: Callable[[pa.RecordBatch], FileRows]) -> FileRows:
    return unpacked(_read(descriptor, start, length))


def _read(descriptor: int, start: int, length: int) -> pa.RecordBatch:
    parts = []
    while length and (data := os.pread(descriptor, length, start)):  # one call gives 2 GiB at most
        parts.append(data)
        start, length = start + len(data), length - len(data)
    return pa.ipc.open_stream(pa.py_buffer(parts[0] if len(parts) == 1 else b"".join(parts))).read_next_batch()
