"""Rollback: commits an earlier state as the next snapshot.

Owns: `RollbackPlan`, the request that a rollback commits, and the tag that protects the restored files. Must not know: how it
is committed. Source: format/commit §11; H6, H10.
Invariants: no snapshot is removed and no id is freed: for concurrent writers a rollback is one more overwrite. A state with
missing files is refused. A tag protects the restored files before they are checked, because Apache Paimon's expiry goes by the
snapshot that once deleted them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from ...backends.requests.refusals import raise_undone
from ...backends.store import AlreadyThere, ObjectNotFound, Unknown
from ...core.errors import InvalidArgument, LakelatchError, OutcomeUnknown, StoreUnavailable, TableCorrupt
from ...core.html_text import ShownAsText
from ...core.metadata.data_file import ADD, DELETE, DataFile, EntryIdentity, IndexEntry, ManifestEntry
from ...core.metadata.folding import fold, live
from ...core.metadata.schema import TableSchema
from ...core.metadata.snapshot import Snapshot, parse_snapshot
from ...core.places import FileKeys, is_external
from ..commit.checks.restored import PROTECTING_TAG, protecting_tag
from ..commit.request import Isolation, Remarks, Restoration
from ..history.announced import expires_below
from ..history.presence import sizes_of
from ..history.timeline import Timeline
from ..surroundings import MACHINE

ROLLED_BACK_TO = "rollback.snapshot"
"""Property of the snapshot that a rollback makes: the id of the snapshot whose state it restores."""
_SHOWN = 5


@dataclass(frozen=True)
class RollbackPlan(ShownAsText):
    """An earlier state as a change of the newest.

    Attributes:
        key: the snapshot or tag file that holds it.
        state, index: all files of the target, and all its index files.
        added, removed: the files that come back, and those that go.
    """

    target: Snapshot
    key: str
    latest: Snapshot
    state: tuple[ManifestEntry, ...]
    index: tuple[IndexEntry, ...]
    added: tuple[ManifestEntry, ...]
    removed: tuple[ManifestEntry, ...]

    def __str__(self) -> str:
        back, gone = ((len(e), sum(x.file.row_count for x in e)) for e in (self.added, self.removed))
        return (
            f"back to snapshot {self.target.id}, as snapshot {self.latest.id + 1}: {back[0]} files with {back[1]} rows come"
            f" back, {gone[0]} with {gone[1]} go"
        )

    def to_dict(self) -> dict[str, Any]:
        """The plan with stable keys, ready for JSON."""

        def told(files: list[DataFile]) -> dict[str, Any]:
            return {"files": [f.file_name for f in files], "rows": sum(f.row_count for f in files)}

        return {
            "snapshot": self.target.id,
            "latest": self.latest.id,
            "comes_back": told([e.file for e in self.added]),
            "goes": told([e.file for e in self.removed]),
        }

    def request(self, commit_user: str, identifier: int | None, isolation: Isolation, tag: str) -> Restoration:
        return Restoration(
            kind="OVERWRITE",
            entries=self.state,
            commit_user=commit_user,
            identifier=identifier,
            index_entries=self.index,
            target=lambda partition: True,
            read_snapshot=self.latest,
            isolation=isolation,
            remarks=Remarks("OVERWRITE", properties={ROLLED_BACK_TO: str(self.target.id), PROTECTING_TAG: tag}),
        )


def plan_rollback(timeline: Timeline, target: Snapshot, key: str) -> RollbackPlan:
    """Plan a rollback to `target`, which was read from the file `key`. Changes nothing. Raises InvalidArgument if it is the
    newest, TableCorrupt if its metadata is missing.
    """
    latest = timeline.latest()
    if latest is None or latest.identity == target.identity:
        raise InvalidArgument(f"snapshot {target.id} is the newest: there is nothing to roll back")
    wanted = {e.origin: e for e in live(timeline.entries(timeline.manifests(target)))}
    # The newest state may be what is wrong with the table: a DELETE that met no ADD is no reason not to leave it.
    have = {e.origin: e for e in fold(timeline.entries(timeline.manifests(latest))).values() if e.kind == ADD}
    added = tuple(e for origin, e in wanted.items() if origin not in have)
    removed = tuple(e for origin, e in have.items() if origin not in wanted)
    index = tuple(e for e in timeline.index_entries(target) if e.kind == ADD)
    return RollbackPlan(
        target=target, key=key, latest=latest, state=tuple(wanted.values()), index=index, added=added, removed=removed
    )


@contextmanager
def protected(
    timeline: Timeline, schema: TableSchema, plan: RollbackPlan | None, commit_user: str | None, identifier: int | None
) -> Iterator[str | None]:
    """The tags that protect what comes back, while a rollback or an undo is committed. Gives the name of the target's tag.

    They go again if the commit fails. A run that died leaves them; under an identity the next run finds and takes them over, so
    that it also leaves them where the store failed.
    """
    named = None if identifier is None else f"{commit_user}\n{identifier}"
    unique = MACHINE.new_uuid().hex if named is None else sha256(named.encode()).hexdigest()
    tags = protect(timeline, schema, plan, unique[:8]) if plan is not None else []
    try:
        yield tags[0] if tags else None
    except OutcomeUnknown:
        raise
    except LakelatchError as error:
        if named is None or not isinstance(error, StoreUnavailable):
            raise_undone(error, lambda: unprotect(timeline, tags))
        raise


def protect(timeline: Timeline, schema: TableSchema, plan: RollbackPlan, unique: str) -> list[str]:
    """Tag the target, and check that all of its files exist. Returns the tags, the target's first, which end with `unique`.

    Raises:
        InvalidArgument: an expiry is removing the target, or a tag of that name holds another snapshot.
        TableCorrupt: files are missing; nothing was changed.
    """
    held = [plan.target, *_states_before_later_deletions(timeline, plan)]
    tags = [protecting_tag(state.id, unique) for state in held]
    made: list[str] = []
    try:
        for tag, state in zip(tags, held, strict=True):
            answer = timeline.store.put_if_absent(timeline.paths.tag(tag), state.to_json())
            if isinstance(answer, AlreadyThere) and not answer.earlier_send:
                _refuse_another(timeline, tag, state)
                continue
            made.append(tag)
            if isinstance(answer, Unknown):
                raise StoreUnavailable(f"{timeline.paths.tag(tag)} may not have been written: {answer.reason}")
        _check_there(timeline, schema, plan)
    except Exception as error:
        raise_undone(error, lambda: unprotect(timeline, made))
    return tags


def _refuse_another(timeline: Timeline, tag: str, state: Snapshot) -> None:
    """A tag that is there already must be of an earlier run."""
    try:
        same = timeline.tag(tag).identity == state.identity
    except ObjectNotFound:  # deleted meanwhile
        same = False
    if not same:
        raise InvalidArgument(
            f"{timeline.paths.tag(tag)} holds another snapshot than {state.id}, which it is to protect",
            next_step="delete or rename that tag, or use another identity",
        )


def unprotect(timeline: Timeline, tags: Sequence[str]) -> None:
    timeline.store.delete_many(map(timeline.paths.tag, tags))


def _states_before_later_deletions(timeline: Timeline, plan: RollbackPlan) -> list[Snapshot]:
    """The states right before restored files were deleted a second time, after an earlier rollback. When a deletion expires,
    Apache Paimon keeps the file if the last tag before it holds the file. The target's tag covers only the first deletion.
    """
    between = timeline.parallel(timeline.find, range(plan.target.id, plan.latest.id + 1))
    states = [s for s in between if s is not None]
    deltas = timeline.parallel(lambda s: timeline.entries(timeline.delta_manifests(s)), states[1:])
    back, deleted, found = {e.origin for e in plan.added}, set[EntryIdentity](), []
    for before, delta in zip(states, deltas, strict=False):
        gone = back & {e.origin for e in delta if e.kind == DELETE}
        if gone & deleted:
            found.append(before)
        deleted |= gone
    return found


def _check_there(timeline: Timeline, schema: TableSchema, plan: RollbackPlan) -> None:
    """After the tag was written: an expiry that looked at the tags earlier has raised EARLIEST above the target (decision 10)."""
    try:
        still = parse_snapshot(timeline.store.get(plan.key), plan.key).identity == plan.target.identity
    except ObjectNotFound:
        still = False
    if plan.key == timeline.paths.snapshot(plan.target.id):
        still = still and expires_below(timeline) <= plan.target.id
    if not still:
        raise InvalidArgument(f"{plan.key} has expired, or is about to", next_step="choose a later snapshot, or a tag")
    keys = FileKeys(schema)
    wanted = [k for e in plan.added for k in keys.data(e)] + [keys.index(e) for e in plan.index]
    wanted = [key for key in dict.fromkeys(wanted) if not is_external(key)]
    there = sizes_of(timeline, wanted)
    gone = [key for key in wanted if key not in there]
    if gone:
        more = f" and {len(gone) - _SHOWN} more" if len(gone) > _SHOWN else ""
        raise TableCorrupt(
            f"snapshot {plan.target.id} cannot be restored, because its files are gone: {', '.join(gone[:_SHOWN])}{more}",
            next_step="choose another snapshot or tag; `lakelatch verify` shows which are intact",
        )
