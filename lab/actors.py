"""Who takes part: writers with the shipped committer, and others that follow the format's rules.

Owns: the roles. Must not know: schedules, faults, invariants. Source: commit-protocol §1, §4.4, §6, §7.5, §9.
Invariant: a role is a plain function of its stage; everything that it learns comes through the stage's store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

from ..backends.store import ObjectInfo, ObjectNotFound, Store
from ..coordinator.attempt import Blob, FileNames, MetadataWriter
from ..coordinator.committer import Committer
from ..coordinator.maintenance.expire import apply_expiry, plan_expiry
from ..coordinator.maintenance.orphans import apply_clean, plan_orphans
from ..coordinator.maintenance.retention import Retention
from ..coordinator.maintenance.rollback import plan_rollback, protect
from ..coordinator.message import PendingUpload
from ..coordinator.object_journal import ObjectJournal
from ..coordinator.protocol.events import SnapshotRef
from ..coordinator.recovery import recover_journal
from ..coordinator.request import CommitRequest
from ..coordinator.timeline import Timeline
from ..core.data_file import ADD, EMPTY_ROW, NO_BUCKETS, DataFile, ManifestEntry
from ..core.errors import LakelatchError, OutcomeUnknown
from ..core.folding import live
from ..core.snapshot import BATCH_IDENTIFIER, Snapshot
from .stage import PATHS, Stage, Told, commits_in, file_of

Role: TypeAlias = Callable[[Stage], None]

LONG_AGO_MS = 24 * 3_600_000


@dataclass(frozen=True)
class Actor:
    """One participant.

    Attributes:
        after: the actor that must have ended, or died, before this one begins.
        kind: writer, compactor, foreign, expirer, rollback, restorer, cleaner: what invariants make of its deeds.
    """

    name: str
    role: Role
    kind: str = "writer"
    after: str | None = None


def data_entry(label: str) -> ManifestEntry:
    """One row in a file that is named after its commit."""
    return ManifestEntry(ADD, EMPTY_ROW, 0, NO_BUCKETS, DataFile(file_name=file_of(label), file_size=1, row_count=1))


def writer(
    commits: int = 1,
    *,
    identity: tuple[str, int] | None = None,
    resolves: bool = False,
    overwrites: bool = False,
    journaled: bool = False,
) -> Role:
    """Appends (or overwrites) so many times through one committer, as a job does.

    Args:
        identity: commit user and identifier of the first commit; the next ones count on.
        resolves: asks again where the outcome was unknown.
        journaled: keeps a journal beside the table.
    """

    def role(stage: Stage) -> None:
        stage.beside = ObjectJournal(stage.store) if journaled else None
        committer = stage.committer()
        for number in range(1, commits + 1):
            label = f"{stage.name}{number}"
            user, identifier = (identity[0], identity[1] + number - 1) if identity else (f"user-{stage.name}", None)
            try:
                read = stage.timeline().latest() if overwrites else None
            except LakelatchError:
                return  # a job that cannot read its table commits nothing
            entry = data_entry(label)
            request = CommitRequest(
                kind="OVERWRITE" if overwrites else "APPEND",
                entries=(entry,),
                commit_user=user,
                identifier=identifier,
                uploads=(PendingUpload(f"bucket-0/{entry.file.file_name}", label.encode()),),
                target=(lambda partition: True) if overwrites else None,
                read_snapshot=read,
            )
            commit_once(stage, committer, request, label, resolves)

    return role


def commit_once(stage: Stage, committer: Committer, request: CommitRequest, label: str, resolves: bool) -> None:
    """One commit to its end, told as its caller is told."""
    try:
        try:
            receipt = committer.commit(request)
        except OutcomeUnknown as unknown:
            if not resolves:
                raise
            receipt = unknown.resolve(timeout=0.0)
    except OutcomeUnknown as unknown:
        ref = SnapshotRef(unknown.identity["snapshot_id"], unknown.identity["snapshot_uuid"])
        stage.tell(Told(label, "unknown", "", ref))
    except LakelatchError as error:
        stage.tell(Told(label, "not committed", error.code, None))
    else:
        ref = SnapshotRef(receipt.snapshot_id, receipt.snapshot_uuid or "")
        stage.tell(Told(label, "committed", "replayed" if receipt.replayed else "", ref))
    committer.settle()


def compactor() -> Role:
    """Rewrites all files that it finds into one."""

    def role(stage: Stage) -> None:
        timeline, label = stage.timeline(), f"{stage.name}1"
        try:
            read = timeline.latest()
            inputs = live(timeline.entries(timeline.manifests(read))) if read is not None else []
        except LakelatchError:
            return
        if not inputs:
            return
        commits = [commit for entry in inputs for commit in commits_in(entry.file.file_name)]
        name, row_count = file_of(*commits, label), sum(entry.file.row_count for entry in inputs)
        made = inputs[0]._replace(file=DataFile(file_name=name, file_size=1, row_count=row_count))
        request = CommitRequest(
            kind="COMPACT",
            entries=(*(entry.deletion() for entry in inputs), made),
            commit_user=f"user-{stage.name}",
            uploads=(PendingUpload(f"bucket-0/{name}", label.encode()),),
            read_snapshot=read,
        )
        commit_once(stage, stage.committer(), request, label, resolves=False)

    return role


def recoverer() -> Role:
    """Finishes, on another machine, what it finds in the journals beside the table, whether their writers live or not.

    It knows the commits of writers that commit once.
    """
    words = {"landed": "committed", "finished": "committed", "not landed": "not committed", "unknown": "unknown"}

    def role(stage: Stage) -> None:
        stage.clock.now_s += 60.0  # nobody is in flight any more
        try:
            found = recover_journal(ObjectJournal(stage.store), stage.store, stage.around, writers_are_gone=False)
        except LakelatchError:
            return  # it is recovered another time
        for commit in found.commits:
            ref = SnapshotRef(commit.snapshot_id, commit.snapshot_uuid or "") if commit.snapshot_id else None
            if commit.outcome in words:
                stage.tell(Told(commit.commit_user.removeprefix("user-") + "1", words[commit.outcome], "", ref))

    return role


def foreign(*, overwrites_names: bool = True, with_uuid: bool = True) -> Role:
    """A writer by the format's own rules on a store without a lock: does the name exist? If not, rename over it (§4.4).

    Args:
        overwrites_names: as on S3; else its rename refuses an existing target, as on HDFS.
        with_uuid: as since 2.0; before, snapshots had none.
    """

    def role(stage: Stage) -> None:
        timeline, names = stage.timeline(), FileNames(str(stage.around.new_uuid()))
        made = MetadataWriter(stage.schema, PATHS, names)
        label = f"{stage.name}1"
        stage.store.put(f"bucket-0/data-{label}.parquet", label.encode())
        delta = made.manifests([data_entry(label)])
        for _, blob in delta:
            stage.store.put(blob.key, blob.data)
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
    base: Snapshot | None, user: str, base_list: Blob, delta_list: Blob, uuid: str | None, now_ms: int
) -> Snapshot:
    """An append of one row as another engine writes it: no properties of ours."""
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


def _written(store: Store, blob: Blob) -> Blob:
    store.put(blob.key, blob.data)
    return blob


def _latest_by_hint(timeline: Timeline, store: Store) -> Snapshot | None:
    """The format's own look-up: the hint, believed where the next one is absent; else the highest that a listing shows."""
    try:
        hinted = int(store.get(PATHS.hint("LATEST")))
    except (ObjectNotFound, ValueError):
        hinted = 0
    found = timeline.find(hinted) if hinted else None
    if found is not None and timeline.find(hinted + 1) is None:
        return found
    ids = timeline.snapshot_ids()
    return timeline.find(ids[-1]) if ids else None


