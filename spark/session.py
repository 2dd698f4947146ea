"""What a Spark session can do, asked without its JVM: everything here runs under Spark Connect too.

Owns: whether the session knows a type, tells case apart, can open a scheme, how many tasks to make, and Hadoop's names
for storage options. Must not know: tables, plans.
Source: pyspark §1; design §6. Invariant: a session is only ever asked, nothing is set in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import functions as F  # noqa: N812 - Spark's users know it by this name

_FILE_SYSTEMS = {
    "s3a": ("org.apache.hadoop.fs.s3a.S3AFileSystem", "org.apache.hadoop:hadoop-aws"),
    "gs": ("com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem", "com.google.cloud.bigdataoss:gcs-connector"),
    "abfs": ("org.apache.hadoop.fs.azurebfs.AzureBlobFileSystem", "org.apache.hadoop:hadoop-azure"),
    "abfss": ("org.apache.hadoop.fs.azurebfs.SecureAzureBlobFileSystem", "org.apache.hadoop:hadoop-azure"),
}
_ANONYMOUS = "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
_TEMPORARY = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
_SIMPLE = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"


def setting(session: Any, key: str, default: str) -> str:
    """A setting of the session, or of Spark."""
    return str(session.conf.get(key, default))


def has_time_type(session: Any) -> bool:
    """Does the session know the type TIME?"""
    return setting(session, "spark.sql.timeType.enabled", "false").lower() == "true"


def tells_case(session: Any) -> bool:
    """Are `a` and `A` two columns?"""
    return setting(session, "spark.sql.caseSensitive", "false").lower() == "true"


def class_exists(session: Any, name: str) -> bool:
    """Is a Java class on the class path? Asked in SQL, which Connect has too."""
    found = session.range(1, numPartitions=1).select(
        F.try_reflect(F.lit("java.lang.Class"), F.lit("forName"), F.lit(name))
    )
    return found.collect()[0][0] is not None


class FileSystems:
    """Which schemes sessions can open; each is asked once."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], bool] = {}

    def can_open(self, session: Any, scheme: str) -> bool:
        """Can this session open URLs of a scheme?"""
        if scheme == "file":
            return True
        if scheme not in _FILE_SYSTEMS:
            return False
        key = (str(getattr(session, "session_id", None) or id(session)), scheme)
        if key not in self._known:
            self._known[key] = class_exists(session, _FILE_SYSTEMS[scheme][0])
        return self._known[key]


FILE_SYSTEMS = FileSystems()


def package_for(scheme: str) -> str | None:
    """The package that makes a scheme known to Spark."""
    return _FILE_SYSTEMS[scheme][1] if scheme in _FILE_SYSTEMS else None


def hadoop_options(scheme: str, storage_options: Mapping[str, Any]) -> dict[str, str] | None:
    """Storage options as reader options in Hadoop's names; None where one has no equal there.

    >>> hadoop_options("s3a", {"key": "k", "secret": "s", "endpoint_url": "http://127.0.0.1:9000"})["fs.s3a.endpoint"]
    'http://127.0.0.1:9000'
    >>> hadoop_options("s3a", {"profile": "work"}) is None
    True
    """
    if scheme == "file":
        return {}
    if not storage_options:
        return {}
    if scheme != "s3a":
        return None
    left = dict(storage_options)
    made: dict[str, str] = {}
    client = dict(left.pop("client_kwargs", None) or {})
    endpoint = left.pop("endpoint_url", None) or client.pop("endpoint_url", None)
    region = client.pop("region_name", None)
    key, secret, token = left.pop("key", None), left.pop("secret", None), left.pop("token", None)
    if left.pop("anon", False):
        made["fs.s3a.aws.credentials.provider"] = _ANONYMOUS
    elif key and secret:
        made |= {"fs.s3a.access.key": str(key), "fs.s3a.secret.key": str(secret)}
        made["fs.s3a.aws.credentials.provider"] = _TEMPORARY if token else _SIMPLE
        if token:
            made["fs.s3a.session.token"] = str(token)
    if endpoint:
        made |= {"fs.s3a.endpoint": str(endpoint), "fs.s3a.path.style.access": "true"}
        made["fs.s3a.connection.ssl.enabled"] = str(not str(endpoint).startswith("http://")).lower()
    if region:
        made["fs.s3a.endpoint.region"] = str(region)
    if left or client:
        return None
    # Hadoop keeps one file system per bucket, with the first options that it saw.
    return made | {"fs.s3a.impl.disable.cache": "true"}


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
