"""Bugs in what a commit changes: overwrites, compactions, index files, identities, row ids, lineage; planted one at a time.

Owns: `CHANGES`. Must not know: how scenarios are explored. Source: design §3 (isolation), §10; H8, H12, H13.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from ..coordinator import attempt, conflicts, lineage, run
from ..coordinator.identity import Memory
from ..coordinator.protocol import events as ev
from ..coordinator.timeline import Timeline
from ..core.data_file import ADD, DELETE, IndexEntry, ManifestEntry
from . import scenarios_rows as rows
from . import scenarios_upkeep as upkeep
from .planting import Mutant


def _replaces_the_base(self: run.CommitRun) -> Any:
    """What was appended meanwhile is replaced too, as Apache Paimon's overwrite does."""
    assert self.request.target is not None
    found = conflicts.replaced_files(self.request.target, self.timeline.entries(self._base().manifests))
    return (*(e.deletion() for e in found.values()), *self.request.entries), None


def _follows_anything(request: Any, replaced: dict[Any, ManifestEntry], changes: Sequence[Any]) -> Any:
    """The output of a compaction is deleted though newer rows went into it."""
    current = dict(replaced)
    for change in changes:
        inputs = [e.identity for e in change.entries if e.kind != ADD and e.identity in current]
        if change.kind == "COMPACT" and inputs:
            current = {identity: e for identity, e in current.items() if identity not in inputs}
            current.update({e.identity: e for e in change.entries if e.kind == ADD})
    return current, None


_combine_index = attempt.combine_index


def _deletes_what_is_gone(old: Sequence[IndexEntry], request: Any) -> Any:
    """The DELETE of an index file that somebody has replaced meanwhile is passed over."""
    there = {e.file.file_name for e in old}
    kept = tuple(e for e in request.index_entries if e.kind != DELETE or e.file.file_name in there)
    return _combine_index(old, replace(request, index_entries=kept))


_replaced_files = conflicts.replaced_files


def _of_every_partition(target: Any, entries: Iterable[ManifestEntry]) -> Any:
    return _replaced_files(lambda partition: True, entries)


def _any_follower_is_proof(timeline: Timeline, ours: Any, alone: bool, delta: Callable[[], Any]) -> ev.Event:
    """Where a snapshot follows, ours is taken for its base."""
    if timeline.find(ours.id + 1) is not None:
        return ev.LineageVerified()
    return _continued(timeline, ours, alone, delta)


_continued = lineage._continued
_changes_since = run.CommitRun._changes_since


def _ids_are_enough(self: run.CommitRun, read: Any, base: Any) -> Any:
    """The snapshot that was read is known by its id alone."""
    found = self.timeline.find(read.id) if read is not None else None
    return _changes_since(self, found or read, base)


_collect_changes = run.CommitRun.collect_changes


def _row_ids_of_the_first_base(self: run.CommitRun, effect: Any) -> ev.Event:
    """Rows are numbered on from the base of the first attempt."""
    base = self._base()
    first = vars(self).setdefault("first_row_id", base.next_row_id)
    if base.snapshot is not None:
        self.base = replace(base, snapshot=replace(base.snapshot, next_row_id=first))
    return _collect_changes(self, effect)


CHANGES: tuple[Mutant, ...] = (
    Mutant(
        "an overwrite removes what was appended meanwhile",
        lambda: [(run.CommitRun, "_settle_overwrite", _replaces_the_base)],
        (rows.overwriting_beside_append(0),),
    ),
    Mutant(
        "an overwrite follows a compaction of newer rows",
        lambda: [(run, "follow_compactions", _follows_anything)],
        (rows.compacting_beside_overwrite(0),),
    ),
    Mutant("two overwrites of the same rows", lambda: [(conflicts, "CHECKS", ())], (rows.overwriting(0),)),
    Mutant(
        "an overwrite of every partition",
        lambda: [(run, "replaced_files", _of_every_partition)],
        (rows.partition_replaced(0),),
    ),
    Mutant(
        "the read snapshot is known by its id alone",
        lambda: [(run.CommitRun, "_changes_since", _ids_are_enough)],
        (rows.overwriting_after_rollback(0),),
    ),
    Mutant(
        "an index file that is gone is replaced",
        lambda: [(run, "combine_index", _deletes_what_is_gone)],
        (rows.deleting_from_one_file(0, marked=True),),
    ),
    Mutant(
        "a compaction of rows that were marked meanwhile",
        lambda: [(run, "inputs_marked", lambda request, index: None)],
        (rows.compacting_beside_delete(0),),
    ),
    Mutant(
        "a full memory is believed to be complete",
        lambda: [(Memory, "full", property(lambda self: False))],
        (upkeep.forgotten(expires=False),),
    ),
    Mutant(
        "whatever follows is proof",
        lambda: [(lineage, "_continued", _any_follower_is_proof)],
        (upkeep.expired(0, by_hand=True),),
    ),
    Mutant(
        "row ids of the first base",
        lambda: [(run.CommitRun, "collect_changes", _row_ids_of_the_first_base)],
        (rows.numbered_rows(0),),
    ),
)
