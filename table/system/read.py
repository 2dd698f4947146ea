"""Read a system table by its name.

Owns: the list of system tables, `read_system`, `system_fields`. Must not know: how a table makes its rows.
Source: format/snapshot §6.
Invariants: Each row of the result was tested with the whole predicate. Rows are read as they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from ...core import arguments
from ...core.errors import InvalidArgument
from ...core.expressions.binding import condition_of
from ...core.expressions.evaluate import to_arrow_mask
from ...core.expressions.tree import Comparison, Predicate, columns_of, transformed
from ...core.metadata.schema import TableSchema
from ...core.places import codec_of
from ...core.rows.arrow import arrow_schema
from ...core.rows.partition import PartitionCodec, closest
from ...core.rows.types import Field
from . import files, history, rows
from .definition import SystemTable, View, Wanted
from .texts import partition_spec, partition_text

SYSTEM_TABLES: dict[str, SystemTable] = {t.name: t for t in (*history.TABLES, *files.TABLES, *rows.TABLES)}
MADE_BY_THE_READER = frozenset(t.name for t in history.TABLES)
"""Small tables, whose times are those of the zone of the machine that reads them."""


def system_table(name: str) -> SystemTable:
    """A system table by its name, in any case. If there is none, `InvalidArgument` lists similar ones."""
    found = SYSTEM_TABLES.get(name.lower()) if isinstance(name, str) else None
    if found is None:
        raise InvalidArgument(f"there is no system table {name!r}", next_step=closest(str(name), list(SYSTEM_TABLES)))
    return found


def system_fields(name: str, schema: TableSchema, columns: Sequence[str] | None = None) -> tuple[Field, ...]:
    return _chosen(system_table(name), schema, columns)


def read_system(
    view: View,
    name: str,
    columns: Sequence[str] | None = None,
    where: Predicate | str | None = None,
    limit: int | None = None,
) -> pa.RecordBatchReader:
    """The rows of a system table. `where` may name other columns than `columns`.

    Raises:
        InvalidArgument: there is no such table or column, or the predicate or limit does not fit.
        TableCorrupt: a file that is needed is missing or damaged.
    """
    table = system_table(name)
    limit = None if limit is None else arguments.number_of_rows(limit, "limit", 0)
    fields = table.fields(view.schema)
    output = _chosen(table, view.schema, columns)
    bound = condition_of(where, fields)
    if bound is not None and any(f.name == "partition" for f in fields):
        bound = transformed(bound, lambda leaf: _spelled(leaf, table, codec_of(view.schema)))
    tested = frozenset() if bound is None else columns_of(bound)
    wanted = Wanted(frozenset(f.name for f in output) | tested, bound, tuple(fields))
    batches = _batches(table, view, wanted, [f for f in fields if f.name in tested], output, limit)
    return pa.RecordBatchReader.from_batches(arrow_schema(output), batches)


def _batches(
    table: SystemTable,
    view: View,
    wanted: Wanted,
    tested: Sequence[Field],
    output: Sequence[Field],
    limit: int | None,
) -> Iterator[pa.RecordBatch]:
    left, schema = limit, arrow_schema(output)
    if left == 0:
        return
    for found in table.rows(view, wanted):
        if wanted.where is not None:
            found = found.filter(to_arrow_mask(wanted.where, found.select([f.name for f in tested])))
        if left is not None:
            found = found.slice(0, left)
            left -= found.num_rows
        if not schema.names:
            yield pa.record_batch({"": pa.nulls(found.num_rows)}).select([])
        for batch in found.select(schema.names).to_batches() if schema.names else ():
            yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)
        if left == 0:
            return


def _spelled(leaf: Comparison, table: SystemTable, codec: PartitionCodec) -> Comparison:
    if leaf.column != "partition" or leaf.op not in ("=", "!=", "in") or not codec.fields:
        return leaf
    return replace(leaf, literals=tuple(None if t is None else _own_spelling(t, table, codec) for t in leaf.literals))


def _own_spelling(text: str, table: SystemTable, codec: PartitionCodec) -> str:
    """The name of a whole partition as a table spells it: `{1, a}`, and in table `partitions` `month=1/c=a`."""
    own = partition_spec if table.name == "partitions" else partition_text
    names = [f.name for f in codec.fields]
    in_braces = text[:1] == "{" and text[-1:] == "}"
    if in_braces and own is partition_text:
        return text
    if in_braces and len(values := text[1:-1].split(", ")) == len(names):
        given: dict[str, Any] | str = {n: None if v == "null" else v for n, v in zip(names, values, strict=True)}
    elif "=" not in text and len(names) == 1:
        given = {names[0]: text}
    else:
        given = text
    try:
        found = codec.parse_spec(given)
    except InvalidArgument:
        if own is partition_spec and text.startswith(f"{names[0]}="):
            return text  # it is spelled so already: there, a slash in a value is not escaped
        raise
    if len(found) < len(names):
        raise InvalidArgument(
            f"where: {text!r} names no whole partition",
            next_step=f"write '{'/'.join(f'{name}=…' for name in names)}'; LIKE finds partitions by parts of their names",
        )
    return own(codec, codec.encode([found[name] for name in names]))


def _chosen(table: SystemTable, schema: TableSchema, columns: Sequence[str] | None) -> tuple[Field, ...]:
    fields = table.fields(schema)
    if columns is None:
        return fields
    if isinstance(columns, str):
        raise InvalidArgument(f"columns must be a list of names, not {columns!r}")
    known = {f.name: f for f in fields}
    for name in columns:
        if name not in known:
            raise InvalidArgument(
                f"system table '{table.name}' has no column '{name}'", next_step=closest(str(name), list(known))
            )
    if len(set(columns)) != len(columns):
        raise InvalidArgument(f"a column is named twice: {list(columns)}")
    return tuple(known[name] for name in columns)
