"""USE, and databases of registered catalogs: SHOW, CREATE, DROP, DESCRIBE.

Owns: these statements. Must not know: tables.
Invariant: a database that holds tables goes only with CASCADE.
"""

from __future__ import annotations

from typing import Any

from ...core.errors import InvalidArgument, Unsupported
from ..catalogs.names import Warehouse
from ..catalogs.run import Run
from ..grammar.other_statements import (
    CreateDatabase,
    DescribeDatabase,
    DropDatabase,
    ShowCatalogs,
    ShowDatabases,
    Use,
)
from ..grammar.pieces import Name
from .errors import Refusal
from .texts import fitting

DEFAULT_DATABASE = "default"


def nothing(run: Run) -> Any:
    """The result of a statement that returns no rows."""
    return run.session.createDataFrame([], "struct<>")


def carry_out_use(run: Run, statement: Use) -> Any:
    found = run.names.database(statement.name)
    if found is None:
        frame = run.sparks(run.text, run.arguments, **run.named)
        run.names.current = None
        return frame
    warehouse, database = found
    if database is not None:
        check_database(warehouse, database)
    run.names.current = (warehouse, DEFAULT_DATABASE if database is None else database)
    return nothing(run)


def carry_out_show_catalogs(run: Run, statement: ShowCatalogs) -> Any:
    if not run.names.warehouses:
        return None
    names = {row[0] for row in run.sparks("SHOW CATALOGS").collect()} | {w.name for w in run.names.warehouses.values()}
    return run.session.createDataFrame([(name,) for name in fitting(names, statement.like)], "catalog string")


def carry_out_show_databases(run: Run, statement: ShowDatabases) -> Any:
    found = run.names.database(statement.inside)
    if found is None:
        return None
    warehouse, database = found
    inside = statement.inside is not None and database is not None
    names = [] if inside else warehouse.catalog.databases()  # databases have no databases
    return run.session.createDataFrame([(name,) for name in fitting(names, statement.like)], "namespace string")


def _named(run: Run, name: Name) -> tuple[Warehouse, str] | None:
    found = run.names.database(name)
    if found is None:
        return None
    if found[1] is None:
        raise InvalidArgument(f"{name} is a catalog, and no database", next_step=f"write {name}.database")
    return found[0], found[1]


def carry_out_create_database(run: Run, statement: CreateDatabase) -> Any:
    found = _named(run, statement.name)
    if found is None:
        return None
    if statement.comment is not None or statement.location is not None or statement.properties:
        raise Unsupported(
            f"CREATE DATABASE {statement.name} with COMMENT, LOCATION or properties: a database is a folder, which keeps none",
            next_step="leave them out",
        )
    warehouse, database = found
    if database in warehouse.catalog.databases() and not statement.if_not_exists:
        raise Refusal(
            "SCHEMA_ALREADY_EXISTS",
            f"there is a database {database!r} in {warehouse.name}",
            next_step="add IF NOT EXISTS",
        )
    warehouse.catalog.create_database(database, exist_ok=True)
    return nothing(run)


def carry_out_drop_database(run: Run, statement: DropDatabase) -> Any:
    found = _named(run, statement.name)
    if found is None:
        return None
    warehouse, database = found
    if database not in warehouse.catalog.databases() and statement.if_exists:
        return nothing(run)
    check_database(warehouse, database)
    try:
        warehouse.catalog.drop_database(database, cascade=statement.cascade)
    except InvalidArgument as error:
        tables = [] if statement.cascade else warehouse.catalog.tables(database)
        if not tables:
            raise
        raise Refusal(
            "SCHEMA_NOT_EMPTY",
            f"database {database!r} holds {len(tables)} tables, such as {tables[0]!r}",
            next_step="DROP DATABASE … CASCADE deletes them and their rows",
        ) from error
    return nothing(run)


def carry_out_describe_database(run: Run, statement: DescribeDatabase) -> Any:
    found = _named(run, statement.name)
    if found is None:
        return None
    warehouse, database = found
    check_database(warehouse, database)
    rows = [
        ("Catalog Name", warehouse.name),
        ("Namespace Name", database),
        ("Location", f"{warehouse.catalog.url.rstrip('/')}/{database}.db"),
    ]
    return run.session.createDataFrame(rows, "info_name string, info_value string")


def check_database(warehouse: Warehouse, database: str) -> None:
    if database not in warehouse.catalog.databases():
        raise Refusal(
            "SCHEMA_NOT_FOUND",
            f"there is no database {database!r} in {warehouse.name}",
            next_step=f"CREATE DATABASE {warehouse.name}.{database}",
        )
