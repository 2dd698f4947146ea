"""Tables with a primary key that Apache Paimon (Java) writes: lakelatch merges the rows that Java reads, under filters too (G8).

A seed gives the same table again; `LAKELATCH_NIGHTLY=1` draws ten times as many.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from figures import NIGHTLY
from interop.agreement import our_rows
from values import Row, assert_same_rows

import lakelatch as ll
from lakelatch.coordinator.history import manifests

pytestmark = pytest.mark.java
SEEDS = range(60 if NIGHTLY else 6)
COLUMNS = [("id", "INT NOT NULL"), ("v", "BIGINT"), ("s", "STRING")]
SMALL_ROW_GROUPS = {"file.block-size": "1 kb", "parquet.page.size.row.check.min": "1", "file.compression": "none"}
INDEXED = {"file-index.bloom-filter.columns": "v", "file-index.bloom-filter.v.items": "10"}
"""So few items that the index fits into the manifest."""
ENGINES: list[dict[str, str]] = [
    {},
    {"merge-engine": "first-row"},
    {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum", "fields.s.aggregate-function": "max"},
    {"sequence.field": "v"},
    {"deletion-vectors.enabled": "true"},
]


def assert_merged(java: Any, path: Path) -> None:
    """The rows of every snapshot, and of the newest under filters on values of all times."""
    table = ll.open_table(str(path))
    for snapshot in table.snapshots():
        rows = java.rows(path, snapshot=snapshot.id)
        assert_same_rows(our_rows(table.at(snapshot=snapshot.id)), rows, f"{path.name} at {snapshot.id}")
    newest = java.rows(path)
    for value in range(4):
        wanted = [row for row in newest if row[1] == value]
        assert table.count(f"v = {value}") == len(wanted), f"v = {value}"
        found = table.to_arrow(where=f"v = {value} and id >= 5")
        assert sorted(found["id"].to_pylist()) == sorted(row[0] for row in wanted if row[0] >= 5)


@pytest.mark.parametrize("columns_from", [0, 1 << 30], ids=["entries as columns", "entries one by one"])
@pytest.mark.parametrize("more", [{}, INDEXED], ids=["plain", "indexed"])
def test_no_filter_brings_back_an_old_version(
    tmp_path: Path, paimon_java: Any, monkeypatch: pytest.MonkeyPatch, columns_from: int, more: dict[str, str]
) -> None:
    """Bounds, an index or row groups of the newest file exclude a value that an older file has for the same keys."""
    monkeypatch.setattr(manifests, "COLUMNS_FROM", columns_from)
    path = tmp_path / "t"
    options = {"bucket": "1", "write-only": "true", "file.format": "parquet", **SMALL_ROW_GROUPS, **more}
    paimon_java.create_table(path, COLUMNS, primary_keys=["id"], options=options)
    paimon_java.commit_rows(path, [[i, 1, "old"] for i in range(600)])
    paimon_java.commit_rows(path, [[i, 2 if i < 300 else 1, "new"] for i in range(600)])
    paimon_java.commit_rows(path, [[i, 3, "last"] for i in range(100)])
    table = ll.open_table(str(path))
    assert [table.count(f"v = {value}") for value in (1, 2, 3)] == [300, 200, 100]
    assert table.to_arrow(where="v = 1 and s = 'old'").num_rows == 0
    assert set(table.to_arrow(columns=["id"], where="v = 2")["id"].to_pylist()) == set(range(100, 300))
    assert table.to_arrow(where="id = 7").to_pylist() == [{"id": 7, "v": 3, "s": "last"}]


def test_a_filter_finds_values_that_no_file_has(tmp_path: Path, paimon_java: Any) -> None:
    """The sum of two files' values lies outside of the bounds of both."""
    path = tmp_path / "t"
    engine = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum", "fields.s.aggregate-function": "max"}
    paimon_java.create_table(
        path, COLUMNS, primary_keys=["id"], options={"bucket": "1", "write-only": "true", **engine}
    )
    for text in ("a", "b"):
        paimon_java.commit_rows(path, [[i, 20, text] for i in range(10)])
    table = ll.open_table(str(path))
    assert (table.count("v = 40"), table.count("v = 20")) == (10, 0)
    assert table.to_arrow(where="v > 30 and s = 'b'").num_rows == 10


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_table_merges_like_java(seed: int, tmp_path: Path, paimon_java: Any) -> None:
    """Upserts and deletes of few keys, compactions among them, for each merge engine in turn."""
    rng = random.Random(f"merging {seed}")
    engine, path = ENGINES[seed % len(ENGINES)], tmp_path / "t"
    file_format = rng.choice(["parquet", "orc", "avro"])
    options = {"bucket": str(rng.randint(1, 2)), "file.format": file_format, **engine}
    if "deletion-vectors.enabled" not in engine and "first-row" not in engine.values():
        options["write-only"] = "true"
    paimon_java.create_table(path, COLUMNS, primary_keys=["id"], options=options)
    print(f"seed {seed}: {options}")
    takes_deletes = engine.get("merge-engine") not in ("first-row", "aggregation")
    for number in range(rng.randint(3, 6)):
        ids = rng.sample(range(12), rng.randint(1, 8))
        rows: list[Row] = [[i, rng.choice([None, 0, 1, 2, 3]), rng.choice([None, "a", "b", ""])] for i in ids]
        kinds = ["-D" if takes_deletes and rng.random() < 0.2 else "+I" for _ in rows]
        paimon_java.commit_rows(path, rows, identifier=number + 1, kinds=kinds)
    assert_merged(paimon_java, path)
