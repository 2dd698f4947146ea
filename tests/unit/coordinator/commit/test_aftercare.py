"""What a committer does after a commit: what it reads, for whom it waits, and how long."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import replace
from itertools import count
from typing import cast

import pytest

from lakelatch.backends.memory import MemoryStore
from lakelatch.coordinator.commit import aftercare
from lakelatch.coordinator.commit.aftercare import Aftercare
from lakelatch.coordinator.commit.knowledge import Knowledge
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.coordinator.intents.claims import STALE_AFTER_MS, Claims
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.core.metadata.data_file import EMPTY_ROW
from lakelatch.core.paths import TablePaths
from lakelatch.lab.world.stage import keyed_schema

NUMBERS = count()
ONE = (EMPTY_ROW, 0)


class World:
    def __init__(self) -> None:
        self.slept: list[float] = []
        self.around = replace(
            MACHINE, sleep=self.slept.append, uniform=lambda least, most: least, monotonic_s=lambda: 1.0
        )
        self.timeline = Timeline(MemoryStore(f"memory://aftercare-{next(NUMBERS)}/t"), TablePaths())
        schema = keyed_schema()
        self.knows = Knowledge(self.around, schema)
        self.care = Aftercare(self.timeline, schema, self.around, self.knows, cast(Executor, None))


@pytest.mark.parametrize("attempt_s", [0.0, 0.001, 0.3, 5.0])
def test_who_waits_does_so_until_the_claim_of_a_dead_process_counts_no_more(attempt_s: float) -> None:
    world = World()
    world.knows.crowd.observe(3, attempt_s, 1.0)
    Claims(world.timeline, MACHINE).take([ONE])
    world.care.wait_for(ONE)
    assert len(world.slept) == aftercare.MOST_WAITS
    assert STALE_AFTER_MS / 1000 <= sum(world.slept) <= 2 * STALE_AFTER_MS / 1000
    assert max(world.slept) <= aftercare.LONGEST_WAIT_S and world.slept == sorted(world.slept)


def test_who_waits_for_nobody_looks_once() -> None:
    world = World()
    world.knows.crowd.observe(3, 0.1, 1.0)
    world.care.wait_for(ONE)
    assert world.slept == [0.05]


def test_only_who_has_met_others_claims() -> None:
    world = World()
    assert world.care.take([ONE]) == [ONE] and list(world.timeline.store.list("")) == []
    world.knows.crowd.observe(3, 0.1, 1.0)
    assert world.care.take([ONE]) == [ONE] and len(list(world.timeline.store.list(""))) == 1
    world.care.give_back()
    assert list(world.timeline.store.list("")) == []
