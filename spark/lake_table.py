"""`LakeTable`: the rows of a table changed from Spark, with the names that users of Delta type.

Owns: `LakeTable`, `LakeMerge`, `LakeOptimize`. Must not know: how rows are found and written (`table.rowlevel`), how a job runs
(`row_job`). Source: architecture §6.
Invariants: A source is materialised once, by one action, so that it is the same in every attempt. Everything works in classic
sessions and under Spark Connect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from ..coordinator.commit.receipt import Receipt
from ..coordinator.commit.request import Isolation
from ..core.errors import InvalidArgument
from ..core.expressions.sql import parse_expression
from ..core.expressions.tree import SOURCE, TARGET, Predicate, references_of
from ..core.metadata.schema import TableSchema
from ..table.compaction.clustering import Clustering
from ..table.compaction.run import Compaction
from ..table.conforming.gathering import source_batch
from ..table.create import is_table, open_table
from ..table.rowlevel.edit import Edit
from ..table.rowlevel.merge_builder import Merge
from ..table.rowlevel.operation import Operation
from ..table.rowlevel.receipt import RowReceipt
from ..table.table import Table
from ..table.travel import epoch_millis
from .column_text import Condition, as_text, as_texts
from .compaction import compact
from .options.catalog import catalog_table, parts_of
from .options.source_options import SourceOptions
from .reading.scan import read
from .row_job import changed_by
from .sessions.session import checked_url
from .sessions.zones import bound_in, session_zone

_HISTORY = (
    "snapshot_id bigint, time_ms bigint, kind string, operation string, commit_user string, identifier bigint, schema_id bigint,"
    " delta_rows bigint, total_rows bigint, attempts int,"
    " riders array<struct<commit_user: string, identifier: bigint, rows: bigint, properties: map<string, string>>>,"
    " writer string, uuid string"
)
_DETAIL = (
    "location string, files bigint, bytes bigint, snapshot_id bigint, partition_columns array<string>,"
    " primary_key array<string>, properties map<string, string>"
)


@dataclass(frozen=True)
class LakeTable:
    """A table, as seen from a Spark session. Made by `forPath` and `forName`.

    Attributes:
        table: the table in Python, for everything that has no name here.
    """

    spark: Any
    table: Table
    storage_options: Mapping[str, Any] | None = None
    name: str | None = None

    @staticmethod
    def forPath(spark: Any, url: str, storage_options: Mapping[str, Any] | None = None) -> LakeTable:  # noqa: N802
        """The table at a URL.

        Args:
            spark: the session, classic or Connect.
            storage_options: as for `lakelatch.spark.read`.

        Raises:
            TableNotFound: there is none.
        """
        return LakeTable(spark, open_table(checked_url(spark, url), storage_options=storage_options), storage_options)

    @staticmethod
    def forName(spark: Any, name: str) -> LakeTable:  # noqa: N802
        """A table of a catalog that `lakelatch.spark.register` was told of, or one of the session's own catalog, which was made
        with `CREATE TABLE … USING lakelatch`.

        Raises:
            InvalidArgument: the catalog has no such table of lakelatch.
        """
        names = getattr(spark.sql, "names", None)
        located = None if names is None else names.in_warehouse(parts_of(name))
        if located is not None:
            return LakeTable(spark, located.open(), located.storage_options)
        found = catalog_table(spark.sql, name)
        if found is None:
            raise InvalidArgument(
                f"the catalog has no table {name!r} of lakelatch", next_step="use LakeTable.forPath(spark, url)"
            )
        options = SourceOptions(found.lasting())
        options.asked(None, overwrite=False)  # refuses a name for a certain snapshot, or for some rows
        return LakeTable(spark, options.table(), options.storage_options)

    @staticmethod
    def isLakeTable(spark: Any, url: str, storage_options: Mapping[str, Any] | None = None) -> bool:  # noqa: N802
        """Is there a table at a URL?"""
        return is_table(checked_url(spark, url), storage_options=storage_options)

    def alias(self, name: str) -> LakeTable:
        """The table under another name, for conditions and values. `t` and `target` mean it too."""
        return replace(self, name=name)

    def toDF(self) -> Any:  # noqa: N802
        """The rows of the newest snapshot as a DataFrame."""
        frame = read(self.spark, self.table.url, storage_options=self.storage_options, branch=self.table.paths.branch)
        return frame if self.name is None else frame.alias(self.name)

    # ------------------------------------------------------------------------------------------------------- changes

    def delete(self, condition: Condition = None, **about: Any) -> RowReceipt:
        """Delete the rows for which a condition is true, or all rows, in one commit.

        Args:
            condition: SQL text, or a Column.
            about: `commit_user`, `identifier`, `isolation` and `properties`, as for `Table.delete`.
        """
        zone, text = session_zone(self.spark), as_text(condition, "condition")
        return self._run(lambda schema: Edit.of(schema, text, None, self.name, zone), about)

    def update(
        self,
        condition: Condition | Mapping[str, Any] = None,
        set: Mapping[str, Any] | None = None,  # noqa: A002
        **about: Any,
    ) -> RowReceipt:
        """Give columns of the rows for which a condition is true, or of all rows, new values, in one commit.

        Args:
            condition: SQL text, or a Column; None for all rows.
            set: for each column, an SQL expression as text, a Column, or `ll.lit(…)`.
            about: as for `delete`.
        """
        if set is None and isinstance(condition, Mapping):
            condition, set = None, condition  # noqa: A001
        if set is None or isinstance(condition, Mapping):
            raise InvalidArgument("update needs the new values", next_step="pass set={'column': 'expression'}")
        zone, text, given = session_zone(self.spark), as_text(condition, "condition"), as_texts(set)
        return self._run(lambda schema: Edit.of(schema, text, given, self.name, zone), about)

    def merge(self, source: Any, condition: Condition, **about: Any) -> LakeMerge:
        """Begin a MERGE.

        Args:
            source: a DataFrame. It is materialised on the driver when the merge is executed, by one action.
            condition: SQL text or a Column, in which `t`, `target` or the table's alias is the table, and any other name the
                source.
            about: as for `delete`.
        """
        text = as_text(condition, "condition")
        if text is None:
            raise InvalidArgument("merge needs a condition", next_step="write merge(source, 't.id = s.id')")
        return LakeMerge(self, source, text, about)

    def _run(self, operation_of: Callable[[TableSchema], Operation], about: Mapping[str, Any]) -> RowReceipt:
        unknown = about.keys() - {"commit_user", "identifier", "isolation", "properties"}
        if unknown:
            raise InvalidArgument(f"there is no argument {min(unknown)!r}")
        isolation: Isolation = about.get("isolation", "serializable")
        return self.table._change_rows(
            operation_of,
            about.get("commit_user"),
            about.get("identifier"),
            isolation,
            about.get("properties"),
            change_files=changed_by(self.spark),
        )

    # ---------------------------------------------------------------------------------------------------- what it is

    def history(self, limit: int | None = None) -> Any:
        """The snapshots as a DataFrame, newest first."""
        rows = self.table.history()[:limit]
        return self.spark.createDataFrame([tuple(row.values()) for row in rows], _HISTORY)

    def detail(self) -> Any:
        """One row about the table: its location, files, bytes, keys and options."""
        table = self.table.refresh()
        snapshot = table.snapshot()
        entries = table.entries(snapshot)
        row = (
            table.url,
            len(entries),
            sum(entry.file.file_size for entry in entries),
            None if snapshot is None else snapshot.id,
            list(table.schema.partition_keys),
            list(table.schema.primary_keys),
            table.options,
        )
        return self.spark.createDataFrame([row], _DETAIL)

    # --------------------------------------------------------------------------------------------------- maintenance

    def compact(self, where: Predicate | str | None = None, **about: Any) -> Compaction:
        """Rewrite small files as a Spark job; see `lakelatch.spark.compact`."""
        about["branch"] = self.table.paths.branch
        return compact(self.spark, self.table.url, where, storage_options=self.storage_options, **about)

    def expire(self, **about: Any) -> Any:
        """Delete the oldest snapshots; see `Table.expire`."""
        return self.table.expire(**about)

    def restoreToVersion(self, version: int) -> Receipt:  # noqa: N802
        """Make an earlier snapshot the newest, with one commit; see `Table.rollback`."""
        return self.table.rollback(snapshot=version)

    def restoreToTimestamp(self, timestamp: str | int | datetime) -> Receipt:  # noqa: N802
        """Make the state at an earlier time the newest. A time without a zone is one of the session's zone."""
        return self.table.rollback(timestamp=epoch_millis(timestamp, zone=session_zone(self.spark)))

    def optimize(self) -> LakeOptimize:
        """Begin a rewrite of files, so that reads open fewer of them."""
        return LakeOptimize(self)


