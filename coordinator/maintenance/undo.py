"""Undo: takes one commit back with another one, and leaves every other commit as it is.

Owns: `plan_undo`, `UndoPlan`, and the request that an undo commits. Must not know: how it is committed. Source: format/commit
§11; format/deletion-vectors §2; H6, H12; decision 62.
Invariants: no snapshot is removed and no id is freed. What the commit added goes, what it deleted comes back, and the rows that
it marked as deleted are live again. If a later commit builds on any of this, that is a conflict, which names it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...core.errors import CommitConflict, InvalidArgument, Unsupported
from ...core.html_text import ShownAsText
from ...core.metadata.change import Owner, index_changes, owner_of
from ...core.metadata.data_file import ADD, DELETE, IndexEntry, ManifestEntry, PartitionBucket
from ...core.metadata.deletion_vector import INDEX_TYPE
from ...core.metadata.folding import fold
from ...core.metadata.hash_index import INDEX_TYPE as HASH_INDEX
from ...core.metadata.schema import TableSchema
from ...core.metadata.schemas.merge_rules import merge_rules
from ...core.metadata.snapshot import UNDONE, UNDONE_COMMIT, Snapshot, replaced_by
from ...core.places import FileKeys
from ..commit.attempt import FileNames
from ..commit.checks.changes_since import ChangesSince
from ..commit.checks.conflicts import Conflict
from ..commit.checks.restored import PROTECTING_TAG
from ..commit.checks.undoing import builds_on
from ..commit.message import PendingUpload
from ..commit.request import Remarks, Undoing
from ..commit.settling.index_files import with_vectors_of
from ..history.timeline import Timeline
from ..intents.carried import Carried
from ..intents.commits import Commit
from .rollback import RollbackPlan


@dataclass(frozen=True)
class UndoPlan(ShownAsText):
    """The reverse of one commit.

    Attributes:
        commit: the snapshot of the commit.
        carried: which of several commits in that snapshot it is; None where it is the only one.
        before: the snapshot that it was built on; None for the first, and where it has expired and is not needed.
        added, removed: the files that come back, and those that go.
        marked: the data files whose deleted rows become as they were.
        index: the index files that go and come; `uploads`: the new ones.
    """

    commit: Snapshot
    before: Snapshot | None
    latest: Snapshot
    added: tuple[ManifestEntry, ...]
    removed: tuple[ManifestEntry, ...]
    marked: frozenset[Owner] = frozenset()
    index: tuple[IndexEntry, ...] = ()
    uploads: tuple[PendingUpload, ...] = field(default=(), repr=False)
    closed: frozenset[PartitionBucket] = frozenset()
    carried: Carried | None = None

    def __str__(self) -> str:
        back, gone = ((len(e), sum(x.file.row_count for x in e)) for e in (self.added, self.removed))
        marked = f", deleted rows of {len(self.marked)} files are as before" if self.marked else ""
        return (
            f"without {Commit(self.commit, self.carried)}, as snapshot {self.latest.id + 1}: {back[0]} files with {back[1]}"
            f" rows come back, {gone[0]} with {gone[1]} go{marked}"
        )

    def to_dict(self) -> dict[str, Any]:
        """The plan with stable keys, ready for JSON."""

        def told(entries: Sequence[ManifestEntry]) -> dict[str, Any]:
            return {"files": [e.file.file_name for e in entries], "rows": sum(e.file.row_count for e in entries)}

        return {
            "snapshot": self.commit.id,
            "commit": None if self.carried is None else str(self.carried),
            "latest": self.latest.id,
            "comes_back": told(self.added),
            "goes": told(self.removed),
            "marked_files": sorted(owner[2] for owner in self.marked),
        }

    @property
    def restored(self) -> RollbackPlan | None:
        """What must be protected, because other snapshots have deleted it; None where nothing comes back."""
        index = tuple(e for e in self.index if e.kind == ADD and e.file.file_name not in self._uploaded)
        if self.before is None or not (self.added or index):
            return None
        key = self.before.read_from
        return RollbackPlan(self.before, key, self.latest, (), index, self.added, self.removed)

    @property
    def _uploaded(self) -> set[str]:
        return {upload.key.rpartition("/")[2] for upload in self.uploads}

    def request(self, commit_user: str, identifier: int | None, tag: str | None) -> Undoing:
        said = {UNDONE: str(self.commit.id)} | ({PROTECTING_TAG: tag} if tag is not None else {})
        said |= {UNDONE_COMMIT: self.carried.commit} if self.carried is not None else {}
        return Undoing(
            kind="OVERWRITE",
            entries=(*(e.deletion() for e in self.removed), *self.added),
            commit_user=commit_user,
            identifier=identifier,
            index_entries=self.index,
            uploads=self.uploads,
            read_snapshot=self.commit,
            remarks=Remarks("OVERWRITE", properties=said),
            marked=self.marked,
            closed=self.closed,
        )


def plan_undo(timeline: Timeline, schema: TableSchema, meant: Commit, before: Snapshot | None, unique: str) -> UndoPlan:
    """Plan an undo. Changes nothing. Raises as `Table.undo`, and Unsupported if an index file cannot be split.

    Args:
        meant: the commit. Of a snapshot that carries others, only the files of this one are taken back.
        before: the snapshot with the id before; None where there is none, or it has expired.
        unique: a text with which no other file's name begins.
    """
    latest = timeline.latest()
    assert latest is not None  # there is `commit`
    commit = meant.snapshot
    delta = fold(timeline.entries(meant.delta_manifests(timeline))).values()
    removed = tuple(e for e in delta if e.kind == ADD)
    added = tuple(e._replace(kind=ADD) for e in delta if e.kind == DELETE)
    if before is None and commit.id > 1 and (added or commit.index_manifest is not None):
        raise InvalidArgument(
            f"snapshot {commit.id - 1} has expired, which has what snapshot {commit.id} deleted",
            next_step="choose a later commit; a tag of that snapshot would have kept it",
        )
    _refuse_to_hide_rows(schema, commit, added)
    plan = UndoPlan(commit, before, latest, added, removed, carried=meant.carried)
    if schema.primary_keys and added:  # older keys may not come back below newer ones
        plan = replace(plan, closed=frozenset((e.partition, e.bucket) for e in delta))
    changes = ChangesSince(timeline, FileKeys(schema), lambda partition: True)
    old, new = (timeline.index_entries(s) if s is not None else [] for s in (before, commit))
    if old != new:
        plan = replace(plan, marked=changes.landed(before, commit).marked)
    found = builds_on(plan.request("", None, None), changes, latest)
    if isinstance(found, Conflict):
        raise CommitConflict(
            f"{meant if meant.carried else f'snapshot {commit.id}'} cannot be undone: {found.reason}",
            next_step="undo that commit first, or roll the table back",
        )
    if old != new:
        plan = _with_index(timeline, schema, plan, old, new, unique)
    if not (plan.added or plan.removed or plan.index) and replaced_by(commit) is None:
        raise InvalidArgument(f"snapshot {commit.id} changed no file: there is nothing to undo")
    return plan


def _refuse_to_hide_rows(schema: TableSchema, commit: Snapshot, added: Sequence[ManifestEntry]) -> None:
    """A compaction changes no row, but in some tables it is what makes rows visible, or tells readers of changes.

    Taking it back would hide rows of commits that stay, or tell the same changes again.
    """
    rules = merge_rules(schema) if commit.commit_kind == "COMPACT" else None
    if rules is None:
        return
    if rules.hides_level_0 and any(e.file.level == 0 for e in added):
        why = "by which readers see the rows of earlier commits"
    elif commit.changelog_manifest_list is not None:
        why = "which has told readers of changes what earlier commits changed"
    else:
        return
    raise InvalidArgument(
        f"snapshot {commit.id} is a compaction, {why}: without it they would be missing, or told twice",
        next_step="it changed no row, so nothing of it has to be undone; roll the table back to be rid of earlier commits",
    )


def _with_index(
    timeline: Timeline,
    schema: TableSchema,
    plan: UndoPlan,
    old: Sequence[IndexEntry],
    new: Sequence[IndexEntry],
    unique: str,
) -> UndoPlan:
    """With a primary key, others have left nothing in a bucket to which files come back, so its index files are exchanged as a
    whole; where none come back, hashes of keys that are gone do no harm. Otherwise a file may hold other commits' vectors.
    """
    changed = index_changes(old, new)
    now = timeline.index_entries(plan.latest)
    if schema.primary_keys:
        exchanged = {_place(e) for e in changed if plan.added or e.file.index_type != HASH_INDEX}
        gone = tuple(replace(e, kind=DELETE) for e in now if _place(e) in exchanged)
        return replace(plan, index=(*gone, *(e for e in old if _place(e) in exchanged)))
    if any(e.file.index_type != INDEX_TYPE for e in changed):
        kinds = ", ".join(sorted({e.file.index_type for e in changed}))
        raise Unsupported(f"snapshot {plan.commit.id} changed index files of type {kinds}, which cannot be undone")
    touched = plan.marked | {owner_of(e) for e in (*plan.added, *plan.removed)}
    keys, names = FileKeys(schema), FileNames(unique)

    def split(entries: Sequence[IndexEntry], keep: bool) -> tuple[tuple[IndexEntry, ...], tuple[PendingUpload, ...]]:
        return with_vectors_of(
            timeline.store, keys, entries, lambda owner: (owner in touched) is keep, lambda: names.next("index")
        )

    rest, uploads = split(now, keep=False)
    parts, more = split(old, keep=True)
    part_of = {e.file.file_name for e in parts if e.kind == DELETE}
    whole = [e for e in old if e.file.deletion_vectors and e.file.file_name not in part_of]
    return replace(plan, index=(*rest, *(e for e in parts if e.kind == ADD), *whole), uploads=(*uploads, *more))


def _place(entry: IndexEntry) -> tuple[bytes, int, str]:
    return entry.partition, entry.bucket, entry.file.index_type
