"""`Catalog`: the databases and tables below one URL.

Owns: `open_catalog`, `Catalog`: listing, opening, making, renaming and dropping. Must not know: how a table is dropped.
Source: format/snapshot §1. Invariants: only folders that hold a table's schema are listed. No name leads out of the catalog
(H16). A database is a folder, as in Apache Paimon; a file in it keeps it on stores that have no empty folders.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...backends.files.folders import folders, remove_folders
from ...backends.registry import open_store
from ...backends.requests.deadline import timed
from ...backends.storage_options import StorageOptions
from ...backends.store import AlreadyThere, Created, ObjectNotFound
from ...coordinator.history.parallel import READ_THREADS
from ...coordinator.history.timeline import Timeline
from ...coordinator.maintenance.deletion import Progress
from ...coordinator.maintenance.drop import DropPlan
from ...coordinator.surroundings import MACHINE
from ...core.arguments import callback, listed
from ...core.errors import InvalidArgument, StoreUnavailable
from ...core.html_text import grid
from ...core.json_text import parse_json
from ...core.metadata.schemas.dropped import is_dropped
from ...core.paths import DEFAULT_BRANCH, TablePaths
from ..create import create_table, drop_table, is_table, open_table, rename_table
from ..table import Table
from .maintain import Told, Upkeep, maintain
from .names import DATABASE_SUFFIX, TableName, checked_database, defect, folder_of

if TYPE_CHECKING:
    pass

MARK = ".lakelatch-database"
"""A file that keeps the folder of an empty database."""
_TABLE_TYPES = ("", "table", "materialized-table")
"""The values of option `type` whose folders hold snapshots; the others describe files that are not the table's own."""


