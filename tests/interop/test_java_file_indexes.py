"""File indexes of every kind on every type: Apache Paimon's bytes and lakelatch's, and the files that each opens with them (G8).

Files have no column statistics, so that only indexes can tell them apart.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from file_indexes import parsed
from golden_filters import golden_predicate
from interop.agreement import our_rows
from interop.domains import ATOMIC, columns, edge_rows, fields
from interop.filters import Filter, filters_of, kept, order_of
from values import Row, assert_same_rows, decode_rows, encode_rows

import lakelatch as ll
from lakelatch.core.file_index.options import BSI, KINDS, RANGE_BITMAP, takes
from lakelatch.core.metadata.data_file import DataFile
from lakelatch.core.rows.types import Field
from lakelatch.core.rows.values import root_of
from lakelatch.table.scan.index_pruning import sidecar_of

pytestmark = pytest.mark.java

NIGHTLY = bool(os.environ.get("LAKELATCH_NIGHTLY"))
ALIKE = {"ts1", "ts2", "ts4", "ts5", "ts7", "ts8", "tz1", "tz2", "tz4", "tz5", "tz7", "tz8", "tm0", "d1"}
"""Precisions with the keys of another one: in `make nightly` only."""
TOO_LARGE_FOR_BSI = ("i64", "d28", "d38")
"""Values without a magnitude of 63 bits: Java fails when it writes them."""
OPTIONS = {
    "bloom-filter": {"items": "40", "fpp": "0.01"},
    "bitmap": {"index-block-size": "40 kb"},  # texts of the domains take 9 kB
    "bsi": {},
    "range-bitmap": {"chunk-size": "20 kb"},
}


def names_for(kind: str) -> list[str]:
    """Columns of which a kind makes indexes."""
    there = {f.name: f for f in fields(columns(ATOMIC))}
    names = [n for n in ATOMIC if takes(kind, there[n].type) and (NIGHTLY or n not in ALIKE)]
    return [n for n in names if kind != BSI or n not in TOO_LARGE_FOR_BSI]


def options_of(kind: str, names: Iterable[str], threshold: str) -> dict[str, str]:
    names = list(names)
    own = {f"file-index.{kind}.{name}.{key}": text for name in names for key, text in OPTIONS[kind].items()}
    return {
        f"file-index.{kind}.columns": ",".join(names),
        "file-index.in-manifest-threshold": threshold,
        "metadata.stats-mode": "none",
        **own,
    }


def in_order(some: Sequence[Field]) -> list[list[Row]]:
    """Files whose values hardly overlap, some with nulls, and one of nulls alone."""
    files: list[list[Row]] = []
    for number in range(4):
        parts = []
        for field in some:
            values = sorted(ATOMIC[field.name][1], key=order_of(field))
            start = number * len(values) // 4
            parts.append(values[start : max((number + 1) * len(values) // 4, start + 1)])
        files.append([[part[i % len(part)] for part in parts] for i in range(max(map(len, parts)))])
        if number % 2 == 0:
            files[-1].append([None] * len(some))
    return [*files, [[None] * len(some)] * 3]


def both(java: Any, folder: Path, kind: str, threshold: str) -> tuple[ll.Table, Path, list[list[Row]]]:
    """The same files by lakelatch and by Java."""
    names = names_for(kind)
    options = options_of(kind, names, threshold)
    table = ll.create_table(str(folder / "ours"), ll.Schema(columns(names)), options=options)
    java.create_table(folder / "java", columns(names), options=options)
    files = in_order(table.schema.fields)
    for number, file in enumerate(files):
        table.append(decode_rows(file, table.schema.fields))
        java.commit_rows(folder / "java", file, identifier=number)
    return table, folder / "java", files


def index_bytes(table: ll.Table, file: DataFile) -> dict[str, dict[str, bytes]]:
    if file.embedded_file_index is not None:
        return parsed(file.embedded_file_index)
    key = sidecar_of(file, f"bucket-0/{file.file_name}")
    assert key is not None
    return parsed(table.store.get(key))


def files_of(table: ll.Table) -> list[DataFile]:
    found = sorted(table.entries(), key=lambda e: e.file.creation_time or 0)
    return [entry.file for entry in found]


# --------------------------------------------------------------------------------------------------------------- bytes


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_bytes(tmp_path: Path, paimon_java: Any, kind: str) -> None:
    """G8: what Java makes of the same rows, byte for byte; of bitmaps, which it orders by a hash, as many, and as many rows."""
    names = names_for(kind)
    options = options_of(kind, names, "1 b")
    schema = ll.Schema(columns(names))
    rng = random.Random(kind)
    rows = edge_rows(names) + [
        [None if rng.random() < 0.2 else rng.choice(ATOMIC[n][1]) for n in names] for _ in range(200)
    ]
    ours = ll.create_table(str(tmp_path / "ours"), schema, options=options)
    ours.append(decode_rows(rows, schema.fields))
    paimon_java.create_table(tmp_path / "java", columns(names), options=options)
    paimon_java.commit_rows(tmp_path / "java", rows)
    (our_file,), (java_file,) = (files_of(t) for t in (ours, ll.open_table(str(tmp_path / "java"))))
    assert our_file.extra_files == (f"{our_file.file_name}.index",) and our_file.embedded_file_index is None
    mine, theirs = index_bytes(ours, our_file), index_bytes(ll.open_table(str(tmp_path / "java")), java_file)
    assert mine.keys() == theirs.keys() == set(names)
    for name in names:
        if kind == "bitmap":
            assert len(mine[name][kind]) == len(theirs[name][kind]), name
        else:
            assert mine[name] == theirs[name], name


@pytest.mark.parametrize("version", ["1", "2"])
def test_the_same_bitmaps(tmp_path: Path, paimon_java: Any, version: str) -> None:
    """G8: small numbers stand in a hash in their own order: then bitmaps are the same bytes too."""
    options = {
        "file-index.bitmap.columns": "i",
        "file-index.bitmap.i.version": version,
        "file-index.bitmap.i.index-block-size": "128 b",
    }
    rng = random.Random(version)
    rows = [[rng.choice([None, *range(30)])] for _ in range(300)] + [[30]]
    paimon_java.create_table(tmp_path / "java", [("i", "INT")], options=options)
    paimon_java.commit_rows(tmp_path / "java", rows)
    ours = ll.create_table(str(tmp_path / "ours"), ll.Schema([("i", "INT")]), options=options)
    ours.append(decode_rows(rows, ours.schema.fields))
    (our_file,), (java_file,) = (files_of(t) for t in (ours, ll.open_table(str(tmp_path / "java"))))
    assert index_bytes(ours, our_file) == index_bytes(ll.open_table(str(tmp_path / "java")), java_file)


@pytest.mark.parametrize("kind", KINDS)
def test_a_value_of_a_map(tmp_path: Path, paimon_java: Any, kind: str) -> None:
    """G8: `m[key]` indexes the values of one key; options of the column are those of all its keys."""
    the_map = {"type": "MAP", "key": "STRING NOT NULL", "value": "INT"}
    options = {
        f"file-index.{kind}.columns": "m[a], m[b]",
        f"file-index.{kind}.m.items": "10",
        f"file-index.{kind}.m[b].items": "20",
    }
    rows: list[Row] = [[[["a", 1]]], [None], [[["a", 2], ["b", 3]]], [[]], [[["b", None]]]]
    paimon_java.create_table(tmp_path / "java", [("m", the_map)], options=options)
    paimon_java.commit_rows(tmp_path / "java", rows)
    ours = ll.create_table(str(tmp_path / "ours"), ll.Schema([("m", the_map)]), options=options)
    ours.append(decode_rows(rows, ours.schema.fields))
    (our_file,), (java_file,) = (files_of(t) for t in (ours, ll.open_table(str(tmp_path / "java"))))
    assert index_bytes(ours, our_file) == index_bytes(ll.open_table(str(tmp_path / "java")), java_file)
    assert ours.verify("all", data=True) == []


# ------------------------------------------------------------------------------------------------------------- filters


def loses_rows(kind: str, filter_: Filter, field: Field) -> bool:
    """Where Java 1.4.2 leaves rows out by its own index.

    A bitmap has microseconds, and `<>` takes away all rows of the one; a range-bitmap of nulls alone knows two of them.
    """
    nanos = root_of(field.type).startswith("TIMESTAMP") and getattr(field.type, "precision", 0) > 6
    if nanos and kind in ("bitmap", "bsi"):
        return filter_[0] not in ("is_null", "is_not_null")
    return kind == RANGE_BITMAP and filter_[0] == "is_null"


def asked(field: Field, rng: random.Random, most: int) -> list[Filter]:
    """Some filters with the smallest and largest literal, and one between; in `make nightly` more, with any literal."""
    values = sorted(ATOMIC[field.name][1], key=order_of(field))
    between = rng.choice(values[1:-1]) if len(values) > 2 else values[0]
    found = list(filters_of(field, values if NIGHTLY else [values[0], between, values[-1]]))
    return rng.sample(found, min(len(found), 4 * most if NIGHTLY else most))


def planned_by_java(java: Any, path: Path, filter_: Filter) -> int:
    return sum(len(split["files"]) for split in java.plan(path, predicate=filter_))


@pytest.mark.parametrize("threshold", ["1 mb", "1 b"], ids=["embedded", "beside"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_filter_on_every_type(tmp_path: Path, paimon_java: Any, kind: str, threshold: str) -> None:
    """G8: both read both tables correctly. Java plans as many files of lakelatch's as of its own; lakelatch plans no more.

    By day each column has one filter, and a third of them where the index has a file of its own.
    """
    table, path, files = both(paimon_java, tmp_path, kind, threshold)
    rows, some = [row for file in files for row in file], table.schema.fields
    rng = random.Random(kind)
    types = {f.name: f.type for f in some}
    theirs = ll.open_table(str(path))
    opened = there = 0
    embedded = threshold == "1 mb"
    for field in some if embedded or NIGHTLY else some[::3]:
        for filter_ in asked(field, rng, 2 if NIGHTLY and embedded else 1):
            what = f"{kind}, {threshold}, {str(filter_)[:100]}"
            wanted = [[row[some.index(field)]] for row in kept(rows, filter_, some)]
            where = golden_predicate(filter_, types)
            for each in (table, theirs):
                found = encode_rows(each.to_arrow(columns=[field.name], where=where), [field])
                assert_same_rows(found, wanted, f"lakelatch, {what}")
            if not loses_rows(kind, filter_, field) and not reads_wrong(filter_, field):
                for java_path in (path, tmp_path / "ours"):
                    found = paimon_java.rows(java_path, columns=[field.name], predicate=filter_)
                    assert_same_rows(found, wanted, f"Java, {java_path.name}, {what}")
            most = planned_by_java(paimon_java, path, filter_)
            assert planned_by_java(paimon_java, tmp_path / "ours", filter_) == most, what
            counts = [each.plan(where).file_count for each in (table, theirs)]
            assert counts[0] == counts[1] and (counts[0] <= most or loses_rows(kind, filter_, field)), what
            opened, there = opened + most, there + len(files)
    assert opened < there if embedded else opened == there
    assert table.verify("all", data=True) == theirs.verify("all", data=True) == []


def test_rows_that_java_loses(tmp_path: Path, paimon_java: Any) -> None:
    """Why the filters above leave them out (decision 12): by its own index Java 1.4.2 loses rows, lakelatch none."""
    moments = ["2024-01-01T00:00:00.000000001", "2024-01-01T00:00:00.000000002"]
    lost: list[tuple[str, str, str, list[Row], Filter]] = [
        ("bitmap", "parquet", "TIMESTAMP(9)", [[m] for m in moments], ["<>", "c", moments[0]]),
        ("bsi", "parquet", "TIMESTAMP(9)", [[m] for m in moments], [">", "c", moments[0]]),
        ("range-bitmap", "parquet", "INT", [[None]] * 3, ["is_null", "c"]),
        ("bitmap", "orc", "CHAR(3)", [["a  "], ["b"]], ["=", "c", "a"]),
    ]
    for number, (kind, file_format, text, written, filter_) in enumerate(lost):
        options = {f"file-index.{kind}.columns": "c", "metadata.stats-mode": "none", "file.format": file_format}
        path = tmp_path / str(number)
        paimon_java.create_table(path, [("c", text)], options=options)
        paimon_java.commit_rows(path, written)
        table, rows = ll.open_table(str(path)), paimon_java.rows(path)
        wanted = kept(rows, filter_, table.schema.fields)
        assert len(paimon_java.rows(path, predicate=filter_)) < len(wanted), f"Java has learnt it: {kind}"
        where = golden_predicate(filter_, {"c": table.schema.fields[0].type})
        assert_same_rows(encode_rows(table.to_arrow(where=where), table.schema.fields), wanted, kind)


def reads_wrong(filter_: Filter, field: Field) -> bool:
    """Java compares ranges of binary by signed bytes, whatever the index."""
    return root_of(field.type) in ("BINARY", "VARBINARY") and filter_[0] in ("<", "<=", ">", ">=", "between")


def test_columns_that_changed_since(tmp_path: Path, paimon_java: Any) -> None:
    """G8: an index speaks of its file's columns, by field id; Java, too, opens no file for a value that none has."""
    path = tmp_path / "t"
    options = {
        "file-index.bitmap.columns": "a,b",
        "file-index.bloom-filter.columns": "a,b",
        "metadata.stats-mode": "none",
    }
    options |= {f"file-index.bloom-filter.{name}.items": "9" for name in "ab"}
    paimon_java.create_table(path, [("a", "INT"), ("b", "INT")], options=options)
    paimon_java.commit_rows(path, [[1, 10], [2, 20], [None, None]])
    for old, new in (("a", "t"), ("b", "a"), ("t", "b")):
        paimon_java.alter(path, "renameColumn", old, new)
    paimon_java.alter(path, "updateColumnType", "b", paimon_java.data_type("BIGINT"))
    table, rows = ll.open_table(str(path)), [[1, 10], [2, 20], [None, None]]
    for filter_ in (["=", "a", 1], ["=", "a", 20], ["=", "b", 1], ["=", "b", 2**40], ["<>", "b", 1], ["is_null", "a"]):
        wanted = kept(
            rows,
            filter_,
            [Field(0, "b", table.schema.by_name["b"].type), Field(1, "a", table.schema.by_name["a"].type)],
        )
        where = golden_predicate(filter_, {f.name: f.type for f in table.schema.fields})
        assert_same_rows(paimon_java.rows(path, predicate=filter_), wanted, f"Java, {filter_}")
        assert_same_rows(encode_rows(table.to_arrow(where=where), table.schema.fields), wanted, str(filter_))
        assert table.plan(where).file_count <= planned_by_java(paimon_java, path, filter_), filter_


