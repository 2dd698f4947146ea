"""Choose the files that are rewritten together: the small files of an append table; for tables with a primary key see `key_plan`.

Owns: `CompactionPlan`, the choice and packing of files. Must not know: how files are rewritten or committed.
Source: format/deletion-vectors §2; format/data-files §6. Invariants: The files of a group are of one (partition, bucket) and of
one level. If the bucket keeps the order of its rows, they are adjacent in it. Files that Apache Paimon has clustered stay as they
are, unless many of their rows are deleted. Planning reads only metadata.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_, or_
from typing import Any

from ...coordinator.history.timeline import Timeline
from ...core import arguments
from ...core import options as opt
from ...core.errors import InvalidArgument, Unsupported
from ...core.expressions.binding import condition_of
from ...core.expressions.columns import col
from ...core.expressions.tree import Predicate
from ...core.html_text import ShownAsText
from ...core.metadata.data_file import DataFile, IndexEntry
from ...core.metadata.schema import TableSchema
from ...core.metadata.schemas.merge_rules import POSTPONED
from ...core.metadata.snapshot import Snapshot
from ...core.places import codec_of
from ...core.statistics.pruning import split_predicate
from ..scan.fallback import alone
from ..scan.plan import plan_scan
from ..scan.split import Split
from ..writing.files.data_writer import DEFAULT_TARGET_BYTES, KEY_TABLE_TARGET_BYTES
from ..writing.writer import check_writable
from .key_plan import BucketCompaction, bucket_compactions, check_key_compactable, live_files

FEWEST_FILES = 2


@dataclass(frozen=True)
class CompactionPlan(ShownAsText):
    """The files that a compaction would rewrite.

    Attributes:
        snapshot: the snapshot of these files; None for a table without one.
        target_bytes: the size of new files.
        groups: the files that are rewritten together, usually into one file; each group is of one (partition, bucket).
        files_considered: the number of live files in the chosen partitions.
        index: the snapshot's live index files.
    """

    snapshot: Snapshot | None
    target_bytes: int
    groups: tuple[Split, ...] = ()
    files_considered: int = 0
    index: tuple[IndexEntry, ...] = ()

    @property
    def file_count(self) -> int:
        """The number of files to rewrite."""
        return sum(len(group.files) for group in self.groups)

    @property
    def row_count(self) -> int:
        """The number of rows in these files, including deleted rows."""
        return sum(group.row_count for group in self.groups)

    @property
    def size(self) -> int:
        """The bytes of these files."""
        return sum(group.size for group in self.groups)

    @property
    def without_postponed(self) -> CompactionPlan:
        """The plan for real buckets alone."""
        return replace(self, groups=tuple(group for group in self.groups if group.bucket != POSTPONED))

    @property
    def partition_count(self) -> int:
        return len({group.partition for group in self.groups})

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain values, with stable keys."""
        return {
            "snapshot_id": None if self.snapshot is None else self.snapshot.id,
            "target_size": self.target_bytes,
            "files_considered": self.files_considered,
            "files": self.file_count,
            "row_count": self.row_count,
            "size": self.size,
            "groups": [group_to_dict(group) for group in self.groups],
        }

    def __str__(self) -> str:
        if not self.groups:
            return f"nothing to compact: {self.files_considered} files"
        if isinstance(self.groups[0], BucketCompaction):
            rules = ", ".join(sorted({group.why for group in self.groups if isinstance(group, BucketCompaction)}))
            return (
                f"{self.file_count} of {self.files_considered} files in {len(self.groups)} buckets, {self.row_count} rows"
                f" in {self.size} bytes, are merged ({rules})"
            )
        partitions = f" of {self.partition_count} partitions" if self.groups[0].partition_path else ""
        return (
            f"{self.file_count} of {self.files_considered} files{partitions}, {self.row_count} rows in {self.size} bytes,"
            f" become about {len(self.groups)}"
        )


def group_to_dict(group: Split) -> dict[str, Any]:
    told = group.to_dict()
    shown = {key: told[key] for key in ("partition", "bucket", "files", "row_count", "size", "deletion_vectors")}
    if isinstance(group, BucketCompaction):
        shown |= {"output_level": group.output_level, "reason": group.why}
    return shown


