"""Every interleaving of a few actors with every fault within a budget, breadth first, until something breaks.

Owns: `Scenario`, `explore`, replaying a found path. Must not know: what actors do, what a promise is.
Invariants: the shortest path to a violation is found first; what commutes is folded: requests for names that only their
asker knows, reads of what never changes, and writers that differ in their name alone. A state is kept as a hash.
"""

from __future__ import annotations

import gc
import hashlib
import json
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache

from ..coordinator.object_journal import FOLDER
from ..core.manifest import decode_manifest, decode_manifest_list
from ..core.schema import TableSchema
from .actors import Actor
from .invariants import Context, Reading, Violation, look, violations
from .playing import Cast, Play
from .simulated_store import Objects, Reply, Request, answer, faults_of, strike
from .stage import PATHS, Told

Choice = tuple[int, str]
"""(actor, fault), or (-1 - n, "") for the landing of the n-th request in flight."""

LONGEST_PATH = 2_000

_TAGGED = ("tag/", "changelog/", "branch/", "consumer/")
"""Roots that nobody makes but a rollback, its tag."""


@dataclass(frozen=True)
class Scenario:
    """Who takes part, on which table, and how much may go wrong.

    Attributes:
        before: actors that have played, alone and without faults, before it begins.
        budget: how many faults strike at most.
        faults: which may strike, None for all; `victims`: whom, None for all.
        alike: names of writers that differ in their name alone: they begin in this order.
        twins: commit labels that share one identity.
        overwrites: files may be replaced by other writers.
        replaced: pairs of commit labels: where the rows of the first are, those of the second are not.
        hints: who writes LATEST when is part of the matter.
        given: objects that the store holds from the start.
    """

    name: str
    actors: tuple[Actor, ...]
    budget: int = 0
    before: tuple[Actor, ...] = ()
    faults: frozenset[str] | None = None
    victims: frozenset[str] | None = None
    alike: tuple[str, ...] = ()
    twins: tuple[frozenset[str], ...] = ()
    overwrites: bool = False
    replaced: tuple[tuple[str, str], ...] = ()
    hints: bool = False
    schema: TableSchema | None = None
    given: tuple[tuple[str, bytes], ...] = ()

    def has(self, *kinds: str) -> bool:
        return any(actor.kind in kinds for actor in self.actors)


@dataclass(frozen=True, slots=True)
class World:
    """A state of everything.

    Attributes:
        actors: numbers of the cast's states.
        removed: identities of snapshots that somebody took away on purpose; `bases`: identity -> that of its base.
    """

    objects: Objects
    in_flight: tuple[Request, ...]
    actors: tuple[int, ...]
    started: tuple[bool, ...]
    faults: int
    removed: frozenset[str]
    bases: Mapping[str, str]


@dataclass(frozen=True)
class Step:
    """One step of a story."""

    actor: str
    request: str
    fault: str
    reply: str
    told: tuple[Told, ...]
    events: tuple[str, ...]


@dataclass
class Exploration:
    """What was found.

    Attributes:
        states: different ones; `depth`: of the longest shortest path.
        exhausted: was everything within the budget seen?
        violation: the first that was met, with the choices that lead to it.
    """

    scenario: Scenario
    states: int = 0
    depth: int = 0
    runs: int = 0
    seconds: float = 0.0
    exhausted: bool = False
    violation: Violation | None = None
    path: tuple[Choice, ...] = ()

    def __str__(self) -> str:
        end = "all of them" if self.exhausted else "not all"
        rate = self.states / self.seconds if self.seconds else 0
        line = f"{self.scenario.name}: {self.states} states ({end}), {self.depth} deep, {self.runs} runs, {rate:.0f}/s"
        return line if self.violation is None else f"{line}; BROKEN {self.violation}"


