"""Describes a scenario: its actors, its table, and how many faults may strike.

Owns: `Scenario`. Must not know: how scenarios are explored, what actors do.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ...core.metadata.schema import TableSchema
from ..actors.jobs import Actor

LONGEST_PATH = 2_000


@dataclass(frozen=True)
class Scenario:
    """One small world.

    Attributes:
        faults, victims: the faults that may strike, and whom; None for all.
        strikes: prefix of the labels of the requests that they may strike.
        alike: writers that differ in their names only. They begin in this order.
        twins: commit labels that share one identity.
        lands: the actors whose commits must all be reported as *committed* if nothing failed. None means all writers,
            if every actor appends or compacts.
        hints: the order of writes to LATEST matters.
        given: objects that the store holds from the start.
        by_hand: clocks stand still while snapshots expire. Otherwise an actor under way has slept for an hour meanwhile.
        slow: prefix of the labels of requests that always take an hour.
        interferes: riders that are alive are taken over, and then report an unknown outcome although nothing failed.
        doomed: what must be gone in the end, by prefixes, together with all that nothing needs, apart from one object
            whose deletion is refused for ever: that is then a fault of each deletion. None: no such fault.
        longest: after this many steps, the path counts as endless.
    """

    name: str
    actors: tuple[Actor, ...]
    budget: int = 0
    before: tuple[Actor, ...] = ()
    faults: frozenset[str] | None = None
    victims: frozenset[str] | None = None
    strikes: str = ""
    alike: tuple[str, ...] = ()
    twins: tuple[frozenset[str], ...] = ()
    lands: frozenset[str] | None = None
    hints: bool = False
    schema: TableSchema | None = None
    given: tuple[tuple[str, bytes], ...] = ()
    by_hand: bool = False
    slow: tuple[str, ...] = ()
    interferes: bool = False
    doomed: tuple[str, ...] | None = None
    longest: int = LONGEST_PATH

    def has(self, *kinds: str) -> bool:
        return not self._kinds.isdisjoint(kinds)

    @cached_property
    def _kinds(self) -> frozenset[str]:
        return frozenset(actor.kind for actor in self.actors)

    @property
    def must_land(self) -> frozenset[str]:
        """The actors whose commits must all land. An append lands beside any change, but a compaction may give up."""
        if self.lands is not None:
            return self.lands
        calm = {actor.kind for actor in self.actors} <= {"writer", "compactor"} and not self.slow
        return frozenset(actor.name for actor in self.actors if actor.kind == "writer") if calm else frozenset()
