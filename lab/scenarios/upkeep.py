"""Scenarios in which history is removed or hints are wrong: expiry, rollbacks, orphan cleaning, sleep, forgotten identities.

Owns: those scenarios. Must not know: how they are explored.
"""

from __future__ import annotations

from itertools import chain

from ..actors.jobs import Actor, foreign, writer
from ..actors.maintainers import cleaner, expirer, forgetful, hints, restorer, rollback, tagger, untagger
from ..world.simulated_store import FAULTS
from ..world.stage import lab_schema
from .scenario import Scenario
from .writers import history

NAP = frozenset({"an hour passes"})
LIES: dict[str, dict[str, bytes | None]] = {
    "EARLIEST missing": {"EARLIEST": None},
    "EARLIEST garbage": {"EARLIEST": b"\xffx"},
    "EARLIEST of nothing": {"EARLIEST": b"9"},
    "EARLIEST of the fork": {"EARLIEST": b"4"},
    "LATEST missing": {"EARLIEST": b"1", "LATEST": None},
    "no hints": {"EARLIEST": None, "LATEST": None},
}
"""The hints before a rollback, if they differ from what lakelatch's writers leave."""


def expired(budget: int, commits: int = 2, *, by_hand: bool = False) -> Scenario:
    """Other writers commit and expire while a writer sleeps. `by_hand`: no time passes, and only VERIFY protects the writer."""
    actors = (Actor("A", writer()), Actor("B", writer(commits)), Actor("X", expirer(), "expirer", after=("B",)))
    name = f"expired{' by hand' if by_hand else ''}, {budget} faults"
    return Scenario(name, actors, budget, before=history(2), victims=frozenset("A"), by_hand=by_hand)


def rolled_back(budget: int, lie: str = "") -> Scenario:
    """The format's own rollback beside a writer: readers do not see commits that are based on freed ids.

    Once the gap is filled again, every reader takes a fork above it for history. Such a rollback must therefore not run
    beside writers (decision 4). If the hints of `LIES` already name the fork in EARLIEST, no read of a hint is faulty
    as well: two wrong hints that agree are believed.
    """
    held = LIES[lie] if lie else {"EARLIEST": b"1"}
    before = (*history(3), Actor("hand", hints(**held), "hand"))
    actors = (Actor("A", writer()), Actor("Z", rollback(1, tells=held.get("LATEST", b"") is not None), "rollback"))
    name = ", ".join(filter(None, ["rolled back", lie, f"{budget} faults"]))
    faults = frozenset(chain(*FAULTS.values())) if lie == "EARLIEST of the fork" else None
    return Scenario(name, actors, budget, before=before, victims=frozenset("A"), faults=faults)


def crowded(budget: int) -> Scenario:
    """Three writers who may need three attempts each, and an expirer that keeps the newest snapshot only."""
    names = ("A", "B", "C")
    actors = (*(Actor(n, writer()) for n in names), Actor("X", expirer(), "expirer"))
    return Scenario(f"crowded, {budget} faults", actors, budget, before=history(2), alike=names)


def hinted() -> Scenario:
    faults = frozenset({"garbage", "stale low", "stale high", "gone"})
    return Scenario("lying hints", (Actor("A", writer(2)), Actor("B", writer())), 1, before=history(2), faults=faults)


def forked_identity(*, asleep: bool = True, early: bool = False) -> Scenario:
    """A job dies on a freed name. Run again under its identity, it must not take the fork for its commit. `asleep`: it
    sleeps until the name is free, instead of dying at any moment. `early`: it is run again while it sleeps.
    """
    holds = ("create snapshot/", ("X",)) if asleep else ("", ())
    actors = (
        Actor("A", writer(identity=("etl", 7)), holds=holds),
        Actor("B", writer(2)),
        Actor("X", expirer(), "expirer", after=("B",)),
        Actor("R", writer(identity=("etl", 7)), after=("A",) if early or not asleep else ("A", "X")),
    )
    return Scenario(
        f"identity on a fork{', asleep' if asleep else ''}{', run again early' if early else ''}",
        actors,
        1,
        before=history(2),
        faults=frozenset({"crash after"}),
        victims=frozenset("A"),
        strikes="create snapshot/",
        twins=(frozenset({"A1", "R1"}),),
    )


def delayed_duplicate() -> Scenario:
    """A snapshot is sent twice, and the second send lands after its name was freed: it proves nothing about later snapshots.

    B sleeps before a commit on A's snapshot 2. Snapshots 2 and 3 expire, B creates 3 again, and the copy of A's 2 lands below.
    """
    actors = (
        Actor("A", writer()),
        Actor("B", writer(), after=("A",), holds=("create snapshot/", ("X",))),
        Actor("C", writer(2), after=("A", "B")),
        Actor("X", expirer(), "expirer", after=("C",)),
    )
    late = frozenset({"lands late"})
    return Scenario(
        "delayed duplicate",
        actors,
        1,
        before=history(1),
        faults=late,
        victims=frozenset("A"),
        strikes="create snapshot/",
    )


