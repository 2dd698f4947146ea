"""Several sources read at once, their items handed on in order, in bounded memory.

Owns: the threads that run ahead of a reader. Must not know: what is read.
Invariants: items come in the order of the tasks, whatever thread was first; no task holds more than `depth` items that nobody
has taken; an error is raised where its item would have come, once; when the reader stops early, every thread ends; a task
that no thread can take is done by the reader, and a read whose threads stayed behind a fork says so (H23).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Generic, TypeVar

from ...backends.threads import Threads, forked_lock, this_process
from ...core.errors import InvalidArgument

T = TypeVar("T")


class _Closed(Exception):
    """The reader has gone."""


class _Channel(Generic[T]):
    """Items of one task on their way to the reader."""

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
        """On a thread: the task's items, each as soon as there is room for it."""
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
        """What `run` finds, for the reader."""
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
                "a read that began before a fork cannot go on in the child: its threads are the parent's",
                next_step="begin the read anew in the child",
            )

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._items.clear()
            self._changed.notify_all()


def in_order(tasks: Iterable[Callable[[], Iterator[T]]], threads: int, depth: int = 4) -> Generator[T, None, None]:
    """The items of the tasks, one task after the other, while the next tasks run already.

    Args:
        tasks: each gives an iterator; taken lazily, `threads` ahead of the reader.
        threads: tasks that run at once; with one, everything happens in the reader's own thread.
        depth: items that a task may be ahead of the reader.

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
