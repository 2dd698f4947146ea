"""Fast-forward: the main branch takes over what was committed to another branch.

Owns: `apply_fast_forward`. Must not know: rows.
Source: format/snapshot §2, §5; H2, H6, H7, H25. Invariants (decision 55): nothing of the main branch is deleted or replaced. The
branch's snapshots are created above the main branch's newest one, upwards, each with one atomic create and the same bytes, so
that at each moment the main branch is in a state that the branch had. A commit to the main branch that comes first is a conflict.
"""

from __future__ import annotations

import contextlib
from typing import Any

from ...backends.store import ObjectNotFound
from ...core.errors import CommitConflict, InvalidArgument, LakelatchError, OutcomeUnknown, StoreUnavailable
from ...core.metadata.snapshot import Snapshot, parse_snapshot
from ...core.paths import TablePaths
from ..history.announced import expires_below
from ..history.lineage import Fork, Standing, check_lineage, take_away
from ..history.timeline import Timeline, ref_of
from ..protocol.events import SnapshotPrepared
from ..protocol.snapshot_ref import SnapshotRef
from ..surroundings import MACHINE, Surroundings
from .claim import Answer, create
from .create import ensure_safe
from .forward_plan import HOLD, FastForward, expired_in_branch
from .hold import hold_shared


def apply_fast_forward(main: Timeline, plan: FastForward, around: Surroundings = MACHINE) -> FastForward:
    """Carry out a plan. If a run is cut off, plan and run it again. Raises as `Table.fast_forward`."""
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
    except CommitConflict:
        with contextlib.suppress(LakelatchError):
            hold_shared(main, branch)  # main may have a part
        _release(branch, plan)
        raise
    _hint(main, before.id)  # an earlier run may have been cut off before this
    for tag in plan.tags:
        try:
            create(store, main.paths.tag(tag), store.get(branch.paths.tag(tag)), around)
        except ObjectNotFound:  # deleted meanwhile
            continue
        except StoreUnavailable as error:
            raise _unsure(
                f"main has the branch's snapshots, but tag '{tag}' is missing: {error.message}", before
            ) from error
    try:
        hold_shared(main, branch)
    except StoreUnavailable as error:
        raise _unsure(
            f"main has the branch's snapshots, but no tag keeps their files: {error.message}", before
        ) from error
    _release(branch, plan)
    return plan


def _hold(branch: Timeline, plan: FastForward) -> dict[int, bytes]:
    """The branch's snapshots. Tags keep their files from an expiry of the branch until main has them (H10, decision 10)."""

    def read(snapshot_id: int) -> bytes:
        try:
            data = branch.store.get(branch.paths.snapshot(snapshot_id))
        except ObjectNotFound:
            raise expired_in_branch(plan.branch, snapshot_id) from None
        branch.store.put(branch.paths.tag(f"{HOLD}{snapshot_id}"), data)
        return data

    ids = plan.snapshot_ids
    if not ids:
        return {}
    try:
        found = dict(zip(ids, branch.parallel(read, ids), strict=True))
        if expires_below(branch) > ids[0]:  # it may have looked for tags before these were there
            raise expired_in_branch(plan.branch, ids[0])
    except InvalidArgument:
        _release(branch, plan)
        raise
    return found


def _release(branch: Timeline, plan: FastForward) -> None:
    """Delete these tags, and those of an earlier run; where the store fails, the next run does."""
    names = {*plan.held, *(f"{HOLD}{number}" for number in plan.snapshot_ids)}
    with contextlib.suppress(LakelatchError):
        branch.store.delete_many(map(branch.paths.tag, sorted(names)))


def _publish_all(main: Timeline, plan: FastForward, held: dict[int, bytes], around: Surroundings) -> Snapshot:
    before = plan.begin
    for snapshot_id in plan.snapshot_ids:
        try:
            before = _publish(main, plan, snapshot_id, held[snapshot_id], before, around)
        except StoreUnavailable as error:
            if before is None or before.id < plan.snapshot_ids[0]:
                raise
            told = f"main has the branch's snapshots {plan.snapshot_ids[0]} to {before.id}, but not {snapshot_id}"
            raise _unsure(f"{told}: {error.message}", before) from error
    assert before is not None  # an empty main gets at least one snapshot
    return before


def _publish(
    main: Timeline, plan: FastForward, snapshot_id: int, data: bytes, before: Snapshot | None, around: Surroundings
) -> Snapshot:
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
