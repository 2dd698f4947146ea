"""Runs many actors in one virtual time: when they send requests, which faults strike, when answers arrive.

Owns: `Simulation`, with the queue of events. Each actor has a thread of its own, of which only one ever runs.
Must not know: what actors do, the invariants. Invariants: nothing depends on real time or on the scheduling of threads. The
same seed and actors give the same trace, byte for byte.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...core.metadata.schema import TableSchema
from ..actors.jobs import Actor
from ..world.simulated_store import Objects, Reply, Request, answer, faults_of, strike
from ..world.stage import Clock, Died, Stage, lab_schema
from ..world.turns import Turn

LATEST_LANDING_S = 5.0


@dataclass(frozen=True)
class Weather:
    """The latency and the faults of a simulation.

    Attributes:
        latency_s: the average time from a request to its answer. Each varies from half of it to one and a half times it.
        skew_s: the largest error of a wall clock.
    """

    latency_s: float = 0.05
    faults: Mapping[str, float] = field(default_factory=dict)
    skew_s: float = 0.0


class Simulation:
    """A store, a weather, and actors in virtual time. `published` is called with each new snapshot and the store's contents."""

    def __init__(
        self,
        seed: int,
        weather: Weather,
        schema: TableSchema | None = None,
        published: Callable[[str, Objects], None] = lambda key, objects: None,
    ) -> None:
        self.objects: Objects = {}
        self.stages: list[Stage] = []
        self.now_s = 0.0
        self.faults = self.requests = 0
        self.trace: list[str] = []
        self.dead: set[str] = set()
        self._dice = random.Random(f"lakelatch {seed}")
        self._weather, self._published = weather, published
        self._schema = schema or lab_schema()
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._turns: list[Turn] = []
        self._order = 0

    def add(self, actor: Actor, at_s: float = 0.0) -> Stage:
        number = len(self.stages)
        self._turns.append(turn := Turn(lambda: actor.role(self.stages[number])))
        clock = Clock(skew_s=self._dice.uniform(-self._weather.skew_s, self._weather.skew_s))
        stage = Stage(
            actor.name,
            number + 1,
            turn.ask,
            clock,
            sleep=turn.ask,
            uniform=self._dice.uniform,
            schema=self._schema,
            sends=3,
            time_passes=True,
        )
        self.stages.append(stage)
        self._at(at_s, lambda: self._resume(number, None))
        return stage

    def run(self) -> None:
        """Run until nothing is left to happen: every actor has ended or died, and every late request has landed."""
        try:
            while self._queue:
                self.now_s, _, happens = heapq.heappop(self._queue)
                happens()
        finally:
            for turn in self._turns:
                if not turn.over:
                    turn.resume(Died())

    def _at(self, when_s: float, happens: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._queue, (when_s, self._order, happens))

    def _resume(self, number: int, given: Any) -> None:
        stage = self.stages[number]
        stage.clock.now_s = self.now_s
        asked = self._turns[number].resume(given)
        if isinstance(asked, Request):
            self._send(number, asked)
        elif asked is not None:
            self._at(self.now_s + float(asked), lambda: self._resume(number, None))

    def _send(self, number: int, request: Request) -> None:
        fault = self._fault(request)
        there_s, back_s = (self._weather.latency_s * self._dice.uniform(0.25, 0.75) for _ in range(2))
        latency_s = there_s + back_s
        share = self.stages[number].batch.extra_s(latency_s) / latency_s
        there_s, back_s = there_s * share, back_s * share
        self._at(self.now_s + there_s, lambda: self._arrive(number, request, fault, back_s))

    def _fault(self, request: Request) -> str:
        dice = self._dice.random()
        for fault in faults_of(request):
            dice -= self._weather.faults.get(fault, 0.0)
            if dice < 0:
                self.faults += 1
                return fault
        return ""

    def _arrive(self, number: int, request: Request, fault: str, back_s: float) -> None:
        self.requests += 1
        struck = strike(self.objects, request, fault)
        self._hold(request, struck.objects)
        status = "dies" if struck.reply is None else str(struck.reply.status)
        self.trace.append(f"{self.now_s:.6f} {self.stages[number].name} {request.label} {fault or 'ok'} {status}")
        if struck.in_flight is not None:
            self._at(self.now_s + self._dice.uniform(0, LATEST_LANDING_S), lambda: self._land(request))
        reply = struck.reply
        if reply is None:
            self.dead.add(self.stages[number].name)
            self._turns[number].resume(Died())
            return
        passed = Reply(reply.status, reply.body)
        self._at(self.now_s + back_s + reply.nap_s, lambda: self._resume(number, passed))

    def _land(self, request: Request) -> None:
        objects, reply = answer(self.objects, request)
        self.trace.append(f"{self.now_s:.6f} late: {request.label} {reply.status}")
        self._hold(request, objects)

    def _hold(self, request: Request, objects: Objects) -> None:
        is_new = request.operation == "create" and request.key not in self.objects and request.key in objects
        self.objects = objects
        if is_new and request.key.startswith("snapshot/snapshot-"):
            self._published(request.key, objects)
