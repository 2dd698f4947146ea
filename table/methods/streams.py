"""The methods of `Table` for streams: following its changes.

Owns: these methods. Must not know: how changes are found, Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from ...backends.requests.deadline import timed
from ...core import arguments
from ...core.errors import InvalidArgument
from ..opened import OpenTable
from .changes import Changes

if TYPE_CHECKING:
    from ...coordinator.commit.receipt import Receipt
    from ...coordinator.history.timeline import Timeline
    from ...core.expressions.tree import Predicate
    from ..captured import Shape
    from ..changelog.key_changes import Mode
    from ..following.reader import Follower
    from ..following.start import Start


def watched_timeline(table: OpenTable) -> Timeline:
    """A timeline of the table's branch that notices if the table is dropped and made again (H21)."""
    from ...coordinator.history.timeline import Timeline

    return Timeline(table.store, table.paths, first_schema=table._first_schema)


class Streams(OpenTable):
    """The methods of `Table` for streams."""

    @timed("the beginning of following")
    def follow(
        self,
        start: Start = "latest",
        *,
        consumer: str | None = None,
        full: bool = False,
        columns: Sequence[str] | None = None,
        where: Predicate | str | None = None,
        overwrites: bool = True,
        mode: Mode = "auto",
        poll: float = 1.0,
        wait: float | None = None,
    ) -> Follower:
        """Read the changes of the table on and on: one batch for each snapshot that changed rows, as it is committed.

        A batch has the rows of `changes` for one snapshot, in order, with `_row_kind`, `_snapshot_id` and `_commit_time`. Its
        `position` is where a later reader goes on: ``follow(start=batch.position)``; ``str(batch.position)`` can be stored
        anywhere. Compactions change no row and give no batch.

        Rows are read with the columns that the table has now. Columns that are added later appear when following starts again; if
        a column that is read is dropped, following ends with an error that names the snapshot.

        A consumer is the name under which the table remembers how far a reader has come. Expiry keeps what it has still to read.
        It is moved past a batch when the next batch is asked for, or by `batch.acknowledge()`. So a reader that fails while it
        works on a batch gets this batch again, unless it stores positions of its own together with its results.

        Args:
            start: `latest`: what is committed from now on. `earliest`: the oldest changes that are there. A snapshot id: its
                changes come first. A tag: what came after it. A time (ISO text with a zone, or a datetime): the changes of the
                first snapshot that is not older come first. A position, or its text: what came after it.
            consumer: the name of a consumer. If it exists, reading goes on where it is, and `start` does not matter.
            full: begin with the whole state at the start, as a batch of rows that came (`is_state`), and go on with what came
                after that state.
            columns, where, overwrites, mode: as for `changes`; mode "diff" is not possible.
            poll: seconds between two looks for a new snapshot.
            wait: end after so many seconds without a new snapshot; 0 reads what is there. None never ends.

        Raises:
            InvalidArgument: there is no such start; the changes after it have expired; the table was rolled back by a writer
                that deleted snapshots; a column is gone. Says what to do.

        >>> import pyarrow as pa, lakelatch as ll
        >>> table = ll.create_table("memory://follow-doctest/t", pa.schema([("v", pa.int64())]))
        >>> receipts = [table.append(pa.table({"v": [n]})) for n in range(2)]
        >>> [batch.to_arrow()["v"].to_pylist() for batch in table.follow(start="earliest", wait=0)]
        [[0], [1]]
        """
        from ...core.expressions.sql import parse_expression
        from ..changelog.key_changes import check_mode
        from ..following.consumer import start_of_consumer
        from ..following.reader import Follower

        if self.pinned is not None:
            raise InvalidArgument(
                f"{self!r} never changes", next_step="open the table without at(), and follow(start=...)"
            )
        predicate = None if where is None else parse_expression(where, "where")
        check_mode(mode, self.refresh()._schema)
        timeline = watched_timeline(self)
        newest = timeline.latest()
        position, told = start_of_consumer(timeline, consumer, start, newest, full)
        return Follower(
            timeline,
            self._schema,
            position,
            columns=columns,
            where=predicate,
            overwrites=overwrites,
            mode=mode,
            poll_s=poll,
            wait_s=wait,
            newest=newest,
            acknowledged=told,
            settled=None if told is None else told.settle,
        )

    def apply_changes(
        self,
        data: Any,
        *,
        keys: Sequence[str] | str | None = None,
        sequence: Sequence[str] | str | None = None,
        kind: str | None = None,
        shape: Shape = "auto",
        commit_user: str | None = None,
        identifier: int | None = None,
        properties: Mapping[str, str] | None = None,
        watermark_ms: int | None = None,
    ) -> Receipt:
        """Apply changes that were captured from a database to a table with a primary key, in one commit.

        The data are rows of Debezium (`op`, `before`, `after`), rows of Maxwell (`type`, `data`, `old`), or plain rows with a
        column of kinds. A change of a key deletes the old one. Deleted rows need only their key.

        Args:
            data: any data that `append` takes.
            keys: the columns that identify a row. They must be the table's primary key, and may be left out.
            sequence: the columns that order the changes of one key, or parts of them such as `source.lsn` or `ts_ms`; the data
                are sorted by them in memory. By default the changes of a key come in order. This orders the changes of one call;
                a table with option `sequence.field` orders all that it ever gets.
            kind: for plain rows, the column with their kinds: `+I`, `-U`, `+U`, `-D`, or `c`, `r`, `u`, `d`. It need not be a
                column of the table. Without it, rows of another shape are recognised by their columns, and plain rows are added
                or replace those with their keys.
            shape: `plain`, `debezium` or `maxwell`, instead of finding out.
            commit_user, identifier, properties, watermark_ms: as for `append`.

        Raises:
            InvalidArgument: the table has no primary key, or another one; a change cannot be understood. Nothing was committed.

        >>> import pyarrow as pa, lakelatch as ll
        >>> schema = pa.schema([("id", pa.int64()), ("city", pa.string())])
        >>> table = ll.create_table("memory://captured-doctest/t", schema, primary_key=["id"], options={"bucket": "1"})
        >>> row = lambda i, city: {"id": i, "city": city}
        >>> change = lambda op, before, after, ts: {"op": op, "before": before, "after": after, "ts_ms": ts}
        >>> made, moved = change("c", None, row(1, "Oslo"), 1), change("u", row(1, "Oslo"), row(1, "Bern"), 3)
        >>> gone = change("d", row(2, "Rome"), None, 2)
        >>> receipt = table.apply_changes(pa.Table.from_pylist([moved, made, gone]), keys="id", sequence="ts_ms")
        >>> table.to_arrow().to_pylist()
        [{'id': 1, 'city': 'Bern'}]
        """
        from ..captured import captured

        schema = self.refresh()._schema
        check_keys(keys, schema.primary_keys)
        order = arguments.names(sequence, "sequence") if sequence else []
        rows, kinds = captured(data, schema.primary_keys, order, kind, shape)
        return cast(Changes, self).upsert(
            rows,
            row_kind=kinds,
            commit_user=commit_user,
            identifier=identifier,
            properties=properties,
            watermark_ms=watermark_ms,
        )


def check_keys(keys: Sequence[str] | str | None, primary: Sequence[str]) -> None:
    """Refuse keys that are not the table's primary key.

    Raises:
        InvalidArgument: names both.
    """
    if not primary:
        raise InvalidArgument(
            "changes are applied by key, and the table has no primary key", next_step="create it with primary_key=[…]"
        )
    given = None if keys is None else arguments.names(keys, "keys")
    if given is not None and sorted(given) != sorted(primary):
        raise InvalidArgument(
            f"keys are {', '.join(given)}, and the primary key of the table is {', '.join(primary)}",
            next_step="leave keys out, or create a table with this primary key",
        )
