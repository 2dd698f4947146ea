"""Finds out what a Spark session can do without using its JVM, so that it also works under Spark Connect.

Owns: whether the session is one of Spark Connect, has the type TIME, distinguishes case and can open a scheme, where its paths
begin, and how many tasks to create. Must not know: tables, plans. Source: format/spark §1; architecture §6.
Invariant: A session is only queried; nothing is set in it.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...backends.registry import scheme_of, url_text
from ...core.errors import InvalidArgument

_HADOOPS = "spark.jars.packages=org.apache.hadoop:{}:{{hadoop}}"
_HADOOPS_JAR = re.compile(r"hadoop-client-api-(\d+(?:\.\d+)+)\.jar")
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
"""Scheme -> Hadoop's class for it, and the setting that adds it; PySpark's own jars contain only the one for HDFS."""
_NEEDED = {
    "gs": {
        "parquet.hadoop.vectored.io.enabled": "false"
    },  # Google's connector 3.1 calls a method that Hadoop 3.4 has renamed
}
_DEFAULT, _LOCAL_FILES = "fs.defaultFS", "file:///"
_LOCAL = ("file", "dbfs")
"""Databricks shows the folders of volumes as local ones of the same name."""
OVERWRITE_MODE = "spark.sql.sources.partitionOverwriteMode"
_NO_CLIENT = ("No FileSystem for scheme", "ClassNotFoundException", "NoClassDefFoundError")
_LOG = logging.getLogger("lakelatch.spark")


def setting(session: Any, key: str, default: str) -> str:
    return str(session.conf.get(key, default))


def is_connect(session: Any) -> bool:
    """Does the session run under Spark Connect, where each action plans its frame again?"""
    return type(session).__module__.startswith("pyspark.sql.connect")


def has_time_type(session: Any) -> bool:
    return setting(session, "spark.sql.timeType.enabled", "false").lower() == "true"


def overwrite_mode(session: Any) -> str:
    """What an overwrite replaces in this session: `static` for all, `dynamic` for the partitions that have new rows."""
    return setting(session, OVERWRITE_MODE, "static").lower()


def adapts(session: Any) -> bool:
    """Does the session plan the rest of a query while it runs?"""
    return setting(session, "spark.sql.adaptive.enabled", "true").lower() == "true"


def tells_case(session: Any) -> bool:
    """Does the session distinguish the columns `a` and `A`?"""
    return setting(session, "spark.sql.caseSensitive", "false").lower() == "true"


def checked_url(session: Any, url: str) -> str:
    """A URL that means the same to lakelatch and to the session.

    A path without a scheme is refused if the session's paths are on another file system than this machine's.
    """
    url = url_text(url)
    if scheme_of(url) == "file" and not url.startswith("file:"):
        check_path(url, start_of_paths(session))
    return url


def check_path(path: str, start: str) -> None:
    """Refuse a path without a scheme if paths begin elsewhere, as `start_of_paths` says."""
    if not is_local(start):
        raise InvalidArgument(
            f"{path!r} is a local folder here, and a folder of {start} to Spark, whose fs.defaultFS that is",
            next_step=f"write {start.rstrip('/')}/{path.lstrip('/')}, or file:{os.path.abspath(path)} for the local folder",
        )


def is_local(start: str) -> bool:
    return start.partition(":")[0].lower() in _LOCAL


def start_of_paths(session: Any) -> str:
    """The file system that paths without a scheme belong to in this session: Hadoop's `fs.defaultFS`."""
    if is_connect(session):
        return setting(session, f"spark.hadoop.{_DEFAULT}", _LOCAL_FILES)
    return str(session.sparkContext._jsc.hadoopConfiguration().get(_DEFAULT, _LOCAL_FILES))


class FileSystems:
    """Which schemes sessions can open, tested once for each session and scheme.

    The test opens a URL that every client rejects without using the network; the error shows whether there is a client.
    (It would not be enough to look for the class, because packages that Spark adds have their own class loader.)
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Mapping[str, str] | None] = {}

    def opening(self, session: Any, scheme: str) -> Mapping[str, str] | None:
        """The reader options needed besides credentials to open URLs of a scheme; None, and a warning, if this session cannot."""
        if scheme == "file":
            return {}
        if scheme not in _FILE_SYSTEMS:
            return None
        key = (str(getattr(session, "session_id", None) or id(session)), scheme)
        if key not in self._known:
            name, wanted = _FILE_SYSTEMS[scheme]
            # Hadoop finds clients by scheme only in the jars that Spark was started with; others must be named.
            needed = _NEEDED.get(scheme, {})
            ways = (needed, {**needed, f"fs.{scheme}.impl": name})
            self._known[key] = next((way for way in ways if _has_client(session, scheme, way)), None)
            if self._known[key] is None:
                _LOG.warning(
                    "this session cannot open %s:// URLs, so Arrow reads their files, and filters and choices of columns of a"
                    " frame read no less: pass them as where= and columns= to lakelatch.spark.read, or start the session with"
                    " %s (docs/stores)",
                    scheme,
                    wanted.format(hadoop=_hadoop_of(session)),
                )
        return self._known[key]


FILE_SYSTEMS = FileSystems()


def _hadoop_of(session: Any) -> str:
    """The version that Hadoop's clients must have, by the jars of the installed PySpark if the session has the same one."""
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    same = str(session.version) == pyspark.__version__
    found = [match[1] for jar in jars.glob("*.jar") if (match := _HADOOPS_JAR.fullmatch(jar.name))]
    return found[0] if same and len(found) == 1 else "VERSION in the version of Spark's own Hadoop"


def _has_client(session: Any, scheme: str, options: Mapping[str, str]) -> bool:
    told = {f"fs.{scheme}.impl.disable.cache": "true", "fs.gs.auth.type": "UNAUTHENTICATED", **options}
    reader = session.read.schema("x INT").options(**told)
    try:
        reader.parquet(f"{scheme}:///lakelatch").schema  # noqa: B018  Connect opens the path only now
    except Exception as error:
        return not any(said in str(error) for said in _NO_CLIENT)
    return True


def parallelism(session: Any) -> int:
    """How many tasks run at once, as far as the settings of the session show."""
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
