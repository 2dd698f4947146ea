"""The methods of `Table` that change its rows or its schema. Each makes one commit, or one new schema.

Owns: these methods. Must not know: how a commit is built. Source: architecture §3 (isolation).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from ...core.errors import CommitConflict, InvalidArgument
from ..opened import OpenTable

if TYPE_CHECKING:
    import pyarrow as pa

    from ...coordinator.commit.receipt import Receipt
    from ...coordinator.commit.request import Grouping, Isolation
    from ...core.metadata.schema import TableSchema
    from ...core.metadata.schemas.changes import SchemaChange
    from ..writing.buckets.placing import KeyLookups
    from ..writing.transaction import Transaction

_SCHEMAS = 20
"""How often rows are written again because the table got another schema."""

_BEATEN = "write with fewer jobs at once, or create the table with the partition columns in its primary key"
_NOT_AGAIN = "write the rows again, or pass them as a table, which is written again without asking"


class Changes(OpenTable):
    """The methods of `Table` that change it."""

    def alter(self, *changes: SchemaChange) -> TableSchema:
        """Change columns or options. All changes together make one new schema; if one is refused, none is made.

        Args:
            changes: `ll.add_column(...)`, `ll.rename_column(...)`, `ll.update_type(...)`, `ll.set_option(...)`, ...

        Returns:
            The new schema, which this table uses from now on. Existing rows are read with it; no file is rewritten.

        Raises:
            InvalidArgument: the format does not allow the change; nothing was changed.
            CommitConflict: the change is allowed only for an empty table, and files were committed meanwhile; nothing was
                changed.
            OutcomeUnknown: the store did not confirm the change; call `resolve()` on the error.
        """
        from ...coordinator.alteration import alter
        from ...coordinator.history.timeline import Timeline

        self._check_not_pinned()
        watched = Timeline(self.store, self.paths, first_schema=self._first_schema)
        self._show(alter(watched, changes, self._committer_with))
        return self._schema

    def _evolve_to(self, data: Any, leave_out: str | None = None) -> Any:
        """Add what the first batch has and the table lacks: columns, but for one, and fields. Returns the data, unchanged."""
        from ..conforming.sources import peeked

        schema, data = peeked(data)
        if schema is not None:
            self._add_columns(schema, leave_out)
        return data

    def _add_columns(self, schema: pa.Schema, leave_out: str | None = None) -> None:
        """Add the columns and the fields of ROWs that the table lacks."""
        import pyarrow as pa

        from ...core.metadata.schemas.changes import add_column
        from ...core.rows.arrow import from_arrow_schema
        from ..conforming.evolving import missing_parts, without_nulls

        self.refresh()  # another writer may have added them already
        known = {f.name: f for f in self._schema.fields}
        chosen = [f for f in schema if f.name != leave_out and not (f.name in known and f.type.num_fields == 0)]
        given = from_arrow_schema(pa.schema([f.with_type(without_nulls(f.type)) for f in chosen]))
        missing = list(missing_parts(self._schema.fields, given))
        if missing:
            self.alter(*(add_column(path, data_type) for path, data_type in missing))

    def _lookups(self) -> KeyLookups | None:
        if not self._schema.primary_keys:
            return None
        from ..key_moves import with_moved_keys
        from ..reading.stored_keys import stored_keys
        from ..writing.buckets.placing import KeyLookups

        timeline, schema = self.timeline, self._schema
        return KeyLookups(
            lambda snapshot: stored_keys(timeline, snapshot, schema),
            lambda messages, moves: with_moved_keys(timeline, schema, messages, moves),
        )

    def _written(self, data: Any, write: Callable[[Transaction], None], **about: Any) -> Receipt:
        """Commit rows that fit the newest schema, whoever made it.

        Rows that can be read again are written with the schema that is known, while the store is asked for a newer one. Where
        there is one, they are written again. For all other rows the newest schema is looked up first.
        """
        from ...coordinator.surroundings import MACHINE
        from ..conforming.sources import can_be_read_again

        again = can_be_read_again(data)
        if not again:
            self.refresh()
        began_s, races, schemas = MACHINE.monotonic_s(), 0, 0
        while True:
            known = self._schema
            try:
                with self._begin(newest_schema=again, **about) as tx:
                    write(tx)
                return tx.receipt
            except InvalidArgument:  # perhaps the rows have a column that another writer has added
                schemas += 1
                if not again or schemas == _SCHEMAS or self.refresh()._schema.id == known.id:
                    raise
            except CommitConflict as error:
                if error.keys_changed:
                    races += 1
                    wait_ms = self._wait_ms(races, MACHINE.monotonic_s() - began_s) if again else None
                    if wait_ms is None:
                        error.next_step = _BEATEN if again else _NOT_AGAIN
                        raise
                    MACHINE.sleep(wait_ms / 1000)
                else:
                    schemas += 1
                    if not error.newer_schema or schemas == _SCHEMAS:
                        raise
                self.refresh()

    def _wait_ms(self, races: int, elapsed_s: float) -> int | None:
        """How long to wait before rows are placed again among the keys of the table; None if the commit's budget is spent."""
        from ...coordinator.commit.retries import RetryPolicy

        policy = RetryPolicy.from_options(self._schema.options)
        return policy.next_wait_ms(races, elapsed_s=elapsed_s, attempt_s=elapsed_s / races, others=1)

    def append(
        self,
        data: Any,
        *,
        commit_user: str | None = None,
        identifier: int | None = None,
        properties: Mapping[str, str] | None = None,
        watermark_ms: int | None = None,
        group: Grouping | None = None,
        evolve: bool = False,
    ) -> Receipt:
        """Add rows in one commit. In a table with a primary key they replace the rows with their keys, as with `upsert`.

        Args:
            data: pa.Table, RecordBatch, RecordBatchReader, iterable of batches, pandas or polars frame. Columns are matched
                by name.
            commit_user, identifier: make the commit exactly once: a second call with the same pair writes nothing and
                returns the first call's receipt. Give both or neither. The identifiers of a user may come in any order.
            properties: stored in the snapshot.
            watermark_ms: milliseconds since 1970. The table's watermark never decreases.
            group: with `auto`, an append that loses a race asks the next winner to carry it, as with the table's option
                `commit.group`; with `off`, it goes alone. None: what the option says.
            evolve: first add the columns that the table lacks, as a schema change of its own.
        """
        if evolve:
            data = self._evolve_to(data)
        about = {
            "commit_user": commit_user,
            "identifier": identifier,
            "properties": properties,
            "watermark_ms": watermark_ms,
            "group": group,
        }
        return self._written(data, lambda tx: tx.append(data), **about)

    def upsert(
        self,
        data: Any,
        *,
        row_kind: str | None = None,
        commit_user: str | None = None,
        identifier: int | None = None,
        properties: Mapping[str, str] | None = None,
        watermark_ms: int | None = None,
        evolve: bool = False,
    ) -> Receipt:
        """Add rows to a table with a primary key, or replace those with their keys, in one commit.

        Of several rows with one key the last one counts, or the one that option `sequence.field` makes the newest. What
        becomes of the older ones is up to option `merge-engine`.

        Args:
            data: as for `append`.
            row_kind: the column of `data` that names the kind of each row: `+I` and `+U` add or replace, `-D` and `-U` delete;
                or `c`, `r`, `u`, `d`, as Debezium writes them. It need not be a column of the table. By default no row
                deletes, unless the table has option `rowkind.field`.
            commit_user, identifier, properties, watermark_ms, evolve: as for `append`.

        Raises:
            InvalidArgument: the table has no primary key; a value does not fit, a key is null, or a value is no row kind.

        >>> import pyarrow as pa, lakelatch as ll
        >>> schema = pa.schema([("id", pa.int64()), ("note", pa.string())])
        >>> table = ll.create_table("memory://upsert-doctest/t", schema, primary_key=["id"], options={"bucket": "1"})
        >>> receipt = table.upsert(pa.table({"id": [1, 2], "note": ["a", "b"]}))
        >>> receipt = table.upsert(pa.table({"id": [2, 1], "note": ["c", None], "op": ["u", "d"]}), row_kind="op")
        >>> table.to_arrow().to_pylist()
        [{'id': 2, 'note': 'c'}]
        """
        if evolve:
            data = self._evolve_to(data, leave_out=row_kind)
        about = {
            "commit_user": commit_user,
            "identifier": identifier,
            "properties": properties,
            "watermark_ms": watermark_ms,
        }
        return self._written(data, lambda tx: tx.upsert(data, row_kind=row_kind), **about)

    def overwrite(
        self,
        data: Any,
        *,
        partition: Mapping[str, Any] | None = None,
        dynamic: bool = False,
        commit_user: str | None = None,
        identifier: int | None = None,
        isolation: Isolation = "snapshot",
        properties: Mapping[str, str] | None = None,
        read_snapshot: int | None = None,
    ) -> Receipt:
        """Replace rows in one commit.

        Args:
            partition: the partition to replace, by all or some of its columns; {} = the whole table.
            dynamic: replace every partition that `data` has rows of.
            isolation: with `snapshot`, rows that other writers append meanwhile are kept; with `serializable`, such rows
                are a conflict.
            read_snapshot: id of the snapshot that `data` was computed from, at which "meanwhile" begins. The latest
                snapshot by default.
        """
        from ..writing.overwrites import snapshot_read

        about = {
            "commit_user": commit_user,
            "identifier": identifier,
            "isolation": isolation,
            "properties": properties,
        }

        look = cache(
            lambda: snapshot_read(self.timeline, read_snapshot)
        )  # "meanwhile" begins once, however often it starts
        return self._written(data, lambda tx: tx.overwrite_since(look, data, partition, dynamic), **about)

    def update_columns(
        self,
        data: Any,
        *,
        commit_user: str | None = None,
        identifier: int | None = None,
        properties: Mapping[str, str] | None = None,
        read_snapshot: int | None = None,
    ) -> Receipt:
        """Give existing rows new values for some columns, in one commit. Only these columns are written.

        The table needs option `data-evolution.enabled`. Files that hold an updated row get these columns anew for all of their
        rows; the other columns are neither read nor written.

        Args:
            data: the rows, in any form that `append` takes: the column `_ROW_ID`, as read with `to_arrow(columns=["_ROW_ID",
                …])`, and the columns to change. A null is stored as null. Partition and BLOB columns cannot be changed.
            commit_user, identifier, properties: as for `append`.
            read_snapshot: id of the snapshot that `data` was computed from. If another writer has updated or deleted any of
                these rows since, even in other columns, that is a conflict. The latest snapshot by default.

        Raises:
            CommitConflict: another writer changed some of the rows first; read them again.
            InvalidArgument: there is no such column, or no row with an id.
            Unsupported: the table has no data evolution, or a column cannot be updated.

        >>> import pyarrow as pa, lakelatch as ll
        >>> options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
        >>> schema = pa.schema([("id", pa.int64()), ("note", pa.string())])
        >>> table = ll.create_table("memory://columns-doctest/t", schema, options=options)
        >>> receipt = table.append(pa.table({"id": [1, 2], "note": ["a", "b"]}))
        >>> rows = table.to_arrow(columns=["_ROW_ID"], where="id = 2")
        >>> receipt = table.update_columns(rows.append_column("note", pa.array(["new"])))
        >>> table.to_arrow().to_pylist()
        [{'id': 1, 'note': 'a'}, {'id': 2, 'note': 'new'}]
        """
        from ..column_update import updated_columns
        from ..writing.overwrites import snapshot_read

        self.refresh()
        with self.transaction(commit_user=commit_user, identifier=identifier, properties=properties) as tx:
            if not tx.replayed:
                read = snapshot_read(self.timeline, read_snapshot)
                tx.update_messages(updated_columns(self.store, self.timeline, self._schema, read, data), read)
        return tx.receipt

    def drop_partitions(
        self,
        partitions: Iterable[Mapping[str, Any] | str],
        *,
        commit_user: str | None = None,
        identifier: int | None = None,
        isolation: Isolation = "snapshot",
    ) -> Receipt:
        """Delete the rows of partitions, each given by all or some of its columns: `{"month": 1}`, or `"month=1"`."""
        with self._begin(commit_user=commit_user, identifier=identifier, isolation=isolation) as tx:
            tx.drop_partitions(partitions)
        return tx.receipt

    def truncate(
        self,
        *,
        commit_user: str | None = None,
        identifier: int | None = None,
        isolation: Isolation = "snapshot",
    ) -> Receipt:
        """Delete all rows."""
        with self._begin(commit_user=commit_user, identifier=identifier, isolation=isolation) as tx:
            tx.truncate()
        return tx.receipt
