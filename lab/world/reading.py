"""The state of a store as readers see it, snapshot by snapshot, from the top down.

Owns: `look`, `View`, `Reading`. Must not know: schedules, reported outcomes, invariants. Invariants: the readers are the
shipped `Timeline`, with no additional logic here. Files are searched where the newest schema of the table puts them.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...coordinator.history.timeline import Timeline
from ...core.errors import LakelatchError
from ...core.metadata.data_file import ADD, IndexEntry, ManifestEntry
from ...core.metadata.folding import live
from ...core.metadata.hash_index import INDEX_TYPE as HASH_INDEX
from ...core.metadata.snapshot import Snapshot
from ...core.places import FileKeys
from .filtered import resurrected
from .keyed import is_keyed, unindexed, winners
from .marks import marks_in
from .simulated_store import Objects
from .stage import PATHS, file_keys, lab_schema, read_only, rows_in

_PLAIN = lab_schema().to_json()


@dataclass(frozen=True)
class View:
    """One snapshot as readers see it.

    Attributes:
        files: its live data files; `before`: those of its base list alone.
        visible: the rows that they hold, without those that a deletion vector marks.
        needs: every object that a reader of it requests.
        stray: data files with a live deletion vector that are not live themselves.
        twice: files with row ids that rows of another file have too.
        open_order: keys for which it is not clear which row is the newest one.
        unindexed: rows of dynamic buckets whose keys the hash index of their bucket lacks.
    """

    snapshot: Snapshot
    files: tuple[str, ...]
    before: frozenset[str]
    visible: tuple[str, ...]
    added: frozenset[str]
    delta_rows: int
    rows: int
    needs: frozenset[str]
    stray: tuple[str, ...] = ()
    twice: tuple[str, ...] = ()
    open_order: tuple[str, ...] = ()
    resurrected: tuple[str, ...] = ()
    unindexed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reading:
    """The snapshots that readers see, from the top down, as far as each is based on the one below."""

    views: tuple[View, ...] = ()
    failure: str = ""

    @property
    def top(self) -> View | None:
        return self.views[0] if self.views else None


def newest_schema(objects: Objects) -> bytes:
    keys = [key for key in objects if key.startswith("schema/schema-")]
    return objects[max(keys, key=lambda key: int(key.rpartition("-")[2]))] if keys else _PLAIN


def look(objects: Objects, *, needs_schema: bool = False) -> Reading:
    """Look as a fresh reader does. `needs_schema`: without a schema file, the table does not exist and the reading is empty."""
    if needs_schema and not any(key.startswith("schema/schema-") for key in objects):
        return Reading()
    with read_only(objects) as timeline:
        try:
            snapshot = timeline.latest()
            views = []
            while snapshot is not None:
                try:
                    views.append(view(timeline, snapshot, objects))
                except LakelatchError:
                    if not views:
                        raise
                    break
                snapshot = timeline.find(snapshot.id - 1)
            return Reading(tuple(views))
        except LakelatchError as error:
            return Reading((), str(error))


def view(timeline: Timeline, snapshot: Snapshot, objects: Objects) -> View:
    """Read one snapshot. Raises TableCorrupt if metadata that it names is missing."""
    keys = file_keys(newest_schema(objects))
    base = timeline.manifest_list(snapshot.base_manifest_list)
    delta = timeline.manifest_list(snapshot.delta_manifest_list)
    before, changes = timeline.entries(base), timeline.entries(delta)
    index = timeline.index_entries(snapshot)
    alive = live([*before, *changes])
    lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list)
    names = (*lists, *(m.file_name for m in (*base, *delta)), *filter(None, [snapshot.index_manifest]))
    wanted = [PATHS.manifest(name) for name in names]
    wanted += [key for entry in alive for key in keys.data(entry)]
    wanted += [keys.index(entry) for entry in index]
    visible, wrong, back = _visible(alive, index, objects, keys)
    return View(
        snapshot=snapshot,
        files=tuple(e.file.file_name for e in alive),
        before=frozenset(e.file.file_name for e in live(before)),
        visible=visible,
        added=frozenset(c for e in changes if e.kind == ADD for c in rows_in(e.file.file_name)),
        delta_rows=sum(e.file.row_count if e.kind == ADD else -e.file.row_count for e in changes),
        rows=sum(e.file.row_count for e in alive),
        needs=frozenset(wanted),
        stray=_stray(alive, index),
        twice=_with_ids_of_others(alive),
        open_order=wrong,
        resurrected=back,
        unindexed=_unindexed(alive, index, objects, keys),
    )


def _unindexed(
    alive: list[ManifestEntry], index: list[IndexEntry], objects: Objects, keys: FileKeys
) -> tuple[str, ...]:
    if not is_keyed(newest_schema(objects))[0]:
        return ()
    hashes = {e.bucket: objects.get(keys.index(e), b"") for e in index if e.file.index_type == HASH_INDEX}
    return unindexed(alive, hashes)


def _visible(
    alive: list[ManifestEntry], index: list[IndexEntry], objects: Objects, keys: FileKeys
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The rows that readers see (merged by key), what is wrong with their order, and what a filter brings back."""
    files = {e.file.file_name: objects[keys.index(e)] for e in index if keys.index(e) in objects}
    marks = marks_in([e for e in index if e.file.file_name in files], files)
    schema = newest_schema(objects)
    has_keys, vectors = is_keyed(schema)
    if has_keys:
        rows, wrong = winners(alive, marks, vectors=vectors)
        back = resurrected(alive, marks, schema, vectors=vectors)
        return tuple(f"{row.commit}~{row.key}" for row in rows if not row.deletes), wrong, back
    rows_of_all = (
        commit
        for entry in alive
        for position, commit in enumerate(rows_in(entry.file.file_name))
        if position not in marks.get(entry.file.file_name, ())
    )
    return tuple(rows_of_all), (), ()


def _stray(alive: list[ManifestEntry], index: list[IndexEntry]) -> tuple[str, ...]:
    there = {(e.partition, e.bucket, e.file.file_name) for e in alive}
    return tuple(
        vector.data_file
        for entry in index
        for vector in entry.file.deletion_vectors or ()
        if (entry.partition, entry.bucket, vector.data_file) not in there
    )


def _with_ids_of_others(alive: list[ManifestEntry]) -> tuple[str, ...]:
    found: list[str] = []
    end = -1
    numbered = [(e.file.first_row_id, e.file) for e in alive if e.file.first_row_id is not None]
    for first, file in sorted(numbered, key=lambda one: one[0]):
        if first < end:
            found.append(file.file_name)
        end = max(end, first + file.row_count)
    return tuple(found)
