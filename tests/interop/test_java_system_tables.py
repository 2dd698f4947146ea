"""System tables have the columns and values that Apache Paimon (Java 1.4.2) shows of the same table."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from golden_tables import packed, unpack
from interop.domains import ATOMIC, columns
from interop.system_tables import assert_system_tables_agree, java_system, our_system
from values import decode_rows

import lakelatch as ll

pytestmark = pytest.mark.java

CHOSEN = (
    "append_dv append_evolve_widen_parquet append_part_string_special append_part_ts_decimal append_row_tracking"
    " life_consumers life_statistics life_tags pk_agg_numbers pk_postpone"
).split()
OLD = ["paimon-java-0.8.2/append_file_index"]
"""An old schema, whose defaults Java shows among the options. Java 1.4.2 opens no append table of version 0.7."""
EVERY = packed(set_name="paimon-java-1.4.2")
NAMES = [*OLD, *(EVERY if os.environ.get("LAKELATCH_NIGHTLY") else (f"paimon-java-1.4.2/{name}" for name in CHOSEN))]
# The exceptions are those that docs/system-tables.md names, here and in interop/system_tables.py.
WRONG_IN_JAVA = {
    (
        "append_data_evolution",
        "files",
    ): "the statistics of files with some columns are printed under other columns' names",
    ("append_part_ts_decimal", "partitions"): "fails, because it cannot parse the time that it printed",
}


def test_tables_that_java_wrote(tmp_path: Path, paimon_java: Any) -> None:
    compared = 0
    for name in NAMES:
        golden = unpack(name, tmp_path)
        without = [system for table, system in WRONG_IN_JAVA if table == golden.name]
        compared += assert_system_tables_agree(paimon_java, golden.path, without=without)
    assert compared > 300


def test_tables_that_lakelatch_wrote(tmp_path: Path, paimon_java: Any) -> None:
    """An append table with a changed schema and deleted partitions, and a table with keys, levels and vectors."""
    schema = pa.schema(
        [("day", pa.date32()), ("n", pa.int32()), ("b", pa.bool_()), ("x", pa.float64()), ("s", pa.string())]
    )
    values = [[0, 1, None], [1, None, 3], [True, None, False], [1e10, -0.0, None], ["", "é", None]]
    rows = pa.table([pa.array(v, f.type) for v, f in zip(values, schema, strict=True)], schema=schema)
    append = ll.create_table(str(tmp_path / "append"), schema, partition_by=["day"], comment="it's a table")
    for n in range(3):
        append.append(rows, commit_user="job", identifier=n)
    append.alter(ll.update_type("n", "BIGINT"), ll.add_column("new", "STRING"), ll.rename_column("s", "text"))
    append.drop_partitions(["day=1"])
    append.append(pa.table({"day": pa.array([5], pa.date32()), "n": pa.array([2**40]), "new": ["y"]}))
    assert_system_tables_agree(paimon_java, tmp_path / "append")

    options = {
        "bucket": "2",
        "merge-engine": "aggregation",
        "fields.total.aggregate-function": "sum",
        "file.format": "orc",
    }
    columns = pa.schema([("p", pa.string()), ("k", pa.int64()), ("total", pa.int64())])
    keyed = ll.create_table(
        str(tmp_path / "keyed"), columns, partition_by=["p"], primary_key=["p", "k"], options=options
    )
    for n in range(4):
        keyed.upsert(pa.table({"p": ["a", "", "b, c"], "k": [n, n % 2, 7], "total": [1, 2, 3]}))
    keyed.compact(full=True)
    keyed.upsert(pa.table({"p": ["a"], "k": [1], "total": [5]}))
    assert_system_tables_agree(paimon_java, tmp_path / "keyed")

    vectors = ll.create_table(
        str(tmp_path / "vectors"),
        pa.schema([("k", pa.int64()), ("v", pa.string())]),
        primary_key=["k"],
        options={"bucket": "1", "deletion-vectors.enabled": "true", "changelog-producer": "lookup"},
    )
    vectors.upsert(pa.table({"k": list(range(10)), "v": ["x"] * 10}))
    vectors.compact(full=True)
    vectors.upsert(pa.table({"k": [1, 2], "v": ["y", "y"]}))
    vectors.compact()
    assert vectors.system("table_indexes").num_rows
    assert_system_tables_agree(paimon_java, tmp_path / "vectors")


def test_a_branch_has_its_own(tmp_path: Path, paimon_java: Any) -> None:
    golden = unpack("paimon-java-1.4.2/life_branches", tmp_path)
    names = ll.open_table(str(golden.path)).system("branches")["branch_name"].to_pylist()
    assert names
    for name in names:
        assert_system_tables_agree(paimon_java, golden.path, branch=name)


def test_columns_of_later_versions_come_last(tmp_path: Path, paimon_java: Any) -> None:
    """Later columns follow those of 1.4.2, so that a job written for it finds each column where it was."""
    table = ll.create_table(str(tmp_path / "t"), pa.schema([("v", pa.int64())]))
    table.append(pa.table({"v": [1]}))
    java_fields, _ = java_system(paimon_java, tmp_path / "t", "snapshots")
    our_fields, rows = our_system(table, "snapshots")
    assert our_fields[: len(java_fields)] == java_fields
    assert dict(zip([name for name, _ in our_fields], rows[0], strict=True))["operation"] == "WRITE"


def test_statistics_that_java_reads_and_carries_on(tmp_path: Path, paimon_java: Any) -> None:
    """Every type: Java reads bounds as values of the columns' types, and gives the same file back."""
    path = tmp_path / "t"
    columns_of = [*columns(list(ATOMIC)), ("l", {"type": "ARRAY", "element": "INT"})]
    table = ll.create_table(str(path), ll.Schema(columns_of))
    rows = [[*(ATOMIC[n][1][i % len(ATOMIC[n][1])] for n in ATOMIC), None] for i in range(12)]
    table.append(decode_rows(rows, table.schema.fields))
    found = table.analyze()
    read = paimon_java.open(path).statistics().get()
    assert int(read.mergedRecordCount().getAsLong()) == 12
    assert json.loads(str(read.toJson())) == json.loads(found.to_json())
    bounded = [name for name, column in found.columns.items() if column.min is not None]
    assert len(bounded) > 10 and all(read.colStats().get(name).min().isPresent() for name in bounded)
    table.compact_manifests()
    assert_system_tables_agree(paimon_java, path)
    paimon_java.commit_rows(path, rows[:1])
    assert table.statistics() == found
    assert_system_tables_agree(paimon_java, path)


