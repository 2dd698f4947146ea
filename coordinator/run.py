"""One commit's effects, carried out on a store.

Owns: `CommitRun`: what each effect of the machine means here, and what it answers. Must not know: the order of effects
(the machine's), threads (the driver's). Source: design §3; H2, H3, H6, H7, H9.
Invariants: an effect answers exactly one event, also when the store fails; the bytes of a snapshot are built once per
attempt and never change between sends (H9).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from ..backends.store import AlreadyThere, Created, Store, Unknown
from ..core import options as opt
from ..core.data_file import ADD, ManifestEntry
from ..core.errors import LakelatchError, StoreUnavailable
from ..core.folding import plan_merge
from ..core.manifest import ManifestFile
from ..core.schema import TableSchema
from ..core.snapshot import Snapshot
from .attempt import Blob, LostAttempt, MetadataWriter, build_snapshot, lost_to
from .base import Base
from .bucket_numbers import BucketMemory
from .conflicts import Conflict
from .identity import memory_through, trace
from .lineage import check_lineage, read_name
from .manifest_compaction import Merge, merge_manifests
from .protocol import effects as do
from .protocol import events as ev
from .protocol.events import Event, SnapshotRef
from .request import CommitRequest
from .settling import Settled, Settler
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
        settler: turns the request into entries on a base; `settled`: what it said for the current attempt.
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
    snapshot: Snapshot | None = None
    snapshot_bytes: bytes = b""
    published_ms: float = 0.0
    sent: bool = False
    tried: list[ev.SnapshotPrepared] = field(default_factory=list)
    lost: list[LostAttempt] = field(default_factory=list)
    settler: Settler = field(init=False)
    settled: Settled = field(init=False)
    _delta: list[tuple[ManifestFile, Blob]] | None = None
    _delta_entries: tuple[ManifestEntry, ...] = ()
    _delta_list: Blob | None = None
    _base_list: Blob | None = None
    _base_manifests: tuple[ManifestFile, ...] = ()
    _merge: Merge | None = None
    _merge_base: SnapshotRef | None = None
    _winner: Snapshot | None = None

    def __post_init__(self) -> None:
        self.settler = Settler(self.request, self.schema, self.timeline, self.writer, self.buckets)

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
        assert self.ours is not None
        try:
            found = self.settler.settle(self._base(), self.ours.id)
        except LakelatchError as error:
            return ev.ResolveFailed(error.code, error.message)
        if isinstance(found, Conflict):
            return ev.ConflictFound(found.check, found.reason)
        self.settled = found
        added = sum(e.kind == ADD for e in found.entries)
        return ev.ChangesCollected(added, len(found.entries) - added)

    # ----------------------------------------------------------------------------------------------- manifests, lists

    def compact_manifests(self, effect: do.CompactManifests) -> Event:
        """Merge manifests where due; contended, an earlier merge is kept where it still fits, and none is begun (H15)."""
        base = self._base()
        self._base_manifests = base.manifests
        folded = self.settled.folded
        if folded is not None:
            self._base_manifests = folded.applied(base.manifests) or ()
            return ev.ManifestsCompacted(folded.mode, tuple(b.name for b in folded.blobs))
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
        self.settler.learn(merge.blobs)
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
                blobs = self.settled.folded.blobs if self.settled.folded is not None else ()
                return [*blobs, self._base_list], ev.BaseListWritten(self._base_list.name)
            case do.WriteDeltaList():
                return self._delta_uploads()

    def _delta_uploads(self) -> Uploads:
        """Delta manifests and list; kept from an earlier attempt unless the entries changed with the base."""
        new: list[Blob] = []
        entries = self.settled.entries
        if self._delta is None or entries != self._delta_entries:
            self._delta, self._delta_entries = self.writer.manifests(entries), entries
            self._delta_list = self.writer.manifest_list([line for line, _ in self._delta])
            self.settler.learn(blob for _, blob in self._delta)
            new = [*(blob for _, blob in self._delta), self._delta_list]
        index = self.settled.index_blob
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
            self.settled.entries,
            self._base_list,
            self._delta_list,
            schema_id=base.schema_id,
            index_manifest=self.settled.index_manifest,
            memory=memory_through(base.snapshot, self.timeline.find),
            lost=self.lost,
            next_row_id=self.settled.next_row_id,
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
