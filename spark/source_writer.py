"""Writes through the data source: Spark plans, writes and commits in different processes.

Owns: `TableSourceWriter`. Must not know: how rows become files, how a commit is made. Source: format/spark §1; H5.

Invariant: No file of a commit that may have landed is deleted. Spark also calls `abort` after `commit` has raised, in another
process that does not know the error. So `commit` itself deletes the files that are certainly unneeded. `abort` deletes files only
if a task sent no message, because `commit` cannot have been called then, and only after it has looked up the identity. All other
files are left to the cleaning of orphans.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import types as spark
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from ..coordinator.commit.committer import new_commit_user
from ..coordinator.commit.message import CommitMessage
from ..core.errors import InvalidArgument, OutcomeUnknown
from ..core.metadata.snapshot import Snapshot
from ..table.table import Table
from ..table.writing.beginning import Beginning
from ..table.writing.overwrites import overwrite_spec, snapshot_read
from ..table.writing.transaction import Transaction, check_identity
from ..table.writing.unfinished import committing, discard
from ..table.writing.writer import keys_of
from .columns import Columns, match_columns
from .evolving import with_new_columns
from .jobs.tasks import WriteTask
from .options.asked import Asked
from .options.source_options import SourceOptions
from .reading.read_marks import read_by
from .rows.numbering import Numbering
from .rows.postponed import PostponedPlan
from .rows.routing import check_written_by_spark
from .sessions.session import OVERWRITE_MODE
from .sessions.shipping import Carried
from .sessions.worker_errors import one_sentence

_LOG = logging.getLogger("lakelatch.spark")


@dataclass
class TaskMessage(WriterCommitMessage):
    """What one task tells the commit. `overwrite_mode` is the session's, in lower case, which Spark tells to tasks alone."""

    messages: list[CommitMessage]
    overwrite_mode: str


