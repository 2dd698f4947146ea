"""Settling: computes what a request becomes on the base of one attempt, or the conflict that prevents it from landing there.

Owns: `Settler` (one per commit: it keeps what it read from attempt to attempt) and `Settled` (one per attempt). Must not
know: the machine, how files are written or published, retries. Source: architecture §3 (isolation table), H12, H13, H14, H22.
Invariants: everything that depends on the base is computed again for each attempt. Nothing is written. Every check sees the
whole change: data files, index files and the schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from ....core import options as opt
from ....core.metadata.change import Owner, owner_of
from ....core.metadata.data_file import ADD, DELETE, IndexEntry, ManifestEntry
from ....core.metadata.deletion_vector import INDEX_TYPE
from ....core.metadata.folding import MergePlan, live
from ....core.metadata.hash_index import INDEX_TYPE as HASH_INDEX
from ....core.metadata.manifest import ManifestFile, decode_manifest
from ....core.metadata.schema import TableSchema
from ....core.metadata.snapshot import Snapshot
from ....core.places import FileKeys, codec_of
from ...history.base import Base
from ...history.row_numbers import RowNumbers, row_numbers
from ...history.timeline import Timeline, ref_of
from ..attempt import MetadataFile, MetadataWriter
from ..checks.changes_since import ChangesSince
from ..checks.conflicts import (
    Conflict,
    Files,
    Followed,
    deletes_unknown_file,
    follow,
    inputs_changed,
    inputs_marked,
    inputs_of,
    keys_came,
    replaced_files,
    rows_changed,
    rows_read_changed,
)
from ..checks.key_files import two_index_files
from ..checks.key_order import has_numbers
from ..checks.key_rules import KeyRules, fits_buckets
from ..checks.newest_schema import NewestSchema
from ..checks.row_ids import tracked
from ..checks.undoing import builds_on
from ..request import CommitRequest, RowChange, Undoing, only_adds_rows
from .bucket_numbers import another_bucket_count, counts_buckets, is_bucketed, numbered, other_counts
from .declared import Numbering
from .hash_indexes import HashIndexes, HashJoin, HashMemory
from .index_files import combine_index, with_vectors_of
from .manifest_compaction import Merge, merge_manifests

FEW_MANIFESTS = 16
"""The entries of so many manifests are kept from one check to the next."""


@dataclass(frozen=True, slots=True)
class Settled:
    """A request on one base.

    Attributes:
        new_data: data files that were made for it: rows that were numbered again.
        marks: the files that give entries an identity of their own.
        new_index_files: the index manifest if it is new, after the index files that were made for it.
        folded: for a rollback or a merge of manifests, the base without its deletions, to be written as the base list.
        numbers: what the snapshot says of its numbers, without those of its riders; None where the base says nothing.
    """

    entries: tuple[ManifestEntry, ...]
    index_manifest: str | None
    new_index_files: tuple[MetadataFile, ...]
    next_row_id: int
    folded: Merge | None = None
    changelog: tuple[ManifestEntry, ...] = ()
    new_data: tuple[MetadataFile, ...] = ()
    marks: tuple[MetadataFile, ...] = ()
    numbers: RowNumbers | None = None


@dataclass
class Settler:
    """Settles one request, on the base of each attempt. `numbering` and `hashes` hold what earlier commits read."""

    request: CommitRequest
    schema: TableSchema
    timeline: Timeline
    writer: MetadataWriter
    numbering: Numbering
    hashes: HashMemory = field(default_factory=HashMemory)
    hash_join: HashJoin = field(init=False)
    keys_changed: bool = False
    newest_schema: NewestSchema = field(init=False)
    key_rules: KeyRules = field(init=False)
    _since: ChangesSince = field(init=False)
    _read_files: Files | None = None

    def __post_init__(self) -> None:
        request = self.request
        self.newest_schema = NewestSchema(request.newest_schema, self.schema.id, self.timeline)
        indexes = HashIndexes(self.timeline, FileKeys(self.schema), self.hashes)
        self.hash_join = HashJoin(request.keyed.hashes, indexes, self.writer.names)
        concerned = request.target or {owner[0] for owner in inputs_of(request)}.__contains__
        if isinstance(request, Undoing):
            concerned = request.partitions.__contains__
        if isinstance(request, RowChange):
            concerned = _every_partition
        self._since = ChangesSince(self.timeline, FileKeys(self.schema), concerned)
        self.key_rules = KeyRules(request, self.schema, self.timeline, self._since)

    def settle(self, base: Base, ours_id: int) -> Settled | Conflict:
        """Settle the request as snapshot `ours_id`. Raises LakelatchError where a file that it needs cannot be read."""
        restores, self.key_rules.new_data = self.request.restores, ()
        files = self._files(base)
        if isinstance(files, Conflict):
            return files
        entries = self._entries(files)
        if restores:
            settled: tuple[ManifestEntry, ...] | Conflict = self.key_rules.restored(entries, files, base) or entries
        else:
            settled = self._in_buckets(entries, base)
        if isinstance(settled, Conflict):
            return settled
        entries, next_row_id = settled, base.next_row_id
        if not restores:
            entries = self.key_rules.stamped(entries, ours_id)
        if not restores and self.schema.options.get(opt.ROW_TRACKING):
            entries, next_row_id = tracked(entries, ours_id, next_row_id)
        overlap = self.key_rules.runs_overlap(entries, base)
        if overlap is not None:
            return overlap
        index = self._index(base.snapshot, files)
        if isinstance(index, Conflict):
            return index
        folded = self._folded(base) if self.request.folds_manifests else None
        entries, marks = self._marked(entries)
        changelog, new_data = self.request.published_changelog, self.key_rules.new_data
        numbers = self.numbering.said(self.request, entries, base, index[0])
        return Settled(entries, *index, next_row_id, folded, changelog, new_data, marks, numbers)

    def learn(self, manifests: Iterable[MetadataFile]) -> None:
        """Remember the manifests of this commit, so that the next one need not read them."""
        if self.schema.bucket > 0 or self.key_rules.order.by_number:
            for file in manifests:
                self.numbering.buckets.learn(file.name, decode_manifest(file.data, file.name))

    # ------------------------------------------------------------------------------------------------------- entries

    def _files(self, base: Base) -> Followed | Conflict:
        request, read = self.request, self.request.read_snapshot
        is_read = ref_of(read) == base.ref
        if isinstance(request, Undoing):
            found = builds_on(request, self._since, base.snapshot)
            if isinstance(found, Conflict):
                return found
            self.request = found
            return Followed({})
        changed = self._read_conflict(request, base) if isinstance(request, RowChange) else None
        if changed is not None:
            return changed
        if request.updates_rows:
            return (None if is_read else self._rows_conflict(base)) or Followed({})
        if request.target is None:
            conflict = self._keys_conflict(base) if request.keyed.reads_keys and not is_read else None
            if conflict is not None:
                self.keys_changed = True
                return conflict
            stands = not inputs_of(request) or (is_read and read is not None)
            return (None if stands else self._inputs_conflict(base)) or Followed({})
        if self._read_files is None:
            manifests = base.manifests if is_read else self.timeline.manifests(read) if read else ()
            self._read_files = replaced_files(request.target, self.timeline.entries(manifests))
        if is_read:
            return Followed(self._read_files)
        changes = self._since.since(read, base.snapshot)
        return changes if isinstance(changes, Conflict) else follow(request, self._read_files, changes)

    def _read_conflict(self, request: RowChange, base: Base) -> Conflict | None:
        read = request.rows_read
        if read is None or ref_of(read.snapshot) == base.ref:
            return None
        changes = self._since.since(read.snapshot, base.snapshot)
        return changes if isinstance(changes, Conflict) else rows_read_changed(read, changes)

    def _keys_conflict(self, base: Base) -> Conflict | None:
        changes = self._since.since(self.request.read_snapshot, base.snapshot)
        return changes if isinstance(changes, Conflict) else keys_came(changes)

    def _rows_conflict(self, base: Base) -> Conflict | None:
        changes = self._since.since(self.request.read_snapshot, base.snapshot)
        return changes if isinstance(changes, Conflict) else rows_changed(self.request, changes)

    def _inputs_conflict(self, base: Base) -> Conflict | None:
        """Check that the input files of a compaction are still live. If the history allows it, only later changes are read."""
        request = self.request
        if request.read_snapshot is not None:
            changes = self.key_rules.changes(base)
            if not isinstance(changes, Conflict):
                return inputs_changed(request, changes)
        return deletes_unknown_file(request, live(self.timeline.entries(base.manifests)))

    def _entries(self, files: Followed) -> tuple[ManifestEntry, ...]:
        """An overwrite deletes the files that it replaces (H13). A rollback leaves restored files alone that are still live."""
        request = self.request
        back = {e.origin for e in request.entries} if request.restores else set()
        there = {e.origin for e in files.replaced.values()}
        deleted = (e.deletion() for e in files.replaced.values() if e.origin not in back)
        return (*deleted, *(e for e in request.entries if e.origin not in there))

    def _marked(self, entries: tuple[ManifestEntry, ...]) -> tuple[tuple[ManifestEntry, ...], tuple[MetadataFile, ...]]:
        made, files = self.key_rules.returning.marked(entries)
        return made, tuple(MetadataFile(f.key, f.key, f.data) for f in files)

    def _in_buckets(self, entries: tuple[ManifestEntry, ...], base: Base) -> tuple[ManifestEntry, ...] | Conflict:
        """Rows with a primary key have numbers of their own, which may be too small by now."""
        rules = self.key_rules
        entries = self._by_clock(entries, base)
        replaces = self.request.target is not None and bool(self.schema.primary_keys)
        partitions = {e.partition for e in entries if is_bucketed(e) or (replaces and counts_buckets(e))}
        partitions |= rules.numbered_partitions(entries)
        conflict = rules.older_rows(entries, base)
        if conflict is not None or not partitions:
            return conflict or entries
        codec = codec_of(self.schema)
        if rules.apart(entries, base):
            return entries

        def read(unread: Sequence[ManifestFile]) -> list[list[ManifestEntry]]:
            entries = self.numbering.entries_of(unread)
            if len(unread) <= FEW_MANIFESTS:  # those of other writers, most likely, whose changes may be compared next
                self._since.manifests.update(zip((m.file_name for m in unread), entries, strict=True))
            return entries

        found = self.numbering.buckets.of(base.manifests, partitions, codec.fields, read)
        if other_counts(entries, found):
            deleted = {e.identity for e in entries if e.kind != ADD}
            alive = [e for e in live(self.timeline.entries(base.manifests)) if e.identity not in deleted]
            conflict = another_bucket_count(entries, alive, codec)
            if conflict is not None:
                return conflict
        if not self.schema.primary_keys:
            return numbered(entries, found)
        ordered = rules.in_order(entries, base, found.last)
        self.request = rules.request
        return ordered

    def _by_clock(self, entries: tuple[ManifestEntry, ...], base: Base) -> tuple[ManifestEntry, ...]:
        """The entries of an append without a key, with numbers that stay the same on later bases, if they can have some."""
        said, rules = row_numbers(base.snapshot), self.key_rules
        if self.schema.primary_keys or not has_numbers(self.schema) or said is None or rules.apart(entries, base):
            return entries
        if not only_adds_rows(self.request):
            return entries
        made = self.numbering.by_clock(entries, said)
        self.request = rules.request = replace(self.request, entries=made)
        rules.have_compared(base)
        return made

    def reads_manifests(self, base: Base) -> bool:
        """Whether more has to be known of the base than its snapshot says before the commit asks others to carry it."""
        if self.schema.primary_keys or not has_numbers(self.schema):
            return not self.stays(base)
        said = row_numbers(base.snapshot)
        return said is None or not fits_buckets(self.request.entries, said)

    def stays(self, base: Base) -> bool:
        """Whether the commit's rows have the same numbers on this base as they were written with, as far as can be seen."""
        return not has_numbers(self.schema) or self.key_rules.apart(self.request.entries, base)

    def _folded(self, base: Base) -> Merge:
        return merge_manifests(MergePlan("full", (base.manifests,)), self.timeline, self.writer)

    # --------------------------------------------------------------------------------------------------------- index

    def _index(self, base: Snapshot | None, files: Followed) -> tuple[str | None, tuple[MetadataFile, ...]] | Conflict:
        """The index manifest of this commit: the base's name if nothing changes, otherwise a new complete list."""
        name = base.index_manifest if base else None
        request = self.request
        replaces = request.target is not None or any(e.kind == DELETE for e in request.entries)
        if not request.index_entries and not request.keyed.hashes and (name is None or not replaces):
            return name, ()
        old = list(self.hash_join.indexes.entries(base))
        replaced, uploads = self._without_replaced(old, files)
        left = combine_index(old, replaced)
        joined = left if isinstance(left, Conflict) else self.hash_join.on(left)
        if isinstance(joined, Conflict):
            return joined
        gone = {e.file.file_name for e in replaced if e.kind == DELETE}
        named = (e for e in request.index_entries if e.kind == ADD or e.file.file_name not in gone)
        entries = combine_index(old, (*replaced, *joined.entries, *named))
        if isinstance(entries, Conflict):
            return entries
        conflict = inputs_marked(request, entries)
        if self.schema.primary_keys and conflict is None:
            conflict = two_index_files(entries)
        if conflict is not None:
            return conflict
        if entries == old:
            return name, ()
        manifest = self.writer.index_manifest(entries)
        self.hashes.keep_entries(manifest.name, entries)
        return manifest.name, (*uploads, *joined.files, manifest)

    def _without_replaced(
        self, old: Sequence[IndexEntry], files: Followed
    ) -> tuple[tuple[IndexEntry, ...], tuple[MetadataFile, ...]]:
        """Remove the index files of replaced partitions, but not vectors of newer files, or hashes where newer files are."""
        target = self.request.target
        if target is None:
            return (), ()
        keys = FileKeys(self.schema)
        newer: set[Owner] = {owner_of(e) for e in files.newer.values()}
        names = self.writer.names
        touched = [e for e in old if target(e.partition)]
        kept = {owner[0] for owner in newer}
        others = tuple(
            replace(e, kind=DELETE)
            for e in touched
            if not (e.file.index_type == INDEX_TYPE and e.file.deletion_vectors)  # with vectors, it may be split below
            and not (e.file.index_type == HASH_INDEX and e.partition in kept)
        )
        changes, uploads = with_vectors_of(
            self.timeline.store, keys, touched, newer.__contains__, lambda: names.next("index")
        )
        return (*others, *changes), tuple(MetadataFile(u.key, u.key, u.data) for u in uploads)


def _every_partition(partition: bytes) -> bool:
    return True
