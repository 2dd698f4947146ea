"""Planted bugs in branches: made, deleted, fast-forwarded.

Owns: `BRANCHES`. Must not know: how scenarios are explored. Source: decision 55; H6, H10.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...backends.store import ObjectInfo
from ...coordinator.branches import create as creation
from ...coordinator.branches import forward
from ...coordinator.branches.claim import Answer, Claim, create
from ...coordinator.history import lineage
from ...coordinator.history.timeline import Timeline
from ...coordinator.maintenance import deletion
from ...coordinator.maintenance.expiry import expired_files
from ...coordinator.maintenance.expiry.expired_files import Keeper
from ...coordinator.maintenance.reach.roots import list_roots
from ..actors.branching import branched_again, branched_while_expiring, forwarding
from .planting import Mutant


def _taken_for_ours(*arguments: Any) -> Answer:
    answer = create(*arguments)
    return Answer.SAME if answer is Answer.OTHER else answer


_KEPT, _SAME_WORK = Keeper.kept, Claim.same_work


def _all_listed(self: Keeper, doomed: frozenset[ObjectInfo], *about: Any) -> set[str]:
    listed = list_roots(self.reach.timeline)
    used = _KEPT(self, doomed, *about)
    self.seen |= frozenset(listed)
    return used


def _untagged(timeline: Timeline) -> Any:
    """The roots of a table whose branches were made by an engine that keeps no tags for them."""
    return [info for info in list_roots(timeline) if "tag/tag-branch-" not in info.key]


def _same_although_deleted(self: Claim, other: Claim) -> bool:
    return _SAME_WORK(replace(self, deleted=False), other)


BRANCHES: tuple[Mutant, ...] = (
    Mutant(
        "a fast-forward onto a name that expiry freed",
        lambda: [(forward, "check_lineage", lambda *arguments, **named: lineage.Standing())],
        (forwarding(0, expires=True, by_hand=True),),
    ),
    Mutant(
        "a fast-forward takes another's snapshot for its own",
        lambda: [(forward, "create", _taken_for_ours)],
        (forwarding(0),),
    ),
    Mutant(
        "a branch without a second look",
        lambda: [(creation, "_check_source", lambda *about: None)],
        (branched_while_expiring(0),),
    ),
    Mutant(
        "a branch with one look at what expires",
        lambda: [(creation, "expires_below", lambda timeline: timeline.hint("EARLIEST") or 0)],
        (branched_while_expiring(1, strikes="read snapshot/EARLIEST"),),
    ),
    Mutant(
        "a deletion is taken for a creation",
        lambda: [(Claim, "same_work", _same_although_deleted)],
        (branched_again(0, expires=False),),
    ),
    Mutant(
        "a root that comes again is not asked",
        lambda: [
            (Keeper, "kept", _all_listed),
            *((room, "list_roots", _untagged) for room in (expired_files, deletion)),
        ],
        (branched_again(0, expires=True, overlap=False),),
    ),
)
