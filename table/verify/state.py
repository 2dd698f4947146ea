"""Check the state of a snapshot: its manifest lists, manifests, entries and counts.

Owns: reading each manifest once, however many snapshots name it; the state; comparing counts. Must not know: whether data
files exist (see `files`), how snapshots were chosen. Source: format/manifests §3, §4, §6, §7; format/commit §2.

Invariants: Snapshots are checked in ascending order. If the base list names the manifests of the previous snapshot, that one's
state is used and only the delta is applied. Otherwise (after a manifest compaction) both states are compared, because a file that
is missing from the new one is lost data (G1, G6).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ...coordinator.history.timeline import Timeline
from ...core.errors import TableCorrupt
from ...core.metadata import folding
from ...core.metadata.data_file import ADD, EntryIdentity, IndexEntry, ManifestEntry
from ...core.metadata.manifest import ManifestFile, decode_index_manifest, decode_manifest, decode_manifest_list
from ...core.metadata.schema import TableSchema
from ...core.metadata.snapshot import Snapshot
from ...core.rows.values import order_key
from ...core.statistics.collect import decode_stats, file_stats_fields
from .finding import Findings

T = TypeVar("T")

_TOLD = 5


@dataclass
class State:
    """The live files of one snapshot, by identity, each with the manifest that it comes from.

    Attributes:
        deleted: the identities of all DELETEs, under which a reader finds no file.
        whole: everything could be read, so that counts can be compared.
    """

    names: tuple[str, ...] = ()
    live: dict[EntryIdentity, tuple[ManifestEntry, str]] = field(default_factory=dict)
    deleted: set[EntryIdentity] = field(default_factory=set)
    whole: bool = True


class StateCheck:
    """Checks snapshots one after another; entries are decoded with all readable `schemas`."""

    def __init__(self, timeline: Timeline, schemas: Mapping[int, TableSchema], findings: Findings) -> None:
        self._timeline, self._schemas, self._findings = timeline, schemas, findings
        self._newest = schemas[max(schemas)] if schemas else None
        self._entries: dict[str, list[ManifestEntry] | None] = {}
        self._checked: set[str] = set()
        self._previous: tuple[int, State] | None = None

    def state_of(self, key: str, snapshot: Snapshot) -> State:
        base = self._list(snapshot.base_manifest_list, snapshot.base_manifest_list_size, "baseManifestList", key)
        delta = self._list(snapshot.delta_manifest_list, snapshot.delta_manifest_list_size, "deltaManifestList", key)
        self._load([*(base or ()), *(delta or ())], key)
        state = self._base_state(key, snapshot, base)
        self._apply_delta(key, snapshot, state, delta)
        state.names = tuple(m.file_name for m in (*(base or ()), *(delta or ())))
        if state.whole:
            rows = sum(entry.file.row_count for entry, _ in state.live.values())
            if rows != snapshot.total_record_count:
                message = f"is {snapshot.total_record_count}, but its live files hold {rows} rows"
                self._findings.error(key, "totalRecordCount", message)
        self._previous = (snapshot.id, state)
        self._entries = {name: self._entries.get(name) for name in state.names}
        return state

    def changelog_of(self, key: str, snapshot: Snapshot) -> list[tuple[ManifestEntry, str]]:
        """Read and check a snapshot's changelog and its count of rows. Returns its files with the manifests that name them."""
        if snapshot.changelog_manifest_list is None:
            return []
        size = snapshot.changelog_manifest_list_size
        manifests = self._list(snapshot.changelog_manifest_list, size, "changelogManifestList", key) or []
        entries = [
            (entry, m.file_name)
            for m in manifests
            for entry in self._read(m.file_name, m.file_size, snapshot.changelog_manifest_list) or ()
        ]
        added = [(entry, name) for entry, name in entries if entry.kind == ADD]
        rows, counted = sum(entry.file.row_count for entry, _ in added), snapshot.changelog_record_count
        if counted is not None and counted != rows:
            self._findings.error(key, "changelogRecordCount", f"is {counted}, but its changelog files hold {rows} rows")
        return added

    def index_entries_of(self, key: str, snapshot: Snapshot) -> list[IndexEntry]:
        name = snapshot.index_manifest
        if name is None:
            return []
        data = self._metadata(name, None, "indexManifest", key)
        entries = None if data is None else self._attempt(name, lambda: decode_index_manifest(data, name), key)
        for entry in entries or ():
            if entry.kind != ADD:
                self._findings.error(
                    _key(name), "_KIND", f"deletes {entry.file.file_name}, but an index manifest is a full listing"
                )
        return entries or []

    # ------------------------------------------------------------------------------------------------------- reading

    def _attempt(self, name: str, read: Callable[[], T], named_by: str) -> T | None:
        return self._findings.attempt(_key(name), read, named_by)

    def _metadata(self, name: str, size: int | None, field_name: str, named_by: str) -> bytes | None:
        """The bytes of a file in `manifest/`. Their number is compared with the size in the file that names it."""
        timeline = self._timeline
        try:
            key = timeline.paths.manifest(name, f"{named_by}: field '{field_name}'")
        except TableCorrupt as error:
            self._findings.error(named_by, field_name, error.message.partition(" names ")[2] or error.message)
            return None
        data = self._findings.attempt(key, lambda: timeline.store.get(key), named_by)
        if data is not None and size is not None and size != len(data):
            self._findings.error(key, "", f"has {len(data)} bytes; {named_by} says {size}")
        return data

    def _list(self, name: str, size: int | None, field_name: str, named_by: str) -> list[ManifestFile] | None:
        data = self._metadata(name, size, field_name, named_by)
        return None if data is None else self._attempt(name, lambda: decode_manifest_list(data, name), named_by)

    def _load(self, manifests: Sequence[ManifestFile], key: str) -> None:
        """Read the manifests that were not read before, several at a time, and check each against its entry in the list."""
        todo = {m.file_name: m for m in manifests if m.file_name not in self._entries}
        read = self._timeline.parallel(lambda m: self._read(m.file_name, m.file_size, key), todo.values())
        self._entries.update(zip(todo, read, strict=True))
        for manifest in manifests:
            entries = self._entries[manifest.file_name]
            if entries is not None and manifest.file_name not in self._checked:
                self._checked.add(manifest.file_name)
                self._check_manifest(manifest, entries)
                for entry in entries:
                    self._check_entry(manifest.file_name, entry)

    def _read(self, name: str, size: int, named_by: str) -> list[ManifestEntry] | None:
        data = self._metadata(name, size, "_FILE_NAME", named_by)
        return None if data is None else self._attempt(name, lambda: decode_manifest(data, name), named_by)

    # --------------------------------------------------------------------------------------------------------- state

    def _base_state(self, key: str, snapshot: Snapshot, base: Sequence[ManifestFile] | None) -> State:
        if base is None:
            return State(whole=False)
        names = tuple(m.file_name for m in base)
        follows = self._previous is not None and self._previous[0] == snapshot.id - 1 and self._previous[1].whole
        previous = self._previous[1] if follows and self._previous is not None else None
        if previous is not None and previous.names == names:
            return State(names, previous.live, previous.deleted)
        state = self._fold(names, key)
        if previous is not None and state.whole:
            self._compare(key, snapshot, previous, state)
        return state

    def _fold(self, names: Sequence[str], key: str) -> State:
        state = State()
        deleted: dict[EntryIdentity, str] = {}
        for name in names:
            entries = self._entries.get(name)
            if entries is None:
                state.whole = False
                continue
            for entry in entries:
                if entry.kind != ADD:
                    deleted[entry.identity] = name
                    continue
                if entry.identity in state.live:
                    self._findings.error(
                        _key(name), "_FILE_NAME", f"adds {entry.file.file_name}, which is already live"
                    )
                state.live[entry.identity] = (entry, name)
        state.deleted = set(deleted)
        for identity, name in deleted.items():
            self._delete(state, identity, name)
        return state

    def _delete(self, state: State, identity: EntryIdentity, name: str) -> None:
        if state.live.pop(identity, None) is None and state.whole:
            self._findings.error(_key(name), "_FILE_NAME", f"deletes {identity[3]}, which was never added")

    def _apply_delta(self, key: str, snapshot: Snapshot, state: State, delta: Sequence[ManifestFile] | None) -> None:
        """Apply the delta to the state. All DELETEs are read before any ADD is checked, because their order has no meaning."""
        if delta is None:
            state.whole = False
            return
        known = [(m.file_name, self._entries.get(m.file_name)) for m in delta]
        state.whole = state.whole and all(entries is not None for _, entries in known)
        entries = [(entry, name) for name, part in known for entry in part or ()]
        deletes = {e.identity: name for e, name in entries if e.kind != ADD}
        for entry, name in entries:
            if entry.kind != ADD:
                continue
            if entry.identity in state.live and entry.identity not in deletes:
                self._findings.error(_key(name), "_FILE_NAME", f"adds {entry.file.file_name}, which is already live")
            if entry.identity in state.deleted:
                self._findings.error(
                    _key(name),
                    "_FILE_NAME",
                    f"adds {entry.file.file_name} again, which an earlier DELETE hides from readers",
                )
            state.live[entry.identity] = (entry, name)
        state.deleted |= deletes.keys()
        for identity, name in deletes.items():
            self._delete(state, identity, name)
        rows = sum(e.file.row_count if e.kind == ADD else -e.file.row_count for e, _ in entries)
        if all(part is not None for _, part in known) and rows != snapshot.delta_record_count:
            message = f"is {snapshot.delta_record_count}, but the entries of its delta add up to {rows}"
            self._findings.error(key, "deltaRecordCount", message)

    def _compare(self, key: str, snapshot: Snapshot, previous: State, state: State) -> None:
        lost = [i[3] for i in previous.live if i not in state.live]
        strange = [i[3] for i in state.live if i not in previous.live]
        for names, what in ((lost, "lacks"), (strange, "has, unlike the previous snapshot,")):
            if names:
                told = ", ".join(names[:_TOLD]) + (", …" if len(names) > _TOLD else "")
                self._findings.error(
                    key, "baseManifestList", f"{what} {len(names)} files of snapshot {snapshot.id - 1}: {told}"
                )

    # ------------------------------------------------------------------------------------------------------ manifests

    def _check_manifest(self, manifest: ManifestFile, entries: Sequence[ManifestEntry]) -> None:
        """If the range of a manifest in its list is too narrow, readers miss live files (format/manifests §3)."""
        name, say = manifest.file_name, self._findings.error
        added = sum(e.kind == ADD for e in entries)
        for field_name, said, is_count in (
            ("_NUM_ADDED_FILES", manifest.num_added_files, added),
            ("_NUM_DELETED_FILES", manifest.num_deleted_files, len(entries) - added),
        ):
            if said != is_count:
                say(_key(name), field_name, f"is {said} in its manifest list, but there are {is_count}")
        fields = self._newest.partition_fields if self._newest is not None else ()
        try:
            true = folding.summarise(name, manifest.file_size, entries, fields, manifest.schema_id)
        except TableCorrupt as error:
            say(_key(name), "_PARTITION", error.message)
            return
        for field_name, low in (("_MIN_BUCKET", True), ("_MAX_BUCKET", False), ("_MIN_LEVEL", True),
                                ("_MAX_LEVEL", False), ("_MIN_ROW_ID", True), ("_MAX_ROW_ID", False)):  # fmt: skip
            said = getattr(manifest, field_name[1:].lower())
            is_true = getattr(true, field_name[1:].lower())
            if said is not None and is_true is not None and (said > is_true if low else said < is_true):
                say(_key(name), field_name, f"is {said} in its manifest list, but an entry has {is_true}")
        if entries and fields and self._newest is not None:
            self._check_partition_stats(manifest, true)

    def _check_partition_stats(self, manifest: ManifestFile, true: ManifestFile) -> None:
        assert self._newest is not None
        key, fields = _key(manifest.file_name), self._newest.partition_fields
        try:
            said = decode_stats(manifest.partition_stats, fields, manifest.file_name)
        except TableCorrupt as error:
            self._findings.error(key, "_PARTITION_STATS", error.message)
            return
        for column, a, b in zip(fields, said, decode_stats(true.partition_stats, fields), strict=True):
            too_high = a.min is not None and b.min is not None and order_key(a.min) > order_key(b.min)
            too_low = a.max is not None and b.max is not None and order_key(a.max) < order_key(b.max)
            if too_high or too_low:
                span, needed = f"{a.min!r} to {a.max!r}", f"{b.min!r} to {b.max!r}"
                message = f"of column {column.name!r} span {span} in the manifest list, but entries span {needed}"
                self._findings.error(key, "_PARTITION_STATS", message)
            if a.null_count == 0 and b.null_count:
                message = f"of column {column.name!r} count no nulls, but {b.null_count} entries have none"
                self._findings.error(key, "_PARTITION_STATS", message)

    def _check_entry(self, manifest: str, entry: ManifestEntry) -> None:
        file, key = entry.file, _key(manifest)
        for field_name, value in (("_ROW_COUNT", file.row_count), ("_FILE_SIZE", file.file_size)):
            if value < 0:
                self._findings.error(key, field_name, f"of {file.file_name} is {value}")
        if file.min_sequence_number > file.max_sequence_number and file.row_count:
            message = f"of {file.file_name} is {file.min_sequence_number}, above its _MAX_SEQUENCE_NUMBER"
            self._findings.error(key, "_MIN_SEQUENCE_NUMBER", message)
        schema = self._schemas.get(file.schema_id)
        if schema is None:
            schema_key = self._timeline.paths.schema(file.schema_id)
            self._findings.error(schema_key, "", "is missing or unreadable; data files were written with it")
            return
        fields = file_stats_fields(schema.fields, file.write_cols, file.value_stats_cols)
        if fields is not None:
            where = f"{manifest}: _VALUE_STATS of {file.file_name}"
            stats = self._findings.attempt(key, lambda: decode_stats(file.value_stats, fields, where))
            for column, known in zip(fields, stats or (), strict=False):
                if known.null_count is not None and not 0 <= known.null_count <= file.row_count:
                    message = f"of {file.file_name} count {known.null_count} nulls in column {column.name!r}"
                    self._findings.error(key, "_VALUE_STATS", message)


def _key(name: str) -> str:
    """The key of a file in `manifest/`, for findings. A name that would leave the folder is returned unchanged."""
    return name if "/" in name else f"manifest/{name}"
