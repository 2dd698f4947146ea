"""A race of many writers to create the same keys, which shows whether the store picks exactly one winner each time.

Owns: the race and its count. Must not know: tables, how results are shown. Source: format/stores §1 (one server: 41 right
rounds in 100, though a sequential probe passes). Invariants: only keys under the given prefix are touched, and they are deleted
at the end. A round is right only if exactly one racer got the answer that it won, and the object holds the bytes of that racer.
"""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import Empty
from typing import Any

from ...core.errors import StoreUnavailable
from ..store import AlreadyThere, Created, ObjectNotFound, Store

START_SECONDS = 120.0
"""How long the racers wait for each other before a round."""


@dataclass(frozen=True, slots=True)
class RaceResult:
    """The result of a race.

    Attributes:
        right: rounds with one winner, whose bytes are in the object.
        none_won: rounds without a winner: safe, but a commit would have to try again.
        several_won: rounds in which more than one racer was reported as the winner, so that commits were lost (H1).
        overwritten: rounds in which the object does not hold the winner's bytes.
        unknown: answers that proved nothing.
    """

    racers: int
    rounds: int
    right: int
    none_won: int
    several_won: int
    overwritten: int
    unknown: int

    @property
    def is_safe(self) -> bool:
        """No round had two winners, and no winner's bytes were lost."""
        return not self.several_won and not self.overwritten


def race(store: Store, racers: int, rounds: int, prefix: str, *, threads: bool = False) -> RaceResult:
    """Let several racers create the same keys, one after another, at the same time. Raises StoreUnavailable.

    Args:
        store: each racer gets its own pickled copy, unless racers are threads.
        racers: at least 2.
        prefix: a fresh folder of the store, ending in a slash. It is empty afterwards.
        threads: for stores that other processes cannot see.

    >>> from ..memory import MemoryStore
    >>> race(MemoryStore("memory://doctest-race"), 4, 3, "race/", threads=True).is_safe
    True
    """
    run = _thread_answers if threads else _process_answers
    try:
        answers = run(store, racers, rounds, prefix)
        return _count(store, answers, racers, rounds, prefix)
    finally:
        store.delete_many(_key(prefix, number) for number in range(rounds))


def _key(prefix: str, number: int) -> str:
    return f"{prefix}round-{number}"


def _run(store: Store, racer: int, rounds: int, prefix: str, wait: Callable[[], Any]) -> list[str]:
    answers = []
    for number in range(rounds):
        wait()
        outcome = store.put_if_absent(_key(prefix, number), str(racer).encode())
        won = isinstance(outcome, Created)
        answers.append("won" if won else "lost" if isinstance(outcome, AlreadyThere) else "unknown")
    return answers


def _thread_answers(store: Store, racers: int, rounds: int, prefix: str) -> list[list[str]]:
    barrier = threading.Barrier(racers, timeout=START_SECONDS)
    with ThreadPoolExecutor(racers) as pool:
        runs = [pool.submit(_guarded, store, r, rounds, prefix, barrier) for r in range(racers)]
        return _gathered([run.result() for run in runs])


def _guarded(store: Store, racer: int, rounds: int, prefix: str, barrier: Any) -> list[str] | Exception:
    """Run a racer; if it fails, the other racers are released instead of waiting for it."""
    try:
        return _run(store, racer, rounds, prefix, barrier.wait)
    except Exception as error:
        barrier.abort()
        return error


def _process_answers(store: Store, racers: int, rounds: int, prefix: str) -> list[list[str]]:
    # Spawned, never forked: a client's threads and connections do not survive a fork.
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(racers, timeout=START_SECONDS)
    queue: Any = context.Queue()
    processes = [
        context.Process(target=_process, args=(store, r, rounds, prefix, barrier, queue), daemon=True)
        for r in range(racers)
    ]
    for process in processes:
        process.start()
    try:
        answers = _collected(processes, queue)
    finally:
        for process in processes:
            process.join(timeout=10)
            if process.is_alive():
                process.terminate()
    return _gathered(answers)


def _collected(processes: list[Any], queue: Any) -> list[list[str] | Exception]:
    answers: dict[int, list[str] | Exception] = {}
    while len(answers) < len(processes):
        try:
            racer, answer = queue.get(timeout=1.0)
            answers[racer] = answer
        except Empty:
            if any(process.exitcode for process in processes):
                raise StoreUnavailable("a racer died before it could answer") from None
    return [answers[racer] for racer in range(len(processes))]


def _process(store: Store, racer: int, rounds: int, prefix: str, barrier: Any, queue: Any) -> None:
    queue.put((racer, _guarded(store, racer, rounds, prefix, barrier)))


def _gathered(answers: list[list[str] | Exception]) -> list[list[str]]:
    errors = [a for a in answers if isinstance(a, Exception)]
    if errors:
        broken = threading.BrokenBarrierError  # raised in the other racers, because one failed
        raise next((e for e in errors if not isinstance(e, broken)), errors[0])
    return [a for a in answers if not isinstance(a, Exception)]


def _count(store: Store, answers: list[list[str]], racers: int, rounds: int, prefix: str) -> RaceResult:
    right = none_won = several = overwritten = 0
    for number in range(rounds):
        winners = [racer for racer in range(racers) if answers[racer][number] == "won"]
        try:
            stands = store.get(_key(prefix, number)).decode()
        except ObjectNotFound:
            stands = ""
        none_won += not winners
        several += len(winners) > 1
        overwritten += len(winners) == 1 and stands != str(winners[0])
        right += len(winners) == 1 and stands == str(winners[0])
    unknown = sum(answer == "unknown" for told in answers for answer in told)
    return RaceResult(racers, rounds, right, none_won, several, overwritten, unknown)
