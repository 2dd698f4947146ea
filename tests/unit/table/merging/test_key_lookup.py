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
    "number": (pa.int8(), [-128, -1, 0, 1, 2, 3, 127]),
    "day": (pa.date32(), [-5, 0, 1, 20_000]),
    "hour": (pa.time32("ms"), [0, 1, 86_399_999]),
    "moment": (pa.timestamp("us", "UTC"), [-1, 0, 1]),
}


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_a_key_is_found_if_all_of_its_columns_are_equal(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3))
    key = st.tuples(*(st.sampled_from(VALUES[kind][1]) for kind in kinds))
    wanted, rows = data.draw(st.lists(key, unique=True)), data.draw(st.lists(key))
    if data.draw(st.booleans()) and all(row[0] is not None for row in rows):
        rows.sort(key=lambda row: row[0])  # as in a sorted file

    def columns(keys: list[tuple[Any, ...]]) -> list[Any]:
        return [pa.array([k[i] for k in keys], VALUES[kind][0]) for i, kind in enumerate(kinds)]

    keys = KeySet(columns(wanted))
    expected = [wanted.index(row) if row in wanted else -1 for row in rows]
    assert keys.places(columns(rows)).tolist() == expected
    at, places = keys.find(columns(rows))
    assert [(int(a), int(b)) for a, b in zip(at, places, strict=True)] == [
        (a, b) for a, b in enumerate(expected) if b >= 0
    ]


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


def test_sorted_numbers_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []
    look = KeySet._look_at
    monkeypatch.setattr(
        KeySet, "_look_at", lambda keys, columns: looked_at.append(len(columns[0])) or look(keys, columns)
    )
    rows = [pa.array([n // 2 for n in range(1000)]), pa.array([n % 2 for n in range(1000)])]
    keys = KeySet([pa.array([7, 400, 9000]), pa.array([1, 0, 0])])
    assert [part.tolist() for part in keys.find(rows)] == [[15, 800], [0, 1]]
    assert looked_at == [4], "only the rows whose first number is wanted are looked at"
    backwards = [part.take(pa.array(range(999, -1, -1))) for part in rows]
    assert [part.tolist() for part in keys.find(backwards)] == [[199, 984], [1, 0]]
