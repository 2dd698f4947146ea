"""What is asked of a write reaches the commit by each way to ask, or is refused by its name: none leaves an option out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
import lakelatch.spark as lake
from lakelatch.spark.options.asked import ARGUMENTS, Asked
from lakelatch.spark.options.source_options import KNOWN, READING_ROWS, SourceOptions
from lakelatch.spark.options.streams import CHECKPOINT, READING

KEYED = pa.schema([pa.field("k", pa.int32(), False), ("v", pa.string())])
DDL = "k int, v string, op string, more int"

FILLED = {
    "path": ("/t", "url", "/t"),
    "branch": ("dev", "branch", "dev"),
    "commit-user": ("etl", "commit_user", "etl"),
    "identifier": ("7", "identifier", 7),
    "isolation": ("serializable", "isolation", "serializable"),
    "group": ("off", "group", "off"),
    "read-snapshot": ("3", "read_snapshot", 3),
    "partition": ("p=1", "partition", {"p": 1}),
    "partitionoverwritemode": ("dynamic", "mode", "overwrite-partitions"),
    "mergeschema": ("true", "evolve", True),
    "row-kind": ("op", "row_kind", "op"),
    "property.why": ("test", "properties", {"why": "test"}),
    "storage.fsync": ("false", "storage_options", {"fsync": "false"}),
}
"""The options of a write: a value, the argument that it fills, and with what."""
OVERWRITES = ("read-snapshot", "partition", "partitionoverwritemode")
NO_OPTION = {"partition_by", "primary_key", "options", "allow_unknown", "cluster"}
"""Arguments of `write` that are about tables that it makes, or about its job: the data source has neither."""


def test_every_option_is_about_reading_or_fills_an_argument() -> None:
    schema = ll.create_table("memory://asked/options", ll.Schema([("p", "INT")]), partition_by="p").schema
    elsewhere = {*READING_ROWS, *READING, CHECKPOINT, "timezone"}
    assert set(FILLED) - {"property.why", "storage.fsync"} == set(KNOWN) - elsewhere
    for name, (text, argument, value) in FILLED.items():
        asked = SourceOptions({"path": "/t", name: text}).asked(schema, name in OVERWRITES)
        assert getattr(asked, argument) == value, name
    assert {argument for _, argument, _ in FILLED.values()} | NO_OPTION == ARGUMENTS
    assert set(inspect.signature(lake.write).parameters) == ARGUMENTS | {"df"}


@pytest.mark.parametrize("overwrite", [False, True])
def test_an_option_of_reading_is_refused_by_a_write(overwrite: bool) -> None:
    """`df.write.option("snapshot", 3)` was taken and left out."""
    values = {"snapshot": "3", "watermark": "5", "timestamp": "5", "overwrites": "false"}
    for name in READING_ROWS:
        given = {name: values.get(name, "a,b")}
        if name == "incremental-between-scan-mode":
            given = {name: "auto", "incremental-between": "1,2"}
        with pytest.raises(ll.InvalidArgument, match="goes with reading only"):
            SourceOptions({"path": "/t", **given}).asked(None, overwrite)


@pytest.mark.parametrize("name", ["commit_usr", "identifier"])
def test_a_sink_refuses_an_argument_before_the_first_batch(name: str) -> None:
    with pytest.raises(ll.InvalidArgument, match=name):
        lake.sink("memory://asked/sink", query="q", **{name: "x"})


# ------------------------------------------------------------------------------------------------------- with Spark


@pytest.fixture
def keyed(spark: Any, tmp_path: Path) -> Iterator[ll.Table]:
    """A table with a row to delete on branch `dev`, which the catalog knows as `asked`."""
    lake.register(spark)
    table = ll.create_table(str(tmp_path / "t"), KEYED, primary_key=["k"], options={"bucket": "1"})
    table.upsert(pa.table({"k": [1, 2], "v": ["a", "b"]}, KEYED))
    table.create_tag("base")
    table.create_branch("dev", tag="base")
    yield table
    spark.sql("DROP TABLE IF EXISTS asked")


OPTIONS = {"branch": "dev", "row-kind": "op", "isolation": "serializable", "group": "off", "mergeSchema": "true"}
OPTIONS |= {"property.why": "test"}
ONCE = {"commit-user": "etl", "identifier": "7"}


def frame(spark: Any) -> Any:
    return spark.createDataFrame([(1, None, "-D", None), (3, "c", "+I", 5)], DDL)


def by_save(spark: Any, url: str, given: dict[str, str]) -> None:
    frame(spark).write.format("lakelatch").mode("append").options(**ONCE, **given).save(url)


def by_name(spark: Any, url: str, given: dict[str, str]) -> None:
    given = {**ONCE, **given}
    registered(spark, url, {"branch": given.pop("branch")})
    frame(spark).write.format("lakelatch").mode("append").options(**given).saveAsTable("asked")


def by_statement(spark: Any, url: str, given: dict[str, str]) -> None:
    registered(spark, url, given)
    frame(spark).createOrReplaceTempView("new_rows")
    spark.sql("INSERT INTO asked BY NAME SELECT * FROM new_rows")


def by_stream(spark: Any, url: str, given: dict[str, str]) -> None:
    rows = pa.Table.from_pylist([row.asDict() for row in frame(spark).collect()])
    source = ll.create_table(
        f"{url}-source", rows.schema.set(0, pa.field("k", pa.int32())).set(3, pa.field("more", pa.int32()))
    )
    source.append(rows)
    read = spark.readStream.format("lakelatch").option("from", "earliest").load(source.url)
    stream = read.writeStream.format("lakelatch").options(**given).option("checkpointLocation", f"{url}-checkpoint")
    stream.trigger(availableNow=True).start(url).awaitTermination()


def by_sink(spark: Any, url: str, given: dict[str, str]) -> None:
    how = {"branch": given["branch"], "row_kind": "op", "isolation": given["isolation"], "group": given["group"]}
    lake.sink(url, query="etl", evolve=True, properties={"why": "test"}, **how)(frame(spark), 7)


def registered(spark: Any, url: str, given: dict[str, str]) -> None:
    spark.sql("DROP TABLE IF EXISTS asked")
    options = ", ".join(f"'{name}' '{value}'" for name, value in {"path": url, **given}.items())
    spark.sql(f"CREATE TABLE asked USING lakelatch OPTIONS ({options})")


WAYS = [(by_save, True), (by_name, True), (by_statement, False), (by_stream, False), (by_sink, True)]


@pytest.mark.spark
@pytest.mark.parametrize(("way", "named"), WAYS, ids=lambda given: getattr(given, "__name__", ""))
def test_each_way_passes_on_each_option(spark: Any, keyed: ll.Table, way: Callable[..., None], named: bool) -> None:
    for wrong in ("isolation", "group") if way is not by_stream else ():  # test_stream_writer has it without a session
        with pytest.raises(Exception, match=f"{wrong} 'none such'"):
            way(spark, keyed.url, {**OPTIONS, wrong: "none such"})
    way(spark, keyed.url, OPTIONS)
    dev = ll.open_table(keyed.url, branch="dev")
    assert sorted(dev.to_arrow().to_pylist(), key=lambda r: r["k"]) == [
        {"k": 2, "v": "b", "more": None},
        {"k": 3, "v": "c", "more": 5},
    ]
    made = next(s for s in reversed(dev.snapshots()) if s.commit_kind == "APPEND")
    assert made.properties["why"] == "test"
    assert not named or (made.commit_user, made.commit_identifier) == ("etl", 7)
    assert len(keyed.refresh().snapshots()) == 1


@pytest.mark.spark
def test_a_name_with_the_identity_of_one_write_is_not_written_to(spark: Any, keyed: ll.Table) -> None:
    """Each INSERT would be a repetition of the first one, and its rows left out."""
    registered(spark, keyed.url, ONCE)
    with pytest.raises(ll.Unsupported, match=r"'commit-user', which belongs to a single write"):
        spark.sql("INSERT INTO asked VALUES (9, 'x')")
    with pytest.raises(ll.Unsupported, match=r"'commit-user', which belongs to a single write"):
        spark.createDataFrame([(9, "x")], "k int, v string").write.format("lakelatch").mode("append").saveAsTable(
            "asked"
        )
    registered(spark, keyed.url, {"snapshot": "1"})
    with pytest.raises(ll.InvalidArgument, match="'snapshot' goes with reading only"):
        spark.sql("INSERT INTO asked VALUES (9, 'x')")
    assert len(keyed.refresh().snapshots()) == 1


@pytest.mark.spark
def test_save_as_table_follows_the_option_of_an_overwrite(spark: Any, tmp_path: Path) -> None:
    """In a static session, `dynamic` was refused."""
    lake.register(spark)
    url = str(tmp_path / "t")
    spark.sql(f"CREATE TABLE asked (v INT, p INT) USING lakelatch PARTITIONED BY (p) LOCATION '{url}'")
    spark.sql("INSERT INTO asked VALUES (1, 1), (2, 2)")
    writer = spark.sql("SELECT 9 AS v, 2 AS p").write.format("lakelatch").mode("overwrite")
    writer.option("partitionOverwriteMode", "dynamic").saveAsTable("asked")
    assert sorted(ll.open_table(url).to_arrow()["v"].to_pylist()) == [1, 9]
    writer.option("partitionOverwriteMode", "static").saveAsTable("asked")
    assert ll.open_table(url).to_arrow()["v"].to_pylist() == [9]
    spark.sql("DROP TABLE asked")


def test_what_streams_add_is_no_argument() -> None:
    assert {"in_order", "query"} == set(Asked.__dataclass_fields__) - ARGUMENTS


@pytest.mark.spark
def test_a_lake_table_of_a_branch_shows_and_changes_its_rows(spark: Any, keyed: ll.Table) -> None:
    """It changed the rows of the branch, and showed those of the main branch."""
    registered(spark, keyed.url, {"branch": "dev"})
    named = lake.LakeTable.forName(spark, "asked")
    for branch in (named, lake.LakeTable(spark, ll.open_table(keyed.url, branch="dev"))):
        branch.delete("k = 1")
        assert [row.k for row in branch.toDF().collect()] == [2]
    named.compact(full=True)
    assert [row.k for row in spark.table("asked").collect()] == [2]
    assert len(keyed.refresh().snapshots()) == 1


@pytest.mark.spark
def test_a_collation_is_refused_by_name(spark: Any, tmp_path: Path) -> None:
    """The format has none, so that the table would compare other texts as equal than the frame."""
    table = ll.create_table(str(tmp_path / "t"), ll.Schema([("x", "STRING")]))
    collated = spark.sql("SELECT 'a' COLLATE UTF8_LCASE AS x")
    inside = spark.sql("SELECT array(struct('a' COLLATE UTF8_LCASE AS y)) AS x")
    for write, said in (
        (lambda: lake.write(collated, table.url), "column 'x' is string collate UTF8_LCASE"),
        (lambda: lake.write(collated, table.url + "-new", options={}), "column 'x'.*no collations"),
        (lambda: lake.write(inside, table.url + "-new", options={}), r"column 'x.element.y'.*no collations"),
        (lambda: lake.write(collated.selectExpr("'b' AS x", "x AS z"), table.url, evolve=True), "column 'z'"),
    ):
        with pytest.raises(ll.InvalidArgument, match=said):
            write()
    lake.write(collated.selectExpr("CAST(x AS STRING) AS x"), table.url)
    assert (table.refresh().schema.names, table.to_arrow()["x"].to_pylist()) == (("x",), ["a"])
    assert not ll.is_table(table.url + "-new")
