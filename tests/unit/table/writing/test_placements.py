"""Where rows go: dynamic buckets by their index, keys that move between partitions, rows that are set aside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.core.errors import Unsupported
from lakelatch.core.metadata.data_file import PartitionBucket
from lakelatch.core.metadata.hash_index import decode_hashes
from lakelatch.core.metadata.schema import TableSchema, new_schema
from lakelatch.core.metadata.schemas.merge_rules import merge_rules
from lakelatch.core.places import codec_of
from lakelatch.core.rows.binary.binary_row import row_bytes
from lakelatch.core.rows.binary.hash_buckets import HashBuckets
from lakelatch.core.rows.bucket import key_hashes, murmur_hash
from lakelatch.core.rows.types import Field, parse_atomic
from lakelatch.table.writing.buckets import cross_partition
from lakelatch.table.writing.buckets.cross_partition import CrossPartition
from lakelatch.table.writing.buckets.dynamic_buckets import DynamicBuckets
from lakelatch.table.writing.buckets.placement import FixedBuckets, Placement, by_place
from lakelatch.table.writing.buckets.postponed import (
    PostponedBuckets,
    SettledBuckets,
    postponed_prefix,
    postponed_schema,
)
from lakelatch.table.writing.writer import TableWriter

KINDS = ("+I", "-U", "+U", "-D")
ROWS = pa.schema([("_VALUE_KIND", pa.int8()), ("p", pa.int32()), ("k", pa.int32()), ("v", pa.int64())])


def schema_of(*keys: str, **options: str) -> TableSchema:
    fields = [
        Field(i, name, parse_atomic(t)) for i, (name, t) in enumerate([("p", "INT"), ("k", "INT"), ("v", "BIGINT")])
    ]
    named = {name.replace("__", ".").replace("_", "-"): text for name, text in options.items()}
    return new_schema(fields, partition_keys=["p"], primary_keys=keys, options=named)


def batch_of(rows: Iterable[tuple[str, int, int, int]]) -> pa.RecordBatch:
    found = [dict(zip(ROWS.names, (KINDS.index(kind), *row), strict=True)) for kind, *row in rows]
    return pa.RecordBatch.from_pylist(found, schema=ROWS)


def placed(placement: Placement, *batches: pa.RecordBatch) -> dict[PartitionBucket, list[tuple[Any, ...]]]:
    """The rows of each place, as tuples in order."""
    found: dict[PartitionBucket, list[tuple[Any, ...]]] = {}
    parts = [part for batch in batches for part in placement.place(batch)]
    for place, rows in [*parts, *placement.rest()]:
        assert rows.num_rows
        found.setdefault(place, []).extend(
            (KINDS[row["_VALUE_KIND"]], row["p"], row["k"], row["v"]) for row in rows.to_pylist()
        )
    return found


def partition(value: int) -> bytes:
    return codec_of(schema_of("p", "k")).encode((value,))


# ----------------------------------------------------------------------------------------------------- dynamic buckets


def test_rows_of_dynamic_buckets() -> None:
    """Known keys stay, new ones fill buckets in the order in which they come; the commit is told of all and of new hashes."""
    schema = schema_of("p", "k", dynamic_bucket__target_row_num="3")
    hashes = key_hashes([pa.array([1, 2, 3, 4, 5], pa.int32())], [parse_atomic("INT")])
    asked: list[bytes] = []

    def known(of: bytes) -> Any:
        asked.append(of)
        return ({4: hashes[:2]}, frozenset({"index-1"})) if of == partition(7) else ({}, frozenset())

    buckets = DynamicBuckets(schema, known)
    rows = [("+I", 7, k, i) for i, k in enumerate((5, 1, 3, 5, 4, 2))] + [("+I", 8, 1, 9), ("-D", 7, 1, 10)]
    found = placed(buckets, batch_of(rows[:3]), batch_of(rows[3:]))
    assert {place: [r[2:] for r in part] for place, part in found.items()} == {
        (partition(7), 4): [(5, 0), (1, 1), (5, 3), (2, 5), (1, 10)],
        (partition(7), 0): [(3, 2), (4, 4)],
        (partition(8), 0): [(1, 9)],
    }
    assert sorted(asked) == [partition(7), partition(8)], "an index was read twice"
    told = buckets.hashes((partition(7), 4))
    assert told is not None and told.read == {"index-1"}
    assert set(decode_hashes(told.all, 3, "").tolist()) == set(hashes[[0, 1, 4]].tolist())
    assert decode_hashes(told.new, 1, "").tolist() == [hashes[4]]
    assert buckets.total_buckets(partition(7)) == -1


def test_initial_buckets_divide_new_keys() -> None:
    """With `dynamic-bucket.initial-buckets` the first rows already go to that many buckets, in every process alike."""
    schema = schema_of("p", "k", dynamic_bucket__initial_buckets="4")
    rows = batch_of([("+I", 1, k, 0) for k in range(100)])
    whole = placed(DynamicBuckets(schema, lambda _: ({}, frozenset())), rows)
    assert {bucket for _, bucket in whole} == {0, 1, 2, 3}
    one = DynamicBuckets(schema, lambda _: ({}, frozenset()))
    for place, part in placed(one, rows.slice(50)).items():
        assert set(part) <= set(whole[place])


@pytest.mark.parametrize("assigners", [None, 1, 3])
def test_which_bucket_a_new_key_gets_follows_from_its_hash_and_that_of_its_partition(assigners: int | None) -> None:
    """The same in every process, and at most as many buckets as the option allows."""
    schema = schema_of("p", "k", dynamic_bucket__initial_buckets="2", dynamic_bucket__target_row_num="5")
    hashes = key_hashes([pa.array(range(60), pa.int32())], [parse_atomic("INT")])
    for part in (1, 2, 77):
        of_partition = murmur_hash(row_bytes([part], [parse_atomic("INT")]))
        expected = HashBuckets({}, target=5, most=-1, assigners=assigners or 2, partition_hash=of_partition)
        buckets = DynamicBuckets(schema, lambda _: ({}, frozenset()), assigners=assigners)
        found = placed(buckets, batch_of([("+I", part, k, 0) for k in range(60)]))
        chosen = {row[2]: bucket for (_, bucket), rows in found.items() for row in rows}
        assert [chosen[k] for k in range(60)] == expected.assign(hashes).tolist()
        assert len(set(chosen.values())) >= 12
    limited = schema_of("p", "k", dynamic_bucket__max_buckets="2", dynamic_bucket__target_row_num="5")
    found = placed(DynamicBuckets(limited, lambda _: ({}, frozenset())), batch_of([("+I", 1, k, 0) for k in range(60)]))
    assert {bucket for _, bucket in found} == {0, 1}


def test_what_each_way_of_choosing_buckets_tells_the_commit() -> None:
    """How many buckets a partition has, for the manifest; only keys of dynamic buckets have an index. No row is held back."""
    crossing, postponed = schema_of("k"), schema_of("p", "k", bucket="-2", postpone__default_bucket_num="3")
    rules = merge_rules(crossing)
    assert rules is not None
    ways: list[tuple[Placement, int]] = [
        (CrossPartition(crossing, rules, stored_as({})), -1),
        (PostponedBuckets(postponed), -2),
        (SettledBuckets(postponed, {}.get), 3),
        (FixedBuckets(schema_of("p", "k", bucket="4")), 4),
        (FixedBuckets(schema_of()), -1),
    ]
    for way, total in ways:
        assert way.total_buckets(partition(1)) == total and way.hashes((partition(1), 0)) is None
        assert list(way.rest()) == [] == list(way.place(batch_of([])))
        assert sum(map(len, placed(way, batch_of([("+I", 1, 5, 0), ("+I", 2, 6, 0)])).values())) == 2
    dynamic = DynamicBuckets(schema_of("p", "k"), lambda _: ({}, frozenset({"index-9"})))
    assert dynamic.total_buckets(partition(1)) == -1 and list(dynamic.rest()) == []
    ((place, _),) = dynamic.place(batch_of([("+I", 1, 5, 0)]))
    told = dynamic.hashes(place)
    assert told is not None and told.read == {"index-9"} and told.all == told.new != b""


# ---------------------------------------------------------------------------------------------------- cross partition


class RowByRow:
    """Apache Paimon's `GlobalIndexAssigner`, one row at a time; a row that deletes goes only to where its key is."""

    def __init__(self, engine: str, at: dict[int, int]) -> None:
        self.engine, self.at, self.out = engine, dict(at), list[tuple[str, int, int, int]]()

    def write(self, kind: str, p: int, k: int, v: int) -> None:
        old = self.at.get(k)
        if self.engine == "deduplicate":
            if kind in ("-U", "-D"):
                self.out.append((kind, p if old is None else old, k, v))
                return
            if old is not None and old != p:
                self.out.append(("-D", old, k, v))
            self.at[k] = p
        elif old is None:
            self.at[k] = p
        elif old != p and self.engine == "first-row":
            return
        else:
            p = old
        self.out.append((kind, p, k, v))


