"""The rows of a source in one batch with plain types, which expressions can compare and combine.

Owns: `source_batch`. Must not know: what is done with the rows. Invariant: every row is there, however many bytes a column has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from ...core.errors import InvalidArgument
from ...core.rows.types import Field
from ...core.rows.whole import whole
from .plain import plain
from .rules import check_type
from .sources import batches_of
from .values import stored


def source_batch(data: Any, fields: Sequence[Field] = ()) -> pa.RecordBatch:
    """The rows of a source as one batch, read once. `InvalidArgument`: it has no columns, or its parts have other columns."""
    batches = list(batches_of(data))
    schema = None if batches else getattr(data, "schema", None)
    if isinstance(schema, pa.Schema):
        batches = [pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in schema], schema=schema)]
    if not batches or not batches[0].schema.names:
        raise InvalidArgument("the source has no rows and no columns", next_step="pass a table, which has a schema")
    names = batches[0].schema.names
    for batch in batches:
        if sorted(batch.schema.names) != sorted(names):
            raise InvalidArgument(
                f"the parts of the source have other columns: {names} and {batch.schema.names}",
                next_step="give all parts the same columns",
            )
    by_name = {f.name: f for f in fields}
    columns = [_column([batch.column(name) for batch in batches], name, by_name) for name in names]
    return pa.RecordBatch.from_arrays(columns, names=names)


def _column(chunks: Sequence[Any], name: str, by_name: Mapping[str, Field]) -> Any:
    field = by_name.get(name)
    made = [plain(stored(chunk, None if field is None else field.type)) for chunk in chunks]
    types = dict.fromkeys(chunk.type for chunk in made if not pa.types.is_null(chunk.type))
    if len(types) > 1:
        told = " and ".join(str(t) for t in types)
        raise InvalidArgument(f"column '{name}' of the source is of types {told}", next_step="give all parts one type")
    found = next(iter(types), pa.null())
    rows = sum(map(len, made))
    if field is not None and rows and sum(chunk.null_count for chunk in made) == rows:
        try:
            check_type(found, field.type, name)
        except InvalidArgument:
            return pa.nulls(rows)  # there is no value whose type matters
    return whole([chunk if chunk.type == found else chunk.cast(found) for chunk in made], found)
