"""Rows as the readers of data files return them, before they become columns of the result.

Owns: `FileRows`, and `MergedRows` for columns from several files. Must not know: stores, splits, predicates.

Invariant: A value is converted only if its row is wanted. Rows that are deleted or filtered out cost nothing, and a text that
cannot be cast fails only the reads that want its row, as in Apache Paimon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from ...core.rows import sizes
from ..projection.plan import ProjectionPlan

_SMALL_ROWS = 1 << 12
_JOINED_ROWS, _JOINED_BYTES = 1 << 15, 4 << 20


class Rows(Protocol):
    """Rows whose columns are converted on demand."""

    def __len__(self) -> int: ...

    @property
    def nbytes(self) -> int:
        """About the bytes of the columns that were read."""

    def column(self, name: str) -> Any:
        """A column of the result, converted once."""

    def kept(self, mask: pa.BooleanArray, columns: Sequence[str] | None = None) -> Rows:
        """The rows for which a mask is true, with those of the result's columns that are still wanted; None for all."""

    def slice(self, offset: int, length: int | None = None) -> Rows:
        """At most `length` rows, from `offset` on."""


class FileRows:
    """Some rows of one file. The columns of `batch` have the file's names; a missing column is read as null."""

    def __init__(
        self, batch: pa.RecordBatch, projection: ProjectionPlan, where: str, made: dict[str, Any] | None = None
    ) -> None:
        self._batch, self._projection, self._where = batch, projection, where
        self._made = made or {}

    def __len__(self) -> int:
        return int(self._batch.num_rows)

    @property
    def nbytes(self) -> int:
        if not any(map(pa.types.is_dictionary, self._batch.schema.types)):
            return int(self._batch.nbytes)
        return sum(map(_plain_bytes, self._batch.columns))

    @property
    def schema(self) -> pa.Schema:
        """The wanted columns that were found in the file, under the file's names."""
        return self._batch.schema

    def pieces(self) -> Iterator[FileRows]:
        """The rows in pieces that are bounded by bytes."""
        for piece in sizes.pieces(self._batch):
            yield self if piece is self._batch else FileRows(piece, self._projection, self._where)

    def column(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = self._projection.column(name, self._batch, self._where)
        return self._made[name]

    def kept(self, mask: pa.BooleanArray, columns: Sequence[str] | None = None) -> FileRows:
        count = mask.true_count
        if count == len(mask):
            return self
        if not count:
            return FileRows(self._batch.slice(0, 0), self._projection, self._where)
        batch, made = self._batch, self._made
        if columns is not None:  # what is made already is not filtered twice
            made = {name: array for name, array in made.items() if name in columns}
            unmade = self._projection.sources(name for name in columns if name not in made)
            batch = batch.select([name for name in batch.schema.names if name in unmade])
        made = {name: array.filter(mask) for name, array in made.items()}
        return FileRows(_filtered(batch, mask, count), self._projection, self._where, made)

    def slice(self, offset: int, length: int | None = None) -> FileRows:
        made = {name: array.slice(offset, length) for name, array in self._made.items()}
        return FileRows(self._batch.slice(offset, length), self._projection, self._where, made)

    def takes(self) -> bool:
        """Can rows of other files be joined to these? No column is converted, so that no error has to tell which file it is, and
        there is one, or Arrow would forget how many rows there are."""
        return self._batch.num_columns > 0 and self._projection.keeps(self._batch.schema)

    def is_like(self, other: FileRows) -> bool:
        return (
            self._projection is other._projection
            and self._made.keys() == other._made.keys()
            and self._batch.schema.equals(other._batch.schema)
        )

    def joined(self, others: Sequence[FileRows]) -> FileRows:
        """These rows and then others that are like them."""
        if not others:
            return self
        parts = (self, *others)
        made = {name: pa.concat_arrays([part._made[name] for part in parts]) for name in self._made}
        return FileRows(pa.concat_batches([part._batch for part in parts]), self._projection, self._where, made)

    def packed(self) -> tuple[pa.RecordBatch, Callable[[pa.RecordBatch], FileRows]]:
        """The values as one batch without dictionaries, those of the file and those that are converted already; and what makes
        rows of such a batch, or of a slice of it, again. That keeps nothing of the values."""
        names, made = self._batch.schema.names, list(self._made)
        arrays = [_plain(array) for array in (*self._batch.columns, *self._made.values())]
        packed = pa.RecordBatch.from_arrays(arrays, [str(number) for number in range(len(arrays))])
        return packed, partial(_unpacked, names, made, self._projection, self._where)

    def replace(self, name: str, values: Any) -> None:
        self._made[name] = values

    def replace_nulls(self, name: str, values: Any) -> None:
        self._made[name] = pc.coalesce(self.column(name), values)


def joined(parts: Iterable[Rows]) -> Iterator[Rows]:
    """The same rows in the same order. Small parts that can be joined are, because each costs the steps that follow as much as
    hundreds of rows."""
    waiting, rows, held = list[FileRows](), 0, 0
    for part in parts:
        size = part.nbytes if len(part) < _SMALL_ROWS else _JOINED_BYTES
        is_full = rows + len(part) > _JOINED_ROWS or held + size >= _JOINED_BYTES
        if waiting and (is_full or not (isinstance(part, FileRows) and waiting[0].is_like(part))):
            yield waiting[0].joined(waiting[1:])
            waiting, rows, held = [], 0, 0
        if isinstance(part, FileRows) and size < _JOINED_BYTES and (waiting or part.takes()):
            waiting.append(part)
            rows, held = rows + len(part), held + size
        else:
            yield part
    if waiting:
        yield waiting[0].joined(waiting[1:])


def _filtered(batch: pa.RecordBatch, mask: pa.BooleanArray, count: int) -> pa.RecordBatch:
    """The rows of a batch for which a mask is true, `count` of them; a batch without columns, too."""
    if batch.num_columns:
        return batch.filter(mask)
    return pa.record_batch({"": pa.nulls(count)}).select([])


def _unpacked(
    names: Sequence[str], made: Sequence[str], projection: ProjectionPlan, where: str, packed: pa.RecordBatch
) -> FileRows:
    batch = pa.RecordBatch.from_arrays(packed.columns[: len(names)], names)
    return FileRows(batch, projection, where, dict(zip(made, packed.columns[len(names) :], strict=True)))


def _plain(array: Any) -> Any:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _plain_bytes(array: Any) -> int:
    """The bytes of a column, of dictionaries after they are resolved."""
    if not pa.types.is_dictionary(array.type):
        return int(array.nbytes)
    values = array.dictionary
    return len(array) * (int(values.nbytes) // max(len(values), 1) + 1)


class MergedRows:
    """Rows whose columns are in several files: `parts` are the same rows from each, and `owners` says which part has a column."""

    def __init__(self, parts: Sequence[Rows], owners: Mapping[str, int]) -> None:
        self._parts, self._owners = parts, owners

    def __len__(self) -> int:
        return len(self._parts[0])

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self._parts)

    def column(self, name: str) -> Any:
        return self._parts[self._owners[name]].column(name)

    def kept(self, mask: pa.BooleanArray, columns: Sequence[str] | None = None) -> MergedRows:
        return MergedRows([part.kept(mask, columns) for part in self._parts], self._owners)

    def slice(self, offset: int, length: int | None = None) -> MergedRows:
        return MergedRows([part.slice(offset, length) for part in self._parts], self._owners)
