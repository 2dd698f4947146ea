"""Changelogs that outlive their snapshots: made by an expiry of snapshots, deleted by one of their own.

Owns: the folder `changelog/` of a branch with its hints, `ChangelogPlan`, and which files a changelog keeps. Must not know: how
changes are read. Source: format/snapshot §5; format/commit §9, §10; decision 64.
Invariants: the changelog is written before its snapshot is deleted. Changelogs expire oldest first; the newest stays. What a
snapshot that stays, a tag, a consumer or another branch needs is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ....backends.requests.refusals import past_refusals
from ....backends.store import AlreadyThere, ObjectInfo, ObjectNotFound, Unknown
from ....core import options as opt
from ....core.errors import CommitConflict, StoreUnavailable
from ....core.metadata.schema import TableSchema
from ....core.options import TableOptions
from ....core.paths import version_of
from ...history.timeline import Timeline
from ..deletion import Progress, Steps, second_look
from ..reach.overwrites import is_linear
from ..reach.reachable import Named, Reach, Usage
from ..reach.roots import Root, read_roots
from .consumers import list_consumers
from .expired_files import Gone, Keeper, Keeps, add_changelog, gone_after
from .retention import Retention, expirable_changelogs


@dataclass(frozen=True)
class ChangelogPlan:
    """The changelogs that an expiry deletes, ascending, and the oldest one that stays."""

    ids: tuple[int, ...] = ()
    earliest_id: int = 0
    steps: Steps = field(default_factory=Steps)
    seen: frozenset[ObjectInfo] = field(default=frozenset(), repr=False)
    usage: Usage | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        if not self.ids:
            return "no changelog expires"
        first, last = self.ids[0], self.ids[-1]
        which = f"changelog {first}" if first == last else f"{len(self.ids)} changelogs, {first} to {last}"
        return f"{which}: {len(self.steps.data)} data files"


def keeps_of(schema: TableSchema, retention: Retention) -> Keeps:
    if retention.changelogs is None:
        return "nothing"
    return "delta" if _tells_by_delta(schema.options) else "changelog"


def share_files(timeline: Timeline, keeps: Keeps) -> bool:
    """May changelogs hold files that expiring snapshots name or have deleted? One with changelog files holds only files of its
    own. One without holds the files of new rows, which a snapshot's expiry leaves alone if it keeps such ones itself.
    """
    if keeps == "delta":
        return False
    return any(_tells_by_delta(timeline.schema(number).options) for number in timeline.schema_ids())


def _tells_by_delta(options: TableOptions) -> bool:
    return options.get(opt.CHANGELOG_PRODUCER) == "none"


def save_as_changelogs(timeline: Timeline, ids: Sequence[int]) -> None:
    """Copy snapshots to the folder of changelogs; again without harm. Raises StoreUnavailable if one may not have been copied."""

    def save(number: int) -> int | None:
        try:
            data = timeline.store.get(timeline.paths.snapshot(number))
        except ObjectNotFound:  # another expiry was faster
            return None
        answer = timeline.store.put_if_absent(timeline.paths.changelog(number), data)
        if isinstance(answer, Unknown):
            raise StoreUnavailable(f"{timeline.paths.changelog(number)} may not have been written: {answer.reason}")
        if isinstance(answer, AlreadyThere) and timeline.store.get(timeline.paths.changelog(number)) != data:
            timeline.store.put(timeline.paths.changelog(number), data)
        return number

    saved = [number for number in timeline.parallel(save, ids) if number is not None]
    hinted = timeline.changelog_hint("LATEST")
    if saved and (hinted is None or hinted < saved[-1]):
        timeline.store.put(f"{timeline.paths.changelog_dir}LATEST", str(saved[-1]).encode())


def plan_changelogs(
    reach: Reach, retention: Retention | None, first: Root | None, latest_id: int, first_needed: int | None
) -> ChangelogPlan:
    """Plan an expiry of the changelogs of the timeline's branch. Changes nothing.

    Args:
        retention: None if they go with their snapshots, then the plan is empty.
        first: the oldest snapshot that stays; changelogs from its id on do not count.
        first_needed: the snapshot that the slowest consumer reads next.

    Raises: as `plan_expiry`.
    """
    if retention is None or first is None:
        return ChangelogPlan()
    timeline = reach.timeline
    there = {*timeline.snapshot_ids()}  # one that is half deleted, perhaps for ever, holds back its own changelog alone
    folder = timeline.paths.changelog_dir
    numbers = ((version_of(info.key[len(folder) :], "changelog"), info) for info in timeline.store.list(folder))
    listed = {n: info for n, info in numbers if n is not None and n not in there and n < first.snapshot.id}
    ids = sorted(listed)
    roots = {
        root.snapshot.id: root
        for root in read_roots(timeline, [listed[number] for number in ids[: retention.limit + 1]])
    }
    times = {number: root.snapshot.time_ms for number, root in roots.items()}
    end_id = expirable_changelogs(ids, latest_id, times, retention, first_needed)
    end = roots.get(end_id) if end_id is not None else None
    if end is None:
        return ChangelogPlan()
    doomed = [root for number, root in roots.items() if number < end.snapshot.id]
    return _planned(reach, doomed, [end, first], latest_id) if doomed else ChangelogPlan()


def _planned(reach: Reach, doomed: Sequence[Root], ends: Sequence[Root], latest_id: int) -> ChangelogPlan:
    timeline = reach.timeline
    named = reach.named_by(doomed)
    gone = _gone(reach, named)
    lists = dict.fromkeys(key for one in named for key in sorted(one.lists) if _is_own(one, key, timeline))
    leaves = dict.fromkeys(timeline.paths.manifest(m.file_name) for n in named for m in (*n.state, *n.changelog))
    steps = Steps(tuple(sorted(gone.entries)), tuple(leaves), tuple(lists), tuple(root.key for root in doomed))
    keeper = Keeper(reach, gone)
    used = keeper.kept(frozenset(root.info for root in doomed), ends, (*leaves, *lists), latest_id)
    ids = tuple(root.snapshot.id for root in doomed)
    return ChangelogPlan(ids, ends[0].snapshot.id, steps.without(used), keeper.seen, keeper.usage)


def _is_own(named: Named, key: str, timeline: Timeline) -> bool:
    """Does a list go with the changelog? The index manifest went with the snapshot."""
    index = named.root.snapshot.index_manifest
    return index is None or key != timeline.paths.manifest(index)


def _gone(reach: Reach, named: Sequence[Named]) -> Gone:
    """The changelog files; and of changelogs without such, the files that their deltas delete."""
    plain = [n for n in named if n.root.snapshot.changelog_manifest_list is None]
    gone = gone_after(reach, plain)
    gone.complete = is_linear(n.root.snapshot for n in named)  # what a changelog lacks went with its snapshot
    add_changelog(reach, named, gone)
    return gone


@past_refusals()
def apply_changelogs(timeline: Timeline, plan: ChangelogPlan, progress: Progress | None = None) -> ChangelogPlan:
    """Carry out a plan, after raising the folder's EARLIEST and a second look at newer roots. Raises as `apply_expiry`."""
    if not plan.ids or plan.usage is None:
        return plan
    key = f"{timeline.paths.changelog_dir}EARLIEST"
    hinted = timeline.changelog_hint("EARLIEST")
    if hinted is None or hinted < plan.earliest_id:
        timeline.store.put(key, str(plan.earliest_id).encode())
    needed = min((reader.next_snapshot for reader in list_consumers(timeline)), default=plan.earliest_id)
    if needed < plan.earliest_id:
        timeline.store.put(key, str(plan.ids[0]).encode())
        raise CommitConflict(f"a consumer reads snapshot {needed} next, whose changelog was about to expire")
    steps = second_look(plan.steps, plan.seen, plan.usage, lambda root: _adds_only(timeline, plan, root))
    steps.delete(timeline.store, progress)
    return ChangelogPlan(plan.ids, plan.earliest_id, steps)


def _adds_only(timeline: Timeline, plan: ChangelogPlan, root: Root) -> bool:
    """Is a new root a commit, or the changelog of one, that cannot bring back a file?"""
    own = timeline.snapshot_id_of(root.key) is not None or root.key.startswith(timeline.paths.changelog_dir)
    return own and root.snapshot.id > plan.earliest_id and root.snapshot.commit_kind != "OVERWRITE"
