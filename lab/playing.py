"""Replays one actor: its next request after the given replies, and the outcomes that it has reported.

Owns: `Play`, `Cast`, which remember every actor state that was reached. Must not know: the order in which actors take turns.
Invariant: two histories are one state if they led a writer through the same events, with the same bytes read and the same
writes failed. The coordinator's state is a fold of its events; between two events, the replies themselves are kept.
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
    """The state of an actor between two requests.

    Attributes:
        history: one history that leads to this state.
        pending: the request that it waits for; None if the actor has ended or died.
        told: the outcomes that its callers got.
        events: the number of events that its commit machines have seen, by name, for the story.
    """

    history: tuple[Exchange, ...]
    pending: Request | None
    told: tuple[Told, ...]
    events: tuple[str, ...]
    dead: bool = False


class _Strayed(BaseException):
    """An actor behaved differently when it was replayed: it depends on a random choice or a clock."""


class Cast:
    """Every state of every actor, by number. An actor is run again only to find a state that is not known yet."""

    def __init__(self, actors: tuple[Actor, ...], schema: TableSchema | None = None) -> None:
        self.actors = actors
        self.plays: list[Play] = []
        self.runs = 0
        self._schema = schema or lab_schema()
        self._numbers: dict[Hashable, int] = {}
        self._next: dict[tuple[int, int, Reply], int] = {}
        self._dead: dict[tuple[int, int], int] = {}

    def begin(self, actor: int) -> int:
        """Return the number of an actor's first state."""
        return self._run(actor, (), lambda request: None)

    def after(
        self, actor: int, number: int, reply: Reply, private: Callable[[Request], Reply | None] = lambda request: None
    ) -> int:
        """Return the state after one more reply.

        Args:
            private: returns the reply to a request that concerns no other actor, or None for any other request. The run
                continues through private requests, and their states are recorded on the way.
        """
        known = self._next.get((actor, number, reply))
        if known is None:
            play = self.plays[number]
            assert play.pending is not None
            known = self._run(actor, (*play.history, (play.pending, reply)), private)
            self._next[actor, number, reply] = known
        return known

    def dies(self, actor: int, number: int) -> int:
        """Return the state of an actor that died: only the outcomes that it reported remain."""
        known = self._dead.get((actor, number))
        if known is None:
            play = self.plays[number]
            known = self._number((actor, "dead", play.told), Play((), None, play.told, play.events, dead=True))
            self._dead[actor, number] = known
        return known

    def _run(self, actor: int, history: tuple[Exchange, ...], private: Callable[[Request], Reply | None]) -> int:
        """Run an actor through a history and its following private requests. Returns the number of the first new state."""
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
                raise _Strayed(f"{stage.name} requested {request.label}, but had requested {asked.label} before")
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
