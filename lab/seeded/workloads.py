"""What the writers of a simulation do to their table: the tables, and the commit of one job on each.

Owns: `Workload`, `workload`. Must not know: how time passes, what is measured. Invariant: each job plans its commit as the
writers of tables do: rows with keys are numbered above the snapshot that the job has read, changes are computed from what it has
read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

from ...coordinator.commit.committer import Committer
from ...coordinator.commit.request import CommitRequest, KeyedRows, Remarks
from ...core import options as opt
from ...core.errors import InvalidArgument
from ...core.metadata.data_file import ADD, EMPTY_ROW, ManifestEntry
from ...core.metadata.schema import TableSchema
from ...core.metadata.sorted_runs.sequence_numbers import first_number
from ..actors.jobs import data_entry, partition_row, upload
from ..actors.row_changers import Changer, renumbering
from ..world.keyed import KeyRow, key_file
from ..world.stage import Stage, keyed_schema, lab_schema, partitioned_schema

TableKind: TypeAlias = Literal["append", "bucketed", "upsert", "overwrite", "update"]
KINDS: tuple[str, ...] = get_args(TableKind)
BUCKETS = 4

Plan: TypeAlias = Callable[[Stage, Committer, int], CommitRequest]
"""The request of a writer's commit with this number, from 0. It is called again after a conflict."""


@dataclass(frozen=True)
class Workload:
    """A table, and what each job does to it."""

    schema: TableSchema
    request: Plan


def workload(table: str = "append", *, rides: bool = False) -> Workload:
    """Jobs that append, upsert one row, replace a partition of their own, or change a row of their own.

    Args:
        table: append, bucketed (appends to four fixed buckets), upsert, overwrite or update.
        rides: the table has option `commit.group` = `auto`.

    >>> workload("upsert").schema.bucket
    4
    """
    options = {opt.COMMIT_MAX_RETRIES.key: str(opt.COMMIT_MAX_RETRIES.default)}
    if rides:
        options[opt.COMMIT_GROUP.key] = opt.GROUP_AUTO
    buckets = {"bucket": str(BUCKETS)}
    match table:
        case "append":
            return Workload(lab_schema(**options), _append)
        case "bucketed":
            return Workload(lab_schema(**options, **buckets, **{"bucket-key": "v"}), _append)
        case "upsert":
            return Workload(keyed_schema(**options, **buckets), _upsert)
        case "overwrite":
            return Workload(partitioned_schema(**options), _overwrite)
        case "update":
            return Workload(keyed_schema(**options, **buckets), _update)
        case _:
            raise InvalidArgument(f"there are no writers for {table!r}: choose {', '.join(KINDS)}")


def _append(stage: Stage, committer: Committer, number: int) -> CommitRequest:
    schema, label = stage.schema, f"{stage.name}{number}"
    if schema.bucket <= 0:
        return CommitRequest(kind="APPEND", entries=(data_entry(label),), commit_user=stage.name)
    entry = data_entry(label, buckets=schema.bucket)._replace(bucket=_bucket(stage, number))
    return CommitRequest(kind="APPEND", entries=(entry,), commit_user=stage.name, remarks=Remarks("WRITE"))


def _upsert(stage: Stage, committer: Committer, number: int) -> CommitRequest:
    label, bucket, numbers = f"{stage.name}{number}", _bucket(stage, number), committer.base_numbers()
    largest = numbers.largest({EMPTY_ROW}).get((EMPTY_ROW, bucket), -1)
    first = first_number(largest, stage.around.wall_ms, stage.around.uniform(0.0, 1.0))
    row = KeyRow(label, _key(stage), first)
    entry = ManifestEntry(ADD, EMPTY_ROW, bucket, stage.schema.bucket, key_file([row]))
    return CommitRequest(
        kind="APPEND",
        entries=(entry,),
        commit_user=stage.name,
        uploads=(upload(stage, entry, label),),
        read_snapshot=numbers.snapshot,
        keyed=KeyedRows(renumber=renumbering(stage, label)),
        remarks=Remarks("WRITE"),
    )


def _overwrite(stage: Stage, committer: Committer, number: int) -> CommitRequest:
    label, partition = f"{stage.name}{number}", _key(stage)
    row = partition_row(partition)
    return CommitRequest(
        kind="OVERWRITE",
        entries=(data_entry(label, partition),),
        commit_user=stage.name,
        target=lambda found: found == row,
        read_snapshot=stage.timeline().latest(),
        remarks=Remarks("OVERWRITE"),
    )


def _update(stage: Stage, committer: Committer, number: int) -> CommitRequest:
    if not number:
        return _upsert(stage, committer, number)
    made = Changer((str(_key(stage)),)).request(stage, f"{stage.name}{number}")
    bucket = _bucket(stage, 0)
    return replace(made, entries=tuple(entry._replace(bucket=bucket) for entry in made.entries))


def _key(stage: Stage) -> int:
    """One of its own for each writer."""
    return stage.number


def _bucket(stage: Stage, number: int) -> int:
    return (stage.number + number) % BUCKETS
