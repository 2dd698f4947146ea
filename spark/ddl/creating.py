"""CREATE TABLE, CREATE TABLE … LIKE, DROP TABLE and RENAME, in registered catalogs and, USING lakelatch, in Spark's own.

Owns: these statements. Must not know: how the query of CREATE TABLE … AS is read.
Source: decisions 23 and 123. Invariants: what a statement says and the format cannot keep is refused. In a registered catalog
DROP TABLE deletes the table; in Spark's own it removes the name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ...core.errors import InvalidArgument, TableExists, TableNotFound, Unsupported
from ...core.paths import DEFAULT_BRANCH
from ...core.rows.types import Field
from ...table.create import Schema
from ...table.table import Table
from ..catalogs.errors import TableMissing
from ..catalogs.names import Place
from ..catalogs.queries import frame_of
from ..catalogs.run import Run
from ..grammar.column_lists import column_list
from ..grammar.pieces import Text
from ..grammar.table_statements import CreateTable, CreateTableLike, DropTable, RenameTable
from ..options.asked import Asked
from ..options.catalog import NAME
from ..options.source_options import STORAGE_PREFIX, SourceOptions
from ..reading.read_marks import read_before
from ..sessions.identity import as_options, identity_of
from ..sessions.session import tells_case
from ..types import from_spark_schema
from ..write_job import carry_out, take_back
from .columns import constant, declared
from .databases import check_database, nothing
from .errors import AlreadyThere, Refusal
from .replacing import check_replaceable, replaced

FORMATS = (None, NAME, "paimon")


@dataclass(frozen=True)
class NewTable:
    """What a table is to be: its columns, None for those of a query, its partitions, options and comment."""

    fields: tuple[Field, ...] | None
    partition_by: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None


@dataclass(frozen=True)
class How:
    """What becomes of a table that exists; `must_exist` says that there must be one, `travels` that the rows are old ones."""

    if_not_exists: bool = False
    replaces: bool = False
    must_exist: bool = False
    travels: bool = False


# ------------------------------------------------------------------------------------------------------------- create


def carry_out_create_table(run: Run, statement: CreateTable) -> Any:
    """CREATE TABLE in a registered catalog; None for a name of Spark's."""
    place = run.names.place(statement.name, views=False)
    if place is None:
        return None
    check_using(place, statement.using)
    if statement.location is not None or statement.other:
        what = "LOCATION" if statement.location is not None else statement.other[0]
        raise Unsupported(
            f"CREATE TABLE {place.full} with {what}",
            next_step="leave it out: a table lies where its name says, and TBLPROPERTIES has 'bucket' and 'bucket-key'",
        )
    twice = sorted(statement.options.keys() & statement.properties.keys())
    if twice:
        raise InvalidArgument(f"OPTIONS and TBLPROPERTIES both give {twice[0]!r}", next_step="write it once")
    fields = None if statement.columns is None else columns_of(run, statement.columns)
    if fields is not None and statement.query is not None:
        raise InvalidArgument(
            "CREATE TABLE … AS takes its columns from the query", next_step="leave the list of columns out"
        )
    rows = None if statement.query is None else partial(frame_of, run, statement.query)
    if fields is None and rows is None:
        raise InvalidArgument(f"CREATE TABLE {place.full} has no columns", next_step="add a list of columns")
    wanted = NewTable(fields, statement.partition_by, {**statement.options, **statement.properties}, statement.comment)
    travels = statement.query is not None and statement.query.travels
    how = How(statement.if_not_exists, statement.replace, statement.must_exist, travels)
    with identity_of(run.session, commits=rows is not None or statement.replace) as about:
        make(run, place, wanted, rows, how, as_options(about))
    return nothing(run)


def make(
    run: Run,
    place: Place,
    wanted: NewTable,
    rows_of: Callable[[], Any] | None,
    how: How,
    write_options: Mapping[str, str] | None = None,
) -> None:
    """Make a table, and write the rows of a frame into it; also for `df.writeTo`.

    Args:
        rows_of: makes the frame; None for a table without rows.
        write_options: options of the write, as the data source has them.

    Raises:
        TableExists, TableNotFound: there is a table, or none.
    """
    check_plain(place, "CREATE TABLE")
    check_database(place.warehouse, place.database)
    there = place.plain in place.warehouse.catalog
    if there and how.if_not_exists:
        return
    if there and not how.replaces:
        raise AlreadyThere(
            f"there is a table {place.full}",
            next_step="add IF NOT EXISTS, or CREATE OR REPLACE TABLE, which replaces its rows",
        )
    if how.must_exist and not there:
        raise TableMissing(place.full, "there is no table", next_step="CREATE OR REPLACE TABLE")
    old = place.warehouse.catalog[place.plain] if there else None
    newest = None if old is None else old.snapshot()
    frame = None if rows_of is None else rows_of()
    fields = fields_of_frame(frame) if wanted.fields is None else wanted.fields
    wanted = replace(wanted, fields=fields, partition_by=_known(run, fields, wanted.partition_by))
    if old is not None:
        check_replaceable(place.full, old.schema, wanted)
        asked = asked_of(place, write_options)
        if frame is not None:
            asked = replace(asked, read_snapshot=read_before(frame, old, newest, how.travels))
        replaced(old, wanted, frame, asked)
        return
    try:
        table = _made(place, wanted)
    except TableExists:
        if how.if_not_exists:  # somebody else has made it meanwhile
            return
        raise
    if frame is None:
        return
    asked = asked_of(place, write_options)
    if how.replaces:  # a rerun finds the table, and replaces its rows
        asked = replace(asked, mode="overwrite", partition={})
    try:
        carry_out(frame, asked)
    except BaseException:
        take_back(table, place.warehouse.storage_options)
        raise


