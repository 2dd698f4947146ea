"""Plans a fast-forward: what the main branch takes over from another branch, or why it cannot.

Owns: `FastForward`, `plan_fast_forward`. Must not know: how it is carried out.
Source: format/snapshot §5; decision 55. Invariants: planning changes nothing. The branch must have been built on the newest
snapshot of the main branch; otherwise the plan is a conflict that names what main has besides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...core.errors import CommitConflict, InvalidArgument, TableCorrupt
from ...core.html_text import ShownAsText
from ...core.metadata.snapshot import Snapshot
from ...core.paths import DEFAULT_BRANCH, TablePaths
from ..history.timeline import Timeline, base_of, ref_of
from ..surroundings import MACHINE, Surroundings
from .claim import Claim, claim_of
from .remove import no_branch

_SHOWN = 5
HOLD = "fast-forward-"
"""The beginning of the names of tags in the branch that last as long as a fast-forward."""


@dataclass(frozen=True)
class FastForward(ShownAsText):
    """What the main branch takes over from another branch.

    Attributes:
        begin: the newest snapshot of the main branch; None for none.
        snapshot_ids, schema_ids, tags: those that it gets, ascending.
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
    """Plan a fast-forward. Changes nothing. Raises as `Table.fast_forward`."""
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
    if ids and _earliest(branch) > ids[0]:
        raise expired_in_branch(name, ids[0])
    schemas, (tags, left) = _new_schemas(main, branch, name), _new_tags(main, branch, name)
    return FastForward(name, newest, ids, schemas, tags, end.total_record_count, left)


def _new_ids(main: Timeline, branch: Timeline, name: str, newest: Snapshot | None, end: Snapshot) -> tuple[int, ...]:
    """The ids of the branch's snapshots above main's newest, if they were built on it; some may have expired."""
    if newest is None:
        return tuple(range(1, end.id + 1))
    above = tuple(range(newest.id + 1, end.id + 1))
    if _is(newest, branch.find(newest.id)):
        return above
    if _is(end, main.find(end.id)):
        return ()  # main has everything, and more
    if above and _follows(name, branch, newest):
        return above
    if _inherits(main, newest, branch, end):
        return ()  # main has taken it over before, and expired it since
    claim = claim_of(main.store, name)
    if _untouched(main, claim, newest, end):
        return ()
    raise _moved(main, branch, name, newest, claim)


def _untouched(main: Timeline, claim: Claim | None, newest: Snapshot, end: Snapshot) -> bool:
    """Is the branch's newest snapshot the one of main that it began with, which main has expired since?"""
    if claim is None or claim.source != DEFAULT_BRANCH or claim.identity != end.identity or end.id >= newest.id:
        return False
    return main.find(end.id) is None and end.id < min(main.snapshot_ids(), default=0)


def _follows(name: str, branch: Timeline, newest: Snapshot) -> bool:
    """Whether a branch was built on main's newest snapshot, though it no longer has that."""
    first = branch.find(newest.id + 1)
    base = base_of(first) if first is not None else None
    if base is not None:
        return base == ref_of(newest)
    claim = claim_of(branch.store, name)
    return claim is not None and claim.identity == newest.identity


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
    """The oldest snapshot that is there to stay: an expiry announces which go."""
    return max([branch.hint("EARLIEST") or 1, *branch.snapshot_ids()[:1]])


def expired_in_branch(name: str, first: int) -> InvalidArgument:
    return InvalidArgument(
        f"branch '{name}' cannot be fast-forwarded to: its snapshot {first} has expired, and main lacks it",
        next_step="overwrite main with the branch's rows; keep a branch's snapshots until then ('snapshot.time-retained')",
    )


def _moved(main: Timeline, branch: Timeline, name: str, newest: Snapshot, claim: Claim | None) -> CommitConflict:
    """Main has commits that the branch lacks: which; or it was taken back behind the snapshot that the branch began with."""
    begin = claim.snapshot if claim is not None and claim.source == DEFAULT_BRANCH else None
    rows = f"write the branch's rows to main with a commit of their own, overwrite(branch('{name}').to_arrow(), partition={{}})"
    if begin is not None and newest.id < begin:
        return CommitConflict(
            f"main was taken back to snapshot {newest.id} since branch '{name}' was made from its snapshot {begin}",
            next_step=f"{rows}, or make a new branch from main",
        )
    ids = main.snapshot_ids()
    pairs = zip(main.parallel(main.find, ids), branch.parallel(branch.find, ids), strict=True)
    own = [s for s, other in pairs if s is not None and not _is(s, other)]
    if begin is not None:
        own = [s for s in own if s.id > begin] or own  # all, where main was rolled back since
    told = ", ".join(f"{s.id} ({s.operation or s.commit_kind} by '{s.commit_user}')" for s in own[:_SHOWN])
    more = f" and {len(own) - _SHOWN} more" if len(own) > _SHOWN else ""
    before = ""
    if begin is not None and ids and ids[0] > begin + 1:
        before = f"; its snapshots {begin + 1} to {ids[0] - 1}, which came before, have expired"
    return CommitConflict(
        f"main has moved since branch '{name}' was made: it has snapshot {told}{more}, which the branch lacks{before}",
        next_step=f"{rows}, or make a new branch from main",
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


def _new_tags(main: Timeline, branch: Timeline, name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The tags that main lacks, and those that an earlier run has left in the branch; what both have must be the same."""
    have, want = main.both(main.tag_files, branch.tag_files)
    both = sorted(have.keys() & want.keys())
    held = main.parallel(lambda tag: (main.tag(tag), branch.tag(tag)), both)
    for tag, (one, other) in zip(both, held, strict=True):
        if one.identity != other.identity:
            raise CommitConflict(
                f"tag '{tag}' of main holds snapshot {one.id}, and that of branch '{name}' another snapshot {other.id}",
                next_step="rename or delete one of them",
            )
    left = tuple(sorted(tag for tag in want if tag.startswith(HOLD)))
    return tuple(sorted(want.keys() - have.keys() - set(left))), left
