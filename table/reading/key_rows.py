"""Read files of a table with a primary key as rows of new files: merged, in key order, with sequence numbers and kinds.

Owns: `KeyRowReader`. Must not know: how files are chosen, how they are written. Source: format/primary-keys §1, §7.

Invariants: Rows that a deletion vector marks are gone before the merge. A section that is larger than the given memory is merged
one range of keys after another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ...backends.store import Store
from ...coordinator.surroundings import MACHINE
from ...core.metadata.schema import ROW_SEQUENCE, TableSchema
from ...core.metadata.schemas.merge_rules import VALUE_KIND, MergeRules, row_fields
from ...core.metadata.schemas.record_expiry import RecordExpiry
from ...core.places import codec_of
from ...core.rows.arrow import arrow_schema, to_arrow
from ...core.rows.values import to_arrow_scalar
from ..formats.data_source import BATCH_ROWS
from ..formats.external import located
from ..formats.file_rows import Rows
from ..merging.merge import columns_to_merge, merge_key_rows
from ..merging.sections import sorted_runs
from ..scan.split import Split
from .deletion import deleted_rows, live_mask
from .expired import unexpired
from .run_reader import RunReader
from .section_reader import DEFAULT_MEMORY
from .set_aside import PARTS_WHILE_SET_ASIDE, takes_too_much, windows_set_aside
from .windows import Piece, Window, windows

_DELETES = [1, 3]
_FOR_OTHER_COPIES = 5
"""The part of the memory for rows that wait to be merged. The others are for their columns, merged rows, and what is written."""

Merging = Callable[..., tuple[int, dict[str, Any]]]
"""Merges rows: called with their columns and `drop_deletes`, like `merge_key_rows` of a table."""


class KeyRowReader:
    """Reads sections of files into batches of `_SEQUENCE_NUMBER`, `_VALUE_KIND` and all columns, without expired rows.

    It can be pickled to another machine. Partition columns are not among those that are `wanted`, and merged. `Unsupported`: the
    engine cannot merge a column.
    """

    def __init__(
        self,
        schema: TableSchema,
        rules: MergeRules,
        file_schemas: Mapping[int, TableSchema],
        expiry: RecordExpiry | None = None,
    ) -> None:
        self._expiry = expiry
        self._schema, self._rules, self._codec = schema, rules, codec_of(schema)
        stored = [f for f in schema.fields if f.name not in schema.partition_keys]
        self.wanted = [f.name for f in stored]
        columns_to_merge(rules, schema.fields, self.wanted)
        self._files = RunReader([*stored, ROW_SEQUENCE, VALUE_KIND], file_schemas, schema.options)
        self.arrow_schema = arrow_schema(row_fields(schema))

    def batches(
        self,
        store: Store,
        split: Split,
        section: Sequence[int],
        *,
        drop_deletes: bool,
        alone: bool = False,
        memory: int = DEFAULT_MEMORY,
        merge: Merging | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a section (files of the split, oldest first) by ascending keys, merged if it has several files.

        `merge` merges the rows of a range of keys in another way, also those of a single file.

        Raises:
            TableCorrupt: a file is missing or damaged, or its rows do not agree with its manifest.
            InvalidArgument, Unsupported: the engine cannot merge these rows.
        """
        constants = self._constants(split)
        if len(section) == 1 and merge is None:
            for rows in self._live(store, split, section[0], alone, memory // _FOR_OTHER_COPIES):
                if drop_deletes:
                    rows = rows.kept(
                        pc.invert(pc.is_in(rows.column(VALUE_KIND.name), value_set=pa.array(_DELETES, pa.int8())))
                    )
                if len(rows):
                    yield self._batch(len(rows), rows.column, constants)
            return
        merge = merge or partial(merge_key_rows, self._rules, fields=self._schema.fields, wanted=self.wanted)
        for window in self.windows(store, split, section, alone, memory):
            count, merged = merge(window.column, drop_deletes=drop_deletes)
            window.release()
            yield from self._cut(count, merged, constants)
            del merged  # before the next rows are read

    def whole(self, split: Split, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Rows of `_SEQUENCE_NUMBER`, `_VALUE_KIND` and the wanted columns, with those of the partition."""
        columns = {name: _joined(rows.column(name)) for name in rows.column_names}
        return self._cut(rows.num_rows, columns, self._constants(split))

    def windows(
        self, store: Store, split: Split, section: Sequence[int], alone: bool = False, memory: int = DEFAULT_MEMORY
    ) -> Iterator[Window]:
        """The rows of a section, all of one range of keys after another. Arguments and errors as for `batches`."""
        files, budget = [split.files[i] for i in section], memory // _FOR_OTHER_COPIES
        found = sorted_runs(files, self._rules)
        piece_bytes = budget // (2 * len(found))
        is_set_aside = takes_too_much([[files[i] for i in run] for run in found], len(self.wanted) + 2, memory)
        part_bytes = budget // PARTS_WHILE_SET_ASIDE if is_set_aside else piece_bytes
        runs = [
            (
                Piece(number, files[number].level, rows, f"data file {split.keys[section[number]]}")
                for number in run
                for rows in self._live(store, split, section[number], alone, part_bytes)
            )
            for run in found
        ]
        keys = [f.name for f in self._rules.keys]
        if not is_set_aside:
            return windows(runs, keys, budget)
        deciding = [[*keys, ROW_SEQUENCE.name, VALUE_KIND.name]] * len(files)
        return windows_set_aside(runs, keys, deciding, budget, piece_bytes)

    def _cut(self, count: int, merged: Mapping[str, Any], constants: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        for position in range(0, count, BATCH_ROWS):
            length = min(BATCH_ROWS, count - position)
            yield self._batch(length, lambda name, at=position, n=length: merged[name].slice(at, n), constants)

    def _live(self, store: Store, split: Split, index: int, alone: bool, part_bytes: int) -> Iterator[Rows]:
        file, key = split.files[index], split.keys[index]
        deleted = deleted_rows(store, split, (index,))
        for position, rows in self._files.rows({file: located(store, key)}, None, alone, part_bytes=part_bytes):
            found = rows if deleted is None else rows.kept(live_mask(deleted, position, len(rows)))
            if self._expiry is not None:
                name = self._expiry.column.name
                is_constant = name in self._schema.partition_keys
                times = pa.repeat(self._constants(split)[name], len(found)) if is_constant else found.column(name)
                found = found.kept(unexpired(self._expiry, times, MACHINE.wall_s()))
            yield found

    def _batch(self, count: int, column: Any, constants: Mapping[str, Any]) -> pa.RecordBatch:
        arrays = [
            pa.repeat(constants[name], count) if name in constants else column(name) for name in self.arrow_schema.names
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow_schema)

    def _constants(self, split: Split) -> dict[str, Any]:
        values = self._codec.decode(split.partition)
        fields = self._codec.fields
        return {f.name: to_arrow_scalar(v, f.type, to_arrow(f.type)) for f, v in zip(fields, values, strict=True)}


def _joined(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)
