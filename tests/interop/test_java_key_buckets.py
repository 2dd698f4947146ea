"""Dynamic buckets, keys across partitions and postponed buckets, written by lakelatch and Apache Paimon (Java) in turns (G8)."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import fastavro
import pytest
from figures import NIGHTLY
from golden_filters import golden_folder
from interop.agreement import our_rows
from values import Row, assert_same_rows, decode_rows

import lakelatch as ll
from lakelatch.core.metadata.hash_index import decode_hashes
from lakelatch.core.places import FileKeys

pytestmark = pytest.mark.java
COLUMNS = [("p", "INT NOT NULL"), ("k", "STRING NOT NULL"), ("d", "DECIMAL(20, 2) NOT NULL"), ("v", "BIGINT")]
KEY = ["k", "p", "d"]


def index_of(path: Path) -> dict[tuple[bytes, int], list[int]]:
    """The hashes of each partition and bucket, sorted."""
    table = ll.open_table(str(path))
    snapshot = table.snapshot()
    assert snapshot is not None
    keys, found = FileKeys(table.schema), dict[tuple[bytes, int], list[int]]()
    for entry in table.timeline.index_entries(snapshot):
        assert entry.file.index_type == "HASH"
        data = table.store.get(keys.index(entry))
        hashes = decode_hashes(data, entry.file.row_count, entry.file.file_name).tolist()
        assert len(data) == entry.file.file_size and len(set(hashes)) == len(hashes)
        assert (entry.partition, entry.bucket) not in found, "a bucket has two index files"
        found[entry.partition, entry.bucket] = sorted(hashes)
    return found


def assert_one_bucket_for_each_key(path: Path) -> None:
    seen = set[tuple[bytes, int]]()
    for (partition, _), hashes in index_of(path).items():
        for hash_ in hashes:
            assert (partition, hash_) not in seen, "a key is in two buckets"
            seen.add((partition, hash_))


class Turns:
    """A table with dynamic buckets, and the rows that it must have."""

    def __init__(self, java: Any, path: Path) -> None:
        self.java, self.path, self.count = java, path, 0
        self.rows: dict[tuple[Any, ...], Row] = {}

    def upsert(self, rows: list[Row], ours: bool) -> None:
        self.count += 1
        if ours:
            table = ll.open_table(str(self.path))
            table.upsert(decode_rows(rows, table.schema.fields))
        else:
            bucket = self.java.dynamic_bucket(self.path)
            self.java.commit_rows(self.path, rows, identifier=self.count, bucket=bucket, options={"write-only": "true"})
        self.rows.update((tuple(row[:3]), row) for row in rows)

    def overwrite(self, partition: int, rows: list[Row], ours: bool) -> None:
        self.count += 1
        if ours:
            table = ll.open_table(str(self.path))
            table.overwrite(decode_rows(rows, table.schema.fields), partition={"p": partition})
        else:
            bucket = self.java.dynamic_bucket(self.path, overwrites=True)
            spec = {"p": str(partition)}
            self.java.commit_rows(
                self.path, rows, identifier=self.count, bucket=bucket, overwrite_partition=spec,
                options={"write-only": "true", "dynamic-partition-overwrite": "false"},
            )  # fmt: skip
        self.rows = {key: row for key, row in self.rows.items() if key[0] != partition}
        self.rows.update((tuple(row[:3]), row) for row in rows)

    def check(self) -> None:
        expected = list(self.rows.values())
        assert_same_rows(our_rows(ll.open_table(str(self.path))), expected, "ours")
        assert_same_rows(self.java.rows(self.path), expected, "Java")
        assert_one_bucket_for_each_key(self.path)


def new_rows(dice: random.Random, count: int, partition: int | None = None) -> list[Row]:
    found: dict[tuple[Any, ...], Row] = {}
    for _ in range(count):
        p = dice.randrange(2) if partition is None else partition
        row = [p, f"key-{dice.randrange(40)}" * dice.choice((1, 9)), f"{dice.randrange(3)}.50", dice.randrange(1000)]
        found[tuple(row[:3])] = row
    return list(found.values())


@pytest.mark.parametrize("seed", range(40 if NIGHTLY else 3))
def test_both_sides_write_dynamic_buckets(tmp_path: Path, paimon_java: Any, seed: int) -> None:
    """Each side goes on with the other's index, whoever began; no key is in two buckets, and both read the same rows."""
    dice = random.Random(seed)
    path = tmp_path / "t"
    options = {"dynamic-bucket.target-row-num": str(dice.choice((5, 1000))), "write-only": "true"}
    if dice.random() < 0.5:
        options["dynamic-bucket.max-buckets"] = "3"
    paimon_java.create_table(path, COLUMNS, ["p"], KEY, options)
    turns = Turns(paimon_java, path)
    for turn in range(6):
        ours = (turn + seed) % 2 == 0
        if turn == 4:
            turns.overwrite(0, new_rows(dice, 8, partition=0), ours)
        else:
            turns.upsert(new_rows(dice, 20), ours)
        turns.check()


