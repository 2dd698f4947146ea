"""Read several sources at once, and pass their items on in order, in bounded memory.

Owns: the threads that read ahead. Must not know: what is read. Invariants: Items come in the order of the tasks, whichever thread
finishes first. A task is at most `depth` items ahead. An error is raised once, at the point where its item would have come. When
the reader stops early, every thread ends. If no thread can be started for a task, the reader runs the task itself. A read that
began before a fork raises an error in the child process, which has no copy of the threads (H23).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Generic, TypeVar

from ...backends.requests.threads import Threads, forked_lock, this_process
from ...core.errors import InvalidArgument

T = TypeVar("T")


class _Closed(Exception):
    """The reader has stopped."""


class _Channel(Generic[T]):
    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._items: deque[T] = deque()
        self._lock = forked_lock()
        self._changed = threading.Condition(self._lock)
        self._process = this_process()
        self._error: BaseException | None = None
        self._finished = False
        self._closed = False

    def run(self, task: Callable[[], Iterator[T]]) -> None:
        error: BaseException | None = None
        try:
            for item in task():
                self._put(item)
        except _Closed:
            pass
        except BaseException as raised:
            error = raised
        with self._lock:
            self._error, self._finished = error, True
            self._changed.notify_all()

    def _put(self, item: T) -> None:
        with self._lock:
            while len(self._items) >= self._depth and not self._closed:
                self._changed.wait()
            if self._closed:
                raise _Closed
            self._items.append(item)
            self._changed.notify_all()

    def items(self) -> Iterator[T]:
        while True:
            with self._lock:
                while not self._items and not self._finished:
                    self._refuse_after_fork()
                    self._changed.wait()
                if not self._items:
                    break
                item = self._items.popleft()
                self._changed.notify_all()
            yield item
        if self._error is not None:
            raise self._error

    def _refuse_after_fork(self) -> None:
        if this_process() != self._process:
            raise InvalidArgument(
                "a read that began before a fork cannot continue in the child, because its threads belong to the parent",
                next_step="start the read again in the child",
            )

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._items.clear()
            self._changed.notify_all()


def in_order(tasks: Iterable[Callable[[], Iterator[T]]], threads: int, depth: int = 4) -> Generator[T, None, None]:
    """The items of the tasks, one task after another, while the next tasks already run.

    Args:
        tasks: each returns an iterator. They are taken lazily, `threads` ahead of the reader.
        threads: the number of tasks that run at once; with 1, everything runs in the reader's own thread.
        depth: the number of items that a task may be ahead of the reader.

    >>> list(in_order([lambda i=i: iter([i, i]) for i in range(3)], threads=2))
    [0, 0, 1, 1, 2, 2]
    """
    if threads < 2:
        for task in tasks:
            yield from task()
        return
    todo = iter(tasks)
    running: deque[tuple[_Channel[T], Callable[[], Iterator[T]]]] = deque()
    pool = Threads(threads, "lakelatch-read")
    try:
        while True:
            while len(running) < threads:
                following = next(todo, None)
                if following is None:
                    break
                channel: _Channel[T] = _Channel(depth)
                is_run = pool.offer(channel.run, following)
                running.append((channel, channel.items if is_run else following))
            if not running:
                return
            yield from running[0][1]()
            running.popleft()
    finally:
        for channel, _ in running:
            channel.close()
        pool.shutdown(wait=True, cancel_futures=True)