def test_manifests_compacted_as_java_does(tmp_path: Path, paimon_java: Any) -> None:
    """The same history, compacted by both: as many manifests, and the same files and rows."""
    after = {}
    for who in ("ours", "java"):
        path = tmp_path / who
        table = ll.create_table(str(path), pa.schema([("p", pa.int32()), ("v", pa.int64())]), partition_by=["p"])
        for n in range(4):
            table.append(pa.table({"p": pa.array([n % 2], pa.int32()), "v": [n]}))
        table.overwrite(pa.table({"p": pa.array([1], pa.int32()), "v": [9]}), partition={"p": 1})
        if who == "ours":
            table.compact_manifests()
        else:
            paimon_java.compact_manifests(path)
        newest = paimon_java.snapshots(path)[-1]
        shown = table.system("manifests", ["num_added_files", "num_deleted_files", "min_partition_stats"]).to_pylist()
        kept = ("commitKind", "totalRecordCount", "deltaRecordCount", "schemaId", "id")
        after[who] = {key: newest[key] for key in kept}, shown, paimon_java.rows(path)
        assert table.timeline.delta_manifests(table.snapshot()) == ()  # type: ignore[arg-type]
    assert after["ours"] == after["java"]


def test_java_uses_indexes_that_existing_files_got(tmp_path: Path, paimon_java: Any) -> None:
    """Embedded and beside the file, after a schema change; Java commits and expires on top."""
    path = tmp_path / "t"
    table = ll.create_table(
        str(path), pa.schema([("v", pa.int64()), ("s", pa.string())]), options={"metadata.stats-mode": "none"}
    )
    for n in range(3):
        table.append(pa.table({"v": list(range(n, 60, 3)), "s": [f"t{v}" for v in range(n, 60, 3)]}))
    table.alter(ll.rename_column("s", "text"), ll.set_option("file-index.bitmap.columns", "v,text"))
    wanted = {"v": ["=", "v", 7], "text": ["=", "text", "t8"]}
    for threshold in ("100 kb", "1 b"):
        table.alter(ll.set_option("file-index.in-manifest-threshold", threshold))
        assert table.rewrite_file_index(full=True).files == 3
        for name, filtered in wanted.items():
            assert len(paimon_java.rows(path, predicate=filtered)) == 1, (threshold, name)
        if threshold == "100 kb":
            assert sum(len(split["files"]) for split in paimon_java.plan(path, predicate=wanted["v"])) == 1
        assert len(paimon_java.rows(path)) == 60
    assert_system_tables_agree(paimon_java, path)
    paimon_java.commit_rows(path, [[100, "new"]])
    indexes = [path / "bucket-0" / name for e in table.entries() for name in e.file.extra_files]
    paimon_java.expire(path, 1)
    assert len(indexes) == 4 and all(index.exists() for index in indexes)
    assert len(paimon_java.rows(path)) == 61 and table.verify(data="deep") == []
    assert table.to_arrow(where="text = 't8'")["v"].to_pylist() == [8]
