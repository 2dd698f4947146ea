"""Rows as a data file's reader gave them, not yet columns of the result.

Owns: `FileRows`. Must not know: stores, splits, predicates. Invariant: a value is converted only if its row is wanted: what is
deleted or filtered out costs nothing, and a text that no cast can read fails only the reads that want its row, as in Apache
Paimon.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from .evolution import ProjectionPlan


class FileRows:
    """Some rows of one file.

    Args:
        batch: the file's columns under their own names; one that is missing reads as null.
        projection: how they become columns of the result.
        where: the file, for errors.
    """

    def __init__(
        self, batch: pa.RecordBatch, projection: ProjectionPlan, where: str, made: dict[str, Any] | None = None
    ) -> None:
        self._batch, self._projection, self._where = batch, projection, where
        self._made = made or {}

    def __len__(self) -> int:
        return int(self._batch.num_rows)

    def column(self, name: str) -> Any:
        """A column of the result, converted once.

        Raises:
            TableCorrupt, InvalidArgument, Unsupported: as `ProjectionPlan.column`.
        """
        if name not in self._made:
            self._made[name] = self._projection.column(name, self._batch, self._where)
        return self._made[name]

    def kept(self, mask: pa.BooleanArray) -> FileRows:
        """The rows for which a mask is true."""
        count = mask.true_count
        if count == len(mask):
            return self
        if not count:
            return FileRows(self._batch.slice(0, 0), self._projection, self._where)
        made = {name: array.filter(mask) for name, array in self._made.items()}
        return FileRows(self._batch.filter(mask), self._projection, self._where, made)
