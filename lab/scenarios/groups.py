"""Scenarios of group commit: appends that lose a race and ride with the next winner.

Owns: those scenarios. Must not know: how they are explored. Source: decision 71.
"""

from __future__ import annotations

from typing import Any

from ..actors.jobs import Actor, foreign, recoverer, writer
from ..actors.maintainers import cleaner, expirer, foreign_cleaner
from ..world.stage import lab_schema
from .scenario import Scenario

GROUPED = lab_schema(**{"commit.group": "auto"})
BEFORE = (Actor("old", writer(1)),)
FAULTS = frozenset(
    {"crash before", "crash after", "answer lost", "cut", "lands late", "503 though applied", "misses the newest"}
)


def riders(count: int, budget: int, commits: int = 1, faults: frozenset[str] | None = FAULTS) -> Scenario:
    names = tuple(chr(ord("A") + n) for n in range(count))
    name = f"{count} riders, {budget} faults" + (f", {commits} commits each" if commits > 1 else "")
    actors = tuple(Actor(n, writer(commits, rides=True)) for n in names)
    return Scenario(name, actors, budget, before=BEFORE, faults=faults, alike=names, schema=GROUPED)


TWO = (Actor("old", writer(2)),)


def _loser(name: str = "A", **more: Any) -> Actor:
    """A writer that builds on the first of two snapshots, loses, and asks others to carry it."""
    return Actor(name, writer(rides=True, behind=True, **more))


def _first(name: str = "A", **more: Any) -> Actor:
    """A writer that knows of others, and asks them before it has lost to anybody."""
    return Actor(name, writer(rides=True, meets=True, **more))


def _carrier(name: str = "C", **more: Any) -> Actor:
    return Actor(name, writer(rides=True, meets=True, **more))


def ridden(
    budget: int, carriers: int = 1, strikes: str = "", faults: frozenset[str] | None = FAULTS, commits: int = 1
) -> Scenario:
    """A rider, and writers that may carry it. Faults may strike only the requests of the rider that `strikes` names."""
    names = ("C", "D", "E")[:carriers]
    actors = (_loser(), *(_carrier(name, commits=commits) for name in names))
    name = f"ridden, {carriers} carrier{'s' if carriers > 1 else ''}, {budget} faults"
    name += f", {commits} commits each" if commits > 1 else ""
    name += f" of {strikes}" if strikes else ""
    victims = frozenset("A") if strikes else None
    return Scenario(
        name, actors, budget, before=TWO, faults=faults, strikes=strikes, victims=victims, alike=names, schema=GROUPED
    )


ASKING = "create lakelatch/intents/"
LOOKING = "list snapshot/"


def dead_rider(
    *, recovers: bool = False, cleans: bool = False, resolves: bool = False, first: bool = False
) -> Scenario:
    """A rider dies or gives up after it has asked to be carried (`first`: before it has lost to anybody). Another
    carries it while it is recovered, its files are cleaned away, or it asks what became of it. A recovery publishes it
    if nobody carried it.
    """
    sweep = cleaner(lambda key: "-A1" in key or "00000001-0000" in key)
    others = (
        *((Actor("R", recoverer(), "recoverer", after=("A",)),) if recovers else ()),
        *((Actor("O", sweep, "cleaner", after=("A",)),) if cleans else ()),
    )
    rider = (_first if first else _loser)(journaled=recovers, resolves=resolves)
    carrier = Actor("C", writer(rides=True, meets=True), after=() if resolves else ("A",))
    done = " and ".join(
        w for w, is_so in (("recovered", recovers), ("cleaned", cleans), ("resolved", resolves)) if is_so
    )
    return Scenario(
        f"a rider {'that asked first ' if first else ''}is lost and {done}",
        (rider, carrier, *others),
        1,
        before=TWO,
        faults=frozenset({"403"}) if resolves else frozenset({"crash before", "crash after", "lands late"}),
        strikes=LOOKING if resolves else ASKING,
        victims=frozenset("A"),
        given=(("schema/schema-0", GROUPED.to_json()),),
        schema=GROUPED,
    )


def refused_rider(*, first: bool, budget: int = 1) -> Scenario:
    """The store refuses requests of a writer that asks to be carried, so that it does not know whether it is, and asks."""
    rider = _first("A", resolves=True) if first else _loser("A", resolves=True)
    return Scenario(
        f"a rider that {'asked first' if first else 'has lost'} is refused and resolved"
        + (f", {budget} faults" if budget > 1 else ""),
        (rider, _carrier()),
        budget,
        before=TWO,
        faults=FAULTS | {"403"},
        victims=frozenset("A"),
        given=(("schema/schema-0", GROUPED.to_json()),),
        schema=GROUPED,
    )


