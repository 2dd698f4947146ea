"""Scenarios with writers only: races, lost answers, restarts, recoveries, a writer of plain format rules.

Owns: those scenarios, and helpers for the other scenarios. Must not know: how they are explored.
"""

from __future__ import annotations

from ..actors.jobs import Actor, foreign, recoverer, writer
from ..world.stage import lab_schema
from .scenario import Scenario

LATE = frozenset({"lands late", "answer lost", "cut", "503 though applied", "crash after"})
SCHEMA = (("schema/schema-0", lab_schema().to_json()),)
DISTINCT = frozenset(
    {"crash before", "crash after", "answer lost", "lands late", "503 though applied", "403", "misses the newest"}
)
"""One of each kind of faults that differ in wording only: three writers with all of them take too long for a daily run."""


def writers(count: int, budget: int, commits: int = 1, faults: frozenset[str] | None = None) -> Scenario:
    names = tuple(chr(ord("A") + n) for n in range(count))
    plural = "writer" if count == 1 else "writers"
    name = f"{count} {plural}, {budget} faults" + (f", {commits} commits each" if commits > 1 else "")
    return Scenario(name, tuple(Actor(n, writer(commits)) for n in names), budget, faults=faults, alike=names)


def restarted(budget: int) -> Scenario:
    """A job that died, or got an unknown outcome, runs again under its identity while another commits."""
    again = ("etl", 7)
    actors = (
        Actor("A", writer(identity=again)),
        Actor("B", writer()),
        Actor("R", writer(identity=again), after=("A",)),
    )
    return Scenario(
        f"restarted, {budget} faults", actors, budget, victims=frozenset("A"), twins=(frozenset({"A1", "R1"}),)
    )


def twins(budget: int) -> Scenario:
    actors = (Actor("A", writer(identity=("etl", 7))), Actor("B", writer(identity=("etl", 7))))
    return Scenario(f"twins, {budget} faults", actors, budget, alike=("A", "B"), twins=(frozenset({"A1", "B1"}),))


def gaps(budget: int) -> Scenario:
    """Jobs of one user, of which the one with the larger identifier may land first; then one of them runs again."""
    actors = (
        Actor("A", writer(identity=("etl", 8))),
        Actor("B", writer(identity=("etl", 6))),
        Actor("R", writer(identity=("etl", 6)), after=("B",)),
    )
    return Scenario(f"gaps, {budget} faults", actors, budget, victims=frozenset("B"), twins=(frozenset({"B1", "R1"}),))


def resolving(budget: int) -> Scenario:
    actors = (Actor("A", writer(resolves=True)), Actor("B", writer()))
    return Scenario(f"resolving, {budget} faults", actors, budget, faults=LATE, victims=frozenset("A"))


def recovered(budget: int) -> Scenario:
    """A writer dies or gets an unknown outcome. A recovery finishes its commit from its journal while another writer commits."""
    actors = (
        Actor("A", writer(journaled=True)),
        Actor("B", writer()),
        Actor("R", recoverer(), "recoverer", after=("A",)),
    )
    return Scenario(f"recovered, {budget} faults", actors, budget, faults=LATE, victims=frozenset("A"), given=SCHEMA)


def taken_over(budget: int) -> Scenario:
    """A recovery finishes a commit whose writer is merely slow."""
    actors = (Actor("A", writer(journaled=True)), Actor("B", writer()), Actor("R", recoverer(), "recoverer"))
    faults = frozenset({"403", "lands late"})
    return Scenario(f"taken over, {budget} faults", actors, budget, faults=faults, victims=frozenset("A"), given=SCHEMA)


def with_foreign(budget: int, *, locked: bool) -> Scenario:
    """A plain writer of the format beside lakelatch's: with a lock, or on a store where its rename overwrites."""
    actors = (Actor("A", writer()), Actor("F", foreign(overwrites_names=not locked), "locked" if locked else "foreign"))
    name = "foreign writer, locked" if locked else "foreign writer"
    return Scenario(f"{name}, {budget} faults", actors, budget, victims=frozenset("A"))


def silent(count: int, budget: int) -> Scenario:
    """The store creates the snapshot again and again without an answer."""
    names = tuple(chr(ord("A") + n) for n in range(count))
    actors = tuple(Actor(n, writer()) for n in names)
    faults = frozenset({"lands late", "cut"})
    return Scenario(
        f"silent store, {count} writers, {budget} faults", actors, budget, faults=faults, victims=frozenset("A")
    )


def history(length: int) -> tuple[Actor, ...]:
    return (Actor("old", writer(length)),)