def expirer(retained: int = 1, *, times: int = 1, every_s: float | None = None) -> Role:
    """Expires so many times, as shipped.

    Args:
        retained: snapshots that stay.
        every_s: seconds between, by this actor's clock; the table's own retention decides. None: as if everything before were
            long ago, and whoever is under way had slept.
    """

    def role(stage: Stage) -> None:
        for _ in range(times):
            stage.around.sleep(every_s or 0.0)
            past_ms = LONG_AGO_MS if every_s is None else 0
            retention = Retention.of(
                stage.schema.options, stage.around.wall_ms + past_ms, retain_min=retained, max_deletes=1_000
            )
            try:
                timeline = stage.timeline()
                apply_expiry(timeline, plan_expiry(timeline, stage.schema, retention))
            except LakelatchError:
                continue  # an expiry that fails is run again another day

    return role


def rollback(to: int) -> Role:
    """Rolls the table back as the format does: LATEST first, then the snapshots above, from the top down (§7.5)."""

    def role(stage: Stage) -> None:
        try:
            ids = stage.timeline().snapshot_ids()
            stage.store.put(PATHS.hint("LATEST"), str(to).encode())
            for number in sorted((i for i in ids if i > to), reverse=True):
                stage.store.delete_many([PATHS.snapshot(number)])
        except LakelatchError:
            return

    return role


def restorer(to: int) -> Role:
    """Makes snapshot `to` the newest state, as shipped: a commit forward."""

    def role(stage: Stage) -> None:
        timeline = stage.timeline()
        try:
            target = timeline.find(to)
            if target is None:
                return
            plan = plan_rollback(timeline, target, PATHS.snapshot(to))
            tags = protect(timeline, stage.schema, plan, stage.name)
        except LakelatchError:
            return  # its caller is told, and nothing was committed
        request = plan.request(f"user-{stage.name}", None, "snapshot", tags[0])
        commit_once(stage, stage.committer(), request, f"{stage.name}1", resolves=False)

    return role


def cleaner(old: Callable[[str], bool]) -> Role:
    """Deletes orphans, as shipped; a file is `old` by its key."""

    def role(stage: Stage) -> None:
        timeline = Timeline(cast(Store, _Aged(stage.store, old)), PATHS, stage.around.executor)
        try:
            apply_clean(plan_orphans(timeline, stage.schema, until_ms=2))
        except LakelatchError:
            return

    return role


class _Aged:
    """A store whose files are old or young by their keys."""

    def __init__(self, store: Store, old: Callable[[str], bool]) -> None:
        self._store, self._old = store, old

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        for info in self._store.list(prefix):
            yield replace(info, modified_ms=1 if self._old(info.key) else 2)
