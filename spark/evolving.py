"""Adds the columns to a table that a frame has and the table lacks (`evolve=True`, option `mergeSchema`).

Owns: which columns are added, and the schema change. Must not know: jobs, commits of rows. Source: format/schema §5.

Invariant: nothing is added if another column of the frame cannot be written, or if a name differs from a column of the table
only in case and the session does not distinguish case.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from pyspark.sql import types as spark

from ..core.errors import InvalidArgument
from ..core.metadata.schemas.changes import add_column
from ..table.conforming.evolving import missing_parts
from ..table.table import Table
from .columns import match_columns
from .types import from_spark_schema

_TRIES = 3


def with_new_columns(
    opened: Callable[[], Table], frame: spark.StructType, filled: Sequence[str] = (), *, tells_case: bool = False
) -> Table:
    """The table, to which the frame's new columns are added as one schema change of their own.

    `InvalidArgument`: a column cannot be written or added; nothing was changed. The frame may omit those of `filled`.
    """
    for last in (False,) * (_TRIES - 1) + (True,):
        table = opened()
        new = new_columns(frame, table.schema.names, tells_case=tells_case)
        given = from_spark_schema(spark.StructType([f for f in frame.fields if f in new.fields or _has_parts(f)]))
        missing = dict(missing_parts(table.schema.fields, given, tells_case=tells_case))
        if not missing:
            break
        growing = {path.partition(".")[0] for path in missing}
        known = spark.StructType([f for f in frame.fields if f.name not in {*new.names, *growing}])
        if known.fields:
            match_columns(known, table.schema, filled)
        try:
            table.alter(*(add_column(path, kind) for path, kind in missing.items()))
            break
        except InvalidArgument:
            if last or len(list(missing_parts(opened().schema.fields, given, tells_case=tells_case))) == len(missing):
                raise  # else another writer has added one of them meanwhile
    return table


def _has_parts(field: spark.StructField) -> bool:
    return isinstance(field.dataType, (spark.StructType, spark.ArrayType, spark.MapType))


def new_columns(frame: spark.StructType, names: Collection[str], *, tells_case: bool) -> spark.StructType:
    folded = {name.lower(): name for name in names}
    new = [f for f in frame.fields if f.name not in names]
    for field in new:
        same = folded.get(field.name.lower())
        if same is not None and not tells_case:
            raise InvalidArgument(
                f"column '{field.name}' of the frame differs from the table's '{same}' only in case, so it is not added",
                next_step=f"rename it to '{same}', or set spark.sql.caseSensitive to true",
            )
    return spark.StructType(new)
