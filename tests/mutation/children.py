"""Tests run in forked children of a process that has already imported what all tests need.

Owns: `Task`, `Result`, `Children`, and the import hook that puts a mutant in the place of a module: in memory, so that no file
of the checkout changes and several can run at once. Must not know: which tests judge a mutant, or what a result means.
Invariants: a child is the leader of a process group that is killed as soon as its result is there; what a mutant may be
planted in is imported in children alone.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NoReturn

import pytest

from .mutants import Mutant

WAITING = 4.0
"""A test that waits for others may take so many times as long as it computes, and its recorded seconds stay the same."""

WARM = (
    *("pyarrow.parquet", "pyarrow.dataset", "pyarrow.orc", "numpy", "pandas", "fastavro", "fsspec.asyn", "tenacity"),
    *("hypothesis", "pyroaring", "cramjam", "asyncio", "concurrent.futures", "unittest.mock", "psutil", "s3fs"),
    *("xdist.plugin", "pytest_timeout", "_hypothesis_pytestplugin"),
)
"""What most tests import, and what survives a fork: nothing here starts a thread. OpenTelemetry is not among them: commits look
whether a process has imported it."""

MEMORY_BYTES = 8 << 30
"""Of a child: a mutant that fills the memory fails alone."""

_OTHER_PROCESSES = {
    *("s3_host", "gcs_host", "azure_host", "hdfs_host", "minio_host", "spark"),
    *("pool", "kills"),  # the lab's explorations in processes of their own, which would not see a mutant
}
_BETWEEN_TESTS_SECONDS = 90.0
"""For imports, collection and fixtures at the end; and for a test of which no limit is known."""

_NIGHTLY = ("LAKELATCH_NIGHTLY", "LAKELATCH_NO_SKIPS")
"""Settings that make tests longer, or fail those that need a server."""

_FAST = "not slow and not spark"


@dataclass(frozen=True)
class Task:
    """What one child does.

    Attributes:
        files: test files to collect, relative to the checkout.
        limits: node id -> seconds, in the order in which they run; where it is empty, all tests of the files run.
        mutant: the bug that is planted, if any.
        recorded: files whose lines are recorded test by test.
    """

    files: tuple[str, ...]
    limits: Mapping[str, float] = field(default_factory=dict)
    mutant: Mutant | None = None
    recorded: tuple[str, ...] = ()


@dataclass(frozen=True)
class Result:
    """What came of it.

    Attributes:
        outcome: "passed", "failed", "timeout" or "crashed".
        by: the test that failed or was running, where there was one.
        passed: test -> seconds.
        lines: file -> test -> the lines that it ran.
        seconds: that the child took.
    """

    outcome: str
    by: str
    passed: dict[str, float]
    lines: dict[str, dict[str, list[int]]]
    seconds: float


class Children:
    """Children of this process, each with one task.

    Args:
        root: the checkout.
        folder: for what they write; nothing in it is kept.
        package: name of the package under test, whose folder is the checkout.
        warm: more modules to import before the first child: none that a mutant may be planted in, or that imports one.
    """

    def __init__(self, root: Path, folder: Path, package: str, warm: Iterable[str] = ()) -> None:
        self._root, self._folder, self._package = root, folder, package
        self._running: dict[int, tuple[Task, Path, float]] = {}
        for module in (*WARM, *warm):
            importlib.import_module(module)

    def __len__(self) -> int:
        return len(self._running)

    def start(self, task: Task) -> None:
        """Begin a task."""
        folder = self._folder / f"{time.monotonic_ns()}"
        folder.mkdir(parents=True)
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if not pid:
            self._be_child(task, folder)
        self._running[pid] = task, folder, time.monotonic()

    def wait(self) -> tuple[Task, Result]:
        """The next task that has ended."""
        pid, status = os.waitpid(-1, 0)
        task, folder, began = self._running.pop(pid)
        try:
            os.killpg(pid, signal.SIGKILL)  # what the tests started, and left
        except ProcessLookupError:
            pass
        result = _result(folder / "result", status, time.monotonic() - began)
        shutil.rmtree(folder, ignore_errors=True)
        return task, result

    def close(self) -> None:
        """End the children that are still running."""
        for pid in list(self._running):
            os.killpg(pid, signal.SIGKILL)
            self.wait()

    def _be_child(self, task: Task, folder: Path) -> None:
        try:
            os.setsid()
            os.chdir(self._root)
            log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT, 0o600)
            for descriptor, target in ((os.open(os.devnull, os.O_RDONLY), 0), (log, 1), (log, 2)):
                os.dup2(descriptor, target)
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            for name in _NIGHTLY:
                os.environ.pop(name, None)
            os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(folder / "hypothesis")
            if task.mutant is not None:
                module = f"{self._package}.{task.mutant.file.removesuffix('.py').replace('/', '.')}"
                sys.meta_path.insert(0, Planted(module.removesuffix(".__init__"), task.mutant.code(self._root)))
            with (folder / "result").open("w") as report:
                _run(task, self._root, folder, report)
        finally:
            os._exit(0)  # the interpreter's own end would wait for threads that a mutant may have stopped


class Planted:
    """An import hook: one module is made of the code given, and of its file in everything else."""

    def __init__(self, module: str, code: CodeType) -> None:
        self._module, self._code = module, code

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """As `importlib` asks for it."""
        spec = PathFinder.find_spec(name, path, target) if name == self._module else None
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(name, spec.origin, self._code)
        return spec


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, code: CodeType) -> None:
        super().__init__(name, path)
        self._code = code

    def get_code(self, fullname: str) -> CodeType:
        return self._code


def _run(task: Task, root: Path, folder: Path, report: Any) -> None:
    _end_after(_BETWEEN_TESTS_SECONDS)
    watch = _Watch(task, report)
    arguments = ["-x"] if task.limits else []  # only known tests end at the first failure
    arguments += ["-q", "-p", "no:cacheprovider", "-p", "no:faulthandler", "-m", _FAST, f"--basetemp={folder}/tmp"]
    if not task.recorded:
        code = pytest.main([*arguments, *task.files], plugins=[watch])
        watch.say(ended=int(code))
        return
    from coverage import Coverage

    files = [str(root / file) for file in task.recorded]
    coverage = Coverage(data_file=str(folder / "coverage"), include=files, config_file=False, concurrency=["thread"])
    watch.began = coverage.switch_context
    coverage.start()
    code = pytest.main([*arguments, *task.files], plugins=[watch])
    coverage.stop()
    data = coverage.get_data()
    for file, path in zip(task.recorded, files, strict=True):
        for line, tests in data.contexts_by_lineno(path).items():
            watch.say(file=file, line=line, tests=[test for test in tests if test])
    watch.say(ended=int(code))


def _end_after(seconds: float) -> None:
    """The watchdog: a thread that needs no Python to end this process, whatever hangs in it."""
    faulthandler.dump_traceback_later(seconds, exit=True, file=2)


def _skip(**_: object) -> NoReturn:
    pytest.skip("needs another process")


class _Watch:
    """A plugin of pytest: runs the tests that were asked for, in that order, and reports each at once."""

    def __init__(self, task: Task, report: Any) -> None:
        self._limits, self._report, self._seconds = task.limits, report, 0.0
        self.began: Any = lambda test: None

    def say(self, **what: object) -> None:
        """A line of the result; it must be there even if this process ends at once."""
        self._report.write(json.dumps(what) + "\n")
        self._report.flush()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self._limits:
            order = {test: place for place, test in enumerate(self._limits)}
            items[:] = sorted((item for item in items if item.nodeid in order), key=lambda item: order[item.nodeid])

    @pytest.hookimpl(tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> None:
        if fixturedef.argname in _OTHER_PROCESSES:
            fixturedef.func = _skip

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        self.say(began=item.nodeid)
        self._seconds, self._passed, computing = 0.0, True, time.process_time()
        _end_after(self._limits.get(item.nodeid, _BETWEEN_TESTS_SECONDS))
        self.began(item.nodeid)
        done = yield
        self.began("")
        _end_after(_BETWEEN_TESTS_SECONDS)
        if self._passed:
            # On a busy machine the clock would say that there is no patience for most tests.
            took = max(time.process_time() - computing, self._seconds / WAITING)
            self.say(passed=item.nodeid, seconds=round(took, 4))
        return done

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds += report.duration
        self._passed &= report.passed
        if report.failed:
            self.say(failed=report.nodeid)


def _result(path: Path, status: int, seconds: float) -> Result:
    passed: dict[str, float] = {}
    lines: dict[str, dict[str, list[int]]] = {}
    running, failed, ended = "", "", None
    for line in path.read_text().splitlines() if path.exists() else ():
        said = json.loads(line)
        running = said.get("began", running)
        failed = failed or said.get("failed", "")
        ended = said.get("ended", ended)
        if "passed" in said:
            passed[said["passed"]] = said["seconds"]
        for test in said.get("tests", ()):
            lines.setdefault(said["file"], {}).setdefault(test, []).append(said["line"])
    if failed:
        outcome = "failed"
    elif ended is None:
        outcome = "timeout" if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 1 else "crashed"
    else:  # 5: no test was left to run
        outcome = "passed" if ended in (0, 5) else "crashed"
    return Result(outcome, failed or ("" if outcome == "passed" else running), passed, lines, seconds)