class Explorer:
    """Explores one scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.cast = Cast(scenario.actors, scenario.schema)
        self.names = [actor.name for actor in scenario.actors]
        self._readings: dict[object, Reading] = {}
        self._seen: tuple[Objects, Hashable] = ({}, ())
        self._deleters = scenario.has("expirer", "cleaner")
        self._tags_matter = scenario.has("restorer")
        self._hints_matter = scenario.hints or scenario.has("foreign", "locked", "rollback")

    # ----------------------------------------------------------------------------------------------------- the world

    def first(self) -> World:
        """The world before anybody moved."""
        objects: Objects = dict(self.scenario.given)
        for number, actor in enumerate(self.scenario.before):
            objects = play_alone(actor, 100 + number, objects, self.scenario.schema)
        bases = dict(_identity(data) for key, data in objects.items() if key.startswith("snapshot/snapshot-"))
        actors = tuple(self.cast.begin(i) for i in range(len(self.names)))
        return World(objects, (), actors, (False,) * len(actors), 0, frozenset(), bases)

    def choices(self, world: World) -> Iterator[Choice]:
        """What can happen next."""
        for number in range(len(world.in_flight)):
            yield -1 - number, ""
        for index in range(len(world.actors)):
            if self._may_move(world, index):
                yield from ((index, fault) for fault in ("", *self._faults(world, index)))

    def _may_move(self, world: World, index: int) -> bool:
        if self.cast.plays[world.actors[index]].pending is None:
            return False
        if world.started[index]:
            return True
        actor, alike = self.scenario.actors[index], self.scenario.alike
        if actor.after is not None and self.cast.plays[world.actors[self.names.index(actor.after)]].pending is not None:
            return False
        position = alike.index(actor.name) if actor.name in alike else 0
        return position == 0 or world.started[self.names.index(alike[position - 1])]

    def _faults(self, world: World, index: int) -> Iterator[str]:
        if world.faults >= self.scenario.budget:
            return
        scenario, pending = self.scenario, self.cast.plays[world.actors[index]].pending
        if pending is None or (scenario.victims is not None and self.names[index] not in scenario.victims):
            return
        for fault in faults_of(pending):
            if scenario.faults is None or fault in scenario.faults:
                yield fault

    def moved(self, world: World, choice: Choice) -> World:
        """The world after one choice."""
        index, fault = choice
        if index < 0:
            request = world.in_flight[-1 - index]
            rest = tuple(r for n, r in enumerate(world.in_flight) if n != -1 - index)
            objects, _ = answer(world.objects, request)
            return replace(world, objects=objects, in_flight=rest, bases=_bases(world, request.key, objects))
        number = world.actors[index]
        play = self.cast.plays[number]
        assert play.pending is not None
        struck = strike(world.objects, play.pending, fault)
        if struck.reply is None:
            now = self.cast.dies(index, number)
        else:
            now = self.cast.after(index, number, struck.reply, lambda r: self._private_reply(r, struck.objects))
        removed = world.removed | self._taken_away(index, play.pending, world.objects, struck.objects)
        bases = _bases(world, play.pending.key, struck.objects)
        in_flight = (*world.in_flight, struck.in_flight) if struck.in_flight is not None else world.in_flight
        actors = (*world.actors[:index], now, *world.actors[index + 1 :])
        started = (*world.started[:index], True, *world.started[index + 1 :])
        return World(struck.objects, in_flight, actors, started, world.faults + bool(fault), removed, bases)

    def successors(self, world: World, choice: Choice) -> Iterator[tuple[World, tuple[Choice, ...]]]:
        """The worlds after a choice and all that is private to whoever moved; a fault may strike on the way."""
        path = [choice]
        while True:
            world = self.moved(world, path[-1])
            index = choice[0]
            if index < 0 or not self._is_private(self.cast.plays[world.actors[index]].pending):
                yield world, tuple(path)
                return
            for fault in self._faults(world, index):
                for further, rest in self.successors(world, (index, fault)):
                    yield further, (*path, *rest)
            path.append((index, ""))

    def _is_private(self, request: Request | None) -> bool:
        if request is None:
            return False
        key = request.key or (request.keys[0] if request.keys else "")
        if key.startswith("schema/"):
            return True
        if key.startswith(_TAGGED):
            return not self._tags_matter
        if key == "snapshot/LATEST" and not self._hints_matter:
            return True
        if key.startswith(("snapshot/", FOLDER)):
            return False
        return not self._deleters if request.operation == "read" else request.operation == "write"

    def _private_reply(self, request: Request, objects: Objects) -> Reply | None:
        if not self._is_private(request) or (request.operation == "read" and request.key not in objects):
            return None
        return answer(objects, request)[1]

    def _taken_away(self, index: int, request: Request, before: Objects, after: Objects) -> frozenset[str]:
        """Snapshots that a rollback, or a writer that renames over names, removed on purpose."""
        if self.scenario.actors[index].kind not in ("rollback", "foreign"):
            return frozenset()
        keys = [k for k in (request.key, *request.keys) if k.startswith("snapshot/snapshot-")]
        return frozenset(
            _identity(before[k])[0]
            for k in keys
            if k in before and before[k] is not after.get(k) and before[k] != after.get(k)
        )

    # ------------------------------------------------------------------------------------------------------- judging

    def judge(self, world: World) -> list[Violation]:
        """What this state breaks."""
        footprint = self._footprint(world.objects)
        reading = self._readings.get(footprint)
        if reading is None:
            reading = self._readings[footprint] = look(world.objects)
        plays = [self.cast.plays[n] for n in world.actors]
        context = Context(
            removed=world.removed,
            bases=world.bases,
            faults=world.faults,
            deletes=self.scenario.has("expirer", "rollback", "cleaner"),
            foreign=self.scenario.has("foreign"),
            twins=self.scenario.twins,
            overwrites=self.scenario.overwrites,
            replaced=self.scenario.replaced,
        )
        found = violations(world.objects, reading, [t for p in plays for t in p.told], context)
        found += [v for p in plays for v in _lowered_late(p)]
        if not found and all(p.pending is None for p in plays) and self._must_all_land(world):
            writers = [p for p, actor in zip(plays, self.scenario.actors, strict=True) if actor.kind == "writer"]
            lost = [t for p in writers for t in p.told if t.outcome != "committed"]
            found += [
                Violation("liveness", f"{t.commit} was told {t.outcome} ({t.detail}), without a fault") for t in lost
            ]
        return found

    def _must_all_land(self, world: World) -> bool:
        """Do all appends land? A compaction may give up, an append beside it never does."""
        kinds = {actor.kind for actor in self.scenario.actors}
        return world.faults == 0 and kinds <= {"writer", "compactor"} and not self.scenario.overwrites

    def key(self, world: World) -> bytes:
        """A state as 16 bytes: what readers can see, what is on its way, where every actor stands."""
        seen = frozenset(world.objects.items()) if self.scenario.has("cleaner") else self._footprint(world.objects)
        flying = frozenset(world.in_flight)
        text = repr((hash(seen), hash(flying), world.actors, world.started, world.faults, hash(world.removed)))
        return hashlib.blake2b(text.encode(), digest_size=16).digest()

    def _footprint(self, objects: Objects) -> Hashable:
        """What readers can reach; asked for twice per state."""
        if self._seen[0] is not objects:
            self._seen = (objects, _footprint(objects))
        return self._seen[1]

    # ------------------------------------------------------------------------------------------------------- stories

    def story(self, path: tuple[Choice, ...]) -> list[Step]:
        """A path, step by step."""
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


def explore(scenario: Scenario, *, max_states: int | None = None, max_seconds: float | None = None) -> Exploration:
    """Look at every state that a scenario can reach, breadth first, until a promise breaks or nothing is left.

    Args:
        max_states, max_seconds: where to stop; the coverage then says "not all".
    """
    explorer, result, began = Explorer(scenario), Exploration(scenario), time.monotonic()
    with _without_collector():
        _search(explorer, result, began, max_states, max_seconds)
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
        if depth > LONGEST_PATH:
            result.violation, result.path = Violation("liveness", "this goes on for ever"), _path(parents, key)
            break
        for choice in explorer.choices(world):
            for further, path in explorer.successors(world, choice):
                reached = explorer.key(further)
                if reached in parents:
                    continue
                parents[reached] = (key, path)
                result.depth = max(result.depth, depth + 1)
                found = explorer.judge(further)
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
    """Millions of small tuples live to the end: looking for cycles among them doubles the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def play_alone(actor: Actor, number: int, objects: Objects, schema: TableSchema | None) -> Objects:
    """What an actor makes of a store, alone and without faults."""
    from .stage import Stage, lab_schema

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