def _made(place: Place, wanted: NewTable) -> Table:
    """A table without rows."""
    return place.warehouse.catalog.create_table(
        place.plain,
        Schema(wanted.fields or ()),
        partition_by=wanted.partition_by,
        options=dict(wanted.options),
        comment=wanted.comment,
    )


def asked_of(place: Place, options: Mapping[str, str] | None) -> Asked:
    """What is asked of the write of a new table's rows."""
    told = {f"{STORAGE_PREFIX}{k}": _told(v) for k, v in place.warehouse.storage_options.items()}
    return SourceOptions({**told, **(options or {}), "path": place.url}).asked(None, overwrite=False)


def _told(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def fields_of_frame(frame: Any) -> tuple[Field, ...]:
    """The columns of a frame, with its comments."""
    made = from_spark_schema(frame.schema)
    pairs = zip(frame.schema.fields, made, strict=True)
    return tuple(replace(f, description=column.metadata.get("comment")) for column, f in pairs)


def columns_of(run: Run, text: Text) -> tuple[Field, ...]:
    """The columns of a list, in which DEFAULT is understood."""
    parsed = column_list(text)
    fields = declared(parsed.plain)
    twice = _twice([f.name for f in fields], tells_case(run.session))
    if twice is not None:
        raise Refusal("COLUMN_ALREADY_EXISTS", f"there are two columns {twice!r}", next_step="rename one of them")
    found = {}
    for one in fields:
        if one.name in parsed.defaults:
            found[one.name] = constant(run.sparks, parsed.defaults[one.name], one.type, one.name)
    return declared(parsed.plain, found)


def _twice(names: Sequence[str], case: bool) -> str | None:
    told = names if case else [name.lower() for name in names]
    return next((name for i, name in enumerate(names) if told[i] in told[:i]), None)


def _known(run: Run, fields: Sequence[Field], names: Sequence[str]) -> tuple[str, ...]:
    """The partition columns, as the columns are written: Spark tells no case apart, unless it was told to."""
    case = tells_case(run.session)
    written = {f.name if case else f.name.lower(): f.name for f in fields}
    unknown = next((name for name in names if (name if case else name.lower()) not in written), None)
    if unknown is not None:
        raise Unsupported(
            f"PARTITIONED BY ({unknown}): this is no column of the table",
            next_step="name columns of the list; a value that is computed, such as days(t), needs a column of its own",
        )
    return tuple(written[name if case else name.lower()] for name in names)


def check_using(place: Place, using: str | None) -> None:
    if (using.lower() if using else None) not in FORMATS:
        raise Unsupported(
            f"CREATE TABLE {place.full} USING {using}: the tables of this catalog have one format",
            next_step="leave USING out; option 'file.format' = 'parquet', 'orc' or 'avro' chooses the format of files",
        )


def check_plain(place: Place, what: str) -> None:
    """Refuse names of branches and system tables."""
    if place.system is not None or place.branch != DEFAULT_BRANCH:
        part = f"$branch_{place.branch}" if place.system is None else f"${place.system}"
        raise Unsupported(
            f"{what} {place.full}{part}",
            next_step="name the table itself; CALL sys.create_branch and CALL sys.delete_branch make and delete branches",
        )


# --------------------------------------------------------------------------------------------------------------- like


def carry_out_create_table_like(run: Run, statement: CreateTableLike) -> Any:
    place = run.names.place(statement.name, views=False)
    if place is None:
        return None
    check_plain(place, "CREATE TABLE")
    check_using(place, statement.using)
    if statement.location is not None:
        raise Unsupported(f"CREATE TABLE {place.full} LIKE … LOCATION", next_step="leave LOCATION out")
    check_database(place.warehouse, place.database)
    if place.plain in place.warehouse.catalog:
        if statement.if_not_exists:
            return nothing(run)
        raise AlreadyThere(f"there is a table {place.full}", next_step="add IF NOT EXISTS")
    source = run.names.locate(statement.like)
    if source is not None:
        place.warehouse.catalog.create_table(place.plain, like=source.open(), options=dict(statement.properties))
        return nothing(run)
    columns = run.session.catalog.listColumns(str(statement.like))
    frame = run.sparks(f"SELECT * FROM {run.text[statement.like.start : statement.like.end]}")
    parted = tuple(column.name for column in columns if column.isPartition)
    _made(place, NewTable(fields_of_frame(frame), parted, dict(statement.properties)))
    return nothing(run)


# --------------------------------------------------------------------------------------------------------------- drop


def carry_out_drop_table(run: Run, statement: DropTable) -> Any:
    """DROP TABLE, with PURGE or without: the table and its rows are deleted."""
    place = run.names.place(statement.name)
    if place is None:
        return None
    check_plain(place, "DROP TABLE")
    try:
        place.warehouse.catalog.drop_table(place.plain)
    except TableNotFound as error:
        if not statement.if_exists:
            raise TableMissing(place.full, "there is no table", next_step="add IF EXISTS") from error
    return nothing(run)


def carry_out_rename_table(run: Run, statement: RenameTable) -> Any:
    place = run.names.place(statement.name)
    if place is None:
        return None
    check_plain(place, "ALTER TABLE … RENAME")
    catalog, parts = place.warehouse, list(statement.to.parts)
    if len(parts) == 3 and parts[0].lower() == catalog.name.lower():
        parts = parts[1:]
    if len(parts) > 2:
        raise InvalidArgument(f"{statement.to} is in another catalog", next_step="write database.table")
    target = parts if len(parts) == 2 else [place.database, *parts]
    check_database(catalog, target[0])
    with suppress(TableNotFound):
        catalog.catalog.rename_table(place.plain, ".".join(target))
        return nothing(run)
    raise TableMissing(place.full, "there is no table")
