"""What a scenario is: who takes part, on which table, and how much may go wrong.

Owns: `Scenario`. Must not know: how scenarios are explored, what actors do.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..core.metadata.schema import TableSchema
from .actors import Actor

LONGEST_PATH = 2_000


@dataclass(frozen=True)
class Scenario:
    """One small world.

    Attributes:
        before: actors that have played, alone and without faults, before it begins.
        budget: how many faults strike at most.
        faults: which may strike, None for all; `victims`: whom, None for all; `strikes`: requests whose label begins so.
        alike: names of writers that differ in their name alone: they begin in this order.
        twins: commit labels that share one identity.
        lands: actors whose commits are all told *committed* where nothing failed; None for the rule: all writers, where
            everybody appends or compacts.
        hints: who writes LATEST when is part of the matter.
        given: objects that the store holds from the start.
        by_hand: clocks stand while snapshots expire; else whoever is under way has slept for an hour meanwhile.
        slow: requests whose label begins so take an hour, every time.
        longest: so many steps, and it goes on for ever.
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
    longest: int = LONGEST_PATH

    def has(self, *kinds: str) -> bool:
        return any(actor.kind in kinds for actor in self.actors)

    @property
    def must_land(self) -> frozenset[str]:
        """The actors whose commits all land: an append does, beside whatever; a compaction may give up."""
        if self.lands is not None:
            return self.lands
        calm = {actor.kind for actor in self.actors} <= {"writer", "compactor"} and not self.slow
        return frozenset(actor.name for actor in self.actors if actor.kind == "writer") if calm else frozenset()
