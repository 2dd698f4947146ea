"""Fast-forward: the main branch takes over what was committed to another branch.

Owns: `FastForward`, `plan_fast_forward`, `apply_fast_forward`. Must not know: rows.
Source: format/snapshot §2, §5; H2, H6, H7, H25. Invariants (decision 55): nothing of the main branch is deleted or replaced. The
branch's snapshots are created above the main branch's newest one, upwards, each with one atomic create and the same bytes, so
that at each moment the main branch is in a state that the branch had. A commit to the main branch that comes first is a conflict.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from ...backends.store import ObjectNotFound
from ...core.errors import (
    CommitConflict,
    InvalidArgument,
    LakelatchError,
    OutcomeUnknown,
    StoreUnavailable,
    TableCorrupt,
)
from ...core.html_text import ShownAsText
from ...core.metadata.snapshot import Snapshot, parse_snapshot
from ...core.paths import DEFAULT_BRANCH, TablePaths
from ..history.lineage import Fork, Standing, check_lineage, take_away
from ..history.timeline import Timeline, base_of, ref_of
from ..protocol.events import SnapshotPrepared, SnapshotRef
from ..surroundings import MACHINE, Surroundings
from .claim import Answer, claim_of, create
from .create import ensure_safe
from .remove import no_branch

_SHOWN = 5
HOLD = "fast-forward-"
"""The beginning of the names of tags in the branch that last as long as a fast-forward."""


@dataclass(frozen=True)
class FastForward(ShownAsText):
    """What the main branch takes over from another branch.

    Attributes:
        branch: the name of the other branch.
        begin: the newest snapshot of the main branch; None for none.
        snapshot_ids: the snapshots that it gets, ascending.
        schema_ids: the schemas that it gets, ascending.
        tags: the tags that it gets.
        rows: the number of rows afterwards.
        held: tags in the branch that an earlier run has left.
    """

    branch: str
    begin: Snapshot | None
    snapshot_ids: tuple[int, ...]
    schema_ids: tuple[int, ...]
    tags: tuple[str, ...]
    rows: int
    held: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.snapshot_ids and not self.schema_ids and not self.tags:
            return f"branch '{self.branch}' has nothing that main lacks"
        ids = self.snapshot_ids
        which = (
            "no snapshot" if not ids else f"snapshot {ids[0]}" if len(ids) == 1 else f"snapshots {ids[0]} to {ids[-1]}"
        )
        more = f", {len(self.schema_ids)} schemas, {len(self.tags)} tags"
        return f"main gets {which} of branch '{self.branch}'{more}: {self.rows} rows"

    def to_dict(self) -> dict[str, Any]:
        """The plan with stable keys, ready for JSON."""
        return {
            "branch": self.branch,
            "from": 0 if self.begin is None else self.begin.id,
            "snapshots": list(self.snapshot_ids),
            "schemas": list(self.schema_ids),
            "tags": list(self.tags),
            "rows": self.rows,
        }


def plan_fast_forward(main: Timeline, name: str, around: Surroundings = MACHINE) -> FastForward:
    """Plan a fast-forward. Changes nothing.

    Raises:
        InvalidArgument: there is no such branch, or it has no snapshot, or not all of those that main lacks.
        CommitConflict: the main branch has commits, schemas or tags that the branch does not have.
    """
    if main.paths.branch != DEFAULT_BRANCH or name == DEFAULT_BRANCH:
        raise InvalidArgument(
            "only main can be fast-forwarded, to another branch", next_step="open the table without branch="
        )
    branch = Timeline(main.store, TablePaths(name, main.paths.data_directory), around.executor)
    if not branch.schema_ids():
        raise no_branch(main.store, name)
    newest, end = main.both(main.latest, branch.latest)
    if end is None:
        raise InvalidArgument(f"branch '{name}' has no snapshot, so there is nothing to fast-forward to")
    while (further := branch.find(end.id + 1)) is not None:  # a listing may lag behind
        end = further
    ids = _new_ids(main, branch, name, newest, end)
    begin = newest
    if ids and _earliest(branch) > ids[0]:
        raise _expired(name, ids[0])
    schemas, tags = _new_schemas(main, branch, name), _new_tags(main, branch, name)
    left = tuple(sorted(tag for tag in _tags(branch) if tag.startswith(HOLD)))
    return FastForward(name, begin, ids, schemas, tags, end.total_record_count, left)


def _new_ids(main: Timeline, branch: Timeline, name: str, newest: Snapshot | None, end: Snapshot) -> tuple[int, ...]:
    """The ids of the branch's snapshots above main's newest, if they were built on it."""
    begin = 0 if newest is None else newest.id
    if newest is not None and _is(newest, branch.find(newest.id)):
        return tuple(range(begin + 1, end.id + 1))
    if newest is not None and newest.id >= end.id and _is(end, main.find(end.id)):
        return ()  # main has everything, and more
    first = branch.find(begin + 1)
    if first is not None and _follows(name, branch, first, newest):
        return tuple(range(begin + 1, end.id + 1))
    if newest is not None and _inherits(main, newest, branch, end):
        return ()  # main has taken it over before, and expired it since
    claim = claim_of(main.store, name)
    forked = (
        claim is not None and newest is not None and (claim.snapshot, claim.identity) == (newest.id, newest.identity)
    )
    if forked or (newest is None and _earliest(branch) > 1):
        raise _expired(name, begin + 1)
    raise _moved(main, branch, name, newest)


def _follows(name: str, branch: Timeline, first: Snapshot, newest: Snapshot | None) -> bool:
    """Whether a branch's snapshot was built on main's newest, which the branch no longer has."""
    if newest is None:
        return first.id == 1 and base_of(first) is None
    if base_of(first) is not None:
        return base_of(first) == ref_of(newest)
    claim = claim_of(branch.store, name)
    return claim is not None and (claim.snapshot, claim.identity) == (newest.id, newest.identity)


def _inherits(main: Timeline, newest: Snapshot, branch: Timeline, end: Snapshot) -> bool:
    """Whether main's newest snapshot names a manifest that the branch's newest one added."""
    try:
        added, held = main.both(lambda: branch.delta_manifests(end), lambda: main.manifests(newest))
    except TableCorrupt:
        return False
    return not {m.file_name for m in added}.isdisjoint(m.file_name for m in held)


def _is(one: Snapshot, other: Snapshot | None) -> bool:
    return other is not None and one.identity == other.identity


def _earliest(branch: Timeline) -> int:
    ids = branch.snapshot_ids()
    return max(min(ids, default=1), branch.hint("EARLIEST") or 0)


def _expired(name: str, first: int) -> InvalidArgument:
    return InvalidArgument(
        f"branch '{name}' cannot be fast-forwarded to: its snapshot {first} has expired, and main lacks it",
        next_step="overwrite main with the branch's rows; keep a branch's snapshots until then ('snapshot.time-retained')",
    )


def _moved(main: Timeline, branch: Timeline, name: str, newest: Snapshot | None) -> CommitConflict:
    """Main has commits that the branch lacks: which."""
    ids = [i for i in main.snapshot_ids() if newest is None or i <= newest.id]
    pairs = zip(main.parallel(main.find, ids), branch.parallel(branch.find, ids), strict=True)
    own = [s for s, other in pairs if s is not None and not _is(s, other)]
    claim = claim_of(main.store, name)
    if claim is not None and claim.snapshot is not None and claim.source == DEFAULT_BRANCH:
        own = [s for s in own if s.id > claim.snapshot]
    told = ", ".join(f"{s.id} ({s.operation or s.commit_kind} by '{s.commit_user}')" for s in own[:_SHOWN])
    more = f" and {len(own) - _SHOWN} more" if len(own) > _SHOWN else ""
    return CommitConflict(
        f"main has moved since branch '{name}' was made: it has snapshot {told}{more}, which the branch lacks",
        next_step="write the branch's rows to main as a commit of its own, or make a new branch from main",
    )


def _new_schemas(main: Timeline, branch: Timeline, name: str) -> tuple[int, ...]:
    """The schemas that main lacks; those that both have must be the same."""
    have, want = main.both(main.schema_ids, branch.schema_ids)
    both = sorted(set(have) & set(want))

    def same(schema_id: int) -> bool:
        key = main.paths.schema(schema_id), branch.paths.schema(schema_id)
        return main.store.get(key[0]) == main.store.get(key[1])

    for schema_id, equal in zip(both, main.parallel(same, both), strict=True):
        if not equal:
            raise CommitConflict(
                f"main and branch '{name}' have different schemas {schema_id}: both were altered since the branch was made",
                next_step="write the branch's rows to main as a commit of its own, or make a new branch from main",
            )
    return tuple(i for i in want if i not in have)


def _new_tags(main: Timeline, branch: Timeline, name: str) -> tuple[str, ...]:
    """The tags that main lacks; those that both have must hold the same snapshot."""
    have, want = main.both(lambda: _tags(main), lambda: _tags(branch))
    both = sorted(have & want)
    held = main.parallel(lambda tag: (main.tag(tag), branch.tag(tag)), both)
    for tag, (one, other) in zip(both, held, strict=True):
        if one.identity != other.identity:
            raise CommitConflict(
                f"tag '{tag}' of main holds snapshot {one.id}, and that of branch '{name}' another snapshot {other.id}",
                next_step="rename or delete one of them",
            )
    return tuple(sorted(tag for tag in want - have if not tag.startswith(HOLD)))


def _tags(timeline: Timeline) -> set[str]:
    prefix = f"{timeline.paths.tag_dir}tag-"
    keys = (info.key for info in timeline.store.list(timeline.paths.tag_dir))
    return {key[len(prefix) :] for key in keys if key.startswith(prefix) and "/" not in key[len(prefix) :]}


# --------------------------------------------------------------------------------------------------------------- apply


def apply_fast_forward(main: Timeline, plan: FastForward, around: Surroundings = MACHINE) -> FastForward:
    """Carry out a plan. If a run is cut off, plan and run it again.

    Raises:
        CommitConflict: another commit to main came first. If part of the branch's snapshots landed before it, the error says so.
        StoreUnavailable: the store failed, and no snapshot came into main: run it again.
        OutcomeUnknown: it failed midway: run it again.
    """
    store = main.store
    branch = Timeline(store, TablePaths(plan.branch, main.paths.data_directory), around.executor)
    if plan.snapshot_ids or plan.schema_ids or plan.tags:
        ensure_safe(main, tuple(main.schema_ids()))
    for schema_id in plan.schema_ids:
        if (
            create(store, main.paths.schema(schema_id), store.get(branch.paths.schema(schema_id)), around)
            is Answer.OTHER
        ):
            raise CommitConflict(f"main was altered meanwhile: it has another schema {schema_id}")
    if plan.snapshot_ids:
        unhinted = main.look().unhinted
        if unhinted is not None:
            create(store, main.paths.hint("EARLIEST"), str(unhinted).encode(), around)
    held = _hold(branch, plan)
    try:
        before = _publish_all(main, plan, held, around)
    except (CommitConflict, InvalidArgument):
        _release(branch, plan)
        raise
    if before is not None:  # an earlier run may have been cut off before this
        _hint(main, before.id)
    for tag in plan.tags:
        try:
            create(store, main.paths.tag(tag), store.get(branch.paths.tag(tag)), around)
        except ObjectNotFound:  # deleted meanwhile
            continue
        except StoreUnavailable as error:
            if before is None:
                raise
            raise _unsure(
                f"main has the branch's snapshots, but tag '{tag}' is missing: {error.message}", before
            ) from error
    _release(branch, plan)
    return plan


def _hold(branch: Timeline, plan: FastForward) -> dict[int, bytes]:
    """The branch's snapshots. Tags keep their files from an expiry of the branch until main has them (H10, decision 10)."""

    def read(snapshot_id: int) -> bytes:
        try:
            data = branch.store.get(branch.paths.snapshot(snapshot_id))
        except ObjectNotFound:
            raise _expired(plan.branch, snapshot_id) from None
        branch.store.put(branch.paths.tag(f"{HOLD}{snapshot_id}"), data)
        return data

    ids = plan.snapshot_ids
    if not ids:
        return {}
    try:
        found = dict(zip(ids, branch.parallel(read, ids), strict=True))
        if (branch.hint("EARLIEST") or 0) > ids[0]:  # it may have looked for tags before these were there
            raise _expired(plan.branch, ids[0])
    except InvalidArgument:
        _release(branch, plan)
        raise
    return found