def test_new_keys_get_the_buckets_that_java_gives_them(tmp_path: Path, paimon_java: Any) -> None:
    """The same rows, written to two tables by one side each, make the same indexes."""
    dice = random.Random(3)
    tables = []
    for ours in (True, False):
        path = tmp_path / str(ours)
        paimon_java.create_table(
            path, COLUMNS, ["p"], KEY, {"dynamic-bucket.target-row-num": "7", "write-only": "true"}
        )
        tables.append((ours, Turns(paimon_java, path)))
    for turn in range(4):
        rows = new_rows(dice, 30)
        for ours, turns in tables:
            if turn == 2:
                turns.overwrite(1, [row for row in rows if row[0] == 1], ours)
            else:
                turns.upsert(rows, ours)
        one, other = (index_of(turns.path) for _, turns in tables)
        assert one == other
    assert len(one) > 4, "too few buckets to tell"
    for _, turns in tables:
        turns.check()


@pytest.mark.given
def test_golden_tables_are_written_on(tmp_path: Path, paimon_java: Any) -> None:
    """Tables that Java began, of three versions: their index is read, and what is written keeps every key's bucket."""
    folders = sorted(golden_folder(tmp_path).glob("paimon-java-*/pk_dynamic_bucket/table"))
    assert len(folders) >= 3
    for number, folder in enumerate(folders):
        path = tmp_path / str(number)
        shutil.copytree(folder, path)
        table = ll.open_table(str(path))
        before, index = table.to_arrow(), index_of(path)
        table.upsert(before)
        assert index_of(path) == index, folder
        assert table.to_arrow().sort_by("k").equals(before.sort_by("k"))
        assert len(our_rows(table)) == len(paimon_java.rows(path)), folder


@pytest.mark.given
def test_keys_move_between_the_partitions_of_a_table_of_java(tmp_path: Path, paimon_java: Any) -> None:
    """Keys of all partitions are moved into others, some are deleted without a word of their partition, others are new."""
    (folder,) = golden_folder(tmp_path).glob("paimon-java-1.4.2/pk_cross_partition/table")
    path = tmp_path / "cross"
    shutil.copytree(folder, path)
    table = ll.open_table(str(path))
    rows = {row[table.schema.names.index("k")]: row for row in our_rows(table)}
    at = table.schema.names.index("p")
    moved = [[*row[:at], "p9" if i % 2 else "p1", *row[at + 1 :]] for i, row in enumerate(rows.values())]
    table.upsert(decode_rows(moved, table.schema.fields))
    gone = sorted(rows)[:3]
    keys = table.to_arrow(columns=["k"])
    table.delete(keys.filter([k in gone for k in keys["k"].to_pylist()]))
    expected = [row for row in moved if row[table.schema.names.index("k")] not in gone]
    assert_same_rows(our_rows(table), expected, "ours")
    assert_same_rows(paimon_java.rows(path), expected, "Java")


def test_postponed_rows_are_set_aside_as_java_sets_them_aside(tmp_path: Path, paimon_java: Any) -> None:
    """The same rows by both sides: the manifest says the same of the files, and they hold the same records."""
    rows: list[Row] = [[i % 2, f"k{i % 3}", "1.00", i] for i in range(9)]
    found = []
    for ours in (True, False):
        path = tmp_path / str(ours)
        options = {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"}
        paimon_java.create_table(path, COLUMNS, ["p"], KEY, options)
        if ours:
            table = ll.open_table(str(path))
            table.upsert(decode_rows(rows, table.schema.fields), commit_user="java", identifier=1)
        else:
            paimon_java.commit_rows(path, rows)
        table = ll.open_table(str(path))
        assert our_rows(table) == paimon_java.rows(path) == []
        facts = {}
        for entry in table.entries():
            file = entry.file._replace(file_name="", file_size=0, creation_time=None)
            key = FileKeys(table.schema).data(entry)[0]
            assert entry.file.file_name.startswith("data--u-java-s-") and "bucket-postpone" in key
            with (path / key).open("rb") as data:
                reader = fastavro.reader(data)
                facts[entry.partition] = (entry._replace(file=file), reader.writer_schema, list(reader))
        found.append(facts)
    assert found[0] == found[1] and len(found[0]) == 2


@pytest.mark.given
def test_postponed_rows_in_real_buckets(tmp_path: Path, paimon_java: Any) -> None:
    """By default rows are readable at once, in as many buckets as Java has given the partition."""
    (folder,) = golden_folder(tmp_path).glob("paimon-java-1.4.2/pk_postpone/table")
    path = tmp_path / "postponed"
    shutil.copytree(folder, path)
    table = ll.open_table(str(path))
    rows = {row[0]: row for row in our_rows(table)}
    changed = [[k, "new", row[2]] for k, row in rows.items()] + [[1000 + i, "added", i] for i in range(20)]
    table.upsert(decode_rows(changed, table.schema.fields))
    assert {(e.bucket, e.total_buckets) for e in table.entries()} == {(-2, -2), (0, 2), (1, 2)}
    assert_same_rows(our_rows(table), changed, "ours")
    assert_same_rows(paimon_java.rows(path), changed, "Java")