class Catalog:
    """The databases and tables below one URL, in the layout of Apache Paimon's file-system catalog: `DATABASE.db/TABLE`.

    Args:
        url: a path, `s3://bucket/path`, …
        storage_options: options of the store, as for `open_table`; every table is opened with them.

    >>> import pyarrow as pa, lakelatch as ll
    >>> lake = ll.open_catalog("memory://catalog-doctest")
    >>> lake.create_database("air")
    >>> receipt = lake.create_table("air.flights", pa.schema([("month", pa.int32())])).append(pa.table({"month": [1]}))
    >>> lake.databases(), lake.tables("air"), "air.flights" in lake, lake["air.flights"].to_arrow().num_rows
    (['air'], ['flights'], True, 1)
    """

    def __init__(self, url: str, storage_options: Mapping[str, Any] | None = None) -> None:
        self._options = StorageOptions(storage_options)
        self._store = open_store(url, self._options)

    def __repr__(self) -> str:
        return f"Catalog({self.url})"

    def _repr_html_(self) -> str:
        return grid(("database", "table"), [name.partition(".")[::2] for name in self])

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    @property
    def url(self) -> str:
        """The catalog's root, without credentials."""
        return self._store.url

    # -------------------------------------------------------------------------------------------------------- listing

    @timed("a listing of databases", lambda self: self._store)
    def databases(self) -> list[str]:
        """The names of the databases, ascending.

        Raises:
            InvalidArgument: the URL is that of a table.
        """
        found = folders(self._store, "")
        names = [name[: -len(DATABASE_SUFFIX)] for name in found if name.endswith(DATABASE_SUFFIX)]
        if not names and "schema" in found and is_table(self.url, storage_options=self._options):
            raise InvalidArgument(
                f"{self.url} is a table, and no catalog of tables",
                next_step="name the folder that holds DATABASE.db/TABLE, or open the table by itself",
            )
        return [name for name in names if defect(name) is None]

    @timed("a listing of tables", lambda self: self._store)
    def tables(self, database: str) -> list[str]:
        """The names of the tables of a database, ascending. Folders that hold no table, and object tables, are left out.

        Raises:
            InvalidArgument: there is no such database.
        """
        found = self._folders_of(database)
        with MACHINE.executor(READ_THREADS, "lakelatch-catalog") as pool:
            listed = list(pool.map(self._is_listed, (folder_of(database) + name for name in found)))
        tables = [name for name, yes in zip(found, listed, strict=True) if yes]
        if not tables:
            self._check_database(database)
        return tables

    def __iter__(self) -> Iterator[str]:
        """The names of all tables, such as `air.flights`, ascending."""
        for database in self.databases():
            yield from (f"{database}.{table}" for table in self.tables(database))

    def __contains__(self, name: object) -> bool:
        """Is there a table of this name?"""
        if not isinstance(name, str):
            return False
        parsed = TableName.parse(name)
        return is_table(self.url_of(name), storage_options=self._options) and parsed.branch == DEFAULT_BRANCH

    def _folders_of(self, database: str) -> list[str]:
        names = folders(self._store, folder_of(checked_database(database)))
        return [name for name in names if defect(name) is None]

    def _is_listed(self, folder: str) -> bool:
        """Whether a folder holds a table with rows of its own. A table whose schema is damaged is listed."""
        try:
            data = self._store.get(f"{folder}/{TablePaths().schema(0)}")
        except ObjectNotFound:
            return bool(Timeline(open_store(self._join(folder), self._options), TablePaths()).schema_ids())
        try:
            options = parse_json(data).get("options") or {}
            return str(options.get("type", "")) in _TABLE_TYPES and not is_dropped(data)
        except (ValueError, AttributeError):
            return True

    def _join(self, folder: str) -> str:
        return f"{self.url.rstrip('/')}/{folder}"

    # ------------------------------------------------------------------------------------------------------ databases

    def create_database(self, name: str, *, exist_ok: bool = False) -> None:
        """Make a database.

        Raises:
            InvalidArgument: the name cannot be one, or there is such a database and `exist_ok` is False.
            StoreUnavailable: the store refused, or does not say whether the database was made; run it again.
        """
        if checked_database(name) in self.databases():
            if not exist_ok:
                raise InvalidArgument(f"there is a database {name!r} in {self.url}", next_step="pass exist_ok=True")
            return
        made = self._store.put_if_absent(folder_of(name) + MARK, b"")
        if not isinstance(made, Created | AlreadyThere):
            raise StoreUnavailable(f"{self.url}: it is not known whether database {name!r} was made: {made.reason}")

    def drop_database(
        self, name: str, *, cascade: bool = False, dry_run: bool = False, progress: Progress | None = None
    ) -> list[DropPlan]:
        """Drop a database; with `cascade`, its tables too.

        Args:
            progress: called with the number of files of the current table deleted so far, and their total.

        Returns:
            What was, or with `dry_run` would be, deleted of each table.

        Raises:
            InvalidArgument: there is no such database; it holds tables, and `cascade` is False; or it holds files that belong to
                no table, which are never deleted.
        """
        callback(progress, "progress")
        tables = self.tables(name)
        if tables and not cascade:
            raise InvalidArgument(
                f"database {name!r} holds {len(tables)} tables: {', '.join(tables[:3])}{', …' if len(tables) > 3 else ''}",
                next_step="pass cascade=True to drop them too",
            )
        plans = [self.drop_table(f"{name}.{table}", dry_run=True) for table in tables]
        own = (MARK, *(f"{table}/" for table in tables))
        start = folder_of(name)
        left = [i.key for i in self._store.list(start) if not i.key[len(start) :].startswith(own)]
        left += [key for plan in plans for key in plan.foreign]
        if left:
            raise InvalidArgument(
                f"database {name!r} holds {len(left)} files that belong to no table, such as {left[0]}",
                next_step="move or delete them yourself, then drop the database again",
            )
        if not dry_run:
            plans = [self.drop_table(f"{name}.{table}", progress=progress) for table in tables]
            self._store.delete_many([start + MARK])
            remove_folders(self._store, start)
        return plans

    def _check_database(self, name: str) -> None:
        if name not in self.databases():
            raise InvalidArgument(
                f"there is no database {name!r} in {self.url}", next_step=f"create_database({name!r}) makes it"
            )

    # --------------------------------------------------------------------------------------------------------- tables

    def url_of(self, name: str) -> str:
        """The URL of a table such as `air.flights`, whether there is one or not."""
        return self._join(TableName.parse(name).folder)

    def __getitem__(self, name: str) -> Table:
        """Open a table such as `air.flights`, or a branch of one: `air.flights$branch_dev`.

        Raises:
            TableNotFound: there is no such table.
            InvalidArgument: this cannot be the name of a table.
        """
        return open_table(self.url_of(name), branch=TableName.parse(name).branch, storage_options=self._options)

    def create_table(
        self,
        name: str,
        schema: Any = None,
        *,
        like: Table | str | None = None,
        partition_by: Sequence[str] | str | None = None,
        primary_key: Sequence[str] | str | None = None,
        options: Mapping[str, Any] | None = None,
        comment: str | None = None,
        exist_ok: bool = False,
    ) -> Table:
        """Create a table in a database that exists. The other arguments and the errors are those of `ll.create_table`; text
        in `like` is the name of a table of this catalog.

        Raises:
            InvalidArgument: there is no such database.
        """
        found = self._plain(name)
        self._check_database(found.database)
        return create_table(
            self.url_of(name),
            schema,
            like=self[like] if isinstance(like, str) else like,
            partition_by=partition_by,
            primary_key=primary_key,
            options=options,
            comment=comment,
            exist_ok=exist_ok,
            storage_options=self._options,
        )

    def drop_table(self, name: str, *, dry_run: bool = False, progress: Progress | None = None) -> DropPlan:
        """Drop a table. The other arguments, the result and the errors are those of `ll.drop_table`."""
        callback(progress, "progress")
        self._plain(name)
        return drop_table(self.url_of(name), dry_run=dry_run, storage_options=self._options, progress=progress)

    def rename_table(self, name: str, new_name: str) -> Table:
        """Rename a table in one atomic step, also into another database. Returns the table at its new place.

        Jobs that write to the table under its old name get an error.

        Raises:
            TableNotFound: there is no such table.
            TableExists: there is something of the new name.
            Unsupported: the store cannot rename a folder in one step, as no object store can; nothing was changed.
        """
        self._plain(name)
        target = self._plain(new_name)
        self._check_database(target.database)
        return rename_table(self.url_of(name), self.url_of(new_name), storage_options=self._options)

    def maintain(
        self,
        database: str | None = None,
        *,
        tables: Iterable[str] | None = None,
        dry_run: bool = False,
        jobs: int = 4,
        progress: Told | None = None,
    ) -> Upkeep:
        """Maintain tables as their options say: compact, expire snapshots, delete files that no snapshot names.

        Each step is safe beside jobs that write, and can be repeated: a run that was cut off is finished by running it again. A
        table that fails does not stop the others.

        Args:
            database: only the tables of this one.
            tables: only these, such as ``["air.flights"]``; in place of `database`.
            dry_run: change nothing; the result is the plan.
            jobs: how many tables are maintained at the same time.
            progress: called with the number of tables done so far, their total, and the one that is done.

        Returns:
            What was done, or with `dry_run` would be, table by table. `failed` names the tables of which a step failed.

        >>> import lakelatch as ll, pyarrow as pa
        >>> lake = ll.open_catalog("memory://maintain-doctest")
        >>> lake.create_database("air")
        >>> table = lake.create_table("air.flights", pa.schema([("v", pa.int64())]))
        >>> receipts = [table.append(pa.table({"v": [n]})) for n in range(6)]
        >>> print(lake.maintain(dry_run=True))
        1 tables, 1 have something to do
        >>> print(lake.maintain().tables[0])
        air.flights: compact: 6 files became 1, snapshot 7
        """
        callback(progress, "progress")
        if tables is not None and database is not None:
            raise InvalidArgument("maintain takes a database or tables=, not both")
        if tables is not None:
            names = [str(self._plain(name)) for name in listed(tables, "tables", "a list of names")]
        else:
            names = list(self) if database is None else [f"{database}.{table}" for table in self.tables(database)]
        return maintain(names, self.__getitem__, dry_run=dry_run, jobs=jobs, progress=progress)

    @staticmethod
    def _plain(name: str) -> TableName:
        found = TableName.parse(name)
        if found.branch != DEFAULT_BRANCH:
            raise InvalidArgument(f"{name!r} names a branch", next_step="use the name of the table")
        return found


def open_catalog(url: str, *, storage_options: Mapping[str, Any] | None = None) -> Catalog:
    """Open a catalog: the databases and tables below a URL, in the layout of Apache Paimon's file-system catalog.

    Sends no request. A folder that holds nothing yet is an empty catalog.

    Args:
        url: a path, `s3://bucket/path`, …
        storage_options: options of the store; every table is opened with them.

    Raises:
        InvalidArgument: the URL or an option is not valid.
    """
    return Catalog(url, storage_options)
