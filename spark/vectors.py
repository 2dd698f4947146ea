"""Reads files with deleted rows by Spark's own scan, which leaves these rows out by their positions.

Owns: which files are worth it, how they share scans, and the condition that keeps the live rows of a scan. Must not know:
formats of vectors, plans. Source: format/spark §4; format/deletion-vectors §1.

A row is live if its bit is 0 in the bitmap of its file. The bitmaps of a scan are one value, an array of BIGINT, which the driver
makes and Spark sends to its tasks with their code. The size of its file tells from which file a row is: it is a number, where
names would have to be compared for each row. So files of equal sizes are in different scans. A join with the positions, or a way
through Python, costs about as much as the scan itself.

Invariants: A vector that cannot be read is an error of `read`, and never means "nothing is deleted". A file whose size, or whose
number of rows, is not the manifest's is an error of the scan, and never has the bitmap of another file.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - Spark's users know it by this name

from ..backends.store import Store
from ..table.reading.arrow import READ_THREADS
from ..table.reading.deletion import deleted_rows
from ..table.reading.read_ahead import in_order
from ..table.scan.split import DELETED_ROWS, Split

VECTOR_FILES = 256
"""The most files with deleted rows that Spark's own reader takes …"""
VECTOR_BYTES = 16 << 20
"""… if a scan of them reads at least this on average …"""
VECTOR_ROWS = 1 << 28
"""… and the most rows they may have, because the driver and each task hold a bit for each."""
_WORD_BITS = 64
_PARTS = 3
"""The numbers of a slot, see `MarkedScan._words`."""


def worth_it(splits: Sequence[Split]) -> bool:
    """Are these splits, which have only files with deleted rows, read faster by Spark's own scans?"""
    files = [file for split in splits for file in split.files]
    scans = max(Counter(f.file_size for f in files).values(), default=0)
    return (
        0 < len(files) <= VECTOR_FILES
        and sum(f.file_size for f in files) >= scans * VECTOR_BYTES
        and sum(f.row_count for f in files) <= VECTOR_ROWS
    )


def has_only_deleted_rows(split: Split) -> bool:
    """Are deleted rows all that Spark's own reader would read wrongly in this split?"""
    return split.needs_arrow == (DELETED_ROWS,) and not split.sections and not split.is_one_run


@dataclass(frozen=True)
class MarkedScan:
    """Files with deleted rows that Spark scans together.

    Attributes:
        splits: of one file each, all of different sizes.
        bitmaps: of each file, with a bit for each row; those of deleted rows are set.
    """

    splits: list[Split]
    bitmaps: list[Any]

    def live_rows(self, session: Any, frame: Any, table: str) -> Any:
        """The rows that are not deleted.

        Args:
            frame: the scan of these files by Spark's own reader.
            table: the table's URL, for errors.
        """
        sizes = np.array([split.files[0].file_size for split in self.splits])
        slots = slots_for(sizes)
        value = session.createDataFrame(_one_value(self._words(slots, sizes))).scalar()
        hidden = frame.metadataColumn("_metadata")
        size, row = hidden.getField("file_size"), hidden.getField("row_index")
        slot = (size % F.lit(slots)).cast("int")
        begin, known, rows = (F.get(value, slot + F.lit(part * slots)) for part in range(_PARTS))
        word = F.get(value, (begin + F.shiftright(row, 6)).cast("int"))
        is_live = F.getbit(word, row.bitwiseAND(F.lit(_WORD_BITS - 1)).cast("int")) == F.lit(0)
        unknown = F.raise_error(
            F.lit(
                f"a data file of {table} has another size, or more rows, than its manifest says, so its deleted rows are not"
                f" known; run `lakelatch verify --data {table}`"
            )
        )
        return frame.filter(F.coalesce(F.when((known == size) & (rows > row), is_live), unknown))

    def _words(self, slots: int, sizes: Any) -> Any:
        """For each slot where the bitmap of its file begins, the size of the file, and its rows; then the bitmaps."""
        begins = np.cumsum([_PARTS * slots, *map(len, self.bitmaps[:-1])])
        head = np.zeros((_PARTS, slots), np.int64)
        head[:, sizes % slots] = begins, sizes, [split.files[0].row_count for split in self.splits]
        return np.concatenate([head.reshape(-1), *self.bitmaps])


def marked_scans(store: Store, splits: Sequence[Split]) -> list[MarkedScan]:
    """The scans of files with deleted rows; files without any other rows are in none.

    Raises:
        TableCorrupt: a vector is missing or damaged.
    """
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
    """The same files, each in a split of its own."""
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
    """The bitmap of a file, and how many rows it marks."""
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


def _one_value(words: Any) -> pa.Table:
    """A row with an array without nulls."""
    element = pa.field("element", pa.int64(), nullable=False)
    return pa.table(
        {"words": pa.ListArray.from_arrays(pa.array([0, len(words)], pa.int32()), words, pa.list_(element))}
    )
