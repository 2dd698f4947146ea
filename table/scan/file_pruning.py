"""Which data files cannot hold a row that a predicate keeps, across the schemas that they were written with.

Owns: the way from a manifest entry to the statistics of the predicate's columns. Must not know: stores, splits.
Source: format/statistics §1, §3. Invariants: a file with a matching row is never dropped; statistics belong to a
column by field id, not by name; what is unknown, odd or damaged in them keeps the file, for rows can be read without;
the lower bound of a CHAR in ORC loses the blanks that values are filled up with there, and are read without.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ...core.errors import TableCorrupt
from ...core.metadata.data_file import DataFile, ManifestEntry
from ...core.metadata.schema import TableSchema
from ...core.paths import format_of
from ...core.predicates.predicate import Predicate, columns_of
from ...core.rows.partition import PartitionCodec
from ...core.rows.types import Field
from ...core.rows.values import root_of
from ...core.statistics.collect import ColumnStats, decode_column_stats, file_stats_fields
from ...core.statistics.pruning import may_match
from ..projection.type_changes import same_bounds
from .row_runs import holds, row_count

_TRUSTED_FLOATS = ("parquet", "avro")
"""Formats in which Apache Paimon counts NaN among the bounds of FLOAT and DOUBLE; its ORC files leave it out."""

_Layout = tuple[int, tuple[str, ...] | None, tuple[str, ...] | None]


@dataclass(frozen=True, slots=True)
class _Recipe:
    """Where a layout of statistics has the predicate's columns.

    Attributes:
        fields: all columns of the statistics, in order.
        places: (column of the predicate, its position in `fields`).
        absent: columns that the file's schema lacks, so that they read as null.
    """

    fields: list[Field]
    places: tuple[tuple[str, int], ...]
    absent: tuple[str, ...]


def _least_unfilled(least: str | None) -> str | None:
    """Not above any value that, filled up with blanks, is not below `least`.

    >>> _least_unfilled("a  "), _least_unfilled("a\\tb"), _least_unfilled(None)
    ('a', 'a', None)
    """
    if least is None:
        return None
    below = next((i for i, character in enumerate(least) if character < " "), len(least))
    return least[:below].rstrip(" ")


class FilePruner:
    """Tests files against one predicate.

    Args:
        predicate: bound to the columns of `schema`.
        schema: the schema that is read.
        schema_of: any schema of the table by id.
        codec: the table's partitions.
    """

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
        """False only if no row of a file can match, or of a run of files (see `row_runs`), the newest first."""
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

    def _run_stats(self, files: Sequence[DataFile], rows: int) -> dict[str, ColumnStats]:
        """Of each column what the file says that gives it."""
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
            pass  # another writer's idea of statistics: they are unknown
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
