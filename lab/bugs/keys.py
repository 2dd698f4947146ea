"""Planted bugs in commits to tables with a primary key (numbers, levels, deletes, index files), and in reads of them.

Owns: `KEYS`. Must not know: how scenarios are explored. Source: H12, H14; decision 47.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ...coordinator.commit.checks import conflicts, key_order, key_rules
from ...coordinator.commit.riding.group import Group
from ...coordinator.commit.settling import settler as settling
from ...coordinator.commit.settling.hash_indexes import HashJoin
from ...coordinator.history.row_numbers import RowNumbers, Span
from ...coordinator.intents.intent import Intent, Leader
from ...core.errors import LakelatchError
from ...core.metadata.change import Landed, owner_of
from ...core.metadata.data_file import ADD, DELETE, IndexEntry
from ...core.metadata.folding import live
from ...table.scan import key_pruning
from ..scenarios import keys
from ..scenarios import writers as scenarios_writers
from .planting import Mutant

_Rules = key_rules.KeyRules


def _as_written(self: _Rules, entries: Any, base: Any, largest: Any) -> Any:
    return entries


def _blind(old: Sequence[IndexEntry], changes: Iterable[IndexEntry]) -> list[IndexEntry]:
    found = {(e.partition, e.bucket, e.file.index_type): e for e in old}
    for entry in changes:
        if entry.kind == ADD:
            found[entry.partition, entry.bucket, entry.file.index_type] = entry
    return list(found.values())


def _whatever_its_type(old: Sequence[IndexEntry], changes: Iterable[IndexEntry]) -> list[IndexEntry]:
    return list({(e.partition, e.bucket): e for e in (*old, *changes) if e.kind == ADD}.values())


_entries = settling.Settler._entries


def _compacts_what_it_has_not_read(self: settling.Settler, files: Any) -> Any:
    entries = _entries(self, files)
    latest = self.timeline.latest() if self.request.kind == "COMPACT" else None
    if latest is None:
        return entries
    named = {e.identity for e in entries if e.kind == DELETE}
    alive = live(self.timeline.entries(self.timeline.manifests(latest)))
    return (*(e.deletion() for e in alive if e.file.level == 0 and e.identity not in named), *entries)


def _vectors_are_no_inputs(request: Any) -> Any:
    """That a vector names a file which must still be there is forgotten."""
    return {e for e in _inputs_of(request) if any(e == owner_of(d) for d in request.entries if d.kind != ADD)}


_inputs_of = conflicts.inputs_of


def _below_the_others(self: _Rules, entries: Any, base: Any, above: int) -> Any:
    return _renumbered(self, entries, base, 0)


_renumbered = _Rules._renumbered
_numbers_meet = key_order.numbers_meet


def _each_first_number(ours: Any, changes: Any, largest: Any, order: Any) -> Any:
    found = _numbers_meet(ours, changes, largest, order)
    if found is None or found.check != "sequence_numbers_meet":
        return found
    firsts = {key_order.Numbers.of(c.change.entries).first for c in changes if c.kind == "APPEND"}
    return found if ours.first in firsts else None


def _joins_blindly(self: HashJoin, alive: Sequence[IndexEntry]) -> Any:
    """The index files that were read are taken for those that are live."""
    self.hashes = tuple((place, replace(h, read=_names(alive, place[0]))) for place, h in self.hashes)
    return _on(self, alive)


def _names(alive: Sequence[IndexEntry], partition: bytes) -> frozenset[str]:
    return frozenset(e.file.file_name for e in alive if e.file.index_type == "HASH" and e.partition == partition)


_on = HashJoin.on


def _joins_with_nothing(self: HashJoin, partition: bytes, bucket: int, old: Any, new: Any) -> Any:
    entries, file = _join(self, partition, bucket, None, new)
    return [*([] if old is None else [replace(old, kind=DELETE)]), *entries], file


_join = HashJoin._join


def _file_by_file(entries: Any, rules: Any, matches: Any) -> Any:
    return [entry for entry in entries if matches(entry)]


def _no_conflict(*arguments: Any, **more: Any) -> None:
    return None


def _without(check: Any) -> tuple[Any, ...]:
    return tuple(c for c in conflicts.CHECKS if c is not check)


def _what_is_gone_does_not_matter(read: Any, changes: Any) -> Any:
    return _rows_read_changed(replace(read, absent=False), changes)


_rows_read_changed, _has_read = conflicts.rows_read_changed, Landed.has_read


def _reads_what_it_changes(landed: Landed) -> bool:
    return bool(landed.change.entries) and bool(_has_read.__get__(landed))


def _with_room(*about: Any) -> bool:
    return True


def _whatever_was_merged(self: RowNumbers, span: Span) -> bool:
    return _leaves_room(replace(self, merged=-1), span)


_leaves_room = RowNumbers.leaves_room_for


def _in_any_bucket(self: Leader, intent: Intent, others: Any) -> bool:
    told = intent.numbered
    return _has_room(self, replace(intent, numbered=None if told is None else replace(told, buckets=0)), others)


_has_room = Leader._leaves_room_for


KEYS: tuple[Mutant, ...] = (
    Mutant(
        "a leader carries its own numbers twice",
        lambda: [(Leader, "_leaves_room_for", _with_room)],
        (keys.riding_keys(0, tie=True),),
    ),
    Mutant(
        "numbers never meet",
        lambda: [(Span, "meets", lambda self, other: False)],
        (keys.riding_keys(0, tie=True),),
    ),
    Mutant(
        "snapshots have room for all numbers",
        lambda: [(RowNumbers, "leaves_room_for", _with_room)],
        (keys.riding_keys(0, tie=True), keys.riding_keys(0, compacted=True)),
    ),
    Mutant(
        "older rows follow merged ones",
        lambda: [(RowNumbers, "leaves_room_for", _whatever_was_merged)],
        (keys.riding_keys(0, compacted=True),),
    ),
    Mutant(
        "no numbers are compared",
        lambda: [(_Rules, "apart", _with_room)],
        (keys.riding_keys(0, tie=True),),
    ),
    Mutant(
        "riders stay beside new numbers",
        lambda: [(Group, "keep", lambda self, delta, entries: None)],
        (keys.riding_keys(0, carriers=2, tie=True),),
    ),
    Mutant(
        "a rider in buckets of another count",
        lambda: [
            (key_rules, "fits_buckets", _with_room),
            (settling, "fits_buckets", _with_room),
            (Leader, "_leaves_room_for", _in_any_bucket),
        ],
        (keys.rescaled_riders(0),),
    ),
    Mutant(
        "an older job under a change of rows",
        lambda: [(key_order, "_older_than_a_read", _no_conflict)],
        (keys.changing_keys(0, drops=False),),
    ),
    Mutant(
        "a change of no row has read nothing",
        lambda: [(Landed, "has_read", property(_reads_what_it_changes))],
        (keys.changing_no_row(0),),
    ),
    Mutant(
        "an overwrite keeps changed rows",
        lambda: [(conflicts, "CHECKS", _without(conflicts.rows_changed_meanwhile))],
        (keys.changing_keys(0),),
    ),
    Mutant(
        "data is deleted after an unknown outcome",
        lambda: [(LakelatchError, "sent", False)],
        (scenarios_writers.writers(2, 1),),
    ),
    Mutant(
        "removed rows come back",
        lambda: [(settling, "rows_read_changed", _what_is_gone_does_not_matter)],
        (keys.changing_keys(0),),
    ),
    Mutant(
        "an overwrite hides what stays",
        lambda: [(key_rules, "before_what_stays", _no_conflict)],
        (keys.overwriting_keys(0),),
    ),
    Mutant(
        "writers give the same sequence numbers",
        lambda: [(_Rules, "in_order", _as_written)],
        (keys.upserting_first(0), keys.upserting(0)),
    ),
    Mutant(
        "only equal sequence numbers meet",
        lambda: [(key_rules, "numbers_meet", _each_first_number)],
        (keys.upserting(0),),
    ),
    Mutant(
        "rows are numbered again below others",
        lambda: [(_Rules, "_renumbered", _below_the_others)],
        (keys.upserting(0),),
    ),
    Mutant(
        "a delete is dropped under an older job",
        lambda: [(key_order, "_newer_rows_merged", _no_conflict)],
        (keys.deleting_beside_compaction(0),),
    ),
    Mutant(
        "a delete is dropped over an older row",
        lambda: [(key_rules, "older_rows_appended", _no_conflict)],
        (keys.deleting_beside_compaction(0),),
    ),
    Mutant(
        "a compaction takes what was appended",
        lambda: [(settling.Settler, "_entries", _compacts_what_it_has_not_read)],
        (keys.upserts_and_compactions(0, compactors=1),),
    ),
    Mutant(
        "an index file is replaced blindly",
        lambda: [(settling, "combine_index", _blind)],
        (keys.marking_two_files(0),),
    ),
    Mutant(
        "vectors of a file that is gone",
        lambda: [
            (settling, "inputs_of", _vectors_are_no_inputs),
            (conflicts, "inputs_of", _vectors_are_no_inputs),
            (settling, "inputs_changed", _no_conflict),
        ],
        (keys.marking_beside_full(0),),
    ),
    Mutant(
        "rows resurrected by a filter",
        lambda: [(key_pruning, "_left", _file_by_file)],
        (keys.deleting_beside_compaction(0),),
    ),
    Mutant(
        "a key in two buckets",
        lambda: [(HashJoin, "on", _joins_blindly)],
        (keys.placing(0),),
    ),
    Mutant(
        "an index of one commit's keys only",
        lambda: [(HashJoin, "_join", _joins_with_nothing)],
        (keys.indexing(0, writers=1, compactors=1),),
    ),
    Mutant(
        "one index file per bucket",
        lambda: [(settling, "combine_index", _whatever_its_type)],
        (keys.indexing(0, writers=1, compactors=1),),
    ),
)
