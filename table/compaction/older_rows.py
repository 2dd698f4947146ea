"""Find the older rows of some keys in the files of higher levels.

Owns: `OlderRows`. Must not know: what the rows are needed for, how rows are merged. Source: format/lookup-compaction §1.
Invariants: Of several rows of a key, the one in the lowest level is found. Rows that are marked as deleted are not there. Only
files whose keys overlap are opened, and values are read only for rows that were found. Memory holds the keys that are looked for,
a batch of a file's keys, and the rows that were found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from ...backends.store import Store
from ...core.expressions.binding import bind
from ...core.expressions.columns import col
from ...core.expressions.tree import Predicate
from ...core.metadata.data_file import EMPTY_ROW, DataFile
from ...core.metadata.schema import ROW_SEQUENCE, TableSchema
from ...core.metadata.schemas.merge_rules import VALUE_KIND, MergeRules
from ...core.metadata.sorted_runs.key_order import ComparableKey, comparable_key
from ...core.metadata.sorted_runs.levels import runs_of
from ...core.rows.binary.binary_row import encode_row
from ...core.rows.types import INTEGER_ROOTS, STRING_ROOTS
from ...core.rows.values import column_values, root_of
from ...core.typed import Array
from ..formats.external import located
from ..merging.codes import ordered_codes
from ..merging.key_lookup import KeySet
from ..reading.run_reader import RunReader
from ..scan.split import Split

_SKIPPED_BY = frozenset((*INTEGER_ROOTS, *STRING_ROOTS, "DATE"))
"""Types whose row groups are skipped by their smallest and largest value."""


@dataclass(frozen=True)
class FoundRows:
    """Older rows in one file: their ascending positions, and for each the place of its key among those that were looked for."""

    file: DataFile
    keys: Array
    positions: Array


class OlderRows:
    """Looks for rows in the files of one bucket whose level is higher than `above`.

    `deleted` gives the positions of the deleted rows of a file, by its name; None if it has none.
    """

    def __init__(
        self,
        store: Store,
        schema: TableSchema,
        rules: MergeRules,
        file_schemas: dict[int, TableSchema],
        bucket: Split,
        above: int,
        deleted: Callable[[str], Any],
    ) -> None:
        self._store, self._rules, self._deleted = store, rules, deleted
        self._stored = dict(zip((f.file_name for f in bucket.files), bucket.keys, strict=True))
        self._files = [
            (self._span(file), file)
            for run in runs_of(bucket.files, rules.keys)
            if run.level > above
            for file in run.files
        ]
        values = [f for f in schema.fields if f.name not in schema.partition_keys]
        self._names = [f.name for f in (ROW_SEQUENCE, VALUE_KIND, *values)]
        self._keys = RunReader(rules.keys, file_schemas, schema.options)
        self._values = RunReader((ROW_SEQUENCE, VALUE_KIND, *values), file_schemas, schema.options)

    def find(self, columns: Sequence[Any]) -> list[FoundRows]:
        """The older rows of some keys, by file. `columns` are the key columns; no key is there twice."""
        if not self._files or not len(columns[0]):
            return []
        low, high, predicate = self._range(columns)
        wanted, missing = KeySet(columns), np.ones(len(columns[0]), bool)
        found = []
        for span, file in self._files:
            if not missing.any():
                break
            if span is not None and (span[1] < low or high < span[0]):
                continue
            rows = self._of_file(file, wanted, missing, predicate)
            if len(rows.keys):
                missing[rows.keys] = False
                found.append(rows)
        return found

    def read(self, rows: FoundRows) -> tuple[int, dict[str, Any]]:
        """The found rows of a file, by ascending position: their number, and their columns without partition columns."""
        wanted, parts = BitMap(rows.positions), []
        stored = {rows.file: located(self._store, self._stored[rows.file.file_name])}
        for start, batch in self._values.rows(stored, None, False, wanted):
            first, last = np.searchsorted(rows.positions, (start, start + len(batch)))
            if first < last:
                at = pa.array(rows.positions[first:last] - start)
                parts.append({name: batch.column(name).take(at) for name in self._names})
        columns = {name: pa.concat_arrays([part[name] for part in parts]) for name in self._names}
        return len(rows.positions), columns

    def _of_file(self, file: DataFile, wanted: KeySet, missing: Array, predicate: Predicate | None) -> FoundRows:
        keys, positions = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for place, at in self._matches(file, wanted, predicate):
            chosen = missing[place]
            keys.append(place[chosen])
            positions.append(at[chosen])
        return FoundRows(file, np.concatenate(keys), np.concatenate(positions))

    def _matches(self, file: DataFile, wanted: KeySet, predicate: Predicate | None) -> Iterator[tuple[Array, Array]]:
        """The live rows of a file whose keys are wanted: positions of the keys, and of the rows."""
        deleted = self._deleted(file.file_name)
        stored = {file: located(self._store, self._stored[file.file_name])}
        for start, batch in self._keys.rows(stored, predicate, False):
            rows, places = wanted.find([batch.column(f.name) for f in self._rules.keys])
            if deleted is not None:
                live = ~np.isin(rows + start, deleted)
                rows, places = rows[live], places[live]
            if len(rows):
                yield places, rows + start

    def _range(self, columns: Sequence[Any]) -> tuple[ComparableKey, ComparableKey, Predicate | None]:
        """The smallest and largest key, and a condition on the first column that all keys meet."""
        keys = self._rules.keys
        order = np.lexsort([ordered_codes(column) for column in reversed(columns)])
        ends = [column_values(c.take(pa.array(order[[0, -1]])), f.type) for c, f in zip(columns, keys, strict=True)]
        types = [f.type for f in keys]
        low, high = (comparable_key(encode_row([values[end] for values in ends], types), keys, "key") for end in (0, 1))
        first, field = ends[0], keys[0]
        if root_of(field.type) not in _SKIPPED_BY or None in first:
            return low, high, None
        return low, high, bind((col(field.name) >= first[0]) & (col(field.name) <= first[1]), [field])

    def _span(self, file: DataFile) -> tuple[ComparableKey, ComparableKey] | None:
        """The smallest and largest key of a file; None if it does not say."""
        if EMPTY_ROW in (file.min_key, file.max_key):
            return None
        where, keys = f"data file {file.file_name}: key", self._rules.keys
        return comparable_key(file.min_key, keys, where), comparable_key(file.max_key, keys, where)
