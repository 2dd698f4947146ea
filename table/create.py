"""Create, open, drop and rename tables.

Owns: `create_table`, `open_table`, `is_table`, `drop_table`, `rename_table`. Must not know: rows, commits. Source: architecture
§5; format/schema §1.
Invariant: a table begins with one atomic create of `schema-0`, so if two callers create it at once, only one succeeds.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from ..backends.requests.deadline import operation
from ..core import options as opt
from ..core.arguments import listed, mapping, names
from ..core.errors import InvalidArgument, LakelatchError, StoreUnavailable, TableExists, TableNotFound, Unsupported
from ..core.paths import DEFAULT_BRANCH, TablePaths

if TYPE_CHECKING:
    from ..backends.store import Store
    from ..coordinator.journal.lines import Journal
    from ..coordinator.maintenance.deletion import Progress
    from ..coordinator.maintenance.drop import DropPlan
    from ..core.metadata.schema import TableSchema
    from ..core.rows.types import Field
    from .table import Table


class Schema:
    """Columns in the format's own types, for types that Arrow lacks (CHAR, VARCHAR(n), TIME(p), MULTISET, VARIANT).

    Args:
        columns: (name, SQL type) pairs, or `Field`s. A type may have parts: `ARRAY<INT>`, `ROW<a INT, b STRING>`.

    Raises:
        InvalidArgument: a type is unknown or misspelt.

    >>> [f.name for f in Schema([("id", "BIGINT NOT NULL"), ("code", "CHAR(3)")]).fields]
    ['id', 'code']
    """

    def __init__(self, columns: Sequence[tuple[str, Any] | Field]) -> None:
        from ..core.metadata.schemas.field_edits import numbered
        from ..core.rows.type_text import parse_sql_type
        from ..core.rows.types import Field, parse_type, walk_fields

        made: list[Field] = []
        as_text = []
        for position, column in enumerate(listed(columns, "columns", "pairs of a name and a type")):
            if isinstance(column, Field):
                made.append(column)
                continue
            if not isinstance(column, (tuple, list)) or len(column) != 2:
                raise InvalidArgument(f"{column!r} is no pair of a name and a type", next_step="write ('id', 'BIGINT')")
            name, given = column
            where = f"column '{name}'"
            if isinstance(given, str):
                as_text.append(position)
            kind = parse_sql_type(given, where) if isinstance(given, str) else parse_type(given, where)
            made.append(Field(position, name, kind))
        taken = [f for i, f in enumerate(made) if i not in as_text]
        highest = max((len(made) - 1, *(f.id for f in walk_fields(tuple(taken)))))
        for position in as_text:  # the fields inside a type that is text have no ids yet
            kind, highest = numbered(made[position].type, highest)
            made[position] = replace(made[position], type=kind)
        self.fields: tuple[Field, ...] = tuple(made)


def create_table(
    url: str,
    schema: Any = None,
    *,
    like: Table | str | None = None,
    partition_by: Sequence[str] | str | None = None,
    primary_key: Sequence[str] | str | None = None,
    options: Mapping[str, Any] | None = None,
    comment: str | None = None,
    exist_ok: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    journal: str | Journal | None = None,
    allow_unknown: bool = False,
) -> Table:
    """Create a table.

    Args:
        url: the table's location: a path, `file://`, `s3://`, …
        schema: an Arrow schema or what has one, a pandas or polars frame, whose rows are not written, a dict of names and types,
            text such as `id BIGINT NOT NULL, day DATE`, or `Schema` for types that Arrow lacks.
        like: instead of `schema`, a table, or its URL: the new one gets its columns, keys, options and comment, unless others are
            given; not its rows, nor options that name places outside of its folder.
        partition_by, primary_key: a column name, or several.
        options: the format's table options. The locations of `data-file.external-paths` are allowed for this table (see `allow`).
        exist_ok: return the existing table instead of raising.
        storage_options: options of the store, as in fsspec. They are never stored in the table.
        journal: as for `open_table`.
        allow_unknown: accept options that neither lakelatch nor Apache Paimon knows.

    Raises:
        TableExists: there is a table at the URL, and `exist_ok` is False.
        InvalidArgument: a name, type, key or option that the format refuses; or an unknown option, with similar names.
        StoreUnavailable: the store cannot be reached, or refused; no table was created.
        OutcomeUnknown: the store did not confirm that the table was created.
    """
    from ..backends.elsewhere import fixed_url
    from ..backends.registry import open_store
    from ..backends.trust import allow_here
    from ..coordinator.schema_commit import create_first_schema
    from ..core.metadata.schema import new_schema
    from ..core.metadata.schemas.column_options import check_names
    from ..core.metadata.schemas.foreign_options import check_foreign
    from ..core.metadata.schemas.key_checks import check_keyed
    from ..core.metadata.table_identity import with_identity
    from ..core.option_names import check_option_name
    from ..core.places import named_locations
    from .conforming.columns import columns_of

    options = mapping(options, "options")
    for key in options:
        check_option_name(key, allow_unknown)
    if like is not None:
        if schema is not None:
            raise InvalidArgument("create_table takes schema or like, not both")
        given = _given_by(like, storage_options)
        schema = Schema(given.fields)
        partition_by = given.partition_keys if partition_by is None else partition_by
        primary_key = given.primary_keys if primary_key is None else primary_key
        comment = given.comment if comment is None else comment
        options = {k: v for k, v in given.option_texts.items() if not k.startswith(_OF_ONE_PLACE)} | options
    fields = schema.fields if isinstance(schema, Schema) else columns_of(schema)
    made = new_schema(
        fields,
        partition_keys=_names(partition_by, "partition_by"),
        primary_keys=_names(primary_key, "primary_key"),
        options=options,
        comment=comment,
        time_ms=int(time.time() * 1000),
    )
    check_keyed(made)
    check_names(made)
    check_foreign(made)
    store = open_store(url, storage_options)
    first_schema = with_identity(made.to_json(), uuid4())
    if create_first_schema(store, TablePaths().schema(made.id), first_schema):
        # The caller named these places, and nothing in the table can name a file there yet.
        if outside := named_locations(made.options):
            allow_here(fixed_url(store), outside)
    elif not exist_ok:
        raise TableExists(f"there is a table at {store.url}")
    return _open(store, DEFAULT_BRANCH, journal)


_OF_ONE_PLACE = ("data-file.external-paths", "commit.journal", "path")
"""Options that are not for another table: they name places outside of its folder."""


def _given_by(like: Table | str, storage_options: Mapping[str, Any] | None) -> TableSchema:
    from .opened import OpenTable

    found = like if isinstance(like, OpenTable) else open_table(like, storage_options=storage_options)
    return found.refresh().schema


def _names(given: Sequence[str] | str | None, name: str) -> tuple[str, ...]:
    return () if given is None else tuple(names(given, name))


def open_table(
    url: str,
    *,
    branch: str = DEFAULT_BRANCH,
    storage_options: Mapping[str, Any] | None = None,
    journal: str | Journal | None = None,
) -> Table:
    """Open a table.

    Args:
        branch: `main`, or a branch of the table.
        journal: where this table's commits write their events: the path of a JSON-lines file, or a `Journal`.

    Raises:
        TableNotFound: there is no table at the URL.
    """
    from ..backends.registry import open_store

    return _open(open_store(url, storage_options), branch, journal)


def _open(store: Store, branch: str, journal: str | Journal | None) -> Table:
    from ..coordinator.history.last_seen import LastSeen
    from ..coordinator.history.timeline import Timeline
    from .table import Table

    timeline = Timeline(store, TablePaths(branch))
    if branch != DEFAULT_BRANCH and not timeline.schema_ids():
        raise InvalidArgument(f"{store.url} has no branch {branch!r}")
    with operation(store, "opening a table"):
        (schema, first_schema), seen = timeline.both(timeline.opened, lambda: LastSeen.hinted(timeline))
    return Table(store, schema, branch=branch, journal=journal, first_schema=first_schema, last_seen=seen)


def is_table(url: str, *, storage_options: Mapping[str, Any] | None = None) -> bool:
    """Is there a table at the URL?"""
    from ..backends.registry import open_store
    from ..coordinator.history.timeline import Timeline

    try:
        return bool(Timeline(open_store(url, storage_options), TablePaths()).schema_ids())
    except (TableNotFound, Unsupported):
        return False


def drop_table(
    url: str,
    *,
    dry_run: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> DropPlan:
    """Delete a table: its snapshots, tags and branches, its metadata and its rows.

    Jobs that write to it meanwhile get an error that says so, and what they bring is deleted too. A drop that was cut off is
    finished by running it again; until then nobody can open the table, and none can be made in its place.

    Only files of the format are deleted. Files of other kinds stay, and so do files in the locations of option
    `data-file.external-paths`, where other tables may have theirs.

    Args:
        dry_run: change nothing.
        progress: called with the number of files deleted so far and their total.

    Returns:
        What was, or with `dry_run` would be, deleted. Prints as one line.

    Raises:
        TableNotFound: there is no table at the URL, and nothing is left of one.
        InvalidArgument: another table lies in a folder of this one.
        StoreUnavailable: the store failed midway; run it again.

    >>> import pyarrow as pa, lakelatch as ll
    >>> receipt = ll.create_table("memory://drop-doctest/t", pa.schema([("v", pa.int64())])).append(pa.table({"v": [1]}))
    >>> ll.drop_table("memory://drop-doctest/t", dry_run=True).snapshots
    1
    >>> plan = ll.drop_table("memory://drop-doctest/t")
    >>> ll.is_table("memory://drop-doctest/t")
    False
    """
    from ..backends.registry import open_store
    from ..coordinator.maintenance.drop import apply_drop, plan_drop

    store = open_store(url, storage_options)
    plan = plan_drop(store, _data_directory(store))
    return plan if dry_run else apply_drop(store, plan, progress)


def rename_table(url: str, new_url: str, *, storage_options: Mapping[str, Any] | None = None) -> Table:
    """Rename a table in one atomic step. Returns the table at its new place.

    Jobs that write to the table under its old name get an error that says so.

    Raises:
        TableNotFound: there is no table at the URL.
        TableExists: something is at the new URL.
        Unsupported: the store cannot rename a folder in one step, as no object store can; nothing was changed. The error says
            what to do instead.

    >>> import pyarrow as pa, lakelatch as ll
    >>> table = ll.create_table("memory://rename-doctest/t", pa.schema([("v", pa.int64())]))
    >>> ll.rename_table("memory://rename-doctest/t", "memory://rename-doctest/u").url, ll.is_table(table.url)
    ('memory://rename-doctest/u', False)
    """
    from ..backends.elsewhere import fixed_url
    from ..backends.registry import open_store, url_text
    from ..backends.trust import moved
    from ..coordinator.maintenance.rename import rename

    store = open_store(url, storage_options)
    rename(store, url_text(new_url))
    moved(fixed_url(store), new_url)
    return open_table(new_url, storage_options=storage_options)


def _data_directory(store: Store) -> str:
    """The folder of a table's data files; empty where no schema can be read, as in a table whose drop was cut off."""
    from ..coordinator.history.timeline import Timeline

    try:
        return Timeline(store, TablePaths()).latest_schema().options.get(opt.DATA_FILE_DIRECTORY)
    except (StoreUnavailable, Unsupported):
        raise
    except LakelatchError:
        return ""
