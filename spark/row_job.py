"""Changes of rows as a Spark job: the executors look at files and write them anew, and the driver commits.

Owns: `changed_by`. Must not know: what is changed, commits, sessions' kinds. Source: architecture §6; format/spark §3.
Invariants: Each plan runs one action at most. A job that fails leaves no file behind, or the error names those that are left.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import functions as F  # noqa: N812 - Spark's users know it by this name

from ..table.rowlevel.append_table import ChangeFiles, changed_here
from ..table.rowlevel.file_change import FileChange, FileChanger
from ..table.scan.split import Split
from .reading.scan import TASK_BYTES, packed
from .sessions.session import parallelism
from .tasks import SPLIT_SCHEMA, ChangeTask
from .write_job import run_job

DRIVER_BYTES = 32 << 20
"""Fewer bytes are looked at by the driver itself, because starting a job takes longer."""


def changed_by(spark: Any) -> ChangeFiles:
    """A function that changes files on executors, if they are large."""

    def change(changer: FileChanger, splits: Sequence[Split]) -> Iterator[FileChange]:
        if sum(split.size for split in splits) <= DRIVER_BYTES:
            yield from changed_here(changer, splits)
            return
        tasks = packed(splits, parallelism(spark), TASK_BYTES)
        rows = [(i, pickle.dumps(task)) for i, task in enumerate(tasks)]
        frame = spark.createDataFrame(rows, SPLIT_SCHEMA)
        frame = frame.repartitionById(len(tasks), F.col("task")) if len(tasks) > 1 else frame.coalesce(1)
        yield from run_job(frame, ChangeTask(changer, str(uuid.uuid4())))

    return change
