"""Snapshot expiry: deletes a table's oldest snapshots, and the files that only they need.

Owns: `plan_expiry`, `ExpiryPlan`, `apply_expiry`. Must not know: rows, the command line. Source: format/commit §9; H6, H7, H10,
H11.
Invariants: candidates are listed before the roots that stay, so that files of concurrent commits are seen. All roots of all
branches protect the files that they reach. Snapshot files are deleted last, oldest first, so that the next run finishes an
interrupted one. EARLIEST is raised before anything is deleted. The newest snapshot stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...backends.store import ObjectInfo
from ...core.errors import CommitConflict
from ...core.html_text import ShownAsText
from ...core.metadata.schema import TableSchema
from ..history.timeline import Timeline
from .consumers import list_consumers
from .deletion import Progress, Steps, refuse_replaced, second_look
from .reachable import Named, Reach, Usage, union
from .retention import Retention, expirable
from .roots import Root, list_roots, read_roots


@dataclass(frozen=True)
class ExpiryPlan(ShownAsText):
    """The files that an expiry deletes.

    Attributes:
        snapshot_ids: the snapshots to delete, ascending.
        earliest_id: the oldest snapshot that stays; 0 for a table without one.
        steps: the files, in the order of deletion.
        consumer: the consumer that holds later snapshots back, with the snapshot that it reads next.
        seen: all roots at the time of planning.
    """

    snapshot_ids: tuple[int, ...] = ()
    earliest_id: int = 0
    steps: Steps = field(default_factory=Steps)
    consumer: tuple[str, int] | None = None
    seen: frozenset[ObjectInfo] = field(default=frozenset(), repr=False)
    usage: Usage | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        held = f"; consumer '{self.consumer[0]}' reads {self.consumer[1]} next" if self.consumer else ""
        if not self.snapshot_ids:
            return f"no snapshot expires{held}"
        first, last = self.snapshot_ids[0], self.snapshot_ids[-1]
        which = f"snapshot {first}" if first == last else f"{len(self.snapshot_ids)} snapshots, {first} to {last}"
        metadata = len(self.steps.leaves) + len(self.steps.lists)
        return f"{which}: {len(self.steps.data)} data files, {metadata} files of metadata{held}"

    def to_dict(self) -> dict[str, Any]:
        """The plan with stable keys, ready for JSON."""
        return {
            "snapshots": list(self.snapshot_ids),
            "earliest": self.earliest_id,
            "data_files": list(self.steps.data),
            "metadata_files": [*self.steps.leaves, *self.steps.lists],
            "held_by_consumer": self.consumer[0] if self.consumer else None,
        }


def plan_expiry(timeline: Timeline, schema: TableSchema, retention: Retention) -> ExpiryPlan:
    """Plan an expiry of the timeline's branch. Changes nothing.

    Raises:
        TableCorrupt: a root, or a file that a remaining root needs, cannot be read; then nothing may be deleted (H11).
        Unsupported: files to delete lie in a location that no option of the table names.
    """
    readers = ((reader.name, reader.next_snapshot) for reader in list_consumers(timeline))
    slowest = min(readers, key=lambda item: item[1], default=None)
    doomed, end = _oldest(timeline, retention, slowest[1] if slowest else None)
    if end is None or not doomed:
        return ExpiryPlan(earliest_id=end.snapshot.id if end else 0, consumer=slowest)
    reach = Reach(timeline, schema)
    steps, usage = _candidates(reach, doomed, end)
    kept, seen = _staying(reach, {root.info for root in doomed})
    used = {key for named in kept for key in named.keys} | usage.live(kept)
    ids = tuple(root.snapshot.id for root in doomed)
    return ExpiryPlan(ids, end.snapshot.id, steps.without(used), slowest, seen, usage)


def _oldest(timeline: Timeline, retention: Retention, first_needed: int | None) -> tuple[list[Root], Root | None]:
    """The snapshots to delete, ascending, and the oldest one that stays; None if there is none, or it is being deleted too."""
    latest = timeline.latest()
    if latest is None:
        return [], None
    listed = {timeline.snapshot_id_of(info.key): info for info in timeline.store.list(timeline.paths.snapshot_dir)}
    ids = sorted(number for number in listed if number is not None and number <= latest.id)
    if not ids or ids[-1] != latest.id:  # a listing that lags behind does not show what may be deleted
        return [], None
    roots = read_roots(timeline, [listed[number] for number in ids[: retention.limit + 1]])
    oldest = {root.snapshot.id: root for root in roots}
    count = expirable(ids, {number: r.snapshot.time_ms for number, r in oldest.items()}, retention, first_needed)
    return [oldest[number] for number in ids[:count] if number in oldest], oldest.get(ids[count])


def _candidates(reach: Reach, doomed: Sequence[Root], end: Root) -> tuple[Steps, Usage]:
    """The files that the expired snapshots name or delete, and the check whether other roots need them.

    A file that a snapshot deletes is part of the previous one, and may be deleted with that one.
    """
    gone = reach.named_by(doomed)
    files = union(reach.deleted_data([*gone[1:], *reach.named_by([end])]), reach.added_changelog(gone))
    leaves = dict.fromkeys(key for named in gone for key in sorted(named.leaves))
    for key in (*files.keys, *leaves):
        reach.keys.deletable(key)
    lists = dict.fromkeys(key for named in gone for key in sorted(named.lists))
    steps = Steps(tuple(sorted(files.keys)), tuple(leaves), tuple(lists), tuple(named.root.key for named in gone))
    return steps, reach.usage(files)


def _staying(reach: Reach, gone: set[ObjectInfo]) -> tuple[list[Named], frozenset[ObjectInfo]]:
    """The files that the remaining roots name, and all roots that exist."""
    keys = {info.key for info in gone}
    listed = list_roots(reach.timeline)
    kept = reach.kept_by(read_roots(reach.timeline, [info for info in listed if info.key not in keys]))
    return kept, frozenset([*listed, *gone])


def apply_expiry(timeline: Timeline, plan: ExpiryPlan, progress: Progress | None = None) -> ExpiryPlan:
    """Carry out a plan, after a second look at newer roots.

    Returns:
        The plan as it was carried out.

    Raises:
        CommitConflict: snapshots to delete were replaced by others, or a consumer came that has still to read them: plan again.
        StoreUnavailable: the store failed midway: run it again.
    """
    if not plan.snapshot_ids or plan.usage is None:
        return plan
    refuse_replaced(plan.steps, plan.seen, timeline.store.list(timeline.paths.snapshot_dir))
    _raise_earliest(timeline, plan.earliest_id)
    _refuse_needed(timeline, plan)
    steps = second_look(plan.steps, plan.seen, plan.usage)
    steps.delete(timeline.store, progress)
    return ExpiryPlan(plan.snapshot_ids, plan.earliest_id, steps, plan.consumer)


def _raise_earliest(timeline: Timeline, earliest_id: int) -> None:
    """EARLIEST announces the deletion before the second look for tags. A process that tags a snapshot and then finds EARLIEST
    above it knows that the look may have missed the tag (decision 10). An expiry that was overtaken by another one does not
    lower EARLIEST (H7).
    """
    hinted = timeline.hint("EARLIEST")
    if hinted is None or hinted < earliest_id or timeline.find(hinted) is None:
        timeline.store.put(timeline.paths.hint("EARLIEST"), str(earliest_id).encode())


def _refuse_needed(timeline: Timeline, plan: ExpiryPlan) -> None:
    """Raises CommitConflict where a consumer that came since the plan was made has still to read a snapshot to delete (H10).

    A consumer that comes later finds EARLIEST above that snapshot, and is refused (decision 10).
    """
    late = [reader for reader in list_consumers(timeline) if reader.next_snapshot < plan.earliest_id]
    needed = min(late, key=lambda reader: reader.next_snapshot, default=None)
    if needed is None:
        return
    timeline.store.put(timeline.paths.hint("EARLIEST"), str(plan.snapshot_ids[0]).encode())
    raise CommitConflict(
        f"consumer {needed.name!r} reads snapshot {needed.next_snapshot} next, which was about to expire"
    )
