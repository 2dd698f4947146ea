"""-0.0 and 0.0 are equal in every comparison, and two keys to the format."""

from __future__ import annotations

import uuid
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.core.errors import InvalidArgument

ZEROS = pa.schema([("d", pa.float64()), pa.field("k", pa.int32(), False)])
CONDITIONS = ["d = 0.0", "d < 0.0", "d >= 0", "d IN (0.0)", "d <> 0", "d BETWEEN 0 AND 1", "NOT d > 0", "0 = d"]


def made(rows: dict[str, Any], schema: pa.Schema = ZEROS, **about: Any) -> ll.Table:
    table = ll.create_table(f"memory://{uuid.uuid4().hex}/t", schema, **about)
    table.append(pa.table(rows, schema))
    return table


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_condition_finds_the_same_rows_pushed_down_or_computed(condition: str) -> None:
    rows = {"d": [-0.0, 0.0, 1.0, -1.0], "k": [1, 2, 3, 4]}
    found = []
    for text in (condition, f"{condition} OR k + 0 = 9", condition.replace("d", "(d + 0)")):
        table = made(rows)
        kept = table.to_arrow(where=text).num_rows
        assert table.update(where=text, set={"k": "k + 10"}).rows_updated == kept, text
        assert table.delete(where=text).rows_deleted == kept, text
        found.append(kept)
    assert len(set(found)) == 1


@pytest.mark.parametrize("more", [False, True])
def test_a_merge_on_a_value_updates_the_row_with_the_other_zero(more: bool) -> None:
    table = made({"d": [-0.0], "k": [1]})
    source = pa.table({"d": [5.0], "k": pa.array([1], pa.int32())})
    merge = table.merge(source, "t.k = s.k AND t.d = 0.0").when_matched_update_all().when_not_matched_insert_all()
    (merge.when_not_matched_by_source_delete("t.k = 99") if more else merge).execute()
    assert table.to_arrow().to_pylist() == [{"d": 5.0, "k": 1}]


def test_the_two_zeros_are_two_keys_and_a_condition_finds_both() -> None:
    schema = pa.schema([pa.field("d", pa.float64(), False), ("v", pa.int32())])
    table = made({"d": [0.0, -0.0], "v": [1, 2]}, schema, primary_key=["d"], options={"bucket": "4"})
    table.upsert(pa.table({"d": [-0.0, 7.0], "v": [3, 4]}, schema))
    assert sorted(table.to_arrow(where="d = 0")["v"].to_pylist()) == [1, 3]
    with pytest.raises(InvalidArgument, match="part of the primary key"):
        table.update(where="v = 1", set={"d": "- d"})
    assert table.update(where="d = -0.0", set={"v": "v + 10"}).rows_updated == 2
    assert table.delete(where="d < 0.0").rows_deleted == 0
    assert sorted(table.to_arrow()["v"].to_pylist()) == [4, 11, 13]


def test_the_two_zeros_are_two_partitions_and_a_condition_finds_both() -> None:
    table = made({"d": [0.0, -0.0, 1.0], "k": [1, 2, 3]}, partition_by=["d"])
    assert table.partitions().num_rows == 3
    assert sorted(table.to_arrow(where="d = 0.0")["k"].to_pylist()) == [1, 2]
    assert table.plan("d <= -0.0").file_count == 2
    assert table.delete(where="d = -0.0 AND k > 1").rows_deleted == 1
