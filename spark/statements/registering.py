"""A session gets to know the data source, tables of catalogs, and the statements about them; and forgets them again.

Owns: `register`, `unregister` and `sql`, and what is replaced on a session object. Must not know: how statements are carried out.
Source: decision 123, which lists what is replaced.

Invariants: nothing of a session that was not registered changes. What is replaced is given back by `unregister`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from ...core.errors import InvalidArgument
from ...table.catalog.catalog import open_catalog
from ..catalogs.names import SPARKS_CATALOG, Names, Warehouse
from ..frames.merging import understand_merge_into
from ..frames.naming import give_back
from ..frames.reading import understand_tables
from ..frames.saving import understand_saving
from ..frames.streams_by_name import understand_streams
from ..frames.writer_v2 import understand_write_to
from ..options.catalog import NAME
from ..reading.read_marks import PROCESS
from ..sessions.session import checked_url, is_local, start_of_paths
from ..sessions.shipping import carried
from .source import TableSource
from .statements import Statements

_REGISTERED: WeakKeyDictionary[Any, None] = WeakKeyDictionary()
_UNCHANGED: WeakKeyDictionary[Any, Statements] = WeakKeyDictionary()
_TAKEN = (SPARKS_CATALOG, "global_temp", "system", "session", "builtin", NAME)


def register(
    session: Any,
    catalog: str | None = None,
    warehouse: str | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Let a session, classic or Connect, know the data source `lakelatch`, and the tables of a catalog.

    With `catalog` and `warehouse`, `lake.air.flights` is a table to `spark.sql`, `spark.table`, `df.write` and `df.writeTo`:
    queries with time travel, MERGE, UPDATE, DELETE, ALTER TABLE, CALL and all other statements that docs/spark-by-habit.md
    lists. It may be called again for another catalog. Tables of Spark's own catalog that were made USING lakelatch, and ``
    lakelatch.`/path` ``, take the same statements.

    For that, `session.sql` is replaced on this session object, and some methods of Spark's readers and writers are replaced,
    which do for all other sessions what they did before; `unregister` undoes it. A statement that names no table of lakelatch
    is passed on as it is.

    `spark.read.format("lakelatch")` reads as `lakelatch.spark.read` does. In SQL (`USING lakelatch`) and streams it is the data
    source: filters and column choices of a query do not reach a source written in Python; its options `where` and `columns` do.
    A relative path means a folder below the current folder at the time of this call. A temporary view of the source shows the
    snapshot that was the latest when it was first used.

    Writes through the source cost half as much with `spark.sql.execution.arrow.maxBytesPerBatch` = 2147483647 (see
    `batch_size`); `lakelatch.spark.write` sets it itself.

    Args:
        session: the only session that will know the source; a new session needs its own call.
        catalog: the name of the catalog in statements.
        warehouse: its URL, which must mean the same on the driver and on the executors.
        storage_options: fsspec's options for the store. Keys given here are sent to the executors; prefer profiles (H19).

    Raises:
        InvalidArgument: the session has a catalog or database of this name.

    Example:
        ``lakelatch.spark.register(spark, catalog="lake", warehouse="s3://lake"); spark.sql("SELECT * FROM lake.air.flights")``
    """
    if (catalog is None) != (warehouse is None):
        raise InvalidArgument("register takes both a catalog and its warehouse, or neither")
    if not isinstance(session.sql, Statements):
        statements = _UNCHANGED.pop(session, None) or Statements(session, session.sql)
        session.sql = statements
    if catalog is not None and warehouse is not None:
        add_warehouse(session.sql.names, catalog, warehouse, storage_options)
    understand_saving(session)
    understand_write_to(session)
    understand_merge_into(session)
    understand_tables(session)
    understand_streams(session)
    _REGISTERED[session] = None
    session.sql.names.folder = folder = _folder_of(session)
    session.dataSource.register(carried(TableSource, folder=folder, process=PROCESS))


def unregister(session: Any) -> None:
    """Undo what `register` and `use` have replaced on a session; views of `use` are dropped. The data source itself stays known,
    because Spark cannot forget one. What `sql` was told of catalogs is forgotten, too.

    Example:
        ``lakelatch.spark.unregister(spark)``
    """
    _UNCHANGED.pop(session, None)
    statements = session.__dict__.get("sql")
    if not isinstance(statements, Statements):
        return
    for view in statements.made_views:
        session.catalog.dropTempView(view)
    del session.__dict__["sql"]
    session.__dict__.pop("table", None)
    _REGISTERED.pop(session, None)
    if not len(_REGISTERED):
        give_back()


def sql(
    spark: Any,
    text: str,
    args: Any = None,
    *,
    catalogs: Mapping[str, str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **named: Any,
) -> Any:
    """Carry out a statement as `spark.sql` of a registered session does, in a session that stays as it is.

    Args:
        spark: the session, classic or Connect.
        text: the statement.
        args, named: as for `spark.sql`: values of `:name` or `?`, and of `{name}`.
        catalogs: the URL of each catalog that the statement names; they stay known for later calls, and so does what USE has
        chosen. storage_options: for these catalogs, as for `register`.

    Raises:
        InvalidArgument: the session has a catalog or database of such a name.

    Example:
        ``lakelatch.spark.sql(spark, "DELETE FROM lake.air.flights WHERE month = :m", {"m": 3}, catalogs={"lake": "s3://lake"})``
    """
    statements = spark.sql if isinstance(spark.sql, Statements) else _UNCHANGED.get(spark)
    if statements is None:
        statements = _UNCHANGED[spark] = Statements(spark, spark.sql)
    for name, url in (catalogs or {}).items():
        add_warehouse(statements.names, name, url, storage_options)
    return statements(text, args, **named)


def add_warehouse(names: Names, name: str, url: str, storage_options: Mapping[str, Any] | None = None) -> None:
    """Let names that begin with `name` mean tables below a URL."""
    options = dict(storage_options or {})
    known = names.warehouses.get(name.lower())
    catalog = open_catalog(checked_url(names.session, url), storage_options=options)
    if known is not None and (known.catalog.url, dict(known.storage_options)) == (catalog.url, options):
        return
    if not name.replace("_", "a").isalnum() or name.lower() in _TAKEN:
        raise InvalidArgument(
            f"{name!r} cannot be the name of a catalog", next_step="use letters, digits and underscores"
        )
    if known is not None:
        raise InvalidArgument(
            f"{name} is the catalog at {known.catalog.url} in this session",
            next_step="choose another name, or unregister",
        )
    if names.session.catalog.databaseExists(name) or _is_catalog(names, name):
        raise InvalidArgument(
            f"the session has a catalog or database {name!r}, which this one would hide",
            next_step="choose another name",
        )
    names.warehouses[name.lower()] = Warehouse(name, catalog, options)


def _is_catalog(names: Names, name: str) -> bool:
    return names.session.conf.get(f"spark.sql.catalog.{name}", None) is not None


def _folder_of(session: Any) -> str:
    start = start_of_paths(session)
    return os.getcwd() if is_local(start) else start
