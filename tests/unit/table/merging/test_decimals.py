"""Decimals as whole numbers of their smallest unit: also of a column without rows."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from lakelatch.table.merging.aggregates.decimals import decimal_array, decimal_units

MONEY = pa.decimal128(10, 2)
ROWS = pa.array([Decimal("1.50"), None], MONEY)


EMPTY = {
    "new": pa.array([], MONEY),
    "the end": ROWS.slice(2),
    "the middle": ROWS.slice(1, 0),
    "without memory, as other libraries may give it": pa.Array.from_buffers(MONEY, 0, [None, None]),
}


@pytest.mark.parametrize("empty", EMPTY.values(), ids=EMPTY)
def test_a_column_without_rows_has_no_units(empty: pa.Array) -> None:
    """They are Python's numbers all the same, so that nothing that is computed from them is rounded."""
    units = decimal_units(empty)
    assert (units.shape, units.dtype) == ((0,), np.dtype(object))
    assert decimal_array(units, np.zeros(0, bool), MONEY).equals(pa.array([], MONEY))


def test_a_part_of_a_column_has_the_units_of_its_rows() -> None:
    assert decimal_units(ROWS.slice(1)).tolist() == [0]
    assert decimal_units(ROWS.slice(0, 1)).tolist() == [150]
