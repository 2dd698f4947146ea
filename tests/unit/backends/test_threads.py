"""H23: threads and locks of one process, work that no thread takes, and interrupts."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakelatch.backends.requests import threads
from lakelatch.backends.requests.deadline import answered_within, left_s
from lakelatch.backends.requests.patience import Patience
from lakelatch.backends.requests.threads import LoopThreads, PerProcess, Threads, _Living, forked_lock, this_process
from lakelatch.core.errors import InvalidArgument
from lakelatch.table.reading.read_ahead import in_order


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the system refuse to start threads."""

    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)


def in_child(does: Callable[[], bool]) -> bool:
    """Whether a check holds in a forked child. A child that hangs is ended by an alarm."""
    import signal

    pid = os.fork()
    if pid == 0:
        signal.alarm(10)
        os._exit(0 if does() else 1)
    return os.waitpid(pid, 0)[1] == 0


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_lock_that_a_thread_holds_is_free_in_a_child() -> None:
    lock = forked_lock()
    release, has_it = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            has_it.set()
            release.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    has_it.wait()
    try:
        assert in_child(lambda: lock.acquire(timeout=1))
        assert not lock.acquire(blocking=False), "it is still held where it was taken"
    finally:
        release.set()
        holder.join()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_value_is_made_once_in_each_process() -> None:
    made: list[tuple[int, int]] = []
    value = PerProcess(lambda: made.append(this_process()) or len(made))  # type: ignore[func-returns-value]
    assert value.made() is None
    assert value.get() == value.get() == value.made() == 1
    assert in_child(lambda: value.made() is None and value.get() == 2 and len(made) == 2)
    assert made == [this_process()]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_read_without_its_threads_after_a_fork_is_an_error() -> None:
    """It must neither hang nor end early, as if there were no more rows."""
    go = threading.Event()

    def task() -> Any:
        yield 1
        go.wait()
        yield 2

    items = in_order([task, task], threads=2)
    assert next(items) == 1

    def refuses() -> bool:
        try:
            return next(items) == 0
        except InvalidArgument as error:
            return "fork" in error.message

    assert in_child(refuses)
    go.set()
    assert list(items) == [2, 1, 2]