def stored_as(at: dict[int, int]) -> Callable[[], Iterator[tuple[PartitionBucket, pa.RecordBatch]]]:
    def stored() -> Iterator[tuple[PartitionBucket, pa.RecordBatch]]:
        for p in sorted(set(at.values())):
            keys = [k for k, where in at.items() if where == p]
            yield (partition(p), 5), pa.record_batch({"k": pa.array(keys, pa.int32())})

    return stored


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "aggregation", "first-row"])
@pytest.mark.parametrize("held", [0, 1 << 30])
def test_keys_that_move_between_partitions(engine: str, held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random rows: what is written where is what one row after the other gives, whether rows are held back or not."""
    monkeypatch.setattr(cross_partition, "HELD_BYTES", held)
    schema = schema_of("k", merge_engine=engine)
    rules = merge_rules(schema)
    assert rules is not None
    dice = np.random.default_rng(11)
    for _ in range(12):
        at = {int(k): int(dice.integers(3)) for k in dice.choice(12, 6, replace=False)}
        model = RowByRow(engine, at)
        kinds = KINDS if engine == "deduplicate" else ("+I",)
        batches = []
        for _ in range(3):
            rows = [
                (
                    kinds[int(dice.integers(len(kinds)))],
                    int(dice.integers(3)),
                    int(dice.integers(12)),
                    int(dice.integers(99)),
                )
                for _ in range(int(dice.integers(1, 12)))
            ]
            for row in rows:
                model.write(*row)
            batches.append(batch_of(rows))
        found = placed(CrossPartition(schema, rules, stored_as(at)), *batches)
        for p in range(3):
            written = [row for (where, _), part in found.items() if where == partition(p) for row in part]
            assert {row[1] for row in written} <= {p}
            for k in range(12):
                assert [r for r in written if r[2] == k] == [r for r in model.out if r[1:3] == (p, k)], (p, k)
                buckets = {
                    b for (where, b), part in found.items() if where == partition(p) and any(r[2] == k for r in part)
                }
                assert len(buckets) <= 1
                if buckets and at.get(k) == p:
                    assert buckets == {5}, "a key left its bucket"


def test_new_keys_of_a_partition_fill_buckets() -> None:
    schema = schema_of("k", dynamic_bucket__target_row_num="4")
    rules = merge_rules(schema)
    assert rules is not None
    rows = [("+I", 1, k, k) for k in range(100, 109)]
    found = placed(CrossPartition(schema, rules, stored_as({0: 1, 1: 1})), batch_of(rows))
    assert {b: [r[2] for r in part] for (_, b), part in found.items()} == {
        5: [100, 101], 0: [102, 103, 104, 105], 1: [106, 107, 108],
    }  # fmt: skip


def test_the_rows_of_a_place_come_at_once_and_in_their_order() -> None:
    """Whether their keys are stored there, in however many batches, or are new in it."""
    schema = schema_of("k", dynamic_bucket__target_row_num="100")
    rules = merge_rules(schema)
    assert rules is not None

    def stored() -> Iterator[tuple[PartitionBucket, pa.RecordBatch]]:
        for key in range(4):
            yield (partition(key % 2), 0), pa.record_batch({"k": pa.array([key], pa.int32())})

    placement = CrossPartition(schema, rules, stored)
    for turn in range(2):
        rows = [("+I", k % 2, k, 10 * turn + k) for k in (3, 8, 0, 1, 6, 2, 9, 7)]
        list(placement.place(batch_of(rows)))
        found = [(place, [tuple(row.values())[1:] for row in part.to_pylist()]) for place, part in placement.rest()]
        assert sorted(place for place, _ in found) == [(partition(0), 0), (partition(1), 0)]
        for (where, _), part in found:
            assert part == [row[1:] for row in rows if partition(row[1]) == where]


def test_no_order_by_a_column_across_partitions() -> None:
    schema = schema_of("k", sequence__field="v")
    rules = merge_rules(schema)
    assert rules is not None
    with pytest.raises(Unsupported, match=r"sequence\.field' = v"):
        CrossPartition(schema, rules, stored_as({}))


# ---------------------------------------------------------------------------------------------------------- postponed


def test_rows_that_are_set_aside() -> None:
    rows = [("+I", 1, 5, 0), ("+I", 2, 5, 1), ("-D", 1, 5, 2), ("+I", 1, 4, 3)]
    placement = PostponedBuckets(schema_of("p", "k", bucket="-2"))
    found = placed(placement, batch_of(rows))
    assert found == {(partition(1), -2): [rows[0], rows[2], rows[3]], (partition(2), -2): [rows[1]]}
    assert placement.total_buckets(partition(1)) == -2


def test_postponed_rows_in_the_buckets_that_a_partition_has() -> None:
    schema = schema_of("p", "k", bucket="-2", postpone__default_bucket_num="3")
    rows = batch_of([("+I", p, k, 0) for p in (1, 2) for k in range(40)])
    placement = SettledBuckets(schema, {partition(2): 2}.get)
    found = placed(placement, rows)
    assert {place[1] for place in found if place[0] == partition(1)} == {0, 1, 2}
    assert {place[1] for place in found if place[0] == partition(2)} == {0, 1}
    fixed = placed(FixedBuckets(schema_of("p", "k", bucket="2")), rows.slice(40))
    assert {place: part for place, part in found.items() if place[0] == partition(2)} == fixed
    assert placement.total_buckets(partition(2)) == 2


def test_a_job_puts_all_rows_of_a_partition_into_one_number_of_buckets() -> None:
    """Also if others settle the partition meanwhile with another number, or give it its first buckets."""
    schema = schema_of("p", "k", bucket="-2", postpone__default_bucket_num="3")
    counts: dict[bytes, int | None] = {partition(2): 2}
    asked: list[bytes] = []

    def count_of(of: bytes) -> int | None:
        asked.append(of)
        return counts.get(of)

    placement = SettledBuckets(schema, count_of)
    rows = batch_of([("+I", p, k, 0) for p in (1, 2) for k in range(40)])
    first = placed(placement, rows)
    counts |= {partition(1): 7, partition(2): 5}
    assert placed(placement, rows) == first
    assert [placement.total_buckets(partition(p)) for p in (1, 2)] == [3, 2]
    assert sorted(asked) == [partition(1), partition(2)], "the number was looked for twice"


def test_files_that_are_set_aside() -> None:
    """Avro without statistics; a table that Avro cannot hold keeps its format. Names cannot be taken apart wrongly."""
    changed = postponed_schema(schema_of("p", "k", bucket="-2"))
    assert changed.option_texts["file.format"] == "avro" and changed.option_texts["metadata.stats-mode"] == "none"
    fields = [Field(0, "k", parse_atomic("INT")), Field(1, "m", parse_atomic("VARIANT"))]
    kept = new_schema(fields, primary_keys=["k"], options={"bucket": "-2"})
    assert postponed_schema(kept).option_texts == kept.option_texts
    assert postponed_prefix("data-", "writer-pk_postpone", 1687680939) == "data--u-writer-pk_postpone-s-1687680939-w-"
    assert postponed_prefix("data-", "../a-s-b", 1) == "data--u-.._a_b-s-1-w-"


def test_one_bucket_of_another_engine_needs_no_key() -> None:
    """Old releases of Apache Paimon made tables of one bucket by default."""
    table = ll.create_table("memory://placements/one-bucket", pa.schema([("k", pa.int32())]))
    schema = replace(table.schema, option_texts={"bucket": "1"})
    table.store.put("schema/schema-0", schema.to_json())
    table = ll.open_table(table.url)
    table.append(pa.table({"k": [1, 2]}))
    assert [(e.bucket, e.total_buckets) for e in table.entries()] == [(0, 1)] and table.count() == 2
    table.store.put("schema/schema-0", replace(schema, option_texts={"bucket": "2"}).to_json())
    with pytest.raises(Unsupported, match="does not name the columns that choose the bucket"):
        ll.open_table(table.url).append(pa.table({"k": [3]}))


def test_rows_without_partitions_or_buckets() -> None:
    codec = codec_of(new_schema([Field(0, "k", parse_atomic("INT"))]))
    batch = pa.record_batch({"k": pa.array([1, 2], pa.int32())})
    ((place, rows),) = by_place(codec, batch, None)
    assert place == (codec.encode(()), 0) and rows.num_rows == 2
    assert list(by_place(codec, batch.slice(2), np.empty(0, np.int32))) == []


@pytest.mark.parametrize(("bucket", "feature"), [("-1", "dynamic buckets"), ("-2", "postponed buckets")])
def test_a_writer_that_is_not_told_of_buckets_refuses_the_table(bucket: str, feature: str) -> None:
    """Tasks of a job that cannot read the index must not choose buckets by themselves."""
    with pytest.raises(Unsupported, match=feature):
        TableWriter(MemoryStore("memory://not-told/t"), schema_of("p", "k", bucket=bucket), "job")
