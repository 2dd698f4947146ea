"""CREATE TABLE … USING lakelatch in Spark's own catalog, which is a name for a URL.

Owns: `create`, `create_like`, `register_name`. Must not know: how a statement is parsed. Source: format/spark §1; decisions 23
and 111.

Invariants: the catalog gets the name without columns, so that Spark asks the source for them. A table that is made for a query
that fails is taken back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...backends.storage_options import StorageOptions
from ...core.errors import InvalidArgument, Unsupported
from ...core.paths import DEFAULT_BRANCH
from ...core.rows.types import Field
from ...table.create import Schema, create_table, is_table, open_table
from ..catalogs.queries import frame_of
from ..catalogs.run import Run
from ..catalogs.texts import absolute, quoted, quoted_name
from ..columns import named
from ..grammar.table_statements import CreateTable, CreateTableLike
from ..options.catalog import NAME
from ..options.source_options import STORAGE_PREFIX, SourceOptions
from ..reading.read_marks import read_before
from ..sessions.identity import identity_of
from ..sessions.session import checked_url, tells_case
from ..types import spark_schema
from ..write_job import carry_out, take_back
from .creating import NewTable, carry_out_create_table, carry_out_create_table_like, columns_of, fields_of_frame
from .errors import AlreadyThere
from .replacing import check_replaceable, replaced


def create(run: Run, statement: CreateTable) -> Any:
    """CREATE TABLE in a registered catalog, or USING lakelatch in Spark's own; None for all others."""
    if run.names.place(statement.name, views=False) is not None:
        return carry_out_create_table(run, statement)
    if (statement.using or "").lower() != NAME:
        return None
    return _InSpark(run, statement).create()


def create_like(run: Run, statement: CreateTableLike) -> Any:
    """CREATE TABLE … LIKE in a registered catalog, or of a table of lakelatch in Spark's own; None for all others."""
    if run.names.place(statement.name, views=False) is not None:
        return carry_out_create_table_like(run, statement)
    like = run.names.locate(statement.like)
    using = (statement.using or (NAME if like is not None else "")).lower()
    if using != NAME and like is None:
        return None
    if using != NAME or like is None:
        raise Unsupported(
            f"CREATE TABLE {statement.name} LIKE a table of another format than {using}",
            next_step=f"CREATE TABLE … USING {using} … AS SELECT * FROM {statement.like} WHERE false",
        )
    if statement.location is None:
        raise InvalidArgument(
            f"CREATE TABLE {statement.name} LIKE {statement.like} needs the table's URL", next_step="add LOCATION 'url'"
        )
    name = ".".join(quoted_name(part) for part in statement.name.parts)
    url = absolute(checked_url(run.session, statement.location))
    if run.session.catalog.tableExists(name):
        if statement.if_not_exists:
            return run.session.range(0).select()
        raise AlreadyThere(f"there is a table {statement.name}", next_step="add IF NOT EXISTS, or choose another name")
    create_table(url, like=like.open(), options=dict(statement.properties), storage_options=like.storage_options)
    return register_name(run.sparks, name, {**_kept(like.options), "path": url})


def _kept(options: Mapping[str, str]) -> dict[str, str]:
    """The options of the store, which a name next to another one has too."""
    return {key: value for key, value in options.items() if key.startswith(STORAGE_PREFIX)}


