"""Check the contents of data files, their indexes and deletion vectors against their manifests.

Owns: comparing row counts, null counts and bounds with footers. Must not know: rows (see `rows`), how files were found.
Source: format/statistics §1; format/manifests §6; format/deletion-vectors §1; format/data-files §1. Invariants: Statistics may
be wider than the data, never narrower. Where a footer has no value, nothing is compared. One damaged file does not end the
check.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from ...coordinator.history.timeline import Timeline
from ...core.errors import TableCorrupt, Unsupported
from ...core.file_index.options import split_name
from ...core.file_index.reading import FileIndex
from ...core.metadata.data_file import DataFile
from ...core.metadata.deletion_vector import INDEX_TYPE, INDEX_VERSION, decode_vector, vector_end
from ...core.metadata.schema import TableSchema
from ...core.options import TableOptions
from ...core.paths import BLOB_FORMAT, format_of
from ...core.rows.dates import days_to_date
from ...core.rows.types import INTEGER_ROOTS, STRING_ROOTS, AtomicType, Field, MapType
from ...core.rows.values import order_key, root_of
from ...core.statistics.collect import ColumnStats, decode_stats, file_stats_fields
from ..formats.blob_reader import blob_count
from ..formats.data_source import DataSource
from ..formats.external import located
from ..formats.orc_reader import tail_of
from ..scan.index_pruning import beside, embedded_index, sidecar_of
from .files import Expected
from .finding import Findings
from .rows import RowCheck

_COMPARED = frozenset(("BOOLEAN", "FLOAT", "DOUBLE", "DECIMAL", "DATE", *INTEGER_ROOTS, *STRING_ROOTS))
"""The types whose footer bounds have the Python form of `core.rows.values`."""
_SURELY_WHOLE = 32
"""Longer text bounds in a footer may be cut off."""


class DataCheck:
    """Checks existing files; `schemas` are all that can be read, since a file is described by that with which it was written."""

    def __init__(
        self, timeline: Timeline, schemas: Mapping[int, TableSchema], findings: Findings, deep: bool = False
    ) -> None:
        self._timeline, self._schemas, self._findings = timeline, schemas, findings
        self._rows = RowCheck(schemas[max(schemas)].options, findings) if deep and schemas else None

    def check(self, files: Sequence[Expected]) -> None:
        rows = {f.entry.file.file_name: f.entry.file.row_count for f in files if f.entry is not None}
        self._timeline.parallel(self._check_data, [f for f in files if f.entry is not None])
        vectors = [f for f in files if f.index is not None and f.index.file.index_type == INDEX_TYPE]
        self._timeline.parallel(partial(self._check_vectors, rows=rows), vectors)

    # ----------------------------------------------------------------------------------------------------- data files

    def _check_data(self, expected: Expected) -> None:
        assert expected.entry is not None
        key, file = expected.key, expected.entry.file
        if self._reads(key, file):  # pyarrow may end the process at a damaged footer whose rows it refuses to read
            self._findings.attempt(key, lambda: self._open(key, file))
        if file.embedded_file_index is not None:
            self._findings.attempt(key, lambda: self._check_index(embedded_index(file), file))
        sidecar = self._findings.attempt(key, lambda: sidecar_of(file, key))
        if sidecar is not None:
            self._findings.attempt(
                sidecar, lambda: self._check_index(beside(self._timeline.store, sidecar, file), file)
            )

    def _reads(self, key: str, file: DataFile) -> bool:
        """Read every row, if that was asked for. False if the file cannot be read."""
        schema, rows = self._schemas.get(file.schema_id), self._rows
        if rows is None or schema is None:
            return True
        store, inside = located(self._timeline.store, key)
        return bool(self._findings.attempt(key, lambda: rows.check(store, inside, key, file, schema)))

    def _check_index(self, index: FileIndex, file: DataFile) -> None:
        """Check that each index is complete and covers the file's rows. Values are not compared."""
        schema = self._schemas.get(file.schema_id)
        index.check(lambda name: None if schema is None else _indexed_type(schema, name))

    def _open(self, key: str, file: DataFile) -> None:
        store, inside = located(self._timeline.store, key)
        if format_of(file.file_name) == BLOB_FORMAT:
            self._check_rows(key, file, blob_count(DataSource(store, inside, file, TableOptions({}))))
            return
        source = store.open_input(inside)
        try:
            match format_of(file.file_name):
                case "parquet":
                    self._check_parquet(key, file, source)
                case "orc":
                    self._check_rows(key, file, _orc_rows(source, key))
                case "avro":
                    self._check_rows(key, file, _avro_rows(source, key))
                case "csv" | "json":
                    pass  # they have no footer: only reading them tells how many rows they have
                case other:
                    self._findings.warning(key, "", f"has format {other!r}, so it was not opened")
        finally:
            source.close()

    def _check_rows(self, key: str, file: DataFile, rows: int) -> None:
        if rows != file.row_count:
            self._findings.error(key, "_ROW_COUNT", f"has {rows} rows; its manifest says {file.row_count}")

    def _check_parquet(self, key: str, file: DataFile, source: Any) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            footer = pq.read_metadata(source)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise TableCorrupt(f"{key} is cut off or damaged: {' '.join(str(error).split())}") from error
        self._check_rows(key, file, footer.num_rows)
        schema = self._schemas.get(file.schema_id)
        fields = None
        if schema is not None:
            fields = file_stats_fields(schema.fields, file.write_cols, file.value_stats_cols)
        if fields is None:
            return
        positions = {footer.schema.column(i).path: i for i in range(footer.num_columns)}
        for field, said in zip(fields, decode_stats(file.value_stats, fields, key), strict=True):
            if field.name in positions:
                self._check_column(key, field, said, _chunks(footer, positions[field.name]))

    def _check_column(self, key: str, field: Field, said: ColumnStats, chunks: Sequence[Any]) -> None:
        if not chunks or any(chunk is None for chunk in chunks):
            return
        if said.null_count is not None and all(chunk.has_null_count for chunk in chunks):
            nulls = sum(chunk.null_count for chunk in chunks)
            if nulls != said.null_count:
                message = f"count {said.null_count} nulls in column {field.name!r}, but the file has {nulls}"
                self._findings.error(key, "_VALUE_STATS", message)
        root = root_of(field.type)
        if root not in _COMPARED:
            return
        for chunk in chunks:
            if not chunk.has_min_max:
                continue
            try:
                if root == "DATE" and chunk.physical_type == "INT32":  # Python's dates end with the year 9999
                    low, high = days_to_date(chunk.min_raw), days_to_date(chunk.max_raw)
                else:
                    low, high = chunk.min, chunk.max
            except pa.ArrowNotImplementedError:  # pyarrow up to 21 does not show those of small decimals
                continue
            if any(isinstance(v, str | bytes) and len(v) >= _SURELY_WHOLE for v in (low, high)):
                continue
            try:
                outside = (said.min is not None and order_key(low) < order_key(said.min)) or (
                    said.max is not None and order_key(high) > order_key(said.max)
                )
            except TypeError:  # an older writer's physical type, which cannot be compared
                continue
            if outside and not _zeros(said, low, high):
                span = f"{said.min!r} to {said.max!r}"
                message = f"of column {field.name!r} span {span}, but the file spans {low!r} to {high!r}"
                self._findings.error(key, "_VALUE_STATS", message)
                return

    # ----------------------------------------------------------------------------------------------- deletion vectors

    def _check_vectors(self, expected: Expected, rows: Mapping[str, int]) -> None:
        assert expected.index is not None
        store, key = located(self._timeline.store, expected.key)
        data = self._findings.attempt(expected.key, lambda: store.get(key))
        if data is None:
            return
        if data[:1] != INDEX_VERSION:
            self._findings.error(
                expected.key, "", f"begins with version {data[:1].hex() or 'nothing'}; only version 1 is supported"
            )
            return
        for found in expected.index.file.deletion_vectors or ():
            vector = data[found.offset : vector_end(found)]
            decode = partial(decode_vector, vector, found, rows.get(found.data_file), expected.key)
            self._findings.attempt(expected.key, decode)


