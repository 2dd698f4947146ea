"""The scenarios that are explored: small worlds, each made to provoke one kind of trouble.

Owns: their list, for every day and for the night. Must not know: how they are explored.
Invariant: a scenario that is in `DAILY` is exhausted within its budget; the nightly ones say how far they came.
"""

from __future__ import annotations

from .actors import Actor, cleaner, compactor, expirer, foreign, recoverer, restorer, rollback, writer
from .explorer import Scenario
from .stage import lab_schema

_LATE = frozenset({"lands late", "answer lost", "cut", "503 though applied", "crash after"})
_EARLIEST = (("snapshot/EARLIEST", b"1"),)
_SCHEMA = (("schema/schema-0", lab_schema().to_json()),)
_DISTINCT = frozenset(
    {"crash before", "crash after", "answer lost", "lands late", "503 though applied", "403", "misses the newest"}
)
"""One of each kind of faults that differ in words only: what three writers have time for by day."""
_NAP = frozenset({"an hour passes"})


def writers(count: int, budget: int, commits: int = 1, faults: frozenset[str] | None = None) -> Scenario:
    """So many writers that differ in their name alone, and every fault (or some)."""
    names = tuple(chr(ord("A") + n) for n in range(count))
    plural = "writer" if count == 1 else "writers"
    name = f"{count} {plural}, {budget} faults" + (f", {commits} commits each" if commits > 1 else "")
    return Scenario(name, tuple(Actor(n, writer(commits)) for n in names), budget, faults=faults, alike=names)


def history(length: int) -> tuple[Actor, ...]:
    """A table that has so many snapshots already."""
    return (Actor("old", writer(length)),)


def restarted(budget: int) -> Scenario:
    """A job that died, or was told unknown, runs again under its identity while another commits."""
    again = ("etl", 7)
    actors = (
        Actor("A", writer(identity=again)),
        Actor("B", writer()),
        Actor("R", writer(identity=again), after="A"),
    )
    return Scenario(
        f"restarted, {budget} faults", actors, budget, victims=frozenset("A"), twins=(frozenset({"A1", "R1"}),)
    )


def twins(budget: int) -> Scenario:
    """Two jobs with one identity at the same time."""
    actors = (Actor("A", writer(identity=("etl", 7))), Actor("B", writer(identity=("etl", 7))))
    return Scenario(f"twins, {budget} faults", actors, budget, alike=("A", "B"), twins=(frozenset({"A1", "B1"}),))


def resolving(budget: int) -> Scenario:
    """A writer that asks again where it was told unknown."""
    actors = (Actor("A", writer(resolves=True)), Actor("B", writer()))
    return Scenario(f"resolving, {budget} faults", actors, budget, faults=_LATE, victims=frozenset("A"))


def recovered(budget: int) -> Scenario:
    """A writer dies, or is told unknown; somebody else finishes its commit from its journal, while another commits."""
    actors = (Actor("A", writer(journaled=True)), Actor("B", writer()), Actor("R", recoverer(), "recoverer", after="A"))
    return Scenario(f"recovered, {budget} faults", actors, budget, faults=_LATE, victims=frozenset("A"), given=_SCHEMA)


def taken_over(budget: int) -> Scenario:
    """Somebody finishes a commit whose writer is merely slow."""
    actors = (Actor("A", writer(journaled=True)), Actor("B", writer()), Actor("R", recoverer(), "recoverer"))
    faults = frozenset({"403", "lands late"})
    return Scenario(
        f"taken over, {budget} faults", actors, budget, faults=faults, victims=frozenset("A"), given=_SCHEMA
    )


def expired(budget: int, commits: int = 2) -> Scenario:
    """Others commit and expire under a writer that sleeps."""
    actors = (Actor("A", writer()), Actor("B", writer(commits)), Actor("X", expirer(), "expirer", after="B"))
    return Scenario(f"expired, {budget} faults", actors, budget, before=history(2), victims=frozenset("A"))


def rolled_back(budget: int) -> Scenario:
    """The format's own rollback under a writer: what stands on freed ids is no part of what readers see.

    Once the gap is filled again, a fork above it looks like history to everybody: such a rollback must not run while others
    write (decision 4).
    """
    actors = (Actor("A", writer()), Actor("Z", rollback(1), "rollback"))
    return Scenario(
        f"rolled back, {budget} faults", actors, budget, before=history(3), victims=frozenset("A"), given=_EARLIEST
    )


def with_foreign(budget: int, *, locked: bool) -> Scenario:
    """A writer by plain rules beside ours: with a lock, or on a store where its rename overwrites."""
    actors = (Actor("A", writer()), Actor("F", foreign(overwrites_names=not locked), "locked" if locked else "foreign"))
    name = "foreign writer, locked" if locked else "foreign writer"
    return Scenario(f"{name}, {budget} faults", actors, budget, victims=frozenset("A"))


def overwriting(budget: int) -> Scenario:
    """Two jobs replace the whole table."""
    actors = (Actor("A", writer(overwrites=True)), Actor("B", writer(overwrites=True)))
    return Scenario(
        f"overwriting, {budget} faults",
        actors,
        budget,
        before=history(1),
        alike=("A", "B"),
        overwrites=True,
        # Who reads by a listing that lags behind may not have seen them: then they stay, as appended meanwhile.
        replaced=() if budget else (("A1", "old1"), ("B1", "old1")),
    )


