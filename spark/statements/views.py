"""The tables of a catalog as temporary views of a session.

Owns: `use`, the views' names, and when a view is made anew. Must not know: how a table is read.
Source: decision 74. Invariants: a view is made when a statement first mentions it, and anew when its table has a newer snapshot
or schema; each statement sees one snapshot of each table. No view hides a table or view of the session.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from threading import RLock
from typing import Any

from ...core.errors import InvalidArgument, TableNotFound
from ...table.catalog.catalog import Catalog, open_catalog
from ...table.table import Table
from ..reading.scan import read
from ..sessions.session import checked_url
from .registering import register
from .statements import Statements

_WORD = re.compile(r"\w+")


def use(
    spark: Any,
    url: str,
    database: str | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> list[str]:
    """Give each table of a catalog as a temporary view to `spark.sql` and `spark.table`.

    The views are named `DATABASE_TABLE`, or `TABLE` if a database is chosen; other characters than letters, digits and
    underscores become underscores. A view is made when a statement first mentions it, so that a catalog of many tables costs
    nothing but its listing. Each statement sees the newest snapshot, read by Spark's own scan. On a classic session a frame
    keeps the snapshot that it was made with. Under Spark Connect, which plans a frame again for each action, it shows the view
    as a later statement made it. Tables that are made later need another call.

    It also registers the data source, as `register` does.

    Args:
        spark: the session, classic or Connect; only this object knows the views.
        url: the catalog, which must mean the same on the driver and on the executors.
        database: only the tables of this one.
        storage_options: fsspec's options for the store. Keys given here are sent to the executors; prefer profiles (H19).

    Returns:
        The names of the views, ascending.

    Raises:
        InvalidArgument: two tables would have the same name, or the session has a table or view of that name.

    Example:
        ``lakelatch.spark.use(spark, "s3://lake"); spark.sql("SELECT count(*) FROM air_flights")``
    """
    lake = open_catalog(checked_url(spark, url), storage_options=storage_options)
    tables = list(lake) if database is None else [f"{database}.{table}" for table in lake.tables(database)]
    names: dict[str, str] = {}
    for table in tables:
        view = re.sub(r"\W", "_", table.partition(".")[2] if database is not None else table)
        other = names.setdefault(view.lower(), table)
        if other != table:
            raise InvalidArgument(f"{other} and {table} would both be the view {view!r}", next_step="choose a database")
    register(spark)
    held = spark.sql if isinstance(spark.sql, WithViews) else None
    ours = held.made_views if held is not None else set()
    for found in spark.catalog.listTables():
        if found.name.lower() in names and found.name.lower() not in ours:
            raise InvalidArgument(
                f"the session has a table or view {found.name!r}, which the view of {names[found.name.lower()]} would hide",
                next_step="drop or rename it, or choose a database",
            )
    if held is None:
        held = WithViews(spark, spark.sql)
        spark.sql, spark.table = held, _Tables(held, spark.table)
    held.add(lake, names, dict(storage_options or {}))
    return sorted(names)


class View:
    """One view, and the state of its table that it shows."""

    def __init__(self, lake: Catalog, name: str, storage_options: Mapping[str, Any]) -> None:
        self.lake, self.name, self.storage_options = lake, name, storage_options
        self.table: Table | None = None
        self.shown: tuple[str | None, int] | None = None

    def make(self, spark: Any, view: str) -> None:
        """Make the view, if the table has changed since it was made."""
        try:
            if self.table is None:
                self.table = self.lake[self.name]
            snapshot = self.table.refresh().snapshot()
            newest = None if snapshot is None else snapshot.identity, self.table.schema.id
            if newest != self.shown:
                frame = read(spark, self.lake.url_of(self.name), storage_options=self.storage_options)
                frame.createOrReplaceTempView(view)
                self.shown = newest
        except TableNotFound:
            self.table = self.shown = None
            spark.catalog.dropTempView(view)
            raise


class WithViews(Statements):
    """`sql` of a session that uses catalogs."""

    def __init__(self, session: Any, before: Statements) -> None:
        super().__init__(session, before.sparks)
        self.names = before.names
        self._views: dict[str, View] = {}
        self._lock = RLock()

    @property
    def made_views(self) -> set[str]:
        return set(self._views)

    def add(self, lake: Catalog, names: Mapping[str, str], storage_options: Mapping[str, Any]) -> None:
        """Know more views."""
        with self._lock:
            self._views.update({view: View(lake, table, storage_options) for view, table in names.items()})

    def look(self, text: str) -> None:
        """Make the views that a text mentions."""
        with self._lock:
            for word in dict.fromkeys(found.lower() for found in _WORD.findall(text)):
                if word in self._views:
                    self._views[word].make(self._session, word)

    def __call__(self, sqlQuery: str, *args: Any, **kwargs: Any) -> Any:  # noqa: N803 - Spark's name
        if isinstance(sqlQuery, str):
            self.look(sqlQuery)
        return super().__call__(sqlQuery, *args, **kwargs)


class _Tables:
    """`table` of a session that uses catalogs."""

    def __init__(self, views: WithViews, table: Any) -> None:
        self._views, self._table = views, table

    def __call__(self, tableName: str) -> Any:  # noqa: N803 - Spark's name
        self._views.look(str(tableName))
        return self._table(tableName)