class _InSpark:
    def __init__(self, run: Run, wanted: CreateTable) -> None:
        self._run, self._wanted = run, wanted
        self._name = ".".join(quoted_name(part) for part in wanted.name.parts)
        self._given = {key.lower(): value for key, value in wanted.options.items()}
        url = wanted.location or self._given.pop("path", None)
        if url is None:
            raise InvalidArgument(
                f"CREATE TABLE {wanted.name} USING lakelatch needs the table's URL", next_step="add LOCATION 'url'"
            )
        self._url = absolute(checked_url(run.session, url))
        self._options = SourceOptions({**self._given, "path": self._url})

    def create(self) -> Any:
        wanted = self._wanted
        if wanted.other:
            raise Unsupported(
                f"CREATE TABLE … {wanted.other[0]}", next_step="TBLPROPERTIES has 'bucket' and 'bucket-key'"
            )
        exists = self._run.session.catalog.tableExists(self._name)
        if wanted.query is not None or wanted.replace:
            return self._with_rows(exists)
        if wanted.columns is not None and not exists:
            self._make()
        return self._register()

    def _register(self) -> Any:
        wanted = self._wanted
        return register_name(
            self._run.sparks, self._name, {**self._given, "path": self._url}, wanted.comment, wanted.if_not_exists
        )

    # ----------------------------------------------------------------------------------------------------- without rows

    def _make(self) -> None:
        """Create the table from the statement's columns, or check that they are its columns."""
        fields = self._fields()
        storage = self._options.storage_options
        if is_table(self._url, storage_options=storage):
            _check_columns(self._wanted, open_table(self._url, storage_options=storage).schema, fields)
            return
        self._created(fields, storage, exist_ok=True)

    def _fields(self) -> tuple[Field, ...]:
        assert self._wanted.columns is not None
        return columns_of(self._run, self._wanted.columns)

    def _created(self, fields: Sequence[Field], storage: StorageOptions, exist_ok: bool) -> Any:
        return create_table(
            self._url,
            Schema(fields),
            partition_by=self._partition_by(fields),
            options=dict(self._wanted.properties),
            comment=self._wanted.comment,
            exist_ok=exist_ok,
            storage_options=storage,
        )

    def _partition_by(self, fields: Sequence[Field]) -> tuple[str, ...]:
        columns, case = [f.name for f in fields], tells_case(self._run.session)
        return tuple(named(name, columns, case) or name for name in self._wanted.partition_by)

    # -------------------------------------------------------------------------------------------------------- with rows

    def _with_rows(self, exists: bool) -> Any:
        """CREATE TABLE … AS, and CREATE OR REPLACE TABLE: the rows are one commit, and the name comes after them."""
        wanted, options = self._wanted, self._options
        if wanted.columns is not None and wanted.query is not None:
            raise InvalidArgument(
                "CREATE TABLE … AS takes its columns from the query", next_step="leave the columns out"
            )
        if wanted.columns is None and wanted.query is None:
            raise InvalidArgument(f"CREATE TABLE {wanted.name} has no columns", next_step="add a list of columns")
        if options.branch != DEFAULT_BRANCH:
            raise Unsupported(
                "CREATE TABLE … AS with option 'branch'", next_step="create the name, then INSERT INTO it"
            )
        if exists and wanted.if_not_exists:
            return self._run.session.range(0).select()
        there = is_table(self._url, storage_options=options.storage_options)
        if (exists or there) and not wanted.replace:
            raise AlreadyThere(
                f"there is a table {wanted.name if exists else 'at ' + self._url}",
                next_step="INSERT INTO it, or write CREATE OR REPLACE TABLE, which replaces its rows",
            )
        if exists:
            self._check_same_place()
        elif wanted.must_exist:
            raise InvalidArgument(f"REPLACE TABLE {wanted.name}: there is no such table", next_step="CREATE TABLE")
        with identity_of(self._run.session) as about:
            self._write(there, about)
        return self._run.session.range(0).select() if exists else self._register()

    def _check_same_place(self) -> None:
        found = self._run.names.locate(self._wanted.name)
        if found is None or found.url.removeprefix("file:") != self._url.removeprefix("file:"):
            where = "a table of another format" if found is None else found.url
            raise Unsupported(
                f"CREATE OR REPLACE TABLE {self._wanted.name}: the name means {where}, not {self._url}",
                next_step="DROP TABLE, which removes the name, and CREATE TABLE",
            )

    def _write(self, there: bool, about: Mapping[str, Any]) -> None:
        wanted, options = self._wanted, self._options
        old = options.table() if there else None
        newest = None if old is None else old.snapshot()
        frame = None if wanted.query is None else frame_of(self._run, wanted.query)
        fields = self._fields() if frame is None else fields_of_frame(frame)
        asked = replace(options.asked(None, overwrite=False), **about)
        if old is not None:
            new = NewTable(fields, self._partition_by(fields), dict(wanted.properties), wanted.comment)
            check_replaceable(str(wanted.name), old.schema, new)
            if frame is not None and wanted.query is not None:
                asked = replace(asked, read_snapshot=read_before(frame, old, newest, wanted.query.travels))
            replaced(old, new, frame, asked)
            return
        table = self._created(fields, options.storage_options, exist_ok=False)
        if frame is None:
            return
        if wanted.replace:  # a rerun finds the table, and replaces its rows
            asked = replace(asked, mode="overwrite", partition={})
        try:
            carry_out(frame, asked)
        except BaseException:
            take_back(table, options.storage_options)
            raise


def register_name(
    sql: Any, name: str, options: Mapping[str, str], comment: str | None = None, if_not_exists: bool = False
) -> Any:
    """Give a table to Spark's catalog without its columns."""
    text = f"CREATE TABLE {'IF NOT EXISTS ' if if_not_exists else ''}{name} USING {NAME}"
    text += f" OPTIONS ({', '.join(f'{quoted(k)} {quoted(v)}' for k, v in options.items())})"
    if comment is not None:
        text += f" COMMENT {quoted(comment)}"
    return sql(text)


def _check_columns(wanted: CreateTable, schema: Any, fields: Sequence[Field]) -> None:
    told = [(f.name, f.dataType.simpleString()) for f in spark_schema(fields).fields]
    known = [(f.name, f.dataType.simpleString()) for f in spark_schema(schema.fields).fields]
    if told != known or (wanted.partition_by and wanted.partition_by != schema.partition_keys):
        raise InvalidArgument(
            f"CREATE TABLE {wanted.name}: there is a table at its location with other columns or partitions:"
            f" {', '.join(f'{name} {kind}' for name, kind in known)}, partitioned by {list(schema.partition_keys)}",
            next_step="leave the columns out of the statement",
        )
