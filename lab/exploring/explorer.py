"""Explores every interleaving of a few actors with every fault within a budget, breadth first, until a guarantee breaks.

Owns: `explore`, replaying a found path. Must not know: what actors do, what the guarantees are.
Invariants: the shortest path to a violation is found first. Steps that commute are folded: requests that are independent, late
requests that can do nothing any more, and writers that differ in their names only. States are kept as hashes.
"""

from __future__ import annotations

import gc
import hashlib
import time
from collections import Counter, deque
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from ...core.metadata.schema import TableSchema
from ..actors.branching import broken_branches
from ..actors.cloning import broken_copies
from ..actors.consuming import lost_changes
from ..actors.expiring import unheld
from ..actors.following import misread
from ..actors.jobs import Actor
from ..actors.refusing import left_behind
from ..judging.invariants import Context, Reading, Violation, look, violations
from ..scenarios.scenario import Scenario
from ..world.published import Chronicle, History, identity_of
from ..world.simulated_store import NAP_S, REFUSED, Objects, Reply, Request, answer, faults_of, strike
from ..world.stage import BEGAN, Stage, Told, lab_schema
from .footprint import footprint
from .independence import COPIES, Independence
from .playing import Cast, Play

Choice = tuple[int, str]
"""(actor, fault), or (-1 - n, "") if the n-th request in flight lands."""

End = tuple[tuple[tuple[Told, ...], ...], tuple[tuple[str, ...], ...]]

_NOTHING: frozenset[tuple[Request, int]] = frozenset()


@dataclass(frozen=True, slots=True)
class World:
    """The state of all actors and of the store.

    Attributes:
        removed: identities of snapshots that were removed on purpose.
        naps: for each actor, whether an hour will have passed at its next reply.
        gone: commits that were reported, and then dropped with their table.
    """

    objects: Objects
    in_flight: tuple[Request, ...]
    actors: tuple[int, ...]
    started: tuple[bool, ...]
    faults: int
    removed: frozenset[str]
    published: History
    naps: tuple[bool, ...]
    gone: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Step:
    actor: str
    request: str
    fault: str
    reply: str
    told: tuple[Told, ...]
    events: tuple[str, ...]


@dataclass
class Exploration:
    """The result of an exploration.

    Attributes:
        states: the number of different states; `depth`: the length of the longest of their shortest paths.
        exhausted: whether every state within the budget was visited.
        ends: how the stories may end, as far as callers and readers can tell: what each actor reported, and the rows of each
            snapshot, from the top down.
        violation: the first violation, with the choices that lead to it.
    """

    scenario: Scenario
    states: int = 0
    depth: int = 0
    runs: int = 0
    seconds: float = 0.0
    exhausted: bool = False
    ends: set[End] = field(default_factory=set)
    violation: Violation | None = None
    path: tuple[Choice, ...] = ()

    def __str__(self) -> str:
        end = "all of them" if self.exhausted else "not all"
        rate = self.states / self.seconds if self.seconds else 0
        line = f"{self.scenario.name}: {self.states} states ({end}), {self.depth} deep, {self.runs} runs, {rate:.0f}/s"
        return line if self.violation is None else f"{line}; BROKEN {self.violation}"


