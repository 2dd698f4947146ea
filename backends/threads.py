"""Threads and locks that belong to one process, so that a fork, or the end of the interpreter, hangs nobody.

Owns: `Threads`, `LoopThreads`, `ForkedLock`, `PerProcess`, `this_process`. Must not know: what the threads do.
Invariants (H23): a child of a fork uses threads, locks and names of its own, never those of its parent, whose threads do not
live on in it; work that no thread can take is done by whoever hands it over; work is done once.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextvars import copy_context
from types import TracebackType
from typing import Any, Generic, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")

_forks = 0


def _forked() -> None:
    global _forks
    _forks += 1
    for lock in list(_LOCKS):
        lock.renew()


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

    def forget(self, value: T) -> None:
        """The next to ask makes another, if this is the value that is held."""
        process = this_process()
        if self._held.get(process) is value:
            self._held.pop(process, None)


class Threads(Executor):
    """Threads that keep to the deadline of whoever asked them. A pool of each process's own, begun on first use.

    Where no thread can be had (the interpreter ends, or the system refuses another thread) `submit` does the work itself,
    and answers a future that is done.

    Args:
        count: threads at most.
        name: what their names begin with.
    """

    def __init__(self, count: int, name: str = "lakelatch") -> None:
        self._pool = PerProcess(lambda: ThreadPoolExecutor(count, thread_name_prefix=name))

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        work = _Work(fn, *args, **kwargs)
        if not self._handed_over(work):
            work.run()
        return work.outcome

    def offer(self, fn: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> bool:
        """As `submit`, but where no thread can be had nothing is done, and the answer is False."""
        work = _Work(fn, *args, **kwargs)
        return self._handed_over(work) or not work.taken()

    def _handed_over(self, work: _Work[Any]) -> bool:
        pool = self._pool.get()
        try:
            return work.handed_to(pool.submit)
        except BaseException:
            # Interrupted, it may have begun a thread that it does not know of, for which the interpreter would wait for ever
            # at its end. Shut down, the pool tells all of its threads to end once they have done what they were given.
            self._pool.forget(pool)
            pool.shutdown(wait=False)
            raise

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        pool = self._pool.made()
        if pool is not None:
            pool.shutdown(wait=wait, cancel_futures=cancel_futures)


class LoopThreads(ThreadPoolExecutor):
    """The same for an event loop, which takes no other kind of executor and dies with its process.

    Its clients look names up on threads for each new connection: without this no new one can be made once the interpreter ends.
    """

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        work = _Work(fn, *args, **kwargs)
        if not work.handed_to(super().submit):
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

    def handed_to(self, submit: Callable[[Callable[[], None]], Future[None]]) -> bool:
        """Give it to a pool; False where that refuses."""
        try:
            submit(self.run).add_done_callback(self._dropped)
        except RuntimeError:  # it may wait in the queue all the same, for a thread that was there already
            return False
        return True

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

    def _dropped(self, handed_over: Future[None]) -> None:
        """The pool was shut down before a thread had come to it."""
        if handed_over.cancelled() and self.taken():
            self.outcome.cancel()


class ForkedLock:
    """A lock that is free in the child of a fork, whichever thread of the parent held it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _LOCKS.add(self)

    def renew(self) -> None:
        """Called in the child, before it has a second thread."""
        self._lock = threading.Lock()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        return self._lock.acquire(blocking, timeout)

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()


_LOCKS: weakref.WeakSet[ForkedLock] = weakref.WeakSet()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
