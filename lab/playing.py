"""One actor, replayed: which request comes next after these replies, and what was told so far.

Owns: `Play`, `Cast`: memory of every actor state that was met. Must not know: the order in which actors take turns.
Invariant: two histories that led a writer through the same events, by the same bytes read and with the same writes failed,
are one state: the coordinator's state is a fold of its events, and what lies between two events is kept reply by reply.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from ..coordinator.journal.object_journal import FOLDER
from ..core.metadata.schema import TableSchema
from .actors import Actor
from .simulated_store import OK, Reply, Request
from .stage import Clock, Paused, Stage, Told, lab_schema

Exchange = tuple[Request, Reply]


@dataclass(frozen=True)
class Play:
    """An actor at rest.

    Attributes:
        history: one way to get here.
        pending: the request that it waits for; None where it has ended, or died.
        told: what its callers were told.
        events: how many events its commit machines have seen, by name, for the story.
    """

    history: tuple[Exchange, ...]
    pending: Request | None
    told: tuple[Told, ...]
    events: tuple[str, ...]
    dead: bool = False


class _Strayed(BaseException):
    """An actor that did not do again what it had done before: something random or a clock has crept in."""


class Cast:
    """Every state of every actor, by number; an actor is run again only for a state that was not met before."""

    def __init__(self, actors: tuple[Actor, ...], schema: TableSchema | None = None) -> None:
        self.actors = actors
        self.plays: list[Play] = []
        self.runs = 0
        self._schema = schema or lab_schema()
        self._numbers: dict[Hashable, int] = {}
        self._next: dict[tuple[int, int, Reply], int] = {}
        self._dead: dict[tuple[int, int], int] = {}

    def begin(self, actor: int) -> int:
        """The number of an actor's first state."""
        return self._run(actor, (), lambda request: None)

    def after(
        self, actor: int, number: int, reply: Reply, private: Callable[[Request], Reply | None] = lambda request: None
    ) -> int:
        """The state after one more reply.

        Args:
            private: the reply to a request that concerns nobody else, None for any other: the run goes on through
                these, and their states are noted on the way.
        """
        known = self._next.get((actor, number, reply))
        if known is None:
            play = self.plays[number]
            assert play.pending is not None
            known = self._run(actor, (*play.history, (play.pending, reply)), private)
            self._next[actor, number, reply] = known
        return known

    def dies(self, actor: int, number: int) -> int:
        """The state of an actor that died: only what it told remains."""
        known = self._dead.get((actor, number))
        if known is None:
            play = self.plays[number]
            known = self._number((actor, "dead", play.told), Play((), None, play.told, play.events, dead=True))
            self._dead[actor, number] = known
        return known

    def _run(self, actor: int, history: tuple[Exchange, ...], private: Callable[[Request], Reply | None]) -> int:
        """Plays an actor through a history, and on as long as its requests are private; the number of the first rest."""
        self.runs += 1
        clock, past, position, since_event = Clock(), list(history), 0, 0
        rests: list[int] = []

        def rest(pending: Request | None) -> int:
            number = self._number(*self._state(actor, stage, tuple(past), since_event, pending))
            if rests:
                self._next[actor, rests[-1], past[-1][1]] = number
            rests.append(number)
            return number

        def wire(request: Request) -> Reply:
            nonlocal position
            if position == len(past):
                rest(request)
                reply = private(request)
                if reply is None:
                    raise Paused(request)
                past.append((request, reply))
            asked, reply = past[position]
            if asked != request:
                raise _Strayed(f"{stage.name} asked for {request.label} where it had asked for {asked.label}")
            position += 1
            clock.now_s += reply.nap_s
            return reply

        def noted() -> None:
            nonlocal since_event
            since_event = position

        stage = Stage(self.actors[actor].name, actor + 1, wire, clock, schema=self._schema, on_event=noted)
        try:
            self.actors[actor].role(stage)
        except Paused:
            pass
        else:
            rest(None)
        return rests[0]

    def _state(
        self, actor: int, stage: Stage, history: tuple[Exchange, ...], since_event: int, pending: Request | None
    ) -> tuple[Hashable, Play]:
        told = tuple(stage.told)
        play = Play(history, pending, told, tuple(type(e).__name__ for e in stage.events))
        if pending is None:
            return (actor, "ended", told), play
        if self.actors[actor].kind not in ("writer", "overwriter", "deleter", "compactor", "restorer"):
            return (actor, history, pending), play
        read = tuple(r.body for q, r in history if q.operation == "read" and r.status == OK)
        written = {q.key: r.status for q, r in history if q.operation == "write"}
        failed = frozenset(key for key, status in written.items() if status != OK)
        journaled = tuple((q.operation, q.key, r.status) for q, r in history if q.key.startswith(FOLDER))
        asleep = tuple(i for i, (_, r) in enumerate(history) if r.nap_s)
        return (actor, tuple(stage.events), told, read, failed, journaled, history[since_event:], asleep, pending), play

    def _number(self, identity: Hashable, play: Play) -> int:
        number = self._numbers.setdefault(identity, len(self.plays))
        if number == len(self.plays):
            self.plays.append(play)
        return number
