"""Fixed buckets of append tables: where rows go, which numbers their files get, what a changed bucket count does (H14)."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.core.errors import CommitConflict, InvalidArgument
from lakelatch.core.rows.bucket import BucketFunction, bucket_of_row
from lakelatch.core.rows.types import AtomicType

OPTIONS = {"bucket": "4", "bucket-key": "k"}


def rows(*keys: int | None, part: str = "a") -> pa.Table:
    return pa.table({"p": [part] * len(keys), "k": pa.array(keys, pa.int64())})


def made(tmp_path: Path, options: dict[str, str] = OPTIONS) -> ll.Table:
    return ll.create_table(str(tmp_path / "t"), rows(1).schema, partition_by="p", options=options)


def numbers(table: ll.Table) -> dict[tuple[bytes, int], list[tuple[int, int]]]:
    """The ranges of sequence numbers by partition and bucket, in order."""
    found: dict[tuple[bytes, int], list[tuple[int, int]]] = {}
    for e in table.entries():
        found.setdefault((e.partition, e.bucket), []).append((e.file.min_sequence_number, e.file.max_sequence_number))
    return {place: sorted(ranges) for place, ranges in found.items()}


def assert_apart(table: ll.Table) -> None:
    """Each file has numbers of its own, one for each row, and all of a bucket follow those of the files before."""
    for entry in table.entries():
        assert entry.file.max_sequence_number - entry.file.min_sequence_number + 1 == entry.file.row_count
    for ranges in numbers(table).values():
        assert all(last < first for (_, last), (first, _) in pairwise(ranges))


@pytest.mark.parametrize("function", ["default", "mod", "hive"])
def test_each_row_is_in_the_bucket_of_its_key(tmp_path: Path, function: str) -> None:
    """G8: checked for each file. The rows of a bucket keep their order."""
    table = made(tmp_path, OPTIONS | {"bucket-function.type": function})
    keys = [*range(-50, 50), None, *range(50)]
    receipt = table.append(rows(*keys[:90]))
    assert receipt.snapshot_id == 1
    table.append(rows(*keys[90:]))
    seen: list[Any] = []
    for entry in table.entries():
        assert entry.total_buckets == 4
        path = tmp_path / "t" / "p=a" / f"bucket-{entry.bucket}" / entry.file.file_name
        held = pa.parquet.read_table(path, partitioning=None)["k"].to_pylist()
        assert {bucket_of_row([k], [AtomicType("BIGINT")], 4, BucketFunction(function)) for k in held} == {entry.bucket}
        first = entry.file.min_sequence_number == 0
        assert held == [k for k in (keys[:90] if first else keys[90:]) if k in held]
        seen += held
    assert sorted(seen, key=repr) == sorted(keys, key=repr)
    assert_apart(table)


def test_a_lost_race_keeps_numbers_apart_and_a_warm_writer_reads_nothing(tmp_path: Path) -> None:
    """H14: two writers that know the same snapshot give different numbers; a bucket costs a warm writer no request."""
    first = made(tmp_path)
    second, plain = ll.open_table(first.url), ll.create_table(str(tmp_path / "plain"), rows(1).schema, partition_by="p")
    retries = 0
    for _ in range(3):
        first.append(rows(*range(20)))
        retries += second.append(rows(*range(20))).retries
        plain.append(rows(*range(20)))
    assert retries > 0
    assert_apart(first)
    second.append(rows(1))
    assert second.append(rows(1)).requests == plain.append(rows(1)).requests
    assert_apart(first)


def test_another_bucket_count_is_refused_until_the_partition_is_overwritten(tmp_path: Path) -> None:
    """A partition has one bucket count; others may have another one; what is refused leaves no file."""
    table = made(tmp_path)
    table.append(rows(*range(40)))
    table.append(rows(*range(40), part="b"))
    table.alter(ll.set_option("bucket", "8"))
    files = sorted((tmp_path / "t").rglob("data-*"))
    with pytest.raises(CommitConflict, match=r"another_bucket_count|p=a has files of 4 buckets.*overwrite"):
        table.append(rows(1))
    assert sorted((tmp_path / "t").rglob("data-*")) == files
    table.append(rows(*range(40), part="c"))
    table.overwrite(rows(*range(60)), dynamic=True)
    table.append(rows(*range(60, 80)))
    totals = {(e.partition, e.total_buckets) for e in table.entries()}
    assert sorted(total for _, total in totals) == [4, 8, 8]
    for part, count in (("a", 80), ("b", 40), ("c", 40)):
        for key in range(count):
            where = (ll.col("p") == part) & (ll.col("k") == key)
            assert table.to_arrow(where=where)["k"].to_pylist() == [key]
            assert table.plan(where).file_count < len({e.bucket for e in table.entries()})


def test_an_append_beside_a_rescaling_overwrite(tmp_path: Path) -> None:
    """H13: rows that were appended with the old count stay, so the overwrite that would mix the counts is refused."""
    table = made(tmp_path)
    table.append(rows(1, 2, 3))
    before = table.snapshot()
    old = ll.open_table(table.url)
    table.alter(ll.set_option("bucket", "8"))
    with old._begin() as tx:  # its files have the old count, as those of a job that began before the change
        tx.append(rows(4))
    assert before is not None
    with pytest.raises(CommitConflict, match="4 buckets"):
        table.overwrite(rows(9), partition={"p": "a"}, read_snapshot=before.id)
    assert sorted(table.to_arrow()["k"].to_pylist()) == [1, 2, 3, 4]
    table.overwrite(rows(9), partition={"p": "a"})
    assert table.to_arrow()["k"].to_pylist() == [9]


def test_a_key_that_the_function_does_not_take(tmp_path: Path) -> None:
    """The error names the function; nothing is written."""
    options = {"bucket": "2", "bucket-key": "v", "bucket-function.type": "mod"}
    table = ll.create_table(str(tmp_path / "t"), pa.schema({"v": pa.string()}), options=options)
    with pytest.raises(InvalidArgument, match="mod"):
        table.append(pa.table({"v": ["x"]}))
    assert table.snapshot() is None
