"""A Python worker daemon for Spark 4.0 and 4.1 that does not re-read Spark's archives for every task.

Owns: one patch, which affects only the daemon's process. Must not know: anything else of lakelatch.

Before each task Spark 4.1 invalidates Python's import caches. Python then reads the directories of `pyspark.zip`, the
py4j archive and Spark's core jar again, which takes 0.1 s of CPU per task (format/spark §3). This daemon keeps the caches
of archives, because archives do not change while a job runs. Spark 4.2 does not need it. To use it::

    spark.python.daemon.module = lakelatch.spark.daemon

Set this before the session starts; lakelatch must be importable on the executors. Files that `addPyFile` adds later are
still found, because only archives that have already been read are kept.
"""

from __future__ import annotations

import zipimport
from typing import Any


def keep_archives() -> None:
    """Make cache invalidation skip archives that have already been read."""

    def keep(self: Any) -> None:
        return

    zipimport.zipimporter.invalidate_caches = keep  # type: ignore[method-assign]


if __name__ == "__main__":
    from pyspark.daemon import manager

    keep_archives()
    manager()  # type: ignore[no-untyped-call]
