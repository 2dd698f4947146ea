"""A DataFrame into a table: one Spark job, one commit, in the user's own process.

Owns: `write`, and the cleaning up after a job that failed. Must not know: how rows become files, how a commit is made.
Source: architecture §6; format/spark §5.

Invariants: exactly one action runs on the frame; an identity that has landed runs none; an overwrite replaces what was
there before the job began (H13); files are deleted only while nothing that names them can have been sent (H5).
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ..backends.store import Store
from ..coordinator.commit.message import CommitMessage
from ..coordinator.commit.receipt import Receipt
from ..coordinator.commit.request import Isolation
from ..core import options as opt
from ..core.errors import ERRORS, InvalidArgument, OutcomeUnknown, StoreUnavailable, TableNotFound
from ..core.metadata.schema import TableSchema
from ..core.paths import TablePaths
from ..table.create import Schema, create_table, open_table
from ..table.table import Table
from ..table.writing.transaction import Transaction, overwrite_spec, snapshot_read
from ..table.writing.writer import UNAWARE_BUCKET, check_writable
from .batch_size import large_batches
from .columns import match_columns
from .tasks import MESSAGE_SCHEMA, RewriteTask, WriteTask, file_prefix, messages_of
from .types import from_spark_schema

Mode = Literal["append", "overwrite", "overwrite-partitions"]
_MODES = ("append", "overwrite", "overwrite-partitions")
_LOG = logging.getLogger("lakelatch.spark")
_OURS = re.compile(r"lakelatch\.core\.errors\.(\w+): ([^\n]+)")
"""An error of ours in the text of a traceback, which is all that Spark brings from an executor."""
_RAISED_AGAIN = {kind.__name__: kind for kind in ERRORS.values() if kind is not OutcomeUnknown}


def write(
    df: Any,
    url: str,
    mode: Mode = "append",
    *,
    partition: Mapping[str, Any] | None = None,
    commit_user: str | None = None,
    identifier: int | None = None,
    isolation: Isolation = "snapshot",
    read_snapshot: int | None = None,
    properties: Mapping[str, str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    partition_by: Sequence[str] | str | None = None,
    primary_key: Sequence[str] | str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Receipt:
    """Write a DataFrame into a table: one commit.

    Args:
        df: a DataFrame, classic or Connect; its columns are matched by name.
        url: of the table, as seen from the driver and the executors.
        mode: `append`; `overwrite` replaces `partition` ({} or none for a table without partitions = everything);
            `overwrite-partitions` replaces each partition that the frame has rows of.
        partition: for `overwrite`: the partition, in whole or part; its columns may be left out of the frame.
        commit_user, identifier: exactly once: a second run answers the first one's receipt, and runs no job. Both or
            neither; the identifiers of a user grow.
        isolation: of an overwrite: `snapshot`: rows that others append meanwhile stay; `serializable`: they conflict.
        read_snapshot: of an overwrite: id of the snapshot that the frame was made from: "meanwhile" begins there, and not
            where this call begins (H13).
        properties: kept in the snapshot.
        storage_options: as fsspec's users know them. Keys given here travel to the executors; prefer profiles (H19).
        partition_by, primary_key, options: make the table where there is none; with none of them it must exist.

    Returns:
        The receipt.

    Raises:
        TableNotFound: there is no table, and nothing says how to make one.
        InvalidArgument: columns, values or arguments that do not fit. Nothing was committed.
        LakelatchError: as any commit's. Where Spark's job fails, Spark's own error is raised, with `left_files`:
            the names of this job's data files that could not be deleted. A task that Spark kills may leave a file after
            that; it is an orphan, and its name begins as the error says.

    Example:
        ``receipt = lakelatch.spark.write(df, "s3://lake/flights", commit_user="etl-7", identifier=42)``
    """
    _check_arguments(mode, partition, read_snapshot)
    table = _table(df, url, partition_by, primary_key, options, storage_options)
    check_writable(table.schema)
    with table.transaction(
        commit_user=commit_user, identifier=identifier, isolation=isolation, properties=properties
    ) as tx:
        if not tx.replayed:
            _fill(tx, table, df, mode, partition, read_snapshot)
    return tx.receipt


def _check_arguments(mode: Mode, partition: Mapping[str, Any] | None, read_snapshot: int | None) -> None:
    if mode not in _MODES:
        raise InvalidArgument(f"mode {mode!r}: use one of {', '.join(_MODES)}")
    if partition is not None and mode != "overwrite":
        raise InvalidArgument("partition= goes with mode='overwrite' only")
    if read_snapshot is not None and mode == "append":
        raise InvalidArgument("read_snapshot= goes with an overwrite only")


def _fill(
    tx: Transaction, table: Table, df: Any, mode: Mode, partition: Mapping[str, Any] | None, read_snapshot: int | None
) -> None:
    """Run the job, and put what it wrote into the transaction."""
    dynamic = mode == "overwrite-partitions"
    schema = table.schema
    spec = overwrite_spec(schema, partition, dynamic) if mode != "append" else {}
    columns = match_columns(df.schema, schema, tuple(spec or ()))
    before = snapshot_read(table.timeline, read_snapshot) if mode != "append" else None
    task = WriteTask(table.store, schema, str(uuid.uuid4()), columns.names, spec or {})
    messages = run_job(columns.routed(columns.select(df), schema), task)
    if mode == "append":
        tx.append_messages(messages)
    else:
        tx.overwrite_messages(messages, before, partition=partition, dynamic=dynamic)


def _table(
    df: Any,
    url: str,
    partition_by: Sequence[str] | str | None,
    primary_key: Sequence[str] | str | None,
    options: Mapping[str, Any] | None,
    storage_options: Mapping[str, Any] | None,
) -> Table:
    """The table, made where there is none and the arguments say how."""
    made = None
    try:
        table = open_table(url, storage_options=storage_options)
    except TableNotFound:
        if partition_by is None and primary_key is None and options is None:
            raise
        made = table = create_table(
            url,
            Schema(from_spark_schema(df.schema)),
            partition_by=partition_by or (),
            primary_key=primary_key or (),
            options=options,
            exist_ok=True,  # two writers may make it at once; whose schema won is checked below
            storage_options=storage_options,
        )
    _check_keys("partition_by", partition_by, table.schema.partition_keys, made is not None)
    _check_keys("primary_key", primary_key, table.schema.primary_keys, made is not None)
    return table


def _check_keys(name: str, wanted: Sequence[str] | str | None, keys: tuple[str, ...], made: bool) -> None:
    if wanted is None:
        wanted = () if made else keys
    given = (wanted,) if isinstance(wanted, str) else tuple(wanted)
    if given != keys:
        raise InvalidArgument(f"{name} is {list(given)}, but the table has {list(keys)}", next_step="leave it out")


# ----------------------------------------------------------------------------------------------------------- the job


def run_job(frame: Any, task: WriteTask | RewriteTask) -> list[CommitMessage]:
    """The one action. Its messages; on failure nothing of the job is left, or the error says what is."""
    try:
        # One row per task that wrote: of a task that ran twice Spark returns one attempt's.
        with large_batches(frame.sparkSession, frame.schema):
            return messages_of(frame.mapInArrow(task, MESSAGE_SCHEMA).collect())
    except BaseException as error:
        left = _remove_job(task.store, task.schema, task.job)
        raise _job_error(error, left, file_prefix(task.schema, task.job)) from error


def _remove_job(store: Store, schema: TableSchema, job: str) -> list[str]:
    """Delete the job's data files: nothing that names them was ever made. What cannot be deleted is returned."""
    prefix = file_prefix(schema, job)
    found: list[str] = []
    try:
        found = [
            info.key for info in store.list(_data_folder(schema)) if info.key.rpartition("/")[2].startswith(prefix)
        ]
        store.delete_many(found)
    except StoreUnavailable as error:
        _LOG.warning("files of job %s could not be deleted: %s", job, error)
        return found or [f"{_data_folder(schema)}**/{prefix}*"]
    return []


def _data_folder(schema: TableSchema) -> str:
    """The folder below which all data files lie, as narrow as it is known."""
    directory = schema.options.get(opt.DATA_FILE_DIRECTORY)
    if not schema.partition_keys and schema.bucket < 1:
        return TablePaths(data_directory=directory).bucket_dir("", UNAWARE_BUCKET)
    return f"{directory.strip('/')}/" if directory else ""


def _job_error(error: BaseException, left: list[str], prefix: str) -> BaseException:
    """What to raise for a job that failed: an error of ours that an executor raised, else Spark's, with `left_files`."""
    told = (
        f"nothing was committed; files that could not be deleted: {', '.join(left)}"
        if left
        else "nothing was committed"
    )
    found = _OURS.findall(str(error))
    kind = _RAISED_AGAIN.get(found[-1][0]) if found else None
    if kind is not None:
        raised: BaseException = kind(f"{found[-1][1]}; {told}", next_step="")
    else:
        raised = error
        if hasattr(error, "add_note"):
            error.add_note(f"lakelatch: {told}; all data files of this job begin with {prefix}")
    try:
        raised.left_files = left  # type: ignore[attr-defined]
    except AttributeError:
        _LOG.warning("%s", told)
    return raised
