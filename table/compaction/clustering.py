"""Sort the rows of files, so that a filter on some columns opens few of them.

Owns: `plan_clustering`, `SortingRewriter`, `Clustering`, and how many files a filter opens. Must not know: orders (`curves`),
commits (`run`). Source: format/data-files §6; decision 60.

Invariants: Rows that are added meanwhile stay, because only the files of the plan are replaced. Files that were sorted once are
left alone, unless all files are asked for. The rows stay the same, and so do their row ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from ...coordinator.history.timeline import Timeline
from ...core import arguments
from ...core.errors import InvalidArgument, Unsupported
from ...core.expressions.tree import Comparison, Predicate
from ...core.html_text import ShownAsText
from ...core.metadata.data_file import ADD, DataFile, ManifestEntry
from ...core.metadata.schema import TableSchema
from ...core.places import codec_of
from ...core.rows.partition import closest
from ...core.rows.whole import one_batch, taken
from ..scan.file_pruning import FilePruner
from ..scan.plan import plan_scan
from ..scan.split import Split
from .curves import CURVES, MOST_COLUMNS, Curve, row_order
from .plan import CompactionPlan, check_compactable, chosen_partitions, target_bytes_of
from .rewrite import Rewriter
from .run import Compaction

MOST_BYTES = 256 << 20
"""The bytes of files whose rows are sorted together, in memory. Larger partitions are sorted in parts."""
SORTED_LEVEL = 5
"""The level of files that were sorted, as Apache Paimon's clustering has it; new files have level 0."""
_SAMPLES = 20


