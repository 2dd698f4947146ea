"""Settling: what a request becomes on the base of one attempt, or the conflict that keeps it from landing there.

Owns: `Settler` (one per commit: it keeps what was read, from attempt to attempt) and `Settled` (one per attempt). Must not
know: the machine, how files are written or published, retries. Source: design §3 (isolation table), H12, H13, H14.
Invariants: whatever depends on the base is derived from it here, for each attempt anew; nothing is written; of what was read
only named, immutable things are kept, each under the identity of its snapshot (H18).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ..core import options as opt
from ..core.data_file import ADD, EntryIdentity, IndexEntry, ManifestEntry
from ..core.folding import MergePlan, live
from ..core.manifest import ManifestFile, decode_manifest
from ..core.places import codec_of
from ..core.schema import TableSchema
from ..core.snapshot import Snapshot
from .attempt import Blob, MetadataWriter, combine_index
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
from .manifest_compaction import Merge, merge_manifests
from .request import CommitRequest
from .row_ids import tracked
from .timeline import Timeline, ref_of


@dataclass(frozen=True, slots=True)
class Settled:
    """A request on one base.

    Attributes:
        entries: the delta of the snapshot, with sequence numbers and row ids.
        index_manifest: the name of its index manifest; None for none.
        index_blob: that file, where it is a new one.
        next_row_id: the first row id that is free after it.
        folded: of a rollback: the base without what it deletes, to be written as the base list.
    """

    entries: tuple[ManifestEntry, ...]
    index_manifest: str | None
    index_blob: Blob | None
    next_row_id: int
    folded: Merge | None = None


@dataclass
class Settler:
    """Settles one request, on the base of each attempt.

    Args:
        schema: what the files of the request were written with.
        buckets: what the committer's earlier commits read of fixed buckets.
    """

    request: CommitRequest
    schema: TableSchema
    timeline: Timeline
    writer: MetadataWriter
    buckets: BucketMemory
    _read_files: dict[EntryIdentity, ManifestEntry] | None = None
    _changes: dict[int, tuple[str, Change]] = field(default_factory=dict)

    def settle(self, base: Base, ours_id: int) -> Settled | Conflict:
        """The request on a base.

        Args:
            ours_id: the id that its snapshot will have.

        Raises:
            LakelatchError: what has to be read for it cannot be read.
        """
        restores = self.request.restores
        entries = self._entries(base)
        if not isinstance(entries, Conflict) and not restores:
            entries = self._in_buckets(entries, base)
        if isinstance(entries, Conflict):
            return entries
        next_row_id = base.next_row_id
        if not restores and self.schema.options.get(opt.ROW_TRACKING):
            entries, next_row_id = tracked(entries, ours_id, next_row_id)
        index = self._index(base.snapshot)
        if isinstance(index, Conflict):
            return index
        return Settled(entries, *index, next_row_id, self._folded(base) if restores else None)

    def learn(self, manifests: Iterable[Blob]) -> None:
        """Manifests of this commit need not be read by the next."""
        if self.schema.bucket > 0:
            for blob in manifests:
                self.buckets.learn(blob.name, decode_manifest(blob.data, blob.name))

    # ------------------------------------------------------------------------------------------------------- entries

    def _entries(self, base: Base) -> tuple[ManifestEntry, ...] | Conflict:
        request = self.request
        if request.target is not None:
            return self._overwriting(base)
        conflict = self._inputs_conflict(base) if request.replaces_files else None
        return conflict or request.entries

    def _inputs_conflict(self, base: Base) -> Conflict | None:
        """Do the files that a compaction replaces still stand? Where history tells, only what came since is looked at."""
        request = self.request
        read = request.read_snapshot
        if read is not None and ref_of(read) == base.ref:
            return None
        if read is not None:
            changes = self._changes_since(read, base.snapshot)
            if not isinstance(changes, Conflict):
                return inputs_gone(request, changes)
        return deletes_unknown_file(request, live(self.timeline.entries(base.manifests)))

    def _overwriting(self, base: Base) -> tuple[ManifestEntry, ...] | Conflict:
        """The deletes of an overwrite: the files that it read, followed through compactions since (H13)."""
        request = self.request
        assert request.target is not None
        read = request.read_snapshot
        if self._read_files is None:
            manifests = base.manifests if ref_of(read) == base.ref else self.timeline.manifests(read) if read else ()
            self._read_files = replaced_files(request.target, self.timeline.entries(manifests) if read else ())
        replaced = self._read_files
        if ref_of(read) != base.ref:
            changes = self._changes_since(read, base.snapshot)
            if isinstance(changes, Conflict):
                return changes
            conflict = find_conflict(request, changes)
            if conflict is None:
                replaced, conflict = follow_compactions(request, replaced, changes)
            if conflict is not None:
                return conflict
        back = {e.identity for e in request.entries} if request.restores else set()
        deleted = (e.deletion() for identity, e in replaced.items() if identity not in back)
        return (*deleted, *(e for e in request.entries if e.identity not in replaced))

    def _in_buckets(self, entries: tuple[ManifestEntry, ...], base: Base) -> tuple[ManifestEntry, ...] | Conflict:
        """New files of fixed buckets with their sequence numbers; a conflict where the partition has another bucket count."""
        partitions = {e.partition for e in entries if is_bucketed(e)}
        if not partitions:
            return entries
        codec = codec_of(self.schema)

        def read(unread: Sequence[ManifestFile]) -> list[list[ManifestEntry]]:
            return self.timeline.parallel(self.timeline.entries_of, unread)

        found = self.buckets.of(base.manifests, partitions, codec.fields, read)
        if other_counts(entries, found):
            deleted = {e.identity for e in entries if e.kind != ADD}
            alive = [e for e in live(self.timeline.entries(base.manifests)) if e.identity not in deleted]
            conflict = another_bucket_count(entries, alive, codec)
            if conflict is not None:
                return conflict
        return numbered(entries, found)

    def _folded(self, base: Base) -> Merge:
        """The base without what it deletes; written with the base list, and for each attempt anew."""
        return merge_manifests(MergePlan("full", (base.manifests,)), self.timeline, self.writer)

    def _changes_since(self, read: Snapshot | None, base: Snapshot | None) -> list[Change] | Conflict:
        """What others did after `read`; a conflict where that cannot be seen any more."""
        start, end = read.id if read else 0, base.id if base else 0
        gone = Conflict("history_is_visible", "the snapshots since this commit read the table are no longer all there")
        if read is not None:
            still = self.timeline.find(read.id)
            if end < start or still is None or still.identity != read.identity:
                return gone
        for snapshot_id in range(start + 1, end + 1):
            found = base if snapshot_id == end else self.timeline.find(snapshot_id)
            if found is None:
                return gone
            known = self._changes.get(snapshot_id)
            if known is None or known[0] != found.identity:
                entries = tuple(self.timeline.entries(self.timeline.delta_manifests(found)))
                change = Change(found.id, found.commit_kind, found.commit_user, entries)
                self._changes[snapshot_id] = (found.identity, change)
        return [self._changes[i][1] for i in range(start + 1, end + 1)]

    # --------------------------------------------------------------------------------------------------------- index

    def _index(self, base: Snapshot | None) -> tuple[str | None, Blob | None] | Conflict:
        """The index manifest of this commit: the base's name where nothing changes, else a new complete list."""
        name = base.index_manifest if base else None
        request = self.request
        if not request.index_entries and (name is None or (request.target is None and not request.replaces_files)):
            return name, None
        old: Sequence[IndexEntry] = self.timeline.index_entries(base) if base else ()
        entries, conflict = combine_index(old, request)
        conflict = conflict or inputs_marked(request, entries)
        if conflict is not None:
            return conflict
        if list(entries) == list(old):
            return name, None
        blob = self.writer.index_manifest(list(entries))
        return blob.name, blob
