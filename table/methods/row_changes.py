"""The methods of `Table` that change single rows: DELETE, UPDATE and MERGE.

Owns: these methods. Must not know: how rows are found and written. Source: architecture §3 (isolation).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...core.errors import InvalidArgument
from .changes import Changes

if TYPE_CHECKING:
    from ...coordinator.commit.receipt import Receipt
    from ...coordinator.commit.request import Isolation
    from ...core.expressions.tree import Predicate
    from ...core.metadata.schema import TableSchema
    from ..rowlevel.append_table import ChangeFiles
    from ..rowlevel.merge_builder import Merge
    from ..rowlevel.operation import Operation
    from ..rowlevel.receipt import RowReceipt


class RowChanges(Changes):
    """The methods of `Table` that change single rows."""

    def delete(
        self,
        keys: Any = None,
        *,
        where: Predicate | str | None = None,
        commit_user: str | None = None,
        identifier: int | None = None,
        isolation: Isolation = "serializable",
        properties: Mapping[str, str] | None = None,
    ) -> Receipt:
        """Delete rows in one commit: those for which a condition is true, or those with some primary keys.

        Args:
            keys: for a table with a primary key: rows in any form that `append` takes, with the columns of the primary key, and
                those of option `sequence.field`, if the table has it: a row is deleted unless it is newer. Other columns may be
                there, and appear in the table's changes. A key that the table does not have does no harm.
            where: SQL text, or a condition made with `ll.col`. Files that hold no such row are left alone. Partitions and files
                that hold nothing else are deleted without being opened.
            commit_user, identifier, properties: as for `append`.
            isolation: for `where`: with `serializable`, rows that other writers add meanwhile and that the condition may concern
                make the delete look again; with `snapshot`, it deletes what was there when it began.

        Returns:
            For `where`, a receipt that also counts rows and files (`rows_deleted`, `files_rewritten`, …).

        Raises:
            InvalidArgument: the condition does not fit the columns; the table has no primary key, a column is missing, or the
                merge engine cannot delete by key.
            CommitConflict: other commits of the same rows kept coming first.

        >>> import pyarrow as pa, lakelatch as ll
        >>> schema = pa.schema([("id", pa.int64()), ("note", pa.string())])
        >>> table = ll.create_table("memory://delete-doctest/t", schema, primary_key=["id"], options={"bucket": "1"})
        >>> receipt = table.upsert(pa.table({"id": [1, 2, 3], "note": ["a", "b", "c"]}))
        >>> receipt = table.delete(keys=pa.table({"id": [1]}))
        >>> table.delete(where="note = 'c'").rows_deleted
        1
        >>> table.to_arrow().to_pylist()
        [{'id': 2, 'note': 'b'}]
        """
        from ...core.expressions.tree import Predicate
        from ..rowlevel.edit import Edit

        if (keys is None) == (where is None) or isinstance(keys, (str, Predicate)):
            raise InvalidArgument(
                "delete takes the keys of rows, or a condition",
                next_step="pass keys= or where=; truncate() deletes all rows",
            )
        if where is None:
            about = {"commit_user": commit_user, "identifier": identifier, "properties": properties}
            return self._written(keys, lambda tx: tx.delete(keys), **about)
        return self._change_rows(
            lambda schema: Edit.of(schema, where, None), commit_user, identifier, isolation, properties
        )

    def update(
        self,
        where: Predicate | str | None = None,
        *,
        set: Mapping[str, Any],  # noqa: A002 (the word of SQL)
        commit_user: str | None = None,
        identifier: int | None = None,
        isolation: Isolation = "serializable",
        properties: Mapping[str, str] | None = None,
    ) -> RowReceipt:
        """Give columns of the rows for which a condition is true new values, in one commit.

        Args:
            where: SQL text, or a condition made with `ll.col`; None for all rows.
            set: for each column, an SQL expression as text, `ll.lit(…)`, or a value that is no text. Expressions see the row as
                it was before.
            commit_user, identifier, isolation, properties: as for `delete`.

        Raises:
            InvalidArgument: a column does not exist, an expression or a value does not fit; nothing was changed.
            Unsupported: the table's merge engine cannot update rows.
            CommitConflict: other commits of the same rows kept coming first.

        >>> import pyarrow as pa, lakelatch as ll
        >>> schema = pa.schema([("id", pa.int64()), ("note", pa.string())])
        >>> table = ll.create_table("memory://update-doctest/t", schema)
        >>> receipt = table.append(pa.table({"id": [1, 2], "note": ["a", "b"]}))
        >>> table.update(where="id > 1", set={"id": "id + 10", "note": ll.lit("late")}).rows_updated
        1
        >>> table.to_arrow().to_pylist()
        [{'id': 1, 'note': 'a'}, {'id': 12, 'note': 'late'}]
        """
        from ..rowlevel.edit import Edit

        return self._change_rows(
            lambda schema: Edit.of(schema, where, set), commit_user, identifier, isolation, properties
        )

    def merge(
        self,
        data: Any,
        on: Sequence[str] | str,
        *,
        commit_user: str | None = None,
        identifier: int | None = None,
        isolation: Isolation = "serializable",
        properties: Mapping[str, str] | None = None,
        evolve: bool = False,
        target_alias: str = "t",
        source_alias: str = "s",
    ) -> Merge:
        """Begin a MERGE: rows that a source matches are updated or deleted, and rows that match none are added.

        Add clauses to what this returns, then call `execute()`, which makes one commit. The rows of the table are streamed; those
        of the source are held in memory.

        Args:
            data: the source, in any form that `append` takes. It is read once.
            on: the columns that must be equal, or a condition in SQL. A null matches nothing.
            commit_user, identifier, isolation, properties: as for `delete`.
            evolve: first add the columns that the table lacks, if a clause takes all columns of the source.
            target_alias, source_alias: the names of the table and of the source in conditions and values.

        Raises:
            InvalidArgument: the source has no columns.

        >>> import pyarrow as pa, lakelatch as ll
        >>> schema = pa.schema([("id", pa.int64()), ("note", pa.string())])
        >>> table = ll.create_table("memory://merge-doctest/t", schema)
        >>> receipt = table.append(pa.table({"id": [1, 2, 3], "note": ["a", "b", "c"]}))
        >>> news = pa.table({"id": [2, 3, 4], "note": ["B", "C", "D"]})
        >>> merge = table.merge(news, on=["id"]).when_matched_delete("s.id = 3")
        >>> receipt = merge.when_matched_update_all().when_not_matched_insert_all().execute()
        >>> receipt.rows_deleted, receipt.rows_updated, receipt.rows_inserted
        (1, 1, 1)
        >>> sorted(table.to_arrow().column("note").to_pylist())
        ['B', 'D', 'a']
        """
        from ...core.arguments import text
        from ...core.expressions.tree import SOURCE, TARGET
        from ..conforming.gathering import source_batch
        from ..rowlevel.merge_builder import Merge

        self._check_not_pinned()

        def run(operation_of: Callable[[TableSchema], Operation]) -> RowReceipt:
            return self._change_rows(operation_of, commit_user, identifier, isolation, properties)

        aliases = {text(target_alias, "target_alias"): TARGET, text(source_alias, "source_alias"): SOURCE}
        return Merge(source_batch(data, self._schema.fields), on, run, aliases, self._add_columns if evolve else None)

    def _change_rows(
        self,
        operation_of: Callable[[TableSchema], Operation],
        commit_user: str | None,
        identifier: int | None,
        isolation: Isolation,
        properties: Mapping[str, str] | None,
        change_files: ChangeFiles | None = None,
    ) -> RowReceipt:
        from ..rowlevel.run import Opened, change_rows

        self._check_not_pinned()
        opened = Opened(lambda: self.committer, self._seen, self._begin)
        return change_rows(
            opened,
            operation_of,
            commit_user=commit_user,
            identifier=identifier,
            isolation=isolation,
            properties=properties,
            change_files=change_files,
        )
