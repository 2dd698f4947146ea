"""Changes of rows in tables without a primary key: rows are marked as deleted, or their files are written anew.

Owns: `AppendChange`: which files an operation concerns, what the commit says of them. Must not know: expressions, retries.
Source: format/deletion-vectors §1, §2; format/manifests §7; architecture §3 (isolation); H12, H22.

Invariants: A file is opened only if it may hold a row that is concerned. Files of which all rows go are deleted without being
opened, where the metadata proves it. A later plan uses what is known of a file, as long as it and its deleted rows are the same.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import Any

import numpy as np

from ...backends.store import Store
from ...coordinator.commit.message import CommitMessage, entries_of, index_entries_of
from ...coordinator.commit.request import Isolation, Remarks, RowChange, RowsRead
from ...coordinator.history.timeline import Timeline
from ...coordinator.surroundings import MACHINE
from ...core import options as opt
from ...core.errors import Unsupported
from ...core.expressions.tree import Comparison, Not, Predicate, columns_of, may_be_unknown
from ...core.metadata.change import Owner
from ...core.metadata.data_file import ADD, DELETE, IndexEntry, ManifestEntry
from ...core.metadata.schema import TableSchema
from ...core.metadata.snapshot import Snapshot
from ...core.places import FileKeys, codec_of
from ..compaction.bucket_vectors import BucketVectors
from ..reading.deletion import deleted_rows
from ..scan.fallback import file_schemas_of
from ..scan.file_pruning import FilePruner
from ..scan.plan import ScanPlan, plan_scan
from ..scan.split import Split
from ..writing.unfinished import discard
from ..writing.writer import TableWriter, check_writable, keys_of
from .file_change import FileChange, FileChanger
from .operation import Operation, distinct
from .tracked_rows import TrackedRows

THREADS = 4
"""The number of files that are changed at once."""
FEW_BYTES = 1 << 20
"""Fewer bytes of a store on this machine are read one file after the other: threads would take longer to start."""
KEPT_BYTES = 64 << 20
"""The bytes of new rows that are kept for a later plan. Others are read again."""

ChangeFiles = Callable[[FileChanger, Sequence[Split]], Iterator[FileChange]]
"""Applies an operation to files, in this process or elsewhere, and yields the changes in any order."""


@dataclass(frozen=True)
class Counts:
    """What a change did, for its receipt."""

    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    files_rewritten: int = 0
    files_deleted: int = 0
    files_marked: int = 0
    files_read: int = 0


@dataclass(frozen=True)
class Planned:
    """A change of rows that is ready to be committed: its messages, and the snapshot that it was planned on."""

    messages: tuple[CommitMessage, ...]
    read: Snapshot | None
    counts: Counts


def changed_here(changer: FileChanger, splits: Sequence[Split]) -> Iterator[FileChange]:
    """Change files in this process, a few at a time."""
    is_near = changer.store.capabilities.native_scheme in ("file", "memory")
    if len(splits) == 1 or (is_near and sum(split.size for split in splits) < FEW_BYTES):
        yield from _one_by_one(changer, splits)
        return
    with MACHINE.executor(THREADS, "lakelatch-rows") as pool:
        futures = [pool.submit(changer.change, split, str(uuid.uuid4())) for split in splits]
        try:
            for future in futures:
                yield future.result()
        except BaseException:
            for future in futures:
                future.cancel()
            done = [f.result() for f in futures if not f.cancelled() and f.exception() is None]
            discard(changer.store, [key for change in done for key in change.written])
            raise


def _one_by_one(changer: FileChanger, splits: Sequence[Split]) -> Iterator[FileChange]:
    done: list[str] = []
    try:
        for split in splits:
            change = changer.change(split, str(uuid.uuid4()))
            done += change.written
            yield change
    except GeneratorExit:
        raise
    except BaseException as error:
        discard(changer.store, done, error)
        raise


@dataclass
class AppendChange:
    """One change of rows, planned again as often as it takes. Rows are read and written with `schema`, the newest one."""

    store: Store
    schema: TableSchema
    operation: Operation
    change_files: ChangeFiles = changed_here
    _known: dict[Owner, tuple[FileChange, Any]] = field(default_factory=dict)
    _loose: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        check_writable(self.schema)
        schema, options = self.schema, self.schema.options
        self._marks = bool(options.get(opt.DELETION_VECTORS))
        places = {*schema.partition_keys, *(schema.bucket_keys if schema.bucket > 0 else ())}
        self._moves = bool(places & self.operation.assigned)
        self._codec = codec_of(schema)

    # ---------------------------------------------------------------------------------------------------------- plan

    def plan(self, timeline: Timeline, snapshot: Snapshot | None) -> Planned:
        """What the change means on a snapshot. Refuses rows of another branch, and values that cannot be computed."""
        scan = plan_scan(timeline, snapshot, self.schema, self.operation.predicate)
        files = list(self._files(scan, timeline))
        covered = self._covered(scan.residual, timeline) if self.operation.deletes_all else None
        whole = [f for f in files if covered is not None and covered(_entry(f))]
        gone = {_owner(f) for f in whole}
        opened = [f for f in files if _owner(f) not in gone]
        index = timeline.index_entries(snapshot) if snapshot is not None else []
        changes, new, inserted = self._written(self._changed(timeline, scan, opened))
        messages = (*self._changes_of_files(changes, whole, index), *new)
        counts = Counts(
            rows_inserted=inserted,
            rows_updated=sum(c.updated for c in changes),
            rows_deleted=sum(c.deleted for c in changes) + sum(f.live_rows((0,)) or 0 for f in whole),
            files_rewritten=sum(c.is_rewritten for c in changes),
            files_deleted=len(whole) + sum(c.is_gone for c in changes),
            files_marked=sum(bool(len(c.positions)) and not c.is_gone and not c.is_rewritten for c in changes),
            files_read=len(opened),
        )
        return Planned(messages, snapshot, counts)

    def concerns(self, timeline: Timeline) -> Callable[[ManifestEntry], bool]:
        """May a new file hold rows that the operation concerns?"""
        predicate = self.operation.predicate
        if predicate is None:
            return lambda entry: True
        return FilePruner(predicate, self.schema, self._schema_of(timeline), self._codec).may_match

    def request(
        self,
        planned: Planned,
        timeline: Timeline,
        *,
        commit_user: str,
        identifier: int | None,
        isolation: Isolation,
        properties: dict[str, str],
    ) -> RowChange:
        entries, index = entries_of(planned.messages), index_entries_of(planned.messages)
        replaces = bool(index) or any(e.kind == DELETE for e in entries)
        serial = isolation == "serializable"
        return RowChange(
            kind="OVERWRITE" if replaces else "APPEND",
            entries=entries,
            commit_user=commit_user,
            identifier=identifier,
            index_entries=index,
            uploads=tuple(upload for m in planned.messages for upload in m.uploads),
            read_snapshot=planned.read,
            isolation=isolation,
            remarks=Remarks(self.operation.word, None, properties),
            rows_read=RowsRead(planned.read, self.concerns(timeline), self.operation.absent) if serial else None,
        )

    def discard(self, everything: bool) -> None:
        """Delete the new files of the last plan, which was not committed; if `everything`, also those that another could use."""
        keys, self._loose = self._loose, []
        if everything:
            keys += [key for change, _ in self._known.values() for key in change.keys]
            self._known.clear()
        discard(self.store, keys)

    def landed(self, planned: Planned) -> None:
        """Delete files of earlier plans that the plan which landed does not need."""
        needed = {*keys_of(self.schema, planned.messages), *(u.key for m in planned.messages for u in m.uploads)}
        keys = [*self._loose, *(key for change, _ in self._known.values() for key in change.keys)]
        discard(self.store, [key for key in keys if key not in needed])

    # --------------------------------------------------------------------------------------------------------- files

    def _files(self, scan: ScanPlan, timeline: Timeline) -> Iterator[Split]:
        for split in scan.splits:
            if split.branch != timeline.paths.branch:
                raise Unsupported(
                    f"rows of branch '{split.branch}' (option '{opt.FALLBACK_BRANCH.key}') are concerned, which cannot be"
                    " changed from here",
                    next_step="change them in their branch, or choose other partitions",
                )
            for i, (file, key) in enumerate(zip(split.files, split.keys, strict=True)):
                place = split.deletion(i)
                yield replace(split, files=(file,), keys=(key,), deletions=(place,) if place is not None else ())

    def _schema_of(self, timeline: Timeline) -> Callable[[int], TableSchema]:
        return lambda schema_id: self.schema if schema_id == self.schema.id else timeline.schema(schema_id)

    def _covered(self, residual: Predicate | None, timeline: Timeline) -> Callable[[ManifestEntry], bool]:
        """Is the condition true for every row of a file, as its statistics prove?

        They prove for which files it is never false. It may still be unknown, because of a null in the row or in the condition.
        """
        if residual is None:
            return lambda entry: True
        if may_be_unknown(residual):
            return lambda entry: False
        nulls = [Comparison("is_null", name) for name in sorted(columns_of(residual))]
        otherwise = reduce(or_, nulls, Not(residual))
        pruner = FilePruner(otherwise, self.schema, self._schema_of(timeline), self._codec)
        return lambda entry: not pruner.may_match(entry)

    def _changed(self, timeline: Timeline, scan: ScanPlan, files: Sequence[Split]) -> Iterator[FileChange]:
        """The changes of files, those that are known from an earlier plan first."""
        new, kept_bytes = [], 0
        still: dict[Owner, tuple[FileChange, Any]] = {}
        for split in files:
            known = self._known.get(_owner(split))
            if known is not None and _same(known[1], self._deleted(split)):
                still[_owner(split)] = replace(known[0], split=split), known[1]
            else:
                new.append(split)
        self._loose += [key for owner, (c, _) in self._known.items() if owner not in still for key in c.keys]
        self._known = still
        yield from [change for change, _ in still.values()]
        if not new:
            return
        schemas = file_schemas_of(timeline, self.schema, new)
        changer = FileChanger(self.store, self.schema, schemas, self.operation, scan.residual, self._marks, self._moves)
        for change in self.change_files(changer, new):
            kept_bytes += change.rows.nbytes if change.rows is not None else 0
            if kept_bytes <= KEPT_BYTES:
                self._known[_owner(change.split)] = change, self._deleted(change.split)
            else:
                self._loose += change.keys
            yield change

    def _deleted(self, split: Split) -> Any:
        return deleted_rows(self.store, split, (0,))

    # ------------------------------------------------------------------------------------------------------ messages

    def _written(self, found: Iterable[FileChange]) -> tuple[list[FileChange], list[CommitMessage], int]:
        """The changes of files; the files of new rows, and of updated ones that leave theirs; how many rows are new."""
        writer = TableWriter(self.store, self.schema, str(uuid.uuid4()), travelling=True)
        tracked = TrackedRows(self.store, self.schema) if self.schema.options.get(opt.ROW_TRACKING) else None
        changes, met = list[FileChange](), [np.zeros(0, np.int64)]
        try:
            for change in found:
                met.append(change.met)
                changes.append(replace(change, rows=None))
                for batch in change.rows.to_batches() if change.rows is not None else ():
                    (tracked or writer).write_batch(batch)
            inserted = self.operation.inserted(distinct(np.concatenate(met)))
            for batch in inserted.to_batches() if inserted is not None else ():
                writer.write_batch(batch)
            messages = [*writer.finish(), *(tracked.finish() if tracked is not None else ())]
        except BaseException:
            writer.abort()
            if tracked is not None:
                tracked.abort()
            raise
        self._loose += keys_of(self.schema, messages)
        return changes, messages, 0 if inserted is None else inserted.num_rows

    def _changes_of_files(
        self, changes: Sequence[FileChange], whole: Sequence[Split], index: Sequence[IndexEntry]
    ) -> Iterator[CommitMessage]:
        places: dict[tuple[bytes, int], list[FileChange]] = {}
        for change in (*changes, *(FileChange(split, is_gone=True) for split in whole)):
            if change.changes or change.is_gone:
                places.setdefault((change.split.partition, change.split.bucket), []).append(change)
        for (partition, bucket), here in places.items():
            replaced = [c for c in here if c.is_gone or c.is_rewritten]
            vectors, uploads = self._vectors((partition, bucket), here, index)
            self._loose += [upload.key for upload in uploads]
            yield CommitMessage(
                partition,
                bucket,
                here[0].split.total_buckets,
                new_files=tuple(file for c in here for file in c.new_files),
                deleted_files=tuple(c.split.files[0] for c in replaced),
                uploads=(*(u for c in here for u in c.uploads), *uploads),
                index_entries=vectors,
            )

    def _vectors(
        self, place: tuple[bytes, int], here: Sequence[FileChange], index: Sequence[IndexEntry]
    ) -> tuple[tuple[IndexEntry, ...], tuple[Any, ...]]:
        """The index files of a bucket after the change. Without fixed buckets, only those that hold a changed vector."""
        names = {c.split.files[0].file_name for c in here}
        found = [e for e in index if (e.partition, e.bucket) == place]
        if self.schema.bucket < 1:
            found = [e for e in found if any(v.data_file in names for v in e.file.deletion_vectors or ())]
        rows = {c.split.files[0].file_name: c.split.files[0].row_count for c in here}
        is_wide = bool(self.schema.options.get(opt.WIDE_VECTORS))
        vectors = BucketVectors(self.store, FileKeys(self.schema), place, found, rows, is_wide)
        for change in here:
            name = change.split.files[0].file_name
            if change.is_gone or change.is_rewritten:
                vectors.remove([name])
            else:
                vectors.mark(name, change.positions)
        entries, uploads = vectors.changes(f"index-{uuid.uuid4()}-0")
        if entries and not entries[-1].file.deletion_vectors:
            return entries[:-1], ()
        return entries, uploads


def _entry(split: Split) -> ManifestEntry:
    return ManifestEntry(ADD, split.partition, split.bucket, split.total_buckets, split.files[0])


def _owner(split: Split) -> Owner:
    return split.partition, split.bucket, split.files[0].file_name


def _same(before: Any, after: Any) -> bool:
    if before is None or after is None:
        return before is None and after is None
    return bool(np.array_equal(before, after))
