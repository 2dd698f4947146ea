"""Compactions of tables with a primary key by lakelatch and by Apache Paimon (Java 1.4.2): the same files, the same rows (G8).

Guards H12 and H13: whoever compacts second gives up, and no row is lost.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from figures import NIGHTLY
from interop.agreement import our_rows
from interop.test_java_compaction import delta
from values import Row, assert_same_rows

import lakelatch as ll
from lakelatch.core.metadata.schema import ROW_SEQUENCE
from lakelatch.core.metadata.schemas.merge_rules import VALUE_KIND
from lakelatch.core.places import FileKeys
from lakelatch.table.reading.run_reader import RunReader
from lakelatch.table.table import Table

pytestmark = pytest.mark.java
COLUMNS = [("id", "INT NOT NULL"), ("v", "BIGINT"), ("s", "STRING")]
GROUPS = {"merge-engine": "partial-update", "fields.v.sequence-group": "s"}
ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "ignoring deletes": {"ignore-delete": "true"},
    "sequence field": {"sequence.field": "v"},
    "partial-update": {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    "partial-update ignoring": {"merge-engine": "partial-update", "ignore-delete": "true"},
    "sequence group": GROUPS,
    "removing group": GROUPS | {"partial-update.remove-record-on-sequence-group": "v"},
    "aggregation": {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
        "fields.s.aggregate-function": "last_value",
    },
    "removing aggregation": {
        "merge-engine": "aggregation",
        "fields.s.aggregate-function": "max",
        "aggregation.remove-record-on-delete": "true",
    },
}
KINDS = ("+I", "+I", "+U", "-U", "-D")


def create(java: Any, path: Path, engine: str, **options: str) -> None:
    texts = {"bucket": "1", "write-only": "true", **ENGINES[engine], **options}
    java.create_table(path, COLUMNS, primary_keys=["id"], options=texts)


def upsert(java: Any, path: Path, rng: random.Random, identifier: int, kinds: Sequence[str]) -> None:
    """One commit of a few random rows and deletes."""
    ids = rng.sample(range(14), rng.randint(1, 8))
    rows: list[Row] = [[i, rng.choice([None, 0, 1, 2, 3]), rng.choice([None, "a", "b", ""])] for i in ids]
    java.commit_rows(path, rows, identifier=identifier, kinds=[rng.choice(kinds) for _ in rows])


def stored(table: Table) -> list[tuple[int, list[dict[str, Any]]]]:
    """The rows of each file with their sequence numbers and kinds, as they are stored, by level and key."""
    fields = [ROW_SEQUENCE, VALUE_KIND, *table.schema.fields]
    found = []
    for entry in table.entries():
        reader = RunReader(fields, {table.schema.id: table.schema}, table.schema.options)
        (key,) = FileKeys(table.schema).data(entry)
        rows = [
            {f.name: part.column(f.name)[i].as_py() for f in fields}
            for _, part in reader.rows({entry.file: (table.store, key)}, None, True)
            for i in range(len(part))
        ]
        found.append((entry.file.level, rows))
    return sorted(found, key=repr)


@pytest.mark.parametrize("engine", ENGINES)
def test_files_are_those_that_java_makes(tmp_path: Path, paimon_java: Any, engine: str) -> None:
    """What is due after each commit, and a full compaction at the end, by either on a copy: levels, keys, statistics, rows, kinds
    and sequence numbers are equal.
    """
    rng, java, ours = random.Random(f"compaction {engine}"), tmp_path / "java", tmp_path / "ours"
    kinds = [kind for kind in KINDS if kind != "-U" or engine != "removing aggregation"]  # no maximum without a value
    create(paimon_java, java, engine)
    for number in range(7):
        upsert(paimon_java, java, rng, number + 1, kinds)
        if number in (0, 5, 6):
            shutil.rmtree(ours, ignore_errors=True)
            shutil.copytree(java, ours)
            full, before = number != 5, our_rows(ll.open_table(str(java)))
            paimon_java.compact(java, identifier=number + 1, full=full)
            done = ll.open_table(str(ours)).compact(full=full)
            made, theirs = ll.open_table(str(ours)), ll.open_table(str(java))
            assert bool(done.receipts) == (len(theirs.snapshots()) > len(made.snapshots()) - bool(done.receipts))
            assert stored(made) == stored(theirs), f"after commit {number}"
            for mine, hers in zip(delta(made), delta(theirs), strict=True):
                assert [pair for pair in zip(mine, hers, strict=True) if pair[0] != pair[1]] == []
            assert_same_rows(our_rows(made), before)
            assert_same_rows(paimon_java.rows(ours), before)
            assert made.verify("all", data=True) == []


@pytest.mark.parametrize("back", ["undo", "rollback"])
def test_java_raises_a_file_that_was_lowered(tmp_path: Path, paimon_java: Any, back: str) -> None:
    """Its name stays, and the entry of its first rise was deleted: under that identity no reader would see it (decision 75)."""
    path = tmp_path / "t"
    create(paimon_java, path, "deduplicate")
    paimon_java.commit_rows(path, [[1, 1, "a"], [2, 2, "b"]], identifier=1)
    before = our_rows(ll.open_table(str(path)))
    paimon_java.compact(path, identifier=2, full=True)
    for identifier in (3, 4):
        table = ll.open_table(str(path))
        table.undo(table.timeline.snapshot_ids()[-1]) if back == "undo" else table.rollback(snapshot=1)
        assert [e.file.level for e in ll.open_table(str(path)).entries()] == [0]
        assert_same_rows(paimon_java.rows(path), before)
        paimon_java.compact(path, identifier=identifier, full=True)
        assert [e.file.level for e in ll.open_table(str(path)).entries()] == [5]
        assert_same_rows(our_rows(ll.open_table(str(path))), before)
        assert_same_rows(paimon_java.rows(path), before)
    assert ll.open_table(str(path)).verify("all", data=True) == []


SEEDS = range(60 if NIGHTLY else 3)
IN_TURNS = ("deduplicate", "sequence group", "aggregation", "sequence field", "partial-update")


@pytest.mark.parametrize("seed", SEEDS)
def test_either_writes_and_compacts_in_turns(tmp_path: Path, paimon_java: Any, seed: int) -> None:
    """G8, H12: upserts and compactions, full ones or what is due, by either on the other's files. No compaction changes a row,
    and both read the same rows after every step.
    """
    rng, path = random.Random(f"in turns {seed}"), tmp_path / "t"
    engine, file_format = IN_TURNS[seed % len(IN_TURNS)], ("parquet", "orc", "avro")[seed % 3]
    options = {"file.format": file_format, "bucket": str(rng.randint(1, 2))}
    if rng.random() < 0.5:
        options["num-sorted-run.compaction-trigger"] = "2"
    create(paimon_java, path, engine, **options)
    print(f"seed {seed}: {engine}, {options}")
    table = ll.open_table(str(path))
    for step in range(1, 13):
        does = rng.choice(["java", "ours", "java compacts", "ours compacts"])
        if does == "java":
            upsert(paimon_java, path, rng, step, KINDS)
        elif does == "ours":
            ids = sorted(rng.sample(range(14), rng.randint(1, 8)))
            values = {
                "id": pa.array(ids, pa.int32()),
                "v": pa.array([rng.choice([None, 0, 1]) for _ in ids], pa.int64()),
            }
            kinds = {"s": [rng.choice([None, "a", "c"]) for _ in ids], "kind": [rng.choice(KINDS) for _ in ids]}
            table.upsert(pa.table(values | kinds), row_kind="kind")
        else:
            before, full = our_rows(table), rng.random() < 0.5
            if does == "java compacts":
                paimon_java.compact(path, identifier=step, full=full)
            else:
                table.compact(full=full)
            assert_same_rows(our_rows(table), before, f"{step}: {does}")
        assert_same_rows(paimon_java.rows(path), our_rows(table), f"{step}: {does}")
    assert table.verify("all", data=True) == []


def test_java_goes_on_with_rescaled_buckets(tmp_path: Path, paimon_java: Any) -> None:
    """G8: rows that Java wrote into one bucket are in three; Java reads them, replaces them and compacts them there."""
    path, rng = tmp_path / "t", random.Random("rescale")
    create(paimon_java, path, "sequence field")
    for number in range(3):
        upsert(paimon_java, path, rng, number + 1, KINDS)
    table = ll.open_table(str(path))
    before = our_rows(table)
    table.alter(ll.set_option("bucket", "3"))
    assert [receipt.kind for receipt in table.rescale()] == ["OVERWRITE"]
    assert_same_rows(our_rows(table), before)
    assert_same_rows(paimon_java.rows(path), before)
    upsert(paimon_java, path, rng, 4, KINDS)
    after = our_rows(table)
    paimon_java.compact(path, identifier=5)
    assert_same_rows(our_rows(table), after)
    assert_same_rows(paimon_java.rows(path), after)
    assert {e.total_buckets for e in table.entries()} == {3} and len({e.bucket for e in table.entries()}) == 3
    assert table.verify("all", data=True) == []


@pytest.mark.parametrize("engine", ["deduplicate", "aggregation", "sequence field"])
def test_postponed_rows_go_to_real_buckets_in_the_order_in_which_they_were_written(
    tmp_path: Path, paimon_java: Any, engine: str
) -> None:
    """G8: the rows are those of a table with fixed buckets to which Java wrote the same, and Java reads and compacts them."""
    path, fixed, rng = tmp_path / "t", tmp_path / "fixed", random.Random(f"postponed {engine}")
    create(paimon_java, path, engine, bucket="-2", **{"postpone.default-bucket-num": "2"})
    create(paimon_java, fixed, engine)
    table = ll.open_table(str(path))
    for number in range(8):
        state = rng.getstate()
        upsert(paimon_java, path, rng, number + 1, KINDS)
        rng.setstate(state)
        upsert(paimon_java, fixed, rng, number + 1, KINDS)
        if number == 4:
            assert our_rows(table) == []
            planned = table.compact(dry_run=True)
            assert "postponed rows go to real buckets" in str(planned)
        if number in (4, 6, 7):
            done = table.compact()
            assert done.files_before >= (5 if number == 4 else 1) and done.given_up == ()
            assert_same_rows(our_rows(table), paimon_java.rows(fixed), f"after commit {number}")
            assert_same_rows(paimon_java.rows(path), our_rows(table))
    assert {e.bucket for e in table.entries()} == {0, 1} and {e.total_buckets for e in table.entries()} == {2}
    assert {s.commit_kind for s in table.snapshots()} == {"APPEND", "COMPACT"}
    assert str(table.compact(dry_run=True)).startswith("nothing to compact")
    before = our_rows(table)
    table.compact(full=True)
    assert_same_rows(paimon_java.rows(path), before)
    assert table.verify("all", data=True) == []
