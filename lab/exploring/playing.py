"""Replays one actor: its next request after the given replies, and the outcomes that it has reported.

Owns: `Play`, `Cast`, which remember every actor state that was reached. Must not know: the order in which actors take turns.
Invariant: two histories are one state if they led a writer through the same events, with the same bytes read and the same
writes failed. The coordinator's state is a fold of its events; between two events, the replies themselves are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ...coordinator.journal.object_journal import FOLDER
from ...core.metadata.schema import TableSchema
from ..actors.jobs import Actor
from ..scenarios.scenario import LONGEST_PATH
from ..world.simulated_store import OK, Reply, Request
from ..world.stage import Clock, Died, Paused, Stage, Told, lab_schema
from ..world.turns import Turn

Exchange = tuple[Request, Reply]

EVERYTHING = ("list", "")
"""What a clone takes from this listing, it has copied when it lists the roots again."""
ROOTS_AGAIN = ("list", "snapshot/")
MOST_WAITING = 500
"""Actors that wait in the middle of their runs, each in a thread. The others are run again from the beginning."""


@dataclass(frozen=True)
class Play:
    """The state of an actor between two requests.

    Attributes:
        history: one history that leads to this state.
        pending: the request that it waits for; None if the actor has ended or died.
        events: those that its commit machines have seen, by name, for the story.
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

    def __init__(
        self, actors: tuple[Actor, ...], schema: TableSchema | None = None, longest: int = LONGEST_PATH
    ) -> None:
        self.actors = actors
        self.longest = longest
        self.plays: list[Play] = []
        self.runs = 0
        self.schema = schema or lab_schema()
        self._numbers: dict[Hashable, int] = {}
        self._next: dict[tuple[int, int, Reply], int] = {}
        self._dead: dict[tuple[int, int], int] = {}
        self._waiting: dict[int, _Run] = {}
        self._keeps = False

    def begin(self, actor: int) -> int:
        return self._run(actor, (), lambda request: None)

    def after(
        self, actor: int, number: int, reply: Reply, private: Callable[[Request], Reply | None] = lambda request: None
    ) -> int:
        """The state after one more reply. `private` replies to a request that concerns no other actor: the run
        continues through these, and their states are recorded on the way.
        """
        known = self._next.get((actor, number, reply))
        if known is None:
            play = self.plays[number]
            assert play.pending is not None
            waiting = self._waiting.pop(number, None)
            if waiting is not None:
                self.runs += 1
                known = waiting.go_on(reply, private)
            else:
                known = self._run(actor, (*play.history, (play.pending, reply)), private)
            self._next[actor, number, reply] = known
        return known

    def dies(self, actor: int, number: int) -> int:
        known = self._dead.get((actor, number))
        if known is None:
            play = self.plays[number]
            known = self._number((actor, "dead", play.told), Play((), None, play.told, play.events, dead=True))
            self._dead[actor, number] = known
        return known

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Let actors wait in the middle of their runs meanwhile, so that the first who goes on from there repeats nothing."""
        self._keeps = True
        try:
            yield
        finally:
            self._keeps = False
            for run in self._waiting.values():
                run.end()
            self._waiting.clear()

    def _run(self, actor: int, history: tuple[Exchange, ...], private: Callable[[Request], Reply | None]) -> int:
        self.runs += 1
        return _Run(self, actor, history, private).begin(self._keeps)

    def reached(self, actor: int, run: _Run, pending: Request | None) -> tuple[int, bool]:
        known = len(self.plays)
        number = self._number(*self._state(actor, run.stage, tuple(run.past), run.since_event, pending))
        if run.rests:
            self._next[actor, run.rests[-1], run.past[-1][1]] = number
        run.rests.append(number)
        return number, number == known

    def waits(self, run: _Run, number: int) -> bool:
        if len(self._waiting) < MOST_WAITING:
            self._waiting[number] = run
            return True
        return False

    def _state(
        self, actor: int, stage: Stage, history: tuple[Exchange, ...], since_event: int, pending: Request | None
    ) -> tuple[Hashable, Play]:
        told = tuple(stage.told)
        play = Play(history, pending, told, tuple(type(e).__name__ for e in stage.events))
        if pending is None:
            return (actor, "ended", told), play
        if self.actors[actor].kind == "cloner":
            return (actor, _asked(history, pending), pending), play
        if self.actors[actor].kind not in ("writer", "overwriter", "deleter", "merger", "compactor", "restorer"):
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


def _asked(history: tuple[Exchange, ...], pending: Request) -> tuple[tuple[Request, Reply | None], ...]:
    asked = [(q.operation, q.key) for q, _ in history] + [(pending.operation, pending.key)]
    copied = max((n for n, one in enumerate(asked) if one == ROOTS_AGAIN), default=0)
    return tuple((q, None if n < copied and asked[n] == EVERYTHING else r) for n, (q, r) in enumerate(history))


class _Run:
    """One actor that plays: again through a history, and on from there until it waits for a reply of the store.
    `since_event` counts the requests since its commit machines saw their last event, `rests` are the numbers of the
    states that were reached since the run began or went on.
    """

    def __init__(
        self, cast: Cast, actor: int, history: tuple[Exchange, ...], private: Callable[[Request], Reply | None]
    ) -> None:
        self.past, self.since_event = list(history), 0
        self.rests: list[int] = []
        self._cast, self._actor, self._private = cast, actor, private
        self._position = 0
        self._turn: Turn | None = None
        self._clock = Clock()
        whom = cast.actors[actor]
        self.stage = Stage(whom.name, actor + 1, self._wire, self._clock, schema=cast.schema, on_event=self._noted)

    def begin(self, may_wait: bool) -> int:
        if may_wait:
            self._turn = Turn(self._play)
            self._turn.resume(None)
        else:
            self._play()
        return self.rests[0]

    def go_on(self, reply: Reply, private: Callable[[Request], Reply | None]) -> int:
        assert self._turn is not None
        self._private, self.rests = private, []
        self._turn.resume(reply)
        return self.rests[0]

    def end(self) -> None:
        assert self._turn is not None
        self._turn.resume(Died())

    def _play(self) -> None:
        try:
            self._cast.actors[self._actor].role(self.stage)
        except Paused:
            return
        self._cast.reached(self._actor, self, None)

    def _wire(self, request: Request) -> Reply:
        if self._position == len(self.past):
            self.past.append((request, self._reply(request)))
        asked, reply = self.past[self._position]
        if asked != request:
            raise _Strayed(f"{self.stage.name} requested {request.label}, but had requested {asked.label} before")
        self._position += 1
        self._clock.now_s += reply.nap_s
        return reply

    def _reply(self, request: Request) -> Reply:
        number, is_new = self._cast.reached(self._actor, self, request)
        reply = self._private(request) if len(self.past) <= self._cast.longest else None
        if reply is not None:
            return reply
        if self._turn is None or not is_new or not self._cast.waits(self, number):
            raise Paused(request)
        with self.stage.while_others_play():
            given: Reply = self._turn.ask(request)
        return given

    def _noted(self) -> None:
        self.since_event = self._position