@dataclass(frozen=True)
class Clustering(ShownAsText):
    """What was sorted. Prints as text.

    Attributes:
        compaction: the files before and after, the receipts, and the groups that other commits changed first.
        opened_before, opened_after: for each column, how many files of the chosen partitions a filter on one value opened, and
            opens now; a mean over some values.
    """

    compaction: Compaction
    opened_before: dict[str, float] = field(default_factory=dict)
    opened_after: dict[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """As plain values, with stable keys."""
        return self.compaction.to_dict() | {"opened_before": self.opened_before, "opened_after": self.opened_after}

    def __str__(self) -> str:
        told = [
            f"a filter on {name} opens {self.opened_after[name]:.1f} files, before {before:.1f}"
            for name, before in self.opened_before.items()
            if name in self.opened_after
        ]
        return "; ".join([str(self.compaction), *told])


@dataclass(frozen=True)
class SortingRewriter(Rewriter):
    """Rewrites groups of files with their rows in another order: by the columns `by`, along `curve`."""

    by: tuple[str, ...] = ()
    curve: Curve = "order"

    def _rows(self, group: Split) -> Iterable[pa.RecordBatch]:
        schema = self._reader.arrow_schema
        rows = one_batch(list(self._reader.batches(self.store, [group])), schema)
        yield from taken(rows, row_order(rows.select(list(self.by)), self.by, self.curve), schema)

    def _described(self, files: Iterable[DataFile], oldest: DataFile) -> Iterable[DataFile]:
        return (file._replace(level=SORTED_LEVEL) for file in super()._described(files, oldest))


def plan_clustering(
    timeline: Timeline,
    schema: TableSchema,
    by: Sequence[str],
    curve: str,
    where: Predicate | str | None,
    full: bool,
    target_size: int | str | None,
) -> CompactionPlan:
    """Choose the files to sort.

    Raises:
        Unsupported: the table's rows have an order of their own, or its files hold columns of the same rows.
        InvalidArgument: there is no such column or order.
    """
    if curve not in CURVES:
        raise InvalidArgument(f"curve {curve!r}: use one of {', '.join(CURVES)}")
    if isinstance(by, str) or not (by := arguments.names(by, "by")):
        raise InvalidArgument(f"by is {by!r}", next_step="give a list of columns")
    if curve != "order" and len(by) > MOST_COLUMNS:
        raise InvalidArgument(
            f"rows are sorted along a curve by at most {MOST_COLUMNS} columns, and by names {len(by)}",
            next_step="name the few that filters use, or pass curve='order'",
        )
    for name in by:
        if name not in schema.by_name:
            raise InvalidArgument(f"there is no column '{name}'", next_step=closest(str(name), schema.names))
        if name in schema.partition_keys:
            raise InvalidArgument(f"column '{name}' is a partition column: a file has only one value of it")
    if schema.primary_keys or schema.bucket > 0:
        what = (
            "a primary key, by which its rows are sorted" if schema.primary_keys else "buckets, which keep their order"
        )
        raise Unsupported(f"the table has {what}", next_step="use compact()")
    check_compactable(schema)
    target = target_bytes_of(schema, target_size)
    chosen = chosen_partitions(where, schema)
    snapshot = timeline.latest()
    if snapshot is None:
        return CompactionPlan(None, target)
    parts: dict[bytes, list[Split]] = {}
    considered = 0
    for split in plan_scan(timeline, snapshot, schema, chosen).splits:
        if split.branch == timeline.paths.branch:
            considered += len(split.files)
            parts.setdefault(split.partition, []).append(split)
    groups = tuple(group for splits in parts.values() for group in _groups(splits, full))
    return CompactionPlan(snapshot, target, groups, considered, tuple(timeline.index_entries(snapshot)))


def _groups(splits: Sequence[Split], full: bool) -> Iterable[Split]:
    places = [(split, i) for split in splits for i in range(len(split.files)) if full or not split.files[i].level]
    group: list[tuple[Split, int]] = []
    for place in places:
        size = sum(split.files[i].file_size for split, i in group)
        if group and size + place[0].files[place[1]].file_size > MOST_BYTES:
            yield _joined(group)
            group = []
        group.append(place)
    if group:
        yield _joined(group)


def _joined(places: Sequence[tuple[Split, int]]) -> Split:
    places = sorted(places, key=lambda p: (p[0].files[p[1]].min_sequence_number, p[0].files[p[1]].file_name))
    deletions = tuple(split.deletion(i) for split, i in places)
    return replace(
        places[0][0],
        files=tuple(split.files[i] for split, i in places),
        keys=tuple(split.keys[i] for split, i in places),
        deletions=deletions if any(deletions) else (),
        needs_arrow=(),
    )


def opened(
    timeline: Timeline, schema: TableSchema, by: Sequence[str], where: Predicate | str | None
) -> dict[str, float]:
    """How many files a filter on one value of a column opens: the mean over the lower bounds of some files."""
    snapshot = timeline.latest()
    scan = plan_scan(timeline, snapshot, schema, chosen_partitions(where, schema))
    entries = [
        ManifestEntry(ADD, split.partition, split.bucket, split.total_buckets, file)
        for split in scan.splits
        for file in split.files
    ]
    found = {}
    for name in by:
        values = _values(entries, schema, timeline, name)
        counts = [_matching(entries, schema, timeline, name, value) for value in values]
        if counts:
            found[name] = sum(counts) / len(counts)
    return found


def _values(entries: Sequence[ManifestEntry], schema: TableSchema, timeline: Timeline, name: str) -> list[Any]:
    pruner = FilePruner(Comparison("is_null", name), schema, _schema_of(schema, timeline), codec_of(schema))
    step = max(len(entries) // _SAMPLES, 1)
    least = [pruner.least(entry.file, name) for entry in entries[::step]]
    return [value for value in least if value is not None]


def _matching(entries: Sequence[ManifestEntry], schema: TableSchema, timeline: Timeline, name: str, value: Any) -> int:
    predicate = Comparison("=", name, (value,))
    pruner = FilePruner(predicate, schema, _schema_of(schema, timeline), codec_of(schema))
    return sum(pruner.may_match(entry) for entry in entries)


def _schema_of(schema: TableSchema, timeline: Timeline) -> Callable[[int], TableSchema]:
    return lambda schema_id: schema if schema_id == schema.id else timeline.schema(schema_id)
