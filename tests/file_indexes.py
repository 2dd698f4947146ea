"""File indexes made and opened in memory.

Owns: the way from a column to its index and back. Must not know: what is asked of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyroaring import BitMap

from lakelatch.core.expressions.tree import Predicate
from lakelatch.core.file_index.asking import IndexedColumn, asked_of
from lakelatch.core.file_index.container import parse_container
from lakelatch.core.file_index.options import IndexSpec
from lakelatch.core.file_index.reading import FileIndex
from lakelatch.core.file_index.writing import FileIndexBuilder
from lakelatch.core.rows.arrow import to_arrow
from lakelatch.core.rows.types import AtomicType, Field
from lakelatch.core.rows.values import to_arrow_array


def spec(kind: str, data_type: AtomicType, name: str = "c", **options: str) -> IndexSpec:
    """An index of a column; options with `_` for `-`."""
    return IndexSpec(kind, name, None, data_type, {key.replace("_", "-"): text for key, text in options.items()})


def built(specs: Sequence[IndexSpec], table: pa.Table, cuts: int = 1) -> bytes:
    """The container of a table's indexes, its rows given in several batches."""
    builder = FileIndexBuilder(specs)
    step = max(1, -(-table.num_rows // cuts))
    for start in range(0, table.num_rows, step):
        builder.add(table.slice(start, step))
    return builder.finish()


def opened(data: bytes, rows: int) -> FileIndex:
    """The indexes of a file of so many rows, called "data file f" in errors."""
    return FileIndex(lambda a, b: data[a:b], len(data), rows, "data file f")


def columns_of_file(fields: Sequence[Field]) -> Mapping[str, IndexedColumn]:
    """Columns that are asked for as they are in the file."""
    return {f.name: IndexedColumn(f.name, f.type) for f in fields if isinstance(f.type, AtomicType)}


def answer(index: FileIndex, where: Predicate, columns: Mapping[str, IndexedColumn]) -> BitMap | None:
    """The rows that an index leaves for a bound predicate; None for all."""
    asked = asked_of(where, columns)
    return None if asked is None else index.rows(asked)


def column(values: list[Any], data_type: AtomicType) -> pa.Table:
    """A table of one column `c`, values in the form of `core.rows.values`."""
    return pa.table({"c": to_arrow_array(values, data_type, to_arrow(data_type))})


def parsed(data: bytes) -> dict[str, dict[str, bytes]]:
    """The bytes of each index of a container, by column and kind."""
    found = parse_container(lambda a, b: data[a:b], len(data), "f")
    return {n: {k: b.read(0, b.length) for k, b in kinds.items() if b is not None} for n, kinds in found.items()}
