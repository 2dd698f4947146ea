"""Values that do not fit into a column are refused by name, also where Arrow would cast them without an error."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakelatch.core.errors import InvalidArgument
from lakelatch.core.rows.types import AtomicType, Field
from lakelatch.table.conforming.conform import Conformer

MORNING = datetime(2020, 1, 1, 3)


def conformed(data_type: AtomicType, values: pa.Array) -> list[Any]:
    made = Conformer((Field(0, "a", data_type),))(pa.record_batch({"a": values}))
    return list(made.column(0).to_pylist())


@pytest.mark.parametrize(
    ("data_type", "values", "value"),
    [
        (AtomicType("FLOAT"), pa.array([1.5, 1e300]), "1e"),
        (AtomicType("DATE"), pa.array([None, MORNING]), "2020-01-01 03:00"),
        (AtomicType("DATE"), pa.array([MORNING], pa.timestamp("ms", "Europe/Berlin")), "Europe/Berlin"),
        (AtomicType("TIME", precision=0), pa.array([MORNING]), "takes no values of type timestamp"),
        (AtomicType("BOOLEAN"), pa.array([0, 1]), "takes no values of type int64"),
        (AtomicType("BIGINT"), pa.array([True]), "takes no values of type bool"),
        (AtomicType("DECIMAL", precision=4, scale=2), pa.array([1.23, 1.234]), "1.234"),
        (AtomicType("INT"), pa.array([1.5]), "1.5"),
        (AtomicType("DATE"), pa.array([MORNING]).dictionary_encode(), "2020-01-01 03:00"),
    ],
)
def test_a_value_that_would_be_cut_is_named(data_type: AtomicType, values: pa.Array, value: str) -> None:
    with pytest.raises(InvalidArgument, match=f"column 'a'.*{value}"):
        conformed(data_type, values)


@pytest.mark.parametrize(
    ("data_type", "values", "expected"),
    [
        (AtomicType("FLOAT"), pa.array([0.5, float("inf"), None]), [0.5, float("inf"), None]),
        (AtomicType("DATE"), pa.array([datetime(2020, 1, 1), None]), [date(2020, 1, 1), None]),
        (AtomicType("BOOLEAN"), pa.array(["true", "0", None]), [True, False, None]),
        (
            AtomicType("DECIMAL", precision=9, scale=2),
            pa.array([1.1, -1234567.89, None]),
            ["1.10", "-1234567.89", None],
        ),
    ],
)
def test_a_value_that_fits_is_kept(data_type: AtomicType, values: pa.Array, expected: list[Any]) -> None:
    assert conformed(data_type, values) == [Decimal(v) if isinstance(v, str) else v for v in expected]
