"""Reads files with deleted rows by Spark's own scan, which leaves these rows out by their positions.

Owns: which files are worth it, and the condition that keeps a file's live rows. Must not know: formats of vectors, plans.
Source: format/spark §4; format/deletion-vectors §1.

The positions of a file's deleted rows become an array of BIGINT with a bit for each row, a constant of the query; a row is live
if its bit is 0. A join with the positions, or a way through Python, costs about as much as the scan itself. Each file with
deleted rows is a scan of its own, so this is for few files of a good size; Arrow reads the others.

Invariant: A vector that cannot be read is an error of `read`, and never means "nothing is deleted".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from pyspark.sql import functions as F  # noqa: N812 - Spark's users know it by this name

from ..backends.store import Store
from ..table.reading.deletion import deleted_rows
from ..table.scan.split import DELETED_ROWS, Split

VECTOR_FILES = 64
"""The most files with deleted rows that Spark's own reader takes …"""
VECTOR_FILE_BYTES = 16 << 20
"""… whose mean size is at least this …"""
VECTOR_ROWS = 1 << 28
"""… and the most rows they may have, because the driver holds a bit for each."""
_WORD_BITS = 64


def worth_it(splits: Sequence[Split]) -> bool:
    """Are these splits, which have only files with deleted rows, read faster by Spark's own scan?"""
    files = [file for split in splits for file in split.files]
    return (
        0 < len(files) <= VECTOR_FILES
        and sum(f.file_size for f in files) >= len(files) * VECTOR_FILE_BYTES
        and sum(f.row_count for f in files) <= VECTOR_ROWS
    )


def has_only_deleted_rows(split: Split) -> bool:
    """Are deleted rows all that Spark's own reader would read wrongly in this split?"""
    return split.needs_arrow == (DELETED_ROWS,) and not split.sections and not split.is_one_run


def file_by_file(splits: Sequence[Split]) -> list[Split]:
    """The same files, each in a split of its own."""
    return [
        replace(split, files=(file,), keys=(split.keys[i],), deletions=(split.deletion(i),))
        for split in splits
        for i, file in enumerate(split.files)
    ]


def live_rows(frame: Any, store: Store, split: Split) -> Any:
    """The rows of a scan of one file that are not deleted.

    Args:
        frame: a scan of the split's only file by Spark's own reader.

    Raises:
        TableCorrupt: the vector is missing or damaged.
    """
    deleted = deleted_rows(store, split, (0,))
    if deleted is None or not len(deleted):
        return frame
    row = frame.metadataColumn("_metadata").getField("row_index")
    words = F.lit(_as_text(deleted))
    array = F.split(words, ",").cast("array<bigint>")  # folded into a constant when the query is optimised
    word = F.coalesce(F.get(array, F.shiftright(row, 6).cast("int")), F.lit(0).cast("bigint"))
    return frame.filter(F.getbit(word, row.bitwiseAND(F.lit(_WORD_BITS - 1)).cast("int")) == F.lit(0))


def _as_text(deleted: Any) -> str:
    """The words that have a bit for each row up to the last deleted one, as signed numbers.

    >>> _as_text(np.array([0, 1, 127]))
    '3,-9223372036854775808'
    """
    bits = np.zeros((int(deleted[-1]) // _WORD_BITS + 1) * _WORD_BITS, np.uint8)
    bits[deleted] = 1
    words = np.packbits(bits, bitorder="little").view("<i8")
    return ",".join(map(str, words.tolist()))
