"""Read one section of files and merge its rows by primary key.

Owns: `SectionReader`. Must not know: how rows are merged, output columns that are constant.
Source: format/primary-keys §2, §5, §6.

Invariants: Rows that a deletion vector marks are gone before the merge. Only conditions on key columns skip row groups. Memory
holds the needed columns of one section.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ...backends.store import Store
from ...core.metadata.data_file import DataFile
from ...core.metadata.merge_rules import LEVEL, VALUE_KIND, MergeRules
from ...core.metadata.schema import ROW_SEQUENCE, TableSchema
from ...core.predicates.predicate import Predicate
from ...core.rows.types import Field
from ...core.statistics.pruning import split_predicate
from ..formats.external import located
from ..formats.file_rows import Rows
from ..merging.merge import columns_to_merge, merge_section
from ..scan.split import Split
from .deletion import deleted_rows, live_mask
from .run_reader import RunReader


class ColumnRows:
    """Rows whose columns are ready."""

    def __init__(self, count: int, columns: Mapping[str, Any]) -> None:
        self._count, self._columns = count, columns

    def __len__(self) -> int:
        return self._count

    def column(self, name: str) -> Any:
        return self._columns[name]

    def kept(self, mask: pa.BooleanArray) -> ColumnRows:
        return ColumnRows(mask.true_count, {name: array.filter(mask) for name, array in self._columns.items()})

    def slice(self, offset: int, length: int | None = None) -> ColumnRows:
        count = max(self._count - offset, 0) if length is None else min(length, max(self._count - offset, 0))
        return ColumnRows(count, {name: array.slice(offset, length) for name, array in self._columns.items()})


class SectionReader:
    """Reads and merges sections. It can be pickled to another machine.

    Args:
        schema: the schema of the result.
        rules: the table's rules.
        wanted: the columns that the merged rows must have, without partition columns.
        residual: the bound predicate that merged rows must fulfil; None for all.
        file_schemas: the schemas that files name, by id.
    """

    def __init__(
        self,
        schema: TableSchema,
        rules: MergeRules,
        wanted: Sequence[Field],
        residual: Predicate | None,
        file_schemas: Mapping[int, TableSchema],
    ) -> None:
        self._rules, self._fields = rules, schema.fields
        self._wanted = [f.name for f in wanted]
        needed = columns_to_merge(rules, schema.fields, self._wanted)
        self._read = [f for f in schema.fields if f.name in needed and f.name not in schema.partition_keys]
        self._read += [ROW_SEQUENCE, VALUE_KIND]
        self._files = RunReader(self._read, file_schemas, schema.options)
        self._on_keys = None if residual is None else split_predicate(residual, rules.key_names)[0]

    def check(self, files: Sequence[DataFile]) -> None:
        """Refuse files that cannot be read, before any is opened; errors as for `RunReader.check`."""
        for file in files:
            self._files.check([file])

    def rows(self, store: Store, split: Split, section: Sequence[int], alone: bool) -> Rows:
        """The merged rows of a section.

        Raises:
            TableCorrupt: a file is missing or damaged.
            InvalidArgument, Unsupported: the engine cannot merge these rows.
        """
        by_file = [self._live(store, split, i, alone) for i in section]
        parts = [rows for found in by_file for rows in found]
        if not any(map(len, parts)):
            return ColumnRows(0, {})
        levels = [split.files[i].level for i in section]
        columns: dict[str, Any] = {
            LEVEL.name: pa.array(np.repeat(levels, [sum(map(len, found)) for found in by_file]), pa.int32())
        }

        def column(name: str) -> Any:
            if name not in columns:
                columns[name] = pa.concat_arrays([rows.column(name) for rows in parts])
            return columns[name]

        return ColumnRows(*merge_section(self._rules, column, self._fields, self._wanted))

    def _live(self, store: Store, split: Split, index: int, alone: bool) -> list[Rows]:
        """The rows of one file that are not marked as deleted."""
        files = {split.files[index]: located(store, split.keys[index])}
        deleted = deleted_rows(store, split, (index,))
        found = self._files.rows(files, self._on_keys, alone)
        return [
            rows if deleted is None else rows.kept(live_mask(deleted, position, len(rows))) for position, rows in found
        ]
