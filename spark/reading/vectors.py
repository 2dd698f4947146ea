"""Reads files with deleted rows by Spark's own scan, which leaves these rows out by their positions.

Owns: which files are worth it, how they share scans, and the condition that keeps the live rows of a scan. Must not know:
formats of vectors, plans. Source: format/spark §4; format/deletion-vectors §1.

A row is live if its bit is 0 in the bitmap of its file. The bitmaps of a scan are one value, an array of BIGINT, which the driver
makes and Spark sends to its tasks with their code. The size of its file tells from which file a row is: it is a number, where
names would have to be compared for each row. So files of equal sizes are in different scans. A join with the positions, or a way
through Python, costs about as much as the scan itself.

Invariants: A vector that cannot be read is an error of `read`, and never means "nothing is deleted". A file whose size is not the
manifest's is an error of the scan, and so are rows right behind the end of a bitmap: behind each is a null, not another bitmap.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from ...backends.store import Store
from ...core.rows.types import AtomicType, Field
from ...table.reading.arrow import READ_THREADS
from ...table.reading.deletion import deleted_rows
from ...table.reading.read_ahead import in_order
from ...table.scan.split import DELETED_ROWS, Split

VECTOR_FILES = 256
"""The most files with deleted rows that Spark's own reader takes …"""
VECTOR_BYTES = 16 << 20
"""… if a scan of them reads at least this on average …"""
VECTOR_ROWS = 1 << 28
"""… and the most rows they may have, because the driver and each task hold a bit for each."""
_WORD_BITS = 64
_SIZE_AT = 24
"""The bits of a slot, from which on it has the size of a file; those below are enough for where any bitmap begins."""
ROW_INDEX = Field(-1, "_tmp_metadata_row_index", AtomicType("BIGINT", nullable=True))
"""A column that a scan must have: Spark's Parquet reader writes the position of each row in its file into it.

It does the same for `_metadata.row_index`, but makes an object for each row, to hold the fields of `_metadata`."""
_FILE_SIZE = "_metadata.file_size"
_WORDS = "_lakelatch_words"
_TAKEN = {ROW_INDEX.name, "_metadata", _WORDS}
"""A table with a column of one of these names is not for Spark's own scan."""


def worth_it(splits: Sequence[Split]) -> bool:
    """Are these splits, which have only files with deleted rows, read faster by Spark's own scans?"""
    files = [file for split in splits for file in split.files]
    scans = max(Counter(f.file_size for f in files).values(), default=0)
    return (
        0 < len(files) <= VECTOR_FILES
        and sum(f.file_size for f in files) >= scans * VECTOR_BYTES
        and sum(f.row_count for f in files) <= VECTOR_ROWS
    )


def can_name_rows(fields: Iterable[Field]) -> bool:
    """Are the names that a scan needs free in a table with these columns?"""
    return _TAKEN.isdisjoint(field.name.lower() for field in fields)


def has_only_deleted_rows(split: Split) -> bool:
    """Are deleted rows all that Spark's own reader would read wrongly in this split?"""
    return split.needs_arrow == (DELETED_ROWS,) and not split.sections and not split.is_one_run


