"""Deletes and renames branches.

Owns: `BranchDeletion`, `plan_deletion`, `apply_deletion`, `rename_branch`. Must not know: what a branch's snapshots reach: orphan
cleaning frees files that nothing names any more.
Source: format/snapshot §5. Invariants: what goes first is the schemas, so that nobody opens the branch and its writers learn of
it (H21); snapshots, tags and changelogs go last, then the tags that kept its files in other branches, and then the claim. A run
that was cut off is finished by the next. No other file outside of the branch's own folder is deleted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ...backends.elsewhere import delete_located
from ...backends.files.folders import remove_folders
from ...backends.requests.refusals import past_refusals
from ...backends.store import ObjectNotFound, Store
from ...core import options as opt
from ...core.errors import InvalidArgument, StoreUnavailable, TableExists
from ...core.html_text import ShownAsText
from ...core.metadata.schema import TableSchema
from ...core.paths import DEFAULT_BRANCH, TablePaths, safe_argument
from ..history.timeline import Timeline
from ..surroundings import MACHINE, Surroundings
from .claim import Answer, Claim, claim_key, claim_of, create
from .create import ensure_safe, take_name
from .hold import maker_of, release_shared
from .names import Branch, branch_root, branches_among, check_branch_name

BATCH = 1_000
_ROUNDS = 50
"""How often files that jobs bring meanwhile are deleted, too."""


@dataclass(frozen=True)
class BranchDeletion(ShownAsText):
    """The files that go with a branch. Its data files stay until orphan cleaning finds that nothing names them.

    Attributes:
        branch: what there is of it; None for the remains of a deletion or creation that was cut off.
        schemas, others, roots: keys, in the order of deletion; the claim is not among them.
    """

    name: str
    branch: Branch | None
    schemas: tuple[str, ...]
    others: tuple[str, ...]
    roots: tuple[str, ...]

    def __str__(self) -> str:
        told = f"what is left of branch '{self.name}'" if self.branch is None else str(self.branch)
        return f"{told}: {len(self.schemas) + len(self.others) + len(self.roots)} files of metadata"

    def to_dict(self) -> dict[str, Any]:
        """The plan with stable keys, ready for JSON."""
        return {
            "branch": self.name,
            "snapshot": None if self.branch is None else self.branch.snapshot_id,
            "files": [*self.schemas, *self.others, *self.roots],
        }


def plan_deletion(timeline: Timeline, schema: TableSchema, name: str) -> BranchDeletion:
    """Plan the deletion of a branch; `schema` is the newest of main. Changes nothing. Raises as `Table.delete_branch`."""
    if name == DEFAULT_BRANCH:
        raise InvalidArgument("branch 'main' is the table itself, and cannot be deleted")
    _refuse_named(schema, name, "deleted")
    plan = _remains(timeline.store, name)
    if plan is None:
        raise no_branch(timeline.store, name)
    return plan


@past_refusals()
def apply_deletion(timeline: Timeline, plan: BranchDeletion, around: Surroundings = MACHINE) -> BranchDeletion:
    """Delete a branch. If a run is cut off, or raises StoreUnavailable, run it again."""
    store, name = timeline.store, plan.name
    held = claim_of(store, name)
    mark = held or Claim(maker_of(None, name), DEFAULT_BRANCH, None, None, None, 0, around.wall_ms)
    store.put(claim_key(name), replace(mark, deleted=True).to_json())
    rest, refused = plan, set[str]()
    for _ in range(_ROUNDS):
        left = [[key for key in group if key not in refused] for group in (rest.schemas, rest.others, rest.roots)]
        if not any(left):
            break
        for group in left:
            for begin in range(0, len(group), BATCH):
                refused |= delete_located(store, group[begin : begin + BATCH])
        found = _remains(store, name)  # a job that wrote to the branch meanwhile
        if found is None:
            break
        rest = found
    else:
        raise StoreUnavailable(
            f"branch '{name}' of {store.url} is not deleted yet: jobs keep writing to it",
            next_step="stop these jobs, then run it again",
        )
    if refused.isdisjoint((*plan.roots, *rest.roots)):
        release_shared(store, name, held)
    if refused:  # the claim says that it is being deleted
        return plan
    store.delete_many([claim_key(name)])
    remove_folders(store, branch_root(name))  # one that stays would be a branch without a schema for Apache Paimon
    return plan


def _remains(store: Store, name: str) -> BranchDeletion | None:
    root, made = branch_root(name), TablePaths(name)
    listed = sorted(store.list(root), key=lambda info: info.key)
    if not listed:
        return None
    keys = [info.key for info in listed if info.key != claim_key(name)]
    schemas = tuple(key for key in keys if key.startswith(made.schema_dir))
    folders = (made.snapshot_dir + "snapshot-", made.tag_dir, made.changelog_dir + "changelog-")
    roots = tuple(key for key in keys if key.startswith(folders))
    others = tuple(key for key in keys if key not in {*schemas, *roots})
    return BranchDeletion(name, branches_among(listed).get(name), schemas, others, roots)


def rename_branch(
    timeline: Timeline, schema: TableSchema, name: str, new_name: str, around: Surroundings = MACHINE
) -> None:
    """Give a branch another name: its metadata is copied, then the old name goes. Data files do not move. A call that was cut
    off is finished by another one. `schema` is the newest of main. Raises as `Table.rename_branch`.
    """
    check_branch_name(new_name)
    if safe_argument(name, "branch") == DEFAULT_BRANCH:
        raise InvalidArgument("branch 'main' is the table itself, and cannot be renamed")
    _refuse_named(schema, name, "renamed")
    store = timeline.store
    old, new = TablePaths(name), TablePaths(new_name)
    branches = branches_among(store.list("branch/"))
    copied = claim_of(store, new_name) if new_name in branches else None
    begun = copied if copied is not None and copied.renamed == name else None
    if name not in branches:
        if begun is None:
            raise no_branch(store, name)
        _finish(timeline, name, begun, new_name, around)  # cut off while the old name was being deleted
        return
    if new_name in branches and begun is None:
        raise TableExists(f"{store.url} has a branch '{new_name}'", next_step="choose another name")
    source = Timeline(store, old)
    ids = tuple(source.schema_ids())
    ensure_safe(source, ids)
    was = claim_of(store, name) or Claim("", DEFAULT_BRANCH, None, None, None, ids[-1], 0)
    mark = replace(was, maker=maker_of(was, name), time_ms=around.wall_ms, renamed=name, deleted=False)
    if new_name not in branches:
        take_name(store, new_name, mark, around)
    _copy(store, old, new, around, schemas=False)
    _copy(store, old, new, around, schemas=True)
    store.delete_many([old.schema(0)])  # from now on a writer that looks is told that the branch is gone
    _copy(store, old, new, around, schemas=False)
    _finish(timeline, name, mark, new_name, around)


def _copy(store: Store, old: TablePaths, new: TablePaths, around: Surroundings, *, schemas: bool) -> None:
    """Copy the files of a branch that the new name lacks; schema 0 last."""
    keys = [info.key for info in store.list(old.root) if info.key != claim_key(old.branch)]
    chosen = sorted((key for key in keys if key.startswith(old.schema_dir) == schemas), reverse=schemas)
    there = {info.key for info in store.list(new.root)}
    for key in chosen:
        target = new.root + key[len(old.root) :]
        hint = target in (new.hint("LATEST"), new.hint("EARLIEST"))
        if target in there and not hint:
            continue
        try:
            data = store.get(key)
        except ObjectNotFound:  # expired meanwhile
            continue
        if hint:
            store.put(target, data)
        elif create(store, target, data, around) is Answer.OTHER:
            raise TableExists(
                f"{target} of {store.url} holds something else than {key}",
                next_step=f"another call is making branch '{new.branch}': choose another name",
            )


def _finish(timeline: Timeline, name: str, claim: Claim, new_name: str, around: Surroundings) -> None:
    rest = _remains(timeline.store, name)
    if rest is not None:
        apply_deletion(timeline, rest, around)
    timeline.store.put(claim_key(new_name), replace(claim, renamed=None).to_json())


def _refuse_named(schema: TableSchema, name: str, doing: str) -> None:
    for option in (opt.FALLBACK_BRANCH, opt.PRIMARY_BRANCH):
        if schema.options.get(option) == name:
            raise InvalidArgument(
                f"branch '{name}' cannot be {doing}: option '{option.key}' names it",
                next_step=f"remove the option first: table.alter(ll.remove_option('{option.key}'))",
            )


def no_branch(store: Store, name: str) -> InvalidArgument:
    names = sorted(branches_among(store.list("branch/")))
    there = f"branches are: {', '.join(names[:20])}" if names else "the table has no branches"
    return InvalidArgument(f"{store.url} has no branch {name!r}", next_step=there)
