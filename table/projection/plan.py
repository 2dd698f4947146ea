"""Plan how files with one schema are read as another schema. One plan serves all files with the same schema.

Owns: matching fields by id, also nested ones; finding the leaves of a file that are needed.
Must not know: stores, footers, splits. Source: format/data-files §5.

Invariants: Ids decide which column of a file is which, because the name of a dropped column may be used again for another one.
Names only locate a column inside the file. A field that the file's schema lacks is null. A result has exactly the Arrow type of
the schema that is read. Only `type_changes` decides which type changes can be read; all others are `Unsupported`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from ...core.casts.columns import CastFailure
from ...core.casts.texts import nested_text
from ...core.errors import InvalidArgument, TableCorrupt, Unsupported
from ...core.rows.arrow import to_arrow
from ...core.rows.types import (
    TIMESTAMP_ROOTS,
    ArrayType,
    AtomicType,
    DataType,
    Field,
    MapType,
    MultisetType,
    RowType,
    VectorType,
    sql,
    with_nullable,
)
from ...core.typed import assert_never
from .physical import Misfit, OutOfRange, leaf, list_of, map_of, struct_of, vector_of
from .type_changes import can_change, changed

_MICRO_DIGITS = 6

# --------------------------------------------------------------------------------------------------------- the plan


@dataclass(frozen=True, slots=True)
class Absent:
    arrow: Any


@dataclass(frozen=True, slots=True)
class Atomic:
    """A value without parts, with type `source` in the file and `target` in the result."""

    source: AtomicType
    target: AtomicType
    arrow: Any


@dataclass(frozen=True, slots=True)
class Row:
    """A ROW, with the name in the file of each field of the result; None if the file lacks it."""

    parts: tuple[tuple[str | None, Node], ...]
    arrow: Any


@dataclass(frozen=True, slots=True)
class Repeated:
    element: Node
    arrow: Any


@dataclass(frozen=True, slots=True)
class Pairs:
    key: Node
    value: Node
    arrow: Any


@dataclass(frozen=True, slots=True)
class Text:
    """An ARRAY, MAP or ROW of type `source` that is read as text."""

    inner: Node
    source: DataType
    target: AtomicType
    arrow: Any


Node = Absent | Atomic | Row | Repeated | Pairs | Text


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """How one column of the result is made; `source` is its name in the file, None if the file's schema lacks it."""

    field: Field
    source: str | None
    node: Node


@dataclass(frozen=True)
class ProjectionPlan:
    """Converts columns of a file's schema to columns of the schema that is read (see `plan_projection`)."""

    columns: tuple[ColumnPlan, ...]
    written: tuple[Field, ...] = ()

    @cached_property
    def _by_name(self) -> dict[str, ColumnPlan]:
        return {column.field.name: column for column in self.columns}

    @property
    def needs_nanos(self) -> bool:
        """Does a column have more than six digits of the second, so that INT96 must be read as nanoseconds?"""
        leaves = (leaf for column in self.columns for leaf in leaves_of(column.node))
        return any(leaf.root in TIMESTAMP_ROOTS and leaf.precision > _MICRO_DIGITS for leaf in leaves)

    def keeps(self, schema: pa.Schema) -> bool:
        """Are all columns of the result those of a batch with this schema as they are, or nulls?"""
        return all(
            isinstance(c.node, Absent)
            or (
                (isinstance(c.node, Atomic) and c.node.source == c.node.target)
                and ((at := schema.get_field_index(c.source)) < 0 or schema.field(at).type == c.node.arrow)
            )
            for c in self.columns
        )

    def sources(self, names: Iterable[str]) -> set[str]:
        """The columns of the file of which some columns of the result are made. Names of other columns have none."""
        found = (self._by_name[name].source for name in names if name in self._by_name)
        return {source for source in found if source is not None}

    def leaves(self, file_schema: Any) -> list[int]:
        """The indices of the leaf columns that are needed of a Parquet file with this schema."""
        wanted = {c.source: c.node for c in self.columns if c.source is not None}
        found: list[int] = []
        first = 0
        for column in file_schema:
            if column.name in wanted:
                found.extend(_needed(wanted[column.name], column.type, first))
            first += _leaf_count(column.type)
        return found

    def column(self, name: str, batch: pa.RecordBatch, where: str) -> Any:
        """A column of the result, from those of a file, under its names; a missing one is read as null.

        Raises:
            TableCorrupt: the file's data does not agree with its schema; names the file and the column.
            InvalidArgument: a text cannot be cast to the column's current type.
            Unsupported: a time does not fit into Arrow's nanoseconds.
        """
        column = self._by_name[name]
        index = -1 if column.source is None else batch.schema.get_field_index(column.source)
        if index < 0:
            return pa.nulls(batch.num_rows, to_arrow(column.field.type))
        try:
            return _convert(column.node, batch.column(index))
        except CastFailure as error:
            raise InvalidArgument(
                f"{where}: column '{column.source}' became '{name}' with another type: {error}",
                next_step="Apache Paimon cannot read it either: change the type back, or leave the column out",
            ) from error
        except (OutOfRange, OverflowError) as error:
            raise Unsupported(
                f"{where}: column '{column.source}' holds a value that Arrow's {column.node.arrow} cannot hold: {error}",
                next_step="leave the column out",
            ) from error
        except (Misfit, pa.ArrowException) as error:  # Arrow's own exceptions: a map with a null key
            raise TableCorrupt(f"{where}: column '{column.source}' is not {sql(column.field.type)}: {error}") from error


