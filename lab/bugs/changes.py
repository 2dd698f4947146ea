"""Planted bugs in the contents of a commit: overwrites, compactions, index files, identities, row ids, lineage.

Owns: `CHANGES`. Must not know: how scenarios are explored. Source: architecture §3 (isolation); H8, H12, H13.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ...coordinator.commit.checks import conflicts
from ...coordinator.commit.checks.changes_since import ChangesSince
from ...coordinator.commit.driver import Driver
from ...coordinator.commit.settling import index_files
from ...coordinator.commit.settling import settler as settling
from ...coordinator.history import lineage
from ...coordinator.history.base import Base
from ...coordinator.history.timeline import Timeline
from ...coordinator.identities import recall as identity_recall
from ...coordinator.identities.pages import Page
from ...coordinator.identities.trace import Trace
from ...coordinator.protocol import events as ev
from ...core.metadata.data_file import DELETE, IndexEntry, ManifestEntry
from ..scenarios import rows, upkeep, writers
from .planting import Mutant


def _replaces_the_base(self: settling.Settler, base: Base) -> Any:
    if self.request.target is None:
        return _files(self, base)
    return conflicts.Followed(conflicts.replaced_files(self.request.target, self.timeline.entries(base.manifests)))


_files = settling.Settler._files
_asked = vars(Driver)["asked"].fget
_combine_index = index_files.combine_index


def _deletes_what_is_gone(old: Sequence[IndexEntry], changes: Iterable[IndexEntry]) -> Any:
    there = {e.file.file_name for e in old}
    return _combine_index(old, [e for e in changes if e.kind != DELETE or e.file.file_name in there])


def _in_order(self: Driver) -> ev.CommitRequested:
    """Jobs are treated as streams."""
    asked: ev.CommitRequested = _asked(self)
    return replace(asked, in_order=True)


_replaced_files = conflicts.replaced_files


def _of_every_partition(target: Any, entries: Iterable[ManifestEntry]) -> Any:
    return _replaced_files(lambda partition: True, entries)


def _any_follower_is_proof(timeline: Timeline, tried: ev.SnapshotPrepared, alone: bool) -> Any:
    if timeline.find(tried.snapshot.id + 1) is not None:
        return lineage.Standing()
    return _continued(timeline, tried, alone)


_continued = lineage._continued
_since = ChangesSince.since


def _ids_are_enough(self: ChangesSince, read: Any, base: Any) -> Any:
    found = self.timeline.find(read.id) if read is not None else None
    return _since(self, found or read, base)


_settle = settling.Settler.settle


def _row_ids_of_the_first_base(self: settling.Settler, base: Base, ours_id: int) -> Any:
    first = vars(self).setdefault("first_row_id", base.next_row_id)
    if base.snapshot is not None:
        base = replace(base, snapshot=replace(base.snapshot, next_row_id=first))
    return _settle(self, base, ours_id)


_FEWER_CHECKS = tuple(check for check in conflicts.CHECKS if check is not conflicts.compacted_with_newer_rows)

CHANGES: tuple[Mutant, ...] = (
    Mutant(
        "an overwrite removes what was appended meanwhile",
        lambda: [(settling.Settler, "_files", _replaces_the_base)],
        (rows.overwriting_beside_append(0),),
    ),
    Mutant(
        "an overwrite follows a compaction of newer rows",
        lambda: [(conflicts, "CHECKS", _FEWER_CHECKS)],
        (rows.compacting_beside_overwrite(0),),
    ),
    Mutant("two overwrites of the same rows", lambda: [(conflicts, "CHECKS", ())], (rows.overwriting(0),)),
    Mutant(
        "an overwrite of every partition",
        lambda: [(settling, "replaced_files", _of_every_partition)],
        (rows.partition_replaced(0),),
    ),
    Mutant(
        "the read snapshot is known by its id alone",
        lambda: [(ChangesSince, "since", _ids_are_enough)],
        (rows.overwriting_after_rollback(0),),
    ),
    Mutant(
        "an index file that is gone is replaced",
        lambda: [
            (settling, "combine_index", _deletes_what_is_gone),
            (settling, "inputs_changed", lambda request, changes: None),  # it would notice the other deletion first
        ],
        (rows.deleting_from_one_file(0, marked=True),),
    ),
    Mutant(
        "a compaction of rows that were marked meanwhile",
        lambda: [
            (settling, "inputs_marked", lambda request, index: None),
            (settling, "inputs_changed", lambda request, changes: None),
        ],
        (rows.compacting_beside_delete(0),),
    ),
    Mutant(
        "a memory is believed to be complete without its page",
        lambda: [(identity_recall, "_page", lambda name, timeline, known, needed_by: Page())],
        (upkeep.forgotten(expires=False),),
    ),
    Mutant(
        "the last identifier of a user alone is remembered",
        lambda: [(Trace, "with_landing", lambda self, identifier, snapshot, query: Trace.of(identifier, snapshot))],
        (writers.gaps(0),),
    ),
    Mutant(
        "identifiers below the last one count as landed",
        lambda: [(Trace, "__contains__", lambda self, identifier: identifier <= self.last)],
        (writers.gaps(0),),
    ),
    Mutant(
        "identifiers below the last one are refused",
        lambda: [(Driver, "asked", property(_in_order))],
        (writers.gaps(0),),
    ),
    Mutant(
        "whatever follows is proof",
        lambda: [(lineage, "_continued", _any_follower_is_proof)],
        (upkeep.expired(0, by_hand=True),),
    ),
    Mutant(
        "row ids of the first base",
        lambda: [(settling.Settler, "settle", _row_ids_of_the_first_base)],
        (rows.numbered_rows(0),),
    ),
)
