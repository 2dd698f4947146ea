"""What the compaction of one bucket does besides merging rows: it looks up older rows, marks them, and writes a changelog.

Owns: `KeyLookup`. Must not know: which files are compacted, how rows are read for it, commits.
Source: format/lookup-compaction §1, §2, §3.
Invariants: A key of level 0 that is also in a file above the output has its older row marked, if the table has deletion vectors.
Changelog files hold exactly the changes of the keys that were merged or moved. What a failed compaction wrote can be deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from ...backends.store import Store
from ...core.metadata.data_file import DataFile
from ...core.metadata.schema import TableSchema
from ...core.metadata.schemas.merge_rules import LEVEL
from ...core.metadata.sorted_runs.lookup_rules import LookupRules, Upgrade
from ...core.places import FileKeys
from ...core.rows.types import Field
from ...core.typed import Array
from ..merging.compared import Comparison, keys_without_old_row, merge_and_compare
from ..merging.groups import ColumnOf
from ..merging.key_lookup import KeySet
from ..merging.merge import merge_key_rows
from ..reading.key_rows import KeyRowReader
from ..writing.files.key_files import KeyFileWriter
from .bucket_vectors import BucketVectors
from .key_plan import BucketCompaction
from .older_rows import OlderRows


@dataclass(frozen=True)
class KeyLookup:
    """The lookups of one compaction.

    Attributes:
        wanted: the columns of the rows that are merged, without partition columns.
        output_level, top_level: the level of the new files, and the bucket's last one.
        vectors: the bucket's deletion vectors; None if the table has none.
        changelog: where the changes are written; None if the table has no changelog of compactions.
        whole: makes rows of a changelog whole, with their partition columns.
    """

    rules: LookupRules
    fields: Sequence[Field]
    wanted: Sequence[str]
    output_level: int
    top_level: int
    older: OlderRows
    vectors: BucketVectors | None
    changelog: KeyFileWriter | None
    whole: Callable[[pa.Table], Iterable[pa.RecordBatch]]

    def concerns(self, files: Iterable[DataFile]) -> bool:
        """Must the rows of a section be merged by `merge`? Else they are merged as in any other compaction."""
        if self.rules.producer == "full-compaction":
            return self.output_level == self.top_level
        return self.rules.looks_up and any(file.level == 0 for file in files)

    def upgrade(self, file: DataFile) -> Upgrade:
        """How a file that overlaps no other one comes to the output level."""
        return self.rules.upgrade(file, self.output_level, self.top_level)

    def merge(self, column: ColumnOf, *, drop_deletes: bool) -> tuple[int, dict[str, Any]]:
        """Merge the rows of a section with the older ones; arguments and result as for `merge_key_rows`."""
        rules, column = self._with_older_rows(column)
        if self.changelog is None:
            return merge_key_rows(rules, column, self.fields, self.wanted, drop_deletes=drop_deletes)
        top = self.top_level if self.rules.producer == "full-compaction" else None
        compared = self.rules.compared
        comparison = Comparison(top, None if compared is None else tuple(n for n in compared if n in self.wanted))
        merged, changes = merge_and_compare(
            rules, column, self.fields, self.wanted, comparison, drop_deletes=drop_deletes
        )
        for batch in self.whole(changes):
            self.changelog.write(batch)
        return merged.num_rows, {name: _whole(merged, name) for name in merged.column_names}

    def moved(self, column: ColumnOf) -> None:
        """Look up the older rows of a file that only moves to the output level."""
        if self.changelog is None:
            self._with_older_rows(column)
        else:
            self.merge(column, drop_deletes=False)

    def rewritten(self, files: Iterable[DataFile]) -> None:
        """The rows of these files are in new files, so that their deletion vectors are gone."""
        if self.vectors is not None:
            self.vectors.remove(file.file_name for file in files)

    def _with_older_rows(self, column: ColumnOf) -> tuple[Any, ColumnOf]:
        """The rows of a section with the older rows of their keys, and the rules by which they are merged."""
        rules = self.rules.merge
        if not self.rules.looks_up:
            return rules, column
        new = keys_without_old_row(rules, column)
        keys = [column(f.name).take(pa.array(new)) for f in rules.keys]
        found = self.older.find(keys)
        if self.vectors is not None:
            for rows in found:
                self.vectors.mark(rows.file.file_name, rows.positions)
        if rules.engine == "first-row":
            known = np.concatenate([rows.keys for rows in found]) if found else np.zeros(0, np.int64)
            return rules.of_lookups, self._without(column, [key.take(pa.array(known)) for key in keys])
        if not self.rules.needs_values:
            return rules.of_lookups, column
        return rules.of_lookups, self._and(column, [(rows.file.level, *self.older.read(rows)) for rows in found])

    def _without(self, column: ColumnOf, keys: Sequence[Any]) -> ColumnOf:
        if not len(keys[0]):
            return column
        places: Array = KeySet(keys).places([column(f.name) for f in self.rules.merge.keys])
        kept = pa.array(places < 0)
        return lambda name: column(name).filter(kept)

    def _and(self, column: ColumnOf, older: Sequence[tuple[int, int, dict[str, Any]]]) -> ColumnOf:
        if not older:
            return column

        def both(name: str) -> Any:
            if name == LEVEL.name:
                parts = [pa.array(np.full(count, level), pa.int32()) for level, count, _ in older]
            else:
                parts = [columns[name] for _, _, columns in older]
            return pa.concat_arrays([*parts, column(name)])

        return _kept(both)


def lookup_of(
    store: Store,
    schema: TableSchema,
    rules: LookupRules,
    reader: KeyRowReader,
    file_schemas: dict[int, TableSchema],
    group: BucketCompaction,
    changelog: KeyFileWriter | None,
) -> KeyLookup:
    above = group.above or replace(group, files=(), keys=(), deletions=())
    vectors = None
    if rules.merge.has_vectors:
        rows = {file.file_name: file.row_count for file in (*group.files, *above.files)}
        place = (group.partition, group.bucket)
        vectors = BucketVectors(store, FileKeys(schema), place, group.index, rows, rules.is_wide)
    return KeyLookup(
        rules,
        schema.fields,
        reader.wanted,
        group.output_level,
        group.last_level,
        OlderRows(
            store,
            schema,
            rules.merge,
            file_schemas,
            above,
            group.output_level,
            (lambda _: None) if vectors is None else vectors.deleted,
        ),
        vectors,
        changelog,
        partial(reader.whole, group),
    )


def _kept(column: ColumnOf) -> ColumnOf:
    made: dict[str, Any] = {}

    def known(name: str) -> Any:
        if name not in made:
            made[name] = column(name)
        return made[name]

    return known


def _whole(rows: pa.Table, name: str) -> Any:
    combined = rows.column(name).combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)
