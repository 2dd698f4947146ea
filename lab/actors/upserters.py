"""The actors of tables with a primary key: jobs that upsert and delete rows, and compactors of one bucket.

Owns: those roles. Must not know: schedules, faults, invariants. Source: format/primary-keys §1, §2;
format/deletion-vectors §2; H12, H14.
Invariants: a job numbers its rows above everything in the snapshot that it reads first. A compaction keeps its rows' numbers.
What a rider did and had read is known without a word of its snapshot: its rows name it, and it tells which snapshot it has read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...backends.store import ObjectNotFound
from ...coordinator.commit.message import PendingUpload
from ...coordinator.commit.request import CommitRequest, KeyedRows, Remarks
from ...coordinator.history.timeline import Timeline
from ...core.errors import LakelatchError
from ...core.metadata.data_file import ADD, DELETE, EMPTY_ROW, SOURCE_COMPACT, IndexEntry, ManifestEntry
from ...core.metadata.folding import live
from ...core.metadata.hash_index import INDEX_TYPE as HASH_INDEX
from ...core.metadata.hash_index import BucketHashes
from ...core.metadata.snapshot import Snapshot
from ..world.keyed import KeyRow, hash_of, hashes_in, is_keyed, key_file, rows_of, winners
from ..world.marks import index_file
from ..world.published import COMMIT, PUTS, READ
from ..world.stage import BEGAN, PATHS, Stage, Told
from .jobs import Role, commit_once, learn, marks_of, upload
from .row_changers import renumbering


@dataclass(frozen=True)
class Upserter:
    """A job that writes some keys, one row each.

    Attributes:
        puts: the keys; those with a minus sign are deleted.
        ahead: by how much its clock is ahead of the numbers of the table; two jobs with the same clock give the same numbers.
        bucket: where keys go that have no dynamic bucket yet; None for a table with one fixed bucket.
        again: whether it can write its rows again with other numbers.
        buckets: the bucket count of its files in a table whose schema names none; 0 for the one of the schema.
        rides, meets: as of a `Job`. A rider builds on the snapshot that it has read; `behind`: that is snapshot 1.
    """

    puts: tuple[str, ...]
    ahead: int = 1
    bucket: int | None = None
    again: bool = True
    buckets: int = 0
    rides: bool = False
    meets: bool = False
    behind: bool = False

    def __call__(self, stage: Stage) -> None:
        timeline, label, committer = stage.timeline(), f"{stage.name}1", stage.committer()
        try:
            read = timeline.snapshot(1) if self.behind else timeline.latest()
            entries = timeline.entries(timeline.manifests(read)) if read is not None else []
            index = timeline.index_entries(read) if read is not None else []
            request = self._request(stage, label, read, entries, index)
            if self.rides and read is not None:
                learn(stage, committer, read)
        except (LakelatchError, ObjectNotFound):
            return
        if self.rides:
            stage.tell(Told(label, BEGAN, read.identity if read is not None else "", None, ()))
        if self.meets:
            committer.meet(1, 0.001)
        commit_once(stage, committer, request, label)

    def _request(
        self, stage: Stage, label: str, read: Snapshot | None, entries: list[ManifestEntry], index: list[IndexEntry]
    ) -> CommitRequest:
        largest = max((e.file.max_sequence_number for e in entries), default=0)
        rows = [
            KeyRow(label, abs(int(put)), largest + self.ahead + n, put.startswith("-"))
            for n, put in enumerate(self.puts)
        ]
        bucket, hashes = self._placed(stage, rows, index)
        buckets = self.buckets or (stage.schema.bucket if stage.schema.bucket > 0 else -1)
        entry = ManifestEntry(ADD, EMPTY_ROW, bucket, buckets, key_file(rows))
        said = {COMMIT: label, PUTS: ",".join(self.puts), READ: read.identity if read is not None else ""}
        return CommitRequest(
            kind="APPEND",
            entries=(entry,),
            commit_user=f"user-{stage.name}",
            uploads=(upload(stage, entry, label),),
            read_snapshot=read,
            keyed=KeyedRows(hashes=hashes, renumber=renumbering(stage, label) if self.again else None),
            remarks=Remarks("WRITE", properties={} if self.rides else said),
            group=None if self.rides else "off",
        )

    def _placed(
        self, stage: Stage, rows: Sequence[KeyRow], index: Sequence[IndexEntry]
    ) -> tuple[int, tuple[tuple[tuple[bytes, int], BucketHashes], ...]]:
        if self.bucket is None:
            return (rows[0].key % self.buckets if self.buckets else 0), ()
        files = [e for e in index if e.file.index_type == HASH_INDEX]
        known = {e.bucket: hashes_in(stage.store.get(PATHS.index(e.file.file_name, ""))) for e in files}
        hashes = sorted(hash_of(row.key) for row in rows)
        bucket = next((b for b, held in known.items() if hashes[0] in held), self.bucket)
        new = b"".join(h for h in hashes if h not in known.get(bucket, ()))
        names = frozenset(e.file.file_name for e in files)
        return bucket, (((EMPTY_ROW, bucket), BucketHashes(b"".join(hashes), new, names)),)


def rescaler(buckets: int) -> Role:
    """Write all rows again into so many buckets, each into that of its key."""

    def role(stage: Stage) -> None:
        timeline, label = stage.timeline(), f"{stage.name}1"
        try:
            read = timeline.latest()
            alive = live(timeline.entries(timeline.manifests(read))) if read is not None else []
        except LakelatchError:
            return
        in_bucket: dict[int, list[KeyRow]] = {}
        for row in winners(alive, {}, vectors=False)[0]:
            in_bucket.setdefault(row.key % buckets, []).append(row)
        made = tuple(
            ManifestEntry(ADD, EMPTY_ROW, bucket, buckets, key_file(rows, made_by=label))
            for bucket, rows in in_bucket.items()
        )
        request = CommitRequest(
            kind="OVERWRITE",
            entries=made,
            commit_user=f"user-{stage.name}",
            uploads=tuple(upload(stage, entry, label) for entry in made),
            target=lambda partition: True,
            read_snapshot=read,
            remarks=Remarks("OVERWRITE", properties={COMMIT: label}),
        )
        commit_once(stage, stage.committer(), request, label)

    return role


def key_compactor(level: int = 5, *, lookup: bool = False, picks: str = "") -> Role:
    """Compact a bucket.

    Args:
        level: the level of the new file.
        lookup: write the rows of level 0 into a higher one, and mark the older rows of their keys there as deleted. Otherwise all
            files become one, and rows that delete are dropped. A single file that deletes nothing only changes its level.
        picks: take the rows of this commit only.
    """

    def role(stage: Stage) -> None:
        timeline, label = stage.timeline(), f"{stage.name}1"
        try:
            read = timeline.latest()
            request = None
            if read is not None:
                request = _compaction(stage, timeline, read, label, level, lookup=lookup, picks=picks)
        except LakelatchError:
            return
        if request is not None:
            commit_once(stage, stage.committer(), request, label)

    return role


def _compaction(
    stage: Stage, timeline: Timeline, read: Snapshot, label: str, level: int, *, lookup: bool, picks: str
) -> CommitRequest | None:
    alive, marks = live(timeline.entries(timeline.manifests(read))), marks_of(timeline, read)
    old = tuple(e for e in timeline.index_entries(read) if e.file.index_type != HASH_INDEX)
    inputs = [e for e in alive if (e.file.level == 0 or not lookup) and picks in e.file.file_name]
    if not any(e.file.level == 0 for e in inputs):
        return None
    _, vectors = is_keyed(stage.schema.to_json())
    newest = [row for row in winners(inputs, marks, vectors=vectors)[0] if not row.deletes]
    outputs = _outputs(inputs, newest, label, level, is_moved=not lookup and not marks)
    index: tuple[IndexEntry, ...] = ()
    uploads: tuple[PendingUpload, ...] = ()
    if lookup:
        index, uploads = _marked(alive, inputs, marks, old, label)
    elif old:
        index = tuple(replace(e, kind=DELETE) for e in old)
    return CommitRequest(
        kind="COMPACT",
        entries=(*(e.deletion() for e in inputs), *outputs),
        commit_user=f"user-{stage.name}",
        index_entries=index,
        uploads=(*(upload(stage, e, label) for e in outputs if e.file.file_source == SOURCE_COMPACT), *uploads),
        read_snapshot=read,
        remarks=Remarks(properties={COMMIT: label}),
    )


def _outputs(
    inputs: Sequence[ManifestEntry], newest: Sequence[KeyRow], label: str, level: int, *, is_moved: bool
) -> tuple[ManifestEntry, ...]:
    first = inputs[0]
    if is_moved and len(inputs) == 1 and len(newest) == first.file.row_count:
        return (first._replace(file=first.file._replace(level=level)),)
    if not newest:
        return ()
    return (first._replace(file=key_file(newest, made_by=label, level=level, source=SOURCE_COMPACT)),)


def _marked(
    alive: Sequence[ManifestEntry],
    inputs: Sequence[ManifestEntry],
    marks: dict[str, tuple[int, ...]],
    old: tuple[IndexEntry, ...],
    label: str,
) -> tuple[tuple[IndexEntry, ...], tuple[PendingUpload, ...]]:
    """One index file for the bucket, with the older rows of all keys of level 0; the one before is replaced as a whole."""
    keys = {row.key for e in inputs for row in rows_of(e.file.file_name)}
    wanted = {name: set(positions) for name, positions in marks.items()}
    for entry in alive:
        if entry.file.level > 0:
            name = entry.file.file_name
            found = {n for n, row in enumerate(rows_of(name)) if row.key in keys}
            if found - wanted.get(name, set()):
                wanted[name] = wanted.get(name, set()) | found
    if {name: tuple(sorted(positions)) for name, positions in wanted.items()} == marks:
        return (), ()
    file, data = index_file(f"index-{label}", {name: sorted(positions) for name, positions in wanted.items()})
    made = IndexEntry(ADD, EMPTY_ROW, 0, file)
    return (
        (*(replace(e, kind=DELETE) for e in old), made),
        (PendingUpload(PATHS.index(file.file_name, "the lab"), data),),
    )
