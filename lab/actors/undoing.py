"""Undo beside commits that ride: who takes one of several commits in a snapshot back, in which worlds, and with which bugs.

Owns: the role `undoer`, its scenarios `DAILY_UNDOS` and `NIGHTLY_UNDOS`, and the planted bugs `UNDOS`. Must not know: how
scenarios are explored. Source: decisions 62, 71, 85.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...coordinator.commit.settling import settler as settling
from ...coordinator.intents.commits import Commit, commits_named
from ...coordinator.maintenance import undo
from ...core.errors import LakelatchError
from ..bugs.planting import Mutant
from ..scenarios.groups import FAULTS, GROUPED, TWO
from ..scenarios.scenario import Scenario
from ..world.published import COMMIT, DELETES, UNDOES
from ..world.stage import Stage
from .jobs import Actor, Role, commit_once, writer


def undoer(of: str) -> Role:
    def role(stage: Stage) -> None:
        timeline, label, row = stage.timeline(), f"{stage.name}1", f"{of}1"
        try:
            found = commits_named(map(timeline.find, timeline.snapshot_ids()), f"user-{of}", None)
            if not found:
                return
            before = timeline.find(found[0].snapshot.id - 1)
            plan = undo.plan_undo(timeline, stage.schema, found[0], before, f"undo-{label}")
        except LakelatchError:
            return  # the caller gets the error, and nothing was committed
        request = plan.request(f"user-{stage.name}", None, None)
        said = {**request.remarks.properties, COMMIT: label, DELETES: row, UNDOES: row}
        request = replace(request, remarks=replace(request.remarks, properties=said))
        commit_once(stage, stage.committer(), request, label, deletes=(row,))

    return role


def undone_rider(budget: int, *, of: str = "A", undoers: str = "U", at_once: bool = False) -> Scenario:
    """A rider and its carrier, and who takes the commit `of` one back, `at_once` while it may still be under way."""
    riding = (
        Actor("A", writer(rides=True, behind=True)),
        Actor("C", writer(rides=True, meets=True)),
    )
    later = tuple(Actor(name, undoer(of), "deleter", after=() if at_once else (of,)) for name in undoers)
    who = "the rider" if of == "A" else "the carrier"
    name = f"{who} is undone{' twice' if len(undoers) > 1 else ''}{' at once' if at_once else ''}, {budget} faults"
    return Scenario(
        name,
        (*riding, *later),
        budget,
        before=TWO,
        faults=FAULTS,
        schema=GROUPED,
        lands=frozenset("AC"),
    )


DAILY_UNDOS = (undone_rider(1), undone_rider(0, of="C"), undone_rider(0, at_once=True))
NIGHTLY_UNDOS = (undone_rider(1, of="C"), undone_rider(1, at_once=True), undone_rider(0, undoers="UV"))

_delta_manifests = Commit.delta_manifests


def _takes_the_whole_snapshot(self: Commit, timeline: Any) -> Any:
    return _delta_manifests(Commit(self.snapshot), timeline)


def _takes_the_others(self: Commit, timeline: Any) -> Any:
    own = _delta_manifests(self, timeline)
    return [line for line in _delta_manifests(Commit(self.snapshot), timeline) if line not in own] or own


UNDOS: tuple[Mutant, ...] = (
    Mutant(
        "an undo takes the whole snapshot back",
        lambda: [(Commit, "delta_manifests", _takes_the_whole_snapshot)],
        (undone_rider(0), undone_rider(0, of="C")),
    ),
    Mutant(
        "an undo does not look at later commits",
        lambda: [
            (settling, "builds_on", lambda request, since, base: request),
            (undo, "builds_on", lambda request, since, base: request),
        ],
        (undone_rider(0, undoers="UV"),),
    ),
    Mutant(
        "an undo takes back whoever rode with its commit",
        lambda: [(Commit, "delta_manifests", _takes_the_others)],
        (undone_rider(0, of="C"), undone_rider(0)),
    ),
)
