"""Writes a DataFrame into a table with one Spark job and one commit, which the user's process makes.

Owns: `write`. Must not know: how rows become files, how a commit is made, what a job that failed leaves (`jobs`).
Source: architecture §6; format/spark §5.

Invariants: Exactly one action runs on the frame, or none if the identity has already landed. An overwrite replaces the
rows that existed before the job began (H13). Files are deleted only while no commit that names them can have been sent (H5).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark.sql import types as spark

from ..coordinator.commit.message import CommitMessage
from ..coordinator.commit.receipt import Receipt
from ..coordinator.commit.request import Grouping, Isolation
from ..core import options as opt
from ..core.errors import InvalidArgument, LakelatchError, TableExists, TableNotFound
from ..core.metadata.schema import TableSchema
from ..core.metadata.snapshot import Snapshot
from ..core.options import TableOptions
from ..core.paths import DEFAULT_BRANCH
from ..core.places import codec_of
from ..table.compaction.inline import compact_written
from ..table.create import Schema, create_table, drop_table, open_table
from ..table.table import Table
from ..table.writing.beginning import Beginning
from ..table.writing.overwrites import overwrite_spec, snapshot_read
from ..table.writing.replays import check_replay
from ..table.writing.transaction import Transaction
from .columns import match_columns
from .compaction import rewritten_by
from .evolving import with_new_columns
from .jobs.running import run_job
from .jobs.tasks import WriteTask
from .options.asked import Asked, Cluster, Mode
from .reading.read_marks import read_at
from .rows.dynamic import DynamicPlan
from .rows.numbering import Numbering
from .rows.postponed import PostponedPlan
from .rows.routing import TASKS_PER_CORE, check_buckets, check_written_by_spark
from .sessions.session import checked_url, overwrite_mode, parallelism, tells_case
from .sessions.zones import partition_in, session_zone
from .types import from_spark_schema


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
    allow_unknown: bool = False,
    evolve: bool = False,
    cluster: Cluster = "auto",
    row_kind: str | None = None,
    branch: str = DEFAULT_BRANCH,
    group: Grouping | None = None,
) -> Receipt:
    """Write a DataFrame into a table in one commit. In a table with a primary key, rows replace those with their keys.

    Unless such a table has option `write-only`, the buckets that were written are compacted afterwards if that is due: by another
    job of Spark and in a commit of its own, whose failure does no harm.

    Args:
        df: a DataFrame of Spark, classic or Connect; its columns are matched by name.
        url: the URL of the table, which must mean the same on the driver and on the executors.
        mode: `append` adds the rows. `overwrite` replaces `partition`, or everything if that is {} or the table has no
            partitions. `overwrite-partitions` replaces each partition for which the frame has rows, and so does `overwrite`
            without `partition` if the session's `spark.sql.sources.partitionOverwriteMode` is `dynamic`.
        partition: for `overwrite`, the partition to replace, in whole or in part. The frame may omit its columns. Times
            without a zone are times of `spark.sql.session.timeZone`.
        commit_user, identifier: give both to commit exactly once, or neither. A second run with the same pair returns the
            receipt of the first run without running a job. The identifiers of a user may come in any order.
        isolation: how an overwrite treats rows that other writers append in the meantime: with `snapshot` they stay, and
            with `serializable` they are a conflict.
        read_snapshot: for an overwrite, the id of the snapshot that the frame was computed from. Rows appended after it
            count as appended in the meantime. By default it is the one at which `lakelatch.spark.read`, or a view of
            `lakelatch.spark.use`, has read the table for this frame; for a frame of other rows, the newest at the start of
            this call (H13).
        properties: properties to store in the snapshot.
        storage_options: fsspec's options for the store. Keys given here are sent to the executors; prefer profiles (H19).
        partition_by, primary_key, options: how to create the table if it does not exist. Without any of them, the table
            must exist.
        allow_unknown: accept options that neither lakelatch nor Apache Paimon knows, when the table is created.
        evolve: first add the columns that the table lacks, as a schema change of its own. They stay if the job fails.
        cluster: with `auto`, the rows of a partition are brought together before they are written, so that a partition gets
            few files instead of one from each task; this costs a shuffle. With `none`, or if the table's option
            `partition.sink-strategy` is `none`, each task writes the rows that it has, in the order of the frame. Tables
            without partitions are never shuffled, and those with fixed buckets always.
        row_kind: for a table with a primary key: the column that names the kind of each row. `+I` and `+U` add or replace,
            `-D` and `-U` delete; or `c`, `r`, `u`, `d`, as Debezium writes them. It need not be a column of the table. Of
            several rows of the frame with one key the last one counts, unless option `sequence.field` orders them.
        branch: the branch of the table that gets the rows. It must exist.
        group: with `auto`, an append that loses a race asks the next winner to carry it, as with the table's option
            `commit.group`; with `off`, it goes alone. None: what the option says.

    Returns:
        The receipt.

    Raises:
        TableNotFound: The table does not exist, and no argument says how to create it.
        InvalidArgument: Columns, values or arguments do not fit. Nothing was committed.
        LakelatchError: as for any commit. If Spark's job fails, Spark's own error is raised, with `left_files`: the names
            of this job's data files that could not be deleted. A task that Spark kills may still write a file afterwards.
            Such a file is an orphan, and its name contains the number of the job, which the error mentions.

    Example:
        ``receipt = lakelatch.spark.write(df, "s3://lake/flights", commit_user="etl-7", identifier=42)``
    """
    return carry_out(df, Asked(**{name: value for name, value in locals().items() if name != "df"}))


def carry_out(df: Any, asked: Asked) -> Receipt:
    """Write a DataFrame as it was asked; errors as for `write`."""
    asked.check(df)
    checked_url(df.sparkSession, asked.url)
    fields = spark.StructType([f for f in df.schema.fields if f.name != asked.row_kind])
    table, is_new = _table(fields, asked)
    if asked.evolve:
        case = tells_case(df.sparkSession)
        reopened = partial(open_table, asked.url, branch=asked.branch, storage_options=asked.storage_options)
        table = with_new_columns(reopened, fields, tuple(asked.partition or ()), tells_case=case)
    check_written_by_spark(table.schema, shuffles=True)
    if asked.row_kind is not None and not table.schema.primary_keys:
        raise InvalidArgument(
            "row_kind: the table has no primary key, so its rows cannot be replaced or deleted by key"
        )
    if asked.partition is not None:
        zone = session_zone(df.sparkSession)
        asked = replace(asked, partition=partition_in(zone, asked.partition, table.schema))
    with table.refresh()._begin(**asked.of_commit) as tx:
        try:
            messages = [] if tx.replayed else _fill(tx, table, df, asked)
        except BaseException:
            if is_new:
                take_back(table, asked.storage_options)
            raise
    if tx.replayed:
        appends, spec = asked.mode == "append", _replaced_spec(table.schema, df, asked)
        partitions = None if appends or spec is None else (codec_of(table.schema).spec_path(spec),)
        check_replay(tx.receipt, table.schema, "APPEND" if appends else "OVERWRITE", None, partitions)
    if table.schema.primary_keys and messages and not tx.receipt.replayed:
        _compact(table, messages, df.sparkSession)
    return tx.receipt


def take_back(table: Table, storage_options: Mapping[str, Any] | None) -> None:
    """Remove a table that this call has made for rows that it could not write, unless others have used it since."""
    with suppress(LakelatchError):
        if all(info.key.startswith("schema/") for info in table.store.list("")):
            drop_table(table.url, storage_options=storage_options)


def _compact(table: Table, messages: Sequence[CommitMessage], session: Any) -> None:
    """Compact the buckets that were written, as a job and a commit of their own, if the table's options ask for it."""
    buckets = {(m.partition, m.bucket) for m in messages if m.new_files}
    compact_written(table.committer, buckets, partial(rewritten_by, session))


