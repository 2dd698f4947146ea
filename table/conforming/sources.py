"""What callers may give as rows, as Arrow batches.

Owns: `batches_of`, `can_be_read_again`, how a pandas frame and its index become columns. Must not know: the table's columns.
Invariants: Nothing of a frame is left out: an index with a name is a column. A batch is so small that each of its columns is one
Arrow array, however it is decoded; each of its buffers has an address. An error names the column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from ...core.errors import InvalidArgument
from ...core.rows.sizes import pieces

_WHAT = "pass an Arrow table or batches, or a pandas or polars frame"
_OTHERS = {
    "dict": "pass pyarrow.table(data), or pandas.DataFrame(data)",
    "DataFrame": "write Spark's frames with lakelatch.spark.write(frame, url)",
}


def batches_of(data: Any) -> Iterator[pa.RecordBatch]:
    """Record batches from any supported kind of data.

    Takes pa.Table, pa.RecordBatch, pa.RecordBatchReader, a pandas or polars frame, anything with an Arrow C stream, or an
    iterable of these. `InvalidArgument`: it is something else, or a column, which it names, has no values that Arrow knows.
    """
    for batch in map(_with_addresses, _batches(data)):
        names = batch.schema.names
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InvalidArgument(
                f"the data has two columns with the same name '{twice}'", next_step="rename one of them"
            )
        if batch.num_rows and not names:
            raise InvalidArgument(
                f"the data has {batch.num_rows} rows and no column", next_step="give at least one column of the table"
            )
        if batch.num_rows:
            yield from pieces(batch)
        else:
            yield batch


def _with_addresses(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch whose bytes pyarrow can count.

    Arrow's format allows that lists and texts without any element have no offsets: a buffer without an address, as Java sends
    it. pyarrow 26 reads them all the same when it counts bytes, which ends the process. A copy has addresses.
    """
    if not batch.num_rows:
        return _empty(batch.schema)
    for i, kind in enumerate(batch.schema.types):
        if not (kind.num_fields or isinstance(kind, pa.BaseExtensionType)):  # values of their own have offsets
            continue
        column = batch.column(i)
        if any(buffer is not None and not buffer.address for buffer in column.buffers()):
            batch = batch.set_column(i, batch.schema.field(i), column.take(pa.array(np.arange(len(column)))))
    return batch


def _batches(data: Any) -> Iterator[pa.RecordBatch]:
    library, kind = type(data).__module__.split(".")[0], type(data).__name__
    if isinstance(data, pa.RecordBatch):
        yield data
    elif isinstance(data, pa.Table):
        yield from data.to_batches() or [_empty(data.schema)]
    elif isinstance(data, pa.RecordBatchReader):
        yield from data
    elif library == "pandas" and kind == "DataFrame":
        table = _of_pandas(data)
        yield from table.to_batches() or [_empty(table.schema)]
    elif library == "polars" and kind in ("DataFrame", "LazyFrame"):
        yield from _of_polars(data.collect() if kind == "LazyFrame" else data)
    elif hasattr(data, "__arrow_c_stream__"):
        yield from _stream(data)
    elif (
        isinstance(data, Iterable) and not isinstance(data, (str, bytes, dict)) and library not in ("pandas", "polars")
    ):
        for part in data:
            yield from _batches(part)
    else:
        told = kind if library == "builtins" else f"{library}.{kind}"
        raise InvalidArgument(f"data of type {told} cannot be written", next_step=_OTHERS.get(kind, _WHAT))


def can_be_read_again(data: Any) -> bool:
    """Whether `batches_of(data)` yields the same rows each time. Streams and generators do so only once.

    >>> can_be_read_again([pa.table({"a": [1]})]), can_be_read_again(iter([]))
    (True, False)
    """
    if isinstance(data, (list, tuple)):
        return all(can_be_read_again(part) for part in data)
    library = type(data).__module__.split(".")[0]
    return isinstance(data, (pa.RecordBatch, pa.Table)) or (
        library in ("pandas", "polars") and type(data).__name__ == "DataFrame"
    )


def peeked(data: Any) -> tuple[pa.Schema | None, Any]:
    """The schema of the first batch, None if there is none, and data with the same rows."""
    batches = batches_of(data)
    first = next(batches, None)
    if first is None:
        return None, iter(())
    return first.schema, data if can_be_read_again(data) else chain([first], batches)


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in schema], schema=schema)


def _stream(data: Any) -> pa.RecordBatchReader:
    try:
        return pa.RecordBatchReader.from_stream(data)
    except pa.ArrowException as error:
        raise InvalidArgument(
            f"data of type {type(data).__name__}: Arrow cannot take it: {first_line(error)}",
            next_step="cast its columns to types that Arrow has",
        ) from error


def _of_polars(frame: Any) -> Iterator[pa.RecordBatch]:
    try:
        reader = pa.RecordBatchReader.from_stream(frame)
    except pa.ArrowException as error:
        for name in frame.columns:
            try:
                pa.RecordBatchReader.from_stream(frame.select(name).head(0))
            except pa.ArrowException:
                raise InvalidArgument(
                    f"column '{name}' is of type {frame.schema[name]}, which Arrow does not have",
                    next_step="cast it in the frame, for example to Int64 or a Decimal",
                ) from error
        raise
    objects = [name for name, kind in frame.schema.items() if str(kind) == "Object"]
    if objects:
        raise InvalidArgument(
            f"column '{objects[0]}' holds Python objects, which Arrow does not have", next_step="cast it in the frame"
        )
    if not frame.width and frame.height:
        raise InvalidArgument("the data has rows and no column", next_step="give at least one column of the table")
    yield from reader


# ------------------------------------------------------------------------------------------------------------- pandas


def _of_pandas(frame: Any) -> pa.Table:
    frame = _with_index(frame)
    twice = frame.columns[frame.columns.duplicated()]
    if len(twice):
        raise InvalidArgument(
            f"the data has two columns with the same name '{twice[0]}'", next_step="rename one of them"
        )
    if len(frame) and not len(frame.columns):
        raise InvalidArgument(
            f"the data has {len(frame)} rows and no column", next_step="give at least one column of the table"
        )
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        for name in frame.columns:
            try:
                pa.Table.from_pandas(frame[[name]], preserve_index=False)
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as why:
                raise InvalidArgument(
                    f"column '{name}' of type {frame[name].dtype} has no values that Arrow knows: {first_line(why)}",
                    next_step="give all of its values one type, for example with astype",
                ) from error
        raise InvalidArgument(f"the frame cannot be written: {first_line(error)}", next_step=_WHAT) from error


def _with_index(frame: Any) -> Any:
    """The frame with the levels of its index that have names as columns. Numbers without a name count the rows."""
    index = frame.index
    named = [name for name in index.names if name is not None]
    nameless = len(index.names) - len(named)
    counts = nameless == 1 == len(index.names) and (index.dtype.kind in "iu" or not len(frame))
    if nameless and not counts:
        raise InvalidArgument(
            "the frame has an index with values and without a name, which is no column of a table",
            next_step="name it, as in frame.rename_axis('column'), or leave it out with frame.reset_index(drop=True)",
        )
    for name in named:
        if name in frame.columns and list(index.names).count(name) == 1:
            values = index.get_level_values(name)
            if not values.equals(type(values)(frame[name])):
                raise InvalidArgument(
                    f"the frame has a column and an index with the name '{name}' and other values",
                    next_step="rename one of them",
                )
    return frame.reset_index([name for name in named if name not in frame.columns]) if named else frame


def first_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]
