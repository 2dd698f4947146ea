"""Write the data files of one (partition, bucket) of a table with a primary key: sorted runs, and files of changelogs.

Owns: the columns that such files have besides the table's, their smallest and largest key, their sequence numbers, and what
depends on the level. Must not know: how rows get numbers or are merged. Source: format/primary-keys §1; format/statistics §1.
Invariant: What the manifest says of a file (keys, sequence numbers, rows that delete) describes exactly the rows in it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ....backends.store import Store
from ....core import options as opt
from ....core.errors import InvalidArgument, Unsupported
from ....core.metadata.data_file import SOURCE_APPEND, DataFile
from ....core.metadata.schema import ROW_SEQUENCE, TableSchema
from ....core.metadata.schemas.merge_rules import VALUE_KIND, key_fields, row_fields
from ....core.rows.arrow import arrow_schema, to_arrow_field
from ....core.rows.binary.binary_row import encode_row
from ....core.rows.types import Field
from ....core.rows.values import column_values
from ....core.statistics.collect import KEY_MODE, StatsCollector, StatsMode
from ...formats.writing import output_of
from .data_writer import DataFileWriter, FileSettings

_DELETES = [1, 3]
"""-U and -D."""


@dataclass(frozen=True)
class KeyFileSettings:
    """How the files of one level of a table are written. Made once per writer.

    Attributes:
        files: what these files share with those of tables without a key.
        keys, stored_keys: the key columns as the table names them, and as files do: `_KEY_<name>`, or the same in thin mode.
        key_modes: the mode of the statistics of each of `stored_keys`.
        rows: the columns of the rows that are written.
    """

    files: FileSettings
    keys: tuple[Field, ...]
    stored_keys: tuple[Field, ...]
    key_modes: dict[str, StatsMode]
    rows: pa.Schema
    is_thin: bool

    @staticmethod
    def of(schema: TableSchema, *, level: int = 0, changelog: bool = False) -> KeyFileSettings:
        """Read the table's options, some of which depend on the level (`file.format.per.level` and others).

        Files of a changelog have options of their own, and no indexes. Errors are those of `FileSettings.of`.
        """
        schema = _as_written(schema, level, changelog)
        if schema.options.get(opt.FILE_FORMAT) == "csv":
            raise Unsupported(
                "writing CSV files of a table with a primary key is not supported",
                next_step="use another 'file.format'",
            )
        files = FileSettings.of(schema)
        is_thin = schema.options.get(opt.THIN_MODE)
        keys = tuple(schema.by_name[name] for name in schema.trimmed_primary_keys)
        rows = row_fields(schema)
        stored_keys = keys if is_thin else key_fields(schema)
        modes, key_modes = _modes(schema, files.suffix, stored_keys, is_thin)
        columns = rows if is_thin else (*stored_keys, *rows)
        files = replace(
            files,
            begin=output_of(schema, files.target_bytes, columns),
            modes=modes,
            indexes=() if changelog else files.indexes,
        )
        return KeyFileSettings(files, keys, stored_keys, key_modes, arrow_rows(schema), is_thin)


def arrow_rows(schema: TableSchema) -> pa.Schema:
    """The Arrow schema of rows with `_SEQUENCE_NUMBER` and `_VALUE_KIND`."""
    return arrow_schema(row_fields(schema))


def _as_written(schema: TableSchema, level: int, changelog: bool) -> TableSchema:
    """The schema with the options of one level, or of changelogs, as those of all files."""
    options, texts = schema.options, dict(schema.option_texts)
    for option, by_level, of_changelog in (
        (opt.FILE_FORMAT, opt.FILE_FORMAT_PER_LEVEL, opt.CHANGELOG_FILE_FORMAT),
        (opt.FILE_COMPRESSION, opt.FILE_COMPRESSION_PER_LEVEL, opt.CHANGELOG_FILE_COMPRESSION),
        (opt.STATS_MODE, opt.STATS_MODE_PER_LEVEL, opt.CHANGELOG_FILE_STATS),
    ):
        chosen = options.get(of_changelog) if changelog else None
        chosen = chosen or options.get(by_level).get(level)
        if chosen is not None:
            texts[option.key] = chosen
    return replace(schema, option_texts=texts)


def _modes(
    schema: TableSchema, suffix: str, stored_keys: tuple[Field, ...], is_thin: bool
) -> tuple[dict[str, StatsMode], dict[str, StatsMode]]:
    """The modes of the statistics of the table's columns and of the key columns, as Apache Paimon chooses them.

    Key columns have truncate(128), but in Avro files the mode of the table; they count there as its first columns.
    """
    options, is_avro = schema.options, suffix.endswith(".avro")
    skipped = (0 if is_thin else len(stored_keys)) + 2 if is_avro else 0

    def mode_of(name: str, position: int) -> StatsMode:
        return StatsMode.parse(options.stats_mode_of(name, position), f"statistics mode of column {name!r}")

    key_names = {f.name for f in stored_keys} if is_thin and not is_avro else set()
    modes, counted = {}, skipped
    for field in schema.fields:
        is_own = f"fields.{field.name}.stats-mode" in options.texts
        if field.name in key_names and not is_own:
            modes[field.name] = KEY_MODE
            continue
        modes[field.name] = mode_of(field.name, counted)
        counted += 1
    if is_thin:
        return modes, {f.name: modes[f.name] for f in stored_keys}
    return modes, {f.name: mode_of(f.name, i) if is_avro else KEY_MODE for i, f in enumerate(stored_keys)}


class KeyFileWriter(DataFileWriter):
    """Writes rows of one (partition, bucket) into files of the target size.

    Rows are batches with the columns `_SEQUENCE_NUMBER` (int64), `_VALUE_KIND` (int8) and those of the table, in this order.
    They are sorted by key over all calls of `write`. A file of a level has one row per key; a file of a changelog has any
    number. `source` is `SOURCE_APPEND` or `SOURCE_COMPACT`; `settings` are given if several writers share them.
    """

    def __init__(
        self,
        store: Store,
        schema: TableSchema,
        folder: str,
        name_stem: str,
        *,
        level: int = 0,
        source: int = SOURCE_APPEND,
        travelling: bool = False,
        changelog: bool = False,
        settings: KeyFileSettings | None = None,
    ) -> None:
        self._keyed = settings or KeyFileSettings.of(schema, level=level, changelog=changelog)
        super().__init__(store, self._keyed.files, folder, name_stem, travelling)
        self._level, self._source = level, source
        self._begin()

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows; refuses a batch with other columns."""
        if batch.schema.names != self._keyed.rows.names:
            raise InvalidArgument(
                f"rows with a key have the columns {self._keyed.rows.names}, not {batch.schema.names}"
            )
        super().write(batch)

    def _begin(self) -> None:
        keyed = self._keyed
        is_parquet = keyed.files.suffix.endswith(".parquet")
        self._key_stats = StatsCollector(keyed.stored_keys, keyed.key_modes, False, parquet_footer=is_parquet)
        self._min_key: bytes | None = None
        self._max_key = b""
        self._sequences: list[int] = []
        self._deletes = 0

    def _stored(self, rows: pa.Table) -> pa.Table:
        keyed = self._keyed
        if self._min_key is None:
            self._min_key = self._key(rows, 0)
        self._max_key = self._key(rows, rows.num_rows - 1)
        span = pc.min_max(rows.column(ROW_SEQUENCE.name))
        self._sequences += [span["min"].as_py(), span["max"].as_py()]
        self._deletes += pc.sum(pc.is_in(rows.column(VALUE_KIND.name), value_set=pa.array(_DELETES, pa.int8()))).as_py()
        if not keyed.is_thin:
            for i, (stored, key) in enumerate(zip(keyed.stored_keys, keyed.keys, strict=True)):
                rows = rows.add_column(i, to_arrow_field(stored), rows.column(key.name))
        self._key_stats.update(rows)
        return rows

    def _key(self, rows: pa.Table, position: int) -> bytes:
        row = rows.slice(position, 1)
        values = [column_values(row.column(f.name), f.type)[0] for f in self._keyed.keys]
        return encode_row(values, [f.type for f in self._keyed.keys])

    def _described(self, file: DataFile, footer: Any) -> DataFile:
        key_stats, _ = self._key_stats.finish(footer)
        assert self._min_key is not None
        described = file._replace(
            min_key=self._min_key,
            max_key=self._max_key,
            key_stats=key_stats,
            min_sequence_number=min(self._sequences),
            max_sequence_number=max(self._sequences),
            level=self._level,
            delete_row_count=self._deletes,
            file_source=self._source,
        )
        self._begin()
        return described