@pytest.mark.parametrize("kind", [Threads, LoopThreads])
@pytest.mark.usefixtures("refused")
def test_work_that_no_thread_takes_is_done_by_its_caller_once(kind: Any) -> None:
    done: list[str] = []
    executor = kind(2)
    with answered_within(60):
        assert executor.submit(lambda: (done.append(threading.current_thread().name), left_s() < 61)[1]).result(0)
    assert done == [threading.current_thread().name]
    with pytest.raises(ZeroDivisionError):
        executor.submit(lambda: 1 // 0).result(0)


def test_work_that_a_thread_takes_after_all_is_not_done_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool that cannot start its second thread has still queued the work for its first one."""
    executor, busy, done = Threads(2), threading.Event(), []
    first = executor.submit(busy.wait, 10)

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    second = executor.submit(done.append, 1)
    busy.set()
    assert first.result(5)
    assert second.result(5) is None
    monkeypatch.undo()
    assert executor.submit(int).result(5) == 0
    executor.shutdown()
    assert done == [1]


def test_work_after_a_shutdown_is_done_by_its_caller() -> None:
    executor = Threads(1)
    assert executor.submit(lambda: 1).result() == 1
    executor.shutdown()
    assert executor.submit(threading.current_thread).result(0) is threading.current_thread()


def test_work_that_a_shutdown_drops_is_cancelled() -> None:
    executor, busy = Threads(1), threading.Event()
    first, second = executor.submit(busy.wait, 10), executor.submit(int)
    executor.shutdown(wait=False, cancel_futures=True)
    assert second.cancelled()
    busy.set()
    assert first.result(5)


def test_an_offer_that_no_thread_takes_is_not_done(refused: None) -> None:
    done: list[int] = []
    assert Threads(1).offer(done.append, 1) is False
    assert done == []


@pytest.mark.parametrize("threads", [2, 5])
def test_a_read_without_threads_is_done_by_the_reader(refused: None, threads: int) -> None:
    """There are more items than a thread may be ahead of its reader. Producing all of them first would wait forever."""
    tasks = [lambda i=i: iter([(i, j) for j in range(9)]) for i in range(7)]
    assert list(in_order(tasks, threads, depth=2)) == [(i, j) for i in range(7) for j in range(9)]


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_ends_a_request_that_may_be_repeated(interrupt: type[BaseException]) -> None:
    """An interrupt must not be treated as a failure of the store, which would repeat the request and lose the interrupt."""
    sent: list[int] = []

    def send() -> None:
        sent.append(1)
        raise interrupt

    with pytest.raises(interrupt):
        Patience(first_wait_seconds=0.001, longest_wait_seconds=0.001).retrying(lambda error: True)(send)
    assert sent == [1]


@pytest.mark.usefixtures("refused")
def test_an_interrupt_of_work_done_by_its_caller_reaches_the_caller() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Threads(1).submit(interrupted)


def test_an_interrupt_while_a_thread_begins_costs_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Submitted and later work is done whether or not the thread had started before the interrupt."""
    start = threading.Thread.start
    for begins in (True, False):
        executor, done = Threads(1), threading.Event()

        def interrupted(thread: threading.Thread, begins: bool = begins) -> None:
            if begins:
                start(thread)
            raise KeyboardInterrupt

        monkeypatch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            executor.submit(done.set)
        monkeypatch.undo()
        assert executor.submit(int).result(5) == 0
        assert done.wait(5)
        executor.shutdown()


def test_a_thread_that_never_ends_does_not_delay_exit() -> None:
    """For example a thread that waits for a lock that was never released after an interrupt."""
    code = """
import threading, lakelatch.backends.requests.threads as threads
threads.LAST_SECONDS = 0.2
executor = threads.Threads(2)
executor.submit(threading.Event().wait)
executor.submit(print, "done")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "done\n"


def test_the_ends_of_the_interpreter_share_one_wait() -> None:
    """What is accepted is waited for before the exit handlers and after them, but not twice as long."""
    code = """
import threading, time, lakelatch.backends.requests.threads as threads
threads.LAST_SECONDS = 1.0
threads.Threads(1).submit(threading.Event().wait)
executor = threads.Threads(1)
executor.submit(threading.Event().wait)
began = time.monotonic()
threads._finish()
first = time.monotonic() - began
threads._finish()
print(0.9 < first, time.monotonic() - began - first < 0.5)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "True True\n"


def test_threads_end_with_their_executor() -> None:
    executor = Threads(2, "ends")
    executor.submit(int).result(5)
    (thread,) = (t for t in threading.enumerate() if t.name.startswith("ends"))
    del executor
    thread.join(5)
    assert not thread.is_alive()


def test_threads_start_as_needed_up_to_a_bound() -> None:
    executor, all_here = Threads(3), threading.Barrier(3)
    assert sorted(executor.map(lambda _: all_here.wait(5), range(6))) == [0, 0, 1, 1, 2, 2]
    executor.shutdown()


def test_work_without_a_thread_does_not_delay_exit() -> None:
    code = """
import threading, time, atexit
began = []
atexit.register(lambda: print(time.monotonic() - began[0] < 3))
import lakelatch.backends.requests.threads as threads
atexit.register(lambda: began.append(time.monotonic()))
def refuse(thread): raise RuntimeError("can't start new thread")
threading.Thread.start = refuse
executor = threads.Threads(2)
executor.submit(int)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "True\n"


def test_work_that_another_thread_took_first_is_not_done_by_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    executor, busy, done, finished = Threads(2), threading.Event(), [], threading.Event()
    first = executor.submit(busy.wait, 10)

    def refuse_late(thread: threading.Thread) -> None:
        busy.set()
        assert finished.wait(5)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse_late)
    second = executor.submit(lambda: (done.append(threading.current_thread()), finished.set()))
    assert first.result(5)
    assert second.result(5)
    assert done != [threading.current_thread()]
    assert len(done) == 1
    executor.shutdown()


def test_no_code_of_ours_runs_when_a_lock_or_a_pool_dies() -> None:
    """H23: an interrupt that arrives in such code is printed and lost, and the program goes on."""
    ran: list[str] = []

    def watched(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            ran.append(frame.f_code.co_name)

    lock, pool = forked_lock(), Threads(1)
    pool.shutdown()
    gc.collect()
    gc.disable()
    before = sys.getprofile()
    sys.setprofile(watched)
    try:
        del lock
        del pool
    finally:
        sys.setprofile(before)
        gc.enable()
    assert ran == []


def test_dead_locks_are_forgotten_and_living_ones_are_not() -> None:
    kept = [forked_lock() for _ in range(3)]
    for _ in range(5_000):
        forked_lock()
    alive = [lock for lock in threads._LOCKS if lock in kept]
    assert len(alive) == 3
    assert len(threads._LOCKS._known) < 5_000


def test_a_connection_looks_up_names_while_the_interpreter_ends(tmp_path: Path) -> None:
    """A commit at exit may need a new connection, and by then Python's own executors refuse work."""
    ask = (
        "import atexit, fsspec.asyn\n"
        "from lakelatch.backends.files.object_store import shared_filesystem\n"
        "from lakelatch.backends.s3 import S3Store\n"
        "async def connect(): return object()\n"
        "shared_filesystem(connect, S3Store, {})\n"
        "loop = fsspec.asyn.get_loop()\n"
        "async def look_up(): return await loop.run_in_executor(None, lambda: 'looked up')\n"
        "atexit.register(lambda: print(fsspec.asyn.sync(loop, look_up)))\n"
    )
    command = [sys.executable, "-c", ask]
    asked = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (asked.returncode, asked.stdout, asked.stderr) == (0, "looked up\n", "")


class Item:
    """Something that can be remembered."""


def test_dead_objects_are_left_out_while_others_are_remembered() -> None:
    """A collection of garbage may come in between, whose finalizers and other threads remember more objects."""
    living, held = _Living[Item](), [Item() for _ in range(3000)]

    class Late:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            held.append(Item())
            living._known[id(held[-1])] = weakref.ref(held[-1])

    for item in held:
        living.add(item)
    living._sweep_at = 0
    gc.collect()
    gc.disable()
    before = gc.get_threshold()
    try:
        garbage = [Late() for _ in range(50)]
        del garbage
        gc.set_threshold(100, 1, 1)
        gc.enable()
        living.add(held[0])
    finally:
        gc.set_threshold(*before)
        gc.enable()
    gc.collect()
    assert len(held) == 3050
    assert set(map(id, living)) == set(map(id, held))
