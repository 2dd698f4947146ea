"""The files in which two states of a table differ.

Owns: `ChangedFiles`, how they are found for one snapshot and for two states, and when a snapshot surely changed no row.
Must not know: how rows are read and compared. Source: format/manifests §4; format/deletion-vectors §1; format/data-files §7; H22.

Invariants: A snapshot is judged by what its files say. Only a compaction whose rows add up is taken for one. Files that hold
columns of the same rows are always taken together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from ...coordinator.history.timeline import Timeline
from ...core import options as opt
from ...core.errors import InvalidArgument
from ...core.metadata.change import Owner, index_changes, owner_of, vector_places
from ...core.metadata.data_file import ADD, DELETE, DeletionVectorRange, IndexEntry, ManifestEntry
from ...core.metadata.folding import fold, live
from ...core.metadata.schema import TableSchema
from ...core.metadata.snapshot import Snapshot
from ..scan.plan import runs_of

_Places = dict[Owner, tuple[IndexEntry, DeletionVectorRange]]


@dataclass(frozen=True)
class ChangedFiles:
    """The files in which the state of a snapshot differs from the one before.

    Attributes:
        came: files whose rows are in the later state.
        gone: files whose rows were in the earlier state. Rows that are in both did not change.
        came_index, gone_index: the index files of both states, with the deletion vectors of these files.
    """

    snapshot: Snapshot
    came: tuple[ManifestEntry, ...] = ()
    gone: tuple[ManifestEntry, ...] = ()
    came_index: tuple[IndexEntry, ...] = ()
    gone_index: tuple[IndexEntry, ...] = ()


def files_changed_by(
    timeline: Timeline, schema: TableSchema, before: Snapshot | None, found: Snapshot, overwrites: bool
) -> ChangedFiles:
    """The files that one snapshot changed; with `overwrites` False, those that an APPEND added, as Apache Paimon reads them.

    `before` is None for the first snapshot, and where it has expired: `InvalidArgument` if rows that were removed went with it.
    """
    if not overwrites and found.commit_kind != "APPEND":
        return ChangedFiles(found)
    entries = list(fold(timeline.entries(timeline.delta_manifests(found))).values())
    added = tuple(e for e in entries if e.kind == ADD)
    if not overwrites:
        return ChangedFiles(found, added)
    removed = [e for e in entries if e.kind == DELETE]
    vectors = _changed_vectors(timeline, before, found)
    if not removed and not vectors and _are_new_rows(timeline, schema, before, found, added):
        return ChangedFiles(found, added)
    if found.commit_kind == "COMPACT" and _keeps_rows(added, removed, vectors):
        return ChangedFiles(found)
    check_state_before(before, found)
    return files_between(timeline, schema, before, found)


def check_state_before(before: Snapshot | None, found: Snapshot) -> None:
    """Refuse to compare a snapshot with a state that is gone (`InvalidArgument`)."""
    if before is None and found.id > 1:
        raise InvalidArgument(
            f"the rows that snapshot {found.id} ({found.commit_kind}) removed expired with snapshot {found.id - 1}",
            next_step=f"start at {found.id}, or leave such snapshots out with overwrites=False",
        )


def files_between(timeline: Timeline, schema: TableSchema, before: Snapshot | None, after: Snapshot) -> ChangedFiles:
    """The files in which two states differ: those of only one of them, and those whose deleted rows are recorded elsewhere."""
    old = [] if before is None else live(timeline.entries(timeline.manifests(before)))
    new = live(timeline.entries(timeline.manifests(after)))
    old_index = [] if before is None else timeline.index_entries(before)
    new_index = timeline.index_entries(after)
    old_runs, new_runs = _runs(old, old_index, schema), _runs(new, new_index, schema)
    return ChangedFiles(
        after,
        tuple(e for key, run in new_runs.items() if key not in old_runs for e in run),
        tuple(e for key, run in old_runs.items() if key not in new_runs for e in run),
        tuple(new_index),
        tuple(old_index),
    )


def _runs(
    entries: Sequence[ManifestEntry], index: Iterable[IndexEntry], schema: TableSchema
) -> dict[object, Sequence[ManifestEntry]]:
    """The runs of files (see `row_runs`), by all that decides about their rows."""
    places = vector_places(index)

    def rows_key(entry: ManifestEntry) -> object:
        found = places.get(owner_of(entry))
        vector = None if found is None else (found[0].file.file_name, found[1].offset, found[1].length)
        return entry.partition, entry.bucket, entry.file.file_name, entry.file.external_path, vector

    return {frozenset(map(rows_key, run)): run for run in runs_of(entries, schema)}


def _changed_vectors(timeline: Timeline, before: Snapshot | None, found: Snapshot) -> tuple[_Places, _Places] | None:
    """The deletion vectors that a snapshot took away and that it added; None if it changed none."""
    if found.index_manifest == (None if before is None else before.index_manifest):
        return None
    if before is None and found.id > 1 and found.commit_kind == "APPEND":
        return None  # the index of the state before is not known, but an APPEND deletes no rows
    old = [] if before is None else timeline.index_entries(before)
    changes = index_changes(old, timeline.index_entries(found))
    gone = vector_places(e for e in changes if e.kind == DELETE)
    came = vector_places(e for e in changes if e.kind == ADD)
    return (gone, came) if gone or came else None


def _are_new_rows(
    timeline: Timeline,
    schema: TableSchema,
    before: Snapshot | None,
    found: Snapshot,
    added: Collection[ManifestEntry],
) -> bool:
    """Do the added files hold rows of their own, and not new columns of rows that were there?"""
    if not schema.options.get(opt.DATA_EVOLUTION):
        return True
    if before is not None and before.next_row_id is not None:
        first_new = before.next_row_id
        return all(e.file.first_row_id is None or e.file.first_row_id >= first_new for e in added)
    names = {e.file.file_name for e in added}
    runs = runs_of(live(timeline.entries(timeline.manifests(found))), schema)
    return all(len({e.file.file_name in names for e in run}) == 1 for run in runs)


def _keeps_rows(
    added: Iterable[ManifestEntry], removed: Iterable[ManifestEntry], vectors: tuple[_Places, _Places] | None
) -> bool:
    """Did a compaction keep the number of rows of every partition? Then it only moved them."""
    balance: Counter[bytes] = Counter()
    for entry in added:
        balance[entry.partition] += entry.file.row_count
    for entry in removed:
        balance[entry.partition] -= entry.file.row_count
    for sign, places in zip((1, -1), vectors or ({}, {}), strict=True):
        for (partition, _, _), (_, vector) in places.items():
            if vector.cardinality is None:
                return False
            balance[partition] += sign * vector.cardinality
    return not any(balance.values())