def vanished_answer(*, identified: bool) -> Scenario:
    """A snapshot landed without an answer and expired. A sleeper takes its name again, which does not prove a lost
    race. `identified`: the writer has an identity, which a plain writer has since dropped from the table's memory.
    """
    sleeper = Actor("S", writer(), holds=("create snapshot/", ("X",)))
    then = ("A", "S")
    other = Actor("B", writer(), after=then)
    if identified:
        other = Actor("F", foreign(overwrites_names=False), "locked", after=then)
    actors = (
        Actor("A", writer(identity=("etl", 7) if identified else None), holds=("read snapshot/snapshot-2", ("X",))),
        sleeper,
        other,
        Actor("X", expirer(), "expirer", after=(other.name,)),
    )
    lost = frozenset({"answer lost"})
    name = f"vanished answer{', identified' if identified else ''}"
    return Scenario(name, actors, 1, before=history(1), faults=lost, victims=frozenset("A"), strikes="create snapshot/")


def restored(budget: int) -> Scenario:
    """lakelatch's own rollback beside a writer: files that an overwrite had deleted come back."""
    before = (*history(1), Actor("over", writer(overwrites=True), "overwriter"))
    actors = (Actor("A", writer()), Actor("R", restorer(1), "restorer"))
    return Scenario(f"restored, {budget} faults", actors, budget, before=before, victims=frozenset("R"))


def restored_while_expiring(budget: int) -> Scenario:
    """lakelatch's own rollback to a snapshot that its own expiry removes."""
    before = (*history(1), Actor("over", writer(overwrites=True), "overwriter"))
    actors = (Actor("R", restorer(1), "restorer"), Actor("X", expirer(), "expirer"))
    return Scenario(f"restored while expiring, {budget} faults", actors, budget, before=before)


def tagged_while_expiring(budget: int, strikes: str = "") -> Scenario:
    """A tag is made of a snapshot that an expiry removes. With `strikes`, the other writer is done when the expiry begins."""
    before = (*history(1), Actor("over", writer(overwrites=True), "overwriter"))
    actors = (
        Actor("A", writer()),
        Actor("T", tagger("eod", 1), "tagger"),
        Actor("X", expirer(), "expirer", after=("A",) if strikes else ()),
    )
    name = ", ".join(filter(None, ["tagged while expiring", strikes, f"{budget} faults"]))
    return Scenario(name, actors, budget, before=before, victims=frozenset("T"), strikes=strikes)


def copied_while_untagged(budget: int) -> Scenario:
    """A tag whose snapshot has expired is copied, while it is deleted with its files."""
    before = (
        *history(1),
        Actor("first", tagger("eod", 1), "tagger"),
        Actor("over", writer(overwrites=True), "overwriter"),
        Actor("gone", expirer(), "expirer"),
    )
    actors = (Actor("T", tagger("copy", "eod"), "tagger"), Actor("D", untagger("eod"), "untagger"))
    return Scenario(f"copied while untagged, {budget} faults", actors, budget, before=before)


def cleaned(budget: int) -> Scenario:
    """Orphan cleaning, twice, beside a writer: files younger than a day are kept."""
    sweep = cleaner(lambda key: "old" in key)
    actors = (Actor("A", writer()), Actor("B", writer()), Actor("O", sweep, "cleaner"))
    given = (("manifest/manifest-old-0", b"an orphan"),)
    return Scenario(f"cleaned, {budget} faults", actors, budget, given=given, alike=("A", "B"))


def slept(budget: int = 1) -> Scenario:
    actors = (Actor("A", writer()), Actor("B", writer(2)))
    return Scenario(f"slept, {budget} naps", actors, budget, faults=NAP, victims=frozenset("A"), hints=True)


def slow(what: str, *labels: str) -> Scenario:
    """Reading takes an hour, every time. The commit still ends with one of the three outcomes (H24)."""
    actor = Actor("A", writer(identity=("etl", 7)))
    schema = lab_schema(**{"commit.max-retries": "3"})
    return Scenario(f"slow {what}", (actor,), before=history(3), schema=schema, slow=labels, longest=150)


def forgotten(*, expires: bool) -> Scenario:
    """A table remembers one user. A forgotten writer runs again and lands once, even if the remembering snapshot expires."""
    before = (
        Actor("old", forgetful(writer(identity=("etl", 7)))),
        Actor("last", forgetful(writer(2, identity=("other", 1)))),
    )
    again = Actor("A", forgetful(writer(identity=("etl", 7))), after=("X",) if expires else ())
    beside = Actor("X", expirer(), "expirer") if expires else Actor("B", forgetful(writer(identity=("third", 1))))
    twins = (frozenset({"old1", "A1"}),)
    name = f"forgotten user{', expired' if expires else ''}"
    return Scenario(name, (again, beside), 1, before=before, twins=twins, victims=frozenset("A"), by_hand=True)
