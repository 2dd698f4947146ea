"""Changes of rows as a Spark job: the executors look at files and write them anew, and the driver commits.

Owns: `changed_by`. Must not know: what is changed, commits, sessions' kinds. Source: architecture §6; format/spark §3.
Invariants: Each plan runs one action at most. A job that fails leaves no file behind, or the error names those that are left.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from ..table.rowlevel.append_table import ChangeFiles, changed_here
from ..table.rowlevel.file_change import FileChange, FileChanger
from ..table.scan.split import Split
from .jobs.packing import TASK_BYTES, frame_of, packed
from .jobs.running import run_job
from .jobs.tasks import ChangeTask
from .sessions.session import parallelism

DRIVER_BYTES = 32 << 20
"""Fewer bytes are looked at by the driver itself, because starting a job takes longer."""


def changed_by(spark: Any) -> ChangeFiles:
    """A function that changes files on executors, if they are large."""

    def change(changer: FileChanger, splits: Sequence[Split]) -> Iterator[FileChange]:
        if sum(split.size for split in splits) <= DRIVER_BYTES:
            yield from changed_here(changer, splits)
            return
        frame = frame_of(spark, packed(splits, parallelism(spark), TASK_BYTES))
        yield from run_job(frame, ChangeTask(changer, str(uuid.uuid4())))

    return change
