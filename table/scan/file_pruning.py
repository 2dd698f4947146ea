"""Prune data files by their column statistics, whichever schemas the files were written with.

Owns: finding the statistics of the predicate's columns in a manifest entry. Must not know: stores, splits.
Source: format/statistics §1, §3.
Invariants: A file with a matching row is never dropped. Statistics belong to a column by field id, not by name. A file whose
statistics are unknown, odd or damaged is kept, because its rows can be read without them. In ORC files, values of a CHAR are
padded with blanks that readers remove, so the blanks are removed from its lower bound too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...core.errors import TableCorrupt
from ...core.expressions.tree import Predicate, columns_of
from ...core.metadata.data_file import DataFile, ManifestEntry
from ...core.metadata.schema import TableSchema
from ...core.paths import format_of
from ...core.rows.partition import PartitionCodec
from ...core.rows.types import Field
from ...core.rows.values import root_of
from ...core.statistics.collect import ColumnStats, decode_column_stats, file_stats_fields
from ...core.statistics.pruning import may_match
from ..projection.type_changes import same_bounds
from .row_runs import holds, row_count

_TRUSTED_FLOATS = ("parquet", "avro")
"""The formats in which Apache Paimon's bounds of FLOAT and DOUBLE include NaN. Those of its ORC files do not."""

_Layout = tuple[int, tuple[str, ...] | None, tuple[str, ...] | None]


@dataclass(frozen=True, slots=True)
class _Recipe:
    """The positions of the predicate's columns in one layout of statistics.

    Attributes:
        fields: all columns of the statistics, in order.
        places: (column of the predicate, its position in `fields`).
        absent: columns that the file's schema lacks, so that they are read as null.
    """

    fields: list[Field]
    places: tuple[tuple[str, int], ...]
    absent: tuple[str, ...]


def _least_unfilled(least: str | None) -> str | None:
    """A lower bound for values without padding, from the lower bound of the padded values.

    >>> _least_unfilled("a  "), _least_unfilled("a\\tb"), _least_unfilled(None)
    ('a', 'a', None)
    """
    if least is None:
        return None
    below = next((i for i, character in enumerate(least) if character < " "), len(least))
    return least[:below].rstrip(" ")


class FilePruner:
    """Tests files against one predicate, which is bound to the columns of `schema`."""

    def __init__(
        self, predicate: Predicate, schema: TableSchema, schema_of: Callable[[int], TableSchema], codec: PartitionCodec
    ) -> None:
        self._predicate = predicate
        self._schema_of = schema_of
        self._codec = codec
        looked_at = columns_of(predicate)
        self._columns = [f for f in schema.fields if f.name in looked_at and f.name not in codec.by_name]
        self._partition_columns = [(i, f.name) for i, f in enumerate(codec.fields) if f.name in looked_at]
        self._recipes: dict[_Layout, _Recipe | None] = {}

    def may_match(self, *run: ManifestEntry) -> bool:
        """False only if no row can match, of a file or of a run of files (see `row_runs`) given with the newest first."""
        files = [entry.file for entry in run]
        rows = row_count(files)
        stats = self._stats(files[0]) if len(files) == 1 else self._run_stats(files, rows)
        if self._partition_columns:
            values = self._codec.decode(run[0].partition)
            for i, name in self._partition_columns:
                value = values[i]
                stats[name] = ColumnStats(value, value, 0 if value is not None else rows)
        trusted = all(format_of(file.file_name) in _TRUSTED_FLOATS for file in files)
        return may_match(self._predicate, stats, rows, trust_float_bounds=trusted)

    def least(self, file: DataFile, column: str) -> Any:
        """The lower bound of a column that the predicate tests; None if it is not known."""
        found = self._stats(file).get(column)
        return None if found is None else found.min

    def _run_stats(self, files: Sequence[DataFile], rows: int) -> dict[str, ColumnStats]:
        """The statistics of each column, from the file that gives the column."""
        stats = {}
        for column in self._columns:
            giver = next((file for file in files if holds(file, column, self._schema_of)), None)
            if giver is None:
                stats[column.name] = ColumnStats(None, None, rows)
                continue
            found = self._stats(giver).get(column.name)
            if found is not None:
                stats[column.name] = found
        return stats

    def _stats(self, file: DataFile) -> dict[str, ColumnStats]:
        layout = (file.schema_id, file.write_cols, file.value_stats_cols)
        if layout not in self._recipes:
            self._recipes[layout] = self._recipe(file)
        recipe = self._recipes[layout]
        if recipe is None:
            return {}
        stats = {name: ColumnStats(None, None, file.row_count) for name in recipe.absent}
        try:
            for name, position in recipe.places:
                found = decode_column_stats(file.value_stats, position, recipe.fields, file.file_name)
                is_filled_up = format_of(file.file_name) == "orc" and root_of(recipe.fields[position].type) == "CHAR"
                stats[name] = replace(found, min=_least_unfilled(found.min)) if is_filled_up else found
        except TableCorrupt:
            pass  # statistics in a form that is not understood count as unknown
        return stats

    def _recipe(self, file: DataFile) -> _Recipe | None:
        written = self._schema_of(file.schema_id)
        fields = file_stats_fields(written.fields, file.write_cols, file.value_stats_cols)
        by_id = {f.id: f for f in written.fields}
        absent = tuple(f.name for f in self._columns if f.id not in by_id)
        places = []
        positions = {f.id: i for i, f in enumerate(fields)} if fields is not None else {}
        for field in self._columns:
            position = positions.get(field.id)
            if position is not None and same_bounds(by_id[field.id].type, field.type):
                places.append((field.name, position))
        return _Recipe(fields or [], tuple(places), absent)
