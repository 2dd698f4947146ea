"""Deletion vectors and changelogs of tables with a primary key, made by lakelatch and by Apache Paimon (Java)."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from figures import NIGHTLY
from interop.agreement import our_rows
from interop.test_java_key_changes import changes
from interop.test_java_key_compaction import COLUMNS, ENGINES, KINDS, upsert
from jpype import JClass, JLong
from values import Row, assert_same_rows

import lakelatch as ll
from lakelatch.core.metadata.data_file import ManifestEntry
from lakelatch.core.metadata.deletion_vector import encode_vector
from lakelatch.core.metadata.schema import ROW_SEQUENCE
from lakelatch.core.metadata.schemas.merge_rules import VALUE_KIND
from lakelatch.core.places import FileKeys
from lakelatch.table.reading.run_reader import RunReader
from lakelatch.table.table import Table

pytestmark = pytest.mark.java
VECTORS, WIDE = {"deletion-vectors.enabled": "true"}, {"deletion-vectors.bitmap64": "true"}
LOOKUP = {"changelog-producer": "lookup"}
FULL = {"changelog-producer": "full-compaction"}
ONCE = {"changelog-producer.row-deduplicate": "true"}
FIRST = {"merge-engine": "first-row"}
TABLES: dict[str, dict[str, str]] = {
    "vectors": VECTORS,
    "wide vectors, sequence field": VECTORS | WIDE | ENGINES["sequence field"],
    "vectors, lookup": VECTORS | LOOKUP,
    "vectors, partial-update": VECTORS | ENGINES["partial-update"],
    "vectors, lookup, aggregation": VECTORS | LOOKUP | ONCE | ENGINES["aggregation"],
    "lookup": LOOKUP,
    "lookup, other formats": LOOKUP | {"file.format.per.level": "0:avro,9:orc", "changelog-file.format": "avro"},
    "lookup, changes only": LOOKUP | ONCE | {"changelog-producer.row-deduplicate-ignore-fields": "s"},
    "lookup, sequence field": LOOKUP | ENGINES["sequence field"],
    "lookup, sequence group": LOOKUP | ONCE | ENGINES["sequence group"],
    "lookup, removing group": LOOKUP | ENGINES["removing group"],
    "lookup, removing aggregation": LOOKUP | ENGINES["removing aggregation"],
    "lookups without a trace": {"force-lookup": "true"} | ENGINES["aggregation"],
    "full": FULL,
    "full, changes only, aggregation": FULL | ONCE | ENGINES["aggregation"],
    "full, sequence field": FULL | ENGINES["sequence field"],
    "first row": FIRST,
    "first row, lookup": FIRST | LOOKUP,
}
COMMITS = 24 if NIGHTLY else 4


def rows_of(table: Table, entry: ManifestEntry) -> list[tuple[Any, ...]]:
    """The stored rows of a file, with their sequence numbers and kinds."""
    fields = [ROW_SEQUENCE, VALUE_KIND, *table.schema.fields]
    reader = RunReader(fields, {table.schema.id: table.schema}, table.schema.options)
    (key,) = FileKeys(table.schema).data(entry)
    return [
        tuple(part.column(f.name)[i].as_py() for f in fields)
        for _, part in reader.rows({entry.file: (table.store, key)}, None, True)
        for i in range(len(part))
    ]


def state(table: Table) -> list[Any]:
    """The files by level: their rows, and the positions of those that are deleted. Names may differ."""
    snapshot = table.snapshot()
    assert snapshot is not None
    index = [e for e in table.timeline.index_entries(snapshot) if e.file.deletion_vectors is not None]
    marked = {v.data_file: v.cardinality for e in index for v in e.file.deletion_vectors or ()}
    assert len({(e.partition, e.bucket) for e in index}) == len(index), "one index file for each bucket"
    live = table.entries()
    assert set(marked) <= {e.file.file_name for e in live}
    return sorted(
        ((e.bucket, e.file.level, marked.get(e.file.file_name, 0), rows_of(table, e)) for e in live), key=repr
    )


def changelog(table: Table, since: int) -> list[tuple[Any, ...]]:
    """The rows of the changelogs after a snapshot, with what the manifest says of their files."""
    found = []
    for snapshot in table.snapshots():
        name = snapshot.changelog_manifest_list if snapshot.id > since else None
        entries = table.timeline.entries(table.timeline.manifest_list(name)) if name else []
        for entry in entries:
            file, rows = entry.file, rows_of(table, entry)
            assert file.row_count == len(rows)
            file_format = file.file_name.rpartition(".")[2]
            told = (file.level, file.delete_row_count, file.file_source, file.min_key, file.max_key, file.value_stats)
            found.append((entry.bucket, file_format, told, rows))
        if name:
            assert snapshot.changelog_record_count == sum(e.file.row_count for e in entries)
    return sorted(found, key=repr)


@pytest.mark.parametrize("name", TABLES)
def test_lookups_find_and_record_what_java_s_do(tmp_path: Path, paimon_java: Any, name: str) -> None:
    """Random upserts by Java. After each, both compact a copy: files, vectors and changelog are the same, and the next commit
    goes on from the one or the other.
    """
    rng, path, other = random.Random(f"lookups {name}"), tmp_path / "t", tmp_path / "other"
    options = {"bucket": rng.choice("12"), "write-only": "true", "num-sorted-run.compaction-trigger": "9"}
    options |= TABLES[name]
    paimon_java.create_table(path, COLUMNS, primary_keys=["id"], options=options)
    kinds = ("+I", "+U") if "first-row" in options.values() else KINDS
    kinds = tuple(kind for kind in kinds if kind != "-U" or "removing aggregation" not in name)
    for number in range(COMMITS):
        upsert(paimon_java, path, rng, number + 1, kinds)
        full, ours_first = rng.random() < (0.5 if "full" in name else 0.2), rng.random() < 0.5
        shutil.rmtree(other, ignore_errors=True)
        shutil.copytree(path, other)
        ours, theirs = (path, other) if ours_first else (other, path)
        before = len(paimon_java.snapshots(path))
        ll.open_table(str(ours)).compact(full=full)
        paimon_java.compact(theirs, identifier=number + 1, full=full)
        made, hers = ll.open_table(str(ours)), ll.open_table(str(theirs))
        where = f"{options}, after commit {number + 1}, full: {full}"
        assert state(made) == state(hers), where
        assert changelog(made, before) == changelog(hers, before), where
        rows = paimon_java.rows(theirs)
        assert_same_rows(paimon_java.rows(ours), rows, where)
        assert_same_rows(our_rows(made), rows, where)
    assert made.verify("all", data=True) == []


def test_vectors_are_written_byte_for_byte_as_java_does(paimon_java: Any) -> None:
    rng = random.Random("vectors")
    rows = [[0], [2, 0, 1], range(5000), range(0, 30_000, 2), range(70_000, 70_100), rng.sample(range(500_000), 20_000)]
    rows += [[*range(100), *range(200, 205), 131_072], [rng.randrange(1 << 17) for _ in range(3)]]
    output, stream = JClass("java.io.ByteArrayOutputStream"), JClass("java.io.DataOutputStream")
    for name, is_wide in (("BitmapDeletionVector", False), ("Bitmap64DeletionVector", True)):
        for positions in rows:
            vector = JClass(f"org.apache.paimon.deletionvectors.{name}")()
            for position in positions:
                vector.delete(JLong(position))
            out = output()
            vector.serializeTo(stream(out))
            assert encode_vector(np.array(positions), is_wide) == bytes(out.toByteArray()), (name, positions)


TURNS = ("vectors", "wide vectors, sequence field", "vectors, lookup", "vectors, lookup, aggregation", "lookup")
IN_TURNS = {name: TABLES[name] for name in TURNS} | {
    "lookup, first row": FIRST | LOOKUP,
    "full": FULL | {"full-compaction.delta-commits": "1"},
    "vectors, input": VECTORS | {"changelog-producer": "input"},
}


def told(java: Any, path: Path, end: int) -> list[Row]:
    """All changes as Java's audit log tells them: each row with its kind in front."""
    between = {"incremental-between": f"0,{end}", "incremental-between-scan-mode": "changelog"}
    table = java.open(path).copy(java._map(between))
    return java._rows(JClass("org.apache.paimon.table.system.AuditLogTable")(table))  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", IN_TURNS)
