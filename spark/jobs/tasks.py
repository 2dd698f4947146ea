"""The tasks that run on executors: write rows to data files, read splits, and compact files. They are sent by pickle.

Owns: `WriteTask`, `RewriteTask`, `ChangeTask`, `ReadTask`, and the names of a task's files. Must not know: DataFrames,
sessions, commits. Source: format/spark §3, §5.

Invariants: Each attempt of a task has its own file names, so that a retried or speculative attempt never touches the files
of another attempt. An attempt that fails deletes its files before it raises. An attempt without rows returns no message.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from ...backends.store import Store
from ...coordinator.commit.message import CommitMessage
from ...core.errors import LakelatchError
from ...core.metadata.schema import TableSchema
from ...core.rows.types import AtomicType, Field
from ...table.compaction.run import AnyRewriter
from ...table.reading.arrow import SplitReader
from ...table.rowlevel.file_change import FileChange, FileChanger
from ...table.scan.split import Split
from ...table.writing.overwrites import with_partition
from ...table.writing.unfinished import discard
from ...table.writing.writer import TableWriter, keys_of
from ..rows.dynamic import DynamicPlan
from ..rows.incoming import with_names
from ..rows.numbering import Numbering
from ..rows.postponed import PostponedPlan
from ..types import arrow_field_for_spark, batch_for_spark

MESSAGE_SCHEMA = "message binary"
NO_COLUMN = Field(0, "_", AtomicType("BOOLEAN"))
"""The column of a result without columns; Spark cannot count the rows of Arrow batches that have no column."""


def attempt_name(job: str) -> str:
    """`<job>-<partition>-<attempt>` of the running task; a Spark application never uses an attempt id twice."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        raise RuntimeError("this runs only inside a Spark task")
    return f"{job}-{context.partitionId()}-{context.taskAttemptId()}"


def partition_id() -> int:
    """The partition of the frame that the running task works on."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return int(context.partitionId()) if context is not None else 0


@dataclass(frozen=True)
class WriteTask:
    """Writes the rows of one task.

    Attributes:
        store: the table's store. Its secrets are pickled with it, and appear in no text (H19).
        job: the part of the file names that all files of the job share; it follows the table's prefix.
        names: the table's names of the incoming columns, by position.
        filled: the values of partition columns that the rows omit.
        numbering: for a table with a primary key: the sequence numbers of the rows.
        row_kind: the name of the incoming column that tells the kind of each row.
        changelog: write the changelog that the table's options ask for.
        buckets: for a table whose buckets are not fixed: how they are chosen.
        commit_user: of the job, for the names of files with rows that are set aside.
    """

    store: Store
    schema: TableSchema
    job: str
    names: tuple[str, ...]
    filled: Mapping[str, Any] = field(default_factory=dict)
    numbering: Numbering | None = None
    row_kind: str | None = None
    changelog: bool = True
    buckets: DynamicPlan | PostponedPlan | None = None
    commit_user: str = ""

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Batches of rows to one batch of pickled messages, or to nothing if there are no rows."""
        messages = self.write(batches)
        if messages:
            yield pa.record_batch({"message": pa.array([pickle.dumps(m) for m in messages], pa.binary())})

    def write(self, batches: Iterable[Any]) -> list[CommitMessage]:
        """Write all rows. `LakelatchError`: this attempt's files are deleted, or the message names them."""
        writer = self._writer()
        try:
            renamed = (with_names(batch, self.names, self.schema) for batch in batches)
            for batch in with_partition(renamed, self.filled, self.schema):
                writer.write(batch, row_kind=self.row_kind)
            messages = writer.finish()
            if self.numbering is not None:
                self.numbering.check(messages)
            return messages
        except BaseException as error:
            left = writer.abort()
            if left and isinstance(error, LakelatchError):
                error.message += f"; files that could not be deleted: {', '.join(left)}"
            raise

    def _writer(self) -> TableWriter:
        if self.numbering is None:
            return TableWriter(self.store, self.schema, attempt_name(self.job))
        numbering = self.numbering.of_task(partition_id())
        return TableWriter(
            self.store,
            self.schema,
            attempt_name(self.job),
            largest_numbers=numbering.largest_numbers,
            beginning=numbering.beginning,
            changelog=self.changelog,
            bucket_by_bucket=not numbering.shared and self.buckets is None,
            placement=None if self.buckets is None else self.buckets.placement(self.store, self.schema),
            commit_user=self.commit_user,
        )


@dataclass(frozen=True)
class RewriteTask:
    """Rewrites the groups of files of one task. `job` is as for `WriteTask`."""

    rewriter: AnyRewriter
    job: str

    @property
    def store(self) -> Store:
        return self.rewriter.store

    @property
    def schema(self) -> TableSchema:
        return self.rewriter.schema

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Batches of `SPLIT_SCHEMA` to one batch of a pickled message for each group."""
        name = attempt_name(self.job)
        groups = (group for batch in batches for packed in batch.column(1) for group in pickle.loads(packed.as_py()))
        messages: list[CommitMessage] = []
        try:
            messages.extend(self.rewriter.rewrite(group, f"{name}-{i}") for i, group in enumerate(groups))
        except BaseException as error:
            discard(self.store, keys_of(self.schema, messages), error)
            raise
        yield pa.record_batch({"message": pa.array([pickle.dumps(m) for m in messages], pa.binary())})


@dataclass(frozen=True)
class ChangeTask:
    """Changes rows of the files of one task. `job` is as for `WriteTask`."""

    changer: FileChanger
    job: str

    @property
    def store(self) -> Store:
        return self.changer.store

    @property
    def schema(self) -> TableSchema:
        return self.changer.schema

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Batches of `SPLIT_SCHEMA` to one batch of a pickled `FileChange` for each file."""
        name = attempt_name(self.job)
        files = (file for batch in batches for packed in batch.column(1) for file in pickle.loads(packed.as_py()))
        changes: list[FileChange] = []
        try:
            changes.extend(self.changer.change(file, f"{name}-{i}") for i, file in enumerate(files))
        except BaseException as error:
            discard(self.store, [key for change in changes for key in change.written], error)
            raise
        yield pa.record_batch({"message": pa.array([pickle.dumps(c) for c in changes], pa.binary())})


def messages_of(rows: Iterable[Any]) -> list[CommitMessage]:
    """The messages of a job, from the rows that `collect` returned; each task appears once, even if it was retried."""
    return [pickle.loads(bytes(row[0])) for row in rows]


@dataclass(frozen=True)
class ReadTask:
    """Reads splits into batches of the types that Spark expects (`has_time`: TIME too)."""

    store: Store
    reader: SplitReader
    has_time: bool = False

    def check(self, splits: Sequence[Split]) -> ReadTask:
        """Reject on the driver what the executors could not read (`Unsupported`)."""
        self.reader.batches(
            self.store, splits
        )  # plans each schema, and opens no file before the first batch is requested
        return self

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Batches of `SPLIT_SCHEMA` to batches of rows."""
        for batch in batches:
            for packed in batch.column(1):
                yield from self.read(pickle.loads(packed.as_py()))

    def read(self, splits: Sequence[Split]) -> Iterator[Any]:
        fields = self.reader.output
        schema = pa.schema([arrow_field_for_spark(f, has_time=self.has_time) for f in fields or (NO_COLUMN,)])
        for batch in self.reader.batches(self.store, splits):
            if fields:
                yield batch_for_spark(batch, fields, schema)
            else:
                yield pa.RecordBatch.from_arrays([pa.nulls(batch.num_rows, pa.bool_())], schema=schema)
