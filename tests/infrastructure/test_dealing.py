"""How test files are dealt to the processes of a run, and what Python does for its garbage meanwhile."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from dealing import STARTED_FOR, Dealer, shared

SPARK, INTEROP = "tests/spark/", "tests/interop/"


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


def test_one_process_gets_the_files_that_share_what_it_started() -> None:
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


def test_another_process_starts_what_one_had_that_ended() -> None:
    """What a crashed process had to do goes to one other process, not to all."""
    run = Run([*named(SPARK, 6), *named("tests/unit/", 30)], 3)
    crashed, first, second = run.processes
    assert run.dealer.remove_node(crashed) == run.tests[0]
    run.to_its_end(first, second)
    assert 0 not in [*first.got, *second.got], "what ended one process would end the other"
    assert sorted(len([f for f in run.files_of(p) if shared(f)]) for p in (first, second)) == [0, 6]


def test_a_run_in_which_processes_crash_ends_and_names_the_tests(tmp_path: Path) -> None:
    """The first and the last test of a file end their processes. Each fails once, all others run, and nobody waits."""
    dealing = "from dealing import Dealer\n\n\ndef pytest_xdist_make_scheduler(config, log):\n    return Dealer(config, log)\n"
    (tmp_path / "conftest.py").write_text(dealing)
    dies, lives = "def test_{}(): os._exit(3)\n", "def test_{}(): pass\n"
    (tmp_path / "test_one.py").write_text("import os\n" + dies.format("a") + lives.format("b"))
    (tmp_path / "test_two.py").write_text("import os\n" + lives.format("c") + dies.format("d"))
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", str(tmp_path)]
    here = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(command, check=False, cwd=tmp_path, env=here, capture_output=True, text=True, timeout=120)
    assert "2 failed, 2 passed" in done.stdout
    assert "crashed while running 'test_one.py::test_a'" in done.stdout
    assert "crashed while running 'test_two.py::test_d'" in done.stdout


def test_the_files_are_there() -> None:
    """A room that is renamed is not silently dealt like any other."""
    assert [named for named in STARTED_FOR if not (Path(__file__).parents[2] / named).exists()] == []
    assert shared("tests/contention/test_stores.py") == shared("tests/contract/test_store.py") == "stores"
    assert shared("tests/unit/core/test_places.py") is None


def test_files_that_take_the_session_lie_with_spark() -> None:
    """Wherever they lie: each further process in which one ran would start a session for it."""
    root = Path(__file__).parents[2]
    takes = re.compile(r"^def test_\w+\([^)]*\bspark: Any", re.MULTILINE)
    found = {str(file.relative_to(root)) for file in root.glob("tests/**/test_*.py") if takes.search(file.read_text())}
    assert len(found) > 20
    assert {file for file in found if shared(file) != "Spark"} == set()


def test_collected_tests_are_no_garbage_to_look_through() -> None:
    assert gc.isenabled()
    assert gc.get_freeze_count() > 10_000


def test_no_library_calls_what_was_collected_a_leak() -> None:
    """DuckDB counts its objects at the end of Python, and would say so on stderr of the whole run."""
    file = "tests/unit/table/rowlevel/test_against_duckdb.py"
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", file]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, check=True, cwd=root, capture_output=True, text=True, timeout=120)
    assert f"{file}::" in done.stdout
    assert done.stderr == ""
