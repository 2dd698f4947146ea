"""G1, H1: of any number of racing creates exactly one wins, and the object holds the winner's bytes."""

from __future__ import annotations

import multiprocessing
import threading
from typing import Any

import pytest

from lakelatch.backends.store import AlreadyThere, Created, PutOutcome, Store

from .conftest import stores_of

RACERS = 16


def assert_one_winner(store: Store, outcomes: list[list[PutOutcome]]) -> None:
    """`outcomes[racer][round]`."""
    for number in range(len(outcomes[0])):
        told = [of_racer[number] for of_racer in outcomes]
        winners = [racer for racer, outcome in enumerate(told) if outcome == Created()]
        assert len(winners) == 1, f"round {number}: {told}"
        assert told.count(AlreadyThere()) == RACERS - 1
        assert store.get(key(number)) == body(winners[0])
    assert sorted(info.key for info in store.list("")) == sorted(key(number) for number in range(len(outcomes[0])))


def key(number: int) -> str:
    return f"snapshot/snapshot-{number}"


def body(racer: int) -> bytes:
    return b"%d " % racer * 300


@pytest.mark.parametrize("kind", ["memory", "generic", "metered", "faulty"])
def test_threads(kind: str, request: pytest.FixtureRequest) -> None:
    store = stores_of(kind, request)("table")
    rounds, barrier = 50, threading.Barrier(RACERS)
    outcomes: list[list[PutOutcome]] = [[] for _ in range(RACERS)]

    def race(racer: int) -> None:
        for number in range(rounds):
            barrier.wait(60)
            outcomes[racer].append(store.put_if_absent(key(number), body(racer)))

    threads = [threading.Thread(target=race, args=(racer,)) for racer in range(RACERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert_one_winner(store, outcomes)


@pytest.mark.parametrize(("kind", "rounds"), [("local", 25), ("s3", 15)])
def test_processes(kind: str, rounds: int, request: pytest.FixtureRequest) -> None:
    """The store is used before the fork, and the children use the very same object: it must be fork-safe."""
    store = stores_of(kind, request)("table")
    assert list(store.list("")) == []
    context: Any = multiprocessing.get_context("fork")
    barrier, answers = context.Barrier(RACERS), context.SimpleQueue()
    racers = [
        context.Process(target=race_process, args=(store, racer, rounds, barrier, answers)) for racer in range(RACERS)
    ]
    for process in racers:
        process.start()
    outcomes: list[Any] = [None] * RACERS
    for _ in racers:
        racer, told = answers.get()
        assert not isinstance(told, str), told
        outcomes[racer] = told
    for process in racers:
        process.join(30)
    assert [process.exitcode for process in racers] == [0] * RACERS
    assert_one_winner(store, outcomes)


def race_process(store: Store, racer: int, rounds: int, barrier: Any, answers: Any) -> None:
    try:
        told = []
        for number in range(rounds):
            barrier.wait(60)
            told.append(store.put_if_absent(key(number), body(racer)))
        answers.put((racer, told))
    except BaseException as error:
        answers.put((racer, repr(error)))
        raise
