"""Route rows to their partitions and buckets, write them to data files, and describe the files for the commit.

Owns: `TableWriter`. Must not know: commits, Spark. Source: format/data-files §1; format/binary-row §3, §5.
Invariants: A row is written to the partition and bucket of its own values. The rows of one bucket keep their order. Memory is
bounded by `HELD_BYTES`, however many files are open. `abort` returns the keys of the files that it could not delete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...backends.store import Store
from ...coordinator.commit.attempt import check_manifest_format
from ...coordinator.commit.message import CommitMessage
from ...coordinator.surroundings import MACHINE
from ...core import options as opt
from ...core.errors import InvalidArgument, Unsupported
from ...core.external_paths import ExternalPaths
from ...core.file_index.options import index_specs
from ...core.metadata.data_file import ADD, ManifestEntry, PartitionBucket
from ...core.metadata.schema import TableSchema
from ...core.metadata.schemas.merge_rules import POSTPONED, merge_rules
from ...core.paths import TablePaths
from ...core.places import FileKeys, codec_of
from ...core.rows import sizes
from ...core.rows.whole import joined
from ...core.side_effects import check_side_effects
from ..conforming.conform import Conformer
from ..conforming.sources import batches_of
from ..formats.writing import output_of
from .beginning import Beginning
from .buckets.placement import NO_TOTAL_BUCKETS, FixedBuckets, Placed, Placement
from .files.bucket_writer import BucketWriter
from .files.data_writer import DataFileWriter, FileSettings
from .unfinished import discard

if TYPE_CHECKING:
    from .buckets.postponed import PostponedForm
    from .key_writer import KeyForm

HELD_BYTES = 256 << 20
WRITE_THREADS = 4
"""How many files of one job are encoded and stored at once."""
LEAST_SHARED_BYTES = 4 << 20
_GATHERED_PART = 4
"""Rows are gathered up to this part of the memory of a writer before they are sent to their places."""
_LEAST_BYTES = 32 << 10
"""Batches are not cut into smaller pieces, however little memory a table grants."""

_DEDICATED = (
    "blob-descriptor-field",
    "blob.stored-descriptor-fields",
    "blob-view-field",
    "blob-external-storage-field",
    "vector.file.format",
)
"""Options that store some columns as references, or in files of a form of their own."""


def check_writable(schema: TableSchema, *, keyed: bool = False) -> None:
    """Refuse tables that cannot be written yet; the error names feature and option. With `keyed`, a primary key is no reason."""
    options = schema.options
    check_side_effects(schema.option_texts)
    if schema.primary_keys:
        _check_keyed(schema, keyed)
    elif schema.bucket < 1 and schema.bucket != NO_TOTAL_BUCKETS:
        raise Unsupported(
            f"option 'bucket' = {schema.bucket}: for a table without a primary key it must be -1 or above 0"
        )
    if schema.bucket > 1 and not schema.bucket_keys:
        raise Unsupported(
            f"writing with option 'bucket' = {schema.bucket} and without '{opt.BUCKET_KEY.key}' is not supported: the table"
            " does not name the columns that choose the bucket"
        )
    check_manifest_format(schema)
    ExternalPaths.of(options)
    for option in _DEDICATED:
        if schema.option_texts.get(option):
            raise Unsupported(
                f"writing with option '{option}' = {schema.option_texts[option]!r} is not supported: it stores columns in"
                " another way",
                next_step="write the table with Apache Paimon",
            )
    output_of(schema)
    index_specs(schema.fields, schema.option_texts)


def _check_keyed(schema: TableSchema, keyed: bool) -> None:
    keys = ", ".join(schema.primary_keys)
    if not keyed:
        raise Unsupported(f"writing a table with a primary key ({keys}) is not supported here yet")


LargestNumbers = Callable[[set[bytes]], Mapping[PartitionBucket, int]]
"""Gives the largest sequence number of each bucket of some partitions, in the snapshot that a job begins on."""


def no_numbers(partitions: set[bytes]) -> Mapping[PartitionBucket, int]:
    """For jobs that know no snapshot: their rows are ordered by the clock alone, and the commit checks the order."""
    return {}


def _key_form(schema: TableSchema, changelog: bool) -> KeyForm:
    from .key_writer import KeyForm

    return KeyForm.of(schema, changelog)


def _postponed_form(schema: TableSchema, commit_user: str, job: str) -> PostponedForm:
    from .buckets.postponed import PostponedForm

    return PostponedForm.of(schema, commit_user, job)


class TableWriter:
    """Writes rows of one job (or one task of it) into data files.

    Args:
        job: names of data files begin with it, so that the files of a failed job can be listed and removed.
        travelling: small files stay in memory, to be stored with the commit. Only if one process writes and commits.
        changelog: write the changelog that option `changelog-producer` asks for. Overwrites have none.
        beginning: when the job began; the same for all of its tasks.
        placement: chooses the places of rows; by default by the bucket key.
        commit_user: of the job, for the names of files with postponed rows.
        bucket_by_bucket: the rows of a bucket come one after the other, so that a bucket is written when the next one begins.
    """

    def __init__(
        self,
        store: Store,
        schema: TableSchema,
        job: str,
        *,
        travelling: bool = False,
        largest_numbers: LargestNumbers = no_numbers,
        changelog: bool = True,
        beginning: Beginning | None = None,
        placement: Placement | None = None,
        commit_user: str = "",
        bucket_by_bucket: bool = False,
    ) -> None:
        check_writable(schema, keyed=True)
        self._store, self._schema, self._job, self._travelling = store, schema, job, travelling
        self._rules = merge_rules(schema)
        self._form = _key_form(schema, changelog) if self._rules is not None else None
        self._settings = FileSettings.of(schema) if self._form is None else self._form.files.files
        self._most_held = HELD_BYTES if self._rules is None else schema.options.get(opt.WRITE_BUFFER_SIZE)
        self._piece_bytes = (
            sizes.PIECE_BYTES
            if self._rules is None
            else min(sizes.PIECE_BYTES, max(_LEAST_BYTES, self._most_held // 4))
        )
        self._codec = codec_of(schema)
        self._paths = TablePaths(data_directory=schema.options.get(opt.DATA_FILE_DIRECTORY))
        self._conform = Conformer(schema.fields)
        self._placement = placement or _placed_by_key(schema)
        self._aside = _postponed_form(schema, commit_user, job) if schema.bucket == POSTPONED else None
        self._largest_numbers, self._beginning = largest_numbers, beginning or Beginning.now()
        self._writers: dict[PartitionBucket, BucketWriter] = {}
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self._is_one_place = not (schema.partition_keys or schema.primary_keys) and schema.bucket == NO_TOTAL_BUCKETS
        self._bucket_by_bucket = bucket_by_bucket
        self._current: PartitionBucket | None = None
        self.row_count = 0

    def write(self, data: Any, *, row_kind: str | None = None, deletes: bool = False) -> None:
        """Write rows, in any form that `batches_of` accepts. The other arguments are as for `KeyConformer`."""
        conform: Callable[[pa.RecordBatch], pa.RecordBatch] = self._conform
        if self._rules is not None:
            from .key_rows import KeyConformer

            conform = KeyConformer(self._schema, self._rules, row_kind=row_kind, deletes=deletes)
        elif row_kind is not None or deletes:
            raise InvalidArgument("a table without a primary key has no rows that could be replaced or deleted by key")
        for batch in batches_of(data):
            for part in sizes.pieces(batch, self._piece_bytes):
                self.write_batch(conform(part))

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write a batch that already has the table's columns, order and types, after the kinds of its rows if it has a key."""
        if not batch.num_rows:
            return
        self.row_count += batch.num_rows
        self._waiting.append(batch)
        self._waiting_bytes += batch.nbytes
        if self._is_one_place or self._waiting_bytes > self._most_held // _GATHERED_PART:
            self._place()

    def _place(self) -> None:
        """Send the rows that wait to their places, all at once: small batches would be cut into many slices of a few rows."""
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        for batch in joined(waiting) if waiting else ():
            self._take(self._placement.place(batch))

    def _take(self, placed: Placed) -> None:
        for target, rows in placed:
            if self._bucket_by_bucket and self._current is not None and self._current != target:
                self._writers[self._current].flush()
            self._current = target
            self._writer(target).write(rows)
        excess = sum(w.held_bytes for w in self._writers.values()) - self._most_held
        by_size = sorted(self._writers.values(), key=lambda w: w.held_bytes, reverse=True) if excess > 0 else []
        while excess > 0 and by_size:
            largest, by_size = by_size[:WRITE_THREADS], by_size[WRITE_THREADS:]
            excess -= sum(w.held_bytes for w in largest)
            self._for_each(largest, lambda w: w.flush())

    @property
    def partitions(self) -> list[bytes]:
        """The partitions to which rows were written."""
        self._place()
        return list(dict.fromkeys(partition for partition, _ in self._writers))

    def finish(self) -> list[CommitMessage]:
        """Close all files; one message per (partition, bucket)."""
        self._place()
        self._take(self._placement.rest())
        self._for_each(list(self._writers.values()), lambda w: w.finish())
        messages = []
        for (partition, bucket), writer in self._writers.items():
            messages.append(
                CommitMessage(
                    partition,
                    bucket,
                    self._placement.total_buckets(partition),
                    new_files=tuple(writer.files),
                    changelog_files=tuple(writer.changelog_files),
                    uploads=tuple(writer.uploads),
                    hashes=self._placement.hashes((partition, bucket)),
                )
            )
        return messages

    def abort(self) -> list[str]:
        """Delete what was written. Returns the keys of complete files that could not be deleted."""
        self._waiting = []
        for writer in self._writers.values():
            writer.abort()
        return discard(self._store, self.written_keys)

    @property
    def written_keys(self) -> list[str]:
        return [key for writer in self._writers.values() for key in writer.written_keys]

    def _for_each(self, writers: Sequence[BucketWriter], act: Callable[[BucketWriter], None]) -> None:
        """Flush or finish some writers, several at once where that is worth starting threads. Rows with keys share numbers."""
        held = sum(w.held_bytes for w in writers)
        if self._rules is not None or len(writers) < 2 or held < LEAST_SHARED_BYTES:
            for writer in writers:
                act(writer)
            return
        with MACHINE.executor(min(WRITE_THREADS, len(writers)), "lakelatch-write") as pool:
            for _ in pool.map(act, writers):
                pass

    def _writer(self, target: PartitionBucket) -> BucketWriter:
        writer = self._writers.get(target)
        if writer is None:
            partition, bucket = target
            folder = self._paths.bucket_dir(self._codec.path(partition), bucket)
            stem = f"{self._job}-{len(self._writers)}"
            if self._aside is not None and bucket == POSTPONED:
                from .buckets.postponed import PostponedWriter

                writer = PostponedWriter(self._store, self._aside, folder, stem, self._travelling)
            elif self._form is not None:
                from .key_writer import KeyBuffer

                first = partial(self._first_number, target)
                writer = KeyBuffer(self._store, self._form, folder, stem, self._travelling, first)
            else:
                prefix = self._schema.options.get(opt.DATA_FILE_PREFIX)
                writer = DataFileWriter(self._store, self._settings, folder, prefix + stem, self._travelling)
            self._writers[target] = writer
        return writer

    def _first_number(self, target: PartitionBucket) -> int:
        largest = self._largest_numbers({partition for partition, _ in self._writers})
        return self._beginning.first_number(largest.get(target, -1))


def _placed_by_key(schema: TableSchema) -> FixedBuckets:
    if schema.primary_keys and schema.bucket < 1:
        kind = "postponed buckets" if schema.bucket == POSTPONED else "dynamic buckets"
        raise Unsupported(
            f"writing a table with {kind} ('{opt.BUCKET.key}' = {schema.bucket}) is not supported here yet",
            next_step="append or upsert with a `Table`, or create the table with a fixed number of buckets",
        )
    return FixedBuckets(schema)


def keys_of(schema: TableSchema, messages: Iterable[CommitMessage]) -> list[str]:
    """The keys of the objects that messages add: data and changelog files in their buckets' folders or elsewhere, and indexes.

    A file that a compaction only moves to another level is an input too, so it is not among them.
    """
    keys = FileKeys(schema)
    found: list[str] = []
    for m in messages:
        moved = {file.file_name for file in m.compact_before}
        for file in (*m.new_files, *m.compact_after, *m.changelog_files):
            if file.file_name not in moved:
                found += keys.data(ManifestEntry(ADD, m.partition, m.bucket, m.total_buckets, file))
        found += [keys.index(entry) for entry in m.index_entries if entry.kind == ADD]
    return found
