"""URLs as Spark reads them: those in the log that it gets, and paths without a scheme, local only where Spark agrees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lakelatch as ll
import lakelatch.spark as lake
from lakelatch.spark.reading.native import _uri
from lakelatch.spark.sessions import session

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


@pytest.fixture
def on_hdfs(spark: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Paths of the session begin in HDFS, as on a cluster. Spark itself is not told, because its catalog would keep that."""
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    monkeypatch.setattr(session, "_DEFAULT", "test.defaultFS")
    settings.set("test.defaultFS", "hdfs://nn:8020")
    yield
    settings.unset("test.defaultFS")


def test_paths_begin_where_hadoop_says(spark: Any) -> None:
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    before = settings.get("fs.defaultFS")
    assert session.checked_url(spark, "/lake/t") == "/lake/t"
    settings.set("fs.defaultFS", "s3a://bucket/")
    try:
        assert session.checked_url(spark, "file:/lake/t") == "file:/lake/t"
        with pytest.raises(ll.InvalidArgument, match="write s3a://bucket/lake/t, or file:/lake/t"):
            session.checked_url(spark, "/lake/t")
    finally:
        settings.set("fs.defaultFS", before)


def _by_source(spark: Any, path: str) -> Any:
    lake.register(spark)
    return spark.read.format("lakelatch").load(path)


def _saved(spark: Any, path: str) -> Any:
    lake.register(spark)
    return spark.range(1).write.format("lakelatch").mode("append").option("path", path).saveAsTable("elsewhere")


def _created(spark: Any, path: str) -> Any:
    lake.register(spark)
    return spark.sql(f"CREATE TABLE elsewhere (id BIGINT) USING lakelatch LOCATION '{path}'")


DOORS: dict[str, Callable[[Any, str], Any]] = {
    "read": lambda spark, path: lake.read(spark, path),
    "changes": lambda spark, path: lake.changes(spark, path, start=1, end=2),
    "write": lambda spark, path: lake.write(spark.range(1), path, options={}),
    "apply_changes": lambda spark, path: lake.apply_changes(spark.range(1), path),
    "compact": lambda spark, path: lake.compact(spark, path),
    "clean": lambda spark, path: lake.clean(spark, path),
    "use": lambda spark, path: lake.use(spark, path),
    "LakeTable": lambda spark, path: lake.LakeTable.forPath(spark, path),
    "isLakeTable": lambda spark, path: lake.LakeTable.isLakeTable(spark, path),
    "sink": lambda spark, path: lake.sink(path, query="q")(spark.range(1), 0),
    "load": _by_source,
    "saveAsTable": _saved,
    "CREATE TABLE": _created,
}


@pytest.mark.usefixtures("on_hdfs")
@pytest.mark.parametrize("door", DOORS)
def test_a_path_without_a_scheme_is_refused_where_spark_takes_it_for_another_one(
    spark: Any, tmp_path: Path, door: str
) -> None:
    """A write would have made a table of each machine's own disk, and lost the rows of all others."""
    path = str(tmp_path / "new")
    with pytest.raises(Exception, match=rf"hdfs://nn:8020{path}, or file:{path}"):
        DOORS[door](spark, path)
    assert not Path(path).exists()


@pytest.mark.usefixtures("on_hdfs")
def test_a_path_with_a_scheme_is_taken_as_it_is(spark: Any, tmp_path: Path) -> None:
    url = f"file:{tmp_path / 'new'}"
    lake.write(spark.range(3), url, options={})
    assert lake.read(spark, url).count() == lake.LakeTable.forPath(spark, url).toDF().count() == 3
    assert _by_source(spark, url).count() == 3
    assert ll.open_table(url).count() == 3