def _bases(world: World, key: str, objects: Objects) -> Mapping[str, str]:
    """What every snapshot stands on, after `key` was written."""
    if not key.startswith("snapshot/snapshot-") or objects.get(key) is world.objects.get(key) or key not in objects:
        return world.bases
    identity, base = _identity(objects[key])
    return {**world.bases, identity: base}


def _lowered_late(play: Play) -> list[Violation]:
    """H7: a hint that is written long after its publish."""
    if play.pending is None or play.pending.key != "snapshot/LATEST" or play.pending.operation != "write":
        return []
    since = max((n for n, (q, _) in enumerate(play.history) if q.operation == "create"), default=0)
    if any(reply.nap_s for _, reply in play.history[since:]):
        return [Violation("H7", "LATEST is written an hour after the publish: readers that trust it would jump back")]
    return []


@lru_cache(maxsize=100_000)
def _identity(data: bytes) -> tuple[str, str]:
    """A snapshot's identity, and that of the base that it names."""
    raw = json.loads(data)
    identity = raw.get("uuid") or f"{raw['baseManifestList']}|{raw['deltaManifestList']}"
    return identity, raw.get("properties", {}).get("lakelatch.base", "").partition(":")[2]


@lru_cache(maxsize=100_000)
def _lists(data: bytes) -> tuple[str, ...]:
    raw = json.loads(data)
    return PATHS.manifest(raw["baseManifestList"]), PATHS.manifest(raw["deltaManifestList"])


@lru_cache(maxsize=100_000)
def _manifests(data: bytes) -> tuple[str, ...]:
    return tuple(PATHS.manifest(m.file_name) for m in decode_manifest_list(data, "list"))


@lru_cache(maxsize=100_000)
def _data(data: bytes) -> tuple[str, ...]:
    return tuple(f"bucket-0/{e.file.file_name}" for e in decode_manifest(data, "manifest"))


def _footprint(objects: Objects) -> tuple[tuple[str, bytes | None], ...]:
    """All that a reader can reach, and journals, by content; what is missing is None."""
    found: dict[str, bytes | None] = {k: v for k, v in objects.items() if k.startswith(("snapshot/", FOLDER))}
    todo: list[tuple[str, Callable[[bytes], tuple[str, ...]] | None]] = []
    for key, data in list(found.items()):
        if key.startswith("snapshot/snapshot-") and data is not None:
            todo += [(name, _manifests) for name in _lists(data)]
    while todo:
        key, follow = todo.pop()
        if key in found:
            continue
        data = found[key] = objects.get(key)
        if data is not None and follow is not None:
            todo += [(name, _data if follow is _manifests else None) for name in follow(data)]
    return tuple(sorted(found.items(), key=lambda item: item[0]))
