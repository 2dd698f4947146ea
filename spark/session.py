"""What a Spark session can do, asked without its JVM: everything here runs under Spark Connect too.

Owns: whether the session knows a type, tells case apart, can open a scheme, and how many tasks to make. Must not know:
tables, plans.
Source: format/spark §1; architecture §6. Invariant: a session is only ever asked, nothing is set in it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

_HADOOPS = "spark.jars.packages=org.apache.hadoop:{}:VERSION, in the version of Spark's own Hadoop,"
_FILE_SYSTEMS = {
    "s3a": ("org.apache.hadoop.fs.s3a.S3AFileSystem", _HADOOPS.format("hadoop-aws")),
    "gs": (
        "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
        "spark.jars=FILE with the shaded jar of com.google.cloud.bigdataoss:gcs-connector",
    ),
    "abfs": ("org.apache.hadoop.fs.azurebfs.AzureBlobFileSystem", _HADOOPS.format("hadoop-azure")),
    "abfss": ("org.apache.hadoop.fs.azurebfs.SecureAzureBlobFileSystem", _HADOOPS.format("hadoop-azure")),
    "hdfs": ("org.apache.hadoop.hdfs.DistributedFileSystem", _HADOOPS.format("hadoop-client-api")),
}
"""Scheme -> Hadoop's class for it, and the setting that brings it; the last one is among PySpark's own jars."""
_NEEDED = {
    "gs": {
        "parquet.hadoop.vectored.io.enabled": "false"
    },  # Google's connector 3.1 calls what Hadoop 3.4 has under another name
}
_NO_CLIENT = ("No FileSystem for scheme", "ClassNotFoundException", "NoClassDefFoundError")
_LOG = logging.getLogger("lakelatch.spark")


def setting(session: Any, key: str, default: str) -> str:
    """A setting of the session, or of Spark."""
    return str(session.conf.get(key, default))


def has_time_type(session: Any) -> bool:
    """Does the session know the type TIME?"""
    return setting(session, "spark.sql.timeType.enabled", "false").lower() == "true"


def tells_case(session: Any) -> bool:
    """Are `a` and `A` two columns?"""
    return setting(session, "spark.sql.caseSensitive", "false").lower() == "true"


class FileSystems:
    """Which schemes sessions can open; each is asked once.

    A session is asked for a URL that no client takes, so that none of them goes to the network: the error says whether there
    is a client. (A class of its own name could be there and not be found: packages that Spark adds have their own loader.)
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Mapping[str, str] | None] = {}

    def opening(self, session: Any, scheme: str) -> Mapping[str, str] | None:
        """What a reader must be told, besides credentials, to open URLs of a scheme; None where this session cannot.

        The first such answer is a warning that says what would help.
        """
        if scheme == "file":
            return {}
        if scheme not in _FILE_SYSTEMS:
            return None
        key = (str(getattr(session, "session_id", None) or id(session)), scheme)
        if key not in self._known:
            name, wanted = _FILE_SYSTEMS[scheme]
            # Hadoop looks clients up by scheme only among the jars that Spark itself was started with.
            needed = _NEEDED.get(scheme, {})
            ways = (needed, {**needed, f"fs.{scheme}.impl": name})
            self._known[key] = next((way for way in ways if _has_client(session, scheme, way)), None)
            if self._known[key] is None:
                _LOG.warning(
                    "this session cannot open %s:// URLs, so their files are read by Arrow; %s makes scans native (docs/stores)",
                    scheme,
                    wanted,
                )
        return self._known[key]


FILE_SYSTEMS = FileSystems()


def _has_client(session: Any, scheme: str, options: Mapping[str, str]) -> bool:
    told = {f"fs.{scheme}.impl.disable.cache": "true", "fs.gs.auth.type": "UNAUTHENTICATED", **options}
    reader = session.read.schema("x INT").options(**told)
    try:
        reader.parquet(f"{scheme}:///lakelatch").schema  # noqa: B018  Connect looks now
    except Exception as error:
        return not any(said in str(error) for said in _NO_CLIENT)
    return True


def parallelism(session: Any) -> int:
    """How many tasks run at once, as far as the session says."""
    default = setting(session, "spark.default.parallelism", "")
    if default.isdigit():
        return max(1, int(default))
    master = setting(session, "spark.master", "")
    cores = master.partition("[")[2].rstrip("]").partition(",")[0]
    if cores.isdigit():
        return max(1, int(cores))
    executors = setting(session, "spark.executor.instances", "")
    each = setting(session, "spark.executor.cores", "1")
    return max(1, int(executors) * int(each)) if executors.isdigit() and each.isdigit() else 8
