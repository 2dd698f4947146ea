"""Plan a read: take a snapshot's live files, leave out those that cannot hold a wanted row, and pack the rest into splits.

Owns: `plan_scan`, `ScanPlan`. Must not know: how files are read. Source: format/statistics §3; format/manifests §4.

Invariants: Planning reads only metadata. A DELETE is never dropped while its ADD is kept: entries are pruned by partition, which
both share, before ADDs and DELETEs are matched, and by statistics only afterwards. A plan counts the pruned files by reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...coordinator.history.timeline import Timeline
from ...core import options as opt
from ...core.errors import TableCorrupt
from ...core.expressions.binding import condition_of
from ...core.expressions.tree import Predicate, columns_of
from ...core.html_text import ShownAsText
from ...core.metadata.data_file import DataFile, ManifestEntry
from ...core.metadata.folding import live
from ...core.metadata.manifest import ManifestFile
from ...core.metadata.schema import TableSchema
from ...core.metadata.schemas.merge_rules import MergeRules, merge_rules
from ...core.metadata.snapshot import Snapshot
from ...core.paths import DEFAULT_BRANCH
from ...core.places import codec_of
from ...core.rows.partition import PartitionCodec
from ...core.rows.types import Field
from ...core.statistics.pruning import may_match_range, split_predicate
from .bucket_pruning import BucketPruner
from .column_splits import ColumnSplits
from .entry_pruning import wanted_entries
from .fallback import fallback_of, other_branch
from .file_pruning import FilePruner
from .index_pruning import IndexPruner
from .key_pruning import is_visible, left_by_bounds, left_by_indexes, visible
from .merged_buckets import merged_buckets, told
from .refusals import check_files_readable, check_schema_readable
from .row_runs import givers, is_blob, row_runs
from .split import Split
from .split_planning import SplitPlanner


@dataclass(frozen=True)
class ScanPlan(ShownAsText):
    """The files that a read opens, and why it leaves out the others.

    Attributes:
        snapshot: the snapshot that is read; None for a table without one.
        schema_id: the schema that rows are read as.
        splits: the files to read, packed for tasks. Those of many plain files become objects when the first is looked at.
        where: the bound predicate; None for all rows.
        residual: the part of the predicate that each row must be tested for; None if choosing the partitions was enough.
        manifests_considered: the number of manifests of the snapshot.
        manifests_read: the number of manifests that were not ruled out by their partition statistics.
        files_considered: the number of live files in the manifests that were read.
        files_pruned_by_partition: how many of these are in other partitions.
        files_pruned_by_bucket: how many are in buckets that cannot hold a wanted key.
        files_pruned_by_statistics: how many are ruled out by their column statistics.
        files_pruned_by_index: how many are ruled out by an index in the manifest. One beside a file is used when that is read.
        unseen: files with rows that batch reads do not see before a compaction, apart from those that the filter rules out.
    """

    snapshot: Snapshot | None
    schema_id: int
    splits: Sequence[Split] = ()
    where: Predicate | None = None
    residual: Predicate | None = None
    manifests_considered: int = 0
    manifests_read: int = 0
    files_considered: int = 0
    files_pruned_by_partition: int = 0
    files_pruned_by_bucket: int = 0
    files_pruned_by_statistics: int = 0
    files_pruned_by_index: int = 0
    unseen: tuple[ManifestEntry, ...] = ()

    @property
    def file_count(self) -> int:
        """The number of files to read."""
        if isinstance(self.splits, ColumnSplits):
            return self.splits.file_count
        return sum(len(s.files) for s in self.splits)

    @property
    def row_count(self) -> int:
        """The number of rows in these files, including deleted rows, before `residual` is tested."""
        if isinstance(self.splits, ColumnSplits):
            return self.splits.row_count
        return sum(s.row_count for s in self.splits)

    @property
    def size(self) -> int:
        """The bytes of these files."""
        if isinstance(self.splits, ColumnSplits):
            return self.splits.size
        return sum(s.size for s in self.splits)

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain values, with stable keys."""
        return {
            "snapshot_id": None if self.snapshot is None else self.snapshot.id,
            "schema_id": self.schema_id,
            "where": None if self.where is None else str(self.where),
            "residual": None if self.residual is None else str(self.residual),
            "manifests_considered": self.manifests_considered,
            "manifests_read": self.manifests_read,
            "files_considered": self.files_considered,
            "files_pruned_by_partition": self.files_pruned_by_partition,
            "files_pruned_by_bucket": self.files_pruned_by_bucket,
            "files_pruned_by_statistics": self.files_pruned_by_statistics,
            "files_pruned_by_index": self.files_pruned_by_index,
            "files": self.file_count,
            "row_count": self.row_count,
            "size": self.size,
            "merged_buckets": [bucket.to_dict() for bucket in merged_buckets(self.splits)],
            "splits": [s.to_dict() for s in self.splits],
        }

    def explain(self) -> str:
        """The plan as text, with one fact per line."""
        if self.snapshot is None:
            return "the table has no snapshot yet: nothing to read"
        lines = [
            f"snapshot   {self.snapshot.id}, read as schema {self.schema_id}",
            f"where      {'all rows' if self.where is None else self.where}",
            f"manifests  {self.manifests_read} read of {self.manifests_considered}"
            + _because(self.manifests_considered - self.manifests_read, "by their partition statistics"),
            f"files      {self.file_count} to read of {self.files_considered}"
            + _because(self.files_pruned_by_partition, "by partition")
            + _because(self.files_pruned_by_bucket, "by bucket")
            + _because(self.files_pruned_by_statistics, "by column statistics")
            + _because(self.files_pruned_by_index, "by file index"),
            f"splits     {len(self.splits)}, {self.row_count} rows, {self.size} bytes",
        ]
        if self.residual is not None:
            lines.append(f"each row   is tested for: {self.residual}")
        special = () if isinstance(self.splits, ColumnSplits) else self.splits
        reasons = sorted({reason for s in special for reason in s.needs_arrow})
        sections = [run for s in special for run in s.sections]
        if sections:
            merged = sum(map(len, sections))
            lines.append(
                f"merged     {merged} files in {len(sections)} sections by primary key;"
                f" {self.file_count - merged} files are read as they are"
            )
            lines.extend(told(merged_buckets(self.splits)))
        lines.extend(f"arrow      {reason}" for reason in reasons)
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.explain()


