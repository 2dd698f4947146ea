"""One commit's effects, carried out on a store.

Owns: `CommitRun`: what each effect of the machine means here, and what it answers. Must not know: the order of effects
(the machine's), threads (the driver's). Source: design §3; H2, H3, H6, H7, H9.
Invariants: an effect answers exactly one event, also when the store fails; the bytes of a snapshot are built once per
attempt and never change between sends (H9).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from ..backends.store import AlreadyThere, Created, Store, Unknown
from ..core import options as opt
from ..core.data_file import ADD, EntryIdentity, IndexEntry, ManifestEntry
from ..core.errors import LakelatchError, StoreUnavailable
from ..core.folding import MergePlan, live, plan_merge
from ..core.manifest import ManifestFile, decode_manifest
from ..core.places import codec_of
from ..core.schema import TableSchema
from ..core.snapshot import Snapshot
from .attempt import Blob, LostAttempt, MetadataWriter, build_snapshot, combine_index, lost_to
from .base import Base
from .bucket_numbers import BucketMemory, another_bucket_count, is_bucketed, numbered, other_counts
from .conflicts import (
    Change,
    Conflict,
    deletes_unknown_file,
    find_conflict,
    follow_compactions,
    inputs_gone,
    inputs_marked,
    replaced_files,
)
from .identity import memory_through, trace
from .lineage import check_lineage, read_name
from .manifest_compaction import Merge, merge_manifests
from .protocol import effects as do
from .protocol import events as ev
from .protocol.events import Event, SnapshotRef
from .request import CommitRequest
from .row_ids import tracked
from .surroundings import MACHINE, Surroundings
from .timeline import Timeline, ref_of

Uploads: TypeAlias = tuple[Sequence[Blob], Event]
"""Files that may be written side by side, and the event once all of them are durable."""

HINT_WITHIN_MS = 5_000


@dataclass
class CommitRun:
    """Carries the effects of one commit out.

    Attributes:
        base: what the current attempt stands on.
        warm: what the committer knew before, used for the first attempt while it is fresh.
        crowded: others are committing: what was known before is surely old, look first.
        buckets: what the committer's earlier commits read of fixed buckets.
        tried: every snapshot that was sent, or is about to be; `sent`: was there any?
    """

    request: CommitRequest
    store: Store
    timeline: Timeline
    schema: TableSchema
    writer: MetadataWriter
    warm: Base | None
    writer_id: str
    crowded: bool = False
    around: Surroundings = MACHINE
    buckets: BucketMemory = field(default_factory=BucketMemory)
    base: Base | None = None
    ours: SnapshotRef | None = None
    entries: tuple[ManifestEntry, ...] = ()
    snapshot: Snapshot | None = None
    snapshot_bytes: bytes = b""
    published_ms: float = 0.0
    sent: bool = False
    tried: list[ev.SnapshotPrepared] = field(default_factory=list)
    lost: list[LostAttempt] = field(default_factory=list)
    _delta: list[tuple[ManifestFile, Blob]] | None = None
    _delta_entries: tuple[ManifestEntry, ...] = ()
    _delta_list: Blob | None = None
    _base_list: Blob | None = None
    _base_manifests: tuple[ManifestFile, ...] = ()
    _index: tuple[str | None, Blob | None] = (None, None)
    _merge: Merge | None = None
    _fold: Merge | None = None
    _merge_base: SnapshotRef | None = None
    _read_files: dict[EntryIdentity, ManifestEntry] | None = None
    _changes: dict[int, tuple[str, Change]] = field(default_factory=dict)
    _winner: Snapshot | None = None
    _next_row_id: int = 0

    # ------------------------------------------------------------------------------------------------------- collect

    def resolve_latest(self, effect: do.ResolveLatest) -> Event:
        """The base of this attempt, and this identity's trace through it."""
        try:
            self.base = self._resolve(effect)
            snapshot = self.base.snapshot
            if self.request.identifier is None:
                found, inspected = None, 0
            else:
                found = trace(self.request.commit_user, snapshot, self.timeline.find)
                inspected = found.inspected_through
        except LakelatchError as error:
            return ev.ResolveFailed(error.code, error.message)
        self.ours = SnapshotRef((snapshot.id if snapshot else 0) + 1, str(self.around.new_uuid()))
        if found is None:
            return ev.LatestResolved(self.base.ref, self.ours.identity, inspected)
        replay = found.snapshot if found.last_identifier == self.request.identifier else None
        return ev.LatestResolved(self.base.ref, self.ours.identity, inspected, found.last_identifier, replay)

    def _resolve(self, effect: do.ResolveLatest) -> Base:
        now_ms = self.around.now_ms
        read = ref_of(self.request.read_snapshot)
        behind = read is not None and (self.warm is None or self.warm.id < read.id)
        usable = self.warm is not None and not behind and not self.crowded and self._is_fresh(self.warm)
        if effect.at_least is None and self.warm is not None and usable:
            return self.warm
        known = self.base or self.warm
        latest = self.timeline.latest(self._newest_seen())
        schema_id = max(known.schema_id if known else self.schema.id, latest.schema_id if latest else 0)
        if known is None or not self._is_fresh(known):
            schema_id = max([schema_id, *self.timeline.schema_ids()])
        if known is not None and known.ref == ref_of(latest):
            return Base(latest, known.manifests, schema_id, now_ms)
        return Base(latest, self.timeline.manifests(latest) if latest else (), schema_id, now_ms)

    def _newest_seen(self) -> Snapshot | None:
        """The newest snapshot that this commit has met: its base, what it read, or who won the last race."""
        known = self.base or self.warm
        seen = [known.snapshot if known else None, self.request.read_snapshot, self._winner]
        return max((s for s in seen if s is not None), key=lambda s: s.id, default=None)

    def _is_fresh(self, base: Base) -> bool:
        return base.is_fresh(self.around.now_ms, self.schema.options.get(opt.SNAPSHOT_TIME_RETAINED))

    def collect_changes(self, effect: do.CollectChanges) -> Event:
        """This commit's entries on this base, after the conflict checks."""
        try:
            entries, conflict = self._settle_entries()
            if conflict is None and not self.request.restores:
                entries, conflict = self._settle_buckets(entries)
            self._next_row_id = self._base().next_row_id
            if conflict is None and not self.request.restores and self.schema.options.get(opt.ROW_TRACKING):
                assert self.ours is not None
                entries, self._next_row_id = tracked(entries, self.ours.id, self._next_row_id)
            index, index_conflict = self._settle_index()
            self._fold = self._folded_base() if conflict is None and self.request.restores else None
        except LakelatchError as error:
            return ev.ResolveFailed(error.code, error.message)
        conflict = conflict or index_conflict
        if conflict is not None:
            return ev.ConflictFound(conflict.check, conflict.reason)
        self.entries, self._index = entries, index
        added = sum(e.kind == ADD for e in entries)
        return ev.ChangesCollected(added, len(entries) - added)

    def _settle_entries(self) -> tuple[tuple[ManifestEntry, ...], Conflict | None]:
        request = self.request
        if request.target is not None:
            return self._settle_overwrite()
        return request.entries, self._inputs_conflict() if request.replaces_files else None

    def _inputs_conflict(self) -> Conflict | None:
        """Do the files that a compaction replaces still stand? Where history tells, only what came since is looked at."""
        request, base = self.request, self._base()
        read = request.read_snapshot
        if read is not None and ref_of(read) == base.ref:
            return None
        if read is not None:
            changes, unseen = self._changes_since(read, base.snapshot)
            if unseen is None:
                return inputs_gone(request, changes)
        return deletes_unknown_file(request, live(self.timeline.entries(base.manifests)))

    def _settle_overwrite(self) -> tuple[tuple[ManifestEntry, ...], Conflict | None]:
        """The deletes of an overwrite: the files that it read, followed through compactions since (H13)."""
        request, base = self.request, self._base()
        assert request.target is not None
        read = request.read_snapshot
        if self._read_files is None:
            manifests = base.manifests if ref_of(read) == base.ref else self.timeline.manifests(read) if read else ()
            self._read_files = replaced_files(request.target, self.timeline.entries(manifests) if read else ())
        replaced = self._read_files
        if ref_of(read) != base.ref:
            changes, conflict = self._changes_since(read, base.snapshot)
            conflict = conflict or find_conflict(request, changes)
            if conflict is None:
                replaced, conflict = follow_compactions(request, replaced, changes)
            if conflict is not None:
                return (), conflict
        back = {e.identity for e in request.entries} if request.restores else set()
        deleted = (e.deletion() for identity, e in replaced.items() if identity not in back)
        return (*deleted, *(e for e in request.entries if e.identity not in replaced)), None

    def _settle_buckets(self, entries: tuple[ManifestEntry, ...]) -> tuple[tuple[ManifestEntry, ...], Conflict | None]:
        """New files of fixed buckets with their sequence numbers; a conflict where the partition has another bucket count."""
        partitions = {e.partition for e in entries if is_bucketed(e)}
        if not partitions:
            return entries, None
        base, codec = self._base(), codec_of(self.schema)

        def read(unread: Sequence[ManifestFile]) -> list[list[ManifestEntry]]:
            return self.timeline.parallel(self.timeline.entries_of, unread)

        found = self.buckets.of(base.manifests, partitions, codec.fields, read)
        if other_counts(entries, found):
            deleted = {e.identity for e in entries if e.kind != ADD}
            alive = [e for e in live(self.timeline.entries(base.manifests)) if e.identity not in deleted]
            conflict = another_bucket_count(entries, alive, codec)
            if conflict is not None:
                return (), conflict
        return numbered(entries, found), None

    def _remember(self, manifests: Iterable[Blob]) -> None:
        """Manifests of this commit need not be read by the next."""
        if self.schema.bucket > 0:
            for blob in manifests:
                self.buckets.learn(blob.name, decode_manifest(blob.data, blob.name))

    def _folded_base(self) -> Merge:
        """The base without what it deletes; written with the base list, and for each attempt anew."""
        return merge_manifests(MergePlan("full", (self._base().manifests,)), self.timeline, self.writer)

    def _changes_since(self, read: Snapshot | None, base: Snapshot | None) -> tuple[list[Change], Conflict | None]:
        """What others did after `read`; a conflict where that cannot be seen any more."""
        start, end = read.id if read else 0, base.id if base else 0
        gone = Conflict("history_is_visible", "the snapshots since this commit read the table are no longer all there")
        if read is not None:
            still = self.timeline.find(read.id)
            if end < start or still is None or still.identity != read.identity:
                return [], gone
        for snapshot_id in range(start + 1, end + 1):
            found = base if snapshot_id == end else self.timeline.find(snapshot_id)
            if found is None:
                return [], gone
            known = self._changes.get(snapshot_id)
            if known is None or known[0] != found.identity:
                entries = tuple(self.timeline.entries(self.timeline.delta_manifests(found)))
                change = Change(found.id, found.commit_kind, found.commit_user, entries)
                self._changes[snapshot_id] = (found.identity, change)
        return [self._changes[i][1] for i in range(start + 1, end + 1)], None

    def _settle_index(self) -> tuple[tuple[str | None, Blob | None], Conflict | None]:
        """The index manifest of this commit: the base's name where nothing changes, else a new complete list."""
        base = self._base().snapshot
        name = base.index_manifest if base else None
        request = self.request
        if not request.index_entries and (name is None or (request.target is None and not request.replaces_files)):
            return (name, None), None
        old: Sequence[IndexEntry] = self.timeline.index_entries(base) if base else ()
        entries, conflict = combine_index(old, request)
        conflict = conflict or inputs_marked(request, entries)
        if conflict is not None or list(entries) == list(old):
            return (name, None), conflict
        blob = self.writer.index_manifest(list(entries))
        return (blob.name, blob), None

    # ----------------------------------------------------------------------------------------------- manifests, lists

    def compact_manifests(self, effect: do.CompactManifests) -> Event:
        """Merge manifests where due; contended, an earlier merge is kept where it still fits, and none is begun (H15)."""
        base = self._base()
        self._base_manifests = base.manifests
        if self._fold is not None:
            self._base_manifests = self._fold.applied(base.manifests) or ()
            return ev.ManifestsCompacted(self._fold.mode, tuple(b.name for b in self._fold.blobs))
        try:
            if effect.contended:
                return self._reuse_merge(base)
            plan = plan_merge(base.manifests, self.schema.options)
            if plan is None:
                return ev.ManifestsCompacted("none")
            merge = merge_manifests(plan, self.timeline, self.writer)
            for blob in merge.blobs:
                self.store.put(blob.key, blob.data)
        except LakelatchError:
            # A merge is a courtesy: what stops it must not stop the commit (H17). What it wrote is left to orphan cleaning.
            return ev.ManifestsCompacted("none")
        self._merge, self._merge_base = merge, base.ref
        self._remember(merge.blobs)
        self._base_manifests = merge.applied(base.manifests) or base.manifests
        return ev.ManifestsCompacted(merge.mode, tuple(b.name for b in merge.blobs))

    def _reuse_merge(self, base: Base) -> Event:
        merge, old = self._merge, self._merge_base
        if merge is None or old is None:
            return ev.ManifestsCompacted("none")
        applied = merge.applied(base.manifests)
        still = self.timeline.find(old.id) if applied is not None else None
        if applied is None or still is None or still.identity != old.identity:
            self._merge = None
            return ev.ManifestsCompacted("none")
        self._base_manifests = applied
        return ev.ManifestsCompacted("reused", tuple(b.name for b in merge.blobs))

    def uploads(self, effect: do.UploadData | do.WriteBaseList | do.WriteDeltaList) -> Uploads:
        """The files of an upload effect; they are written by the driver, all effects' files side by side."""
        match effect:
            case do.UploadData():
                files = [Blob(u.key, u.key, u.data) for u in self.request.uploads]
                return files, ev.DataUploaded(len(files))
            case do.WriteBaseList():
                self._base_list = self.writer.manifest_list(self._base_manifests)
                blobs = self._fold.blobs if self._fold is not None else ()
                return [*blobs, self._base_list], ev.BaseListWritten(self._base_list.name)
            case do.WriteDeltaList():
                return self._delta_uploads()

    def _delta_uploads(self) -> Uploads:
        """Delta manifests and list; kept from an earlier attempt unless the entries changed with the base."""
        new: list[Blob] = []
        if self._delta is None or self.entries != self._delta_entries:
            self._delta, self._delta_entries = self.writer.manifests(self.entries), self.entries
            self._delta_list = self.writer.manifest_list([line for line, _ in self._delta])
            self._remember(blob for _, blob in self._delta)
            new = [*(blob for _, blob in self._delta), self._delta_list]
        index = self._index[1]
        names = tuple(blob.name for _, blob in self._delta)
        if index is not None:
            new, names = [*new, index], (*names, index.name)
        assert self._delta_list is not None
        return new, ev.DeltaListWritten(self._delta_list.name, names)

    # ------------------------------------------------------------------------------------------------------- publish

    def prepare_snapshot(self, effect: do.PrepareSnapshot) -> Event:
        """The snapshot file, once for all sends."""
        try:
            self._build(effect.snapshot)
        except LakelatchError as error:
            return ev.UploadFailed("snapshot", error.message)
        prepared = ev.SnapshotPrepared(effect.snapshot, self._base().ref, self.snapshot_bytes.decode())
        self.tried.append(prepared)
        return prepared

    def publish(self, effect: do.Publish) -> Event:
        """One atomic create of the snapshot file."""
        if effect.send > 1:
            self.around.sleep(0.05 * 2**effect.send)
        if not self._is_fresh(self._base()):
            if effect.send == 1:
                self.tried.pop()
                return ev.BaseAged()
            if not self._base_stands():
                return ev.BaseAged()
        if effect.send == 1:
            # From the send, not from the answer: an answer that took an hour tells of a snapshot that is an hour old (H6, H7).
            self.published_ms = self.around.now_ms
            self.sent = True
        key = self.timeline.paths.snapshot(effect.snapshot.id)
        try:
            answer = self.store.put_if_absent(key, self.snapshot_bytes)
        except StoreUnavailable as error:
            return ev.UploadFailed(key, error.message)
        match answer:
            case Created():
                return ev.SnapshotPublished()
            case AlreadyThere(earlier_send=earlier_send):
                return ev.PublishRefused(earlier_send)
            case Unknown(reason=reason):
                return ev.AnswerLost(reason)

    def _base_stands(self) -> bool:
        """Is the base still there, so that the name above it cannot be one that expiry freed? (H6)"""
        base = self._base()
        now_ms = self.around.now_ms
        try:
            found = self.timeline.find(base.id) if base.snapshot is not None else self.timeline.latest()
        except LakelatchError:
            return False
        if ref_of(found) != base.ref:
            return False
        self.base = replace(base, seen_ms=now_ms)
        return True

    def _build(self, ours: SnapshotRef) -> None:
        base = self._base()
        assert self._base_list is not None and self._delta_list is not None
        self.snapshot = build_snapshot(
            self.request,
            base.snapshot,
            ours,
            self.entries,
            self._base_list,
            self._delta_list,
            schema_id=base.schema_id,
            index_manifest=self._index[0],
            memory=memory_through(base.snapshot, self.timeline.find),
            lost=self.lost,
            next_row_id=self._next_row_id,
            writer_id=self.writer_id,
            now_ms=self.around.wall_ms,
        )
        self.snapshot_bytes = self.snapshot.to_json()

    def read_back(self, effect: do.ReadBack) -> Event:
        """What does the name hold: ours, another's, nothing? (H2, H3)"""
        if effect.look > 1:
            self.around.sleep(0.05 * 2**effect.look)
        found, winner = read_name(self.timeline, effect.snapshot, self.snapshot_bytes)
        if winner is not None:
            self._winner = winner
            self.lost.append(lost_to(winner))
        return found

    # ---------------------------------------------------------------------------------------------------- verify, hint

    def verify_lineage(self, effect: do.VerifyLineage) -> Event:
        """Does our snapshot stand on the base that was read? (H6)"""
        if effect.look > 1:
            self.around.sleep(0.05 * 2**effect.look)
        delta = {line.file_name for line, _ in self._delta or ()}
        return check_lineage(self.timeline, effect.base, effect.published, lambda: delta)

    def write_hint(self, effect: do.WriteHint, newest_id: int) -> Event:
        """LATEST, best effort: soon after the commit or not at all, and never lower than what is known (H7)."""
        if newest_id > effect.snapshot_id:
            return ev.HintSkipped(f"snapshot {newest_id} is newer")
        if self.around.now_ms - self.published_ms > HINT_WITHIN_MS:
            return ev.HintSkipped("too late")
        key = self.timeline.paths.hint("LATEST")
        try:
            if self.lost and (self.timeline.hint("LATEST") or 0) >= effect.snapshot_id:
                return ev.HintSkipped("another writer's hint is newer")
            self.store.put(key, str(effect.snapshot_id).encode())
        except LakelatchError as error:
            return ev.HintSkipped(error.message)
        return ev.HintWritten(effect.snapshot_id)

    def discard(self, effect: do.Discard) -> None:
        """Delete private metadata of lost attempts; what cannot be deleted now is left to orphan cleaning."""
        try:
            self.store.delete_many([self.timeline.paths.manifest(name) for name in effect.names if name])
        except LakelatchError:
            return

    @property
    def others_met(self) -> int:
        """How many different committers won a race against this commit."""
        return len({attempt.winner for attempt in self.lost})

    def next_base(self) -> Base:
        """What is known after the commit landed: the next one needs no read."""
        assert self.snapshot is not None and self._delta is not None
        manifests = (*self._base_manifests, *(line for line, _ in self._delta))
        return Base(self.snapshot, manifests, self.snapshot.schema_id, self.published_ms)

    def _base(self) -> Base:
        assert self.base is not None
        return self.base