def twin_riders(budget: int, *, leads: bool = False) -> Scenario:
    """Two jobs with one identity ask to be carried; or one of them leads."""
    again = ("etl", 7)
    other = _carrier("T", identity=again) if leads else _loser("T", identity=again)
    actors = (_loser("A", identity=again), other, *(() if leads else (_carrier(),)))
    return Scenario(
        f"twins that ride{' and lead' if leads else ''}, {budget} faults",
        actors,
        budget,
        before=TWO,
        faults=FAULTS,
        schema=GROUPED,
        twins=(frozenset({"A1", "T1"}),),
    )


def gaps_that_ride(budget: int) -> Scenario:
    """A job carries another of its user, with another identifier; then one of them runs again."""
    actors = (
        _carrier("A", identity=("etl", 8)),
        _loser("B", identity=("etl", 6)),
        Actor("R", writer(identity=("etl", 6)), after=("A", "B")),
    )
    return Scenario(
        f"gaps that ride, {budget} faults",
        actors,
        budget,
        before=TWO,
        faults=FAULTS,
        strikes=ASKING,
        victims=frozenset("B"),
        schema=GROUPED,
        twins=(frozenset({"B1", "R1"}),),
    )


def restarted_rider(budget: int, strikes: str = "") -> Scenario:
    """A rider died, or got an unknown outcome, and its job runs again while its intent is open."""
    again = ("etl", 7)
    actors = (
        _loser("A", identity=again),
        _carrier(),
        Actor("R", writer(identity=again, rides=True), after=("A",)),
    )
    return Scenario(
        f"a rider runs again, {budget} faults" + (f" of {strikes}" if strikes else ""),
        actors,
        budget,
        before=TWO,
        faults=FAULTS,
        strikes=strikes,
        victims=frozenset("A"),
        schema=GROUPED,
        twins=(frozenset({"A1", "R1"}),),
    )


def recovered_rider(budget: int, *, carried: bool = True, asks: bool = False) -> Scenario:
    """A recovery takes over a slow rider, while another may carry it. `asks`: the rider asks what became of it."""
    others = (_carrier(),) if carried else ()
    actors = (_loser("A", journaled=True, resolves=asks), *others, Actor("R", recoverer(), "recoverer"))
    name = "a slow rider is recovered" + ("" if carried else " alone") + (" and asks" if asks else "")
    return Scenario(
        f"{name}, {budget} faults",
        actors,
        budget,
        before=TWO,
        faults=frozenset({"crash before", "crash after", "lands late"}),
        victims=frozenset("A"),
        given=(("schema/schema-0", GROUPED.to_json()),),
        schema=GROUPED,
        lands=frozenset(),
        interferes=True,
    )


def _dies(name: str, *others: Actor) -> Scenario:
    return Scenario(
        name,
        (_loser("A", journaled=True), *others),
        1,
        before=TWO,
        faults=frozenset({"crash before", "crash after"}),
        strikes=ASKING,
        victims=frozenset("A"),
        given=(("schema/schema-0", GROUPED.to_json()),),
        schema=GROUPED,
    )


def rider_recovered_twice() -> Scenario:
    """Two recoveries publish the manifests of a dead rider at once."""
    recoverers = (Actor(name, recoverer(), "recoverer", after=("A",)) for name in "RS")
    return _dies("a dead rider is recovered twice", *recoverers)


def rider_recovered_too_late() -> Scenario:
    """One recovery sleeps before it publishes a dead rider. Another, which carries nobody, takes both snapshots that the rider's
    intent is open for, and a second recovery reports what became of it.
    """
    return _dies(
        "a dead rider is recovered too late",
        Actor("W", writer(2), after=("A",)),
        Actor("S", recoverer(), "recoverer", after=("A", "W")),
        Actor("R", recoverer(), "recoverer", after=("A",), holds=("create snapshot/snapshot-3", ("W", "S"))),
    )


def rider_recovered_without_files() -> Scenario:
    """The orphan cleaner of another engine has deleted the data of a dead rider."""
    sweep = foreign_cleaner(lambda key: "-A1" in key)
    return _dies(
        "a dead rider is recovered without its files",
        Actor("O", sweep, "cleaner", after=("A",)),
        Actor("R", recoverer(), "recoverer", after=("A", "O")),
    )


def ridden_beside_foreign(budget: int) -> Scenario:
    """A plain writer of the format takes ids, and remembers no riders."""
    actors = (_loser(), _carrier(), Actor("F", foreign(overwrites_names=False), "locked"))
    return Scenario(
        f"ridden beside a foreign writer, {budget} faults",
        actors,
        budget,
        before=TWO,
        faults=FAULTS,
        victims=frozenset("A"),
        schema=GROUPED,
    )


def ridden_and_expired(budget: int, *, by_hand: bool = False) -> Scenario:
    """The snapshot that carries a rider, or those that do not, expire while it sleeps."""
    actors = (_loser(), _carrier(commits=3), Actor("X", expirer(), "expirer", after=("C",)))
    return Scenario(
        f"ridden and expired{' by hand' if by_hand else ''}, {budget} faults",
        actors,
        budget,
        before=TWO,
        faults=FAULTS,
        victims=frozenset("A"),
        schema=GROUPED,
        by_hand=by_hand,
    )
