"""Compare two states of a table with a primary key, one range of keys after another.

Owns: `KeyDifference`. Must not know: how files were chosen, snapshots. Source: format/primary-keys §8.

Invariants: Rows are merged on each side before they are compared, and all versions of a key are in one range. Memory holds one
range of both sides, about as many bytes as are given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ...backends.store import Store
from ...core.metadata.data_file import DataFile
from ...core.metadata.schema import TableSchema
from ...core.metadata.schemas.merge_rules import LEVEL, MergeRules
from ..reading.arrow import arrow_schema_of
from ..reading.key_rows import KeyRowReader
from ..reading.section_reader import ColumnRows
from ..reading.windows import Piece, windows
from ..scan.fallback import FileSchemas
from ..scan.split import Split
from .row_difference import differing_rows, rows_with_partner
from .steps import ChangeStep

_OLD, _NEW = 0, 1
_FOR_RANGES = 4
"""The part of the memory for the rows of a range, from which the rows that differ are copied."""


class KeyDifference:
    """Compares the files of steps. It can be pickled to another machine."""

    def __init__(self, schema: TableSchema, rules: MergeRules, file_schemas: FileSchemas) -> None:
        self._schema, self._keys = schema, [f.name for f in rules.keys]
        self._compared = [name for name in schema.names if name not in schema.partition_keys]
        by_branch: dict[str, dict[int, TableSchema]] = {}
        for (branch, schema_id), written in file_schemas.items():
            by_branch.setdefault(branch, {})[schema_id] = written
        self._readers = {branch: KeyRowReader(schema, rules, found) for branch, found in by_branch.items()}

    def ranges(self, store: Store, step: ChangeStep, memory: int) -> Iterator[tuple[pa.Table, pa.Table, Any, Any]]:
        """The rows that differ, in some ranges of keys, for the files of one partition in about `memory` bytes.

        Yields the older rows and the newer rows, all columns of the table; and for each of both, whether the other side has a row
        with its key. Errors as for `KeyRowReader.batches`.
        """
        sides = [(_OLD, split) for split in _by_bucket(step.gone)] + [(_NEW, split) for split in _by_bucket(step.came)]
        share = memory // (_FOR_RANGES * len(sides))
        runs = [self._pieces(store, split, side, share) for side, split in sides]
        whole = arrow_schema_of(self._schema, None)
        for window in windows(runs, self._keys, memory // _FOR_RANGES):
            side = window.column(LEVEL.name)
            rows = pa.Table.from_arrays([window.column(name) for name in whole.names], schema=whole)
            old, new = (rows.filter(pc.equal(side, number)) for number in (_OLD, _NEW))
            lost, added = differing_rows(old.select(self._compared), new.select(self._compared))
            old, new = old.take(pa.array(lost)), new.take(pa.array(added))
            yield old, new, *rows_with_partner(old.select(self._keys), new.select(self._keys))

    def _pieces(self, store: Store, split: Split, side: int, memory: int) -> Iterator[Piece]:
        order = sorted(range(len(split.files)), key=lambda i: _age(split.files[i]))
        for batch in self._readers[split.branch].batches(store, split, order, drop_deletes=True, memory=memory):
            columns = {name: batch.column(name) for name in self._schema.names}
            yield Piece(side, side, ColumnRows(batch.num_rows, columns), f"data file {split.keys[0]}")


def _age(file: DataFile) -> tuple[int, int, int]:
    """Older files come first: by descending level, then by sequence numbers."""
    return -file.level, file.max_sequence_number, -file.min_sequence_number


def _by_bucket(splits: Sequence[Split]) -> list[Split]:
    buckets: dict[int, list[Split]] = {}
    for split in splits:
        buckets.setdefault(split.bucket, []).append(split)
    return [
        replace(
            parts[0],
            files=tuple(file for split in parts for file in split.files),
            keys=tuple(key for split in parts for key in split.keys),
            deletions=tuple(split.deletion(i) for split in parts for i in range(len(split.files))),
            sections=(tuple(range(sum(len(split.files) for split in parts))),),
        )
        for parts in buckets.values()
    ]