@dataclass(frozen=True)
class LakeMerge:
    """A MERGE that is being put together. Clauses of one kind are tried in their order, and the first that holds wins."""

    target: LakeTable
    source: Any
    condition: str
    about: Mapping[str, Any]
    evolves: bool = False
    steps: tuple[Callable[[Merge], Merge], ...] = ()

    def whenMatchedUpdate(self, condition: Condition = None, set: Mapping[str, Any] | None = None) -> LakeMerge:  # noqa: A002, N802
        """Give columns of rows that match new values."""
        given, test = _needed(set), as_text(condition, "condition")
        return self._with(lambda merge: merge.when_matched_update(given, test))

    def whenMatchedUpdateAll(self, condition: Condition = None) -> LakeMerge:  # noqa: N802
        """Give rows that match the values of all columns of the source."""
        test = as_text(condition, "condition")
        return self._with(lambda merge: merge.when_matched_update_all(test))

    def whenMatchedDelete(self, condition: Condition = None) -> LakeMerge:  # noqa: N802
        """Delete rows that match."""
        test = as_text(condition, "condition")
        return self._with(lambda merge: merge.when_matched_delete(test))

    def whenNotMatchedInsert(self, condition: Condition = None, values: Mapping[str, Any] | None = None) -> LakeMerge:  # noqa: N802
        """Add a row for each row of the source that matches none."""
        given, test = _needed(values), as_text(condition, "condition")
        return self._with(lambda merge: merge.when_not_matched_insert(given, test))

    def whenNotMatchedInsertAll(self, condition: Condition = None) -> LakeMerge:  # noqa: N802
        """Add the rows of the source that match none."""
        test = as_text(condition, "condition")
        return self._with(lambda merge: merge.when_not_matched_insert_all(test))

    def whenNotMatchedBySourceUpdate(  # noqa: N802
        self,
        condition: Condition = None,
        set: Mapping[str, Any] | None = None,  # noqa: A002
    ) -> LakeMerge:
        """Give columns of rows of the table that no row of the source matches new values."""
        given, test = _needed(set), as_text(condition, "condition")
        return self._with(lambda merge: merge.when_not_matched_by_source_update(given, test))

    def whenNotMatchedBySourceDelete(self, condition: Condition = None) -> LakeMerge:  # noqa: N802
        """Delete rows of the table that no row of the source matches."""
        test = as_text(condition, "condition")
        return self._with(lambda merge: merge.when_not_matched_by_source_delete(test))

    def withSchemaEvolution(self) -> LakeMerge:  # noqa: N802
        """First add the columns that only the source has, where a clause takes all of its columns."""
        return replace(self, evolves=True)

    def execute(self) -> RowReceipt:
        """Carry it out, in one commit. A commit user and identifier that have landed before run nothing.

        Raises:
            InvalidArgument, CommitConflict: as for `Table.merge`.
        """
        target, about = self.target, self.about
        user, identifier = about.get("commit_user"), about.get("identifier")
        if user is not None and identifier is not None:
            landed = target.table.committer.lookup(user, identifier)
            if landed is not None:
                return RowReceipt.of(landed)
        aliases = _aliases(self.condition, target)
        merge = Merge(
            source_batch(_arrow_rows(self.source), target.table.schema.fields),
            self.condition,
            lambda operation_of: target._run(operation_of, about),
            aliases,
            target.table._add_columns if self.evolves else None,
            session_zone(target.spark),
        )
        for step in self.steps:
            merge = step(merge)
        return merge.execute()

    def _with(self, step: Callable[[Merge], Merge]) -> LakeMerge:
        return replace(self, steps=(*self.steps, step))