def plan_compaction(
    timeline: Timeline,
    schema: TableSchema,
    where: Predicate | str | None = None,
    target_size: int | str | None = None,
    min_files: int | None = None,
    full: bool = False,
) -> CompactionPlan:
    """Choose the files to rewrite. Arguments and errors are those of `Table.compact`; `schema` is the newest one."""
    if schema.primary_keys:
        return _plan_keyed(timeline, schema, where, target_bytes_of(schema, target_size), min_files, full)
    check_compactable(schema)
    target = target_bytes_of(schema, target_size)
    fewest = schema.options.get(opt.COMPACTION_MIN_FILES) if min_files is None else min_files
    arguments.whole_number(fewest, "min_files", FEWEST_FILES)
    fewest = FEWEST_FILES if full else fewest
    snapshot = timeline.latest()
    scan = plan_scan(timeline, snapshot, alone(schema), where)
    _refuse_rows(scan.residual, schema)
    if snapshot is None:
        return CompactionPlan(None, target)
    # Partitions of a fallback branch are only read here. They are compacted in the branch to which they belong.
    buckets = _buckets(split for split in scan.splits if split.branch == timeline.paths.branch)
    choice = _Choice(schema, target, fewest)
    groups = tuple(group for bucket in buckets for group in choice.groups(bucket))
    considered = sum(len(bucket.files) for bucket in buckets)
    return CompactionPlan(snapshot, target, groups, considered, tuple(timeline.index_entries(snapshot)))


def _plan_keyed(
    timeline: Timeline,
    schema: TableSchema,
    where: Predicate | str | None,
    target_bytes: int,
    min_files: int | None,
    full: bool,
) -> CompactionPlan:
    if min_files is not None:
        raise InvalidArgument(
            "min_files is for tables without a primary key",
            next_step=f"set option '{opt.RUNS_TO_COMPACT.key}', or use full=True",
        )
    check_key_compactable(schema)
    on_partition = chosen_partitions(where, schema)
    snapshot = timeline.latest()
    if snapshot is None:
        return CompactionPlan(None, target_bytes)
    entries, index = live_files(timeline, snapshot, schema, on_partition), tuple(timeline.index_entries(snapshot))
    groups = bucket_compactions(timeline, snapshot, schema, entries, index, full=full)
    return CompactionPlan(snapshot, target_bytes, tuple(groups), len(entries), index)


def chosen_partitions(where: Predicate | str | None, schema: TableSchema) -> Predicate | None:
    """The bound predicate on partition columns, or None for all partitions. Refuses a predicate that chooses rows."""
    bound = condition_of(where, schema.fields)
    if bound is None:
        return None
    on_partition, residual = split_predicate(bound, schema.partition_keys)
    _refuse_rows(residual, schema)
    return on_partition


def of_partitions(partitions: Sequence[Mapping[str, Any] | str], schema: TableSchema) -> Predicate:
    """A predicate that chooses some partitions, each named by some or all of its columns. Refuses a list that names none."""
    codec = codec_of(schema)
    specs = [
        codec.parse_spec(partition) for partition in arguments.listed(partitions, "partitions", "a list of partitions")
    ]
    if not specs or not all(specs):
        raise InvalidArgument("partitions names no partition column", next_step="leave it out to choose all partitions")
    chosen = [[col(n).is_null() if value is None else col(n) == value for n, value in spec.items()] for spec in specs]
    return reduce(or_, [reduce(and_, tests) for tests in chosen])


def _refuse_rows(residual: Predicate | None, schema: TableSchema) -> None:
    if residual is not None:
        raise InvalidArgument(
            f"a compaction rewrites whole partitions, but '{residual}' chooses rows",
            next_step=f"use partition columns only: {', '.join(schema.partition_keys) or 'this table has none'}",
        )


def check_compactable(schema: TableSchema) -> None:
    """Refuse append tables whose files cannot be rewritten. The error names the feature and the option."""
    check_writable(schema)
    if schema.options.get(opt.DATA_EVOLUTION):
        raise Unsupported(
            f"option '{opt.DATA_EVOLUTION.key}' = true: compacting files that hold columns of the same rows is not supported"
            " yet",
            next_step="compact the table with Apache Paimon",
        )


