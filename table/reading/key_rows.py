"""Read files of a table with a primary key as rows of new files: merged, in key order, with sequence numbers and kinds.

Owns: `KeyRowReader`. Must not know: how files are chosen, how they are written. Source: format/primary-keys §1, §7.

Invariants: Rows that a deletion vector marks are gone before the merge. Every file gives as many rows as its manifest says, or
the read fails. A section of one file is streamed; of other sections memory holds all rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...backends.store import Store
from ...core.errors import TableCorrupt
from ...core.metadata.merge_rules import LEVEL, VALUE_KIND, MergeRules, row_fields
from ...core.metadata.schema import ROW_SEQUENCE, TableSchema
from ...core.places import codec_of
from ...core.rows.arrow import arrow_schema, to_arrow
from ...core.rows.values import to_arrow_scalar
from ..formats.data_source import BATCH_ROWS
from ..formats.external import located
from ..formats.file_rows import Rows
from ..merging.merge import columns_to_merge, merge_key_rows
from ..scan.split import Split
from .deletion import deleted_rows, live_mask
from .run_reader import RunReader

_DELETES = pa.array([1, 3], pa.int8())


class KeyRowReader:
    """Reads sections of files into batches of `_SEQUENCE_NUMBER`, `_VALUE_KIND` and all columns of the schema. It can be pickled
    to another machine.

    Args:
        schema: the schema of the rows.
        rules: the table's rules.
        file_schemas: the schemas that files name, by id.

    Raises:
        Unsupported: the engine cannot merge a column.
    """

    def __init__(self, schema: TableSchema, rules: MergeRules, file_schemas: Mapping[int, TableSchema]) -> None:
        self._schema, self._rules, self._codec = schema, rules, codec_of(schema)
        stored = [f for f in schema.fields if f.name not in schema.partition_keys]
        self._wanted = [f.name for f in stored]
        columns_to_merge(rules, schema.fields, self._wanted)
        self._files = RunReader([*stored, ROW_SEQUENCE, VALUE_KIND], file_schemas, schema.options)
        self.arrow_schema = arrow_schema(row_fields(schema))

    def batches(
        self, store: Store, split: Split, section: Sequence[int], *, drop_deletes: bool, alone: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a section, merged if it has several files.

        Args:
            section: the files, as indices of the split, oldest first.
            drop_deletes: leave out rows that delete.
            alone: nothing else is read at the same time.

        Raises:
            TableCorrupt: a file is missing or damaged, or its rows do not agree with its manifest.
            InvalidArgument, Unsupported: the engine cannot merge these rows.
        """
        constants = self._constants(split)
        if len(section) == 1:
            for rows in self._live(store, split, section[0], alone):
                if drop_deletes:
                    rows = rows.kept(pc.invert(pc.is_in(rows.column(VALUE_KIND.name), value_set=_DELETES)))
                if len(rows):
                    yield self._batch(len(rows), rows.column, constants)
            return
        by_file = [list(self._live(store, split, i, alone)) for i in section]
        parts = [rows for found in by_file for rows in found]
        if not any(map(len, parts)):
            return
        levels = [split.files[i].level for i in section]
        columns: dict[str, Any] = {
            LEVEL.name: pa.array(np.repeat(levels, [sum(map(len, found)) for found in by_file]), pa.int32())
        }

        def column(name: str) -> Any:
            if name not in columns:
                columns[name] = pa.concat_arrays([rows.column(name) for rows in parts])
            return columns[name]

        count, merged = merge_key_rows(
            self._rules, column, self._schema.fields, self._wanted, drop_deletes=drop_deletes
        )
        for position in range(0, count, BATCH_ROWS):
            length = min(BATCH_ROWS, count - position)
            yield self._batch(length, lambda name, at=position, n=length: merged[name].slice(at, n), constants)

    def _live(self, store: Store, split: Split, index: int, alone: bool) -> Iterator[Rows]:
        """The rows of one file that are not marked as deleted."""
        file, key = split.files[index], split.keys[index]
        deleted = deleted_rows(store, split, (index,))
        read = 0
        for position, rows in self._files.rows({file: located(store, key)}, None, alone):
            read += len(rows)
            yield rows if deleted is None else rows.kept(live_mask(deleted, position, len(rows)))
        if read != file.row_count:
            raise TableCorrupt(f"data file {key} has {read} rows, but its manifest says {file.row_count}")

    def _batch(self, count: int, column: Any, constants: Mapping[str, Any]) -> pa.RecordBatch:
        arrays = [
            pa.repeat(constants[name], count) if name in constants else column(name) for name in self.arrow_schema.names
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow_schema)

    def _constants(self, split: Split) -> dict[str, Any]:
        """Scalars of the partition columns."""
        values = self._codec.decode(split.partition)
        fields = self._codec.fields
        return {f.name: to_arrow_scalar(v, f.type, to_arrow(f.type)) for f, v in zip(fields, values, strict=True)}
