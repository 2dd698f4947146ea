"""The actors that add rows: writers with the shipped committer, and one that follows the plain rules of the format.

Owns: the roles that add rows. Must not know: schedules, faults, invariants. Source: format/commit §2, §6, §12.
Invariant: a role is a plain function of its stage. Everything that it learns comes through the store of the stage.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

from ...backends.store import ObjectNotFound, Store
from ...coordinator.commit.attempt import FileNames, MetadataFile, MetadataWriter
from ...coordinator.commit.committer import Committer
from ...coordinator.commit.message import PendingUpload
from ...coordinator.commit.receipt import Receipt
from ...coordinator.commit.request import CommitRequest, Isolation, Remarks
from ...coordinator.history.base import Base
from ...coordinator.history.timeline import Timeline
from ...coordinator.journal.object_journal import ObjectJournal
from ...coordinator.protocol.snapshot_ref import SnapshotRef
from ...coordinator.recovery.recover import recover_journal
from ...core.errors import LakelatchError, OutcomeUnknown
from ...core.metadata.data_file import ADD, EMPTY_ROW, NO_BUCKETS, DataFile, ManifestEntry
from ...core.metadata.folding import live
from ...core.metadata.snapshot import BATCH_IDENTIFIER, Snapshot
from ...core.rows.binary.binary_row import encode_row
from ...core.rows.types import AtomicType
from ..world.marks import marks_in
from ..world.published import COMMIT, PARTITIONS, READ
from ..world.stage import PATHS, Stage, Told, file_keys, file_of, rows_in

Role: TypeAlias = Callable[[Stage], None]


@dataclass(frozen=True)
class Actor:
    """One participant of a scenario.

    Attributes:
        after: the actors that must have ended, died, or fallen asleep before this one begins.
        holds: before a request whose label has this prefix, the actor sleeps until these actors have ended. This limits
            the moments that are explored.
        kind: writer, overwriter, deleter, merger, compactor, foreign, locked, recoverer, expirer, rollback, restorer, cleaner,
            alterer, dropper, tagger, untagger, consumer, stream, brancher, unbrancher or cloner: its actions are judged by it.
    """

    name: str
    role: Role
    kind: str = "writer"
    after: tuple[str, ...] = ()
    holds: tuple[str, tuple[str, ...]] = ("", ())


def data_entry(label: str, partition: int | None = None, buckets: int = NO_BUCKETS) -> ManifestEntry:
    row = EMPTY_ROW if partition is None else partition_row(partition)
    name = file_of(label if partition is None else f"{label}~{partition}")
    return ManifestEntry(ADD, row, 0, buckets, DataFile(file_name=name, file_size=1, row_count=1))


def partition_row(value: int) -> bytes:
    return encode_row([value], [AtomicType("INT")])


@dataclass(frozen=True)
class Job:
    """The behaviour of a writer, which appends so many times through one committer.

    Attributes:
        identity: the commit user and identifier of the first commit. Later commits increase the identifier.
        overwrites: it replaces what it reads, in `partitions` if there are any, otherwise everywhere.
        keeps: an overwrite writes the rows that it read again, as an update does.
        opens: it first reads the newest schema, as a job does that starts later.
        opened: the bytes of schema 0, if it opened the table before the scenario began.
        rides: its snapshots say nothing of its commits, so that it may ride with others.
        meets: it has met other writers before, and looks whom it can carry with its first attempt.
        behind: it believes that snapshot 1 is the newest, so that it loses its first race where there are others.
    """

    commits: int = 1
    identity: tuple[str, int] | None = None
    resolves: bool = False
    journaled: bool = False
    partitions: tuple[int, ...] = ()
    overwrites: bool = False
    keeps: bool = False
    opens: bool = False
    opened: bytes | None = None
    isolation: Isolation = "snapshot"
    rides: bool = False
    meets: bool = False
    behind: bool = False

    def __call__(self, stage: Stage) -> None:
        stage.beside = ObjectJournal(stage.store) if self.journaled else None
        stage.first_schema = self.opened
        if self.opens:
            try:
                stage.schema, stage.first_schema = stage.timeline().opened()
            except LakelatchError:
                return  # the table does not exist
        committer = stage.committer()
        if self.behind:
            _falls_behind(stage, committer)
        for number in range(1, self.commits + 1):
            label = f"{stage.name}{number}"
            if self.meets:
                committer.meet(1, 0.001)
            try:
                request = self._request(stage, label, number)
            except LakelatchError:
                return  # a job that cannot read its table commits nothing
            commit_once(stage, committer, request, label, self.resolves)

    def _request(self, stage: Stage, label: str, number: int) -> CommitRequest:
        identity = self.identity
        user, identifier = (identity[0], identity[1] + number - 1) if identity else (f"user-{stage.name}", None)
        buckets = stage.schema.bucket if stage.schema.bucket > 0 else NO_BUCKETS
        entries = [data_entry(label, partition, buckets) for partition in self.partitions or (None,)]
        said = {} if self.rides else {COMMIT: label}
        read = stage.timeline().latest() if self.overwrites else None
        if read is not None:
            said |= {READ: read.identity, PARTITIONS: ",".join(map(str, self.partitions))}
            if self.keeps:
                entries = [_with_rows(entry, stage.timeline(), read) for entry in entries]
        return CommitRequest(
            kind="OVERWRITE" if self.overwrites else "APPEND",
            entries=tuple(entries),
            commit_user=user,
            identifier=identifier,
            uploads=tuple(upload(stage, entry, label) for entry in entries),
            target=_target({entry.partition for entry in entries}) if self.overwrites else None,
            read_snapshot=read,
            isolation=self.isolation,
            remarks=Remarks(properties=said),
            group=None if self.rides else "off",
        )


writer = Job


def _falls_behind(stage: Stage, committer: Committer) -> None:
    with suppress(LakelatchError, ObjectNotFound):  # then it sees the newest snapshot
        learn(stage, committer, stage.timeline().snapshot(1))


def learn(stage: Stage, committer: Committer, seen: Snapshot) -> None:
    """Let a committer know a snapshot, as a warm one knows the newest that it saw."""
    committer.learn(Base(seen, stage.timeline().manifests(seen), stage.schema.id, stage.around.now_ms))


def _target(partitions: set[bytes]) -> Callable[[bytes], bool]:
    return lambda partition: partition in partitions


def _with_rows(entry: ManifestEntry, timeline: Timeline, read: Snapshot) -> ManifestEntry:
    rows = [row for name in row_names(timeline, read, entry.partition) for row in name]
    name = file_of(*rows, *rows_in(entry.file.file_name))
    return entry._replace(file=entry.file._replace(file_name=name, row_count=len(rows) + 1))


def row_names(timeline: Timeline, read: Snapshot, partition: bytes) -> list[tuple[str, ...]]:
    marks = marks_of(timeline, read)
    return [
        tuple(row for n, row in enumerate(rows_in(name)) if n not in marks.get(name, ()))
        for name in (
            e.file.file_name for e in live(timeline.entries(timeline.manifests(read))) if e.partition == partition
        )
    ]


def marks_of(timeline: Timeline, read: Snapshot) -> dict[str, tuple[int, ...]]:
    """The positions that the deletion vectors of a snapshot mark, by data file."""
    entries = timeline.index_entries(read)
    return marks_in(entries, {e.file.file_name: timeline.store.get(PATHS.index(e.file.file_name, "")) for e in entries})


def upload(stage: Stage, entry: ManifestEntry, label: str) -> PendingUpload:
    return PendingUpload(file_keys(stage.schema.to_json()).data(entry)[0], label.encode())


def commit_once(
    stage: Stage,
    committer: Committer,
    request: CommitRequest,
    label: str,
    resolves: bool = False,
    deletes: tuple[str, ...] = (),
) -> None:
    """Run one commit to its end, and record the outcome as its caller gets it. `deletes` are rows that it deletes."""
    rows = _own_rows(request, label)
    tell_outcome(stage, label, lambda: _committed(stage, committer, request), rows, resolves, deletes)
    committer.settle()


def _committed(stage: Stage, committer: Committer, request: CommitRequest) -> Receipt:
    try:
        return committer.commit(request)
    except LakelatchError as error:
        if not error.sent and request.uploads:
            committer.settle()
            with suppress(LakelatchError):
                stage.store.delete_many([upload.key for upload in request.uploads])
        raise


def tell_outcome(
    stage: Stage,
    label: str,
    commit: Callable[[], Receipt],
    rows: tuple[str, ...] | None,
    resolves: bool = False,
    deletes: tuple[str, ...] = (),
) -> None:
    """Record the outcome as the caller gets it. For `rows` and `deletes` see `Told`."""
    try:
        try:
            receipt = commit()
        except OutcomeUnknown as unknown:
            if not resolves:
                raise
            receipt = unknown.resolve(timeout=0.0)
    except OutcomeUnknown as unknown:
        ref = SnapshotRef(unknown.identity["snapshot_id"], unknown.identity["snapshot_uuid"])
        stage.tell(Told(label, "unknown", "", ref, rows, deletes))
    except LakelatchError as error:
        stage.tell(Told(label, "not committed", error.code, None, rows, deletes))
    else:
        ref = SnapshotRef(receipt.snapshot_id, receipt.snapshot_uuid or "")
        stage.tell(Told(label, "committed", "replayed" if receipt.replayed else "", ref, rows, deletes))


def _own_rows(request: CommitRequest, label: str) -> tuple[str, ...] | None:
    added = [row for e in request.entries if e.kind == ADD for row in rows_in(e.file.file_name)]
    own = tuple(row for row in added if row.partition("~")[0] == label)
    return None if own == (label,) else own


def recoverer() -> Role:
    """Finish on another machine the commits in the journals beside the table, whether their writers are alive or not."""
    words = {"landed": "committed", "finished": "committed", "not landed": "not committed", "unknown": "unknown"}

    def role(stage: Stage) -> None:
        stage.clock.now_s += 60.0  # no request is in flight any more
        try:
            found = recover_journal(ObjectJournal(stage.store), stage.store, stage.around, writers_are_gone=False)
        except LakelatchError:
            return  # a later recovery handles it
        for commit in found.commits:
            ref = SnapshotRef(commit.snapshot_id, commit.snapshot_uuid or "") if commit.snapshot_id else None
            if commit.outcome in words:
                stage.tell(Told(commit.commit_user.removeprefix("user-") + "1", words[commit.outcome], "", ref))

    return role


def foreign(*, overwrites_names: bool = True, with_uuid: bool = True) -> Role:
    """A writer by the format's own rules on a store without a lock: if the name does not exist, rename over it
    (format/commit §6). `overwrites_names`: its rename overwrites, as on S3, or refuses an existing target, as on HDFS.
    Snapshots have a uuid since 2.0.
    """

    def role(stage: Stage) -> None:
        timeline, names = stage.timeline(), FileNames(str(stage.around.new_uuid()))
        made = MetadataWriter(stage.schema, PATHS, names)
        label = f"{stage.name}1"
        stage.store.put(f"bucket-0/data-{label}.parquet", label.encode())
        delta = made.manifests([data_entry(label)])
        for _, file in delta:
            stage.store.put(file.key, file.data)
        delta_list = _written(stage.store, made.manifest_list([line for line, _ in delta]))
        for _ in range(20):
            base = _latest_by_hint(timeline, stage.store)
            base_list = _written(stage.store, made.manifest_list(timeline.manifests(base) if base else ()))
            uuid = str(stage.around.new_uuid()) if with_uuid else None
            snapshot = foreign_snapshot(base, f"user-{stage.name}", base_list, delta_list, uuid, stage.around.wall_ms)
            key = PATHS.snapshot(snapshot.id)
            if timeline.find(snapshot.id) is not None:
                continue
            if overwrites_names:
                stage.store.put(key, snapshot.to_json())
            elif type(stage.store.put_if_absent(key, snapshot.to_json())).__name__ != "Created":
                continue
            stage.tell(Told(label, "foreign", "", SnapshotRef(snapshot.id, snapshot.identity)))
            stage.store.put(PATHS.hint("LATEST"), str(snapshot.id).encode())
            return

    return role


def foreign_snapshot(
    base: Snapshot | None, user: str, base_list: MetadataFile, delta_list: MetadataFile, uuid: str | None, now_ms: int
) -> Snapshot:
    return Snapshot(
        id=(base.id if base else 0) + 1,
        schema_id=0,
        base_manifest_list=base_list.name,
        delta_manifest_list=delta_list.name,
        commit_user=user,
        commit_identifier=BATCH_IDENTIFIER,
        commit_kind="APPEND",
        time_ms=now_ms,
        total_record_count=(base.total_record_count if base else 0) + 1,
        delta_record_count=1,
        uuid=uuid,
    )


def _written(store: Store, file: MetadataFile) -> MetadataFile:
    store.put(file.key, file.data)
    return file


def _latest_by_hint(timeline: Timeline, store: Store) -> Snapshot | None:
    """The format's own look-up: the hint, if no later snapshot exists; otherwise the highest snapshot in a listing."""
    try:
        hinted = int(store.get(PATHS.hint("LATEST")))
    except (ObjectNotFound, ValueError):
        hinted = 0
    found = timeline.find(hinted) if hinted else None
    if found is not None and timeline.find(hinted + 1) is None:
        return found
    ids = timeline.snapshot_ids()
    return timeline.find(ids[-1]) if ids else None