def _chunks(footer: Any, column: int) -> list[Any]:
    """The statistics of a column for each row group that has rows; None if a row group has no statistics."""
    groups = (footer.row_group(i) for i in range(footer.num_row_groups))
    return [group.column(column).statistics for group in groups if group.num_rows]


def _indexed_type(schema: TableSchema, name: str) -> AtomicType | None:
    column, key = split_name(name)
    data_type = schema.by_name[column].type if column in schema.by_name else None
    if key is not None:
        data_type = data_type.value if isinstance(data_type, MapType) else None
    return data_type if isinstance(data_type, AtomicType) else None


def _zeros(said: ColumnStats, low: Any, high: Any) -> bool:
    """Compare zeros as equal, because footers have 0.0 for both zeros."""
    return isinstance(low, float) and (
        (low == 0 == said.min and not high > (said.max or 0)) or (high == 0 == said.max and not low < (said.min or 0))
    )


def _orc_rows(source: Any, key: str) -> int:
    try:
        return sum(stripe.rows for stripe in tail_of(source).stripes)
    except (OSError, ValueError) as error:
        raise TableCorrupt(f"{key} is cut off or damaged: {' '.join(str(error).split())}") from error


def _avro_rows(source: Any, key: str) -> int:
    import fastavro

    try:
        return sum(block.num_records for block in fastavro.block_reader(source))
    except ValueError as error:
        if "codec" in str(error):
            raise Unsupported(f"{key}: {error}") from error
        raise TableCorrupt(f"{key} is damaged: {error}") from error
    except Exception as error:
        raise TableCorrupt(f"{key} is cut off or damaged: {type(error).__name__}: {error}") from error
