"""Rows as a pandas frame in which no value is changed.

Owns: `pandas_frame`. Must not know: tables, files.
Invariant: without a choice of the caller, whole numbers stay whole numbers where there are nulls, and NaN and null stay apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from ...core.errors import InvalidArgument

Backend = Literal["numpy_nullable", "pyarrow"]


def pandas_frame(
    rows: pa.Table, types_mapper: Callable[[pa.DataType], Any] | None = None, dtype_backend: Backend | None = None
) -> Any:
    """The rows as a frame; `types_mapper` is as in `pyarrow.Table.to_pandas`, `dtype_backend` as in `pandas.read_parquet`.

    >>> pandas_frame(pa.table({"id": [2**53 + 1, None]})).dtypes["id"]
    Int64Dtype()
    """
    import pandas

    if types_mapper is not None and dtype_backend is not None:
        raise InvalidArgument("to_pandas takes types_mapper or dtype_backend, not both")
    if not (types_mapper is None or callable(types_mapper)):
        raise InvalidArgument(
            f"types_mapper is {types_mapper!r}", next_step="pass a function, such as the get of a dict"
        )
    if dtype_backend not in (None, "numpy_nullable", "pyarrow"):
        raise InvalidArgument(f"dtype_backend {dtype_backend!r}", next_step="use 'numpy_nullable' or 'pyarrow'")
    if dtype_backend == "pyarrow":
        types_mapper = pandas.ArrowDtype
    elif dtype_backend is not None:
        types_mapper = _nullable
    if types_mapper is not None:
        return rows.to_pandas(types_mapper=types_mapper)
    changing = [name for name, column in zip(rows.column_names, rows.columns, strict=True) if _would_change(column)]
    if not changing:
        return rows.to_pandas()
    kept = rows.select(changing).to_pandas(types_mapper=_lossless)
    return pandas.concat([rows.drop_columns(changing).to_pandas(), kept], axis=1)[rows.column_names]


def _lossless(t: pa.DataType) -> Any:
    """Whole numbers with nulls as pandas' own type; the rest as Arrow's, since pandas 3 takes NaN for a null in its own."""
    import pandas

    return (pa.types.is_integer(t) and _nullable(t)) or pandas.ArrowDtype(t)


def _nullable(t: pa.DataType) -> Any:
    import pandas

    if pa.types.is_integer(t):
        return pandas.api.types.pandas_dtype(str(t).replace("uint", "UInt") if str(t)[0] == "u" else str(t).title())
    return {
        pa.float32(): pandas.Float32Dtype(),
        pa.float64(): pandas.Float64Dtype(),
        pa.bool_(): pandas.BooleanDtype(),
        pa.string(): pandas.StringDtype(),
    }.get(t)


def _would_change(array: Any) -> bool:
    """Would pandas' usual type make fractions of whole numbers, or nulls of NaN, at any depth?"""
    t = array.type
    if pa.types.is_integer(t):
        return bool(array.null_count)
    if pa.types.is_floating(t):
        return bool(array.null_count) and bool(pc.any(pc.is_nan(array)).as_py())
    if not t.num_fields:
        return False
    if isinstance(array, pa.ChunkedArray):
        return any(map(_would_change, array.chunks))
    if pa.types.is_map(t):
        return any(map(_would_change, (array.keys, array.items)))
    return any(map(_would_change, array.flatten() if pa.types.is_struct(t) else [array.flatten()]))