_COUNTS = (
    "manifests_considered",
    "manifests_read",
    "files_considered",
    "files_pruned_by_partition",
    "files_pruned_by_bucket",
    "files_pruned_by_statistics",
    "files_pruned_by_index",
)


def _because(count: int, why: str) -> str:
    return f"; {count} ruled out {why}" if count else ""


def plan_scan(
    timeline: Timeline,
    snapshot: Snapshot | None,
    schema: TableSchema,
    where: Predicate | str | None,
    columns: Sequence[str] | None = None,
    as_of_ms: int | None = None,
) -> ScanPlan:
    """Plan the read of a snapshot.

    Partitions that it lacks may be read from another branch (option `scan.fallback-branch`), or those that another branch has
    (option `scan.primary-branch`).

    Args:
        snapshot: the snapshot to read; None for a table without one, which has no rows.
        schema: the schema to read it as: the snapshot's schema, or the table's latest.
        where: a condition, bound or not, or SQL text, that keeps the rows for which it is true; None keeps all.
        columns: the columns that are read. Files that hold none of them are left out. None for all columns.
        as_of_ms: the time at which the other branch is read, in milliseconds since 1970; None for now.

    Raises:
        Unsupported: the table or a file to be read uses a feature that is not supported; names the feature and the option.
    """
    check_schema_readable(schema)
    bound = condition_of(where, schema.fields)
    option = other_branch(schema)
    if option is None or timeline.paths.branch != DEFAULT_BRANCH:
        return _plan_branch(timeline, snapshot, schema, bound, columns, None)[0]
    branch, found = fallback_of(timeline, option, schema, as_of_ms)
    if option is opt.PRIMARY_BRANCH:
        more, partitions = _plan_branch(branch, found, schema, bound, columns, frozenset(), stands_in=True)
        plan, _ = _plan_branch(timeline, snapshot, schema, bound, columns, partitions)
        splits = (*more.splits, *plan.splits)
    else:
        plan, partitions = _plan_branch(timeline, snapshot, schema, bound, columns, frozenset())
        more, _ = _plan_branch(branch, found, schema, bound, columns, partitions, stands_in=True)
        splits = (*plan.splits, *more.splits)
    counts = {name: getattr(plan, name) + getattr(more, name) for name in _COUNTS}
    return replace(plan, splits=splits, **counts)


