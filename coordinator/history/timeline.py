"""Reads a table's history from its store: snapshots, lists and manifests.

Owns: finding the latest snapshot, and reading the files that snapshots reference. Must not know: how a commit is made, or by
whom. Source: format/snapshot §1, §3; H7, H21, H25.
Invariants: without a gap in the ids, one listing decides and no hint is needed (H7). Where there is a gap, the one rule in
`rule` decides for all callers. A missing file is reported by its name.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...backends.store import ObjectInfo, ObjectNotFound
from ...core.errors import TableCorrupt
from ...core.metadata.snapshot import Snapshot, parse_snapshot
from ...core.paths import number_in, version_of
from ..protocol.snapshot_ref import SnapshotRef
from .kept_files import KeptFiles
from .manifests import Manifests
from .rule import Evidence, Gap, the_history

if TYPE_CHECKING:
    from ...core.metadata.manifest import ManifestFile

BASE_PROPERTY = "lakelatch.base"
"""`<id>:<identity>` of the snapshot that this one was built on; `0:` for none."""
_EARLIEST = "EARLIEST"


def ref_of(snapshot: Snapshot | None) -> SnapshotRef | None:
    return None if snapshot is None else SnapshotRef(snapshot.id, snapshot.identity)


@dataclass(frozen=True, slots=True)
class Latest:
    """The end of a table's history.

    Attributes:
        unhinted: the oldest id of the history (1 for a table without a snapshot), where the hint EARLIEST is missing.
        instead: what holds the name of the snapshot that was seen before, if it is another one by now.
        listed: the tag of the snapshot's file in the listing; empty if it is not known.
        read_later: the snapshot was read after it had been listed, so that a listing with the same tag proves it.
    """

    snapshot: Snapshot | None
    unhinted: int | None = None
    instead: Snapshot | None = None
    listed: str = ""
    read_later: bool = False


_LOOKED_FOR = 100
"""So many missing snapshots are looked for by their names."""


class Timeline(Manifests):
    """Reads one branch of one table. Thread-safe; caches only immutable files (snapshots by identity, H18)."""

    # ----------------------------------------------------------------------------------------------------- snapshots

    def snapshot_ids(self) -> list[int]:
        return self._ids_among(self._snapshot_tags())

    def checked_snapshot_ids(self) -> list[int]:
        """The same, for whom a gap is damage: what came while a listing went from page to page is looked for by its name."""
        ids = self.snapshot_ids()
        runs = contiguous_runs(ids)
        gaps = (n for before, after in itertools.pairwise(runs) for n in range(before.stop, after.start))
        missing = list(itertools.islice(gaps, _LOOKED_FOR))
        found = {n for n, is_there in zip(missing, self.parallel(self.has_snapshot, missing), strict=True) if is_there}
        newest = ids[-1] if ids else 0
        while ids and self.has_snapshot(newest + 1):
            newest += 1
            found.add(newest)
        return sorted({*ids, *found})

    def has_snapshot(self, snapshot_id: int) -> bool:
        try:
            self.store.head(self.paths.snapshot(snapshot_id))
        except ObjectNotFound:
            return False
        return True

    def changelog_ids(self) -> list[int]:
        """The ids of expired snapshots whose changes are still there, ascending."""
        return self.ids_in(self.paths.changelog_dir, "changelog")

    def changelog(self, snapshot_id: int) -> Snapshot:
        """An expired snapshot whose changes are still there; its state is gone. Raises ObjectNotFound, TableCorrupt."""
        key = self.paths.changelog(snapshot_id)
        return parse_snapshot(self.store.get(key), key)

    def changelog_manifests(self, snapshot: Snapshot) -> tuple[ManifestFile, ...]:
        name = snapshot.changelog_manifest_list
        return () if name is None else self.manifest_list(name, self.file_of(snapshot))

    def _snapshot_tags(self) -> dict[str, str]:
        folder = self.paths.snapshot_dir
        return {info.key[len(folder) :]: info.tag for info in self.store.list(folder)}

    @staticmethod
    def _ids_among(names: Iterable[str]) -> list[int]:
        return sorted(i for name in names if (i := version_of(name, "snapshot")) is not None)

    def snapshot_id_of(self, key: str) -> int | None:
        folder = self.paths.snapshot_dir
        return version_of(key[len(folder) :], "snapshot") if key.startswith(folder) else None

    def snapshot(self, snapshot_id: int) -> Snapshot:
        """Read snapshot `snapshot_id`. Raises ObjectNotFound where the file does not exist, TableCorrupt where it is damaged."""
        key = self.paths.snapshot(snapshot_id)
        found = parse_snapshot(self.store.get(key), key)
        if found.id != snapshot_id:
            raise TableCorrupt(f"{key}: field 'id' is {found.id}: it is another snapshot's file")
        return found

    def find(self, snapshot_id: int) -> Snapshot | None:
        try:
            return self.snapshot(snapshot_id)
        except ObjectNotFound:
            return None

    def latest(self, seen: Snapshot | None = None, beyond: int = 2) -> Snapshot | None:
        """The last snapshot of the table's history, None for a table without one (see `look`)."""
        return self.look(seen, beyond=beyond).snapshot

    def look(
        self, seen: Snapshot | None = None, *, just_read: bool = False, beyond: int = 2, listed: str = ""
    ) -> Latest:
        """The end of the table's history, and whether EARLIEST still has to be written.

        Args:
            seen: a snapshot that was part of the history. The following ids are requested in parallel with the listing, so that
                a writer that is a little behind needs one round trip. A listing without it is stale, and continued from it.
            just_read: `seen` was read a moment ago and is this table's. Otherwise it is read again: it may be another by now.
            beyond: how many of the ids that follow `seen` are requested.
            listed: the tag that `seen` had in an earlier listing, before it was read. With the same tag it is not read again.

        Raises:
            TableNotFound: the table was dropped, renamed, or made again since it was opened.
            TableCorrupt: the ids have a gap, and the evidence does not show which side of it is the history (H25).
        """
        guesses = [] if seen is None or listed else [seen.id + n for n in range(int(just_read), beyond + 1)]
        with self._executor(5, "lakelatch-latest") as pool:
            asked = [pool.submit(self.find, guess) for guess in guesses]
            checked = [pool.submit(self.check_table)] if self.first_schema is not None and not just_read else []
            names = self._snapshot_tags()
            found = [answer.result() for answer in asked]
            for check in checked:
                check.result()
        stands = seen is not None and listed != "" and self._tag(names, seen) == listed
        if listed and not stands:
            return self.look(seen, beyond=beyond)
        again = found[0] if found and not just_read else None
        instead = again if again is not None and ref_of(again) != ref_of(seen) else None
        near = {s.id: s for s in (seen if just_read or stands else None, *found) if s is not None}
        ids = self._ids_among(names)
        if near and max(near) > max(ids, default=0):
            top, begin = self._walk_on(near[max(near)]), min([*ids, *near])
            return Latest(top, None if _EARLIEST in names else begin, instead)
        history = self._decided(ids)
        newest = known = near.get(history[-1]) if history else None
        if newest is None:
            newest = self._top_snapshot(history[-1] if history else 0)
        unhinted = None if _EARLIEST in names else history.start if history else 1
        return Latest(newest, unhinted, instead, self._tag(names, newest), stands or known is None)

    def _tag(self, names: Mapping[str, str], snapshot: Snapshot | None) -> str:
        return (
            "" if snapshot is None else names.get(self.paths.snapshot(snapshot.id)[len(self.paths.snapshot_dir) :], "")
        )

    def _top_snapshot(self, top: int) -> Snapshot | None:
        """The newest snapshot of a listing; if it was rolled back since, list again."""
        for _ in range(3):
            found = self.find(top) if top else None
            if found is not None or top == 0:
                return found
            history = self._decided(self.snapshot_ids())
            top = history[-1] if history else 0
        raise TableCorrupt(f"{self.paths.snapshot(top)} is listed but cannot be read")

    def history(self, ids: Sequence[int]) -> range | Gap:
        """The ids of the history among the listed ones (ascending, not empty); where they have a gap, `rule` decides (H6)."""

        def evidence() -> Evidence:
            earliest, latest = self.parallel(self.hint, ("EARLIEST", "LATEST"))
            return Evidence(earliest, latest, self._lists_gone, self._is_foreign, self._inherits)

        return the_history(contiguous_runs(ids), evidence)

    def history_ids(self) -> list[int]:
        """The ids of the history, ascending, without what a refused deletion has left below; all ids where it is not decided."""
        return self.history_of(self.snapshot_ids())

    def history_of(self, ids: list[int]) -> list[int]:
        history = self.history(ids) if ids else range(0)
        return ids if isinstance(history, Gap) else [number for number in ids if number in history]

    def _decided(self, ids: Sequence[int]) -> range:
        history = self.history(ids) if ids else range(0)
        if isinstance(history, Gap):
            first, last = self.paths.hint("EARLIEST"), self.paths.hint("LATEST")
            raise TableCorrupt(
                f"{history.reason}: it cannot be decided which of them are the table's history; look at the last snapshot of "
                f"each run with at(snapshot=...), then write the first id of the right run into {first} and its last id "
                f"into {last}",
                next_step="",
            )
        return history

    def _lists_gone(self, snapshot_id: int) -> bool:
        """Whether an expiry has already deleted the lists of a snapshot; it deletes the snapshot's own file last."""
        found = self.find(snapshot_id)
        if found is None:
            return True
        try:
            self.store.head(self.paths.manifest(found.delta_manifest_list))
        except ObjectNotFound:
            return True
        return False

    def _is_foreign(self, snapshot_id: int) -> bool:
        found = self.find(snapshot_id)
        return found is not None and BASE_PROPERTY not in found.own_properties

    def _inherits(self, upper_id: int, lower_id: int) -> bool:
        upper, lower = self.find(upper_id), self.find(lower_id)
        if upper is None or lower is None:
            return False
        try:
            added, held = self.both(lambda: self.delta_manifests(lower), lambda: self.manifests(upper))
        except TableCorrupt:
            return False
        return not {m.file_name for m in added}.isdisjoint(m.file_name for m in held)

    def _walk_on(self, found: Snapshot) -> Snapshot:
        while True:
            further = self.find(found.id + 1)
            if further is None:
                return found
            found = further

    def hint(self, name: str) -> int | None:
        """The value of `LATEST` or `EARLIEST`; None where the hint is missing or garbage. It proves nothing (H7)."""
        return self._number_in(self.paths.hint(name))

    def changelog_hint(self, name: str) -> int | None:
        return self._number_in(f"{self.paths.changelog_dir}{name}")

    def _number_in(self, key: str) -> int | None:
        try:
            return int(self.store.get(key))
        except (ObjectNotFound, ValueError):
            return None

    def tag(self, name: str) -> Snapshot:
        """The snapshot that a tag holds. Raises ObjectNotFound."""
        key = self.paths.tag(name)
        return parse_snapshot(self.store.get(key), key)

    def tag_files(self) -> dict[str, ObjectInfo]:
        """The files of the branch's tags as listed, by the names of the tags; nothing is read."""
        listed = ((self.paths.tag_of(info.key), info) for info in self.store.list(self.paths.tag_dir))
        return {name: info for name, info in listed if name is not None}

    def holding(self, held: KeptFiles) -> Timeline:
        return Timeline(self.store, self.paths, self._executor, self.first_schema, self._schemas, held)


def base_of(snapshot: Snapshot) -> SnapshotRef | None:
    """The base that a snapshot records; None where it records none, or another writer made it."""
    written, _, identity = snapshot.own_properties.get(BASE_PROPERTY, "").partition(":")
    number = number_in(written)
    return SnapshotRef(number, identity) if number else None


def contiguous_runs(ids: Sequence[int]) -> list[range]:
    """Split ascending ids into runs without gaps.

    >>> contiguous_runs([1, 2, 5])
    [range(1, 3), range(5, 6)]
    """
    runs: list[range] = []
    for value in ids:
        if runs and runs[-1].stop == value:
            runs[-1] = range(runs[-1].start, value + 1)
        else:
            runs.append(range(value, value + 1))
    return runs