@dataclass(frozen=True)
class LakeOptimize:
    """A rewrite of files that is being put together."""

    target: LakeTable
    condition: str | None = None

    def where(self, condition: str) -> LakeOptimize:
        """Only these partitions."""
        return replace(self, condition=condition)

    def executeCompaction(self) -> Compaction:  # noqa: N802
        """Join small files into larger ones."""
        return self.target.compact(self.condition)

    def executeZOrderBy(self, *columns: str | Sequence[str], full: bool = False) -> Clustering:  # noqa: N802
        """Sort the rows of files along a Z-order curve, in the driver; see `Table.optimize`."""
        names = [name for given in columns for name in ([given] if isinstance(given, str) else given)]
        table = self.target.table
        where = bound_in(session_zone(self.target.spark), self.condition, table.refresh().schema)
        return table.optimize(by=names, curve="zorder", where=where, full=full)


def _arrow_rows(source: Any) -> Any:
    """The rows of a source. Arrow has no map whose keys are of no type, which `map()` is to Spark."""
    try:
        return source.toArrow()
    except ValueError as error:
        untyped = [f.name for f in source.schema.fields if "map<void" in f.dataType.simpleString()]
        if not untyped:
            raise
        raise InvalidArgument(
            f"column '{untyped[0]}' of the source has a map without a type",
            next_step="cast it, as in CAST(map() AS MAP<STRING, INT>)",
        ) from error


def _aliases(condition: str, target: LakeTable) -> dict[str, str]:
    """The names that a condition gives to the table and to the source."""
    own = {name for name in ("t", "target", target.name) if name is not None}
    columns = set(target.table.schema.names)
    first = [r.parts[0] for r in references_of(parse_expression(condition, "condition")) if len(r.parts) > 1]
    others = {name for name in first if name not in own and name not in columns}
    return dict.fromkeys({"s", "source"} | others, SOURCE) | dict.fromkeys(own, TARGET)


def _needed(given: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if given is None:
        raise InvalidArgument("the clause has no values", next_step="pass a dict: {'column': 'expression'}")
    return as_texts(given)