def test_compactions_of_either(tmp_path: Path, paimon_java: Any) -> None:
    """G8: Java compacts files with our indexes and makes its own, lakelatch those of Java."""
    names = ["i32", "st"]
    options = options_of("range-bitmap", names, "1 b")
    for who in ("ours", "java"):
        path = tmp_path / who
        table = ll.create_table(str(path), ll.Schema(columns(names)), options=options)
        files = in_order(table.schema.fields)
        for number, file in enumerate(files):
            if who == "ours":
                table.append(decode_rows(file, table.schema.fields))
            else:
                paimon_java.commit_rows(path, file, identifier=number)
        if who == "ours":
            assert paimon_java.compact_append_table(path, "compactor", 1)
        else:
            table.alter(ll.set_option("compaction.min.file-num", 2))
            table.compact()
        after = ll.open_table(str(path))
        (file_,) = files_of(after)
        assert file_.extra_files == (f"{file_.file_name}.index",)
        rows = [row for file in files for row in file]
        filter_ = ["=", "i32", 1]
        wanted = kept(rows, filter_, after.schema.fields)
        where = golden_predicate(filter_, {f.name: f.type for f in after.schema.fields})
        assert_same_rows(paimon_java.rows(path, predicate=filter_), wanted, f"Java, {who}")
        assert_same_rows(encode_rows(after.to_arrow(where=where), after.schema.fields), wanted, who)
        assert after.verify("all", data=True) == []


def test_switched_off(tmp_path: Path, paimon_java: Any) -> None:
    """Option `file-index.read.enabled` = false: the same rows, of all files."""
    options = options_of("bitmap", ["i32", "st"], "1 mb") | {"file-index.read.enabled": "false"}
    paimon_java.create_table(tmp_path / "t", columns(["i32", "st"]), options=options)
    rows = edge_rows(["i32", "st"])
    for number, start in enumerate(range(0, len(rows), 5)):
        paimon_java.commit_rows(tmp_path / "t", rows[start : start + 5], identifier=number)
    table = ll.open_table(str(tmp_path / "t"))
    asleep = table.plan(ll.col("i32") == 1)
    assert (asleep.files_pruned_by_index, asleep.file_count) == (0, len(table.entries()))
    table.alter(ll.set_option("file-index.read.enabled", True))
    awake = table.plan(ll.col("i32") == 1)
    assert awake.file_count == planned_by_java(paimon_java, tmp_path / "t", ["=", "i32", 1]) < asleep.file_count
    assert "by file index" in str(awake)
    assert_same_rows(our_rows(table), rows, "all rows")
