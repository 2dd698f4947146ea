"""Threads and locks that belong to one process, so that neither a fork nor the end of the interpreter can hang.

Owns: `Threads`, `LoopThreads`, `forked_lock`, `PerProcess`, `this_process`. Must not know: what the threads do.
Invariants (H23): the child of a fork uses its own threads, locks and names, never those of its parent, whose threads do not
run in the child. Work that no thread can take is done by the caller that submitted it. Work is done once.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from queue import Empty, SimpleQueue
from typing import Any, Generic, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")

_forks = 0


LAST_SECONDS = 5.0
"""How long work may take at exit. A later hint would not be written, and a later file belongs to an interrupted commit."""


def _forked() -> None:
    global _forks
    _forks += 1
    _CREWS.clear()
    for lock in list(_LOCKS):
        if lock.locked():  # by a thread of the parent, which does not run here
            lock.release()


def this_process() -> tuple[int, int]:
    """Identifies this process, also if it got the process number of an ancestor that has ended."""
    return os.getpid(), _forks


class PerProcess(Generic[T]):
    """A value that each process makes for itself on first use. Racing threads may each make one, but all use the same."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._held: dict[tuple[int, int], T] = {}

    def get(self) -> T:
        """This process's value. The value of an ancestor is kept, since destroying it could disturb the ancestor."""
        process = this_process()
        if process not in self._held:
            self._held.setdefault(process, self._make())
        return self._held[process]

    def made(self) -> T | None:
        return self._held.get(this_process())


class Threads(Executor):
    """An executor whose threads keep the deadline of the caller. Each process starts its own threads as they are needed.

    If no thread can be had, because the interpreter ends or the system refuses another thread, `submit` does the work itself
    and returns a finished future.

    Args:
        count: the largest number of threads.
        name: the prefix of their names.
        is_awaited: whether the interpreter waits for unfinished work before it ends, for `LAST_SECONDS` at most. False is for
            work that somebody else waits for.
    """

    def __init__(self, count: int, name: str = "lakelatch", is_awaited: bool = True) -> None:
        crew = self._crew = PerProcess(lambda: _Crew(count, name, is_awaited))
        self._end = weakref.finalize(self, lambda: _dismiss(crew))
        self._end.atexit = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        work = _Work(fn, *args, **kwargs)
        if not self._crew.get().takes(work):
            work.run()
        return work.outcome

    def offer(self, fn: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> bool:
        """Like `submit`, but returns False and does nothing if no thread can be had."""
        work = _Work(fn, *args, **kwargs)
        return self._crew.get().takes(work) or not work.taken()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._end.detach()
        crew = self._crew.made()
        if crew is not None:
            crew.dismiss(wait, cancel_futures)


class _Crew:
    """The threads of one `Threads` in one process.

    Not a `ThreadPoolExecutor`: an interrupt during a submit can leave a lock of its futures held, or a thread that it does not
    know of. The interpreter then waits for its threads forever.

    Invariant: accepted work is queued or running, and there is a thread for each piece of it, up to `count`.
    """

    def __init__(self, count: int, name: str, is_awaited: bool) -> None:
        self._count, self._name = count, name
        self._todo: SimpleQueue[_Work[Any] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._dismissed = False
        self._load = 0
        if is_awaited:
            _CREWS.add(self)

    def takes(self, work: _Work[Any]) -> bool:
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
        except BaseException as error:  # also an interrupt: the thread may run or not, and is no longer counted
            self._threads.remove(thread)
            if isinstance(error, RuntimeError):
                return False  # the work stays in the queue, and an older thread may still take it
            raise
        return True

    @property
    def is_busy(self) -> bool:
        return self._load > 0 and bool(self._threads)

    def _run(self) -> None:
        while True:
            work = self._todo.get()
            if work is None:
                self._todo.put(None)  # for the next thread
                return
            with suppress(BaseException):  # the future holds the error
                work.run()
            del work
            with self._lock:
                self._load -= 1

    def dismiss(self, wait: bool, cancel: bool = False) -> None:
        """Accept no more work. The threads end when the queue is empty; with `cancel`, queued work is cancelled first."""
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
    """The same for an event loop, which accepts only this kind of executor and dies with its process.

    Clients resolve names on these threads for each new connection, which would otherwise fail once the interpreter is ending.
    """

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        work = _Work(fn, *args, **kwargs)
        try:
            super().submit(work.run)
        except RuntimeError:  # the work may still be queued for a thread that exists
            work.run()
        return work.outcome


class _Work(Generic[T]):
    """Done once, by the first thread that takes it."""

    def __init__(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> None:
        context = copy_context()
        self._call: Callable[[], T] = lambda: context.run(fn, *args, **kwargs)
        self._untaken = threading.Lock()
        self.outcome: Future[T] = Future()

    def taken(self) -> bool:
        return self._untaken.acquire(blocking=False)

    def run(self) -> None:
        """Do the work unless another thread took it. An interrupt is raised as well, as this may be the main thread."""
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
            del self, outcome  # breaks a cycle: the traceback holds this frame, and the outcome holds the traceback


def forked_lock() -> threading.Lock:
    """A lock that is free in the child of a fork, even if a thread of the parent held it.

    It is a lock of Python's own, so that no interrupt can come between its `with` and its release.
    """
    lock = threading.Lock()
    _LOCKS.add(lock)
    return lock


class _Living(Generic[T]):
    """Objects that are alive. Unlike a `WeakSet` it runs no code when one of them dies: an interrupt that arrives within such a
    callback is printed and lost, and a program that is stopped with Ctrl-C goes on."""

    def __init__(self) -> None:
        self._known: dict[int, weakref.ref[T]] = {}
        self._sweep_at = _MANY

    def add(self, item: T) -> None:
        if len(self._known) >= self._sweep_at:
            # A copy, because garbage may be collected while tuples are made, and other threads go on then.
            for key, known in self._known.copy().items():
                if known() is None and self._known.get(key) is known:
                    del self._known[key]
            self._sweep_at = 2 * len(self._known) + _MANY
        self._known[id(item)] = weakref.ref(item)

    def clear(self) -> None:
        self._known = {}

    def __iter__(self) -> Iterator[T]:
        held = [known() for known in self._known.copy().values()]
        return iter([item for item in held if item is not None])


_MANY = 1_000
"""So many more are remembered than were alive, before the dead ones are left out again."""
_LOCKS: _Living[threading.Lock] = _Living()
_CREWS: _Living[_Crew] = _Living()


_waited_s = 0.0
"""For work at the end of the interpreter; `_finish` is called twice."""


def _finish() -> None:
    """At the end of the interpreter, finish accepted work if that takes no longer than `LAST_SECONDS` together."""
    global _waited_s
    began, left_s = time.monotonic(), LAST_SECONDS - _waited_s
    while any(crew.is_busy for crew in _CREWS) and time.monotonic() - began < left_s:
        time.sleep(0.002)
    _waited_s += time.monotonic() - began


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
# This runs when the threads of `concurrent.futures` end, which is before the exit handlers: those of other libraries close
# what the work uses, such as an exporter of spans. It runs after handlers that were registered later and may submit more work.
with suppress(RuntimeError):  # if this module is imported while the interpreter ends
    getattr(threading, "_register_atexit", lambda finish: None)(_finish)
atexit.register(_finish)
