"""Snapshot expiry: deletes a table's oldest snapshots, and the files that only they need.

Owns: `plan_expiry`, `ExpiryPlan`, `apply_expiry`, `expire`. Must not know: rows, the command line. Source: format/commit §9; H6,
H7, H10, H11; decisions 56, 64.
Invariants: candidates are listed before the roots that stay, so that files of concurrent commits are seen. All roots of all
branches protect the files that they reach. Snapshot files are deleted last, oldest first, so that the next run finishes an
interrupted one; where changelogs outlive snapshots, a copy of the snapshot file is made before. EARLIEST is raised before
anything is deleted. The newest snapshot stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ....backends.requests.refusals import DeletionRefused, past_refusals
from ....backends.store import ObjectInfo
from ....core import options as opt
from ....core.errors import CommitConflict
from ....core.html_text import ShownAsText
from ....core.metadata.schema import TableSchema
from ...history.timeline import Timeline
from ..deletion import Progress, Steps, refuse_replaced, second_look
from ..reach.overwrites import Overwrites, remember
from ..reach.reachable import Reach, Usage
from ..reach.roots import Root, read_roots
from .changelogs import ChangelogPlan, apply_changelogs, keeps_of, plan_changelogs, save_as_changelogs, share_files
from .consumers import list_consumers
from .empty_folders import remove_empty
from .expired_files import Gone, Keeper, Keeps, add_changelog, gone_after, metadata_of
from .retention import Retention, expirable


@dataclass
class RefusedRoots:
    """Snapshots that had their turn, and whose files the store did not delete. They are no part of the history any more.

    Attributes:
        infos: these files, as they were listed. Another snapshot of the same name is not one of them (H18).
        planned: those that are about to be deleted.
    """

    infos: frozenset[ObjectInfo] = frozenset()
    planned: frozenset[ObjectInfo] = frozenset()

    def add(self, error: DeletionRefused) -> None:
        self.infos |= {info for info in self.planned if info.key in error.kept}


@dataclass(frozen=True)
class ExpiryPlan(ShownAsText):
    """The files that an expiry deletes.

    Attributes:
        snapshot_ids: the snapshots to delete, ascending.
        earliest_id: the oldest snapshot that stays; 0 for a table without one.
        consumer: the consumer that holds later snapshots back, with the snapshot that it reads next.
        saved: whether the snapshots become changelogs, which outlive them.
        folders: whether folders that become empty are removed.
        overwrites: what was found out about the snapshots that stay, for the next expiry.
    """

    snapshot_ids: tuple[int, ...] = ()
    earliest_id: int = 0
    steps: Steps = field(default_factory=Steps)
    consumer: tuple[str, int] | None = None
    seen: frozenset[ObjectInfo] = field(default=frozenset(), repr=False)
    usage: Usage | None = field(default=None, repr=False, compare=False)
    saved: bool = False
    changelogs: ChangelogPlan = field(default_factory=ChangelogPlan)
    folders: bool = field(default=False, compare=False)
    overwrites: Overwrites | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        held = f"; consumer '{self.consumer[0]}' reads {self.consumer[1]} next" if self.consumer else ""
        more = f"; {self.changelogs}" if self.changelogs.ids else ""
        if not self.snapshot_ids:
            return f"no snapshot expires{more}{held}"
        first, last = self.snapshot_ids[0], self.snapshot_ids[-1]
        which = f"snapshot {first}" if first == last else f"{len(self.snapshot_ids)} snapshots, {first} to {last}"
        metadata = len(self.steps.leaves) + len(self.steps.lists)
        kept = ", changes are kept" if self.saved else ""
        return f"{which}: {len(self.steps.data)} data files, {metadata} files of metadata{kept}{more}{held}"

    def to_dict(self) -> dict[str, Any]:
        """The plan with stable keys, ready for JSON."""
        return {
            "snapshots": list(self.snapshot_ids),
            "earliest": self.earliest_id,
            "data_files": [*self.steps.data, *self.changelogs.steps.data],
            "metadata_files": [
                *(*self.steps.leaves, *self.steps.lists),
                *(*self.changelogs.steps.leaves, *self.changelogs.steps.lists),
            ],
            "saved_as_changelogs": list(self.snapshot_ids) if self.saved else [],
            "changelogs": list(self.changelogs.ids),
            "held_by_consumer": self.consumer[0] if self.consumer else None,
        }


def plan_expiry(
    timeline: Timeline, schema: TableSchema, retention: Retention, refused: RefusedRoots | None = None
) -> ExpiryPlan:
    """Plan an expiry of the branch. Changes nothing. `refused` snapshots are left alone and keep no file; it notes the plan.

    Raises:
        TableCorrupt: a root, or a file that a remaining root needs, cannot be read; then nothing may be deleted (H11).
        Unsupported: files to delete lie in a location that no option of the table names.
    """
    readers = ((reader.name, reader.next_snapshot) for reader in list_consumers(timeline))
    slowest = min(readers, key=lambda item: item[1], default=None)
    held = slowest[1] if slowest else None
    refused = refused or RefusedRoots()
    doomed, end, latest = _oldest(timeline, retention, held if retention.consumers_hold else None, refused.infos)
    refused.planned = frozenset(root.info for root in doomed)
    reach = Reach(timeline, schema)
    changelogs = plan_changelogs(reach, retention.changelogs, end, latest, held)
    plan = ExpiryPlan(earliest_id=end.snapshot.id if end else 0, consumer=slowest, changelogs=changelogs)
    if end is None or not doomed:
        return plan
    keeps = keeps_of(schema, retention)
    gone, steps = _candidates(reach, doomed, end, keeps)
    keeper = Keeper(reach, gone, lambda: share_files(timeline, keeps))
    metadata = (*steps.leaves, *steps.lists)
    used = keeper.kept(refused.planned | refused.infos, [end], metadata, latest)
    return replace(
        plan,
        snapshot_ids=tuple(root.snapshot.id for root in doomed),
        steps=steps.without(used),
        seen=keeper.seen,
        usage=keeper.usage,
        saved=keeps != "nothing",
        folders=schema.options.get(opt.CLEAN_EMPTY_FOLDERS),
        overwrites=keeper.overwrites,
    )


def _oldest(
    timeline: Timeline, retention: Retention, first_needed: int | None, refused: frozenset[ObjectInfo]
) -> tuple[list[Root], Root | None, int]:
    """What to delete, ascending; the oldest that stays (None if there is none, or it is going, too); and the id of the newest."""
    latest = timeline.latest()
    if latest is None:
        return [], None, 0
    files = (info for info in timeline.store.list(timeline.paths.snapshot_dir) if info not in refused)
    listed = {timeline.snapshot_id_of(info.key): info for info in files}
    ids = sorted(number for number in listed if number is not None and number <= latest.id)
    if not ids or ids[-1] != latest.id:  # a listing that lags behind does not show what may be deleted
        return [], None, latest.id
    oldest = _Oldest(timeline, [listed[number] for number in ids], ids)
    count = expirable(ids, oldest, retention, first_needed)
    roots = [oldest.root(number) for number in ids[: count + 1]]
    return [root for root in roots[:-1] if root is not None], roots[-1], latest.id


class _Oldest:
    """The commit times of snapshots, oldest first. Reads some more whenever one is asked for that was not read yet."""

    def __init__(self, timeline: Timeline, infos: Sequence[ObjectInfo], ids: Sequence[int]) -> None:
        self._timeline, self._infos = timeline, list(infos)
        self._position = {number: at for at, number in enumerate(ids)}
        self._roots: dict[str, Root] = {}
        self._read = 0

    def root(self, number: int) -> Root | None:
        at = self._position[number]
        while self._read <= at:
            until = self._read + min(self._read + 2, 64)
            roots = read_roots(self._timeline, self._infos[self._read : until])
            self._roots.update({root.key: root for root in roots})
            self._read = until
        return self._roots.get(self._infos[at].key)

    def get(self, number: int, default: int, /) -> int:
        found = self.root(number)
        return default if found is None else found.snapshot.time_ms


def _candidates(reach: Reach, doomed: Sequence[Root], end: Root, keeps: Keeps) -> tuple[Gone, Steps]:
    """A file that a snapshot deletes is part of the previous one, and may be deleted with that one."""
    *named, last = reach.named_by([*doomed, end])
    gone = gone_after(reach, [*named[1:], last], only_compacted=keeps == "delta")
    if keeps == "nothing":
        add_changelog(reach, named, gone)
    parts = [metadata_of(reach, one, keeps) for one in named]
    lists = dict.fromkeys(key for keys, _ in parts for key in keys)
    leaves = dict.fromkeys(key for _, keys in parts for key in keys)
    for key in leaves:
        reach.keys.deletable(key)
    roots = tuple(root.key for root in doomed)
    return gone, Steps(tuple(sorted(gone.entries)), tuple(leaves), tuple(lists), roots)


@past_refusals()
def apply_expiry(timeline: Timeline, plan: ExpiryPlan, progress: Progress | None = None) -> ExpiryPlan:
    """Carry out a plan, after a second look at newer roots. Returns the plan as it was carried out. Raises CommitConflict if
    snapshots to delete were replaced, or a consumer came that has still to read them, StoreUnavailable if the store failed.
    """
    if not plan.snapshot_ids or plan.usage is None:
        return replace(plan, changelogs=apply_changelogs(timeline, plan.changelogs, progress))
    refuse_replaced(plan.steps, plan.seen, timeline.store.list(timeline.paths.snapshot_dir))
    _raise_earliest(timeline, plan.earliest_id)
    _refuse_needed(timeline, plan)
    steps = second_look(plan.steps, plan.seen, plan.usage, lambda root: _adds_only(timeline, plan, root))
    if plan.saved:
        save_as_changelogs(timeline, plan.snapshot_ids)
    steps.delete(timeline.store, progress)
    if plan.folders:
        remove_empty(timeline.store, steps.data, timeline.paths.data_directory)
    if plan.overwrites is not None:
        remember(timeline, plan.overwrites)
    done = ExpiryPlan(plan.snapshot_ids, plan.earliest_id, steps, plan.consumer, saved=plan.saved)
    return replace(done, changelogs=apply_changelogs(timeline, plan.changelogs, progress))


@past_refusals()
def expire(
    timeline: Timeline,
    schema: TableSchema,
    retention: Retention,
    progress: Progress | None = None,
    refused: RefusedRoots | None = None,
) -> ExpiryPlan:
    """Plan and carry out, first for snapshots, and then for changelogs, those included that the snapshots have just become.

    `refused` and what is raised: as for `plan_expiry` and `apply_expiry`.
    """
    planned = plan_expiry(timeline, schema, retention, refused)
    done = apply_expiry(timeline, replace(planned, changelogs=ChangelogPlan()), progress)
    if retention.changelogs is None:
        return done
    latest = timeline.latest()
    first = [
        i
        for i in timeline.store.list(timeline.paths.snapshot_dir)
        if i.key == timeline.paths.snapshot(done.earliest_id)
    ]
    held = min((reader.next_snapshot for reader in list_consumers(timeline)), default=None)
    roots = read_roots(timeline, first)
    if latest is None or not roots:
        return done
    changelogs = plan_changelogs(Reach(timeline, schema), retention.changelogs, roots[0], latest.id, held)
    return replace(done, changelogs=apply_changelogs(timeline, changelogs, progress))


def _adds_only(timeline: Timeline, plan: ExpiryPlan, root: Root) -> bool:
    """Is a root that was not seen before a commit that cannot bring back a file? Only overwrites do."""
    planned = {number for info in plan.seen if (number := timeline.snapshot_id_of(info.key)) is not None}
    number = timeline.snapshot_id_of(root.key)
    return number is not None and number > max(planned) and root.snapshot.commit_kind != "OVERWRITE"


def _raise_earliest(timeline: Timeline, earliest_id: int) -> None:
    """EARLIEST announces the deletion before the second look for tags. A process that tags a snapshot and then finds EARLIEST
    above it knows that the look may have missed the tag (decision 10). An overtaken expiry does not lower it (H7).
    """
    hinted = timeline.hint("EARLIEST")
    if hinted is None or hinted < earliest_id or timeline.find(hinted) is None:
        timeline.store.put(timeline.paths.hint("EARLIEST"), str(earliest_id).encode())


def _refuse_needed(timeline: Timeline, plan: ExpiryPlan) -> None:
    """Raises CommitConflict where a consumer that came since the plan was made has still to read a snapshot to delete (H10).

    A consumer that comes later finds EARLIEST above that snapshot, and is refused (decision 10).
    """
    if plan.saved:  # the changes stay
        return
    late = [reader for reader in list_consumers(timeline) if reader.next_snapshot < plan.earliest_id]
    needed = min(late, key=lambda reader: reader.next_snapshot, default=None)
    if needed is None:
        return
    timeline.store.put(timeline.paths.hint("EARLIEST"), str(plan.snapshot_ids[0]).encode())
    raise CommitConflict(
        f"consumer {needed.name!r} reads snapshot {needed.next_snapshot} next, which was about to expire"
    )
