"""The actor that reads a table's changes on and on, and what must hold for what it has read.

Owns: the role `follower`, the scenarios with it, and `misread`. Must not know: schedules, faults. Source: format/snapshot §4;
decision 61. Invariant: shipped code decides what comes after a position, and whether the history is still the one that was read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ...core.errors import LakelatchError
from ...table.following.ahead import window_after
from ...table.following.position import Position
from ..scenarios.scenario import Scenario
from ..scenarios.writers import history
from ..world.published import Published
from ..world.stage import Stage, Told
from .jobs import Actor, Role, writer
from .maintainers import expirer, rollback

READ = "read"


def follower(looks: int) -> Role:
    """Look for new changes so many times, and read all that there are, from the beginning on. An error ends it."""

    def role(stage: Stage) -> None:
        timeline, position = stage.timeline(), Position(0)
        for _ in range(looks):
            try:
                newest = timeline.latest()
                window = window_after(timeline, position, newest)
            except LakelatchError:
                return  # which its user is told
            for found in window.snapshots:
                position = Position.of(found)
                stage.tell(Told(stage.name, READ, f"{found.id} {found.identity}", None, ()))

    return role


def misread(told: Iterable[Told], published: Mapping[str, Published]) -> Iterator[str]:
    """What is wrong with what a follower has read: a gap, a snapshot twice, or one that was not built on the one before it."""
    last: dict[str, tuple[int, str]] = {}
    for line in told:
        if line.outcome != READ:
            continue
        number, _, identity = line.detail.partition(" ")
        before_id, before = last.get(line.commit, (0, ""))
        if int(number) != before_id + 1:
            yield f"{line.commit} read the changes of snapshot {number} after those of {before_id}"
        elif identity in published and published[identity].base != before:
            yield f"{line.commit} read snapshot {number}, which is not built on the snapshot {before_id} that it had read"
        last[line.commit] = int(number), identity


def followed_while_rolled_back(budget: int) -> Scenario:
    """A follower sleeps while the table is rolled back and other snapshots get the freed ids."""
    actors = (
        Actor("F", follower(2), "follower"),
        Actor("Z", rollback(1), "rollback"),
        Actor("A", writer(3), after=("Z",)),
    )
    return Scenario(
        f"followed while rolled back, {budget} faults", actors, budget, before=history(3), victims=frozenset("F")
    )


def followed_while_expiring(budget: int) -> Scenario:
    """A follower sleeps while others commit, and expire what it has still to read."""
    actors = (
        Actor("F", follower(2), "follower"),
        Actor("B", writer(2)),
        Actor("X", expirer(), "expirer", after=("B",)),
    )
    return Scenario(
        f"followed while expiring, {budget} faults", actors, budget, before=history(1), victims=frozenset("F")
    )
