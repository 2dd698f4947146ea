"""Has Spark fork the workers of a data source with everything imported, as `lakelatch.spark.daemon` does for those of tasks.

Spark takes no setting for the daemons that create, plan and commit: it starts its own, and each new worker of theirs imports
lakelatch for a second of CPU. A worker ends with each error and when it idles for a minute. Python runs this file where its
folder is on the path, which only the Java of the tests' own sessions has; programs of users and pages have Spark's defaults.
"""

from __future__ import annotations

import sys

_MODULE = sys.orig_argv[1:3] == ["-m", "pyspark.daemon"]
_LOOKS_UP = sys.orig_argv[-1].endswith("lookup_data_sources")  # once in a session, and imports nothing of ours

if _MODULE and not _LOOKS_UP:
    from lakelatch.spark.daemon import import_once, keep_archives

    keep_archives()
    import_once()
