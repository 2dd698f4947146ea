"""Scenarios of expiry beside those whom it may hurt: consumers, taggers, writers, compactions and rollbacks without a tag.

Owns: the role `consumer`, the scenarios, and `unheld`, what must hold for a consumer. Must not know: schedules, faults.
Source: decisions 10, 56, 64; H10. Invariant: shipped code sets the consumer and decides what expires.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...coordinator.maintenance.expiry.consumers import place_consumer
from ...core.errors import LakelatchError
from ...core.metadata.snapshot import parse_snapshot
from ..scenarios.scenario import Scenario
from ..scenarios.writers import history
from ..world.reading import view
from ..world.simulated_store import Objects
from ..world.stage import PATHS, Stage, Told, read_only
from .jobs import Actor, Role, writer
from .maintainers import expirer, restorer, tagger
from .rewriters import compactor

PLACED = "placed"


def consumer(name: str, snapshot: int) -> Role:
    def role(stage: Stage) -> None:
        try:
            place_consumer(stage.timeline(), name, snapshot)
        except LakelatchError:
            return
        stage.tell(Told(name, PLACED, str(snapshot), None, ()))

    return role


def unheld(told: Iterable[Told], objects: Objects) -> Iterator[str]:
    for line in told:
        if line.outcome != PLACED:
            continue
        key = PATHS.snapshot(int(line.detail))
        if key not in objects:
            yield f"consumer {line.commit} was set to snapshot {line.detail}, which is gone"
            continue
        with read_only(objects) as timeline:
            try:
                missing = sorted(view(timeline, parse_snapshot(objects[key], key), objects).needs - objects.keys())
            except LakelatchError as error:
                missing = [error.message]
        if missing:
            yield f"consumer {line.commit} was set to snapshot {line.detail}, which lacks {missing[0]}"


def consumer_while_expiring(budget: int) -> Scenario:
    """A consumer is set to a snapshot that an expiry removes: it is refused, or the snapshot stays."""
    before = (*history(1), Actor("over", writer(overwrites=True), "overwriter"))
    actors = (Actor("K", consumer("etl", 1), "consumer"), Actor("X", expirer(), "expirer"))
    return Scenario(f"a consumer while expiring, {budget} faults", actors, budget, before=before)


def expiring_beside_all(budget: int) -> Scenario:
    before = (*history(1), Actor("over", writer(overwrites=True), "overwriter"))
    actors = (
        Actor("C", compactor(), "compactor"),
        Actor("T", tagger("eod", 1), "tagger"),
        Actor("X", expirer(), "expirer"),
    )
    return Scenario(f"expiring beside a compaction and a tag, {budget} faults", actors, budget, before=before)


def expiring_after_a_rollback(budget: int) -> Scenario:
    """A rollback has brought files back, and somebody has deleted its tag. The files stay when the snapshot that had them first
    expires, beside a writer.
    """
    before = (
        *history(1),
        Actor("over", writer(overwrites=True), "overwriter"),
        Actor("back", restorer(1), "restorer"),
        Actor("U", _untag_all, "untagger"),
    )
    actors = (Actor("A", writer()), Actor("X", expirer(retained=2), "expirer"))
    return Scenario(f"expiring after a rollback, {budget} faults", actors, budget, before=before)


def _untag_all(stage: Stage) -> None:
    stage.store.delete_many([info.key for info in stage.store.list(PATHS.tag_dir)])
