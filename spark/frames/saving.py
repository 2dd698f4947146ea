"""`df.write.saveAsTable(name)` and `insertInto(name)` for tables of ours.

Owns: these methods for names of registered catalogs, and `insertInto` for names of Spark's catalog, too (`names_of_urls` has its
`saveAsTable`). Must not know: how rows are written. Source: decision 123.
Invariant: `saveAsTable` matches columns by name, `insertInto` by position, as Spark does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...core.errors import InvalidArgument, Unsupported
from ...table.table import Table
from ..catalogs.names import Located, Place
from ..catalogs.run import Run
from ..columns import storable
from ..ddl.creating import FORMATS, How, NewTable, make
from ..ddl.errors import AlreadyThere
from ..options.source_options import SourceOptions
from ..sessions.session import overwrite_mode, setting
from ..types import spark_schema
from ..write_job import carry_out
from .names_of_urls import Saved, asked_of_writer, frame_of_writer, save_in_spark
from .naming import instead_of, parts, run_of
from .writer_v2 import given_options

_ITSELF = "name the table itself"
_DEFAULT_FORMAT = "spark.sql.sources.default"


def understand_saving(session: Any) -> None:
    """Let the writers of this kind of session (classic or Connect) know tables of ours."""
    kind = type(session.range(0).write)
    instead_of(kind, "saveAsTable", _save_as_table)
    instead_of(kind, "insertInto", _insert_into)


def _save_as_table(sparks: Any) -> Any:
    def save_as_table(
        self: Any,
        name: str,
        format: Any = None,  # noqa: A002 - these are Spark's names
        mode: Any = None,
        partitionBy: Any = None,  # noqa: N803
        **options: Any,
    ) -> None:
        run = run_of(self._spark)
        place = run.names.place(parts(name)) if run is not None and parts(name) else None
        if run is not None:
            self.mode(mode).options(**options)
            if partitionBy is not None:
                self.partitionBy(partitionBy)
            if format is not None:
                self.format(format)
            if place is not None:
                save(run, place, frame_of_writer(self), asked_of_writer(self))
                return
            if save_in_spark(self, run, name):
                return
        sparks(self, name, format, mode, partitionBy, **options)

    return save_as_table


def save(run: Run, place: Place, frame: Any, told: Saved) -> None:
    """Write a frame into a table of a registered catalog, which is made if there is none."""
    default = setting(run.session, _DEFAULT_FORMAT, "parquet")
    told.check_layout(place.full)
    if told.source.lower() not in (*FORMATS, default.lower(), ""):
        raise Unsupported(
            f"saveAsTable({place.full!r}) with format {told.source!r}: the tables of this catalog have one format",
            next_step="leave format out",
        )
    if place.system is not None:
        raise Unsupported(f"{place.full}${place.system} is a system table, which can only be read", next_step=_ITSELF)
    if place.plain not in place.warehouse.catalog:
        make(run, place, NewTable(None, told.partition_by), lambda: frame, How(), told.options)
        return
    if told.mode == "error":
        raise AlreadyThere(
            f"there is a table {place.full}",
            next_step="say what happens to its rows: .mode('append') or .mode('overwrite')",
        )
    if told.mode == "ignore":
        return
    located = run.names.in_warehouse((place.warehouse.name, place.database, place.table))
    assert located is not None
    table, options = located.open(), SourceOptions(given_options(located, told.options))
    if told.partition_by and told.partition_by != table.schema.partition_keys:
        raise InvalidArgument(
            f"partitionBy is {list(told.partition_by)}, but {place.full} has {list(table.schema.partition_keys)}",
            next_step="leave it out",
        )
    told.check_whole(place.full, table.schema.names, frame)
    _write(run, frame, table, options, overwrite=told.mode == "overwrite")


def _write(run: Run, frame: Any, table: Table, options: SourceOptions, *, overwrite: bool) -> None:
    wanted = options.asked(table.schema, overwrite)
    if wanted.mode == "overwrite" and wanted.partition is None and overwrite_mode(run.session) != "dynamic":
        wanted = replace(wanted, partition={})
    carry_out(frame, wanted)


def _insert_into(sparks: Any) -> Any:
    def insert_into(self: Any, tableName: str, overwrite: Any = None) -> None:  # noqa: N803 - Spark's names
        run = run_of(self._spark)
        located = run.names.locate(parts(tableName)) if run is not None and parts(tableName) else None
        if run is None or located is None:
            sparks(self, tableName, overwrite)
            return
        told = asked_of_writer(self)
        insert(
            run,
            located,
            frame_of_writer(self),
            told,
            told.mode == "overwrite" if overwrite is None else bool(overwrite),
        )

    return insert_into


def insert(run: Run, located: Located, frame: Any, told: Saved, overwrite: bool) -> None:
    """Write a frame's columns, by their position, into a table that exists."""
    told.check_layout(located.name)
    if told.partition_by:
        raise InvalidArgument(
            "insertInto with partitionBy: the table says its partitions", next_step="leave partitionBy out"
        )
    if located.system is not None:
        raise Unsupported(f"{located.name} is a system table, which can only be read", next_step=_ITSELF)
    table, options = located.open(), SourceOptions(given_options(located, told.options))
    names = table.schema.names
    if len(names) != len(frame.columns):
        raise InvalidArgument(
            f"the frame has {len(frame.columns)} columns, and insertInto {located.name} needs {len(names)}: {', '.join(names)}"
        )
    rows = storable(frame.toDF(*names), spark_schema(table.schema.fields), by_name=False)
    _write(run, rows, table, options, overwrite=overwrite)
