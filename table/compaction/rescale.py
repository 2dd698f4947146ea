"""Rewrite the partitions of a table with a primary key that have another number of buckets than option `bucket` says.

Owns: `plan_rescale`, `rescale`. Must not know: how rows are merged, how an overwrite is settled.
Source: format/primary-keys §7; format/binary-row §5; H13; decision 42.
Invariants: A partition is replaced by one commit. Its rows keep their sequence numbers, and each new bucket is one sorted run in
the last level. Whatever other writers change in the partition meanwhile is a conflict, after which it is read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from ...coordinator.commit.committer import Committer, new_commit_user
from ...coordinator.commit.message import CommitMessage, entries_of
from ...coordinator.commit.receipt import Receipt
from ...coordinator.commit.request import CommitRequest, Remarks
from ...coordinator.history.timeline import Timeline
from ...coordinator.maintenance.deletion import Progress
from ...coordinator.surroundings import MACHINE
from ...core import options as opt
from ...core.errors import CommitConflict, InvalidArgument, Unsupported
from ...core.expressions.tree import Predicate
from ...core.html_text import ShownAsText
from ...core.metadata.data_file import SOURCE_COMPACT, IndexEntry, ManifestEntry
from ...core.metadata.schema import TableSchema
from ...core.metadata.schemas.merge_rules import POSTPONED
from ...core.metadata.snapshot import Snapshot
from ...core.metadata.sorted_runs.levels import level_count
from ...core.paths import TablePaths
from ..merging.sections import sections_of
from ..reading.key_rows import KeyRowReader
from ..scan.fallback import file_schemas_of
from ..scan.split import Split
from ..scan.split_planning import SplitPlanner
from ..writing.buckets.placement import bucket_function
from ..writing.files.key_files import KeyFileSettings, KeyFileWriter
from ..writing.unfinished import Unfinished, unfinished
from .key_plan import check_key_compactable, live_files

MOST_ATTEMPTS = 20
"""How often a partition is read again because other writers changed it."""


@dataclass(frozen=True)
class RescalePlan(ShownAsText):
    """The partitions that a rescale would rewrite.

    Attributes:
        bucket_count: the number of buckets that each of them gets.
        partitions: one for each, with the files of all of its buckets, and the number of buckets that it has now.
    """

    bucket_count: int
    partitions: tuple[Split, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain values, with stable keys. Sizes are in bytes; rows are counted as they are stored."""
        return {
            "buckets": self.bucket_count,
            "partitions": [
                {
                    "partition": split.partition_path,
                    "buckets_before": split.total_buckets,
                    "files": len(split.files),
                    "row_count": split.row_count,
                    "size": split.size,
                }
                for split in self.partitions
            ],
        }

    def __str__(self) -> str:
        if not self.partitions:
            return f"nothing to rescale: no partition has another number of buckets than {self.bucket_count}"
        files, size = sum(len(s.files) for s in self.partitions), sum(s.size for s in self.partitions)
        return (
            f"{files} files of {len(self.partitions)} partitions, {size} bytes, go to {self.bucket_count} buckets each"
        )


def plan_rescale(
    committer: Committer, timeline: Timeline, schema: TableSchema, on_partition: Predicate | None
) -> RescalePlan:
    """What `rescale` with the same arguments would rewrite. Raises as it does, but for conflicts. Changes nothing."""
    _check_rescalable(schema)
    found = _Rescaling(committer, timeline, schema).partitions(timeline.latest(), on_partition)
    return RescalePlan(schema.bucket, tuple(found))


def rescale(
    committer: Committer,
    timeline: Timeline,
    schema: TableSchema,
    on_partition: Predicate | None,
    progress: Progress | None = None,
) -> list[Receipt]:
    """Give every partition as many buckets as option `bucket` says; see `Table.rescale`.

    After a `CommitConflict` the partitions before that one stay rescaled.
    """
    plan = plan_rescale(committer, timeline, schema, on_partition)
    work, receipts = _Rescaling(committer, timeline, schema), []
    for done, split in enumerate(plan.partitions):
        receipt = work.rescaled(split.partition)
        receipts += [receipt] if receipt is not None else []
        if progress is not None:
            progress(done + 1, len(plan.partitions))
    return receipts


def _check_rescalable(schema: TableSchema) -> None:
    if not schema.primary_keys:
        raise Unsupported(
            "rescaling the buckets of a table without a primary key is not supported",
            next_step="overwrite its partitions with their own rows",
        )
    if schema.bucket < 1:
        raise InvalidArgument(
            f"option '{opt.BUCKET.key}' = {schema.bucket}: only fixed buckets have a number",
            next_step=f"set option '{opt.BUCKET.key}' to the number of buckets",
        )
    check_key_compactable(schema)


