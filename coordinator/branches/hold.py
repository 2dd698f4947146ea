"""Tags that keep the files which a branch shares with the one that it was made from, for as long as the branch is there.

Owns: `branch_tag`, `maker_of`, `hold_shared`, `inherited`, `release_shared`. Must not know: how a branch is made or deleted.
Source: decision 106. Invariant: when Apache Paimon expires snapshots, of main or of a branch, it asks the tags of main alone. A
snapshot that main and a branch have is tagged in both.
"""

from __future__ import annotations

import re
from contextlib import suppress
from hashlib import sha256

from ...backends.store import ObjectNotFound, Store
from ...core.errors import TableCorrupt
from ...core.paths import BRANCH_DIR, DEFAULT_BRANCH
from ..commit.checks.restored import hold_as
from ..history.timeline import Timeline
from .claim import Claim, claim_key, claim_of

_UNIQUE = 8


def branch_tag(snapshot_id: int, maker: str) -> str:
    """The name of a tag that keeps what a branch shares.

    >>> branch_tag(7, "ab12cd34ef56")
    'branch-7-ab12cd34'
    """
    return f"branch-{snapshot_id}-{maker[:_UNIQUE]}"


def is_branch_tag(name: str) -> bool:
    """Is a tag one of these?

    >>> is_branch_tag("branch-7-ab12cd34"), is_branch_tag("branch-7")
    (True, False)
    """
    return re.fullmatch(rf"branch-\d+-[0-9a-f]{{{_UNIQUE}}}", name) is not None


def maker_of(claim: Claim | None, name: str) -> str:
    """What identifies a branch, also after it is renamed; one that Apache Paimon made has no claim."""
    return claim.maker if claim is not None and claim.maker else sha256(name.encode()).hexdigest()


def hold_shared(source: Timeline, branch: Timeline) -> None:
    """Tag all snapshots that both have; calling it again does no harm. Raises StoreUnavailable if that may not have worked."""
    name = branch.paths.branch
    maker = maker_of(claim_of(branch.store, name), name)
    ids = sorted({*source.snapshot_ids()} & {*branch.snapshot_ids()})
    tags = source.tag_files().keys() & branch.tag_files().keys()

    def hold(number: int) -> None:
        held, other = source.find(number), branch.find(number)
        if held is not None and other is not None and held.identity == other.identity:
            for timeline in (source, branch):
                hold_as(timeline, held, branch_tag(number, maker))

    list(branch.parallel(hold, [number for number in ids if branch_tag(number, maker) not in tags]))


def inherited(store: Store, parent: str, maker: str) -> dict[str, bytes]:
    """The tags that a branch needs beside those of the branch that it is made from, which may be deleted before it."""
    if parent == DEFAULT_BRANCH:
        return {}
    mine, found = maker_of(claim_of(store, parent), parent), {}
    for key in _tags_of(store, mine):
        with suppress(ObjectNotFound):
            found[f"{key.rpartition('-')[0]}-{maker[:_UNIQUE]}"] = store.get(key)
    return found


def release_shared(store: Store, name: str, claim: Claim | None) -> None:
    """Delete a branch's tags in all others, unless it goes on under another name."""
    maker = maker_of(claim, name)
    for info in store.list(f"{BRANCH_DIR}/"):
        other = info.key.removeprefix(f"{BRANCH_DIR}/branch-").partition("/")[0]
        if other not in ("", name) and info.key == claim_key(other) and _may_be_of(store, other, maker):
            return
    tags = _tags_of(store, maker)
    if tags:
        store.delete_many(tags)


def _may_be_of(store: Store, name: str, maker: str) -> bool:
    try:
        return maker_of(claim_of(store, name), name) == maker
    except TableCorrupt:  # nobody knows
        return True


def _tags_of(store: Store, maker: str) -> list[str]:
    named = re.compile(rf"(?:{BRANCH_DIR}/branch-[^/]+/)?tag/tag-branch-\d+-{maker[:_UNIQUE]}")
    return [
        info.key for folder in ("tag/", f"{BRANCH_DIR}/") for info in store.list(folder) if named.fullmatch(info.key)
    ]