class TableSourceWriter(Carried, DataSourceArrowWriter):
    """One write, created when the query is planned and then pickled. Marks in the columns count if they are of `process`."""

    def __init__(self, options: SourceOptions, schema: spark.StructType, overwrite: bool, process: str = "") -> None:
        check_identity(options.commit_user, options.identifier)
        self._options, self._overwrite = options, overwrite
        table, columns, spec, self._asked = checked_write(options, schema, overwrite)
        self._before = table.timeline.latest()
        self._read = self._before
        if overwrite:
            number = self._asked.read_snapshot
            number = read_by(schema, options.table(), process) if number is None else number
            self._read = None if number == 0 else snapshot_read(table.timeline, number)
        # Whichever process runs commit or abort can find the commit by its user.
        self._user = options.commit_user or new_commit_user(table.schema)
        self._replayed = self._landed(table)
        self._task = WriteTask(
            table.store, table.schema, str(uuid.uuid4()), columns.names, spec, row_kind=options.row_kind
        )
        self._base: Snapshot | None = None
        if table.schema.primary_keys:
            # Spark brings the rows of a bucket to several tasks, and lets nobody change that: each has numbers of its own.
            base = table.committer.base_numbers()
            numbering = Numbering(Beginning.now(), base.largest_of_all(), shared=True)
            buckets = PostponedPlan.of(table.schema, base)
            self._task = replace(
                self._task, numbering=numbering, changelog=not overwrite, buckets=buckets, commit_user=self._user
            )
            self._base = base.snapshot

    @one_sentence()
    def write(self, iterator: Iterator[Any]) -> TaskMessage:
        """Write the rows of one task; runs on an executor."""
        return TaskMessage([] if self._replayed else self._task.write(iterator), overwrite_mode_of_session())

    @one_sentence()
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit after all tasks have succeeded; runs in a separate process on the driver's host."""
        given = _messages(messages)
        table = self._options.table()
        transaction = Transaction(
            table.committer,
            table.timeline,
            fresh_user=self._user,
            written_before=True,
            **self._asked.of_commit,
        )
        with committing(transaction, table.store, keys_of(table.schema, given)) as tx:
            if self._overwrite and self._is_dynamic(messages):
                tx.overwrite_messages(given, self._read, dynamic=True)
            elif self._overwrite:
                tx.overwrite_messages(given, self._read, partition=self._asked.partition or {})
            else:
                tx.append_messages(given, self._base)
        table.committer.settle()
        _LOG.info("%s", tx.receipt)

    def _is_dynamic(self, messages: list[WriterCommitMessage | None]) -> bool:
        """Whether the overwrite replaces only the partitions that have rows, decided as by Spark's own file sources.

        If no task has told the session's mode, a wrong guess could delete rows: `InvalidArgument`.
        """
        if self._asked.mode == "overwrite-partitions" or self._asked.partition is not None:
            return self._asked.mode == "overwrite-partitions"
        told = {m.overwrite_mode for m in messages if isinstance(m, TaskMessage)}
        if len(told) != 1:
            raise InvalidArgument(
                "no task has told the session's partition overwrite mode, so it is not known what the overwrite replaces",
                next_step="say it with option 'partitionOverwriteMode': static for the whole table, or dynamic",
            )
        return told == {"dynamic"}

    @one_sentence()
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Clean up after a task has finally failed, or after `commit` has raised."""
        if not any(m is None for m in messages):
            return  # commit was called and has cleaned up; here it is not known whether it landed (H5)
        table = self._options.table()
        identifier = self._options.identifier
        if self._landed(table) if identifier is None else may_have_landed(table, self._user, identifier):
            return
        left = discard(table.store, keys_of(table.schema, _messages(messages)))
        if left:
            _LOG.warning("files of job %s could not be deleted: %s", self._task.job, ", ".join(left))

    def _landed(self, table: Table) -> bool:
        """Is there a snapshot of this write, or may there have been one that expired?"""
        if self._options.identifier is not None:
            return table.committer.lookup(self._user, self._options.identifier) is not None
        first = self._before.id + 1 if self._before is not None else 1
        latest = table.timeline.latest()
        found = (table.timeline.find(i) for i in range(first, (latest.id if latest is not None else 0) + 1))
        return any(s is None or s.commit_user == self._user for s in found)


def checked_write(
    options: SourceOptions, schema: spark.StructType, overwrite: bool
) -> tuple[Table, Columns, dict[str, Any], Asked]:
    """The table of a write, its columns as the rows have them, the values of those that are omitted, and what is asked."""
    table = options.table()
    asked = options.asked(table.schema, overwrite)
    check_written_by_spark(table.schema, shuffles=False)
    if asked.evolve:
        named = spark.StructType([f for f in schema.fields if f.name != asked.row_kind])
        table = with_new_columns(options.table, named, tuple(asked.partition or ()))
    spec = (overwrite_spec(table.schema, asked.partition or {}, False) if overwrite else None) or {}
    columns = match_columns(schema, table.schema, tuple(spec), asked.row_kind)
    if asked.row_kind is not None and (overwrite or not table.schema.primary_keys):
        raise InvalidArgument("option 'row-kind' goes with mode append on a table with a primary key only")
    for name, cast in zip(columns.names, columns.casts, strict=True):
        if cast is not None:
            raise InvalidArgument(
                f"column '{name}' is {schema[name].dataType.simpleString()}, the table needs {cast.simpleString()}",
                next_step="cast it in the frame, or write with lakelatch.spark.write",
            )
    return table, columns, spec, asked


def may_have_landed(table: Table, commit_user: str, identifier: int) -> bool:
    """Whether files of a commit that raised may be in the table."""
    try:
        return table.committer.lookup(commit_user, identifier) is not None
    except OutcomeUnknown:
        return True


def overwrite_mode_of_session() -> str:
    """The session's partition overwrite mode; runs inside a task.

    The processes that plan and commit have no session. Spark hands the session's settings to each task of a query as local
    properties, under Spark Connect too (format/spark §1).
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    told = context.getLocalProperty(OVERWRITE_MODE) if context is not None else None
    return (told or "static").lower()


def _messages(messages: list[WriterCommitMessage | None]) -> list[CommitMessage]:
    return [m for told in messages if isinstance(told, TaskMessage) for m in told.messages]
