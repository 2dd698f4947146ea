"""From a name in a statement to a table of ours.

Owns: `Names`, which knows the warehouses that a session has registered, its current catalog and database, and what Spark's own
catalog tells; `Located` and `Place`. Must not know: statements' texts, how tables are read or changed.
Source: decision 123. Invariants: a name is looked up in one way, whoever asks. Spark's own current database is left alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import local
from typing import Any

from ...core.errors import InvalidArgument, TableNotFound
from ...core.paths import DEFAULT_BRANCH
from ...table.catalog.catalog import Catalog
from ...table.catalog.names import TableName
from ...table.create import open_table
from ...table.table import Table
from ..grammar.pieces import Name
from ..options.catalog import NAME, catalog_table
from ..options.source_options import STORAGE_PREFIX, SourceOptions
from ..sessions.session import checked_url
from .errors import TableMissing
from .texts import absolute, quoted, quoted_name

SPARKS_CATALOG = "spark_catalog"
_SPARKS = (SPARKS_CATALOG, "global_temp", "system", "session")
"""Names of catalogs and databases that are Spark's own, whatever USE has chosen."""
_BRANCH = "branch_"


@dataclass(frozen=True)
class Warehouse:
    """A registered catalog: its name in the session, the catalog itself, and the store's options for readers."""

    name: str
    catalog: Catalog
    storage_options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Place:
    """Where a name of a registered warehouse leads, whether there is a table or not.

    `table` is without `$branch_…` and `$snapshots`, which `branch` and `system` have.
    """

    warehouse: Warehouse
    database: str
    table: str
    branch: str = DEFAULT_BRANCH
    system: str | None = None

    @property
    def plain(self) -> str:
        """The name for methods of `Catalog`, such as `air.flights`."""
        return f"{self.database}.{self.table}"

    @property
    def full(self) -> str:
        return f"{self.warehouse.name}.{self.plain}"

    @property
    def url(self) -> str:
        return self.warehouse.catalog.url_of(self.plain)


@dataclass(frozen=True)
class Located:
    """A table of ours, as a name in a statement means it.

    Attributes:
        name: as it was written, for errors.
        options: the options of the name (`OPTIONS (…)` in Spark's catalog) as those of the data source, `path` included.
        place: where it is in a registered warehouse; None for a table of Spark's catalog, and for `` lakelatch.`/path` ``.
        branch, system: `$branch_dev` and `$snapshots`.
        full: catalog, database and table, which names of its columns may begin with; nothing for a path.
    """

    name: str
    url: str
    options: Mapping[str, str] = field(default_factory=dict)
    storage_options: Mapping[str, Any] = field(default_factory=dict)
    branch: str = DEFAULT_BRANCH
    system: str | None = None
    place: Place | None = None
    full: tuple[str, ...] = ()

    def open(self) -> Table:
        """Open the table, at the branch that the name says.

        Raises:
            TableMissing: there is none; Spark's error class for it is TABLE_OR_VIEW_NOT_FOUND.
        """
        try:
            return open_table(self.url, branch=self.branch, storage_options=self.storage_options)
        except TableNotFound as error:
            raise TableMissing(self.name, error.message) from error


