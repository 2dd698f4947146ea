"""Route rows to their partitions and buckets, write them to data files, and describe the files for the commit.

Owns: `TableWriter`. Must not know: commits, Spark. Source: format/data-files §1; format/binary-row §3, §5.
Invariants: A row is written to the partition and bucket of its own values. The rows of one bucket keep their order. Memory is
bounded by `HELD_BYTES`, however many files are open. `abort` returns the keys of the files that it could not delete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...backends.elsewhere import delete_located
from ...backends.store import Store
from ...coordinator.commit.attempt import check_manifest_format
from ...coordinator.commit.message import CommitMessage
from ...core import options as opt
from ...core.errors import StoreUnavailable, Unsupported
from ...core.external_paths import ExternalPaths
from ...core.file_index.options import index_specs
from ...core.metadata.data_file import ADD, ManifestEntry, PartitionBucket
from ...core.metadata.schema import TableSchema
from ...core.paths import TablePaths
from ...core.places import FileKeys, codec_of
from ...core.rows.bucket import BucketFunction, buckets
from ...core.rows.values import column_values
from ...core.side_effects import check_side_effects
from ..formats.writing import output_of
from .conform import Conformer, batches_of
from .data_writer import DataFileWriter, FileSettings

HELD_BYTES = 256 << 20
UNAWARE_BUCKET = 0
NO_TOTAL_BUCKETS = -1


_DEDICATED = (
    "blob-descriptor-field",
    "blob.stored-descriptor-fields",
    "blob-view-field",
    "blob-external-storage-field",
    "vector.file.format",
)
"""Options that store some columns as references, or in files of a form of their own."""


def check_writable(schema: TableSchema) -> None:
    """Refuse tables that cannot be written yet. The error names the feature and the option."""
    options = schema.options
    check_side_effects(schema.option_texts)
    if schema.primary_keys:
        raise Unsupported(f"writing a table with a primary key ({', '.join(schema.primary_keys)}) is not supported yet")
    if schema.bucket < 1 and schema.bucket != NO_TOTAL_BUCKETS:
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


class TableWriter:
    """Writes rows of one job (or one task of it) into data files.

    Args:
        job: names of data files begin with it, so that the files of a failed job can be listed and removed.
        travelling: small files stay in memory, to be stored with the commit. Only if one process writes and commits.
    """

    def __init__(self, store: Store, schema: TableSchema, job: str, *, travelling: bool = False) -> None:
        check_writable(schema)
        self._store, self._schema, self._job, self._travelling = store, schema, job, travelling
        self._settings = FileSettings.of(schema)
        self._codec = codec_of(schema)
        self._paths = TablePaths(data_directory=schema.options.get(opt.DATA_FILE_DIRECTORY))
        self._conform = Conformer(schema.fields)
        self._bucket_of = bucket_function(schema)
        self._writers: dict[PartitionBucket, DataFileWriter] = {}
        self.row_count = 0

    def write(self, data: Any) -> None:
        """Write rows, in any form that `batches_of` accepts."""
        for batch in batches_of(data):
            if batch.num_rows:
                self.write_batch(self._conform(batch))

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write a batch that already has the table's columns, order and types."""
        self.row_count += batch.num_rows
        for target, rows in self._by_bucket(batch):
            self._writer(target).write(rows)
        while sum(w.held_bytes for w in self._writers.values()) > HELD_BYTES:
            max(self._writers.values(), key=lambda w: w.held_bytes).flush()

    @property
    def partitions(self) -> list[bytes]:
        """The partitions to which rows were written."""
        return list(dict.fromkeys(partition for partition, _ in self._writers))

    def finish(self) -> list[CommitMessage]:
        """Close all files; one message per (partition, bucket)."""
        messages = []
        for (partition, bucket), writer in self._writers.items():
            writer.finish()
            messages.append(
                CommitMessage(
                    partition,
                    bucket,
                    self._schema.bucket,
                    new_files=tuple(writer.files),
                    uploads=tuple(writer.uploads),
                )
            )
        return messages

    def abort(self) -> list[str]:
        """Delete what was written. Returns the keys of complete files that could not be deleted."""
        written = []
        for writer in self._writers.values():
            writer.abort()
            written.extend(writer.written_keys)
        try:
            delete_located(self._store, written)
        except StoreUnavailable:
            return written
        return []

    def _writer(self, target: PartitionBucket) -> DataFileWriter:
        writer = self._writers.get(target)
        if writer is None:
            partition, bucket = target
            folder = self._paths.bucket_dir(self._codec.path(partition), bucket)
            prefix = self._schema.options.get(opt.DATA_FILE_PREFIX)
            stem = f"{prefix}{self._job}-{len(self._writers)}"
            writer = DataFileWriter(self._store, self._settings, folder, stem, self._travelling)
            self._writers[target] = writer
        return writer

    def _by_bucket(self, batch: pa.RecordBatch) -> Iterator[tuple[PartitionBucket, pa.RecordBatch]]:
        """Cut the batch by partition and bucket, with rows in order. Python code runs per distinct target, not per row."""
        fields = self._codec.fields
        columns = [batch.column(f.name) for f in fields]
        if self._bucket_of is not None:
            columns.append(pa.array(self._bucket_of(batch)))
        if not columns:
            yield (self._codec.encode(()), UNAWARE_BUCKET), batch
            return
        codes, firsts = partition_codes(columns)
        heads = [column.take(firsts) for column in columns]
        values = [column_values(head, f.type) for head, f in zip(heads, fields, strict=False)]
        rows = zip(*values, strict=True) if values else repeat((), len(firsts))
        partitions = [self._codec.encode(row) for row in rows]
        numbers = repeat(UNAWARE_BUCKET) if self._bucket_of is None else heads[-1].to_pylist()
        targets = list(zip(partitions, numbers, strict=False))
        if len(targets) == 1:
            yield targets[0], batch
            return
        sorted_batch = batch.take(pc.sort_indices(codes))
        counts = {pair["values"]: pair["counts"] for pair in pc.value_counts(codes).to_pylist()}
        start = 0
        for code, target in enumerate(targets):
            yield target, sorted_batch.slice(start, counts[code])
            start += counts[code]


