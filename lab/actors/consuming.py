"""The actors that read a table's changes under a consumer, or from the checkpoint of a stream, and are started again.

Owns: the roles `consuming` and `stream`, the scenarios with them, and `lost_changes`: what must hold for all that the readers
of one consumer have read. Must not know: schedules, faults. Source: decisions 56, 61; H6, H18.
Invariant: shipped code decides where a reader begins, what comes next, and when its consumer moves.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from ...backends.store import ObjectNotFound
from ...coordinator.maintenance.expiry.consumers import PREFIX
from ...core.errors import InvalidArgument, LakelatchError
from ...core.metadata.snapshot import Snapshot
from ...table.following.consumer import Mover, start_of_consumer
from ...table.following.position import Position
from ...table.following.ranges import Limits, Ranges
from ...table.following.reader import Follower
from ..exploring.independence import CHECKPOINTS
from ..scenarios.scenario import Scenario
from ..scenarios.writers import history
from ..world.published import Published
from ..world.simulated_store import Objects
from ..world.stage import Stage, Told
from .expiring import consumer
from .jobs import Actor, Role, writer
from .maintainers import expirer, restorer, rollback

TOOK, STOPPED = "took", "stopped"
"""The outcomes of a batch that was worked on, and of a reader that cannot go on. Its `commit` is the name of the consumer."""


def consuming(name: str, batches: int) -> Role:
    def role(stage: Stage) -> None:
        timeline, placed = stage.timeline(), False
        try:
            position, told = start_of_consumer(timeline, name, "earliest", timeline.latest(), False)
            placed = True
            follower = Follower(timeline, stage.schema, position, wait_s=0.0, acknowledged=told)
            for number, batch in enumerate(follower, 1):
                stage.store.put(f"results/{stage.name}-{number}", str(batch.position).encode())
                stage.tell(Told(name, TOOK, str(batch.position), None, ()))
                if number == batches:
                    return
        except LakelatchError as error:
            _tell_stop(stage, name, placed, error)

    return role


def stream(name: str, batches: int) -> Role:
    """A stream of Spark with a consumer: its checkpoint notes each batch's end before it, and that it landed after it.
    Started again, it goes on with its checkpoint, and repeats a batch that has not been noted as landed.
    """

    def role(stage: Stage) -> None:
        timeline, placed = stage.timeline(), False

        def begin(newest: Snapshot | None) -> tuple[Position, bool]:
            position, _ = start_of_consumer(timeline, name, "earliest", newest, False)
            return position, False

        ranges = Ranges(timeline, stage.schema, begin, limits=Limits(snapshots=2))
        try:
            noted, landed = _checkpoint(stage, name)
            number = len(noted) if landed else max(0, len(noted) - 1)
            at = noted[number - 1] if number else ranges.initial()
            placed = True
            if noted and landed:
                ranges.between(at, at)  # as Spark 4.1 does after a restart
            for _ in range(batches):
                if number < len(noted):
                    end = noted[number]
                else:
                    end = ranges.latest()
                    if end == at:
                        return
                    stage.store.put(f"{CHECKPOINTS}{name}/offsets-{number}", str(end).encode())
                    if number:
                        Mover(timeline, name)(at)
                read = [Position.of(s) for window in ranges.between(at, end) for s in window.snapshots]
                stage.tell(Told(name, TOOK, " ".join(map(str, (f"#{number}", *read))), None, ()))
                stage.store.put(f"{CHECKPOINTS}{name}/landed-{number}", b"")
                at, number = end, number + 1
        except LakelatchError as error:
            _tell_stop(stage, name, placed, error)

    return role


def _checkpoint(stage: Stage, name: str) -> tuple[list[Position], bool]:
    noted = list[Position]()
    while (text := _held(stage, f"{CHECKPOINTS}{name}/offsets-{len(noted)}")) is not None:
        noted.append(Position.parse(text.decode()))
    return noted, _held(stage, f"{CHECKPOINTS}{name}/landed-{len(noted) - 1}") is not None


def _held(stage: Stage, key: str) -> bytes | None:
    try:
        return stage.store.get(key)
    except ObjectNotFound:
        return None


def _tell_stop(stage: Stage, name: str, placed: bool, error: LakelatchError) -> None:
    if placed and isinstance(error, InvalidArgument):
        stage.tell(Told(name, STOPPED, error.message, None, ()))


def lost_changes(
    told: Iterable[Told], published: Mapping[str, Published], objects: Objects, *, calm: bool, rolled_back: bool
) -> Iterator[str]:
    """What is wrong with what the readers of one consumer have read together, in the order of their lives. `calm`: nothing has
    failed, so a consumer keeps what is still to be read. `rolled_back`: a rollback has removed snapshots, which ends a reader.
    """
    told = [line for line in told if line.outcome in (TOOK, STOPPED)]
    for name in sorted({line.commit for line in told}):
        lines = [line for line in told if line.commit == name]
        batches: dict[str, str] = {}
        last, before = 0, ""
        for line in lines:
            if line.outcome == STOPPED:
                if calm and not rolled_back:
                    yield f"consumer {name} has lost what it had still to read: {line.detail}"
                continue
            number, read = _parts(line.detail)
            if number and batches.setdefault(number, line.detail) != line.detail:
                yield f"the batch {number} of {name} was repeated with other changes"
            for position in read:
                if last and position.snapshot_id > last + 1:
                    yield f"{name} took the changes of snapshot {position.snapshot_id} after those of {last}"
                base = published[position.identity].base if position.identity in published else before
                if position.snapshot_id == last + 1 and before and base != before:
                    yield f"{name} took snapshot {position.snapshot_id}, which is not built on the {last} that it had taken"
                if position.snapshot_id > last:
                    last, before = position.snapshot_id, position.identity
        yield from _misplaced(name, last, objects, calm, streams=bool(batches))


def _misplaced(name: str, last: int, objects: Objects, calm: bool, streams: bool) -> Iterator[str]:
    """A consumer, which began at snapshot 1, is not above what was taken; if nothing failed, not below what was acknowledged."""
    data = objects.get(f"consumer/{PREFIX}{name}")
    if data is None:
        return
    place = json.loads(data)["nextSnapshot"]
    if place > last + 1:
        yield f"consumer {name} is at snapshot {place}, and {last} was the last one that was worked on"
    if calm and not streams and place < last:
        yield f"consumer {name} is at snapshot {place} again, although {last - 1} was acknowledged"


def _parts(detail: str) -> tuple[str, list[Position]]:
    number, *rest = detail.split() if detail.startswith("#") else ("", *detail.split())
    return number, [Position.parse(text) for text in rest]


_PLACED = (*history(2), Actor("K", consumer("etl", 1), "consumer"))


def _of_readers(name: str, budget: int, readers: tuple[Actor, ...], others: tuple[Actor, ...]) -> Scenario:
    victims = frozenset(actor.name for actor in readers)
    actors, no_one = (*readers, *others), frozenset[str]()
    return Scenario(f"{name}, {budget} faults", actors, budget, before=_PLACED, victims=victims, lands=no_one)


def consumed_while_expiring(budget: int) -> Scenario:
    """A reader ends and another one goes on under its consumer, while what was read expires."""
    readers = (
        Actor("F", consuming("etl", 2), "stream"),
        Actor("G", consuming("etl", 2), "stream", after=("F",)),
    )
    return _of_readers("consumed while expiring", budget, readers, (Actor("X", expirer(), "expirer"),))


def streamed(budget: int) -> Scenario:
    readers = (
        Actor("F", stream("etl", 1), "stream"),
        Actor("G", stream("etl", 2), "stream", after=("F",)),
    )
    return _of_readers("streamed", budget, readers, (Actor("A", writer()),))


def streamed_while_restored(budget: int) -> Scenario:
    """A stream ends and goes on from its checkpoint, while the table is rolled back by a commit, and expires."""
    readers = (
        Actor("F", stream("etl", 2), "stream"),
        Actor("G", stream("etl", 2), "stream", after=("F",)),
    )
    others = (Actor("R", restorer(1), "restorer"), Actor("X", expirer(), "expirer"))
    return _of_readers("streamed while restored and expiring", budget, readers, others)


def streamed_while_rolled_back(budget: int) -> Scenario:
    """A stream sleeps between two runs while the table is rolled back as the format does it, and freed ids are used again."""
    readers = (
        Actor("F", stream("etl", 1), "stream"),
        Actor("G", stream("etl", 2), "stream", after=("F",)),
    )
    others = (Actor("Z", rollback(1), "rollback"), Actor("A", writer(2), after=("Z",)))
    return _of_readers("streamed while rolled back", budget, readers, others)
