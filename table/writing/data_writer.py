"""Write the data files of one (partition, bucket).

Owns: the size of row groups and files, statistics, indexes, the files' names, and whether a file's bytes are stored now or with
the commit.
Must not know: the meaning of partitions, commits. Source: format/data-files §1, §2, §3, §4; format/statistics §1;
format/manifests §6.
Invariants: Memory is bounded by one row group. A file's statistics describe exactly the rows in it. Names are unique.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import random
from typing import Any

import pyarrow as pa

from ...backends.elsewhere import located
from ...backends.store import Store
from ...coordinator.commit.message import PendingUpload
from ...core import options as opt
from ...core.external_paths import ExternalPaths
from ...core.file_index.options import IndexSpec, index_specs
from ...core.file_index.writing import FileIndexBuilder
from ...core.metadata.data_file import SOURCE_APPEND, DataFile
from ...core.metadata.schema import TableSchema
from ...core.paths import INDEX_SUFFIX
from ...core.statistics.collect import StatsCollector, StatsMode
from ..formats.writing import OpenOutput, Output, output_of, suffix_of

ROW_GROUP_BYTES = 64 << 20
"""The Arrow bytes of a row group, which is also what a writer holds in memory."""
TRAVELLING_BYTES = 4 << 20
"""A finished file up to this size may be stored together with its commit."""
SPILL_BYTES = 16 << 20
DEFAULT_TARGET_BYTES = 256 << 20
_ROLL_CHECK_ROWS = 1000
_TURNS = 1 << 16
"""Writers begin at a random location of several, so that the files of many small commits are spread."""


@dataclass(frozen=True)
class FileSettings:
    """How a table's data files are written. Made once per writer.

    Attributes:
        target_bytes: a file is closed when it has grown to this size.
        indexes: the indexes that each file gets.
        most_embedded_bytes: larger indexes are stored beside their file, smaller ones in its manifest entry.
        external: where files are stored; None for the table's own folder.
    """

    schema: TableSchema
    begin: OpenOutput
    target_bytes: int
    suffix: str
    modes: dict[str, StatsMode]
    dense: bool
    indexes: tuple[IndexSpec, ...]
    most_embedded_bytes: int
    external: ExternalPaths | None = None

    @staticmethod
    def of(schema: TableSchema) -> FileSettings:
        """Read the table's options.

        Raises:
            Unsupported: a file format, codec or kind of index that lakelatch does not write, or a column that the format
                cannot hold.
            InvalidArgument: an invalid option for indexes.
        """
        options = schema.options
        target_bytes = options.get(opt.TARGET_FILE_SIZE) or DEFAULT_TARGET_BYTES
        modes = {
            f.name: StatsMode.parse(options.stats_mode_of(f.name, i), f"statistics mode of column {f.name!r}")
            for i, f in enumerate(schema.fields)
        }
        return FileSettings(
            schema=schema,
            begin=output_of(schema, target_bytes),
            target_bytes=target_bytes,
            suffix=suffix_of(schema),
            modes=modes,
            dense=options.get(opt.STATS_DENSE),
            indexes=index_specs(schema.fields, schema.option_texts),
            most_embedded_bytes=options.get(opt.FILE_INDEX_IN_MANIFEST),
            external=ExternalPaths.of(options),
        )


class SpillingSink:
    """A file that stays in memory while it is small, and is streamed to the store once it is larger."""

    def __init__(self, store: Store, key: str) -> None:
        self._store, self._key = store, key
        self._parts: list[bytes] = []
        self._held = 0
        self._output: Any = None
        self._tail: list[bytes] | None = None
        self.size = 0
        self.closed = False

    def write(self, data: Any) -> int:
        block = bytes(data)
        self.size += len(block)
        if self._tail is not None:
            self._tail.append(block)
            return len(block)
        if self._output is not None:
            self._output.write(block)
            return len(block)
        self._parts.append(block)
        self._held += len(block)
        if self._held > SPILL_BYTES:
            self._output = self._store.open_output(self._key)
            for part in self._parts:
                self._output.write(part)
            self._parts = []
        return len(block)

    def hold(self) -> None:
        """Hold back the bytes that are written from now on."""
        self._tail = []

    def release(self, change: Callable[[bytes], bytes]) -> None:
        """Write the bytes that were held back, after changing them."""
        held = b"".join(self._tail or ())
        self._tail = None
        self.size -= len(held)
        self.write(change(held))

    def tell(self) -> int:
        return self.size

    def seekable(self) -> bool:
        return False

    def flush(self) -> None:
        return

    def close(self) -> None:
        self.closed = True

    def finish(self, travelling: bool) -> PendingUpload | None:
        """Make the file durable, or return its bytes if it is small and may be stored with the commit."""
        if self._output is not None:
            self._output.close()
            return None
        data = b"".join(self._parts)
        if travelling and len(data) <= TRAVELLING_BYTES:
            return PendingUpload(self._key, data)
        self._store.put(self._key, data)
        return None

    def abort(self) -> None:
        self._parts = []
        if self._output is not None:
            self._output.abort()


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
        self._name, self._place = "", folder
        self._count, self._turn = 0, int(random() * _TURNS)
        self.files: list[DataFile] = []
        self.uploads: list[PendingUpload] = []
        self.written_keys: list[str] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Write a batch that has the table's columns."""
        for part in self._slices(batch):
            self._held.append(part)
            self.held_bytes += part.nbytes
            if self.held_bytes >= self._group_bytes:
                self.flush()

    def _slices(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Pieces of at most a row group, so that one large batch still makes files of a small target size."""
        pieces = max(1, batch.nbytes // self._group_bytes)
        rows = max(_ROLL_CHECK_ROWS, -(-batch.num_rows // pieces))
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)

    def flush(self) -> None:
        """Write the rows in memory as one row group. Close the file if it is large enough then."""
        if not self._held:
            return
        table = pa.Table.from_batches(self._held)
        self._held, self.held_bytes = [], 0
        if self._output is None:
            self._open(table)
        assert self._output is not None and self._stats is not None and self._sink is not None
        self._stats.update(table)
        if self._index is not None:
            self._index.add(table)
        self._output.write(table)
        if self._sink.size >= self._settings.target_bytes:
            self._close()

    def finish(self) -> None:
        """Write the remaining rows. Afterwards `files` and `uploads` are complete."""
        self.flush()
        if self._output is not None:
            self._close()

    def abort(self) -> None:
        """Stop, and discard the file that is being written. Files that were closed before remain."""
        self._held = []
        if self._sink is not None:
            self._sink.abort()

    def _open(self, first_rows: pa.Table) -> None:
        settings = self._settings
        self._name = f"{self._stem}-{self._count}{settings.suffix}"
        self._count += 1
        if settings.external is not None:
            self._place = settings.external.folder(self._folder, self._name, self._turn + self._count, random())
        self._sink = self._new_sink(self._place + self._name)
        self._output = settings.begin(self._sink, first_rows)
        self._index = FileIndexBuilder(settings.indexes) if settings.indexes else None
        is_parquet = settings.suffix.endswith(".parquet")
        self._stats = StatsCollector(settings.schema.fields, settings.modes, settings.dense, parquet_footer=is_parquet)

    def _close(self) -> None:
        assert self._output is not None and self._stats is not None and self._sink is not None
        footer = self._output.close()
        value_stats, columns = self._stats.finish(footer)
        index = None if self._index is None else self._index.finish()
        self._finish(self._sink, self._place + self._name)
        is_beside = index is not None and len(index) > self._settings.most_embedded_bytes
        if index is not None and is_beside:
            beside = self._new_sink(self._place + self._name + INDEX_SUFFIX)
            beside.write(index)
            self._finish(beside, self._place + self._name + INDEX_SUFFIX)
        rows = self._stats.row_count
        self.files.append(
            DataFile(
                file_name=self._name,
                file_size=self._sink.size,
                row_count=rows,
                value_stats=value_stats,
                value_stats_cols=columns,
                min_sequence_number=0,
                max_sequence_number=rows - 1,
                schema_id=self._settings.schema.id,
                extra_files=(self._name + INDEX_SUFFIX,) if is_beside else (),
                creation_time=_local_wall_clock_ms(),
                embedded_file_index=None if is_beside else index,
                file_source=SOURCE_APPEND,
                external_path=None if self._settings.external is None else self._place + self._name,
            )
        )
        self._output = self._sink = self._stats = self._index = None

    def _new_sink(self, key: str) -> SpillingSink:
        return SpillingSink(*located(self._store, key))

    def _finish(self, sink: SpillingSink, key: str) -> None:
        upload = sink.finish(self._travelling and self._settings.external is None)
        if upload is not None:
            self.uploads.append(upload)
        else:
            self.written_keys.append(key)


def _local_wall_clock_ms() -> int:
    """The current time as the format stores creation times: the local wall clock, as if it were UTC (format/manifests §6)."""
    now = time.time()
    return int((now + time.localtime(now).tm_gmtoff) * 1000)
