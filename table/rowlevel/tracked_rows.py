"""Updated rows of tables that track rows: they keep their ids.

Owns: `TrackedRows`. Must not know: how rows are found, commits. Source: format/data-files §6.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pyarrow as pa

from ...backends.store import Store
from ...coordinator.commit.message import CommitMessage
from ...core import options as opt
from ...core.metadata.schema import ROW_ID, ROW_SEQUENCE, TableSchema
from ...core.paths import TablePaths
from ...core.places import codec_of
from ..writing.buckets.placement import UNAWARE_BUCKET, by_place
from ..writing.files.data_writer import DataFileWriter, FileSettings
from ..writing.unfinished import discard


class TrackedRows:
    def __init__(self, store: Store, schema: TableSchema) -> None:
        self._store, self._schema = store, schema
        self._settings = FileSettings.of(schema, (*schema.fields, ROW_ID, ROW_SEQUENCE))
        self._codec = codec_of(schema)
        self._paths = TablePaths(data_directory=schema.options.get(opt.DATA_FILE_DIRECTORY))
        self._job = f"{schema.options.get(opt.DATA_FILE_PREFIX)}{uuid.uuid4()}"
        self._writers: dict[bytes, DataFileWriter] = {}

    def write_batch(self, batch: pa.RecordBatch) -> None:
        for (partition, bucket), part in by_place(self._codec, batch, None):
            if partition not in self._writers:
                folder = self._paths.bucket_dir(self._codec.path(partition), bucket)
                stem = f"{self._job}-{len(self._writers)}"
                self._writers[partition] = DataFileWriter(self._store, self._settings, folder, stem, travelling=True)
            self._writers[partition].write(part)

    def finish(self) -> Iterator[CommitMessage]:
        for partition, writer in self._writers.items():
            writer.finish()
            yield CommitMessage(
                partition,
                UNAWARE_BUCKET,
                self._schema.bucket,
                new_files=tuple(writer.files),
                uploads=tuple(writer.uploads),
            )

    def abort(self) -> None:
        for writer in self._writers.values():
            writer.abort()
        discard(self._store, [key for w in self._writers.values() for key in w.written_keys])