def plan_projection(file_fields: Sequence[Field], read_fields: Sequence[Field], where: str = "file") -> ProjectionPlan:
    """Plan how files with one schema are read as another.

    `Unsupported`: a column's type was changed, and Apache Paimon has no cast between the types; names the column and both.

    >>> from ...core.rows.types import string
    >>> plan = plan_projection([Field(0, "a", AtomicType("INT"))], [Field(1, "a", string()), Field(0, "b", AtomicType("BIGINT"))])
    >>> batch = pa.record_batch({"a": pa.array([1], pa.int32())})
    >>> [str(plan.column(name, batch, "file").type) for name in ("a", "b")]
    ['string', 'int64']
    """
    by_id = {f.id: f for f in file_fields}
    columns = []
    for field in read_fields:
        source = by_id.get(field.id)
        if source is None:
            columns.append(ColumnPlan(field, None, Absent(to_arrow(field.type))))
        else:
            node = _node(source.type, field.type, f"column '{field.name}'", where)
            columns.append(ColumnPlan(field, None if isinstance(node, Absent) else source.name, node))
    return ProjectionPlan(tuple(columns), tuple(file_fields))


def _node(source: DataType, target: DataType, column: str, where: str) -> Node:
    arrow = to_arrow(target)
    match target:
        case AtomicType() if isinstance(source, AtomicType) and can_change(source, target):
            return Atomic(source, target, arrow)
        case AtomicType(root="CHAR" | "VARCHAR") if not isinstance(source, AtomicType) and nested_text(source):
            return Text(_node(source, source, column, where), source, target, arrow)
        case RowType(fields=fields) if isinstance(source, RowType):
            return _row(source, fields, arrow, column, where)
        case ArrayType(element=element) if isinstance(source, ArrayType):
            items = _node(source.element, element, f"{column}.element", where)
            return Absent(arrow) if isinstance(items, Absent) else Repeated(items, arrow)
        case VectorType(element=element, length=length) if isinstance(source, VectorType) and source.length == length:
            return Repeated(_node(source.element, element, f"{column}.element", where), arrow)
        case MultisetType(element=element) if isinstance(source, MultisetType):
            count = AtomicType("INT", nullable=False)
            return Pairs(
                _node(source.element, element, f"{column}.key", where), Atomic(count, count, to_arrow(count)), arrow
            )
        case MapType(key=key, value=value) if isinstance(source, MapType):
            # The keys of a map cannot change their type (format/data-files §5), except for NOT NULL.
            keys = _node(source.key, key, f"{column}.key", where)
            values = _node(source.value, value, f"{column}.value", where)
            return Absent(arrow) if isinstance(values, Absent) else Pairs(keys, values, arrow)
    raise Unsupported(
        f"{column} changed its type from {sql(with_nullable(source, True))} to {sql(with_nullable(target, True))}: {where} has"
        " the old type, and there is no cast between them",
        next_step="read the other columns, or snapshots with the old schema",
    )