def test_both_upsert_and_compact_in_turns(tmp_path: Path, paimon_java: Any, name: str) -> None:
    """Both see the same rows at every snapshot, each write is visible at once, and its changelog is what it changed."""
    rng, path, options = random.Random(f"turns {name}"), tmp_path / "t", IN_TURNS[name]
    paimon_java.create_table(path, COLUMNS, primary_keys=["id"], options={"bucket": "1", **options})
    deletes = "merge-engine" not in options
    state: dict[int, list[Any]] = {}
    for number in range(COMMITS):
        ids = rng.sample(range(12), rng.randint(1, 6))
        rows: list[Row] = [[i, number * 10 + i, rng.choice([None, "a", "b"])] for i in ids]
        kinds = ["-D" if deletes and rng.random() < 0.3 else "+U" for _ in rows]
        before = len(paimon_java.snapshots(path))
        if rng.random() < 0.6:
            data = pa.table({"id": pa.array(ids, pa.int32()), "v": [r[1] for r in rows], "s": [r[2] for r in rows]})
            ll.open_table(str(path)).upsert(data.append_column("op", pa.array(kinds)), row_kind="op")
        else:
            paimon_java.commit_rows(path, rows, identifier=number + 1, kinds=kinds)
            if name == "full":  # Java leaves this option to the engines around it
                paimon_java.compact(path, identifier=number + 1)
        table = ll.open_table(str(path))
        assert [s.commit_kind for s in table.snapshots()][before:] == ["APPEND", "COMPACT"]
        for snapshot in range(before + 1, before + 3):
            hers = paimon_java.rows(path, snapshot=snapshot)
            assert_same_rows(our_rows(table.at(snapshot=snapshot)), hers, f"{options}, snapshot {snapshot}")
        if "changelog-producer" in options:
            for row in table.changes(before, before + 2).read_all().to_pylist():
                if row["_row_kind"] in ("+I", "+U"):
                    state[row["id"]] = [row["id"], row["v"], row["s"]]
                elif row["id"] in state or name != "vectors, input":  # the input may delete what is not there
                    del state[row["id"]]
        else:
            state = {i: r for i, r in state.items() if i not in ids} | {
                r[0]: r for r, kind in zip(rows, kinds, strict=True) if kind == "+U"
            }
        assert_same_rows(our_rows(table), list(state.values()), f"{options}, after commit {number + 1}")
    if (
        "changelog-producer" in options and name != "vectors, input"
    ):  # there Java hides the changelog, as it hides level 0
        end = table.snapshots()[-1].id
        assert_same_rows(changes(table, 0, end), told(paimon_java, path, end))
    assert table.verify("all", data=True) == []