def _fill(tx: Transaction, table: Table, df: Any, asked: Asked) -> list[CommitMessage]:
    """Run the job, and add its files to the transaction. Returns the messages of the tasks."""
    schema, mode = table.schema, asked.mode
    spec = _replaced_spec(schema, df, asked)
    columns = match_columns(df.schema, schema, tuple(spec or ()), asked.row_kind)
    before = _replaced(table, df, asked.read_snapshot) if mode != "append" else None
    task = WriteTask(table.store, schema, str(uuid.uuid4()), columns.names, spec or {}, row_kind=asked.row_kind)
    if schema.primary_keys:
        base = table.committer.base_numbers()
        numbering = Numbering(Beginning.now(), base.largest_of_all())
        task = replace(task, numbering=numbering, changelog=mode == "append")
        before = base.snapshot if mode == "append" else before
        tasks = TASKS_PER_CORE * parallelism(df.sparkSession)
        dynamic_plan = DynamicPlan.of(schema, table.paths, base.snapshot, tasks, mode != "append")
        task = replace(task, buckets=dynamic_plan or PostponedPlan.of(schema, base), commit_user=tx.commit_user)
    rows = columns.routed(columns.select(df), schema if task.buckets is None else task.buckets.as_fixed(schema))
    no_buckets = schema.bucket < 1 and not schema.primary_keys
    if asked.cluster == "auto" and no_buckets and schema.options.get(opt.PARTITION_SINK_STRATEGY) != "none":
        rows = columns.clustered(rows, schema, spec or {})
    messages = run_job(rows, task)
    if mode == "append":
        tx.append_messages(messages, before)
    else:
        tx.overwrite_messages(messages, before, partition=asked.partition, dynamic=spec is None)
    return messages


