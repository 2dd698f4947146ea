"""Dynamic buckets: hashes get the buckets that Apache Paimon's row-by-row assigner gives them, and keep them."""

from __future__ import annotations

from itertools import count, islice

import numpy as np
import pytest

from lakelatch.core.errors import InvalidArgument, TableCorrupt
from lakelatch.core.metadata.hash_index import decode_hashes, encode_hashes
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.metadata.schemas.bucket_mode import BucketMode, bucket_mode
from lakelatch.core.rows.binary.hash_buckets import HashBuckets, HashSet, assigner_of
from lakelatch.core.rows.types import Field, parse_atomic
from lakelatch.core.typed import Array


def ints(*values: int) -> Array:
    return np.array(values, np.int32)


class RowByRow:
    """The rule as Apache Paimon's `PartitionIndex` states it, one hash at a time."""

    def __init__(self, known: dict[int, Array], target: int, most: int, assigners: int) -> None:
        self.bucket_of = {int(h): b for b, hashes in known.items() for h in hashes}
        self.counts = {b: len(hashes) for b, hashes in known.items()}
        self.target, self.most, self.assigners = target, most, assigners

    def assign(self, hash_: int) -> int | None:
        """The bucket; None where Apache Paimon picks a full one by chance."""
        if hash_ in self.bucket_of:
            return self.bucket_of[hash_]
        assigner = (5 % self.assigners + abs(hash_) % self.assigners) % self.assigners
        own = [b for b in sorted(self.counts) if b % self.assigners == assigner]
        free = [b for b in own if self.counts[b] < self.target]
        named = count() if self.most == -1 else range(self.most)
        free += islice((b for b in named if b not in self.counts and b % self.assigners == assigner), 1)
        if not free:
            return None
        self.bucket_of[hash_] = free[0]
        self.counts[free[0]] = self.counts.get(free[0], 0) + 1
        return free[0]


@pytest.mark.parametrize("assigners", [1, 3])
@pytest.mark.parametrize("most", [-1, 7])
def test_as_one_row_after_the_other(most: int, assigners: int) -> None:
    """Batches of any size give what Apache Paimon's rule gives row by row, below the limit of buckets."""
    dice = np.random.default_rng(7 + most + assigners)
    for _ in range(20):
        pool = dice.integers(-(2**31), 2**31, 60, np.int64).astype(np.int32)
        target = int(dice.integers(1, 9))
        first = np.unique(pool[:12])
        known = {b: first[np.arange(len(first)) % 3 == b] for b in range(3)}
        fast = HashBuckets(known, target=target, most=most, assigners=assigners, partition_hash=-5)
        slow = RowByRow(known, target, most, assigners)
        asked: set[int] = set()
        for size in dice.integers(0, 30, 6):
            hashes = dice.choice(pool, size)
            expected = []
            for hash_ in hashes:
                expected.append(slow.assign(int(hash_)))
                if expected[-1] is None:
                    break
            if None in expected:
                break
            assert fast.assign(hashes).tolist() == expected
            asked.update(hashes.tolist())
        else:
            for bucket in range(20):
                before = set(known.get(bucket, ints()).tolist())
                new = {h for h, b in slow.bucket_of.items() if b == bucket} - before
                assert set(fast.new_in(bucket).tolist()) == new
                used = {h for h, b in slow.bucket_of.items() if b == bucket} & asked
                assert set(fast.used_in(bucket).tolist()) == used


def test_a_full_table_uses_its_buckets() -> None:
    """At the limit of buckets new hashes go to full ones, and two writers choose the same."""
    known = {0: ints(1, 2), 1: ints(3, 4)}
    one, two = (HashBuckets(known, target=2, most=2) for _ in range(2))
    hashes = np.arange(100, 400, dtype=np.int32)
    assert set(one.assign(hashes).tolist()) == {0, 1}
    assert one.assign(hashes).tolist() == two.assign(hashes[::-1])[::-1].tolist()
    assert one.assign(ints(1, 4)).tolist() == [0, 1]


def test_limits_that_cannot_be() -> None:
    with pytest.raises(InvalidArgument, match=r"dynamic-bucket\.max-buckets' = 0"):
        HashBuckets({}, target=1, most=0)
    with pytest.raises(InvalidArgument, match=r"dynamic-bucket\.target-row-num' = 0"):
        HashBuckets({}, target=0)
    with pytest.raises(InvalidArgument, match="initial-buckets"):
        HashBuckets({}, target=1, most=1, assigners=2).assign(ints(1))
    with pytest.raises(InvalidArgument, match="more than 32767 buckets"):
        HashBuckets({}, target=1).assign(np.arange(40_000, dtype=np.int32))


def test_runs_of_a_set_stay_few() -> None:
    """Many small batches cost a few copies of each hash, and find what one dictionary finds."""
    found = HashSet()
    hashes = np.random.default_rng(1).permutation(20_000).astype(np.int32) - 10_000
    for number, part in enumerate(np.array_split(hashes, 200)):
        found.add(np.sort(part), np.full(len(part), number, np.int32))
    assert len(found) == 20_000
    assert len(found._runs) <= 15
    assert (found.find(hashes) == np.repeat(np.arange(200), 100)).all()
    assert found.find(ints(20_000, -20_000)).tolist() == [-1, -1]
    assert found.where(3).tolist() == sorted(np.array_split(hashes, 200)[3].tolist())


def test_an_assigner_for_each_hash() -> None:
    """Java's remainder has the sign of the dividend; the smallest int has no absolute value there."""
    hashes = ints(-(2**31), -1, 0, 1, 2**31 - 1)
    assert assigner_of(-5, hashes, 3).tolist() == [(5 % 3 + abs(h) % 3) % 3 for h in hashes.tolist()]


def test_index_files_of_hashes() -> None:
    hashes = ints(0, -1, 2**31 - 1, -(2**31))
    data = encode_hashes(hashes)
    assert data.hex() == "00000000ffffffff7fffffff80000000"
    assert decode_hashes(data, 4, "f").tolist() == hashes.tolist()
    with pytest.raises(TableCorrupt, match=r"f holds 15 bytes, .*_ROW_COUNT.* = 4 needs 16"):
        decode_hashes(data[:-1], 4, "f")


def test_the_mode_of_a_table() -> None:
    fields = [Field(0, "p", parse_atomic("INT")), Field(1, "k", parse_atomic("INT"))]

    def mode(bucket: int, *keys: str, **more: str) -> BucketMode:
        options = {"bucket": str(bucket), **more}
        return bucket_mode(new_schema(fields, partition_keys=["p"], primary_keys=keys, options=options))

    assert mode(-1) is BucketMode.UNAWARE
    assert mode(-1, "p", "k") is BucketMode.DYNAMIC
    assert mode(-1, "k") is BucketMode.CROSS_PARTITION
    assert mode(-2, "p", "k") is BucketMode.POSTPONE
    assert mode(3, "p", "k") is BucketMode.FIXED
