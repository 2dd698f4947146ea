"""`df.writeTo(name)` for tables of ours.

Owns: `TableWriter`. Must not know: how rows are written. Source: decision 123.
Invariants: columns are matched by name, as Spark's own writer does. What a method cannot do is refused, and nothing was written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...core.errors import InvalidArgument, Unsupported
from ...table.table import Table
from ..catalogs.names import Located, Place
from ..catalogs.run import Run
from ..column_text import as_text
from ..ddl.creating import How, NewTable, check_using, make
from ..options.asked import Asked
from ..options.source_options import SourceOptions
from ..predicate import partition_of
from ..sessions.zones import bound_in, session_zone
from ..write_job import carry_out
from .naming import instead_of, parts, run_of


def understand_write_to(session: Any) -> None:
    """Let `writeTo` of this kind of frames (classic or Connect) know tables of ours."""
    instead_of(
        type(session.range(0)),
        "writeTo",
        lambda sparks: lambda self, table: _writer(self, table) or sparks(self, table),
    )


def _writer(frame: Any, name: str) -> TableWriter | None:
    run, found = run_of(frame.sparkSession), parts(name)
    if run is None or not found:
        return None
    place = run.names.place(found)
    located = run.names.locate(found)
    return None if place is None and located is None else TableWriter(frame, run, name, place, located)


class TableWriter:
    """What `df.writeTo(name)` returns: the methods of Spark's `DataFrameWriterV2`."""

    def __init__(self, frame: Any, run: Run, name: str, place: Place | None, located: Located | None) -> None:
        self._frame, self._run, self._name = frame, run, name
        self._place, self._located = place, located
        self._options: dict[str, str] = {}
        self._properties: dict[str, str] = {}
        self._partition_by: tuple[str, ...] = ()

    # ---------------------------------------------------------------------------------------------------------- asking

    def using(self, provider: str) -> TableWriter:
        """The format of a new table: `lakelatch` or `paimon`."""
        if self._place is not None:
            check_using(self._place, provider)
        return self

    def option(self, key: str, value: Any) -> TableWriter:
        """An option of the write, such as `commit-user`."""
        self._options[key.lower()] = str(value).lower() if isinstance(value, bool) else str(value)
        return self

    def options(self, **options: Any) -> TableWriter:
        for key, value in options.items():
            self.option(key, value)
        return self

    def tableProperty(self, property: str, value: str) -> TableWriter:  # noqa: A002, N802 - Spark's names
        """An option of a new table."""
        self._properties[property] = value
        return self

    def partitionedBy(self, col: Any, *cols: Any) -> TableWriter:  # noqa: N802
        """The partition columns of a new table."""
        texts = [one if isinstance(one, str) else str(as_text(one, "partitionedBy")) for one in (col, *cols)]
        self._partition_by = tuple(text[1:-1].replace("``", "`") if text[:1] == "`" else text for text in texts)
        return self

    def clusterBy(self, col: str, *cols: str) -> TableWriter:  # noqa: N802
        raise Unsupported(
            f"writeTo({self._name!r}).clusterBy",
            next_step="CALL sys.compact(table => …, order_strategy => 'zorder', order_by => …)",
        )

    # --------------------------------------------------------------------------------------------------------- making

    def create(self) -> None:
        """Make the table, with the frame's columns and rows."""
        self._make(How())

    def replace(self) -> None:
        """Replace columns and rows of a table, which must exist."""
        self._make(How(replaces=True, must_exist=True))

    def createOrReplace(self) -> None:  # noqa: N802
        """Make the table, or replace its columns and rows."""
        self._make(How(replaces=True))

    def _make(self, how: How) -> None:
        if self._place is None:
            raise Unsupported(
                f"writeTo({self._name!r}) makes no tables of Spark's own catalog",
                next_step="df.write.format('lakelatch').option('path', url).saveAsTable(name), or register a catalog",
            )
        wanted = NewTable(None, self._partition_by, self._properties)
        make(self._run, self._place, wanted, lambda: self._frame, how, self._options)

    # -------------------------------------------------------------------------------------------------------- writing

    def append(self) -> None:
        """Add the rows; by primary key where the table has one."""
        table, options = self._opened()
        carry_out(self._frame, options.asked(table.schema, overwrite=False))

    def overwritePartitions(self) -> None:  # noqa: N802
        """Replace each partition that has rows; a table without partitions as a whole."""
        table, options = self._opened()
        asked = options.asked(table.schema, overwrite=False)
        if table.schema.partition_keys:
            carry_out(self._frame, replace(asked, mode="overwrite-partitions"))
        else:
            carry_out(self._frame, replace(asked, mode="overwrite", partition={}))

    def overwrite(self, condition: Any) -> None:
        """Replace the rows for which a condition is true: all of them, or whole partitions by the values of their columns."""
        table, options = self._opened()
        text = str(as_text(condition, "condition"))
        partition = partition_of(
            bound_in(session_zone(self._run.session), text, table.schema), table.schema.partition_keys
        )
        if partition is None:
            raise Unsupported(
                f"writeTo({self._name!r}).overwrite({text}): only whole partitions can be replaced",
                next_step="write column = value for partition columns, joined by AND; or INSERT INTO … REPLACE WHERE",
            )
        asked: Asked = options.asked(table.schema, overwrite=False)
        carry_out(self._frame, replace(asked, mode="overwrite", partition=partition))

    def _opened(self) -> tuple[Table, SourceOptions]:
        if self._located is None or self._properties or self._partition_by:
            raise InvalidArgument(
                f"writeTo({self._name!r}): partitions and properties go with a new table only", next_step="use create()"
            )
        if self._located.system is not None:
            raise Unsupported(
                f"{self._name} is a system table, which can only be read", next_step="name the table itself"
            )
        options = SourceOptions(given_options(self._located, self._options))
        return self._located.open(), options


def given_options(located: Located, options: Mapping[str, str]) -> dict[str, str]:
    """The options of a name and of a write by it."""
    for key in ("path", "branch"):
        if key in options and options[key] != located.options.get(key):
            raise InvalidArgument(
                f"option '{key}' and the name {located.name} say different things", next_step="leave it out"
            )
    return {**located.options, **options}