def _plan_branch(
    timeline: Timeline,
    snapshot: Snapshot | None,
    schema: TableSchema,
    bound: Predicate | None,
    columns: Sequence[str] | None,
    without: frozenset[bytes] | None,
    stands_in: bool = False,
) -> tuple[ScanPlan, frozenset[bytes]]:
    """The plan of one branch, and the partitions that it has.

    Args:
        without: partitions that are left out; None if the branch's partitions are not needed, so that files may be pruned early.
        stands_in: `schema` belongs to another branch, whose schemas are numbered separately.
    """
    if snapshot is None:
        return ScanPlan(None, schema.id, where=bound), frozenset()
    codec = codec_of(schema)
    on_partition, residual = (None, None) if bound is None else split_predicate(bound, schema.partition_keys)

    def schema_of(schema_id: int) -> TableSchema:
        if schema_id == schema.id and not stands_in:
            return schema
        return timeline.schema(schema_id, f"a data file of {timeline.file_of(snapshot)}")

    manifests = timeline.manifests(snapshot)
    readable = [m for m in manifests if on_partition is None or may_hold(m, on_partition, codec)]
    # The columns of a row may be in several files, each with statistics for some of them. Such files are pruned only together.
    bounds = None if schema.options.get(opt.DATA_EVOLUTION) or without is not None else residual
    rules = merge_rules(schema)
    if rules is not None and bounds is not None:
        bounds, _ = split_predicate(bounds, rules.key_names)
    found = wanted_entries(timeline.entry_parts(readable), on_partition, bounds, schema, schema_of, codec)
    index = timeline.index_entries(snapshot)
    planner = SplitPlanner(schema, schema_of, index, timeline.paths.branch, timeline.file_of(snapshot))
    of_columns = planner.plain_splits(found.parts) if residual is None and without is None else None
    if of_columns is not None:
        whole = ScanPlan(snapshot, schema.id, of_columns, bound, None, len(manifests), len(readable))
        considered = of_columns.file_count + found.of_other_partitions
        return replace(
            whole, files_considered=considered, files_pruned_by_partition=found.of_other_partitions
        ), frozenset()
    alive = [entry for entry in live(found.entries()) if not without or entry.partition not in without]
    unseen: tuple[ManifestEntry, ...] = ()
    if rules is not None:
        unseen = tuple(e for e in alive if not is_visible(e, rules))
        alive = visible(alive, rules) if unseen else alive
    in_bucket, by_bounds, kept = _pruned(alive, residual, schema, schema_of, rules)
    pruned_by_index = len(by_bounds) - len(kept)
    if columns is not None and schema.options.get(opt.DATA_EVOLUTION):
        tested = frozenset() if residual is None else columns_of(residual)
        wanted = [f for f in schema.fields if f.name in columns or f.name in tested]
        kept = [e for run in runs_of(kept, schema) for e in _giving(run, wanted, schema_of)]
    check_files_readable(schema, kept)
    plan = ScanPlan(
        snapshot,
        schema.id,
        splits=planner.splits(kept),
        where=bound,
        residual=residual,
        manifests_considered=len(manifests),
        manifests_read=len(readable),
        files_considered=len(alive) + found.of_other_partitions + found.ruled_out,
        files_pruned_by_partition=found.of_other_partitions,
        files_pruned_by_bucket=len(alive) - len(in_bucket),
        files_pruned_by_statistics=len(in_bucket) - len(kept) - pruned_by_index + found.ruled_out,
        files_pruned_by_index=pruned_by_index,
        unseen=unseen,
    )
    return plan, frozenset(entry.partition for entry in alive)


