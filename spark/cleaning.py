"""Orphan cleaning as a Spark job: the executors read manifests and delete files, and the driver decides.

Owns: `clean` and its tasks. Must not know: which files are orphans (see `coordinator.maintenance.orphans`). Source: architecture
§6, §7; format/spark §3; format/commit §12.
Invariants: the driver lists the candidates before any manifest is read, and looks at newer roots before and between the
deletions. Of a manifest only fingerprints of names come back, eight bytes for each file. A task that is repeated does no harm.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - Spark's users know it by this name

from ..backends.elsewhere import delete_located
from ..backends.requests.refusals import DeletionRefused, collect, past_refusals
from ..backends.store import Store
from ..coordinator.history.timeline import Timeline
from ..coordinator.maintenance.orphans import OrphanPlan, apply_clean, plan_orphans, store_clock_ms
from ..coordinator.maintenance.quarantine import expire_quarantines
from ..coordinator.maintenance.reach.used import named_files
from ..coordinator.surroundings import MACHINE
from ..core.metadata.schema import TableSchema
from ..core.paths import TablePaths
from ..core.places import FileKeys
from ..core.typed import Array
from ..table.create import open_table
from ..table.methods.cleaning import orphans_until
from ..table.methods.maintenance import Moment
from .jobs.running import raised_again
from .sessions.session import checked_url, parallelism
from .sessions.shipping import check_workers, shipped

MANIFESTS_AT_ONCE = 256
"""How many manifests one job reads. Their fingerprints come back together."""
BATCHES_AT_ONCE = 128
"""How many batches of a thousand files one job deletes."""

_WORK_SCHEMA = "task int, work binary"
_RESULT_SCHEMA = "number int, found binary"


def clean(
    spark: Any,
    url: str,
    *,
    older_than: Moment = None,
    external: bool = False,
    dry_run: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> OrphanPlan:
    """Delete the files that no snapshot, tag or branch of a large table names; otherwise like `Table.clean`.

    The driver lists the table's files. The executors read its manifests, which takes the most time, and delete.

    Args:
        spark: the session, classic or Connect.
        url: the URL of the table, which must mean the same on the driver and on the executors.
        older_than, external: as for `Table.clean`.
        dry_run: delete nothing.
        storage_options: fsspec's options for the store. Keys given here are sent to the executors; prefer profiles (H19).

    Returns:
        What was deleted, or with `dry_run` would be; prints as one line.

    Raises:
        LakelatchError: as for `Table.clean`. If Spark's job fails otherwise, Spark's own error is raised; run it again.

    Example:
        ``print(lakelatch.spark.clean(spark, "s3://lake/flights"))``
    """
    table = open_table(checked_url(spark, url), storage_options=storage_options)
    schema, store = table.timeline.latest_schema(), table.store
    now_ms = MACHINE.wall_ms if dry_run else store_clock_ms(store, MACHINE.new_uuid().hex)
    until_ms = orphans_until(now_ms, older_than)

    def read(names: Sequence[str]) -> list[Array | None]:
        found = _run(spark, ReadManifestsTask(store, schema), list(enumerate(names)))
        return [None if found[i] is None else np.frombuffer(found[i], np.uint64) for i in range(len(names))]

    def delete(batches: Sequence[Sequence[str]]) -> None:
        for told in _run(spark, DeleteTask(store), list(enumerate(batches))).values():
            collect(json.loads(told or b"{}"))

    plan = plan_orphans(
        table.timeline, schema, until_ms, external=external, read_manifests=read, at_once=MANIFESTS_AT_ONCE
    )
    if dry_run:
        return plan
    with past_refusals():
        return expire_quarantines(apply_clean(plan, delete=delete, at_once=BATCHES_AT_ONCE), now_ms)


def _run(spark: Any, task: Any, work: Sequence[tuple[int, Any]]) -> dict[int, Any]:
    """Run one job over numbered pieces of work. Returns what was found for each number."""
    if not work:
        return {}
    check_workers(spark)
    tasks = min(parallelism(spark), len(work))
    rows = [(i, pickle.dumps(work[i::tasks])) for i in range(tasks)]
    frame = spark.createDataFrame(rows, _WORK_SCHEMA)
    frame = frame.repartitionById(tasks, F.col("task")) if tasks > 1 else frame.coalesce(1)
    try:
        found = frame.mapInArrow(shipped(task), _RESULT_SCHEMA).collect()
    except BaseException as error:
        raise raised_again(error, "run it again") from error
    return {row[0]: None if row[1] is None else bytes(row[1]) for row in found}


def _work(batches: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    return (piece for batch in batches for packed in batch.column(1) for piece in pickle.loads(packed.as_py()))


def _result(number: int, found: bytes | None) -> Any:
    return pa.record_batch({"number": pa.array([number], pa.int32()), "found": pa.array([found], pa.binary())})


@dataclass(frozen=True)
class ReadManifestsTask:
    """Reads manifests, by number and name, to fingerprints of the files that they name; null for one that is gone."""

    store: Store
    schema: TableSchema

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        timeline, keys = Timeline(self.store, TablePaths()), FileKeys(self.schema)
        for number, name in _work(batches):
            found = named_files(timeline, keys, name)
            yield _result(number, None if found is None else found.tobytes())


@dataclass(frozen=True)
class DeleteTask:
    """Deletes batches of files, inside the table's folder or elsewhere, to what the store refuses to delete, and why."""

    store: Store

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for number, keys in _work(batches):
            kept: dict[str, str] = {}
            try:
                delete_located(self.store, keys, named=False)
            except DeletionRefused as refused:
                kept = refused.kept
            yield _result(number, json.dumps(kept).encode())
