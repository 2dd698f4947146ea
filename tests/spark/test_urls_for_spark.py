"""A file's URL in the log that Spark reads is the path that Spark makes of the URL itself, in every form of URL."""

from __future__ import annotations

from typing import Any

import pytest

from lakelatch.spark.native import _uri

pytestmark = pytest.mark.spark

ROOTS = [
    "file:/lake",
    "file:///lake",
    "hdfs://host:8020/lake",
    "hdfs://[::1]:8020/lake",
    "hdfs://name_service/lake",
    "hdfs:///lake",
    "hdfs:/lake",
    "viewfs://cluster/lake",
    "s3a://bucket/lake",
    "s3a://my_bucket.x/lake",
    "s3a://user:pa%2Fss@bucket/lake",
    "gs://a-b_c/lake",
    "abfss://container@account.dfs.core.windows.net/lake",
    "abfss://$web@account.dfs.core.windows.net/lake",
]
KEYS = [
    "bucket-0/data-1.parquet",
    "p=a%3Ab/f",
    "a b/f ",
    "#1/f",
    "Zürich/f",
    "100%/f",
    "%41/f",
    "a+b&c=d;e@f:g/f",
    "~x/'y\"/f",
    "本/f",
]


@pytest.mark.parametrize("root", ROOTS)
def test_a_url_in_the_log_is_the_same_path(spark: Any, root: str) -> None:
    jvm = spark._jvm
    for key in KEYS:
        url = f"{root}/{key}"
        read = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(_uri(url)))
        meant = jvm.org.apache.hadoop.fs.Path(url)
        assert read.toString() == meant.toString(), url
        assert read.toUri().getAuthority() == meant.toUri().getAuthority(), url
