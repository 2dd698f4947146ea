"""`CALL lake.sys.…`: every procedure through `spark.sql` of a registered session. Runs under Connect too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
import lakelatch.spark as spark_lake
from lakelatch.core.errors import InvalidArgument, TableExists, TableNotFound, Unsupported
from lakelatch.spark.procedures.entries import PROCEDURES
from lakelatch.spark.procedures.refused import REFUSED

pytestmark = pytest.mark.spark
FIELDS = pa.schema([("month", pa.int32()), ("id", pa.int64()), ("v", pa.string())])


@pytest.fixture
def lake(spark: Any, tmp_path: Path) -> Iterator[ll.Catalog]:
    made = ll.open_catalog(str(tmp_path / "lake"))
    made.create_database("air")
    table = made.create_table("air.t", FIELDS, partition_by=["month"])
    for n in range(3):
        table.append(pa.table({"month": [1, 2], "id": [n, n], "v": ["a", "b"]}, schema=FIELDS))
    spark_lake.register(spark, catalog="lake", warehouse=made.url)
    yield made
    spark_lake.unregister(spark)


def call(spark: Any, text: str, **args: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in spark.sql(f"CALL lake.sys.{text}", **args).collect()]


def tags(lake: ll.Catalog) -> dict[str, int]:
    return {tag.name: tag.snapshot.id for tag in lake["air.t"].tags()}


def test_tags_are_made_replaced_renamed_and_deleted(spark: Any, lake: ll.Catalog) -> None:
    assert call(spark, "create_tag(table => 'air.t', tag => 'a', snapshot => 1, time_retained => '7 d')") == [(True,)]
    assert call(spark, "CREATE_TAG(TAG => 'b', `table` => 'air.t')") == [(True,)], (
        "any order and case, the newest snapshot"
    )
    assert call(spark, "create_tag('air.t', 'c', 1 + 1)") == [(True,)], "by position, and a value that is computed"
    assert tags(lake) == {"a": 1, "b": 3, "c": 2}
    assert {tag.name: tag.retained_ms for tag in lake["air.t"].tags()}["a"] == 7 * 86_400_000
    with pytest.raises(InvalidArgument, match="replace_tag"):
        call(spark, "create_tag(table => 'air.t', tag => 'a', snapshot => 2)")
    call(spark, "replace_tag(table => 'air.t', tag => 'a', snapshot => 2)")
    with pytest.raises(InvalidArgument, match="create_tag"):
        call(spark, "replace_tag(table => 'air.t', tag => 'nope')")
    call(spark, "rename_tag(table => 'air.t', tag => 'a', target_tag => 'd')")
    assert tags(lake) == {"b": 3, "c": 2, "d": 2}
    with pytest.raises(InvalidArgument, match="the tags are: b, c, d"):
        call(spark, "delete_tag(table => 'air.t', tag => 'b,nope')")
    assert len(tags(lake)) == 3, "nothing is deleted if one of them is not there"
    call(spark, "delete_tag(table => 'air.t', tag => 'b, d')")
    assert tags(lake) == {"c": 2}
    first = lake["air.t"].snapshots()[0]
    made = call(
        spark,
        "create_tag_from_timestamp(table => 'air.t', tag => 'first', timestamp => TIMESTAMP '2020-01-01 00:00:00')",
    )
    assert made == [("first", 1, first.time_ms, None)]
    assert call(spark, "expire_tags(table => 'air.t')") == [("No expired tags.",)]
    assert call(spark, "expire_tags(table => 'air.t', older_than => '2999-01-01')") == [("first",), ("c",)]
    assert call(spark, "trigger_tag_automatic_creation(table => 'air.t')") == [(True,)]


@pytest.mark.parametrize("name", ["create_tag", "rename_tag", "create_tag_from_timestamp"])
def test_a_tag_of_digits_is_refused(spark: Any, lake: ll.Catalog, name: str) -> None:
    lake["air.t"].create_tag("a", snapshot=1)
    arguments = {
        "create_tag": "tag => '3'",
        "rename_tag": "tag => 'a', target_tag => '3'",
        "create_tag_from_timestamp": "tag => '3', timestamp => 0",
    }[name]
    with pytest.raises(InvalidArgument, match="VERSION AS OF 3 means the snapshot"):
        call(spark, f"{name}(table => 'air.t', {arguments})")
    assert tags(lake) == {"a": 1}


def test_branches_are_made_written_and_brought_to_main(spark: Any, lake: ll.Catalog) -> None:
    call(spark, "create_tag(table => 'air.t', tag => 'eod')")
    call(spark, "create_branch(table => 'air.t', branch => 'dev', tag => 'eod')")
    with pytest.raises(TableExists, match="has a branch 'dev'"):
        call(spark, "create_branch(table => 'air.t', branch => 'dev')")
    assert call(spark, "create_branch(table => 'air.t', branch => 'dev', ignoreIfExists => 'true')") == [(True,)]
    lake["air.t"].branch("dev").append(pa.table({"month": [1], "id": [9], "v": ["z"]}, schema=FIELDS))
    call(spark, "create_tag(table => 'air.t$branch_dev', tag => 'there')")
    assert "there" in [tag.name for tag in lake["air.t"].branch("dev").tags()] and "there" not in tags(lake)
    call(spark, "rename_branch(table => 'air.t', from_branch => 'dev', to_branch => 'trial')")
    call(spark, "fast_forward(table => 'air.t', branch => 'trial')")
    assert lake["air.t"].count() == 7
    with pytest.raises(InvalidArgument, match="the branches are: trial"):
        call(spark, "delete_branch(table => 'air.t', branch => 'dev')")
    call(spark, "delete_branch(table => 'air.t', branch => 'trial')")
    assert lake["air.t"].branches() == {}


def test_a_rollback_is_a_commit_and_a_rerun_a_replay(spark: Any, lake: ll.Catalog) -> None:
    table = lake["air.t"]
    table.create_tag("two", snapshot=2)
    spark.sql("SET `lakelatch.commit-user` = ops")
    for _ in range(2):
        spark.sql("SET lakelatch.identifier = 7")
        assert call(spark, "rollback(table => 'air.t', version => '1')") == [(3, 4)]
    spark.sql("RESET `lakelatch.commit-user`")
    assert (table.refresh().snapshot().id, table.count()) == (4, 2)
    assert call(spark, "rollback(table => 'air.t', tag => 'two')") == [(4, 5)]
    assert call(spark, "rollback(table => 'air.t', version => 'two')") == [(5, 6)]
    assert call(spark, "rollback(table => 'air.t', snapshot => 6)") == [(6, 6)], "it is the newest: nothing is done"
    then = table.refresh().at(snapshot=3).snapshot().time_ms
    assert call(spark, f"rollback_to_timestamp(table => 'air.t', timestamp => {then})") == [(6, 7)]
    assert table.refresh().count() == 6
    for wrong in ("", ", version => '1', tag => 'two'"):
        with pytest.raises(InvalidArgument, match="one of version, snapshot and tag"):
            call(spark, f"rollback(table => 'air.t'{wrong})")
    with pytest.raises(InvalidArgument, match="no snapshot has a watermark"):
        call(spark, "rollback_to_watermark(table => 'air.t', watermark => 1)")
    assert table.refresh().snapshot().id == 7


def test_compactions_choose_partitions_and_sort(spark: Any, lake: ll.Catalog) -> None:
    table = lake["air.t"]
    assert call(spark, "compact(table => 'air.t', where => 'month = 1')") == [(True,)]
    assert sorted(table.partitions().column("file_count").to_pylist()) == [1, 3]
    assert call(spark, "compact(table => 'air.t', partitions => 'month=2;month=7')") == [(True,)]
    assert table.partitions().column("file_count").to_pylist() == [1, 1]
    before = table.refresh().snapshot().id
    assert call(spark, "compact(table => 'air.t', partition_idle_time => '1 h')") == [(True,)]
    assert table.refresh().snapshot().id == before, "no partition is idle for so long"
    for wrong, why in {
        "where => 'month = 1', partitions => 'month=1'": "choose the same thing",
        "where => 'id = 1'": "chooses rows",
        "partitions => 'id=1'": "not a partition column",
        "partitions => 'month'": "gives no column a value",
        "order_by => 'id'": "order_strategy",
        "order_strategy => 'zorder'": "order_by",
        "order_strategy => 'up', order_by => 'id'": "none or one of",
        "compact_strategy => 'some'": "'full' or 'minor'",
        "buckets => '1'": "buckets",
        "options => 'bucket=1'": "TBLPROPERTIES",
        "options => 'target-file-size'": "has no value",
        "partition_idle_time => 'long'": "not a duration",
    }.items():
        with pytest.raises(ll.LakelatchError, match=why):
            call(spark, f"compact(table => 'air.t', {wrong})")
    assert table.refresh().snapshot().id == before
    call(spark, "compact(table => 'air.t', order_strategy => 'order', order_by => 'v, id')")
    assert table.refresh().snapshot().id == before + 1
    assert table.count() == 6


def test_a_database_is_compacted_and_failures_are_named(spark: Any, lake: ll.Catalog) -> None:
    evolving = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    lake.create_table("air.evolving", FIELDS, options=evolving).append(pa.table({"id": [1]}))
    (told,) = call(spark, "compact_database(including_databases => 'air', including_tables => '.*')")[0]
    assert told.startswith("Compact database finished. Success: 1, Failed: 1; air.evolving: ")
    assert lake["air.t"].partitions().column("file_count").to_pylist() == [1, 1]
    done = call(spark, "compact_database(excluding_tables => 'air[.]e.*')")
    assert done == [("Compact database finished. Success: 1, Failed: 0",)]
    with pytest.raises(InvalidArgument, match="no regular expression"):
        call(spark, "compact_database(including_tables => '(')")


def test_buckets_indexes_and_manifests(spark: Any, lake: ll.Catalog) -> None:
    keys = lake.create_table("air.k", {"id": "BIGINT", "v": "STRING"}, primary_key=["id"], options={"bucket": "2"})
    keys.upsert(pa.table({"id": [1, 2, 3], "v": ["a", "b", "c"]}))
    assert call(spark, "rescale(table => 'air.k', bucket_num => 3)") == [(True,)]
    assert (lake["air.k"].options["bucket"], lake["air.k"].count()) == ("3", 3)
    with pytest.raises(InvalidArgument, match="fixed number of buckets"):
        call(spark, "rescale(table => 'air.k', bucket_num => 0)")
    assert call(spark, "rewrite_file_index(table => 'air.t')") == [(0, 0)]
    lake["air.t"].alter(ll.set_option("file-index.bitmap.columns", "id"))
    assert call(spark, "rewrite_file_index(table => 'air.t', where => 'month = 1')") == [(1, 3)]
    before = lake["air.t"].snapshot().id
    assert call(spark, "compact_manifest(table => 'air.t', dry_run => true)") == [(True,)]
    assert lake["air.t"].snapshot().id == before
    assert call(spark, "compact_manifest(table => 'air.t')") == [(True,)]
    assert lake["air.t"].snapshot().id == before + 1


def test_orphans_are_removed_only_when_it_is_no_dry_run(spark: Any, lake: ll.Catalog, tmp_path: Path) -> None:
    import os

    orphan = tmp_path / "lake" / "air.db" / "t" / "month=1" / "bucket-0" / "data-orphan-0.parquet"
    for mode in ("local", "distributed"):
        orphan.parent.mkdir(exist_ok=True)
        orphan.write_bytes(b"12345")
        os.utime(orphan, (1_500_000_000, 1_500_000_000))
        planned = call(spark, f"remove_orphan_files(table => 'air.*', dry_run => true, mode => '{mode}')")
        assert (planned, orphan.exists()) == ([(1, 5)], True)
        spared = call(
            spark, f"remove_orphan_files(table => 'air.t', older_than => '2017-01-01 00:00:00', mode => '{mode}')"
        )
        assert (spared, orphan.exists()) == ([(0, 0)], True)
        assert call(spark, f"remove_orphan_files(table => 'air.t', mode => '{mode}')") == [(1, 5)]
        assert not orphan.exists()
    for wrong in ("older_than => 'yesterday'", "older_than => now()", "mode => 'fast'"):
        with pytest.raises(InvalidArgument):
            call(spark, f"remove_orphan_files(table => 'air.t', {wrong})")
    assert lake["air.t"].count() == 6


def test_snapshots_consumers_and_partitions(spark: Any, lake: ll.Catalog) -> None:
    table = lake["air.t"]
    assert call(spark, "expire_snapshots(table => 'air.t', retain_max => 100)") == [(0,)]
    assert call(
        spark, "expire_snapshots(table => 'air.t', options => 'snapshot.num-retained.max=100', older_than => '7 d')"
    ) == [(0,)]
    call(spark, "reset_consumer(table => 'air.t', consumerId => 'etl', nextSnapshotId => 2)")
    call(spark, "reset_consumer(table => 'air.t', consumerId => 'other', nextSnapshotId => 3)")
    assert [(c.name, c.next_snapshot) for c in table.consumers()] == [("etl", 2), ("other", 3)]
    call(spark, "clear_consumers(table => 'air.t', includingConsumers => '.*', excludingConsumers => 'e.*')")
    assert [c.name for c in table.consumers()] == ["etl"]
    assert call(spark, "reset_consumer(table => 'air.t', consumerId => 'etl')") == [(True,)]
    assert table.consumers() == []
    call(spark, "mark_partition_done(table => 'air.t', partitions => 'month=1')")
    assert list(Path(table.url).glob("month=*/_SUCCESS")) == [Path(table.url) / "month=1" / "_SUCCESS"]
    days = lake.create_table("air.days", {"dt": "STRING", "v": "BIGINT"}, partition_by=["dt"])
    days.append(pa.table({"dt": ["2020-01-01", "2999-01-01"], "v": [1, 2]}))
    with pytest.raises(InvalidArgument, match="expiration_time => '90 d'"):
        call(spark, "expire_partitions(table => 'air.days')")
    with pytest.raises(Unsupported, match="timestamp-formatter"):
        call(spark, "expire_partitions(table => 'air.days', expiration_time => '1 d', timestamp_formatter => 'dd')")
    assert days.count() == 2
    gone = call(
        spark, "expire_partitions(table => 'air.days', expiration_time => '1 d', timestamp_formatter => 'yyyy-MM-dd')"
    )
    assert gone == [("dt=2020-01-01",)]
    assert call(spark, "expire_partitions(table => 'air.days', expiration_time => '1 d')") == [
        ("No expired partitions.",)
    ]


def test_tables_are_copied_and_migrated_and_the_original_stays(spark: Any, lake: ll.Catalog) -> None:
    call(spark, "copy(source_table => 'air.t', target_table => 'air.copied')")
    assert (lake["air.copied"].count(), len(lake["air.copied"].snapshots()), lake["air.t"].count()) == (6, 3, 6)
    spark.sql("CREATE TABLE plain_files (a INT, p STRING) USING parquet PARTITIONED BY (p)")
    try:
        spark.sql("INSERT INTO plain_files VALUES (1, '01'), (2, '02')")
        arguments = (
            "source_type => 'hive', table => 'plain_files', target_table => 'air.m', options => 'file.format=parquet'"
        )
        assert call(spark, f"migrate_table({arguments}, options_map => map('bucket', '-1'))") == [(True,)]
        assert sorted(lake["air.m"].to_arrow().to_pylist(), key=str) == [{"a": 1, "p": "01"}, {"a": 2, "p": "02"}]
        assert spark.table("plain_files").count() == 2
        for wrong in (
            "source_type => 'iceberg', table => 'plain_files', target_table => 'air.n'",
            "source_type => 'hive', table => 'plain_files'",
            "source_type => 'hive', table => 'plain_files', target_table => 'nodb.n'",
        ):
            with pytest.raises(ll.LakelatchError):
                call(spark, f"migrate_table({wrong})")
    finally:
        spark.sql("DROP TABLE plain_files")


def test_arguments_are_checked_before_anything_is_done(spark: Any, lake: ll.Catalog) -> None:
    for text, why in {
        "create_tag(table => 'air.t', tags => 'x')": "did you mean tag",
        "create_tag(table => 'air.t')": "needs argument tag",
        "create_tag(table => 'air.t', tag => 'x', TAG => 'y')": "given twice",
        "create_tag(table => 'air.t', 'x')": "each its name",
        "create_tag('air.t', 'x', 1, '7 d', 5)": "takes 4 arguments",
        "create_tag(table => 'air.t', tag => NULL)": "is NULL",
        "create_tag(table => 'air.t', tag => 'x', snapshot => '1')": "is string, and takes bigint",
        "create_tag(table => 'air.t', tag => 'x', snapshot => 1.5)": "takes bigint",
        "create_tag(table => 'air.t', tag => 'x', snapshot => true)": "is boolean",
        "create_tag(table => 'air.t', tag => 'x', snapshot => 99999999999999999999)": "takes bigint",
        "expire_snapshots(table => 'air.t', retain_max => 9999999999)": "no int",
        "compact_manifest(table => 'air.t', dry_run => 'yes')": "takes boolean",
        "create_tags(table => 'air.t', tag => 'x')": "did you mean create_tag",
        "create_tag(table => 't', tag => 'x')": "names no database",
        "create_tag(table => 'air.t$snapshots', tag => 'x')": "system table",
    }.items():
        with pytest.raises(InvalidArgument, match=why):
            call(spark, text)
    with pytest.raises(TableNotFound, match="TABLE_OR_VIEW_NOT_FOUND"):
        call(spark, "create_tag(table => 'air.nope', tag => 'x')")
    assert tags(lake) == {}


def test_parameters_of_the_statement_and_the_current_database(spark: Any, lake: ll.Catalog) -> None:
    call(spark, "create_tag(table => :t, tag => :g)", args={"t": "air.t", "g": "named"})
    call(spark, "create_tag(?, ?)", args=["air.t", "placed"])
    spark.sql("USE lake.air")
    spark.sql("CALL sys.create_tag(table => 't', tag => 'current')")
    spark.sql("USE spark_catalog")
    spark.sql(f"CALL lakelatch.sys.create_tag(table => 'lakelatch.`{lake.url_of('air.t')}`', tag => 'path')")
    assert set(tags(lake)) == {"named", "placed", "current", "path"}
    assert spark.sql("CALL lake.sys.create_tag('air.t', 'x')").columns == ["result"]


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_done_is_refused_by_its_name(spark: Any, lake: ll.Catalog, name: str) -> None:
    with pytest.raises(Unsupported, match=f"procedure {name} is not supported") as refused:
        call(spark, f"{name}(table => 'air.t')")
    assert refused.value.next_step == REFUSED[name]


def test_every_procedure_of_the_connector_is_known() -> None:
    """The names of `SparkProcedures` in Apache Paimon, 2.0 and later."""
    theirs = (
        "rollback rollback_to_timestamp rollback_to_watermark purge_files create_tag replace_tag rename_tag"
        " create_tag_from_timestamp delete_tag expire_tags create_branch create_global_index drop_global_index delete_branch"
        " rename_branch compact materialize_deletion_vectors compact_database compact_chain_table rescale migrate_database"
        " migrate_table remove_orphan_files remove_unexisting_files expire_snapshots expire_partitions repair"
        " repair_earliest_snapshot fast_forward merge_branch reset_consumer mark_partition_done compact_manifest clear_consumers"
        " alter_view_dialect create_function alter_function drop_function trigger_tag_automatic_creation rewrite_file_index copy"
        " reassign_row_id"
    ).split()
    assert set(theirs) == {*PROCEDURES, *REFUSED}
