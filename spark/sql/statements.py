"""Carries out the SQL statements on tables of Spark's catalog that a Python data source cannot see in full.

Owns: what `CREATE TABLE … USING lakelatch`, `INSERT` and the refused statements do, and `spark.sql` of a registered session.
Must not know: how statements are parsed (see `sql_text`). Source: format/spark §1; decision 23.

Invariants: rows reach the table that the statement names, or none. A statement that names no table of the source is passed to
Spark as it is.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import functions as F  # noqa: N812 - Spark's users know it by this name
from pyspark.sql import types as spark

from ...backends.registry import scheme_of, url_text
from ...backends.storage_options import StorageOptions
from ...core.errors import InvalidArgument, Unsupported
from ...core.rows.types import Field, with_nullable
from ...table.create import Schema, create_table, is_table, open_table
from ...table.table import Table
from ..options.catalog import NAME, catalog_table
from ..options.source_options import SourceOptions
from ..reading.read_marks import read_at
from ..sessions.session import checked_url, overwrite_mode
from ..types import from_spark_schema, spark_schema
from ..write_job import carry_out
from .sql_text import CreateTable, Insert, Other, tokens_of, understand

_WAYS = {
    "MERGE": "use lakelatch.spark.LakeTable.forPath(spark, url).alias('t').merge(source, condition)",
    "UPDATE": "use lakelatch.spark.LakeTable.forPath(spark, url).update(condition, {column: expression})",
    "DELETE": "use lakelatch.spark.LakeTable.forPath(spark, url).delete(condition)",
    "TRUNCATE": "use lakelatch.open_table(url).truncate()",
    "ALTER TABLE": "use lakelatch.open_table(url).alter(...), then DROP TABLE and CREATE TABLE, which touch the catalog only",
    "CREATE TABLE … LIKE": "use CREATE TABLE … USING lakelatch LOCATION '…' with a list of columns",
    "WITH … INSERT": "use INSERT INTO table WITH … SELECT …",
    "FROM … INSERT": "use INSERT INTO table SELECT … FROM …, a statement for each table",
    "BEGIN … INSERT": "run the statements of the script one by one, each with spark.sql",
    "VERSION AS OF": "use SELECT … FROM table WITH ('snapshot' = '3'), or lakelatch.spark.read(spark, url, snapshot=3)",
    "TIMESTAMP AS OF": "use SELECT … FROM table WITH ('timestamp' = '2026-06-01T00:00:00Z'), or"
    " lakelatch.spark.read(spark, url, timestamp=...)",
}


class Statements:
    """`sql` of a registered session, whose own method `sql` gets every other statement."""

    def __init__(self, session: Any, sql: Any) -> None:
        self._session, self._sql = session, sql

    @property
    def sparks(self) -> Any:
        return self._sql

    def __call__(self, sqlQuery: str, *args: Any, **kwargs: Any) -> Any:  # noqa: N803 - Spark's name
        statement = understand(sqlQuery) if isinstance(sqlQuery, str) else None
        match statement:
            case CreateTable() if statement.using.lower() == NAME:
                return self._create(statement)
            case Insert():
                found = catalog_table(self._sql, statement.name)
                if found is not None:
                    options = SourceOptions(found.lasting())
                    table = options.table()
                    newest = table.snapshot() if statement.overwrite else None
                    rows = self._sql(statement.query, *args, **kwargs)
                    unplanned = 0 if newest is None else newest.id
                    read = read_at(rows, table, unplanned) if statement.overwrite else None
                    self._insert(statement, table, options, rows, read)
                    return self._session.range(0).select()
            case Other():
                self._refuse(statement)
        return self._sql(sqlQuery, *args, **kwargs)

    # ---------------------------------------------------------------------------------------------------- create table

    def _create(self, wanted: CreateTable) -> Any:
        if wanted.from_query:
            raise Unsupported(
                f"CREATE TABLE {wanted.name} … AS SELECT cannot be carried out by a Python data source",
                next_step="write the rows with lakelatch.spark.write(df, url, options={}), then CREATE TABLE"
                f" {wanted.name} USING lakelatch LOCATION 'url'; or CREATE TABLE with columns, then INSERT INTO",
            )
        if wanted.or_replace:
            raise Unsupported(
                f"CREATE OR REPLACE TABLE {wanted.name}: the rows would stay",
                next_step="DROP TABLE, which removes it from the catalog only, and CREATE TABLE",
            )
        given = {key.lower(): value for key, value in wanted.options.items()}
        url = wanted.location or given.pop("path", None)
        if url is None:
            raise InvalidArgument(
                f"CREATE TABLE {wanted.name} USING lakelatch needs the table's URL", next_step="add LOCATION 'url'"
            )
        url = absolute(checked_url(self._session, url))
        options = SourceOptions({**given, "path": url})
        if wanted.columns is not None and not self._session.catalog.tableExists(wanted.name):
            self._make(wanted, url, options.storage_options)
        return self.register(wanted.name, {**given, "path": url}, wanted.comment, wanted.if_not_exists)

    def register(
        self, name: str, options: Mapping[str, str], comment: str | None = None, if_not_exists: bool = False
    ) -> Any:
        """Give the table to the catalog without its columns, so that Spark asks the source for them."""
        text = f"CREATE TABLE {'IF NOT EXISTS ' if if_not_exists else ''}{name} USING {NAME}"
        text += f" OPTIONS ({', '.join(f'{quoted(k)} {quoted(v)}' for k, v in options.items())})"
        if comment is not None:
            text += f" COMMENT {quoted(comment)}"
        return self._sql(text)

    def _make(self, wanted: CreateTable, url: str, storage: StorageOptions) -> None:
        """Create the table from the statement's columns, or check that they are its columns."""
        columns = wanted.columns or ""
        if any(token.upper in ("DEFAULT", "GENERATED") for token in tokens_of(columns)):
            raise Unsupported(
                f"CREATE TABLE {wanted.name}: a column with DEFAULT or GENERATED",
                next_step="leave it out, and set a default with lakelatch.open_table(url).alter(lakelatch.update_default(...))",
            )
        parsed = spark.StructType.fromDDL(columns)
        assert isinstance(parsed, spark.StructType)
        fields = _fields(parsed)
        if is_table(url, storage_options=storage):
            _check_columns(wanted, open_table(url, storage_options=storage).schema, fields)
            return
        create_table(
            url,
            Schema(fields),
            partition_by=wanted.partition_by,
            options=dict(wanted.properties),
            comment=wanted.comment,
            exist_ok=True,
            storage_options=storage,
        )

    # ---------------------------------------------------------------------------------------------------------- insert

    def _insert(self, wanted: Insert, table: Table, options: SourceOptions, rows: Any, read: int | None) -> None:
        if wanted.if_not_exists:
            raise Unsupported("INSERT … IF NOT EXISTS", next_step="leave IF NOT EXISTS out")
        if wanted.unvalued:
            names = ", ".join(wanted.unvalued)
            raise Unsupported(
                f"PARTITION ({names}) has no value",
                next_step=f"leave {f'{names} out of PARTITION' if wanted.partition else 'PARTITION out'}:"
                " the rows say their partition, in the order of the table's columns",
            )
        if not wanted.by_name:
            wants = wanted.columns or [c for c in self._session.table(wanted.name).columns if c not in wanted.partition]
            if len(wants) != len(rows.columns):
                raise InvalidArgument(
                    f"the query has {len(rows.columns)} columns, and INSERT into {wanted.name} needs"
                    f" {len(wants)}: {', '.join(wants)}"
                )
            rows = rows.toDF(*wants)
        rows = _storable(rows, spark_schema(table.schema.fields), wanted.by_name)
        asked = options.asked(table.schema, overwrite=False)
        some = len(wanted.partition) < len(table.schema.partition_keys)  # of a whole partition Spark replaces that one
        dynamic = (options.overwrite_mode or overwrite_mode(self._session)) == "dynamic"
        if wanted.overwrite and some and dynamic:
            asked = replace(asked, mode="overwrite-partitions")
        elif wanted.overwrite:
            asked = replace(asked, mode="overwrite", partition=wanted.partition)
        if asked.partition is None:
            for name, value in wanted.partition.items():
                rows = rows.withColumn(name, F.lit(value) if value is not None else F.lit(None).cast("string"))
        carry_out(rows, asked if asked.mode == "append" else replace(asked, read_snapshot=read))

    def _refuse(self, wanted: Other) -> None:
        for name in (wanted.name, *wanted.more):
            if catalog_table(self._sql, name) is None:
                continue
            what = wanted.what.replace("SYSTEM_VERSION", "VERSION").replace("SYSTEM_TIME", "TIMESTAMP")
            raise Unsupported(
                f"{what} on {name}: Spark cannot do this with a Python data source", next_step=_WAYS[what]
            )


