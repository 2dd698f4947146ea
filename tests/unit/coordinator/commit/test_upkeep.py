"""Work that follows commits: once for all that land while it waits to begin, and without any say in their outcome."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.backends.requests.deadline import left_s
from lakelatch.coordinator.commit.upkeep import LONGEST_S, Upkeep
from lakelatch.coordinator.surroundings import MACHINE

COUNTER = itertools.count()


class Later(Executor):
    """Keeps work until the test lets it begin."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], Any]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.waiting.append(lambda: fn(*args, **kwargs))
        return Future()


class World:
    def __init__(self) -> None:
        self.pool, self.made, self.done = Later(), list[tuple[int, str]](), list[str]()
        self.upkeep = Upkeep(replace(MACHINE, executor=self.executor))
        self.upkeep.work = (lambda: self.done.append("tags"), lambda: self.done.append("expiry"))

    def executor(self, count: int, name: str) -> Later:
        self.made.append((count, name))
        return self.pool

    def run(self) -> None:
        while self.pool.waiting:
            self.pool.waiting.pop(0)()


def test_commits_that_land_while_the_work_waits_are_served_by_it() -> None:
    world = World()
    for _ in range(3):
        world.upkeep.due()
    assert (world.made, len(world.pool.waiting)) == ([(1, "lakelatch-upkeep")], 1)
    world.run()
    assert world.done == ["tags", "expiry"]
    world.upkeep.due()
    world.run()
    assert world.done == ["tags", "expiry"] * 2
    assert len(world.made) == 1, "one thread for all"


def test_a_commit_that_lands_during_the_work_has_it_done_again() -> None:
    world, landed = World(), iter([True])
    world.upkeep.work = (lambda: world.done.append("work"), lambda: next(landed, None) and world.upkeep.due())
    world.upkeep.due()
    world.run()
    assert world.done == ["work", "work"]


def test_without_work_no_thread_is_made() -> None:
    world = World()
    world.upkeep.work = ()
    world.upkeep.due()
    world.upkeep.settle()
    assert world.made == []


def test_work_that_fails_is_told_in_the_log_and_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    world, left = World(), list[float]()

    def fails() -> None:
        left.append(left_s())
        raise ValueError("no disk")

    world.upkeep.work = (fails, lambda: world.done.append("next"))
    with caplog.at_level(logging.WARNING, "lakelatch.upkeep"):
        world.upkeep.due()
        world.run()
    assert world.done == ["next"]
    assert [record.getMessage() for record in caplog.records] == [
        "the commit has landed, but work that follows it failed: no disk"
    ]
    assert left == [pytest.approx(LONGEST_S, abs=5.0)], "the store may keep it waiting for so long"
    assert LONGEST_S == 600.0


def test_only_a_commit_that_wrote_something_is_followed_by_work() -> None:
    rows = pa.table({"v": [1]})
    table = ll.create_table(f"memory://after-a-commit-{next(COUNTER)}/t", rows.schema)
    done: list[str] = []
    table.committer.afterwards([lambda: done.append("work")])
    for _ in range(2):
        table.append(rows, commit_user="etl", identifier=1)
        table.committer.settle()
        assert done == ["work"], "the second is a replay"
    table.append(rows)
    table.committer.settle()
    assert done == ["work", "work"]
