"""`spark.readStream.table(name)` and `df.writeStream.toTable(name)` for tables of ours.

Owns: these methods. Must not know: how a stream reads and writes. Source: decision 123.
Invariant: the stream is that of `format("lakelatch")` with the table's URL: a query may go on from the checkpoint of either.
"""

from __future__ import annotations

import sys
from typing import Any

from ...core.errors import InvalidArgument, Unsupported
from ..catalogs.names import Place
from ..catalogs.run import Run
from ..ddl.creating import How, NewTable, fields_of_frame, make
from ..options.catalog import NAME
from .naming import instead_of, parts, run_of
from .writer_v2 import given_options


def understand_streams(session: Any) -> None:
    """Let the streams of this kind of session (classic or Connect) know tables of ours."""
    reader = type(session.readStream)
    instead_of(reader, "table", _table)
    instead_of(sys.modules[reader.__module__].DataStreamWriter, "toTable", _to_table)


def _table(sparks: Any) -> Any:
    def table(self: Any, tableName: str) -> Any:  # noqa: N803 - Spark's name
        run, found = run_of(getattr(self, "_spark", None) or self._client), parts(tableName)
        located = run.names.in_warehouse(found) if run is not None and found else None
        if located is None:
            return sparks(self, tableName)
        _check_rows(located.name, located.system)
        return self.format(NAME).options(**located.options).load()

    return table


def _to_table(sparks: Any) -> Any:
    def to_table(
        self: Any,
        tableName: str,  # noqa: N803 - Spark's names
        format: Any = None,  # noqa: A002
        outputMode: Any = None,  # noqa: N803
        partitionBy: Any = None,  # noqa: N803
        queryName: Any = None,  # noqa: N803
        **options: Any,
    ) -> Any:
        run, found = run_of(_session_of(self)), parts(tableName)
        place = run.names.place(found) if run is not None and found else None
        if run is None or place is None:
            return sparks(self, tableName, format, outputMode, partitionBy, queryName, **options)
        if str(format or NAME).lower() not in (NAME, "paimon"):
            raise Unsupported(f"toTable({place.full!r}) with format {format!r}", next_step="leave format out")
        if partitionBy is not None:
            self.partitionBy(partitionBy)
        if _columns(self, "clustering"):
            raise Unsupported(
                f"toTable({place.full!r}) with clusterBy: the table says how its rows lie",
                next_step="leave clusterBy out; OPTIMIZE … ZORDER BY clusters",
            )
        _made(run, place, _columns(self, "partitioning"), self)
        located = run.names.in_warehouse(found)
        assert located is not None
        self.options(**given_options(located, options))
        return self.start(format=NAME, outputMode=outputMode, queryName=queryName)

    return to_table


def _made(run: Run, place: Place, partition_by: tuple[str, ...], writer: Any) -> None:
    """Make the table if there is none, as Spark's `toTable` does, with the columns of the stream."""
    _check_rows(place.full, place.system)
    if place.plain not in place.warehouse.catalog:
        make(run, place, NewTable(fields_of_frame(_frame_of(writer)), partition_by), None, How(if_not_exists=True))
        return
    keys = place.warehouse.catalog[place.plain].schema.partition_keys
    if partition_by and partition_by != keys:
        raise InvalidArgument(
            f"partitionBy is {list(partition_by)}, but {place.full} has {list(keys)}", next_step="leave it out"
        )


def _check_rows(name: str, system: str | None) -> None:
    if system is not None:
        raise Unsupported(f"{name}${system} is a system table, which is no stream", next_step="name the table itself")


def _columns(writer: Any, kind: str) -> tuple[str, ...]:
    """The columns of `partitionBy` or `clusterBy`, which Spark tells nobody, and no source written in Python."""
    if hasattr(writer, "_write_proto"):  # Spark Connect
        return tuple(getattr(writer._write_proto, f"{kind}_column_names"))
    field = writer._jwrite.getClass().getDeclaredField(f"{kind}Columns")
    field.setAccessible(True)
    found = field.get(writer._jwrite)
    return tuple(found.get().apply(i) for i in range(found.get().size())) if found.isDefined() else ()


def _session_of(writer: Any) -> Any:
    return getattr(writer, "_session", None) or writer._df.sparkSession


def _frame_of(writer: Any) -> Any:
    """The frame of a stream's writer, for its columns."""
    if hasattr(writer, "_df"):
        return writer._df
    from pyspark.sql.connect.dataframe import DataFrame

    return DataFrame(writer._write_stream._child, writer._session)
