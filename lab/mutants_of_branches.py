"""Planted bugs in fast-forward.

Owns: `BRANCHES`. Must not know: how scenarios are explored. Source: decision 55; H6.
"""

from __future__ import annotations

from typing import Any

from ..coordinator.branches import forward
from ..coordinator.branches.claim import Answer, create
from ..coordinator.history import lineage
from .branching import forwarding
from .planting import Mutant


def _taken_for_ours(*arguments: Any) -> Answer:
    """A name that another writer has taken is believed to hold the branch's snapshot."""
    answer = create(*arguments)
    return Answer.SAME if answer is Answer.OTHER else answer


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
)
