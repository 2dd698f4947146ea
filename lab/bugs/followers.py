"""Planted bugs in reading changes on and on, alone, under a consumer, and from the checkpoint of a stream.

Owns: `FOLLOWERS`. Must not know: how scenarios are explored. Source: decisions 56, 61; H6, H18.
"""

from __future__ import annotations

from typing import Any

from ...coordinator.history.timeline import Timeline
from ...coordinator.maintenance.expiry import consumers, expire
from ...table.changelog.window import Window, window_of
from ...table.following import ahead, consumer, ranges
from ...table.following.position import Position
from ...table.following.reader import ChangeBatch, Follower
from ..actors.consuming import consumed_while_expiring, streamed
from ..actors.following import followed_while_expiring, followed_while_rolled_back
from .planting import Mutant


def _what_is_left(timeline: Timeline, start: int, end: int, *about: Any) -> Window:
    first = min(timeline.snapshot_ids(), default=1)
    return window_of(timeline, max(start, first - 1), max(end, first), *about)


def _unchecked(*about: Any) -> None:
    return None


def _no_consumers(timeline: Timeline) -> list[Any]:
    return []


def _taken_at_once(self: Follower) -> ChangeBatch:
    batch = next(self._batches)
    self._given = batch.position
    self._acknowledge(batch.position)
    return batch


_write_consumer = consumers.write_consumer


def _one_less(timeline: Timeline, name: str, next_snapshot: int) -> None:
    _write_consumer(timeline, name, max(1, next_snapshot - 1))


_between = ranges.Ranges.between


def _up_to_the_newest(self: ranges.Ranges, start: Any, end: Any) -> Any:
    return _between(self, start, end if start == end else Position.of(self._look()))


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
    Mutant(
        "an expiry that ignores consumers",
        lambda: [(expire, "list_consumers", _no_consumers)],
        (consumed_while_expiring(0),),
    ),
    Mutant(
        "a batch is taken before it was worked on",
        lambda: [(Follower, "__next__", _taken_at_once)],
        (consumed_while_expiring(1),),
    ),
    Mutant(
        "a consumer moves back",
        lambda: [(consumer, "write_consumer", _one_less)],
        (consumed_while_expiring(0),),
    ),
    Mutant(
        "a repeated batch has another end",
        lambda: [(ranges.Ranges, "between", _up_to_the_newest)],
        (streamed(1),),
    ),
)
