"""Write the data files of one (partition, bucket).

Owns: the size of row groups and files, statistics, indexes, the files' names, and whether a file's bytes are stored now or with
the commit. Must not know: the meaning of partitions, commits.
Source: format/data-files §1, §2, §3, §4; format/statistics §1; format/manifests §6.
Invariants: Memory is bounded by one row group. A file's statistics describe exactly the rows in it. Names are unique.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ....backends.store import Store
from ....coordinator.commit.message import PendingUpload
from ....core import options as opt
from ....core.errors import InvalidArgument
from ....core.external_paths import ExternalPaths
from ....core.file_index.options import IndexSpec, index_specs
from ....core.metadata.data_file import SOURCE_APPEND, DataFile, SimpleStats
from ....core.metadata.schema import TableSchema
from ....core.paths import INDEX_SUFFIX
from ....core.rows.types import Field, is_blob_type
from ....core.statistics.collect import StatsCollector, StatsMode
from ...formats.writing import OpenOutput, Output, output_of, suffix_of
from .sink import SpillingSink

if TYPE_CHECKING:
    from ....core.file_index.writing import FileIndexBuilder
    from .blob_writer import BlobFileWriter

ROW_GROUP_BYTES = 32 << 20
"""The Arrow bytes of a row group, which is also what a writer holds in memory. Half of what Arrow's own writer makes of a million
rows: a filter on a sorted column then decodes half as much, while files are as large and as fast to read whole. With a quarter,
a large file on an object store would be read in too many requests.
"""
DEFAULT_TARGET_BYTES = 256 << 20
KEY_TABLE_TARGET_BYTES = 128 << 20
_ROLL_CHECK_ROWS = 1000
_TURNS = 1 << 16
"""Writers begin at a random location of several, so that the files of many small commits are spread."""


@dataclass(frozen=True)
class FileSettings:
    """How a table's data files are written. Made once per writer.

    Attributes:
        target_bytes, blob_target_bytes: a file, or one of BLOBs, is closed when it has grown to this size.
        most_embedded_bytes: larger indexes are stored beside their file, smaller ones in its manifest entry.
        external: where files are stored; None for the table's own folder.
        fields, blobs: the columns of a file, and the BLOB columns, which have files of their own.
        write_cols: the names of `fields`, if these are not all columns of the schema.
    """

    schema: TableSchema
    begin: OpenOutput
    target_bytes: int
    suffix: str
    modes: dict[str, StatsMode]
    dense: bool
    indexes: tuple[IndexSpec, ...]
    most_embedded_bytes: int
    external: ExternalPaths | None
    fields: tuple[Field, ...]
    blobs: tuple[Field, ...]
    blob_target_bytes: int
    write_cols: tuple[str, ...] | None

    @staticmethod
    def of(schema: TableSchema, columns: Sequence[Field] | None = None) -> FileSettings:
        """Read the table's options. `columns` are those that are written; by default those of the schema.

        Refuses formats, codecs and kinds of index that lakelatch does not write, and columns that the format cannot hold.
        """
        options = schema.options
        default_bytes = KEY_TABLE_TARGET_BYTES if schema.primary_keys else DEFAULT_TARGET_BYTES
        target_bytes = options.get(opt.TARGET_FILE_SIZE) or default_bytes
        written = schema.fields if columns is None else tuple(columns)
        blobs = tuple(f for f in written if is_blob_type(f.type))
        fields = tuple(f for f in written if f not in blobs)
        modes = {
            f.name: StatsMode.parse(options.stats_mode_of(f.name, i), f"statistics mode of column {f.name!r}")
            for i, f in enumerate(written)
        }
        names = tuple(f.name for f in fields)
        return FileSettings(
            schema=schema,
            begin=output_of(schema, target_bytes, fields),
            target_bytes=target_bytes,
            suffix=suffix_of(schema),
            modes=modes,
            dense=options.get(opt.STATS_DENSE),
            indexes=tuple(s for s in index_specs(schema.fields, schema.option_texts) if s.column in names),
            most_embedded_bytes=options.get(opt.FILE_INDEX_IN_MANIFEST),
            external=ExternalPaths.of(options),
            fields=fields,
            blobs=blobs,
            blob_target_bytes=options.get(opt.BLOB_TARGET_FILE_SIZE) or target_bytes,
            write_cols=None if fields == schema.fields else names,
        )


class DataFileWriter:
    """Writes batches of one (partition, bucket) into files of the target size.

    Args:
        folder: the key prefix of the bucket, ending in a slash.
        name_stem: the unique start of the files' names; a counter and the suffix follow.
        travelling: small files may stay in memory, to be stored with the commit.
    """

    def __init__(self, store: Store, settings: FileSettings, folder: str, name_stem: str, travelling: bool) -> None:
        self._store, self._settings, self._folder = store, settings, folder
        self._stem, self._travelling = name_stem, travelling
        self._group_bytes = max(1, min(ROW_GROUP_BYTES, settings.target_bytes))
        self._held: list[pa.RecordBatch] = []
        self.held_bytes = 0
        self._sink: SpillingSink | None = None
        self._output: Output | None = None
        self._stats: StatsCollector | None = None
        self._index: FileIndexBuilder | None = None
        self._blobs = {field.name: self._blob_writer(field) for field in settings.blobs}
        self._count, self._turn = 0, int(random() * _TURNS)
        self.files: list[DataFile] = []
        self.changelog_files: list[DataFile] = []
        self.uploads: list[PendingUpload] = []
        self.written_keys: list[str] = []

    def write(self, batch: pa.RecordBatch) -> None:
        for part, size in self._slices(batch):
            if self.held_bytes + size > self._group_bytes:
                self.flush()
            self._held.append(part)
            self.held_bytes += size

    def _slices(self, batch: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Pieces of at most a row group, with their bytes, so that one large batch still makes files of a small target size."""
        size = batch.nbytes
        rows = max(_ROLL_CHECK_ROWS, -(-batch.num_rows // max(-(-size // self._group_bytes), 1)))
        if rows >= batch.num_rows:
            yield batch, size
            return
        for start in range(0, batch.num_rows, rows):
            part = batch.slice(start, rows)
            yield part, part.nbytes

    def flush(self) -> None:
        """Write the rows in memory as one row group. Close the file if it is large enough then."""
        if not self._held:
            return
        table = pa.Table.from_batches(self._held)
        self._held, self.held_bytes = [], 0
        for name, writer in self._blobs.items():
            writer.write(table.column(name))
        if self._blobs:
            table = table.drop_columns(list(self._blobs))
        table = self._stored(table)
        if self._output is None:
            self._open(table)
        assert self._output is not None and self._stats is not None and self._sink is not None
        self._stats.update(table)
        if self._index is not None:
            self._index.add(table)
        try:
            self._output.write(table)
        except pa.ArrowInvalid as error:
            if "Decimal" not in str(error):
                raise InvalidArgument(f"rows cannot be written: {error}") from error
            names = [name for name in table.column_names if pa.types.is_decimal(table.schema.field(name).type)]
            raise InvalidArgument(
                f"rows cannot be written: {error}, in one of the columns {', '.join(names)}: a sum has more digits than a file"
                " can hold for its type",
                next_step="give the column a larger precision with update_type",
            ) from error
        if self._sink.size >= self._settings.target_bytes:
            self._close()

    def finish(self) -> None:
        """Write the remaining rows. Afterwards `files` and `uploads` are complete."""
        self.flush()
        if self._output is not None:
            self._close()

    def _stored(self, rows: pa.Table) -> pa.Table:
        """Rows with the columns of a file. Called once for the rows of each row group, in order."""
        return rows

    def _described(self, file: DataFile, footer: Any) -> DataFile:
        """What more is known about a finished file. `footer` is that of a Parquet file."""
        return file

    def abort(self) -> None:
        """Stop, and discard the file that is being written. Files that were closed before remain."""
        self._held = []
        if self._sink is not None:
            self._sink.abort()
        for writer in self._blobs.values():
            writer.abort()

    def _open(self, first_rows: pa.Table) -> None:
        settings = self._settings
        self._sink = self._new_file(settings.suffix)
        self._output = settings.begin(self._sink, first_rows)
        self._index = _index_builder(settings.indexes) if settings.indexes else None
        is_parquet = settings.suffix.endswith(".parquet")
        self._stats = StatsCollector(settings.fields, settings.modes, settings.dense, parquet_footer=is_parquet)

    def _close(self) -> None:
        assert self._output is not None and self._stats is not None and self._sink is not None
        footer = self._output.close()
        value_stats, columns = self._stats.finish(footer)
        index = None if self._index is None else self._index.finish()
        rows, names = self._stats.row_count, self._settings.write_cols
        file = self._finished(self._sink, rows, value_stats, columns, names, index)
        self.files.append(self._described(file, footer))
        for writer in self._blobs.values():
            self.files.extend(writer.close())
        self._output = self._sink = self._stats = self._index = None

    def _blob_writer(self, field: Field) -> BlobFileWriter:
        from .blob_writer import BlobFileWriter

        settings = self._settings
        return BlobFileWriter(
            field, lambda: self._new_file(".blob"), self._finished, settings.blob_target_bytes, settings.dense
        )

    def _new_file(self, suffix: str) -> SpillingSink:
        name, place = f"{self._stem}-{self._count}{suffix}", self._folder
        self._count += 1
        if self._settings.external is not None:
            place = self._settings.external.folder(place, name, self._turn + self._count, random())
        return SpillingSink(self._store, place + name)

    def _finished(
        self,
        sink: SpillingSink,
        rows: int,
        value_stats: SimpleStats,
        stats_columns: tuple[str, ...] | None,
        write_cols: tuple[str, ...] | None,
        index: bytes | None = None,
    ) -> DataFile:
        """Make a file durable, with its index if that is stored beside it, and describe it."""
        self._store_file(sink)
        is_beside = index is not None and len(index) > self._settings.most_embedded_bytes
        if index is not None and is_beside:
            beside = SpillingSink(self._store, sink.key + INDEX_SUFFIX)
            beside.write(index)
            self._store_file(beside)
        return DataFile(
            file_name=sink.name,
            file_size=sink.size,
            row_count=rows,
            value_stats=value_stats,
            value_stats_cols=stats_columns,
            min_sequence_number=0,
            max_sequence_number=rows - 1,
            schema_id=self._settings.schema.id,
            extra_files=(sink.name + INDEX_SUFFIX,) if is_beside else (),
            creation_time=_local_wall_clock_ms(),
            embedded_file_index=None if is_beside else index,
            file_source=SOURCE_APPEND,
            external_path=None if self._settings.external is None else sink.key,
            write_cols=write_cols,
        )

    def _store_file(self, sink: SpillingSink) -> None:
        upload = sink.finish(self._travelling)
        if upload is not None:
            self.uploads.append(upload)
        else:
            self.written_keys.append(sink.key)


def _local_wall_clock_ms() -> int:
    """The current time as the format stores creation times: the local wall clock, as if it were UTC (format/manifests §6)."""
    now = time.time()
    return int((now + time.localtime(now).tm_gmtoff) * 1000)


def _index_builder(indexes: Sequence[IndexSpec]) -> FileIndexBuilder:
    from ....core.file_index.writing import FileIndexBuilder  # few tables have indexes

    return FileIndexBuilder(indexes)