@dataclass(frozen=True)
class MarkedScan:
    """Files of different sizes, one for each split, that Spark scans together; bits of their bitmaps are set for deleted rows."""

    splits: list[Split]
    bitmaps: list[Any]

    def live_rows(self, session: Any, frame: Any, table: str) -> Any:
        """The rows that are not deleted, of a scan by Spark's own reader; its column `ROW_INDEX` goes."""
        sizes = np.array([split.files[0].file_size for split in self.splits])
        slots = slots_for(sizes)
        value = session.createDataFrame(_one_value(self._words(slots, sizes))).scalar()
        unknown = (
            f"a data file of {table} has another size, or more rows, than its manifest says, so its deleted rows are not known;"
            f" run `lakelatch verify --data {table}`"
        )
        # As one text, because the driver takes a millisecond for each call that puts an expression together. With another size
        # than that of the slot, the place of a word is in no array, and the word is null.
        row = ROW_INDEX.name
        slot = f"get({_WORDS}, CAST({_FILE_SIZE} % {slots} AS INT))"
        place = f"{slot} - shiftleft({_FILE_SIZE}, {_SIZE_AT}) + shiftright({row}, {_WORD_BITS.bit_length() - 1})"
        is_live = f"getbit(get({_WORDS}, try_cast({place} AS INT)), CAST({row} & {_WORD_BITS - 1} AS INT)) = 0"
        marked = frame.withColumn(_WORDS, value)
        return marked.where(f"coalesce({is_live}, raise_error({_as_sql(unknown)}))").drop(row, _WORDS)

    def _words(self, slots: int, sizes: Any) -> pa.Array:
        """For each slot the size of its file, and where the bitmap begins; then the bitmaps, with a null behind each."""
        ends = slots + np.cumsum([len(bitmap) + 1 for bitmap in self.bitmaps])
        words = np.zeros(ends[-1], np.int64)
        is_end = np.zeros(len(words), bool)
        is_end[ends - 1] = True
        for slot, size, end, bitmap in zip(sizes % slots, sizes, ends, self.bitmaps, strict=True):
            begin = end - 1 - len(bitmap)
            words[slot] = (size << _SIZE_AT) + begin
            words[begin : end - 1] = bitmap
        return pa.array(words, mask=is_end)


def marked_scans(store: Store, splits: Sequence[Split]) -> list[MarkedScan]:
    """The scans of files that have other rows than deleted ones. `TableCorrupt`: a vector is missing or damaged."""
    files = file_by_file(splits)
    vectors = in_order((partial(_vector, store, split) for split in files), min(READ_THREADS, len(files)))
    seen: Counter[int] = Counter()
    scans: defaultdict[int, MarkedScan] = defaultdict(lambda: MarkedScan([], []))
    for split, (bitmap, deleted) in zip(files, vectors, strict=True):
        file = split.files[0]
        if deleted == file.row_count:
            continue
        scan = scans[seen[file.file_size]]
        scan.splits.append(split)
        scan.bitmaps.append(bitmap)
        seen[file.file_size] += 1
    return list(scans.values())


def file_by_file(splits: Sequence[Split]) -> list[Split]:
    return [
        replace(split, files=(file,), keys=(split.keys[i],), deletions=(split.deletion(i),))
        for split in splits
        for i, file in enumerate(split.files)
    ]


def slots_for(sizes: Any) -> int:
    """A number by which different sizes leave different remainders.

    >>> slots_for(np.array([7, 10, 13, 16]))
    4
    """
    slots = max(len(sizes), len(sizes) ** 2 // 8)
    while len(np.unique(sizes % slots)) < len(sizes):
        slots += 1
    return slots


def _vector(store: Store, split: Split) -> Iterator[tuple[Any, int]]:
    deleted = deleted_rows(store, split, (0,))
    rows = np.zeros(0, np.int64) if deleted is None else deleted
    yield _bitmap(rows, split.files[0].row_count), len(rows)


def _bitmap(deleted: Any, row_count: int) -> Any:
    """A bit for each row of a file, in words of 64; those of deleted rows are set.

    >>> _bitmap(np.array([0, 1, 127]), 129).tolist()
    [3, -9223372036854775808, 0]
    """
    bits = np.zeros(-(-row_count // _WORD_BITS) * _WORD_BITS, np.uint8)
    bits[deleted] = 1
    return np.packbits(bits, bitorder="little").view("<i8")


def _one_value(words: pa.Array) -> pa.Table:
    return pa.table({_WORDS: pa.ListArray.from_arrays(pa.array([0, len(words)], pa.int32()), words)})


def _as_sql(text: str) -> str:
    """The text as a value in Spark's SQL, whatever the session says about characters with a meaning.

    >>> _as_sql("it's")
    "decode(X'69742773', 'utf-8')"
    """
    return f"decode(X'{text.encode().hex()}', 'utf-8')"