def bucket_function(schema: TableSchema) -> Callable[[pa.RecordBatch], Any] | None:
    """The function from a batch to the fixed bucket of each row; None for a table without buckets.

    Raises:
        InvalidArgument: an unknown function, or one that does not support the key's type.
    """
    if schema.bucket < 1:
        return None
    fields = [schema.by_name[name] for name in schema.bucket_keys]
    if not fields:
        return _only_bucket
    function = BucketFunction.parse(schema.options.get(opt.BUCKET_FUNCTION))
    return partial(buckets, key_fields=fields, total=schema.bucket, function=function)


def _only_bucket(batch: pa.RecordBatch) -> Any:
    """Every row goes to bucket 0. Tables of old writers have one bucket and no key."""
    return np.zeros(batch.num_rows, np.int32)


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


def partition_codes(columns: list[pa.Array]) -> tuple[pa.Array, pa.Array]:
    """Number the distinct combinations of some columns 0, 1, 2 … in order of first sight.

    Returns:
        The number of each row, and the index of the first row of each number.

    >>> codes, firsts = partition_codes([pa.array(["a", "b", "a", None])])
    >>> codes.to_pylist(), firsts.to_pylist()
    ([0, 1, 0, 2], [0, 1, 3])
    """
    combined: pa.Array | None = None
    for column in columns:
        encoded = column.dictionary_encode(null_encoding="encode")
        indices = encoded.indices.cast(pa.int64())
        if combined is None:
            combined = indices
        else:
            wide = pc.add(pc.multiply(combined, len(encoded.dictionary)), indices)
            combined = wide.dictionary_encode().indices.cast(pa.int64())
    assert combined is not None
    numbered = combined.dictionary_encode()
    codes = numbered.indices
    firsts = pc.index_in(numbered.dictionary, value_set=combined)
    return codes, firsts
