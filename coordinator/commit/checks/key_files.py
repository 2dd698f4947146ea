"""Checks of the files that tables with a primary key keep per bucket: sorted runs, and index files. Pure.

Owns: `runs_overlap` (files of one level, above 0, have no key in common), `two_index_files` (a bucket has one index file of each
type). Must not know: stores, rows. Source: format/primary-keys §2; format/manifests §7; format/deletion-vectors §2; H12.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ....core.metadata.change import Landed
from ....core.metadata.data_file import ADD, EMPTY_ROW, IndexEntry, ManifestEntry
from ....core.metadata.deletion_vector import INDEX_TYPE
from ....core.metadata.folding import fold
from ....core.metadata.hash_index import INDEX_TYPE as HASH_INDEX
from ....core.metadata.schema import TableSchema
from ....core.rows.binary.binary_row import decode_row
from ....core.rows.values import order_key
from .conflicts import Conflict

Place = tuple[bytes, int, int]
"""A partition, a bucket and a level."""


def in_runs(entries: Iterable[ManifestEntry]) -> bool:
    return any(e.kind == ADD and e.file.level > 0 for e in entries)


def added_since(changes: Sequence[Landed]) -> list[ManifestEntry]:
    """The files that other writers added since a commit read the table, and that are still live."""
    return [e for e in fold(e for change in changes for e in change.change.entries).values() if e.kind == ADD]


def runs_overlap(
    entries: Sequence[ManifestEntry], others: Iterable[ManifestEntry], schema: TableSchema
) -> Conflict | None:
    """Check that the files of each level above 0 of a bucket have no key in common after a commit: readers read the files of a
    level one after the other. `others` are live files that the commit did not read; for one that read nothing, all live files.
    """
    deleted = {e.identity for e in entries if e.kind != ADD}
    ours = [e for e in entries if e.kind == ADD and e.file.level > 0]
    touched = {_place(e) for e in ours}
    theirs = [e for e in others if _place(e) in touched and e.identity not in deleted]
    types = [schema.by_name[name].type for name in schema.trimmed_primary_keys]

    def span(entry: ManifestEntry) -> tuple[Any, ...]:
        where = f"data file {entry.file.file_name}: key"
        keys = (decode_row(row, types, where) for row in (entry.file.min_key, entry.file.max_key))
        return (*(tuple((value is not None, order_key(value)) for value in key) for key in keys), entry)

    ranged = [e for e in (*ours, *theirs) if e.file.min_key != EMPTY_ROW]
    last: dict[Place, tuple[Any, ManifestEntry]] = {}
    for low, high, entry in sorted((span(e) for e in ranged), key=lambda known: known[:2]):
        before = last.get(_place(entry))
        if before is not None and low <= before[0]:
            names = (before[1].file.file_name, entry.file.file_name)
            where = f"level {entry.file.level} of bucket {entry.bucket}"
            reason = f"files {names[0]} and {names[1]} in {where} would have keys in common: another commit wrote to that level"
            return Conflict("runs_overlap", reason, names)
        last[_place(entry)] = high, entry
    return None


def _place(entry: ManifestEntry) -> Place:
    return entry.partition, entry.bucket, entry.file.level


def two_index_files(index: Iterable[IndexEntry]) -> Conflict | None:
    """Check that a bucket has one live index file of each type after the commit: another writer may have made the bucket's first
    one meanwhile, which no entry of this commit can name (H12).
    """
    found: dict[tuple[bytes, int, str], IndexEntry] = {}
    for entry in index:
        if entry.file.index_type not in (HASH_INDEX, INDEX_TYPE):
            continue
        first = found.setdefault((entry.partition, entry.bucket, entry.file.index_type), entry)
        if first is not entry:
            names = (first.file.file_name, entry.file.file_name)
            reason = f"bucket {entry.bucket} would have two index files of type {entry.file.index_type}: {' and '.join(names)}"
            return Conflict("index_file_replaced", reason, names)
    return None
