"""The harness around the real Apache Paimon is compared with golden rows before anything is compared with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import golden_tables
import pytest
from figures import NIGHTLY
from golden_tables import GoldenTable
from values import assert_same_rows

pytestmark = pytest.mark.java

BY = {"snapshot", "tag", "branch", "latest"}
COLUMNS = [
    ("id", "INT NOT NULL"),
    ("part", "STRING"),
    ("price", "DECIMAL(10, 2)"),
    ("at", "TIMESTAMP(6)"),
    ("tags", {"type": "MAP", "key": "STRING NOT NULL", "value": {"type": "ARRAY", "element": "INT"}}),
]
FIRST = [
    [1, "a", "1.50", "2024-02-29T12:34:56.789123000", [["k", [1, None]]]],
    [2, "b", None, None, None],
    [3, "a", "-0.01", "1969-12-31T23:59:59.999999000", []],
]
SECOND = [[4, "a", "9.00", None, None]]


@pytest.mark.parametrize("table_id", golden_tables.packed(set_name="paimon-java-1.4.2")[:: 1 if NIGHTLY else 3])
def test_java_reads_golden_rows(table_id: str, golden: Callable[[str], GoldenTable], paimon_java: Any) -> None:
    """G8: what the harness reports as Java's rows is what Java read when the table was written."""
    table = golden(table_id)
    asked = 0
    for read in table.expected["reads"]:
        at = {key: value for key, value in read["at"].items() if key != "latest"}
        if set(read["at"]) - BY or "java_rows" in read:  # the latter: Java itself is known to be wrong there
            continue
        rows = paimon_java.rows(table.path, columns=read.get("projection"), predicate=read.get("filter"), **at)
        assert_same_rows(rows, read["rows"], f"{table_id} {read['at']} {read.get('filter')}")
        asked += 1
    assert asked > 0


def test_java_writes_what_it_is_given(tmp_path: Path, paimon_java: Any) -> None:
    """G8: append, overwrite of a partition, identity and manifest compaction by Java, read back by snapshot."""
    path = tmp_path / "t"
    paimon_java.create_table(path, COLUMNS, partition_keys=["part"], options={"bucket": "-1"})
    paimon_java.commit_rows(path, FIRST, commit_user="etl", identifier=7)
    paimon_java.commit_rows(path, SECOND, commit_user="etl", identifier=8, overwrite_partition={"part": "a"})
    paimon_java.compact_manifests(path)
    assert_same_rows(paimon_java.rows(path, snapshot=1), FIRST)
    assert_same_rows(paimon_java.rows(path), [FIRST[1], *SECOND])
    assert_same_rows(paimon_java.rows(path, columns=["id"], predicate=["=", "part", "a"]), [[4]])
    found = paimon_java.snapshots(path)
    assert [(s["id"], s["commitKind"], s["commitUser"], s["commitIdentifier"]) for s in found[:2]] == [
        (1, "APPEND", "etl", 7),
        (2, "OVERWRITE", "etl", 8),
    ]
    assert [s["commitKind"] for s in found[2:]] == ["COMPACT"]
    assert [field["name"] for field in paimon_java.schema(path)["fields"]] == [name for name, _ in COLUMNS]


def test_java_writes_a_primary_key_table(tmp_path: Path, paimon_java: Any) -> None:
    """G8: row kinds, merging and compaction by Java."""
    path = tmp_path / "t"
    options = {"bucket": "1", "write-only": "true"}
    paimon_java.create_table(path, [("id", "INT NOT NULL"), ("v", "STRING")], primary_keys=["id"], options=options)
    paimon_java.commit_rows(path, [[1, "a"], [2, "b"]], identifier=1)
    paimon_java.commit_rows(path, [[1, "c"], [2, None], [3, "d"]], identifier=2, kinds=["+I", "-D", "+I"])
    assert_same_rows(paimon_java.rows(path), [[1, "c"], [3, "d"]])
    assert len(paimon_java.plan(path)[0]["files"]) == 2
    paimon_java.compact(path)
    assert len(paimon_java.plan(path)[0]["files"]) == 1
    assert_same_rows(paimon_java.rows(path), [[1, "c"], [3, "d"]])


def test_java_changes_a_schema(tmp_path: Path, paimon_java: Any) -> None:
    """G8: schema changes by Java; a read by snapshot keeps the schema of its time."""
    path = tmp_path / "t"
    paimon_java.create_table(path, [("id", "INT")])
    paimon_java.commit_rows(path, [[1]])
    paimon_java.alter(path, "addColumn", "x", paimon_java.data_type("BIGINT"))
    paimon_java.commit_rows(path, [[2, 5]], identifier=2)
    assert_same_rows(paimon_java.rows(path), [[1, None], [2, 5]])
    assert_same_rows(paimon_java.rows(path, snapshot=1), [[1]])
