"""Threads and locks that belong to one process, so that a fork, or the end of the interpreter, hangs nobody.

Owns: `Threads`, `LoopThreads`, `forked_lock`, `PerProcess`, `this_process`. Must not know: what the threads do.
Invariants (H23): a child of a fork uses threads, locks and names of its own, never those of its parent, whose threads do not
live on in it; work that no thread can take is done by whoever hands it over; work is done once.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from queue import Empty, SimpleQueue
from typing import Any, Generic, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")

_forks = 0


LAST_SECONDS = 5.0
"""A hint that comes later would not be written any more; a file that comes later belongs to a commit that was interrupted."""


def _forked() -> None:
    global _forks
    _forks += 1
    _CREWS.clear()
    for lock in list(_LOCKS):
        if lock.locked():  # by a thread that is not here
            lock.release()


def this_process() -> tuple[int, int]:
    """What tells this process from its ancestors, also where the number of one that died was given out again."""
    return os.getpid(), _forks


class PerProcess(Generic[T]):
    """A value that each process makes for itself, on first use.

    Args:
        make: makes it; of several threads at once each may make one, and all use the same.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._held: dict[tuple[int, int], T] = {}

    def get(self) -> T:
        """This process's value. An ancestor's stays where it is: to take it apart could disturb the ancestor."""
        process = this_process()
        if process not in self._held:
            self._held.setdefault(process, self._make())
        return self._held[process]

    def made(self) -> T | None:
        """This process's value; None where it has not needed one yet."""
        return self._held.get(this_process())


class Threads(Executor):
    """Threads that keep to the deadline of whoever asked them. Each process has its own, begun as they are needed.

    Where no thread can be had (the interpreter ends, or the system refuses another thread) `submit` does the work itself,
    and answers a future that is done.

    Args:
        count: threads at most.
        name: what their names begin with.
    """

    def __init__(self, count: int, name: str = "lakelatch") -> None:
        crew = self._crew = PerProcess(lambda: _Crew(count, name))
        weakref.finalize(self, lambda: _dismiss(crew)).atexit = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        work = _Work(fn, *args, **kwargs)
        if not self._crew.get().takes(work):
            work.run()
        return work.outcome

    def offer(self, fn: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> bool:
        """As `submit`, but where no thread can be had nothing is done, and the answer is False."""
        work = _Work(fn, *args, **kwargs)
        return self._crew.get().takes(work) or not work.taken()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        crew = self._crew.made()
        if crew is not None:
            crew.dismiss(wait, cancel_futures)


class _Crew:
    """The threads of one `Threads` in one process.

    Not those of `ThreadPoolExecutor`: an interrupt in the midst of handing work over leaves a lock of its futures held, or a
    thread that it does not know of, and the interpreter then waits for its threads for ever.

    Invariant: what was taken is in the queue, or being done; there is a thread for each piece of it, up to `count`.
    """

    def __init__(self, count: int, name: str) -> None:
        self._count, self._name = count, name
        self._todo: SimpleQueue[_Work[Any] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._dismissed = False
        self._load = 0
        """Pieces of work that were taken and are not done yet."""
        _CREWS.add(self)

    def takes(self, work: _Work[Any]) -> bool:
        """Have a thread do it; False where none can."""
        with self._lock:
            if self._dismissed:
                return False
            self._todo.put(work)
            self._load += 1
            if len(self._threads) >= min(self._count, self._load):
                return True
            thread = threading.Thread(target=self._run, name=f"{self._name}_{len(self._threads)}", daemon=True)
            self._threads.append(thread)
        try:
            thread.start()
        except BaseException as error:  # also an interrupt: the thread may have begun or not, and counts no more
            self._threads.remove(thread)
            if isinstance(error, RuntimeError):
                return False  # it waits in the queue all the same, for a thread that was there already
            raise
        return True

    @property
    def is_busy(self) -> bool:
        """Is there work, and somebody to do it?"""
        return self._load > 0 and bool(self._threads)

    def _run(self) -> None:
        while True:
            work = self._todo.get()
            if work is None:
                self._todo.put(None)  # for the next thread
                return
            with suppress(BaseException):  # the outcome has it
                work.run()
            del work
            with self._lock:
                self._load -= 1

    def dismiss(self, wait: bool, cancel: bool = False) -> None:
        """Take no work any more; the threads end when all is done, or at once, and what nobody has begun is cancelled."""
        with self._lock:
            self._dismissed = True
            threads = list(self._threads)
        while cancel:
            try:
                work = self._todo.get_nowait()
            except Empty:
                break
            if work is not None and work.taken():
                work.outcome.cancel()
        self._todo.put(None)
        for thread in threads if wait else ():
            thread.join()


def _dismiss(crew: PerProcess[_Crew]) -> None:
    made = crew.made()
    if made is not None:
        made.dismiss(wait=False)


class LoopThreads(ThreadPoolExecutor):
    """The same for an event loop, which takes no other kind of executor and dies with its process.

    Its clients look names up on threads for each new connection: without this no new one can be made once the interpreter ends.
    """

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        work = _Work(fn, *args, **kwargs)
        try:
            super().submit(work.run)
        except RuntimeError:  # it may wait in the queue all the same, for a thread that was there already
            work.run()
        return work.outcome


class _Work(Generic[T]):
    """Something to do once, by whoever takes it first.

    Attributes:
        outcome: what came of it.
    """

    def __init__(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> None:
        context = copy_context()
        self._call: Callable[[], T] = lambda: context.run(fn, *args, **kwargs)
        self._untaken = threading.Lock()
        self.outcome: Future[T] = Future()

    def taken(self) -> bool:
        """Take it; False where another thread has."""
        return self._untaken.acquire(blocking=False)

    def run(self) -> None:
        """Do it, unless another thread does or did. An interrupt is raised as well: this may be the main thread."""
        outcome = self.outcome
        if not self.taken() or not outcome.set_running_or_notify_cancel():
            return
        try:
            result = self._call()
        except BaseException as error:
            outcome.set_exception(error)
            if not isinstance(error, Exception):
                raise
        else:
            outcome.set_result(result)
        finally:
            del self, outcome  # a traceback holds this frame, and the outcome the traceback


def forked_lock() -> threading.Lock:
    """A lock that is free in the child of a fork, whichever thread of the parent held it.

    Python's own, so that no interrupt can come between its `with` and its release.
    """
    lock = threading.Lock()
    _LOCKS.add(lock)
    return lock


_LOCKS: weakref.WeakSet[threading.Lock] = weakref.WeakSet()
_CREWS: weakref.WeakSet[_Crew] = weakref.WeakSet()


def _finish() -> None:
    """At the end of the interpreter: what was taken is done, if that takes no longer than `LAST_SECONDS`."""
    until = time.monotonic() + LAST_SECONDS
    while any(crew.is_busy for crew in list(_CREWS)) and time.monotonic() < until:
        time.sleep(0.002)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
# Before the exit handlers, as the threads of `concurrent.futures` end: those of other libraries put away what the work uses,
# such as an exporter of spans. And after those that were registered since, which may have handed over more.
with suppress(RuntimeError):  # this module is imported while the interpreter ends
    getattr(threading, "_register_atexit", lambda finish: None)(_finish)
atexit.register(_finish)