def _pruned(
    alive: list[ManifestEntry],
    residual: Predicate | None,
    schema: TableSchema,
    schema_of: Callable[[int], TableSchema],
    rules: MergeRules | None,
) -> tuple[list[ManifestEntry], list[ManifestEntry], list[ManifestEntry]]:
    """The files that may hold wanted rows: by their bucket, then by their statistics too, then by their indexes too."""
    if residual is None:
        return alive, alive, alive
    codec = codec_of(schema)
    buckets = BucketPruner(residual, schema, schema_of)
    in_bucket = [e for e in alive if buckets.may_match(e)]
    pruner = FilePruner(residual, schema, schema_of, codec)
    indexes = IndexPruner.of(residual, schema, schema_of)
    if rules is None:
        by_bounds = [e for run in runs_of(in_bucket, schema) if pruner.may_match(*run) for e in run]
        return in_bucket, by_bounds, _left_by_indexes(by_bounds, schema, indexes)
    on_keys, _ = split_predicate(residual, rules.key_names)
    of_keys = None if on_keys is None else FilePruner(on_keys, schema, schema_of, codec)
    by_bounds = left_by_bounds(in_bucket, rules, of_keys, pruner)
    return in_bucket, by_bounds, left_by_indexes(by_bounds, rules, indexes)


def _left_by_indexes(
    entries: list[ManifestEntry], schema: TableSchema, pruner: IndexPruner | None
) -> list[ManifestEntry]:
    """The files that the indexes in the manifest do not rule out. In a run of several files, no index is used."""
    if pruner is None or all(entry.file.embedded_file_index is None for entry in entries):
        return entries
    runs = runs_of(entries, schema)
    return [e for run in runs if len(run) > 1 or pruner.may_match(run[0].file) for e in run]


def runs_of(entries: Sequence[ManifestEntry], schema: TableSchema) -> Iterable[Sequence[ManifestEntry]]:
    """Group files that hold columns of the same rows. In most tables each file has its own rows."""
    if not schema.options.get(opt.DATA_EVOLUTION):
        return ((entry,) for entry in entries)
    buckets: dict[tuple[bytes, int], dict[DataFile, ManifestEntry]] = {}
    for entry in entries:
        buckets.setdefault((entry.partition, entry.bucket), {})[entry.file] = entry
    return [[by_file[f] for f in run] for by_file in buckets.values() for run in row_runs(by_file)]


def _giving(
    run: Sequence[ManifestEntry], fields: Sequence[Field], schema_of: Callable[[int], TableSchema]
) -> list[ManifestEntry]:
    """The files of a run that give a column. Files of BLOBs alone do not say which rows there are: the first is kept, too."""
    given = givers([entry.file for entry in run], fields, schema_of)
    kept = [entry for entry in run if given.get(entry.file)]
    return kept if any(not is_blob(entry.file) for entry in kept) else [run[0], *kept]


def count_rows(plan: ScanPlan) -> int | None:
    """The number of rows of a plan, from metadata alone; None if rows or deletion vectors must be read to know it."""
    if plan.residual is not None:
        return None
    if isinstance(plan.splits, ColumnSplits):
        return plan.splits.row_count
    rows = [split.live_rows(run) for split in plan.splits for run in split.runs]
    return None if None in rows else sum(n for n in rows if n is not None)


def may_hold(manifest: ManifestFile, predicate: Predicate, codec: PartitionCodec) -> bool:
    """May a manifest name files of the partitions that a predicate chooses?"""
    count = manifest.num_added_files + manifest.num_deleted_files
    try:
        return may_match_range(predicate, manifest.partition_stats, codec.fields, count, manifest.file_name)
    except TableCorrupt:
        return True  # statistics of another shape are ignored; the entries decide
