"""DESCRIBE and SHOW CREATE TABLE for tables of registered catalogs, in the shape of Spark's own results.

Owns: these statements. Must not know: how a name becomes a table.
Invariant: the text of SHOW CREATE TABLE, run again, makes a table with the same columns, keys, options and comment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ...core.errors import InvalidArgument, Unsupported
from ...core.metadata.schema import TableSchema
from ...core.paths import DEFAULT_BRANCH
from ...core.places import codec_of
from ...core.rows.types import Field
from ...table.system.read import system_fields
from ...table.table import Table
from ..catalogs.names import Located, Place
from ..catalogs.run import Run
from ..catalogs.texts import quoted, quoted_name
from ..grammar.other_statements import (
    Describe,
    ShowColumns,
    ShowCreateTable,
    ShowPartitions,
    ShowTables,
    ShowTblProperties,
)
from ..grammar.pieces import Name
from ..lake_table import LakeTable
from ..options.catalog import NAME
from ..sessions.session import tells_case
from ..sessions.zones import session_zone
from ..types import to_spark
from .columns import column_ddl
from .databases import check_database
from .errors import Refusal
from .texts import fitting, name_text

_TABLES = "namespace string, tableName string, isTemporary boolean"
_THREE = "col_name string, data_type string, comment string"
_OURS = "lakelatch."
"""Options that belong to one table only, such as its identity."""
_PRIMARY_KEY = "primary-key"


def located(run: Run, name: Name, *, sparks_too: bool = False) -> Located | None:
    """The table of a name, if it is of a registered catalog or a path; with `sparks_too` also one of Spark's catalog."""
    return run.names.locate(name) if sparks_too else run.names.in_warehouse(name)


def opened(found: Located) -> Table:
    """The table; a system table is refused."""
    if found.system is not None:
        raise Unsupported(
            f"{found.name}${found.system} is a system table, which can only be read", next_step="name the table itself"
        )
    return found.open()


# ------------------------------------------------------------------------------------------------------------ describe


def carry_out_describe(run: Run, statement: Describe) -> Any:
    found = located(run, statement.name)
    if found is None:
        return None
    if statement.partition is not None:
        raise Unsupported(
            "DESCRIBE … PARTITION: a partition has no columns of its own",
            next_step=f"SELECT * FROM {system_name(statement.name, 'partitions')} tells their rows, bytes and files",
        )
    if statement.json:
        raise Unsupported("DESCRIBE … AS JSON", next_step="leave AS JSON out, or use lakelatch.open_table(url).schema")
    if found.system is not None:
        rows = [(f.name, to_spark(f.type).simpleString(), f.description) for f in system_columns(found)]
        return run.session.createDataFrame(rows, _THREE)
    table = opened(found)
    if statement.column is not None:
        return _column(run, table.schema, statement.column, extended=statement.extended)
    rows = [(f.name, to_spark(f.type).simpleString(), f.description) for f in table.schema.fields]
    rows += _partitioning(table.schema)
    if statement.extended:
        rows += [
            *_defaults(table.schema),
            ("", "", ""),
            ("# Detailed Table Information", "", ""),
            *_details(found, table),
        ]
    return run.session.createDataFrame(rows, _THREE)


def system_columns(found: Located) -> tuple[Field, ...]:
    return system_fields(str(found.system), replace(found, system=None).open().schema)


def system_name(name: Name, system: str) -> str:
    return name_text(*name.parts[:-1], f"{name.parts[-1]}${system}")


def _partitioning(schema: TableSchema) -> list[tuple[str, str, str | None]]:
    if not schema.partition_keys:
        return []
    columns = [(f.name, to_spark(f.type).simpleString(), f.description) for f in schema.partition_fields]
    return [("# Partition Information", "", ""), ("# col_name", "data_type", "comment"), *columns]


def _defaults(schema: TableSchema) -> list[tuple[str, str, str | None]]:
    found = [
        (f.name, to_spark(f.type).simpleString(), f.default_value) for f in schema.fields if f.default_value is not None
    ]
    return [("", "", ""), ("# Column Default Values", "", ""), *found] if found else []


def _details(found: Located, table: Table) -> Iterator[tuple[str, str, str | None]]:
    schema = table.schema
    yield ("Name", found.name if found.branch == DEFAULT_BRANCH else f"{found.name}$branch_{found.branch}", "")
    yield ("Type", "MANAGED", "")
    if schema.comment is not None:
        yield ("Comment", schema.comment, "")
    yield ("Location", table.url, "")
    yield ("Provider", NAME, "")
    yield ("Table Properties", "[" + ",".join(f"{k}={v}" for k, v in sorted(properties_of(schema).items())) + "]", "")


def properties_of(schema: TableSchema) -> dict[str, str]:
    """The options as TBLPROPERTIES, the primary key among them."""
    key = {_PRIMARY_KEY: ",".join(schema.primary_keys)} if schema.primary_keys else {}
    return {k: v for k, v in {**schema.option_texts, **key}.items() if not k.startswith(_OURS)}


def _column(run: Run, schema: TableSchema, name: Name, *, extended: bool) -> Any:
    field = column_named(run, schema, name)
    kind, comment = to_spark(field.type).simpleString(), field.description or "NULL"
    rows = [("col_name", field.name), ("data_type", kind), ("comment", comment)]
    if extended and field.default_value is not None:
        rows.append(("default", field.default_value))
    return run.session.createDataFrame(rows, "info_name string, info_value string")