def compacting(budget: int) -> Scenario:
    """Two compactions of the same files, beside a writer."""
    actors = (Actor("A", writer()), Actor("C", compactor(), "compactor"), Actor("D", compactor(), "compactor"))
    return Scenario(f"compacting, {budget} faults", actors, budget, before=history(2), alike=("C", "D"))


def compacting_beside_overwrite(budget: int) -> Scenario:
    """A compaction beside a writer, and beside one that replaces what it reads."""
    actors = (
        Actor("A", writer()),
        Actor("C", compactor(), "compactor"),
        Actor("O", writer(overwrites=True)),
    )
    return Scenario(
        f"compacting beside an overwrite, {budget} faults",
        actors,
        budget,
        before=history(1),
        victims=frozenset("C"),
        overwrites=True,
        replaced=(("O1", "old1"),),
    )


def merging(budget: int) -> Scenario:
    """Manifests are due to be merged: by every writer at once."""
    schema = lab_schema(**{"manifest.merge-min-count": "2"})
    actors = (Actor("A", writer()), Actor("B", writer()))
    return Scenario(
        f"merging, {budget} faults", actors, budget, before=history(3), schema=schema, victims=frozenset("A")
    )


def slept(budget: int = 1) -> Scenario:
    """A writer that sleeps for an hour, anywhere."""
    actors = (Actor("A", writer()), Actor("B", writer(2)))
    return Scenario(f"slept, {budget} naps", actors, budget, faults=_NAP, victims=frozenset("A"), hints=True)


def silent(count: int, budget: int) -> Scenario:
    """The store takes the snapshot again and again without an answer."""
    names = tuple(chr(ord("A") + n) for n in range(count))
    actors = tuple(Actor(n, writer()) for n in names)
    faults = frozenset({"lands late", "cut"})
    return Scenario(
        f"silent store, {count} writers, {budget} faults", actors, budget, faults=faults, victims=frozenset("A")
    )


def crowded(budget: int) -> Scenario:
    """Three writers who may need three attempts each, and an expirer that keeps the newest snapshot alone."""
    names = ("A", "B", "C")
    actors = (*(Actor(n, writer()) for n in names), Actor("X", expirer(), "expirer"))
    return Scenario(f"crowded, {budget} faults", actors, budget, before=history(2), alike=names)


def hinted() -> Scenario:
    """Every hint lies."""
    faults = frozenset({"garbage", "stale low", "stale high", "gone"})
    return Scenario("lying hints", (Actor("A", writer(2)), Actor("B", writer())), 1, before=history(2), faults=faults)


def forked_identity() -> Scenario:
    """A job dies on a freed name; run again under its identity, it must not take the fork for its commit."""
    actors = (
        Actor("A", writer(identity=("etl", 7))),
        Actor("B", writer(2)),
        Actor("X", expirer(), "expirer", after="B"),
        Actor("R", writer(identity=("etl", 7)), after="A"),
    )
    twins_of = (frozenset({"A1", "R1"}),)
    died = frozenset({"crash after"})
    return Scenario(
        "identity on a fork", actors, 1, before=history(2), faults=died, victims=frozenset("A"), twins=twins_of
    )


def restored(budget: int) -> Scenario:
    """Our own rollback beside a writer: files that an overwrite had deleted come back."""
    before = (*history(1), Actor("over", writer(overwrites=True)))
    actors = (Actor("A", writer()), Actor("R", restorer(1), "restorer"))
    return Scenario(
        f"restored, {budget} faults", actors, budget, before=before, victims=frozenset("R"), overwrites=True
    )


def restored_while_expiring(budget: int) -> Scenario:
    """Our own rollback to a snapshot that our own expiry takes away."""
    before = (*history(1), Actor("over", writer(overwrites=True)))
    actors = (Actor("R", restorer(1), "restorer"), Actor("X", expirer(), "expirer"))
    return Scenario(f"restored while expiring, {budget} faults", actors, budget, before=before, overwrites=True)


def cleaned(budget: int) -> Scenario:
    """Orphan cleaning, twice, beside a writer: what is younger than a day is left alone."""
    sweep = cleaner(lambda key: "old" in key)
    actors = (Actor("A", writer()), Actor("B", writer()), Actor("O", sweep, "cleaner"))
    given = (("manifest/manifest-old-0", b"an orphan"),)
    return Scenario(f"cleaned, {budget} faults", actors, budget, given=given, alike=("A", "B"))


DAILY: tuple[Scenario, ...] = (
    writers(2, 2),
    writers(3, 1, faults=_DISTINCT),
    restarted(1),
    twins(1),
    resolving(2),
    recovered(1),
    taken_over(0),
    silent(2, 3),
    hinted(),
    expired(0),
    forked_identity(),
    rolled_back(1),
    with_foreign(1, locked=True),
    with_foreign(0, locked=False),
    overwriting(0),
    overwriting(1),
    compacting(0),
    compacting_beside_overwrite(0),
    merging(1),
    slept(),
    cleaned(0),
    restored(1),
    restored_while_expiring(0),
)

NIGHTLY: tuple[Scenario, ...] = (
    recovered(2),
    taken_over(1),
    crowded(2),
    writers(3, 2),
    writers(3, 2, commits=3),
    writers(3, 1),
    writers(4, 0),
    writers(2, 3),
    restarted(2),
    twins(2),
    expired(2, commits=3),
    rolled_back(2),
    overwriting(2),
    compacting(1),
    compacting_beside_overwrite(1),
    merging(2),
)