class Explorer:
    def __init__(self, scenario: Scenario, independence: Independence | None = None) -> None:
        self.scenario = scenario
        self.cast = Cast(scenario.actors, scenario.schema, scenario.longest)
        self.names = [actor.name for actor in scenario.actors]
        self._readings: dict[object, Reading] = {}
        self._seen: tuple[Objects, Hashable] = ({}, ())
        self._chronicle = Chronicle()
        self.independent = independence or Independence(scenario)

    # ----------------------------------------------------------------------------------------------------- the world

    def first(self) -> World:
        objects: Objects = dict(self.scenario.given)
        for number, actor in enumerate(self.scenario.before):
            objects = play_alone(actor, 100 + number, objects, self.scenario.schema)
        actors = tuple(self.cast.begin(i) for i in range(len(self.names)))
        none = (False,) * len(actors)
        return World(
            objects=objects,
            in_flight=(),
            actors=actors,
            started=none,
            faults=0,
            removed=frozenset(),
            published=self._chronicle.all_of(objects),
            naps=none,
        )

    def choices(self, world: World) -> Iterator[Choice]:
        for number, request in enumerate(world.in_flight):
            if request not in world.in_flight[:number]:
                yield -1 - number, ""
        for index in range(len(world.actors)):
            if self._may_move(world, index):
                yield from ((index, fault) for fault in ("", *self._faults(world, index)))

    def _may_move(self, world: World, index: int) -> bool:
        pending = self.cast.plays[world.actors[index]].pending
        if pending is None:
            return False
        actor, alike = self.scenario.actors[index], self.scenario.alike
        if self._sleeps(world, actor.name):
            return False
        if world.started[index]:
            return True
        if not all(self._has_ended(world, name) or self._sleeps(world, name) for name in actor.after):
            return False
        position = alike.index(actor.name) if actor.name in alike else 0
        return position == 0 or world.started[self.names.index(alike[position - 1])]

    def _has_ended(self, world: World, name: str) -> bool:
        return self.cast.plays[world.actors[self.names.index(name)]].pending is None

    def _sleeps(self, world: World, name: str) -> bool:
        index = self.names.index(name)
        label, awaited = self.scenario.actors[index].holds
        pending = self.cast.plays[world.actors[index]].pending
        held = bool(awaited) and pending is not None and pending.label.startswith(label)
        return held and not all(self._has_ended(world, other) for other in awaited)

    def _faults(self, world: World, index: int) -> Iterator[str]:
        if world.faults >= self.scenario.budget:
            return
        scenario, pending = self.scenario, self.cast.plays[world.actors[index]].pending
        if pending is None or (scenario.victims is not None and self.names[index] not in scenario.victims):
            return
        if not pending.label.startswith(scenario.strikes):
            return
        for fault in faults_of(pending):
            if scenario.faults is None or fault in scenario.faults:
                yield fault
        if scenario.doomed is not None:
            yield from (f"{REFUSED}{key}" for key in pending.keys if key in world.objects)

    def moved(self, world: World, choice: Choice) -> World:
        index, fault = choice
        if index < 0:
            request = world.in_flight[-1 - index]
            rest = tuple(r for n, r in enumerate(world.in_flight) if n != -1 - index)
            objects, _ = answer(world.objects, request)
            self.independent.checked(request, world.objects, objects)
            published = self._noted(world, request.key, objects)
            return replace(world, objects=objects, in_flight=self.independent.left(rest, objects), published=published)
        number = world.actors[index]
        asked = self.cast.plays[number].pending
        assert asked is not None
        struck = strike(world.objects, asked, fault)
        if struck.reply is None:
            now = self.cast.dies(index, number)
        else:
            reply = self._late(world, index, asked, struck.reply)
            now = self.cast.after(index, number, reply, lambda r: self._private_reply(r, index, struck.objects))
        self.independent.checked(asked, world.objects, struck.objects)
        flying = (*world.in_flight, struck.in_flight) if struck.in_flight is not None else world.in_flight
        return World(
            objects=struck.objects,
            in_flight=self.independent.left(flying, struck.objects) if flying else flying,
            actors=(*world.actors[:index], now, *world.actors[index + 1 :]),
            started=(*world.started[:index], True, *world.started[index + 1 :]),
            faults=world.faults + bool(fault),
            removed=world.removed | self._taken_away(index, asked, world.objects, struck.objects),
            published=self._noted(world, asked.key, struck.objects),
            naps=self._naps(world, index, asked),
            gone=world.gone | self._acknowledged(world) if asked.operation == "drop" else world.gone,
        )

    def _late(self, world: World, index: int, asked: Request, reply: Reply) -> Reply:
        """The reply, with an hour added if the actor slept meanwhile or the request takes that long."""
        slow = any(asked.label.startswith(label) for label in self.scenario.slow)
        passed_s = NAP_S * (world.naps[index] + slow)
        return replace(reply, nap_s=reply.nap_s + passed_s) if passed_s else reply

    def _naps(self, world: World, index: int, asked: Request) -> tuple[bool, ...]:
        """Which actors sleep for an hour: those under way while snapshots expire, as expiry spares young snapshots (H6)."""
        naps = [slept and i != index for i, slept in enumerate(world.naps)]
        expires = asked.operation == "delete" and any(key.startswith("snapshot/snapshot-") for key in asked.keys)
        if expires and self.scenario.actors[index].kind == "expirer" and not self.scenario.by_hand:
            naps = [slept or self._falls_asleep(world, i) for i, slept in enumerate(naps)]
            naps[index] = False
        return tuple(naps)

    def _falls_asleep(self, world: World, index: int) -> bool:
        """An actor sleeps once at most. Two naps at different steps would multiply the states without a new effect."""
        play = self.cast.plays[world.actors[index]]
        awake = play.pending is None or not world.started[index] or self.scenario.actors[index].kind == "expirer"
        return not awake and not any(reply.nap_s for _, reply in play.history)

    def _acknowledged(self, world: World) -> frozenset[str]:
        told = [line for number in world.actors for line in self.cast.plays[number].told]
        return frozenset(line.commit for line in told if line.outcome == "committed")

    def _noted(self, world: World, key: str, objects: Objects) -> History:
        if not key.startswith("snapshot/snapshot-") or key not in objects or objects[key] is world.objects.get(key):
            return world.published
        return self._chronicle.noted(world.published, objects, key)

    def successors(self, world: World, choice: Choice) -> Iterator[tuple[World, tuple[Choice, ...]]]:
        """The states after a choice and all private requests of the same actor. A fault may strike on the way."""
        path = [choice]
        while True:
            world = self.moved(world, path[-1])
            index = choice[0]
            pending = self.cast.plays[world.actors[index]].pending if index >= 0 else None
            if not self.independent.holds(pending, index, world.objects) or len(path) > self.scenario.longest:
                yield world, tuple(path)
                return
            for fault in self._faults(world, index):
                for further, rest in self.successors(world, (index, fault)):
                    yield further, (*path, *rest)
            path.append((index, ""))

    def _private_reply(self, request: Request, index: int, objects: Objects) -> Reply | None:
        unknown = request.operation == "read" and request.key not in objects
        unknown |= (
            request.key.startswith(COPIES) and request.operation != "write"
        )  # it may see what was just written there
        if unknown or not self.independent.holds(request, index, objects):
            return None
        return answer(objects, request)[1]

    def _taken_away(self, index: int, request: Request, before: Objects, after: Objects) -> frozenset[str]:
        if self.scenario.actors[index].kind not in ("rollback", "foreign"):
            return frozenset()
        keys = [k for k in (request.key, *request.keys) if k.startswith("snapshot/snapshot-")]
        return frozenset(
            identity_of(before[k])
            for k in keys
            if k in before and before[k] is not after.get(k) and before[k] != after.get(k)
        )

    # ------------------------------------------------------------------------------------------------------- judging

    def judge(self, world: World) -> list[Violation]:
        plays = [self.cast.plays[n] for n in world.actors]
        ended = all(play.pending is None for play in plays)
        if self.scenario.has("dropper") and not ended:
            return []  # a snapshot may land where the table was dropped just now; the state at the end counts
        if self.scenario.has("alterer") and not any(t.outcome == "committed" for p in plays for t in p.told):
            return []  # the first commit may still correct the layout until its rows are acknowledged
        reading = self._reading(world)
        context = Context(
            removed=world.removed,
            published=world.published,
            gone=world.gone,
            troubled=world.faults > 0
            or bool(self.scenario.slow)
            or self.scenario.interferes
            or self.scenario.has("dropper"),
            deletes=self.scenario.doomed is not None
            or self.scenario.has("expirer", "rollback", "cleaner", "dropper", "untagger"),
            foreign=self.scenario.has("foreign"),
            twins=self.scenario.twins,
            keyed=self.scenario.schema is not None and bool(self.scenario.schema.primary_keys),
        )
        found = violations(world.objects, reading, [t for p in plays for t in p.told], context)
        found += [v for p in plays for v in _lowered_late(p)]
        found += [Violation("follow", text) for p in plays for text in misread(p.told, world.published)]
        calm, rolled_back = world.faults == 0, self.scenario.has("rollback")
        read = [t for p in plays for t in p.told]
        lost = lost_changes(read, world.published, world.objects, calm=calm, rolled_back=rolled_back)
        found += [Violation("follow", text) for text in lost]
        found += [Violation("G7", text) for p in plays for text in unheld(p.told, world.objects)]
        found += [Violation("G7", text) for p in plays for text in broken_branches(p.told, world.objects)]
        found += [Violation("G2", text) for p in plays for text in broken_copies(p.told, world.objects)]
        if ended and self.scenario.doomed is not None:
            found += [Violation("G7", text) for text in left_behind(world.objects, self.scenario.doomed)]
        if not found and ended and world.faults == 0:
            found += self._not_landed(plays)
        return found

    def _reading(self, world: World) -> Reading:
        seen = self._footprint(world.objects)
        reading = self._readings.get(seen)
        if reading is None:
            reading = self._readings[seen] = look(world.objects, needs_schema=self.scenario.has("dropper"))
        return reading

    def end(self, world: World) -> End:
        told = tuple(self.cast.plays[number].told for number in world.actors)
        return told, tuple(view.visible for view in self._reading(world).views)

    def _not_landed(self, plays: list[Play]) -> Iterator[Violation]:
        for name in sorted(self.scenario.must_land):
            told = [line for line in plays[self.names.index(name)].told if line.outcome != BEGAN]
            if not told:
                yield Violation("liveness", f"{name} ended without reporting the outcome of its commit")
            for line in told:
                if line.outcome != "committed":
                    yield Violation(
                        "liveness", f"{line.commit} was reported as {line.outcome} ({line.detail}) without a fault"
                    )

    def key(self, world: World) -> bytes:
        """A state as a hash of 16 bytes: what readers can see, the requests in flight, and the state of every actor."""
        whole = self.scenario.doomed is not None or self.scenario.has("cleaner")
        seen = frozenset(world.objects.items()) if whole else self._footprint(world.objects)
        # A request that is sent twice can land twice.
        flying = frozenset(Counter(world.in_flight).items()) if world.in_flight else _NOTHING
        parts = (world.actors, world.started, world.faults, world.naps, hash(world.removed), hash(world.gone))
        text = repr((hash(seen), hash(flying), parts))
        return hashlib.blake2b(text.encode(), digest_size=16).digest()

    def _footprint(self, objects: Objects) -> Hashable:
        if self._seen[0] is not objects:
            self._seen = (objects, footprint(objects))
        return self._seen[1]

    # ------------------------------------------------------------------------------------------------------- stories

    def story(self, path: tuple[Choice, ...]) -> list[Step]:
        world, steps = self.first(), []
        for index, fault in path:
            if index < 0:
                request = world.in_flight[-1 - index]
                world = self.moved(world, (index, fault))
                steps.append(Step("the store", request.label, "lands late", "", (), ()))
                continue
            before = self.cast.plays[world.actors[index]]
            assert before.pending is not None
            struck = strike(world.objects, before.pending, fault)
            world = self.moved(world, (index, fault))
            after = self.cast.plays[world.actors[index]]
            steps.append(_step(self.names[index], before, after, fault, struck.reply))
        return steps


