"""Put postponed rows (bucket -2) into real buckets, in the order in which they were written.

Owns: `settle_postponed`. Must not know: how rows become sorted runs (see `writing.key_writer`), how real buckets are compacted.
Source: format/primary-keys §7; format/binary-row §5; H12.
Invariants: Files are taken in the order of the manifests, which is that of their commits. Rows get sequence numbers above all of
their bucket, in this order. A partition's files are replaced by one commit; files that were added meanwhile stay where they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...coordinator.commit.committer import Committer, new_commit_user
from ...coordinator.commit.message import CommitMessage, changelog_of, entries_of
from ...coordinator.commit.receipt import Receipt
from ...coordinator.commit.request import CommitRequest, KeyedRows
from ...coordinator.history.timeline import Timeline
from ...coordinator.surroundings import MACHINE
from ...core import options as opt
from ...core.errors import CommitConflict
from ...core.metadata.data_file import DataFile, ManifestEntry, PartitionBucket
from ...core.metadata.schema import TableSchema
from ...core.metadata.schemas.merge_rules import POSTPONED
from ...core.metadata.snapshot import Snapshot
from ..reading.key_rows import KeyRowReader
from ..scan.fallback import file_schemas_of
from ..scan.split import Split
from ..scan.split_planning import SplitPlanner
from ..writing.unfinished import unfinished
from ..writing.writer import TableWriter
from .key_plan import check_key_compactable, live_files
from .plan import CompactionPlan

MOST_ATTEMPTS = 20
"""How often a partition is read again because other writers changed it."""


@dataclass(frozen=True)
class Settled:
    """What was put into real buckets: a receipt for each partition, the numbers of postponed and of new files, the new bytes."""

    receipts: tuple[Receipt, ...] = ()
    files_before: int = 0
    files_after: int = 0
    bytes_after: int = 0


def settle_postponed(committer: Committer, timeline: Timeline, schema: TableSchema, plan: CompactionPlan) -> Settled:
    """Put the postponed rows of a plan's partitions into real buckets.

    A partition keeps its number of buckets; a new one gets option `postpone.default-bucket-num`. After a `CommitConflict` the
    partitions before that one are done.
    """
    settled = Settled()
    for partition in dict.fromkeys(group.partition for group in plan.groups if group.bucket == POSTPONED):
        found = _settle_partition(committer, timeline, schema, partition)
        settled = Settled(
            (*settled.receipts, *found.receipts),
            settled.files_before + found.files_before,
            settled.files_after + found.files_after,
            settled.bytes_after + found.bytes_after,
        )
    return settled


def _settle_partition(committer: Committer, timeline: Timeline, schema: TableSchema, partition: bytes) -> Settled:
    for attempt in range(1, MOST_ATTEMPTS + 1):
        snapshot = timeline.latest()
        entries = [] if snapshot is None else live_files(timeline, snapshot, schema, None)
        entries = [e for e in entries if e.partition == partition]
        if snapshot is None or all(e.bucket != POSTPONED for e in entries):
            return Settled()  # another job was faster
        try:
            return _settle(committer, timeline, schema, snapshot, entries)
        except CommitConflict as error:
            if attempt == MOST_ATTEMPTS:
                error.message += f"; the partition was read {attempt} times, and others changed it each time"
                raise
    raise AssertionError("unreachable")


def _settle(
    committer: Committer,
    timeline: Timeline,
    schema: TableSchema,
    snapshot: Snapshot,
    entries: Sequence[ManifestEntry],
) -> Settled:
    waiting = [e for e in entries if e.bucket == POSTPONED]
    real = [e for e in entries if e.bucket != POSTPONED]
    total = real[-1].total_buckets if real else schema.options.get(opt.POSTPONE_DEFAULT_BUCKETS)
    fixed = replace(schema, option_texts={**schema.option_texts, opt.BUCKET.key: str(total)})
    numbers: dict[PartitionBucket, int] = {}
    for entry in real:
        place = (entry.partition, entry.bucket)
        numbers[place] = max(numbers.get(place, -1), entry.file.max_sequence_number)
    with unfinished(committer.store) as work:
        name = str(MACHINE.new_uuid())
        writer = work.writer(TableWriter(committer.store, fixed, name, largest_numbers=lambda partitions: numbers))
        _write(writer, committer, timeline, schema, snapshot, waiting)
        before = CommitMessage(
            waiting[0].partition,
            POSTPONED,
            waiting[0].total_buckets,
            compact_before=tuple(e.file for e in waiting),
        )
        after = [replace(m, new_files=(), compact_after=m.new_files) for m in writer.finish()]
        request = CommitRequest(
            kind="COMPACT",
            entries=entries_of([before, *after]),
            commit_user=new_commit_user(schema),
            keyed=KeyedRows(changelog_of(after)),
            read_snapshot=snapshot,
        )
        receipt = work.commit(committer, request)
    made: list[DataFile] = [file for m in after for file in m.compact_after]
    return Settled((receipt,), len(waiting), len(made), sum(file.file_size for file in made))


def _write(
    writer: TableWriter,
    committer: Committer,
    timeline: Timeline,
    schema: TableSchema,
    snapshot: Snapshot,
    waiting: Sequence[ManifestEntry],
) -> None:
    named_by = timeline.file_of(snapshot)

    def schema_of(schema_id: int) -> TableSchema:
        return schema if schema_id == schema.id else timeline.schema(schema_id, named_by)

    planner = SplitPlanner(schema, schema_of, (), timeline.paths.branch, named_by)
    splits: tuple[Split, ...] = planner.whole_buckets(waiting)
    schemas = {name[1]: found for name, found in file_schemas_of(timeline, schema, splits).items()}
    reader = KeyRowReader(schema, check_key_compactable(schema), schemas)
    for split in splits:
        for index in range(len(split.files)):
            for batch in reader.batches(committer.store, split, [index], drop_deletes=False):
                writer.write_batch(batch.select(batch.schema.names[1:]))
