"""Rows to data files: routed to their partitions, written, and described for the commit.

Owns: `TableWriter`. Must not know: commits, Spark. Source: data-layer §1, §7 (bucket -1), §10 (partition paths).
Invariants: a row lands in the partition of its own values; memory is bounded by `HELD_BYTES` however many partitions are
open; after `abort` the names of whole files that are left are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ..backends.store import Store
from ..coordinator.attempt import check_manifest_format
from ..coordinator.message import CommitMessage
from ..core import options as opt
from ..core.errors import StoreUnavailable, Unsupported
from ..core.paths import TablePaths
from ..core.places import codec_of
from ..core.schema import TableSchema
from ..core.values import column_values
from .conform import Conformer, batches_of
from .data_writer import DataFileWriter, FileSettings

HELD_BYTES = 256 << 20
UNAWARE_BUCKET = 0
NO_TOTAL_BUCKETS = -1


def check_writable(schema: TableSchema) -> None:
    """Refuse tables that cannot be written yet, naming feature and option."""
    options = schema.options
    if schema.primary_keys:
        raise Unsupported(f"writing a table with a primary key ({', '.join(schema.primary_keys)}) is not supported yet")
    if schema.bucket != -1:
        raise Unsupported(
            f"writing with option 'bucket' = {schema.bucket} is not supported yet", next_step="use bucket = -1"
        )
    check_manifest_format(schema)
    for option in (opt.ROW_TRACKING, opt.DATA_EVOLUTION):
        if options.get(option):
            raise Unsupported(f"writing with option '{option.key}' = true is not supported yet")
    if options.get(opt.EXTERNAL_PATHS):
        raise Unsupported(f"writing with option '{opt.EXTERNAL_PATHS.key}' is not supported yet")
    for field in schema.fields:
        if getattr(field.type, "root", "") == "BLOB":
            raise Unsupported(f"writing column {field.name!r} of type BLOB is not supported yet")
    indexes = [key for key in schema.option_texts if key.startswith("file-index.") and key.endswith(".columns")]
    if indexes:
        raise Unsupported(f"writing file indexes (option '{indexes[0]}') is not supported yet")


class TableWriter:
    """Writes rows of one job (or one task of it) into data files.

    Args:
        job: names of data files begin with it, so that what a failed job left can be listed and removed.
        travelling: small files stay in memory and travel with the commit (only where writer and committer are one process).
    """

    def __init__(self, store: Store, schema: TableSchema, job: str, *, travelling: bool = False) -> None:
        check_writable(schema)
        self._store, self._schema, self._job, self._travelling = store, schema, job, travelling
        self._settings = FileSettings.of(schema)
        self._codec = codec_of(schema)
        self._paths = TablePaths(data_directory=schema.options.get(opt.DATA_FILE_DIRECTORY))
        self._conform = Conformer(schema.fields)
        self._writers: dict[bytes, DataFileWriter] = {}
        self.row_count = 0

    def write(self, data: Any) -> None:
        """Write rows: anything that `batches_of` takes."""
        for batch in batches_of(data):
            if batch.num_rows:
                self.write_batch(self._conform(batch))

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write a batch that already has the table's columns, order and types."""
        self.row_count += batch.num_rows
        for partition, rows in self._by_partition(batch):
            self._writer(partition).write(rows)
        while sum(w.held_bytes for w in self._writers.values()) > HELD_BYTES:
            max(self._writers.values(), key=lambda w: w.held_bytes).flush()

    @property
    def partitions(self) -> list[bytes]:
        """The partitions that rows were written to."""
        return list(self._writers)

    def finish(self) -> list[CommitMessage]:
        """Close all files; one message per (partition, bucket)."""
        messages = []
        for partition, writer in self._writers.items():
            writer.finish()
            messages.append(
                CommitMessage(
                    partition,
                    UNAWARE_BUCKET,
                    NO_TOTAL_BUCKETS,
                    new_files=tuple(writer.files),
                    uploads=tuple(writer.uploads),
                )
            )
        return messages

    def abort(self) -> list[str]:
        """Delete what was written; the keys of whole files that could not be deleted are returned."""
        written = []
        for writer in self._writers.values():
            writer.abort()
            written.extend(writer.written_keys)
        try:
            self._store.delete_many(written)
        except StoreUnavailable:
            return written
        return []

    def _writer(self, partition: bytes) -> DataFileWriter:
        writer = self._writers.get(partition)
        if writer is None:
            folder = self._paths.bucket_dir(self._codec.path(partition), UNAWARE_BUCKET)
            prefix = self._schema.options.get(opt.DATA_FILE_PREFIX)
            stem = f"{prefix}{self._job}-{len(self._writers)}"
            writer = DataFileWriter(self._store, self._settings, folder, stem, self._travelling)
            self._writers[partition] = writer
        return writer

    def _by_partition(self, batch: pa.RecordBatch) -> Iterator[tuple[bytes, pa.RecordBatch]]:
        """The batch cut by partition, rows in their order; only distinct partitions are looked at one by one."""
        fields = self._codec.fields
        if not fields:
            yield self._codec.encode(()), batch
            return
        codes, firsts = partition_codes([batch.column(f.name) for f in fields])
        heads = batch.select([f.name for f in fields]).take(firsts)
        values = zip(*(column_values(heads.column(i), f.type) for i, f in enumerate(fields)), strict=True)
        partitions = [self._codec.encode(row) for row in values]
        if len(partitions) == 1:
            yield partitions[0], batch
            return
        order = pc.sort_indices(codes)
        sorted_batch = batch.take(order)
        counts = {pair["values"]: pair["counts"] for pair in pc.value_counts(codes).to_pylist()}
        start = 0
        for code, partition in enumerate(partitions):
            yield partition, sorted_batch.slice(start, counts[code])
            start += counts[code]


def keys_of(schema: TableSchema, messages: Iterable[CommitMessage]) -> list[str]:
    """The objects that messages add: data files in their buckets' folders."""
    codec = codec_of(schema)
    paths = TablePaths(data_directory=schema.options.get(opt.DATA_FILE_DIRECTORY))
    return [
        paths.data_file(codec.path(m.partition), m.bucket, file.file_name)
        for m in messages
        for file in (*m.new_files, *m.compact_after)
    ]


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