def explore(
    scenario: Scenario,
    *,
    max_states: int | None = None,
    max_seconds: float | None = None,
    independent: Independence | None = None,
) -> Exploration:
    """Visit every state that a scenario can reach, breadth first, until a guarantee breaks or a limit is reached.
    Requests in `independent` are played at once. If an actor then does what they rely on nobody to do, the exploration
    begins again with less.
    """
    began = time.monotonic()
    for independence in (independent or Independence(scenario), Independence(scenario, snapshots_stay=False)):
        explorer, result = Explorer(scenario, independence), Exploration(scenario)
        with _without_collector(), explorer.cast.kept():
            _search(explorer, result, began, max_states, max_seconds)
        if result.violation is not None or not independence.mistaken:
            break
    return result


def _search(
    explorer: Explorer, result: Exploration, began: float, max_states: int | None, max_seconds: float | None
) -> None:
    first = explorer.first()
    start = explorer.key(first)
    parents: dict[bytes, tuple[bytes, tuple[Choice, ...]] | None] = {start: None}
    frontier: deque[tuple[World, bytes, int]] = deque([(first, start, 0)])
    while frontier:
        world, key, depth = frontier.popleft()
        if explorer.independent.mistaken:
            break
        if depth > explorer.scenario.longest:
            result.violation, result.path = Violation("liveness", "the run does not end"), _path(parents, key)
            break
        choices = list(explorer.choices(world))
        if not choices:
            result.ends.add(explorer.end(world))
        for choice in choices:
            for further, path in explorer.successors(world, choice):
                reached = explorer.key(further)
                if reached in parents:
                    continue
                parents[reached] = (key, path)
                result.depth = max(result.depth, depth + 1)
                found = explorer.judge(further)
                if len(path) > explorer.scenario.longest:
                    found = [Violation("liveness", "the run does not end")]
                if found:
                    result.violation, result.path = found[0], _path(parents, reached)
                    frontier.clear()
                    break
                frontier.append((further, reached, depth + 1))
            if result.violation is not None:
                break
        if max_states is not None and len(parents) >= max_states:
            break
        if max_seconds is not None and time.monotonic() - began > max_seconds:
            break
    result.states, result.runs, result.seconds = len(parents), explorer.cast.runs, time.monotonic() - began
    result.exhausted = not frontier and result.violation is None


