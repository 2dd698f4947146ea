"""A pandas frame has the values of the table."""

from __future__ import annotations

import math
import uuid

import pandas as pd
import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.core.errors import InvalidArgument

BIG = 2**53 + 1


@pytest.fixture
def table() -> ll.Table:
    rows = pa.table(
        {
            "whole": pa.array([BIG, 2, 3], pa.int64()),
            "gaps": pa.array([BIG, None, 3], pa.int64()),
            "small": pa.array([1, None, 3], pa.int8()),
            "both": pa.array([math.nan, None, 1.0]),
            "fractions": pa.array([1.5, None, 1.0]),
            "lists": pa.array([[BIG, None], None, []], pa.list_(pa.int64())),
            "text": ["a", None, "c"],
            "flag": [True, None, False],
        }
    )
    table = ll.create_table(f"memory://{uuid.uuid4().hex}/t", rows.schema)
    table.append(rows)
    return table


def test_no_value_is_changed(table: ll.Table) -> None:
    frame = table.to_pandas()
    assert list(frame.columns) == table.arrow_schema.names
    assert (frame["gaps"][0], frame["gaps"].dtype, frame["small"].dtype) == (BIG, "Int64", "Int8")
    assert frame["whole"].dtype == "int64" and frame["fractions"].dtype == "float64"
    assert frame["both"].isna().tolist() == [False, True, False] and frame["both"][2] == 1.0
    assert next(iter(frame["lists"][0])) == BIG
    back = ll.create_table(f"memory://{uuid.uuid4().hex}/t", table.arrow_schema)
    back.append(frame)
    found, given = back.to_arrow(), table.to_arrow()
    assert found.drop_columns("both") == given.drop_columns("both")
    assert found.column("both").null_count == 1 and math.isnan(found.column("both")[0].as_py())


def test_the_caller_chooses(table: ll.Table) -> None:
    assert isinstance(table.to_pandas(dtype_backend="pyarrow")["text"].dtype, pd.ArrowDtype)
    nullable = table.to_pandas(["whole", "flag", "text", "fractions"], dtype_backend="numpy_nullable")
    assert [str(t) for t in nullable.dtypes] == ["Int64", "boolean", "string", "Float64"]
    mapped = table.to_pandas(["whole"], types_mapper={pa.int64(): pd.UInt64Dtype()}.get)
    assert str(mapped.dtypes["whole"]) == "UInt64"
    with pytest.raises(InvalidArgument, match="not both"):
        table.to_pandas(dtype_backend="pyarrow", types_mapper=lambda t: None)
    with pytest.raises(InvalidArgument, match="use 'numpy_nullable' or 'pyarrow'"):
        table.to_pandas(dtype_backend="numpy")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([{"a": BIG}, {"a": None}]),
        pa.array([{"a": BIG}, None]),
        pa.array([[("k", BIG), ("l", None)]], pa.map_(pa.string(), pa.int64())),
        pa.array([[{"a": BIG}, {"a": None}]]),
        pa.array([{"a": [BIG, None]}]),
        pa.array([[[BIG, None]]]),
    ],
    ids=str,
)
def test_numbers_inside_of_values_are_not_changed(values: pa.Array) -> None:
    rows = pa.table({"x": values})
    table = ll.create_table(f"memory://{uuid.uuid4().hex}/t", rows.schema)
    table.append(rows)
    assert str(BIG) in str(table.to_pandas()["x"].tolist())
    assert pa.Table.from_pandas(table.to_pandas()).column("x").to_pylist() == values.to_pylist()
