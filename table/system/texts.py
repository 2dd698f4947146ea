"""Rows, bounds and counts as Apache Paimon's system tables print them.

Owns: `{1, a}` for partitions, `[1, a]` for keys, `{a=1, b=null}` for statistics; types; the order of Java's HashMap.
Must not know: files, stores. Source: format/binary-row §3; format/statistics §1; format/schema §5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...core.casts.columns import Cast, CastFailure
from ...core.casts.rules import cast_of
from ...core.metadata.schema import TableSchema
from ...core.rows.partition import PartitionCodec, is_blank, plain_text
from ...core.rows.stored_columns import StoredRows, object_texts
from ...core.rows.types import (
    ArrayType,
    AtomicType,
    DataType,
    Field,
    MapType,
    MultisetType,
    RowType,
    sql,
    with_nullable,
)
from ...core.typed import Array

_NOT_BOUNDED = ("VARIANT", "BLOB", "GEOMETRY", "GEOGRAPHY")
_HASH_BITS = 0xFFFFFFFF


# ---------------------------------------------------------------------------------------------------------- partitions


def partition_text(codec: PartitionCodec, partition: bytes) -> str:
    """A partition as `{1, a}`; `{}` in a table without partitions."""
    values = zip(codec.decode(partition), codec.fields, strict=True)
    return "{" + ", ".join("null" if v is None else plain_text(v, f) for v, f in values) + "}"


def partition_spec(codec: PartitionCodec, partition: bytes) -> str:
    """A partition as `k=v/k2=v2`, without the escapes of a path."""
    parts = []
    for value, field in zip(codec.decode(partition), codec.fields, strict=True):
        text = codec.default_name if value is None else plain_text(value, field)
        parts.append(f"{field.name}={codec.default_name if is_blank(text) else text}")
    return "/".join(parts)


# ---------------------------------------------------------------------------------------------------- keys and bounds


def grouped_texts(size: int, labels: Sequence[Any], make: Callable[[Array], pa.Array]) -> pa.Array:
    """Texts of rows, made group by group: `make` gets the positions of rows that have equal integers in all `labels`."""
    if not size:
        return pa.array([], pa.string())
    which = np.zeros(size, np.int64)
    for label in labels:
        values = np.asarray(label, np.int64)
        if (values != values[0]).any():  # mostly all files are alike
            known, places = np.unique(values, return_inverse=True)
            which = which * len(known) + places.reshape(-1)
    if (which == which[0]).all():
        return make(np.arange(size))
    order = np.argsort(which, kind="stable")
    begins = np.flatnonzero(np.r_[True, which[order][1:] != which[order][:-1]])
    parts = [make(order[a:b]) for a, b in zip(begins, np.r_[begins[1:], len(order)], strict=True)]
    return pa.concat_arrays(parts).take(pa.array(np.argsort(order)))


def arities(rows: pa.Array) -> Array:
    return np.frombuffer(pc.binary_slice(rows, 0, 4).cast(pa.binary(4)).buffers()[1], ">i4", len(rows))


def key_texts(rows: pa.Array, schema: TableSchema, arity: int) -> pa.Array:
    """Keys as `[1, a]`; null for a row without fields, which means that there is no key."""
    names = schema.trimmed_primary_keys
    fields = [schema.by_name[name] for name in names] if names else list(schema.fields)
    if not arity:
        return pa.nulls(len(rows), pa.string())
    stored = StoredRows(rows, arity, "field _MIN_KEY or _MAX_KEY")
    texts = [object_texts(stored.column(i, f.type), f.type) for i, f in enumerate(fields[:arity])]
    return _joined("[", [("", text) for text in texts], "]", len(rows))


class BoundsLayout:
    """How the statistics of some files are printed: which of their values belongs to which column of the table.

    Args:
        written: the schema of the files, which may not be that of the table.
        columns: the columns that have statistics (`_VALUE_STATS_COLS`), or those that the files have; None for all.
        partial: the files have no other columns than these, so that no others are printed.
        arity: the number of values that the bounds have.
    """

    def __init__(
        self, table: TableSchema, written: TableSchema, columns: Sequence[str] | None, arity: int, partial: bool = False
    ) -> None:
        by_id = {f.id: i for i, f in enumerate(written.fields)}
        places = [by_id.get(f.id, -1) for f in table.fields]
        self._is_same = table.id == written.id or places == list(range(len(places)))
        count = min(arity, len(table.fields)) if self._is_same and columns is None else len(table.fields)
        fields = list(zip(table.fields[:count], places, strict=False))
        self._arity = arity
        self._parts: list[tuple[str, Field, Field | None, int]] = []
        for field, place in sorted(fields, key=lambda pair: pair[0].name.encode("utf-16-be", "surrogatepass")):
            source = written.fields[place] if place >= 0 else None
            at = place if columns is None or source is None else _index(columns, source.name)
            if partial and at < 0:
                continue
            self._parts.append((field.name, field, source, at))

    def bounds(self, rows: pa.Array) -> pa.Array:
        stored = StoredRows(rows, self._arity, "field _VALUE_STATS")
        texts = [(name, self._bound(stored, field, source, at, len(rows))) for name, field, source, at in self._parts]
        return _joined("{", [(f"{name}=", text) for name, text in texts], "}", len(rows))

    def _bound(self, stored: StoredRows, field: Field, source: Field | None, at: int, size: int) -> pa.Array:
        if source is None or not 0 <= at < self._arity or not _has_bounds(source.type):
            return pa.nulls(size, pa.string())
        array, kind = stored.column(at, source.type), source.type
        if with_nullable(kind, True) != with_nullable(field.type, True):
            cast = (
                cast_of(kind, field.type)
                if isinstance(kind, AtomicType) and isinstance(field.type, AtomicType)
                else None
            )
            if cast is None:
                return pa.nulls(size, pa.string())
            array, kind = _cast_bounds(cast, array), field.type
        return object_texts(array, kind)

    def null_counts(self, counts: pa.Array, row_counts: pa.Array) -> pa.Array:
        """The numbers of nulls as `{a=0, b=null}`. A column that the files lack has as many as they have rows."""
        texts = []
        for name, _, source, at in self._parts:
            found = row_counts if source is None and not self._is_same else _element(counts, at)
            texts.append((f"{name}=", found.cast(pa.string())))
        return _joined("{", texts, "}", len(counts))


def _cast_bounds(cast: Cast, bounds: pa.Array) -> pa.Array:
    """Bounds as another type; null where that cannot be, as for texts of which the statistics have the beginning only."""
    try:
        return cast(bounds)
    except (CastFailure, OverflowError):
        pass
    encoded = bounds.dictionary_encode()
    made = []
    for i in range(len(encoded.dictionary)):
        try:
            made.append(cast(encoded.dictionary.slice(i, 1)))
        except (CastFailure, OverflowError):
            made.append(pa.nulls(1, cast(encoded.dictionary.slice(0, 0)).type))
    return pa.concat_arrays(made).take(encoded.indices)


def _index(columns: Sequence[str], name: str) -> int:
    return columns.index(name) if name in columns else -1


def _has_bounds(kind: DataType) -> bool:
    return isinstance(kind, AtomicType) and kind.root not in _NOT_BOUNDED


def _element(lists: pa.Array, index: int) -> pa.Array:
    """One element of each list; null where the list is null or shorter."""
    lengths = np.asarray(pc.fill_null(pc.list_value_length(lists), 0))
    there = (lengths > index) & (index >= 0)
    if not there.any():
        return pa.nulls(len(lists), pa.int64())
    offsets = np.asarray(lists.offsets)[:-1]
    return lists.values.take(pa.array(np.where(there, offsets + index, 0), mask=~there))


def _joined(begin: str, parts: Sequence[tuple[str, pa.Array]], end: str, size: int) -> pa.Array:
    pieces: list[Any] = []
    for number, (label, texts) in enumerate(parts):
        pieces += [(", " if number else begin) + label, pc.fill_null(texts, "null")]
    if not pieces:
        return pa.repeat(pa.scalar(begin + end), size)
    return pc.binary_join_element_wise(*pieces, end, "")


# --------------------------------------------------------------------------------------------------------------- Java


def java_sql(kind: DataType) -> str:
    """A type as Java prints it: as SQL, with the names of a ROW's fields in backticks."""
    match kind:
        case RowType(fields=fields):
            text = "ROW<" + ", ".join(map(_field_sql, fields)) + ">"
        case ArrayType(element=element):
            text = f"ARRAY<{java_sql(element)}>"
        case MultisetType(element=element):
            text = f"MULTISET<{java_sql(element)}>"
        case MapType(key=key, value=value):
            text = f"MAP<{java_sql(key)}, {java_sql(value)}>"
        case _:
            return sql(kind)
    return text if kind.nullable else f"{text} NOT NULL"


def _field_sql(field: Field) -> str:
    name = field.name.replace("`", "``")
    text = f"`{name}` {java_sql(field.type)}"
    if field.description:
        quoted = field.description.replace("'", "''")
        text += f" COMMENT '{quoted}'"
    return text if field.default_value is None else f"{text} DEFAULT {field.default_value}"


def in_hash_order(names: Iterable[str]) -> list[str]:
    """Texts in the order in which Java's HashMap gives them, after they were put into it one by one.

    >>> in_hash_order(["bucket", "a", "file.format"])
    ['bucket', 'a', 'file.format']
    """
    known = list(dict.fromkeys(names))
    size = 16
    while len(known) > size * 3 // 4:
        size *= 2
    return sorted(known, key=lambda name: _spread(name) & (size - 1))


def _spread(text: str) -> int:
    data, code = text.encode("utf-16-be", "surrogatepass"), 0
    for i in range(0, len(data), 2):
        code = (31 * code + (data[i] << 8 | data[i + 1])) & _HASH_BITS
    return code ^ code >> 16
