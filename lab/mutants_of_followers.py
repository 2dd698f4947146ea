"""Planted bugs in reading changes on and on.

Owns: `FOLLOWERS`. Must not know: how scenarios are explored. Source: decision 61; H6, H18.
"""

from __future__ import annotations

from typing import Any

from ..coordinator.history.timeline import Timeline
from ..table.changelog.window import Window, window_of
from ..table.following import ahead
from .followers import followed_while_expiring, followed_while_rolled_back
from .planting import Mutant


def _what_is_left(timeline: Timeline, start: int, end: int, *about: Any) -> Window:
    """A range that has partly expired is shortened."""
    first = min(timeline.snapshot_ids(), default=1)
    return window_of(timeline, max(start, first - 1), max(end, first), *about)


def _unchecked(*about: Any) -> None:
    return None


FOLLOWERS: tuple[Mutant, ...] = (
    Mutant(
        "a position is known by its id alone",
        lambda: [(ahead, "_check_same", _unchecked), (ahead, "base_of", _unchecked)],
        (followed_while_rolled_back(0),),
    ),
    Mutant(
        "a follower reads on after a gap",
        lambda: [(ahead, "window_of", _what_is_left), (ahead, "base_of", _unchecked)],
        (followed_while_expiring(0),),
    ),
)