def _replaced_spec(schema: TableSchema, df: Any, asked: Asked) -> dict[str, Any] | None:
    """What is replaced, as `overwrite_spec` says it; {} for an append."""
    if asked.mode == "append":
        return {}
    dynamic = asked.mode == "overwrite-partitions"
    if asked.mode == "overwrite" and asked.partition is None and schema.partition_keys:
        dynamic = overwrite_mode(df.sparkSession) == "dynamic"
    return overwrite_spec(schema, asked.partition, dynamic)


def _replaced(table: Table, df: Any, read_snapshot: int | None) -> Snapshot | None:
    """The snapshot that an overwrite replaces."""
    number = read_at(df, table) if read_snapshot is None else read_snapshot
    return None if number == 0 else snapshot_read(table.timeline, number)


def _table(fields: spark.StructType, asked: Asked) -> tuple[Table, bool]:
    """The table, which is created if it does not exist and the arguments say how; and whether this call created it."""
    partition_by, primary_key, options = asked.partition_by, asked.primary_key, asked.options
    made, is_new = None, False
    try:
        table = open_table(asked.url, branch=asked.branch, storage_options=asked.storage_options)
    except TableNotFound as error:
        if partition_by is None and primary_key is None and options is None:
            error.next_step = "check the URL, or pass partition_by=[...] or options={} to create the table"
            raise
        if primary_key:
            number = TableOptions({str(k): str(v) for k, v in (options or {}).items()}).get(opt.BUCKET)
            check_buckets(number, _names(primary_key), _names(partition_by or ()))
        create = partial(
            create_table,
            asked.url,
            Schema(from_spark_schema(fields)),
            partition_by=partition_by or (),
            primary_key=primary_key or (),
            options=options,
            allow_unknown=asked.allow_unknown,
            storage_options=asked.storage_options,
        )
        try:
            made, is_new = create(), True
        except TableExists:  # two writers may create it at once; the keys of the winner are checked below
            made = create(exist_ok=True)
        table = made
    _check_keys("partition_by", partition_by, table.schema.partition_keys, made is not None)
    _check_keys("primary_key", primary_key, table.schema.primary_keys, made is not None)
    return table, is_new


def _check_keys(name: str, wanted: Sequence[str] | str | None, keys: tuple[str, ...], made: bool) -> None:
    given = _names((() if made else keys) if wanted is None else wanted)
    if given != keys:
        raise InvalidArgument(f"{name} is {list(given)}, but the table has {list(keys)}", next_step="leave it out")


def _names(columns: Sequence[str] | str) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else tuple(columns)