class Names:
    """What names mean in one session.

    Attributes:
        warehouses: by their names in lower case.
        current: the registered catalog and database that USE has chosen; None while Spark's own is current.
        folder: where relative paths begin: the current folder when the session was registered, or its file system.
    """

    def __init__(self, session: Any, sparks: Any) -> None:
        self.session, self.sparks = session, sparks
        self.warehouses: dict[str, Warehouse] = {}
        self.current: tuple[Warehouse, str] | None = None
        self.folder: str | None = None
        self._seen = local()

    def place(self, name: Name | Sequence[str], views: bool = True) -> Place | None:
        """Where a name leads if it is one of a registered warehouse, whether there is a table or not. The store is not asked.

        A name of one part means a temporary view, if the session has one; without `views`, as for a table that is to be made,
        not.

        Raises:
            InvalidArgument: it cannot be the name of a table.
        """
        parts = _parts(name)
        head = self.warehouses.get(parts[0].lower())
        if head is not None and len(parts) > 1:
            if len(parts) != 3:
                raise InvalidArgument(
                    f"{'.'.join(parts)} does not name a table", next_step=f"write {head.name}.DATABASE.TABLE"
                )
            return _place(head, parts[1], parts[2])
        if self.current is None or len(parts) > 2 or parts[0].lower() in _SPARKS:
            return None
        warehouse, database = self.current
        if len(parts) == 2:
            return None if _is_file(parts) else _place(warehouse, *parts)
        return None if views and self.is_view(parts[0]) else _place(warehouse, database, parts[0])

    def is_view(self, name: str) -> bool:
        """Has the session a temporary view of this name, which goes before a table?"""
        found = self.sparks(f"SHOW VIEWS LIKE {quoted(name)}").collect()
        return any(row["isTemporary"] and row["viewName"].lower() == name.lower() for row in found)

    def database(self, name: Name | Sequence[str] | None) -> tuple[Warehouse, str | None] | None:
        """What the name of a database or catalog means: the warehouse, and the database, None for the whole catalog.

        None for the name means the current one. None is returned for what is Spark's. Sends no request; an unknown database is
        no error.
        """
        if name is None:
            return self.current
        parts = _parts(name)
        head = self.warehouses.get(parts[0].lower())
        if head is not None and len(parts) < 3:
            return head, parts[1] if len(parts) == 2 else None
        if self.current is not None and len(parts) == 1 and parts[0].lower() not in _SPARKS:
            return self.current[0], parts[0]
        return None

    def locate(self, name: Name | Sequence[str]) -> Located | None:
        """The table of ours that a name means: in a registered warehouse, in Spark's own catalog USING lakelatch, or by
        `` lakelatch.`/path` ``; None for any other. Whether a table is there in a warehouse is not asked.

        Raises:
            InvalidArgument: it cannot be the name of a table.
        """
        parts, seen = _parts(name), getattr(self._seen, "found", None)
        if seen is not None and seen[0] == parts:
            return seen[1]  # type: ignore[no-any-return]
        return self.in_warehouse(parts) or self._in_spark(parts)

    @contextmanager
    def remembered(self) -> Iterator[None]:
        """A statement, for which `remember` holds: one that was carried out may have made the name mean something else."""
        self._seen.found = None
        try:
            yield
        finally:
            self._seen.found = None

    def remember(self, name: Name, found: Located) -> None:
        """What `locate` tells of a name for the rest of this statement, which asks Spark's catalog once."""
        self._seen.found = (name.parts, found)

    def in_warehouse(self, name: Name | Sequence[str]) -> Located | None:
        """As `locate`, without a look at Spark's own catalog."""
        parts, text = _parts(name), ".".join(_parts(name))
        if _is_path(parts):
            url = absolute(checked_url(self.session, parts[1]))
            return Located(text, url, {"path": url})
        place = self.place(parts)
        if place is None:
            return None
        given = place.warehouse.storage_options
        options = {f"{STORAGE_PREFIX}{key}": _told(value) for key, value in given.items()}
        if place.branch != DEFAULT_BRANCH:
            options["branch"] = place.branch
        options["path"] = place.url
        full = (place.warehouse.name, place.database, place.table)
        return Located(place.full, place.url, options, given, place.branch, place.system, place, full)

    def _in_spark(self, parts: tuple[str, ...]) -> Located | None:
        text = ".".join(quoted_name(part) for part in parts)
        found = catalog_table(self.sparks, text)
        if found is None:
            return None
        lasting = found.lasting()
        options = SourceOptions(lasting)
        full = (SPARKS_CATALOG, found.database, parts[-1])
        return Located(".".join(parts), options.url, lasting, options.storage_options, options.branch, full=full)


def _parts(name: Name | Sequence[str]) -> tuple[str, ...]:
    return name.parts if isinstance(name, Name) else tuple(name)


def _is_file(parts: Sequence[str]) -> bool:
    """Is it `` parquet.`/path` ``, as Spark has it for files of any format?"""
    return len(parts) == 2 and any(sign in parts[1] for sign in "/:")


def _is_path(parts: Sequence[str]) -> bool:
    """Is it `` lakelatch.`/path` ``?"""
    return _is_file(parts) and parts[0].lower() == NAME


def _place(warehouse: Warehouse, database: str, table: str) -> Place:
    plain, *suffixes = table.split("$")
    branch, system = DEFAULT_BRANCH, None
    if suffixes and suffixes[0].startswith(_BRANCH):
        branch = suffixes.pop(0)[len(_BRANCH) :]
    if suffixes:
        system = suffixes.pop(0)
    if suffixes or not plain:
        raise InvalidArgument(
            f"{table!r} is no name of a table",
            next_step="write `t`, `t$branch_NAME`, `t$snapshots` or `t$branch_NAME$snapshots`",
        )
    parsed = TableName.parse(f"{database}.{plain}" + ("" if branch == DEFAULT_BRANCH else f"${_BRANCH}{branch}"))
    return Place(warehouse, parsed.database, parsed.table, parsed.branch, system)


def _told(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
