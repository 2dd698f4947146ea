"""Streams into a table through the data source: `writeStream.format("lakelatch")`.

Owns: `StreamSourceWriter`. Must not know: how rows become files, how a commit is made. Source: format/spark §8; H5, H8.

Spark makes a writer for each batch in one process, which is sent to the tasks, and another one in a new process for the commit or
the abort. Only tasks are told which query runs, so their messages say it.

Invariants: The identity of a batch is the id of the query, which its checkpoint keeps, and the number of the batch. So a batch
that is repeated lands once, also if another machine goes on with the checkpoint. The identity is looked up before anything is
deleted, and no file of a commit that may have landed is deleted.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import types as spark
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from ...backends.elsewhere import fixed_url
from ...backends.registry import open_store
from ...backends.store import ObjectNotFound
from ...coordinator.commit.message import CommitMessage
from ...coordinator.commit.receipt import Receipt
from ...coordinator.journal.lines import address_of
from ...coordinator.watching.batches import StreamBatch, report_batch
from ...core.errors import InvalidArgument
from ...core.metadata.snapshot import Snapshot
from ...table.table import Table
from ...table.writing.beginning import Beginning
from ...table.writing.transaction import Transaction
from ...table.writing.unfinished import committing, discard
from ...table.writing.writer import keys_of
from ..daemon import spare
from ..jobs.tasks import WriteTask, partition_id
from ..options.source_options import SourceOptions
from ..rows.numbering import Numbering
from ..sessions.shipping import Carried
from ..sessions.worker_errors import let_through_by_pickle, one_sentence
from ..source_writer import checked_write, may_have_landed

_LOG = logging.getLogger("lakelatch.spark")
QUERY_ID = "sql.streaming.queryId"
"""The local property of a task that names its query; it stays the same for the lifetime of the checkpoint."""


@dataclass
class BatchMessage(WriterCommitMessage):
    """What one task tells the commit. `base` is the newest snapshot when the batch began, told by the first task alone."""

    messages: list[CommitMessage]
    query: str | None
    base: Snapshot | None = None


class StreamSourceWriter(Carried, DataSourceStreamArrowWriter):
    """Writes one batch, or commits or aborts one; in output mode `complete` (`overwrite`) its rows replace all others."""

    def __init__(self, options: SourceOptions, schema: spark.StructType, overwrite: bool) -> None:
        if (options.commit_user, options.identifier) != (None, None):
            raise InvalidArgument(
                "options 'commit-user' and 'identifier' do not go with writeStream",
                next_step="leave them out: the query's id, which its checkpoint keeps, and the number of the batch are used",
            )
        options.stream.check_none("writeStream")
        if options.read_snapshot is not None:
            raise InvalidArgument("option 'read-snapshot' does not go with writeStream", next_step="leave it out")
        self._options, self._schema, self._overwrite = options, schema, overwrite
        self._task: WriteTask | None = None
        self._base: Snapshot | None = None

    def _prepare(self) -> None:
        """Look the table up for a batch that begins; in the process that sends the writer to the tasks."""
        table, columns, spec, asked = checked_write(self._options, self._schema, self._overwrite)
        task = WriteTask(table.store, table.schema, str(uuid.uuid4()), columns.names, spec, row_kind=asked.row_kind)
        if table.schema.primary_keys:
            base = table.committer.base_numbers()
            numbering = Numbering(Beginning.now(), base.largest_of_all(), shared=True)
            task = replace(task, numbering=numbering, changelog=not self._overwrite)
            self._base = base.snapshot
        elif self._overwrite:
            self._base = table.timeline.latest()
        self._task = task

    def __reduce__(self) -> tuple[Any, ...]:
        if self._task is None:  # Spark pickles the writer twice, with the tasks and alone
            with one_sentence(), let_through_by_pickle():
                self._prepare()
            spare()
        return super().__reduce__()

    @one_sentence()
    def write(self, iterator: Iterator[Any]) -> BatchMessage:
        """Write the rows of one task; runs on an executor."""
        assert self._task is not None
        return BatchMessage(self._task.write(iterator), _query_of_task(), None if partition_id() else self._base)

    @one_sentence()
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Commit a batch after all its tasks have succeeded; runs in a process of its own on the driver's host."""
        told = [m for m in messages if isinstance(m, BatchMessage)]
        given = [message for m in told for message in m.messages]
        if not given and not self._overwrite:
            return  # a batch without rows needs no snapshot
        table = self._options.table()
        base = next((m.base for m in told if m.base is not None), None)
        asked = self._options.asked(table.schema, self._overwrite)
        asked = replace(asked, commit_user=self._query(told), identifier=batchId, in_order=True)
        transaction = Transaction(table.committer, table.timeline, written_before=True, **asked.of_commit)
        with committing(transaction, table.store, keys_of(table.schema, given)) as tx:
            if asked.mode == "overwrite-partitions":
                tx.overwrite_messages(given, base, dynamic=True)
            elif self._overwrite:
                tx.overwrite_messages(given, base, partition=asked.partition or {})
            else:
                tx.append_messages(given, base)
        if tx.replayed:
            self._delete(table, given)  # the batch landed with other files, and no commit has named these
        table.committer.settle()
        _LOG.info("%s", tx.receipt)
        report_batch(written(fixed_url(table.store), batchId, tx.receipt, given))
        spare()

    @one_sentence()
    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Clean up after a task has finally failed, or after `commit` has raised."""
        if not any(m is None for m in messages):
            return  # commit was called and has cleaned up; here it is not known whether it landed (H5)
        told = [m for m in messages if isinstance(m, BatchMessage)]
        if not told:
            return
        table = self._options.table()
        if not may_have_landed(table, self._query(told), batchId):
            self._delete(table, [message for m in told for message in m.messages])

    def _delete(self, table: Table, given: Sequence[CommitMessage]) -> None:
        left = discard(table.store, keys_of(table.schema, given))
        if left:
            _LOG.warning("files of a batch that is not needed could not be deleted: %s", ", ".join(left))

    def _query(self, told: Sequence[BatchMessage]) -> str:
        """The id of the query, which is the commit user of its batches."""
        queries = {m.query for m in told if m.query}
        if len(queries) == 1:
            return str(queries.pop())
        if self._options.checkpoint is not None:
            return query_of_checkpoint(self._options.checkpoint)
        raise InvalidArgument(
            "no task has told the id of the query, so the batch has no identity",
            next_step="set option 'checkpointLocation' on the stream itself",
        )


def written(url: str, number: int, receipt: Receipt, messages: Sequence[CommitMessage] | None = None) -> StreamBatch:
    """What is reported of a batch that has landed, now or before; its files, if they are known here."""
    files = None if messages is None else [file for message in messages for file in message.new_files]
    return StreamBatch(
        "write",
        address_of(url),
        "replayed" if receipt.replayed else "committed",
        receipt.snapshot_id,
        batch=number,
        query=receipt.commit_user,
        rows=None if files is None else sum(file.row_count for file in files),
        size=None if files is None else sum(file.file_size for file in files),
    )


def _query_of_task() -> str | None:
    from pyspark import TaskContext

    context = TaskContext.get()
    return context.getLocalProperty(QUERY_ID) if context is not None else None


def query_of_checkpoint(url: str, storage_options: Any = None) -> str:
    """The id of a query, which Spark keeps in its checkpoint. `InvalidArgument`: there is no query's metadata at the URL."""
    store = open_store(url, storage_options)
    try:
        found = json.loads(store.get("metadata"))["id"]
    except ObjectNotFound:
        raise InvalidArgument(
            f"there is no query at the checkpoint {store.url}: it has no file 'metadata'",
            next_step="give the same location as option 'checkpointLocation' of the query",
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidArgument(f"{store.url}/metadata is not the metadata of a query of Spark") from error
    return str(found)