def _release(branch: Timeline, plan: FastForward) -> None:
    """Delete these tags, and those of an earlier run; where the store fails, the next run does."""
    names = {*plan.held, *(f"{HOLD}{number}" for number in plan.snapshot_ids)}
    with contextlib.suppress(LakelatchError):
        branch.store.delete_many(map(branch.paths.tag, sorted(names)))


def _publish_all(main: Timeline, plan: FastForward, held: dict[int, bytes], around: Surroundings) -> Snapshot | None:
    """Create the snapshots in main, upwards. Returns main's newest one."""
    before = plan.begin
    for snapshot_id in plan.snapshot_ids:
        try:
            before = _publish(main, plan, snapshot_id, held[snapshot_id], before, around)
        except StoreUnavailable as error:
            if before is None or before.id < plan.snapshot_ids[0]:
                raise
            told = f"main has the branch's snapshots {plan.snapshot_ids[0]} to {before.id}, but not {snapshot_id}"
            raise _unsure(f"{told}: {error.message}", before) from error
    return before


def _publish(
    main: Timeline, plan: FastForward, snapshot_id: int, data: bytes, before: Snapshot | None, around: Surroundings
) -> Snapshot:
    """Create one snapshot of the branch in main, above `before`."""
    key = main.paths.snapshot(snapshot_id)
    snapshot = parse_snapshot(data, key)
    landed = snapshot_id - plan.snapshot_ids[0]
    told = f"; {landed} of the branch's {len(plan.snapshot_ids)} snapshots are in main" if landed else ""
    answer = create(main.store, key, data, around)
    if answer is Answer.OTHER:
        winner = main.find(snapshot_id)
        who = "" if winner is None else f" ('{winner.commit_user}')"
        raise CommitConflict(f"another writer{who} committed snapshot {snapshot_id} to main meanwhile{told}")
    tried = SnapshotPrepared(SnapshotRef(snapshot.id, snapshot.identity), ref_of(before), data.decode())
    lineage = check_lineage(main, tried)
    if isinstance(lineage, Standing):
        return snapshot
    if isinstance(lineage, Fork):
        left = take_away(main, tried) if answer is Answer.CREATED else None
        raise CommitConflict(f"main has moved meanwhile: {lineage.reason}{told}" + (f"; {left}" if left else ""))
    raise _unsure(
        f"snapshot {snapshot_id} was created in main, but is not known to stay: {lineage.reason}{told}", snapshot
    )


def _unsure(message: str, snapshot: Snapshot) -> OutcomeUnknown[Any]:
    identity = {"snapshot_id": snapshot.id, "snapshot_uuid": snapshot.uuid}
    return OutcomeUnknown(
        message, identity=identity, next_step="run the fast-forward again: it finishes what was begun"
    )


def _hint(main: Timeline, snapshot_id: int) -> None:
    """Write LATEST, best effort (H7)."""
    try:
        if (main.hint("LATEST") or 0) < snapshot_id:
            main.store.put(main.paths.hint("LATEST"), str(snapshot_id).encode())
    except LakelatchError:
        pass
