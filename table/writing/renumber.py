"""Write new rows of a table with a primary key again, with larger sequence numbers: where theirs meet those of another job.

Owns: `Renumberer`. Must not know: when that is necessary (the commit decides). Source: format/primary-keys §3; H14; decision 47.
Invariants: The rows of each bucket keep their order, their kinds and their values. Files are read and written a batch at a time.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from ...backends.elsewhere import located
from ...backends.store import Store
from ...coordinator.commit.message import PendingUpload
from ...coordinator.commit.request import Renumbered
from ...core import options as opt
from ...core.metadata.data_file import ADD, SOURCE_APPEND, ManifestEntry, PartitionBucket
from ...core.metadata.schema import ROW_SEQUENCE, TableSchema
from ...core.metadata.schemas.merge_rules import row_fields
from ...core.places import FileKeys, FilePlaces, codec_of
from ..formats.reading import open_data_file
from ..projection.plan import plan_projection
from .beginning import Beginning
from .files.key_files import KeyFileSettings, KeyFileWriter, arrow_rows
from .unfinished import discard

_PART_BYTES = 16 << 20
"""About how much of a file is held at a time."""


class Renumberer:
    """Makes the rows of a job newer than all others: the `renumber` of a commit request. `uploads` are not in the store yet."""

    def __init__(self, store: Store, schema: TableSchema, uploads: Iterable[PendingUpload] = ()) -> None:
        self._store, self._schema = store, schema
        self._held = {upload.key: upload.data for upload in uploads}
        self._keys, self._codec = FileKeys(schema), codec_of(schema)
        self._paths = FilePlaces.of(schema.options).paths
        self._columns = row_fields(schema)
        self._written: list[str] = []

    def __call__(self, entries: Sequence[ManifestEntry], above: int, by_clock: bool = True) -> Renumbered:
        """The same rows in new files. `entries` are new files of the job, or those of an earlier call.

        The new numbers are larger than `above`, and all buckets begin with the same number. With `by_clock` they are also above
        the clock, as those of a job that begins now; else they are as small as can be.
        """
        first, stem = Beginning.now().first_number(above) if by_clock else above + 1, str(uuid.uuid4())
        lowest: dict[PartitionBucket, int] = {}
        for entry in entries:
            place = (entry.partition, entry.bucket)
            lowest[place] = min(lowest.get(place, entry.file.min_sequence_number), entry.file.min_sequence_number)
        made: list[ManifestEntry] = []
        uploads: list[PendingUpload] = []
        settings = {level: KeyFileSettings.of(self._schema, level=level) for level in {e.file.level for e in entries}}
        for number, entry in enumerate(entries):
            writer = self._writer(entry, f"{stem}-{number}", settings[entry.file.level])
            self._copy(entry, first - lowest[entry.partition, entry.bucket], writer)
            self._written += [*writer.written_keys, *(upload.key for upload in writer.uploads)]
            uploads += writer.uploads
            made += [
                ManifestEntry(ADD, entry.partition, entry.bucket, entry.total_buckets, file) for file in writer.files
            ]
        self._held |= {upload.key: upload.data for upload in uploads}
        return Renumbered(tuple(made), tuple(uploads))

    def abandon(self) -> None:
        """Delete the files that it made, because no snapshot will name them. What cannot be deleted now becomes an orphan."""
        discard(self._store, self._written)
        self._written = []

    def _writer(self, entry: ManifestEntry, stem: str, settings: KeyFileSettings) -> KeyFileWriter:
        folder = self._paths.bucket_dir(self._codec.path(entry.partition), entry.bucket)
        prefix = self._schema.options.get(opt.DATA_FILE_PREFIX)
        return KeyFileWriter(
            self._store,
            self._schema,
            folder,
            prefix + stem,
            level=entry.file.level,
            source=SOURCE_APPEND,
            travelling=True,
            settings=settings,
        )

    def _copy(self, entry: ManifestEntry, shift: int, writer: KeyFileWriter) -> None:
        projection = plan_projection(self._columns, self._columns, f"schema {self._schema.id}")
        key = self._keys.data(entry)[0]
        data = self._held.get(key)
        place = located(self._store, key) if data is None else (cast(Store, _Held(data)), key)
        schema = arrow_rows(self._schema)
        opened = open_data_file(*place, entry.file, projection, self._schema.options, part_bytes=_PART_BYTES)
        for _, rows in opened.batches(threads=True):
            columns = [rows.column(name) for name in schema.names]
            columns[0] = pc.add_checked(columns[0], pa.scalar(shift, pa.int64()))
            assert schema.names[0] == ROW_SEQUENCE.name
            writer.write(pa.RecordBatch.from_arrays(columns, schema=schema))
        writer.finish()


class _Held:
    """A store with one file, in memory."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def get(self, key: str) -> bytes:
        return self._data

    def get_range(self, key: str, start: int, end: int) -> bytes:
        return self._data[start:end]

    def open_input(self, key: str, size: int | None = None) -> Any:
        return pa.BufferReader(self._data)
