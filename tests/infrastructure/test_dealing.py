"""How test files are dealt to the processes of a run, and what Python does for its garbage meanwhile."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from dealing import STARTED_FOR, Dealer, room

SPARK, INTEROP = STARTED_FOR[:2]


class Process:
    """A process of a run, as the dealer sees it."""

    def __init__(self, number: int) -> None:
        self.gateway = SimpleNamespace(id=f"gw{number}")
        self.shutting_down = False
        self.got: list[int] = []

    def send_runtest_some(self, indices: Sequence[int]) -> None:
        self.got.extend(indices)

    def shutdown(self) -> None:
        self.shutting_down = True


class Run:
    """Files of four tests each, dealt to processes that take turns at finishing a test."""

    def __init__(self, files: Sequence[str], processes: int) -> None:
        self.tests = [f"{file}::test_{n}" for file in files for n in range(4)]
        settings: dict[str, Any] = {"tx": [f"{processes}*popen"], "dist": "loadfile"}
        config = SimpleNamespace(getvalue=settings.__getitem__, option=SimpleNamespace(loadscopereorder=False))
        self.dealer = Dealer(config)
        self.processes = [Process(n) for n in range(processes)]
        self.done: dict[Process, int] = dict.fromkeys(self.processes, 0)
        for process in self.processes:
            self.dealer.add_node(process)
            self.dealer.add_node_collection(process, self.tests)
        self.dealer.schedule()

    def finish_one(self, process: Process) -> None:
        index = process.got[self.done[process]]
        self.done[process] += 1
        self.dealer.mark_test_complete(process, index)

    def to_its_end(self, *processes: Process) -> None:
        while waiting := [p for p in processes or self.processes if self.done[p] < len(p.got)]:
            for process in waiting:
                self.finish_one(process)

    def files_of(self, process: Process) -> list[str]:
        return list(dict.fromkeys(self.tests[index].split("::")[0] for index in process.got))


def named(folder: str, count: int) -> list[str]:
    return [f"{folder}test_{n}.py" for n in range(count)]


def test_one_process_gets_the_files_of_a_room() -> None:
    """Spark and Apache Paimon start in one process each; every test runs once."""
    spark, interop, others = named(SPARK, 6), named(INTEROP, 6), named("tests/unit/", 30)
    run = Run([*spark, *interop, *others], 3)
    run.to_its_end()
    assert set(spark) <= set(run.files_of(run.processes[0]))
    assert set(interop) <= set(run.files_of(run.processes[1]))
    assert set(run.files_of(run.processes[2])) <= set(others)
    assert sorted(index for process in run.processes for index in process.got) == list(range(len(run.tests)))


def test_no_process_waits_while_there_are_files() -> None:
    run = Run(named(SPARK, 6), 2)
    run.to_its_end()
    assert [len(run.files_of(process)) for process in run.processes] == [3, 3]


def test_the_rooms_of_a_process_that_ended_are_free() -> None:
    """A process that crashed leaves them to one other process, not to all."""
    run = Run([*named(SPARK, 6), *named("tests/unit/", 30)], 3)
    crashed, first, second = run.processes
    assert run.dealer.remove_node(crashed) == run.tests[0]
    run.to_its_end(first, second)
    assert sorted(len([f for f in run.files_of(p) if room(f)]) for p in (first, second)) == [0, 6]


def test_collected_tests_are_no_garbage_to_look_through() -> None:
    assert gc.isenabled()
    assert gc.get_freeze_count() > 10_000
