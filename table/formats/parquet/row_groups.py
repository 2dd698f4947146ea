"""Skip the row groups of a Parquet file that cannot hold a wanted row, by the statistics in its footer.

Owns: converting footer statistics to the form of `core.statistics`. Must not know: stores, manifests.
Source: format/statistics §3. Invariants: No matching row is lost. Only types are used whose footer bounds are exact for every
writer (integers, DATE, text).
"""

from __future__ import annotations

from typing import Any

from ....core.expressions.tree import Predicate, columns_of
from ....core.rows.types import INTEGER_ROOTS, STRING_ROOTS
from ....core.statistics.collect import ColumnStats
from ....core.statistics.pruning import may_match
from ...projection.plan import Atomic, ProjectionPlan
from ...projection.type_changes import same_bounds

_EXACT = frozenset((*INTEGER_ROOTS, *STRING_ROOTS, "DATE"))


def wanted_row_groups(metadata: Any, projection: ProjectionPlan, predicate: Predicate) -> list[int] | None:
    """The row groups that can hold a matching row; None for all of them. The projection has the predicate's columns."""
    if metadata.num_row_groups < 2:
        return None  # the manifest's statistics have the same information
    places = bounded_columns(metadata, projection, predicate)
    if not places:
        return None
    kept = []
    for group in range(metadata.num_row_groups):
        footer = metadata.row_group(group)
        stats = {name: _stats(footer.column(i)) for i, name in places}
        if may_match(predicate, stats, footer.num_rows):
            kept.append(group)
    return kept


def bounded_columns(metadata: Any, projection: ProjectionPlan, predicate: Predicate) -> list[tuple[int, str]]:
    """The columns of a predicate whose bounds are exact: which leaf of the file, and its name in the predicate."""
    looked_at = columns_of(predicate)
    sources = {
        column.source: column.field.name
        for column in projection.columns
        if column.field.name in looked_at
        and isinstance(column.node, Atomic)
        and column.node.source.root in _EXACT
        and same_bounds(column.node.source, column.node.target)
    }
    if not sources:
        return []
    columns = [metadata.schema.column(i) for i in range(metadata.num_columns)]
    # The path "a.b" can be field b of a ROW a, or a column of that name.
    return [(i, sources[c.name]) for i, c in enumerate(columns) if c.name in sources and c.name == c.path]


def _stats(chunk: Any) -> ColumnStats:
    statistics = chunk.statistics if chunk.is_stats_set else None
    if statistics is None:
        return ColumnStats()
    null_count = statistics.null_count if statistics.has_null_count else None
    if not statistics.has_min_max:
        return ColumnStats(null_count=null_count)
    low, high = statistics.min, statistics.max
    if isinstance(low, bytes):  # text without its annotation
        return ColumnStats(null_count=null_count)
    return ColumnStats(low, high, null_count)
