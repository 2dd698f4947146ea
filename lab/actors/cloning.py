"""Clones in the lab: made beside appends that wait to be carried, dropped and made again, and recovered.

Owns: the roles and scenarios of clones, and `broken_copies`, what must hold for one. Must not know: how they are explored.
Source: decision 94; H10, H21. Invariants: shipped operations run unchanged. A clone has the rows of the snapshot that it was made
of and those that were committed to it, and can be read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress

from ...backends.probe import PROBED
from ...coordinator.commit.committer import Committer
from ...coordinator.commit.request import CommitRequest
from ...coordinator.history.base import Base
from ...coordinator.history.timeline import Timeline
from ...coordinator.journal.object_journal import ObjectJournal
from ...coordinator.maintenance.clone import apply_clone
from ...coordinator.recovery.recover import recover_journal
from ...core.errors import LakelatchError
from ...core.metadata.folding import live
from ..exploring.independence import COPIES
from ..scenarios.groups import ASKING, FAULTS, GROUPED, TWO
from ..scenarios.scenario import Scenario
from ..world.reading import look
from ..world.simulated_store import Objects, Reply, Request, SimulatedStore
from ..world.stage import PATHS, Stage, Told, rows_in
from .jobs import Actor, Role, data_entry, writer

COPIED = "copied"
"""The outcome of a clone, with the rows that it may have."""
GIVEN = ((PATHS.schema(0), GROUPED.to_json()),)


def cloner(*, again: bool = False, recovers: bool = False, leads: bool = True) -> Role:
    """Clone the table. `again`: drop the existing clone first. `recovers`: recover the clone, in the belief that its writers
    are gone. `leads`: a writer of the clone, which takes its first snapshot for the newest, loses a race and leads the next.
    """

    def role(stage: Stage) -> None:
        if again:
            stage.wire(Request("drop", COPIES))
        store = _store_of_the_clone(stage, stage.wire)
        copy, own = Timeline(store, PATHS, stage.around.executor), data_entry(f"{stage.name}1")
        try:
            apply_clone(stage.timeline(), stage.schema, store, around=stage.around)
            newest = copy.latest()
            assert newest is not None
            held = live(copy.entries(copy.manifests(newest)))
        except LakelatchError as error:
            stage.tell(Told(stage.name, COPIED, f"failed: {error.message}", None, ()))
            return
        rows = [row for entry in (*held, own) for row in rows_in(entry.file.file_name)]
        stage.tell(Told(stage.name, COPIED, "", None, tuple(rows)))
        if recovers:
            stage.clock.now_s += 60.0
            recover_journal(ObjectJournal(store), store, stage.around, writers_are_gone=True)
        if leads:
            schema, first_schema = copy.opened()
            committer = Committer(store, PATHS, schema, None, stage.around, first_schema)
            first = copy.snapshot(1)
            committer.learn(Base(first, copy.manifests(first), schema.id, stage.around.now_ms))
            store.put(f"bucket-0/{own.file.file_name}", b"")
            committer.commit(CommitRequest("APPEND", (own,), f"user-{stage.name}"))

    return role


def asker() -> Role:
    """A job of the clone knows of others, so that it asks them at once to carry it. Then it dies."""

    def role(stage: Stage) -> None:
        stage.store = _store_of_the_clone(stage, _gone_once_it_has_asked(stage.wire))
        with suppress(_Gone):
            writer(rides=True, meets=True, opens=True)(stage)

    return role


class _Gone(BaseException):
    """The job has ended without a word."""


def _store_of_the_clone(stage: Stage, wire: Callable[[Request], Reply]) -> SimulatedStore:
    store = SimulatedStore(wire, stage.around, stage.sends, COPIES)
    PROBED.remember(store.url)
    return store


def _gone_once_it_has_asked(wire: Callable[[Request], Reply]) -> Callable[[Request], Reply]:
    def sent(request: Request) -> Reply:
        reply = wire(request)
        if request.label.startswith(ASKING.replace(" ", f" {COPIES}")):
            raise _Gone
        return reply

    return sent


def broken_copies(told: Iterable[Told], objects: Objects, copied: Collection[str] = ()) -> Iterator[str]:
    """What is wrong with the clone. Snapshots whose identities are in `copied` are the source's, and may have rows that
    were removed before the clone was made.
    """
    made = next((line for line in told if line.outcome == COPIED), None)
    if made is None:
        return
    if made.detail:
        yield f"the clone {made.detail}"
        return
    inside = {key.removeprefix(COPIES): data for key, data in objects.items() if key.startswith(COPIES)}
    reading = look(inside)
    if reading.failure:
        yield f"the clone cannot be read: {reading.failure}"
    for one in reading.views:
        if missing := sorted(one.needs - inside.keys()):
            yield f"snapshot {one.snapshot.id} of the clone needs {missing[0]}, which it has not"
        if one.snapshot.identity not in copied and (strange := sorted(set(one.visible) - set(made.added))):
            yield f"snapshot {one.snapshot.id} of the clone has row {strange[0]}, which nobody brought there"


def cloned_beside_riders(budget: int, riders: int = 1) -> Scenario:
    """The table is cloned while jobs ask others to carry them. A writer of the clone leads soon afterwards."""
    names = ("A", "B")[:riders]
    actors = tuple(Actor(name, writer(rides=True, behind=True)) for name in names)
    return _scenario(f"cloned beside {riders} riders", budget, *actors, Actor("C", cloner(), "cloner"), alike=names)


def cloned_again(budget: int) -> Scenario:
    """A clone is dropped and made again while the intent of one of its jobs is on its way. Both clones have the same base."""
    first = Actor("F", cloner(leads=False), "cloner")
    actors = (Actor("A", asker(), "cloner"), Actor("C", cloner(again=True), "cloner", after=("A",)))
    return _scenario("cloned again beside an intent", budget, *actors, before=(first,))


def clone_recovered(budget: int) -> Scenario:
    """A clone is made, and recovered, at any step of a writer of the table that keeps a journal beside it."""
    actors = (Actor("A", writer(behind=True, journaled=True, opens=True)), Actor("C", cloner(recovers=True), "cloner"))
    return _scenario("a clone is recovered", budget, *actors)


def _scenario(
    name: str, budget: int, *actors: Actor, before: tuple[Actor, ...] = (), alike: tuple[str, ...] = ()
) -> Scenario:
    return Scenario(
        f"{name}, {budget} faults",
        actors,
        budget,
        before=(*TWO, *before),
        given=GIVEN,
        faults=FAULTS,
        victims=frozenset("AB"),
        alike=alike,
        schema=GROUPED,
        lands=frozenset(),
    )
