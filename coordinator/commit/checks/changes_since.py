"""The changes that other snapshots made after a commit read the table, as read from their files.

Owns: `ChangesSince` (each change is read once) and `was_moved`. Must not know: which changes are conflicts, the machine.
Source: architecture §3 (isolation); format/snapshot §2; format/manifests §7; H18, H22.
Invariants: results are cached by the snapshot's identity, never by its id. Index files are not read while the name of the index
manifest stays the same. A deletion vector counts as changed unless it is proven to be the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from ....backends.store import ObjectNotFound, Store
from ....core.errors import TableCorrupt
from ....core.metadata.change import Change, Landed, Owner, index_changes, owner_of, vector_places
from ....core.metadata.data_file import ADD, DELETE, DeletionVectorRange, IndexEntry, ManifestEntry
from ....core.metadata.deletion_vector import vector_bytes, vector_end
from ....core.metadata.manifest import ManifestFile
from ....core.metadata.snapshot import UNDONE, UNDONE_COMMIT, Snapshot, replaced_by
from ....core.paths import number_in
from ....core.places import FileKeys, is_external
from ...history.timeline import Timeline, base_of, ref_of
from ...intents.carried import carried_by
from .conflicts import Conflict
from .restored import PROTECTING_TAG

HISTORY_GONE = "history_is_visible"

Vector = tuple[IndexEntry, DeletionVectorRange]


@dataclass
class ChangesSince:
    """Reads the changes of other writers for one commit. `concerns` selects the partitions for which deleted rows matter;
    `manifests` holds entries that were read for something else.
    """

    timeline: Timeline
    keys: FileKeys
    concerns: Callable[[bytes], bool]
    manifests: dict[str, Sequence[ManifestEntry]] = field(default_factory=dict)
    _known: dict[tuple[str, str | None], Landed] = field(default_factory=dict)
    _deltas: dict[str, tuple[ManifestFile, ...]] = field(default_factory=dict)
    _read: dict[int, Snapshot] = field(default_factory=dict)

    def since(
        self, read: Snapshot | None, base: Snapshot | None, passes: Callable[[Snapshot], bool] | None = None
    ) -> list[Landed] | Conflict:
        """The changes of other writers after `read`, up to `base`, each commit apart; a conflict where they are gone. Those of
        snapshots that `passes` says do not matter are left out, and not read.
        """
        chain = self._chain(read, base)
        if chain is None:
            return Conflict(HISTORY_GONE, "some snapshots made since this commit read the table no longer exist")
        steps = [
            (before, found)
            for before, found in pairwise(chain)
            if found is not None and not (passes is not None and passes(found))
        ]
        return [one for found in self.timeline.parallel(lambda step: self._commits(*step), steps) for one in found]

    def snapshots(self, read: Snapshot | None, base: Snapshot | None, most: int) -> list[Snapshot] | None:
        """The snapshots after `read`, up to `base`; None where they are more than `most`, or can no longer be read."""
        if (base.id if base else 0) - (read.id if read else 0) > most:
            return None
        chain = self._chain(read, base)
        return None if chain is None else [found for found in chain[1:] if found is not None]

    def _commits(self, before: Snapshot | None, found: Snapshot) -> list[Landed]:
        """The change of a snapshot, split by the commits that it carries: each has an order of its own among the others."""
        landed, carried = self.landed(before, found), [f"-{one.commit}-" for one in carried_by(found)]
        if len(carried) < 2:
            return [landed]
        own: dict[str, list[ManifestEntry]] = {commit: [] for commit in carried}
        for manifest in self._delta(found):
            commit = next((commit for commit in carried if commit in manifest.file_name), carried[0])
            own[commit] += self.manifests[manifest.file_name]
        first, *others = own.values()
        change = landed.change
        leader = replace(landed, change=replace(change, entries=tuple(first)))
        return [
            leader,
            *(
                Landed(
                    found.id,
                    found.commit_kind,
                    found.commit_user,
                    Change(tuple(e), (), found.schema_id),
                    operation=found.operation,
                )
                for e in others
            ),
        ]

    def _chain(self, read: Snapshot | None, base: Snapshot | None) -> list[Snapshot | None] | None:
        """The snapshots from `read` to `base`, both included; None where one is gone, or where another is in the place of `read`.

        One that an earlier attempt has read is still the one of its id if its successor says that it builds on it. Below a
        snapshot of another engine, which does not say so, all are read again.
        """
        start, end = read.id if read else 0, base.id if base else 0
        ids = range(max(start, 1), end)
        old = [i for i in ids if i == start or i in self._read]
        self._find([i for i in ids if i != start and i not in self._read])
        self._read |= {s.id: s for s in (read, base) if s is not None}
        if end < start or any(i not in self._read for i in range(start + 1, end)):
            return None
        doubted = max((i for i in old if base_of(self._read[i + 1]) != ref_of(self._read[i])), default=0)
        self._find([i for i in old if i <= doubted])
        chain = [self._read.get(i) for i in range(start, end + 1)]
        return chain if ref_of(chain[0]) == ref_of(read) and None not in chain[1:] else None

    def _find(self, ids: Sequence[int]) -> None:
        for i, found in zip(ids, self.timeline.parallel(self.timeline.find, ids), strict=True):
            self._read.pop(i, None)
            if found is not None:
                self._read[i] = found

    def landed(self, before: Snapshot | None, found: Snapshot) -> Landed:
        name = before.index_manifest if before is not None else None
        known = self._known.get((found.identity, name))
        if known is not None:
            return known
        delta = self._delta(found)
        unread = [m for m in delta if m.file_name not in self.manifests]
        self.manifests.update(
            zip((m.file_name for m in unread), self.timeline.parallel(self.timeline.entries_of, unread), strict=True)
        )
        entries = tuple(e for m in delta for e in self.manifests[m.file_name])
        index: tuple[IndexEntry, ...] = ()
        if found.index_manifest != name:
            old = self.timeline.index_entries(before) if before is not None else []
            index = index_changes(old, self.timeline.index_entries(found))
        change = Change(entries, index, found.schema_id)
        marked = self._marked(entries, index)
        meant = (replaced_by(found), _undone_by(found), found.operation, PROTECTING_TAG in found.own_properties)
        landed = Landed(found.id, found.commit_kind, found.commit_user, change, marked, *meant)
        self._known[found.identity, name] = landed
        return landed

    def _delta(self, found: Snapshot) -> tuple[ManifestFile, ...]:
        if found.identity not in self._deltas:
            self._deltas[found.identity] = self.timeline.delta_manifests(found)
        return self._deltas[found.identity]

    def _marked(self, entries: Sequence[ManifestEntry], index: Sequence[IndexEntry]) -> frozenset[Owner]:
        """The data files that stay, but have a different deletion vector than before."""
        before = vector_places(e for e in index if e.kind == DELETE)
        after = vector_places(e for e in index if e.kind == ADD)
        gone = {owner_of(e) for e in entries} - {owner_of(e) for e in entries if e.kind == ADD}
        owners = [owner for owner in {**before, **after} if owner not in gone and self.concerns(owner[0])]
        store = self.timeline.store
        same = self.timeline.parallel(
            lambda owner: was_moved(store, self.keys, before.get(owner), after.get(owner)), owners
        )
        return frozenset(owner for owner, is_same in zip(owners, same, strict=True) if not is_same)


def _undone_by(snapshot: Snapshot) -> int | None:
    said = snapshot.own_properties
    undone = number_in(said.get(UNDONE, ""))
    return 0 if undone is not None and UNDONE_COMMIT in said else undone


def was_moved(store: Store, keys: FileKeys, before: Vector | None, after: Vector | None) -> bool:
    """Whether a vector was only moved to another index file, which happens when its neighbours change: no row is affected."""
    if before is None or after is None:
        return False
    counts = {before[1].cardinality, after[1].cardinality} - {None}
    if len(counts) > 1:
        return False
    data = _vector_bytes(store, keys, before)
    return data is not None and data == _vector_bytes(store, keys, after)


def _vector_bytes(store: Store, keys: FileKeys, vector: Vector) -> bytes | None:
    key, found = keys.index(vector[0]), vector[1]
    if is_external(key):
        return None
    try:
        data = store.get_range(key, found.offset, vector_end(found))
        return vector_bytes(data, replace(found, offset=0), key)
    except (ObjectNotFound, TableCorrupt):
        return None
