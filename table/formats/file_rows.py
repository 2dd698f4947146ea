"""Rows as data files' readers gave them, not yet columns of the result.

Owns: `FileRows`, and `MergedRows` whose columns lie in several files. Must not know: stores, splits, predicates.

Invariant: a value is converted only if its row is wanted: what is deleted or filtered out costs nothing, and a text that no cast
can read fails only the reads that want its row, as in Apache Paimon.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from ..projection.plan import ProjectionPlan


class Rows(Protocol):
    """Some rows, whose columns are converted when they are asked for."""

    def __len__(self) -> int: ...

    def column(self, name: str) -> Any:
        """A column of the result, converted once."""

    def kept(self, mask: pa.BooleanArray) -> Rows:
        """The rows for which a mask is true."""

    def slice(self, offset: int, length: int | None = None) -> Rows:
        """Rows from `offset` on, at most `length`."""


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

    def slice(self, offset: int, length: int | None = None) -> FileRows:
        """Rows from `offset` on, at most `length`."""
        made = {name: array.slice(offset, length) for name, array in self._made.items()}
        return FileRows(self._batch.slice(offset, length), self._projection, self._where, made)

    def replace_nulls(self, name: str, values: Any) -> None:
        """Give a column values where the file has none."""
        self._made[name] = pc.coalesce(self.column(name), values)


class MergedRows:
    """Rows whose columns lie in several files.

    Args:
        parts: the same rows in each file.
        owners: which part gives a column, by the column's name.
    """

    def __init__(self, parts: Sequence[Rows], owners: Mapping[str, int]) -> None:
        self._parts, self._owners = parts, owners

    def __len__(self) -> int:
        return len(self._parts[0])

    def column(self, name: str) -> Any:
        return self._parts[self._owners[name]].column(name)

    def kept(self, mask: pa.BooleanArray) -> MergedRows:
        return MergedRows([part.kept(mask) for part in self._parts], self._owners)

    def slice(self, offset: int, length: int | None = None) -> MergedRows:
        return MergedRows([part.slice(offset, length) for part in self._parts], self._owners)