def target_bytes_of(schema: TableSchema, given: int | str | None = None) -> int:
    """The size of new files in bytes: the given one, else option `target-file-size`."""
    if given is None:
        default_bytes = KEY_TABLE_TARGET_BYTES if schema.primary_keys else DEFAULT_TARGET_BYTES
        return schema.options.get(opt.TARGET_FILE_SIZE) or default_bytes
    try:
        size = opt.parse_size(str(given))
    except ValueError as error:
        raise InvalidArgument(f"target_size: {error}") from error
    if size < 1:
        raise InvalidArgument("target_size is 0 bytes")
    return size


def _buckets(splits: Iterable[Split]) -> list[Split]:
    found: dict[tuple[bytes, int, int], list[Split]] = {}
    for split in splits:
        found.setdefault((split.partition, split.bucket, split.total_buckets), []).append(split)
    return [_joined(parts) for parts in found.values()]


def _joined(parts: Sequence[Split]) -> Split:
    return replace(
        parts[0],
        files=tuple(file for part in parts for file in part.files),
        keys=tuple(key for part in parts for key in part.keys),
        deletions=tuple(part.deletion(i) for part in parts for i in range(len(part.files))),
        needs_arrow=(),
    )


@dataclass(frozen=True)
class _Choice:
    schema: TableSchema
    target_bytes: int
    min_files: int

    def groups(self, bucket: Split) -> Iterator[Split]:
        """Runs of small files, in their order, each up to the target size. A level of clustered files is a sorted run."""
        levels = sorted({file.level for file in bucket.files})
        for level in levels:
            yield from self._of_level(_of(bucket, [i for i, f in enumerate(bucket.files) if f.level == level]))

    def _of_level(self, bucket: Split) -> Iterator[Split]:
        in_order = bucket.total_buckets > 0 and self.schema.options.get(opt.BUCKET_APPEND_ORDERED)
        run: list[int] = []
        size = 0
        for i in sorted(range(len(bucket.files)), key=lambda i: _age(bucket.files[i])):
            file_size = bucket.files[i].file_size
            if not self._is_small(bucket.files[i]) and not self._is_eroded(bucket, i):
                if in_order:  # files on both sides of a large file cannot be joined
                    yield from self._worth(bucket, run, self.min_files)
                    run, size = [], 0
                continue
            if size + file_size > self.target_bytes:
                yield from self._worth(bucket, run, FEWEST_FILES)
                run, size = [], 0
            run.append(i)
            size += file_size
        yield from self._worth(bucket, run, self.min_files)

    def _worth(self, bucket: Split, run: Sequence[int], fewest: int) -> Iterator[Split]:
        if len(run) >= fewest or any(self._is_eroded(bucket, i) for i in run):
            yield _of(bucket, run)

    def _is_small(self, file: DataFile) -> bool:
        is_clustered = file.level > 0
        return not is_clustered and file.file_size < self.target_bytes * self.schema.options.get(
            opt.COMPACTION_SMALL_RATIO
        )

    def _is_eroded(self, bucket: Split, index: int) -> bool:
        """Should the file be rewritten because many of its rows are deleted, or because their number is not known?"""
        place = bucket.deletion(index)
        if place is None:
            return False
        marked, rows = place.vector.cardinality, bucket.files[index].row_count
        return marked is None or marked > rows * self.schema.options.get(opt.COMPACTION_DELETE_RATIO)


def _of(bucket: Split, run: Sequence[int]) -> Split:
    deletions = tuple(bucket.deletion(i) for i in run)
    return replace(
        bucket,
        files=tuple(bucket.files[i] for i in run),
        keys=tuple(bucket.keys[i] for i in run),
        deletions=deletions if any(deletions) else (),
    )


def _age(file: DataFile) -> tuple[int, int, str]:
    """Sort by age: rows that were written together stay together, so that statistics rule out more files."""
    return file.min_sequence_number, file.creation_time or 0, file.file_name