@dataclass(frozen=True)
class _Rescaling:
    committer: Committer
    timeline: Timeline
    schema: TableSchema

    @cached_property
    def _user(self) -> str:
        return new_commit_user(self.schema)

    def partitions(self, snapshot: Snapshot | None, on_partition: Predicate | None) -> list[Split]:
        """The partitions that have files of another number of buckets, each with the files of all its buckets."""
        if snapshot is None:
            return []
        entries = live_files(self.timeline, snapshot, self.schema, on_partition)
        entries = [e for e in entries if e.bucket != POSTPONED]
        other = {e.partition for e in entries if e.total_buckets != self.schema.bucket}
        index = self.timeline.index_entries(snapshot)
        return self._joined(snapshot, [e for e in entries if e.partition in other], index)

    def _joined(self, snapshot: Snapshot, entries: Iterable[ManifestEntry], index: Sequence[IndexEntry]) -> list[Split]:
        named_by = self.timeline.file_of(snapshot)

        def schema_of(schema_id: int) -> TableSchema:
            return self.schema if schema_id == self.schema.id else self.timeline.schema(schema_id, named_by)

        planner = SplitPlanner(self.schema, schema_of, index, self.timeline.paths.branch, named_by)
        found: dict[bytes, Split] = {}
        for bucket in planner.whole_buckets(entries):
            known = found.get(bucket.partition)
            found[bucket.partition] = bucket if known is None else _both(known, bucket)
        return list(found.values())

    def rescaled(self, partition: bytes) -> Receipt | None:
        """Rewrite one partition; None if another writer has done so."""
        for attempt in range(1, MOST_ATTEMPTS + 1):
            snapshot = self.timeline.latest()
            split = next((s for s in self.partitions(snapshot, None) if s.partition == partition), None)
            if split is None:
                return None
            try:
                return self._replace(split, snapshot)
            except CommitConflict as error:
                if attempt == MOST_ATTEMPTS:
                    error.message += f"; the partition was read {attempt} times, and others changed it each time"
                    raise
        raise AssertionError("unreachable")

    def _replace(self, split: Split, snapshot: Snapshot | None) -> Receipt:
        with unfinished(self.committer.store) as made:
            messages = _Buckets(self.committer, self.timeline, self.schema, split, made).messages()
            request = CommitRequest(
                kind="OVERWRITE",
                entries=entries_of(messages),
                commit_user=self._user,
                target=lambda found: found == split.partition,
                read_snapshot=snapshot,
                isolation="serializable",
                remarks=Remarks("OVERWRITE"),
            )
            return made.commit(self.committer, request)


class _Buckets:
    def __init__(
        self, committer: Committer, timeline: Timeline, schema: TableSchema, split: Split, made: Unfinished
    ) -> None:
        self._made, self._store, self._schema, self._split = made, committer.store, schema, split
        self._level = level_count(schema.options, ()) - 1
        self._settings = KeyFileSettings.of(schema, level=self._level)
        schemas = {name[1]: found for name, found in file_schemas_of(timeline, schema, [split]).items()}
        self._rules = check_key_compactable(schema)
        self._reader = KeyRowReader(schema, self._rules, schemas)
        self._writers: dict[int, KeyFileWriter] = {}
        self._name = str(MACHINE.new_uuid())

    def messages(self) -> list[CommitMessage]:
        """Write the rows of the old buckets, in the order of their keys, into the new ones."""
        buckets = bucket_function(self._schema)
        assert buckets is not None
        for batch in self._rows():
            numbers = np.asarray(buckets(batch))
            for number in np.unique(numbers).tolist():
                self._writer(number).write(batch.filter(pa.array(numbers == number)))
        for writer in self._writers.values():
            writer.finish()
        return [
            CommitMessage(self._split.partition, number, self._schema.bucket, new_files=tuple(writer.files))
            for number, writer in sorted(self._writers.items())
        ]

    def _rows(self) -> Iterator[Any]:
        places = {file.file_name: i for i, file in enumerate(self._split.files)}
        for section in sections_of(self._split.files, self._rules):
            indices = [places[file.file_name] for file in section]
            yield from self._reader.batches(self._store, self._split, indices, drop_deletes=True)

    def _writer(self, number: int) -> KeyFileWriter:
        writer = self._writers.get(number)
        if writer is None:
            paths = TablePaths(data_directory=self._schema.options.get(opt.DATA_FILE_DIRECTORY))
            writer = self._writers[number] = self._made.writer(
                KeyFileWriter(
                    self._store,
                    self._schema,
                    paths.bucket_dir(self._split.partition_path, number),
                    f"{self._schema.options.get(opt.DATA_FILE_PREFIX)}{self._name}-{number}",
                    level=self._level,
                    source=SOURCE_COMPACT,
                    settings=self._settings,
                )
            )
        return writer


def _both(a: Split, b: Split) -> Split:
    """The files of two buckets of a partition. No key is in both."""
    deletions = tuple(s.deletion(i) for s in (a, b) for i in range(len(s.files)))
    return replace(
        a, files=(*a.files, *b.files), keys=(*a.keys, *b.keys), deletions=deletions if any(deletions) else ()
    )