def _fields(columns: spark.StructType) -> list[Field]:
    """The columns of a statement; what they say of nulls and comments is kept."""
    fields = []
    for column, made in zip(columns.fields, from_spark_schema(columns), strict=True):
        nullable = with_nullable(made.type, column.nullable)
        fields.append(replace(made, type=nullable, description=column.metadata.get("comment")))
    return fields


def _check_columns(wanted: CreateTable, schema: Any, fields: Sequence[Field]) -> None:
    told = [(f.name, f.dataType.simpleString()) for f in spark_schema(fields).fields]
    known = [(f.name, f.dataType.simpleString()) for f in spark_schema(schema.fields).fields]
    if told != known or (wanted.partition_by and wanted.partition_by != schema.partition_keys):
        raise InvalidArgument(
            f"CREATE TABLE {wanted.name}: there is a table at its location with other columns or partitions:"
            f" {', '.join(f'{name} {kind}' for name, kind in known)}, partitioned by {list(schema.partition_keys)}",
            next_step="leave the columns out of the statement",
        )


def _storable(rows: Any, target: spark.StructType, by_name: bool) -> Any:
    """Decimals are cast for columns of floating point, and structs get the table's names by position. Both keep every value."""
    wanted = {f.name: f.dataType for f in target.fields}
    casts = {}
    for f in rows.schema.fields:
        to = _stored_as(f.dataType, wanted.get(f.name), by_name)
        if to != f.dataType:
            casts[f.name] = F.col(quoted_name(f.name)).cast(to)
    return rows.withColumns(casts) if casts else rows


def _stored_as(source: spark.DataType, target: spark.DataType | None, by_name: bool) -> spark.DataType:
    match source, target:
        case spark.DecimalType(), spark.FloatType() | spark.DoubleType():
            return target
        case spark.ArrayType(), spark.ArrayType():
            return spark.ArrayType(_stored_as(source.elementType, target.elementType, by_name), source.containsNull)
        case spark.MapType(), spark.MapType():
            key = _stored_as(source.keyType, target.keyType, by_name)
            return spark.MapType(key, _stored_as(source.valueType, target.valueType, by_name), source.valueContainsNull)
        case spark.StructType(), spark.StructType() if not by_name and len(source.fields) == len(target.fields):
            pairs = zip(source.fields, target.fields, strict=True)
            return spark.StructType(
                [spark.StructField(t.name, _stored_as(s.dataType, t.dataType, by_name), s.nullable) for s, t in pairs]
            )
        case _:
            return source


def absolute(url: str) -> str:
    """A relative path from the working directory of this process; Spark would take it from its warehouse."""
    url = url_text(url)
    return url if scheme_of(url) != "file" or url.startswith("file:") else os.path.abspath(url)


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def quoted_name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
