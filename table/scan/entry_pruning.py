"""Prune many manifest entries at once, as columns, before they become objects.

Owns: `wanted_entries`, which keeps the entries that a read may need, by partition and by the bounds of fixed-width and text
columns. Must not know: the exact pruning that follows (`file_pruning`), splits. Source: format/statistics §1, §3;
format/binary-row §1.
Invariants: Exact pruning would also drop every entry that is dropped here. An entry whose bounds are unknown, or that has another
schema or statistics layout, is kept. Of a DELETE and its ADD, neither is dropped while the other is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any

import numpy as np

from ...core.expressions.tree import And, Comparison, Or, Predicate
from ...core.metadata.data_file import DELETE, ManifestEntry
from ...core.metadata.manifest_columns import EntryColumns
from ...core.metadata.schema import TableSchema
from ...core.rows.binary.binary_row import INLINE_BYTES, PREFIX_BYTES, SLOT_BYTES, encode_row, null_area_bytes
from ...core.rows.partition import PartitionCodec
from ...core.rows.types import STRING_ROOTS, AtomicType, Field, with_nullable
from ...core.statistics.pruning import PartitionTest
from ...core.typed import Array

_WIDTHS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "DATE": 32, "TIME": 32, "BIGINT": 64}
_HEADER_BITS = 8
_INLINE_SHIFT = np.uint64(56)
_PREFIX = np.uint64((1 << 8 * PREFIX_BYTES) - 1)


@dataclass
class Wanted:
    """The entries that a read may need, as objects or as columns of manifests with the indices of the entries.

    `of_other_partitions` counts the live files in partitions that are not wanted; `ruled_out` counts those that were dropped
    because their bounds exclude the predicate.
    """

    parts: list[list[ManifestEntry] | tuple[EntryColumns, Array]] = field(default_factory=list)
    of_other_partitions: int = 0
    ruled_out: int = 0

    def entries(self) -> list[ManifestEntry]:
        found: list[ManifestEntry] = []
        for part in self.parts:
            if isinstance(part, list):
                found += part
            else:
                columns, rows = part
                found += columns.entries(None if len(rows) == columns.rows else rows)
        return found


def wanted_entries(
    parts: Sequence[EntryColumns | list[ManifestEntry]],
    on_partition: Predicate | None,
    residual: Predicate | None,
    schema: TableSchema,
    schema_of: Callable[[int], TableSchema],
    codec: PartitionCodec,
) -> Wanted:
    """The entries that are not ruled out by their partition or, if they are columns, by their bounds.

    `parts` come from `Timeline.entry_parts`. The predicates are bound; `residual` is None if bounds must not be used.
    """
    wanted, test = Wanted(), PartitionTest(on_partition, codec)
    deleted = {name for part in parts for name in _deleted_names(part)} if residual is not None else set()
    for part in parts:
        if isinstance(part, list):
            kept = list(compress(part, test.kept([e.partition for e in part])))
            others = len(part) - len(kept), sum(e.kind == DELETE for e in part) - sum(e.kind == DELETE for e in kept)
            wanted.parts.append(kept)
        else:
            mask = _of_partitions(part, test) if on_partition is not None else np.ones(part.rows, bool)
            others = int((~mask).sum()), int((~mask & (part.kind == DELETE)).sum())
            if residual is not None:
                match = may_match(part, residual, schema, schema_of, deleted)
                wanted.ruled_out += int((mask & ~match).sum())
                mask &= match
            wanted.parts.append((part, np.flatnonzero(mask)))
        wanted.of_other_partitions += others[0] - 2 * others[1]  # each DELETE takes an ADD with it
    wanted.of_other_partitions = max(wanted.of_other_partitions, 0)
    return wanted


def _of_partitions(columns: EntryColumns, test: PartitionTest) -> Array:
    partitions, which = columns.partitions()
    return np.array(test.kept(partitions), bool)[which]


def _deleted_names(part: EntryColumns | list[ManifestEntry]) -> Iterable[bytes]:
    if isinstance(part, list):
        return (entry.file.file_name.encode() for entry in part if entry.kind == DELETE)
    return part.file_names(np.flatnonzero(part.kind == DELETE))


def may_match(
    columns: EntryColumns,
    predicate: Predicate,
    schema: TableSchema,
    schema_of: Callable[[int], TableSchema],
    deleted: set[bytes],
) -> Array:
    """A mask of the entries that may hold a row that matches a predicate. An entry is dropped only if it certainly has none.

    `deleted` are the names of the data files that an entry deletes.
    """
    keep = (columns.kind == DELETE) | columns.named(deleted)
    for schema_id in np.unique(columns.schema_id).tolist():
        stats = _Statistics(columns, schema, schema_of(schema_id))
        keep |= (_mask(predicate, stats) | ~stats.known) & (columns.schema_id == schema_id)
    return keep


def _mask(predicate: Predicate, stats: _Statistics) -> Array:
    match predicate:
        case And(parts=parts):
            return np.logical_and.reduce([_mask(part, stats) for part in parts])
        case Or(parts=parts):
            return np.logical_or.reduce([_mask(part, stats) for part in parts])
        case Comparison(op=op, column=column, literals=literals) if op in _KEEPS and column in stats.places:
            return _keeps(op, stats.places[column], literals, stats)
        case _:
            return np.ones(len(stats.known), bool)


def _keeps(op: str, place: tuple[int, Field], literals: tuple[Any, ...], stats: _Statistics) -> Array:
    index, field = place
    low, high = stats.bound("_MIN_VALUES", index, field), stats.bound("_MAX_VALUES", index, field)
    kept = np.zeros(len(stats.known), bool)
    for literal in literals:
        if literal is not None:
            kept |= _KEEPS[op](_literal_key(literal, field), low[0], high[0])
    return kept | low[1] | high[1]


_KEEPS: dict[str, Callable[[Any, Array, Array], Array]] = {
    "=": lambda key, low, high: (low <= key) & (high >= key),
    "in": lambda key, low, high: (low <= key) & (high >= key),
    "<": lambda key, low, high: low <= key,
    "<=": lambda key, low, high: low <= key,
    ">": lambda key, low, high: high >= key,
    ">=": lambda key, low, high: high >= key,
}
"""The key of a text is its first bytes. Texts with equal keys may differ, so `<` and `>` keep entries with an equal key."""


class _Statistics:
    """The bounds of the columns that can be compared for all entries at once.

    `places` gives each column its position in the statistics and its field; entries that are `known` have that layout.
    """

    def __init__(self, columns: EntryColumns, schema: TableSchema, written: TableSchema) -> None:
        self._columns, self._arity = columns, len(written.fields)
        read_as = {f.id: f for f in schema.fields if f.name not in schema.partition_keys}
        self.places = {
            read_as[f.id].name: (i, f)
            for i, f in enumerate(written.fields)
            if f.id in read_as and _is_comparable(f) and f.type == with_nullable(read_as[f.id].type, f.type.nullable)
        }
        self.known = (
            (columns.schema_id == written.id)
            & columns.is_null("_FILE._VALUE_STATS_COLS")
            & columns.is_null("_FILE._WRITE_COLS")
        )
        self._fixed = PREFIX_BYTES + null_area_bytes(self._arity) + SLOT_BYTES * self._arity
        arity = np.uint64(int.from_bytes(self._arity.to_bytes(PREFIX_BYTES, "big"), "little"))
        for name in ("_MIN_VALUES", "_MAX_VALUES"):
            starts, lengths = columns.spans(f"_FILE._VALUE_STATS.{name}")
            self.known &= (lengths >= self._fixed) & (columns.data.words(starts) & _PREFIX == arity)

    def bound(self, name: str, index: int, field: Field) -> tuple[Array, Array]:
        """A bound of every entry as a key that compares like the value, and a mask of the entries where it is unknown."""
        starts, lengths = self._columns.spans(f"_FILE._VALUE_STATS.{name}")
        rows = np.where(self.known, starts + PREFIX_BYTES, 0)
        bit = _HEADER_BITS + index
        is_null = (self._columns.data.at(rows + (bit >> 3)) >> np.uint8(bit & 7)) & 1
        at = rows + null_area_bytes(self._arity) + SLOT_BYTES * index
        slots = self._columns.data.words(at)
        key = self._text_key(rows, at, slots, lengths) if _is_text(field) else _signed(slots, field)
        return key, is_null.astype(bool)

    def _text_key(self, rows: Array, at: Array, slots: Array, lengths: Array) -> Array:
        """The first eight bytes of texts as big-endian numbers. They are in the slot, or where the slot points to."""
        inline = slots >> np.uint64(63) == 1
        size = np.where(inline, (slots >> _INLINE_SHIFT) & np.uint64(0x7F), slots & np.uint64(0xFFFFFFFF)).astype(
            np.int64
        )
        offset = (slots >> np.uint64(32)).astype(np.int64)
        inside = inline | ((offset >= 0) & (offset + size <= lengths - PREFIX_BYTES))
        self.known &= inside & (~inline | (size <= INLINE_BYTES))
        begin = np.where(inline, at, np.where(inside, rows + offset, 0))
        unused = np.uint64(8) * (np.uint64(8) - np.minimum(size, 8).astype(np.uint64))
        first = self._columns.data.words(begin).byteswap()
        return np.where(size > 0, first >> unused << unused, 0)


def _is_text(field: Field) -> bool:
    return isinstance(field.type, AtomicType) and field.type.root in STRING_ROOTS


def _is_comparable(field: Field) -> bool:
    kind = field.type
    if not isinstance(kind, AtomicType):
        return False
    compact_time = kind.root in ("TIMESTAMP", "TIMESTAMP_LTZ") and kind.precision <= 3
    # The bounds of a CHAR depend on the file's format, which `file_pruning` handles.
    return kind.root in _WIDTHS or kind.root == "VARCHAR" or compact_time


def _signed(slots: Array, field: Field) -> Array:
    assert isinstance(field.type, AtomicType)
    unused = np.int64(64 - _WIDTHS.get(field.type.root, 64))
    return (slots.view(np.int64) << unused) >> unused


def _literal_key(literal: Any, field: Field) -> Any:
    if _is_text(field):
        return np.uint64(int.from_bytes(literal.encode()[:8].ljust(8, b"\0"), "big"))
    row = encode_row([literal], [field.type])
    slot = PREFIX_BYTES + null_area_bytes(1)
    return _signed(np.frombuffer(row[slot : slot + SLOT_BYTES], "<u8"), field)[0]