def column_named(run: Run, schema: TableSchema, name: Name) -> Field:
    if len(name.parts) > 1:
        raise Unsupported(f"DESCRIBE of the field {name} of a column", next_step=f"DESCRIBE the column {name.parts[0]}")
    for field in schema.fields:
        if field.name == name.parts[0] or (not tells_case(run.session) and field.name.lower() == name.parts[0].lower()):
            return field
    raise Refusal("COLUMN_NOT_FOUND", f"the table has no column {name.parts[0]!r}", next_step=", ".join(schema.names))


# ---------------------------------------------------------------------------------------------------- show create table


def carry_out_show_create_table(run: Run, statement: ShowCreateTable) -> Any:
    found = located(run, statement.name)
    if found is None:
        return None
    if found.branch != DEFAULT_BRANCH:
        raise Unsupported(f"SHOW CREATE TABLE of branch {found.branch!r}", next_step="name the table itself")
    return run.session.createDataFrame([(create_text(found, opened(found).schema),)], "createtab_stmt string")


def create_text(found: Located, schema: TableSchema) -> str:
    """The statement that makes this table again."""
    place = found.place
    name = name_text(*name_parts(place)) if place is not None else name_text(found.name)
    lines = [f"CREATE TABLE {name} (", ",\n".join(f"  {column_ddl(f)}" for f in schema.fields) + ")", f"USING {NAME}"]
    if schema.partition_keys:
        lines.append(f"PARTITIONED BY ({', '.join(quoted_name(k) for k in schema.partition_keys)})")
    if place is None:
        lines.append(f"LOCATION {quoted(found.url)}")
    if schema.comment is not None:
        lines.append(f"COMMENT {quoted(schema.comment)}")
    properties = sorted(properties_of(schema).items())
    if properties:
        told = ",\n".join(f"  {quoted(k)} = {quoted(v)}" for k, v in properties)
        lines.append(f"TBLPROPERTIES (\n{told})")
    return "\n".join(lines) + "\n"


def name_parts(place: Place) -> tuple[str, str, str]:
    return place.warehouse.name, place.database, place.table


# ------------------------------------------------------------------------------------------------------------- listing


def carry_out_show_tables(run: Run, statement: ShowTables) -> Any:
    found = run.names.database(statement.inside)
    if found is None:
        return None
    warehouse, database = found
    if database is None:
        raise InvalidArgument(
            f"{statement.inside} is a catalog, and no database", next_step=f"write {warehouse.name}.database"
        )
    check_database(warehouse, database)
    names = fitting(warehouse.catalog.tables(database), statement.like)
    if not statement.extended:
        rows = [(database, name, False) for name in names]
        return run.session.createDataFrame(rows, _TABLES)
    if statement.partition is not None:
        raise Unsupported(
            "SHOW TABLE EXTENDED … PARTITION", next_step="SHOW PARTITIONS, or SELECT * FROM `t$partitions`"
        )
    told = []
    for name in names:
        place = Place(warehouse, database, name)
        table = warehouse.catalog[place.plain]
        details = _details(Located(place.full, place.url, place=place), table)
        text = "\n".join(f"{key}: {value}" for key, value, _ in details if value)
        told.append((database, name, False, text + "\n"))
    return run.session.createDataFrame(told, f"{_TABLES}, information string")


def carry_out_show_partitions(run: Run, statement: ShowPartitions) -> Any:
    found = located(run, statement.name, sparks_too=True)
    if found is None:
        return None
    table = opened(found)
    if not table.schema.partition_keys:
        raise Refusal(
            "INVALID_PARTITION_OPERATION.PARTITION_SCHEMA_IS_EMPTY",
            f"{statement.name} has no partitions",
            next_step="SELECT * FROM " + system_name(statement.name, "files") + " lists its files",
        )
    codec, zone = codec_of(table.schema), session_zone(run.session)
    known = {f.name.lower(): f.name for f in codec.fields}
    wanted = {known.get(k.lower(), k): v for k, v in (statement.partition or {}).items()}
    spec = codec.parse_spec(wanted, zone)
    names = []
    for values in partitions_of(table):
        if codec.matches(values, spec):
            path = replace(codec, legacy_name=False).path(values)
            parts = path.split("/")
            names.append(
                "/".join(
                    f"{f.name}=null" if v is None else p for f, v, p in zip(codec.fields, values, parts, strict=True)
                )
            )
    return run.session.createDataFrame([(name,) for name in sorted(names)], "partition string")


def carry_out_show_tblproperties(run: Run, statement: ShowTblProperties) -> Any:
    found = located(run, statement.name, sparks_too=True)
    if found is None:
        return None
    known = properties_of(opened(found).schema)
    if statement.key is not None:
        absent = f"Table {found.name} does not have property: {statement.key}"
        known = {statement.key: known.get(statement.key, absent)}
    return run.session.createDataFrame(sorted(known.items()), "key string, value string")


def carry_out_show_columns(run: Run, statement: ShowColumns) -> Any:
    found = located(run, statement.name)
    if found is None:
        return None
    names = found.open().schema.names if found.system is None else tuple(f.name for f in system_columns(found))
    return run.session.createDataFrame([(name,) for name in names], "column string")


def partitions_of(table: Table) -> set[tuple[Any, ...]]:
    """The values of each partition that has rows."""
    codec = codec_of(table.schema)
    return {codec.decode(partition) for partition in {entry.partition for entry in table.entries()}}


def lake_table(run: Run, found: Located) -> LakeTable:
    """The table with the methods of `LakeTable`."""
    return LakeTable(run.session, opened(found), found.storage_options or None)
