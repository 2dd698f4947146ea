"""Carries out the steps of a repair.

Owns: `apply_repair`. Must not know: which steps are needed. Source: H5, H6, H16; decision 63.
Invariants: what a step deletes is copied to `lakelatch/repaired/` first, and is deleted only if it is still what was planned.
Nothing outside the table's folder is touched. Each step can be repeated, so a run that was cut off is planned and run again.
Data files leave or enter the table by an ordinary commit, which keeps what others commit meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...backends.store import Created, ObjectNotFound, Store
from ...coordinator.commit.checks.restored import hold
from ...coordinator.commit.committer import Committer, new_commit_user
from ...coordinator.commit.request import Remarks, Restoration
from ...coordinator.history.announced import expires_below
from ...coordinator.history.timeline import Timeline
from ...coordinator.surroundings import MACHINE
from ...core.errors import CommitConflict, StoreUnavailable
from ...core.metadata.data_file import ADD
from ...core.metadata.folding import fold
from ...core.paths import TablePaths
from .steps import RepairPlan, Step
from .survey import digest

ASIDE = "lakelatch/repaired/"
"""Where the files are copied that a repair deletes, under their own keys. Orphan cleaning does not look there."""


def apply_repair(store: Store, branch: str, plan: RepairPlan, *, accept_loss: bool = False) -> tuple[Step, ...]:
    """Carry out a plan, and return the steps that were carried out; with `accept_loss`, also those that give something up.

    `CommitConflict`: the table changed since the plan was made; `StoreUnavailable`: the store failed midway. Then plan again.
    """
    steps = plan.allowed(accept_loss)
    timeline = Timeline(store, TablePaths(branch))
    if steps and max(timeline.snapshot_ids(), default=0) != plan.newest_id:
        raise CommitConflict("the table got another snapshot since the repair was planned")
    for step in steps:
        if step.entries:
            _commit(timeline, step)
        elif step.kind == "reword":
            _reword(timeline, step)
        else:
            _mend(store, step)
    return steps


def _reword(timeline: Timeline, step: Step) -> None:
    """Write a snapshot, tag or changelog anew in its place, under the same identity: readers see the one or the other.

    A snapshot or changelog may expire meanwhile, and must not be there again.
    """
    aside = f"{ASIDE}{MACHINE.wall_ms}/"
    for (key, planned), (_, data) in zip(step.deletes, step.puts, strict=True):
        held = _checked(timeline.store, key, planned)
        if held is None:
            continue
        timeline.store.put(aside + key, held)
        timeline.store.put(key, data)
        number = timeline.snapshot_id_of(key)
        expired = number is not None and expires_below(timeline) > number
        folder, _, name = key.rpartition("changelog-")
        if folder == timeline.paths.changelog_dir:
            expired = (timeline.changelog_hint("EARLIEST") or 0) > int(name)
        if expired:
            timeline.store.delete_many([key])


def _mend(store: Store, step: Step) -> None:
    """Tags before hints, hints before deletions; but what is damaged goes before it is written again."""
    aside = f"{ASIDE}{MACHINE.wall_ms}/"
    held = {key: _checked(store, key, planned) for key, planned in step.deletes}
    for key, data in held.items():
        if data is not None:
            store.put(aside + key, data)
    doomed = [key for key, data in held.items() if data is not None]
    if step.kind == "restore":
        store.delete_many(doomed)
        doomed = []
    for key, data in step.creates:
        _create(store, key, data)
    for key, data in step.puts:
        store.put(key, data)
    for key in doomed:  # one by one and in order, so that the history has no gap if this is cut off
        store.delete_many([key])


def _checked(store: Store, key: str, planned: str) -> bytes | None:
    try:
        data = store.get(key)
    except ObjectNotFound:
        return None
    if digest(data) != planned:
        raise CommitConflict(f"{key} has changed since the repair was planned")
    return data


def _create(store: Store, key: str, data: bytes) -> None:
    answer = store.put_if_absent(key, data)
    try:
        if isinstance(answer, Created) or store.get(key) == data:
            return
    except ObjectNotFound:
        raise StoreUnavailable(f"{key} was not created", next_step="run the repair again") from None
    raise CommitConflict(f"{key} holds something else than the repair has planned")


def _commit(timeline: Timeline, step: Step) -> None:
    """Take files out of the newest state, or bring files back, with a commit forward."""
    schema, first_schema = timeline.opened()
    latest = timeline.latest()
    if latest is None:
        return
    state = {i: e for i, e in fold(timeline.entries(timeline.manifests(latest))).items() if e.kind == ADD}
    before = set(state)
    if step.kind == "drop":
        gone = {e.identity for e in step.entries}
        state = {i: e for i, e in state.items() if i not in gone}
    elif step.kind == "bring_back":
        state.update((e.identity, e) for e in step.entries if e.identity not in state)
    if before == set(state) and step.kind != "rewrite":  # an earlier run did it
        return
    said = {"drop": "repair.rows-lost", "bring_back": "repair.rows-back"}.get(step.kind)
    told = {said: str(sum(part.rows for part in step.lost)), "repair.files": _names(step)} if said else {}
    request = Restoration(
        kind="OVERWRITE",
        entries=tuple(state.values()),
        index_entries=tuple(e for e in timeline.index_entries(latest) if e.kind == ADD),
        commit_user=new_commit_user(schema),
        target=lambda partition: True,
        read_snapshot=latest,
        remarks=Remarks("OVERWRITE", properties=told or {"repair.manifests": "rewritten"}),
    )
    committer = Committer(timeline.store, timeline.paths, schema, first_schema=first_schema)
    receipt = committer.commit(request)
    if step.kind == "bring_back":
        hold(timeline, timeline.snapshot(receipt.snapshot_id), MACHINE.new_uuid().hex[:8])
    committer.settle()


def _names(step: Step) -> str:
    names: Sequence[str] = [name for part in step.lost for name in part.files]
    return ",".join(names[:20]) + (f",… {len(names) - 20} more" if len(names) > 20 else "")
