"""Reading ahead on threads: order, bounds, errors, early ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from lakelatch.table.reading.read_ahead import in_order


def readers() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("lakelatch-read")]


def counting(numbers: range, started: list[int]) -> Callable[[], Iterator[int]]:
    def task() -> Iterator[int]:
        for number in numbers:
            started.append(number)
            yield number

    return task


@pytest.mark.parametrize("threads", [0, 1, 2, 5])
@pytest.mark.parametrize("sizes", [[], [0], [3], [0, 7, 0, 1], [20] * 9])
def test_items_come_in_the_order_of_the_tasks(threads: int, sizes: list[int]) -> None:
    """Rows of a file come before those of the next, whichever thread finishes first."""
    tasks = [lambda i=i, n=n: iter([(i, j) for j in range(n)]) for i, n in enumerate(sizes)]
    assert list(in_order(tasks, threads, depth=2)) == [(i, j) for i, n in enumerate(sizes) for j in range(n)]
    assert readers() == []


def test_memory_is_bounded() -> None:
    """However slow the reader is, at most threads times depth items are held, plus one per thread and one in the reader."""
    started: list[int] = []
    items = in_order([counting(range(100 * i, 100 * i + 100), started) for i in range(20)], threads=3, depth=2)
    assert next(items) == 0
    for _ in range(50):  # give the threads every chance to run too far
        threading.Event().wait(0.001)
    assert len(started) <= 3 * (2 + 1) + 1
    items.close()
    assert readers() == []


def test_an_error_comes_where_its_item_would_have_come_once() -> None:
    """Items that were read before the damage are passed on. The damage is reported once."""

    def broken() -> Iterator[int]:
        yield 10
        raise OSError("damaged")

    items = in_order([lambda: iter([1, 2]), broken, lambda: iter([3])], threads=3)
    seen: list[int] = []
    with pytest.raises(OSError, match="damaged"):
        seen.extend(items)
    assert seen == [1, 2, 10]
    assert list(items) == []
    assert readers() == []


def test_tasks_are_taken_as_they_are_needed() -> None:
    """If a reader stops early, tasks that it did not need were not started."""
    taken: list[int] = []

    def tasks() -> Iterator[Callable[[], Iterator[int]]]:
        for i in range(1000):
            taken.append(i)
            yield lambda i=i: iter([i])

    items = in_order(tasks(), threads=4)
    assert [next(items) for _ in range(3)] == [0, 1, 2]
    items.close()
    assert len(taken) <= 3 + 4
    assert readers() == []
