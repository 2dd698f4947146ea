"""A Python worker daemon for Spark 4.0 and 4.1 that does not re-read Spark's archives for every task.

Owns: one patch, in the daemon's own process. Must not know: anything else of lakelatch.

Before each task Spark 4.1 asks Python to invalidate its import caches, and Python then reads the directories of
`pyspark.zip`, the py4j archive and Spark's core jar again: 0.1 s of CPU for each task (format/spark §3). This daemon leaves
the archives' caches alone; archives do not change while a job runs. Spark 4.2 does not need it. To use it::

    spark.python.daemon.module = lakelatch.spark.daemon

set before the session starts, with lakelatch importable on the executors. Files added later by `addPyFile` are found as
before: only archives that were read already are not read twice.
"""

from __future__ import annotations

import zipimport
from typing import Any


def keep_archives() -> None:
    """Invalidating caches leaves archives that were read already as they are."""

    def keep(self: Any) -> None:
        return

    zipimport.zipimporter.invalidate_caches = keep  # type: ignore[method-assign]


if __name__ == "__main__":
    from pyspark.daemon import manager

    keep_archives()
    manager()  # type: ignore[no-untyped-call]
