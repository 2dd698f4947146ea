"""`spark.table` and `spark.read.table` for tables of registered catalogs, and `spark.read.format("lakelatch").load`.

Owns: these methods. Must not know: how a table is read. Source: decision 123.
Invariants: the rows are those of `SELECT * FROM name`, read in the same way. What `load` cannot do, and a reader with a schema of
its own, is left to the data source, whose answer is the same, and slower.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...core.errors import LakelatchError
from ..catalogs.names import Located
from ..catalogs.queries import frame_at, reads_by_source
from ..catalogs.run import Run
from ..grammar.pieces import Name, TableUse
from ..options.catalog import NAME
from ..options.source_options import SourceOptions
from .naming import instead_of, parts, run_of

_LEFT = frozenset(("timezone", "incremental-between"))
"""Options that `read` does not have: it knows the zone of the session alone."""


def understand_tables(session: Any) -> None:
    """Let `table` of this kind of session and its readers know tables of registered catalogs, and `load` our own scan."""
    instead_of(type(session), "table", lambda sparks: _method(sparks, lambda self, *asked: _table(self, {}, *asked)))
    instead_of(type(session.read), "table", lambda sparks: _method(sparks, _read))
    instead_of(type(session.read), "load", _loading)


def _method(sparks: Any, ours: Any) -> Any:
    def table(self: Any, tableName: str) -> Any:  # noqa: N803 - Spark's name
        found = ours(self, tableName)
        if found is not None:
            return found
        planned = sparks(self, tableName)
        return ours(self, tableName, planned) if reads_by_source(planned) else planned

    return table


def _read(reader: Any, *asked: Any) -> Any:
    return _table(_session_of(reader), _options(reader), *asked)


def _table(session: Any, options: Mapping[str, str], name: str, planned: Any = None) -> Any:
    run = run_of(session)
    return planned if run is None else table_frame(run, parts(name), options, planned)


def table_frame(run: Run, found: list[str], options: Mapping[str, str], planned: Any = None) -> Any:
    """The frame of a table.

    Args:
        planned: the frame of Spark's data source, if the name may be one of Spark's own catalog.

    Returns: None, or `planned`, for a name that is none of a registered catalog, or for what only the data source can do.
    """
    names = run.names
    located = None if not found else names.in_warehouse(found) if planned is None else names.locate(found)
    if located is None:
        return planned
    use = TableUse(Name(tuple(found)), 0, 0, aliased=True, alias_at=0, options=dict(options))
    try:
        return frame_at(run, located, use).alias(found[-1])
    except LakelatchError:
        if planned is None:
            raise
        return planned


def _loading(sparks: Any) -> Any:
    def load(
        self: Any,
        path: Any = None,
        format: Any = None,  # noqa: A002 - these are Spark's names
        schema: Any = None,
        **options: Any,
    ) -> Any:
        if format is not None:
            self.format(format)
        if schema is not None:
            self.schema(schema)
        self.options(**options)
        run = run_of(_session_of(self)) if path is None or isinstance(path, str) else None
        found = None if run is None else _loaded(run, self, path)
        return sparks(self, path) if found is None else found

    return load


def _loaded(run: Run, reader: Any, path: str | None) -> Any:
    """The frame of a table at a URL; None where Spark or the data source shall answer, with an error as well."""
    source, has_schema = _format(reader)
    given = _options(reader) if path is None else {**_options(reader), "path": path}
    if source.lower() != NAME or has_schema or not given.get("path"):
        return None
    if not _LEFT.isdisjoint(key.lower() for key in given):
        return None
    options = SourceOptions(given, run.names.folder)
    url, storage = options.url, options.storage_options
    located = Located(url, url, {**given, "path": url}, storage, options.branch, options.system)
    return frame_at(run, located, TableUse(Name((url,)), 0, 0, aliased=True, alias_at=0))


def _format(reader: Any) -> tuple[str, bool]:
    """The reader's format, and whether it was given a schema."""
    if hasattr(reader, "_jreader"):
        return reader._jreader.source(), reader._jreader.userSpecifiedSchema().isDefined()
    return reader._format or "", bool(reader._schema)


def _session_of(reader: Any) -> Any:
    return getattr(reader, "_spark", None) or getattr(reader, "_client", None)


def _options(reader: Any) -> dict[str, str]:
    """The reader's options. Neither of Spark's two kinds of reader has a public way to ask."""
    if hasattr(reader, "_options"):  # Spark Connect
        return {str(key).lower(): str(value) for key, value in reader._options.items()}
    pairs = reader._jreader.extraOptions().toSeq()
    return {str(pairs.apply(i)._1()).lower(): str(pairs.apply(i)._2()) for i in range(pairs.size())}