@contextmanager
def _without_collector() -> Iterator[None]:
    """Run without the garbage collector: searching millions of long-lived tuples for cycles would double the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def play_alone(actor: Actor, number: int, objects: Objects, schema: TableSchema | None) -> Objects:
    held = objects

    def wire(request: Request) -> Reply:
        nonlocal held
        held, reply = answer(held, request)
        return reply

    actor.role(Stage(actor.name, number, wire, schema=schema or lab_schema()))
    return held


def _path(parents: dict[bytes, tuple[bytes, tuple[Choice, ...]] | None], key: bytes) -> tuple[Choice, ...]:
    parts: list[tuple[Choice, ...]] = []
    link = parents[key]
    while link is not None:
        parts.append(link[1])
        link = parents[link[0]]
    return tuple(choice for part in reversed(parts) for choice in part)


def _step(name: str, before: Play, after: Play, fault: str, reply: Reply | None) -> Step:
    assert before.pending is not None
    status = "" if reply is None else ("no answer" if reply.status == 0 else str(reply.status))
    told, events = after.told[len(before.told) :], after.events[len(before.events) :]
    return Step(name, before.pending.label, fault, status, told, events)


def _lowered_late(play: Play) -> list[Violation]:
    """H7: a hint that is written long after its snapshot was published."""
    if play.pending is None or play.pending.key != "snapshot/LATEST" or play.pending.operation != "write":
        return []
    since = max((n for n, (q, _) in enumerate(play.history) if q.operation == "create"), default=0)
    if any(reply.nap_s for _, reply in play.history[since:]):
        return [
            Violation("H7", "LATEST is written an hour after the publish: readers that trust it would go back in time")
        ]
    return []
