"""Convert the caller's rows to the table's columns and types.

Owns: accepting data in any Arrow-like form, matching columns by name, casting without loss, and the errors for values that do
not fit. Must not know: files, partitions. Source: architecture §5 (columns are matched by name), format/schema §1 (defaults).
Invariants: A value is stored exactly or refused, never cut. An error names the column and the value. No Python code runs per row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import timezone
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ...core.errors import InvalidArgument
from ...core.rows.arrow import arrow_schema, to_arrow
from ...core.rows.literals import coerce_literal
from ...core.rows.types import MAX_LENGTH, AtomicType, Field
from ...core.rows.values import to_arrow_scalar
from .required import with_required_parts

BATCH_ROWS = 1 << 20
_DECIMAL_NOISE = 1e-12
"""The largest relative difference between a decimal number and the double that it stands for."""


def batches_of(data: Any) -> Iterator[pa.RecordBatch]:
    """Record batches from any supported kind of data.

    Args:
        data: pa.Table, pa.RecordBatch, pa.RecordBatchReader, a pandas or polars frame, anything with an Arrow C stream,
            or an iterable of batches or tables.
    """
    if isinstance(data, pa.RecordBatch):
        yield data
    elif isinstance(data, pa.Table):
        yield from data.to_batches()
    elif isinstance(data, pa.RecordBatchReader):
        yield from data
    elif type(data).__module__.split(".")[0] == "pandas":
        yield from pa.Table.from_pandas(data, preserve_index=False).to_batches()
    elif hasattr(data, "__arrow_c_stream__"):
        yield from pa.RecordBatchReader.from_stream(data)
    elif isinstance(data, Iterable) and not isinstance(data, (str, bytes, dict)):
        for part in data:
            yield from batches_of(part)
    else:
        raise InvalidArgument(
            f"data of type {type(data).__name__} cannot be written",
            next_step="pass an Arrow table or batches, or a data frame",
        )


def can_be_read_again(data: Any) -> bool:
    """Whether `batches_of(data)` yields the same rows each time. Streams and generators do so only once.

    >>> can_be_read_again([pa.table({"a": [1]})]), can_be_read_again(iter([]))
    (True, False)
    """
    if isinstance(data, (list, tuple)):
        return all(can_be_read_again(part) for part in data)
    frame = type(data).__module__.split(".")[0] in ("pandas", "polars") and hasattr(data, "columns")
    return isinstance(data, (pa.RecordBatch, pa.Table)) or frame


class Conformer:
    """Makes batches fit a table's columns.

    Args:
        fields: the table's columns.

    >>> from ...core.rows.types import string
    >>> conformer = Conformer((Field(0, "a", AtomicType("BIGINT")), Field(1, "b", string())))
    >>> conformer(pa.record_batch({"a": pa.array([1], pa.int8())})).to_pylist()
    [{'a': 1, 'b': None}]
    """

    def __init__(self, fields: Sequence[Field]) -> None:
        self.fields = tuple(fields)
        self.schema = arrow_schema(fields)
        self._known = {f.name for f in fields}

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with the table's columns, in the table's order and types.

        Raises:
            InvalidArgument: the table lacks a column of the batch, a required column is missing, or a value does not fit.
        """
        names = batch.schema.names
        unknown = [name for name in names if name not in self._known]
        if unknown:
            raise InvalidArgument(
                f"the table has no column {unknown[0]!r}", next_step=f"its columns are {sorted(self._known)}"
            )
        if len(set(names)) != len(names):
            raise InvalidArgument("the data has two columns with the same name")
        columns = [self._column(batch, f) for f in self.fields]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _column(self, batch: pa.RecordBatch, field: Field) -> pa.Array:
        index = batch.schema.get_field_index(field.name)
        target = to_arrow(field.type)
        if index < 0:
            array = with_required_parts(pa.nulls(batch.num_rows, target), target, field.name)
        else:
            array = fitted(batch.column(index), field, target)
        if array.null_count and field.default_value is not None:
            array = pc.fill_null(array, _default(field, target))
        if array.null_count and not field.type.nullable:
            what = "is missing" if index < 0 else f"has {array.null_count} nulls"
            raise InvalidArgument(f"column {field.name!r} {what}, but it is NOT NULL")
        return array


def _default(field: Field, target: pa.DataType) -> pa.Scalar:
    value = coerce_literal(field.default_value, field.type, f"default of column {field.name!r}", timezone.utc)
    return to_arrow_scalar(value, field.type, target)


def fitted(array: pa.Array, field: Field, target: pa.DataType) -> pa.Array:
    """An array cast to a column's type, with every value kept exactly.

    Raises:
        InvalidArgument: a value does not fit; names the column and the value.
    """
    array = with_required_parts(array, target, field.name)
    if array.type != target:
        given = array
        try:
            array = pc.cast(array, target, safe=True)
        except pa.ArrowException as error:
            raise InvalidArgument(
                f"column {field.name!r}: {_first_line(error)}", next_step=f"its type is {target}"
            ) from error
        _check_kept(given, array, field)
        array = with_required_parts(array, target, field.name)  # only the cast gave it the column's shape
    if isinstance(field.type, AtomicType) and field.type.length and field.type.length != MAX_LENGTH:
        _check_length(array, field, field.type)
    return array


def _check_kept(given: pa.Array, made: pa.Array, field: Field) -> None:
    """Refuse casts for which Arrow changes the value without an error: infinities, times of day, numbers to booleans."""
    kinds = pa.types
    if kinds.is_dictionary(given.type):
        given = given.dictionary_decode()
    source, target = given.type, made.type
    if kinds.is_floating(target):
        known = pc.is_inf(given) if kinds.is_floating(source) else pa.scalar(False)
        lost = pc.and_not(pc.is_inf(made), known)
    elif kinds.is_floating(source) and kinds.is_decimal(target):
        off = pc.abs(pc.subtract(made.cast(pa.float64()), given.cast(pa.float64())))
        lost = pc.greater(off, pc.multiply(pc.abs(given.cast(pa.float64())), _DECIMAL_NOISE))
    elif kinds.is_timestamp(source) and kinds.is_date(target):
        local = given if source.tz is None else pc.local_timestamp(given)
        lost = pc.not_equal(made.cast(local.type), local)
    elif kinds.is_timestamp(source) and kinds.is_time(target):
        lost = pc.is_valid(given)
    elif kinds.is_boolean(target) and (kinds.is_integer(source) or kinds.is_floating(source)):
        lost = pc.not_equal(made.cast(source), given)
    else:
        return
    first = pc.index(pc.fill_null(lost, False), True).as_py()
    if first >= 0:
        raise InvalidArgument(f"column {field.name!r}: {given[first]} does not fit {target}")


def _first_line(error: Exception) -> str:
    return re.sub(r"\s+", " ", str(error)).strip()[:200]


def _check_length(array: pa.Array, field: Field, data_type: AtomicType) -> None:
    is_text = pa.types.is_string(array.type)
    lengths = pc.utf8_length(array) if is_text else pc.binary_length(array)
    too_long = pc.index(pc.fill_null(pc.greater(lengths, data_type.length), False), True).as_py()
    if too_long >= 0:
        value = array[too_long].as_py()
        unit = "characters" if is_text else "bytes"
        raise InvalidArgument(f"column {field.name!r}: {value!r} is longer than its {data_type.length} {unit}")
