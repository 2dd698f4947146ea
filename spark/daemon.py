"""A Python worker daemon that makes Spark's tasks cheaper: workers are forked with everything imported.

Owns: what the daemon's process does before it forks, and what a process that plans and commits batches does once. Must not
know: anything else of lakelatch.

A worker that Spark's own daemon has forked imports pyarrow, pandas and lakelatch itself, which takes more than a second of CPU
in each new worker. This daemon imports them once. Before each task Spark 4.1 also invalidates Python's import caches. Python
then reads the directories of `pyspark.zip`, the py4j archive and Spark's core jar again, which takes 0.1 s of CPU per task
(format/spark §3). This daemon keeps the caches of archives, because archives do not change while a job runs; Spark 4.2 does
so itself. After each task a worker collects garbage, which walks everything that was imported: 0.06 s of CPU per task. What was
imported before the fork is left out of that. To use it::

    spark.python.daemon.module = lakelatch.spark.daemon

Set this before the session starts; lakelatch must be importable on the executors. Files that `addPyFile` adds later are
still found, because only archives that have already been read are kept.

The processes in which Spark plans and commits the batches of a stream are always those of Spark's own daemon, and serve one
batch after another. `spare` keeps both costs from being paid for each batch there (decision 79).
"""

from __future__ import annotations

import gc
import importlib
import os
import zipimport
from contextlib import suppress
from typing import Any

OF_WORKERS = ("PYTHON_WORKER_FACTORY_", "PYTHON_UNIX_DOMAIN_")
"""How the variables begin that Spark sets in the processes that it starts, and nowhere else."""
_SPARED: list[int] = []
OF_EVERY_WORKER = ("pandas", "pyarrow.parquet", "pyspark.sql.pandas.serializers", "lakelatch.spark.statements.source")


def keep_archives() -> None:
    """Make cache invalidation skip archives that have already been read."""

    def keep(self: Any) -> None:
        return

    zipimport.zipimporter.invalidate_caches = keep  # type: ignore[method-assign]


def import_once() -> None:
    """Import what workers need, so that they are forked with it. What is missing here is the worker's error, not the daemon's.

    It stays until the end, so workers look for garbage only in what they make themselves.
    """
    gc.disable()
    for name in OF_EVERY_WORKER:
        with suppress(ImportError):
            importlib.import_module(name)
    gc.enable()
    gc.freeze()


def spare() -> None:
    """Make the later batches of a process that Spark has started cheaper, once its first one has imported what they need."""
    if _SPARED or not any(name.startswith(OF_WORKERS) for name in os.environ):
        return
    _SPARED.append(os.getpid())
    keep_archives()
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    from pyspark.daemon import manager

    keep_archives()
    import_once()
    manager()  # type: ignore[no-untyped-call]
