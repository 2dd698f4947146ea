"""The actors that rewrite or mark existing rows: compactions, and deletions by deletion vectors.

Owns: those roles. Must not know: schedules, faults, invariants. Source: format/commit §12; format/deletion-vectors §2; H12.
Invariant: a compaction writes the rows that it read, except those that were marked. A deletion only marks rows.
"""

from __future__ import annotations

from ...coordinator.commit.message import PendingUpload
from ...coordinator.commit.request import CommitRequest, Remarks
from ...coordinator.commit.settling.index_files import with_vectors_of
from ...coordinator.history.timeline import Timeline
from ...core.errors import LakelatchError
from ...core.metadata.data_file import ADD, DELETE, EMPTY_ROW, SOURCE_COMPACT, DataFile, IndexEntry
from ...core.metadata.folding import live
from ...core.metadata.snapshot import Snapshot
from ...core.places import FileKeys
from ..world.marks import index_file
from ..world.published import COMMIT, DELETES
from ..world.stage import PATHS, Stage, file_of, rows_in
from .jobs import Role, commit_once, learn, marks_of, upload


def compactor(*, warm: bool = False) -> Role:
    """Rewrite all live files as one without the marked rows. `warm`: the committer does not look for a newer snapshot."""

    def role(stage: Stage) -> None:
        committer = stage.committer()
        try:
            request = _compaction(stage, f"{stage.name}1")
            if warm and request is not None and request.read_snapshot is not None:
                learn(stage, committer, request.read_snapshot)
        except LakelatchError:
            return
        if request is not None:
            commit_once(stage, committer, request, f"{stage.name}1")

    return role


def _compaction(stage: Stage, label: str) -> CommitRequest | None:
    timeline = stage.timeline()
    read = timeline.latest()
    inputs = live(timeline.entries(timeline.manifests(read))) if read is not None else []
    if read is None or not inputs:
        return None
    marks, index = marks_of(timeline, read), timeline.index_entries(read)
    marked = sum(len(positions) for positions in marks.values())
    rows = [
        row
        for entry in inputs
        for position, row in enumerate(rows_in(entry.file.file_name))
        if position not in marks.get(entry.file.file_name, ())
    ]
    count = sum(entry.file.row_count for entry in inputs) - marked
    file = DataFile(file_of(*rows, made_by=label), file_size=1, row_count=count, file_source=SOURCE_COMPACT)
    made = inputs[0]._replace(file=file)
    owners = {(entry.partition, entry.bucket, entry.file.file_name) for entry in inputs}
    keys = FileKeys(stage.schema)
    left, uploads = with_vectors_of(
        stage.store, keys, index, lambda owner: owner not in owners, lambda: f"index-{label}"
    )
    return CommitRequest(
        kind="COMPACT",
        entries=(*(entry.deletion() for entry in inputs), made),
        commit_user=f"user-{stage.name}",
        index_entries=left,
        uploads=(upload(stage, made, label), *uploads),
        read_snapshot=read,
        remarks=Remarks(properties={COMMIT: label}),
    )


def deleter(row: str) -> Role:
    def role(stage: Stage) -> None:
        timeline, label = stage.timeline(), f"{stage.name}1"
        try:
            read = timeline.latest()
            request = _deletion(timeline, read, row, label) if read is not None else None
        except LakelatchError:
            return
        if request is not None:
            commit_once(stage, stage.committer(), request, label, deletes=(row,))

    return role


def _deletion(timeline: Timeline, read: Snapshot, row: str, label: str) -> CommitRequest | None:
    """One index file holds the vectors of all files of the table. It is replaced as a whole (format/manifests §7)."""
    marked = {name: list(positions) for name, positions in marks_of(timeline, read).items()}
    names = [e.file.file_name for e in live(timeline.entries(timeline.manifests(read)))]
    owner = next((name for name in names if row in rows_in(name)), None)
    position = rows_in(owner).index(row) if owner is not None else -1
    if owner is None or position in marked.get(owner, []):
        return None
    marked[owner] = sorted([*marked.get(owner, []), position])
    file, data = index_file(f"index-{label}", marked)
    old = tuple(IndexEntry(DELETE, e.partition, e.bucket, e.file) for e in timeline.index_entries(read))
    return CommitRequest(
        kind="APPEND",
        entries=(),
        commit_user=f"user-{label[:-1]}",
        index_entries=(*old, IndexEntry(ADD, EMPTY_ROW, 0, file)),
        uploads=(PendingUpload(PATHS.index(file.file_name, "the lab"), data),),
        read_snapshot=read,
        remarks=Remarks(properties={COMMIT: label, DELETES: row}),
    )