def _row(source: RowType, fields: Sequence[Field], arrow: Any, column: str, where: str) -> Node:
    by_id = {f.id: f for f in source.fields}
    parts: list[tuple[str | None, Node]] = []
    for field in fields:
        old = by_id.get(field.id)
        if old is None:
            parts.append((None, Absent(to_arrow(field.type))))
        else:
            node = _node(old.type, field.type, f"{column}.{field.name}", where)
            parts.append((None if isinstance(node, Absent) else old.name, node))
    if all(name is None for name, _ in parts):
        return Absent(arrow)  # none of its fields is left, so it is null, as in Apache Paimon
    return Row(tuple(parts), arrow)


# ------------------------------------------------------------------------------------------------------- conversions


def _convert(node: Node, array: Any) -> Any:
    match node:
        case Absent(arrow=arrow):
            return pa.nulls(len(array), arrow)
        case Atomic(source=source, target=target):
            return changed(leaf(array, source), source, target)
        case Text(inner=inner, source=source):
            as_text = nested_text(source)
            assert as_text is not None
            return as_text(_convert(inner, array))
        case Row(parts=parts, arrow=arrow):
            if not pa.types.is_struct(array.type):
                raise Misfit(f"it holds {array.type}")
            return struct_of(array, [_part(array, name, part) for name, part in parts], arrow)
        case Repeated(element=element, arrow=arrow):
            make = vector_of if pa.types.is_fixed_size_list(arrow) else list_of
            return make(array, arrow, lambda values: _convert(element, values))
        case Pairs(key=key, value=value, arrow=arrow):
            return map_of(array, arrow, lambda keys: _convert(key, keys), lambda values: _convert(value, values))
        case _:
            assert_never(node)


def _part(array: Any, name: str | None, node: Node) -> Any:
    index = -1 if name is None else array.type.get_field_index(name)
    return pa.nulls(len(array), node.arrow) if index < 0 else _convert(node, array.field(index))


# ------------------------------------------------------------------------------------------------------------- leaves


def _needed(node: Node, arrow_type: Any, first: int) -> Iterator[int]:
    """The indices of the needed leaves of a column of the file. `first` is the index of the column's first leaf."""
    kinds = pa.types
    if isinstance(node, Row) and kinds.is_struct(arrow_type):
        wanted = {name: part for name, part in node.parts if name is not None}
        found = False
        for part in arrow_type:
            if part.name in wanted:
                found = True
                yield from _needed(wanted[part.name], part.type, first)
            first += _leaf_count(part.type)
        if not found:  # a leaf is still needed for the column's own nulls
            yield first - 1
    elif isinstance(node, Text):
        yield from _needed(node.inner, arrow_type, first)
    elif isinstance(node, Repeated) and (kinds.is_list(arrow_type) or kinds.is_large_list(arrow_type)):
        yield from _needed(node.element, arrow_type.value_type, first)
    elif isinstance(node, Pairs) and kinds.is_map(arrow_type):
        keys = _leaf_count(arrow_type.key_type)
        yield from range(first, first + keys)
        yield from _needed(node.value, arrow_type.item_type, first + keys)
    else:
        yield from range(first, first + _leaf_count(arrow_type))


def _leaf_count(arrow_type: Any) -> int:
    if isinstance(arrow_type, pa.BaseExtensionType):
        return _leaf_count(arrow_type.storage_type)
    if pa.types.is_dictionary(arrow_type) or not pa.types.is_nested(arrow_type):
        return 1
    return sum(_leaf_count(arrow_type.field(i).type) for i in range(arrow_type.num_fields))


def leaves_of(node: Node) -> Iterator[AtomicType]:
    match node:
        case Atomic(source=source):
            yield source
        case Row(parts=parts):
            for _, part in parts:
                yield from leaves_of(part)
        case Repeated(element=inner) | Text(inner=inner):
            yield from leaves_of(inner)
        case Pairs(key=key, value=value):
            yield from leaves_of(key)
            yield from leaves_of(value)
        case _:
            return
