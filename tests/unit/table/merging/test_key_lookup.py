"""Keys are found among many rows, column by column."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakelatch.table.merging.key_lookup import KeySet

VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int": (pa.int32(), [None, -1, 0, 7]),
    "text": (pa.string(), [None, "", "a", "é"]),
    "decimal": (pa.decimal128(20, 2), [None, 1, 2]),
    "time": (pa.timestamp("us"), [None, 0, 1_700_000_000_000_000]),
    "bytes": (pa.binary(), [b"", b"\x00"]),
    "flag": (pa.bool_(), [None, True, False]),
}


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_a_key_is_found_if_all_of_its_columns_are_equal(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3))
    key = st.tuples(*(st.sampled_from(VALUES[kind][1]) for kind in kinds))
    wanted, rows = data.draw(st.lists(key, unique=True)), data.draw(st.lists(key))

    def columns(keys: list[tuple[Any, ...]]) -> list[Any]:
        return [pa.array([k[i] for k in keys], VALUES[kind][0]) for i, kind in enumerate(kinds)]

    found = KeySet(columns(wanted)).places(columns(rows))
    assert found.tolist() == [wanted.index(row) if row in wanted else -1 for row in rows]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_floats_are_keys_as_apache_paimon_compares_them(kind: pa.DataType) -> None:
    nan = float("nan")
    wanted = KeySet([pa.array([nan, 0.0, None, 1.5], kind)])
    assert wanted.places([pa.array([-0.0, nan, 1.5, 0.0, None], kind)]).tolist() == [-1, 0, 3, 1, 2]


def test_many_columns_with_many_values_do_not_overflow() -> None:
    count = 1 << 12
    columns = [pa.array(range(i, count + i)) for i in range(7)]
    assert KeySet(columns).places([c.slice(5, 3) for c in columns]).tolist() == [5, 6, 7]


def test_no_key_is_found_among_none() -> None:
    assert KeySet([pa.array([], pa.int64())]).places([pa.array([1, None])]).tolist() == [-1, -1]
