"""Gather the rows of one (partition, bucket) of a table with a primary key, and write them as sorted runs of level 0.

Owns: `KeyForm` (a table's rules for new rows, made once per writer), `KeyBuffer`. Must not know: which bucket a row belongs to,
how the first sequence number is found. Source: format/primary-keys §9.
Invariants: The rows of a bucket are numbered in the order in which they came. A run has one row per key. The changelog has every
row, before it is merged with others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ...backends.store import Store
from ...coordinator.commit.message import PendingUpload
from ...core import options as opt
from ...core.errors import InvalidArgument
from ...core.metadata.data_file import DataFile
from ...core.metadata.schema import ROW_SEQUENCE, TableSchema
from ...core.metadata.schemas.merge_rules import MergeRules, merge_rules
from ...core.metadata.sorted_runs.sequence_numbers import LARGEST_NUMBER
from ..merging.groups import group_rows
from ..merging.merge import engine_of, merge_key_rows
from .files.key_files import KeyFileSettings, KeyFileWriter

_CHANGELOG_OF_INPUT = "input"
_STEP_ROWS = 1 << 16
"""Rows of a changelog are put into order in steps, so that they are in memory only once."""


@dataclass(frozen=True)
class KeyForm:
    """How the new rows of a table become files. `rules` are those of rows that are not written yet."""

    schema: TableSchema
    rules: MergeRules
    files: KeyFileSettings
    changelog: KeyFileSettings | None
    prefix: str
    changelog_prefix: str

    @staticmethod
    def of(schema: TableSchema, changelog: bool = True) -> KeyForm:
        """Read the table's options. A changelog is made if they ask for one and `changelog` is set."""
        rules = merge_rules(schema)
        assert rules is not None
        engine_of(rules).needs(rules, schema.fields, schema.names)
        has_changelog = changelog and schema.options.get(opt.CHANGELOG_PRODUCER) == _CHANGELOG_OF_INPUT
        return KeyForm(
            schema=schema,
            rules=rules.of_new_rows,
            files=KeyFileSettings.of(schema),
            changelog=KeyFileSettings.of(schema, changelog=True) if has_changelog else None,
            prefix=schema.options.get(opt.DATA_FILE_PREFIX),
            changelog_prefix=schema.options.get(opt.CHANGELOG_FILE_PREFIX),
        )


class KeyBuffer:
    """The rows of one (partition, bucket), in memory until they are flushed.

    `first_number` finds the sequence number of the first row, when it is needed. The rest is as for `DataFileWriter`.
    """

    def __init__(
        self, store: Store, form: KeyForm, folder: str, stem: str, travelling: bool, first_number: Callable[[], int]
    ) -> None:
        self._form, self._first_number = form, first_number
        self._held: list[pa.RecordBatch] = []
        self.held_bytes = 0
        self._next: int | None = None
        names = (form.prefix + stem, form.changelog_prefix + stem)
        common = {"travelling": travelling}
        self._data = KeyFileWriter(store, form.schema, folder, names[0], settings=form.files, **common)
        self._changelog = (
            KeyFileWriter(store, form.schema, folder, names[1], changelog=True, settings=form.changelog, **common)
            if form.changelog is not None
            else None
        )

    @property
    def files(self) -> list[DataFile]:
        return self._data.files

    @property
    def changelog_files(self) -> list[DataFile]:
        return self._changelog.files if self._changelog is not None else []

    @property
    def uploads(self) -> list[PendingUpload]:
        return [upload for writer in self._writers for upload in writer.uploads]

    @property
    def written_keys(self) -> list[str]:
        return [key for writer in self._writers for key in writer.written_keys]

    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows, as `KeyConformer` makes them."""
        self._held.append(batch)
        self.held_bytes += batch.nbytes

    def flush(self) -> None:
        """Write the rows in memory as one sorted run."""
        if not self._held:
            return
        rows = pa.Table.from_batches(self._held)
        self._held, self.held_bytes = [], 0
        columns = dict[str, Any]()
        columns[ROW_SEQUENCE.name] = self._numbers(rows.num_rows)

        def column(name: str) -> Any:
            if name not in columns:
                columns[name] = rows.column(name).combine_chunks()
            return columns[name]

        if self._changelog is not None:
            self._write_changelog(self._changelog, column)
        wanted = self._form.files.rows
        _, made = merge_key_rows(
            self._form.rules, column, self._form.schema.fields, self._form.schema.names, drop_deletes=False
        )
        columns.clear()
        self._data.write(pa.RecordBatch.from_arrays([made.pop(name) for name in wanted.names], schema=wanted))
        self._data.finish()

    def finish(self) -> None:
        self.flush()

    def abort(self) -> None:
        self._held = []
        for writer in self._writers:
            writer.abort()

    @property
    def _writers(self) -> list[KeyFileWriter]:
        return [writer for writer in (self._data, self._changelog) if writer is not None]

    def _numbers(self, count: int) -> pa.Array:
        first = self._first_number() if self._next is None else self._next
        if first > LARGEST_NUMBER - count:
            raise InvalidArgument(f"there are no sequence numbers for {count} rows from {first} on")
        self._next = first + count
        return pa.array(np.arange(first, first + count, dtype=np.int64))

    def _write_changelog(self, writer: KeyFileWriter, column: Callable[[str], Any]) -> None:
        order = group_rows(column, self._form.rules).order
        wanted = self._form.files.rows
        for start in range(0, len(order), _STEP_ROWS):
            taken = pa.array(order[start : start + _STEP_ROWS])
            arrays = [column(name).take(taken) for name in wanted.names]
            writer.write(pa.RecordBatch.from_arrays(arrays, schema=wanted))
        writer.finish()
