"""Pieces of work that are done at once: by threads that wait, by the caller, each once, whatever happens to the others."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from lakelatch.backends.requests.threads import Threads
from lakelatch.coordinator.commit.side_by_side import UPLOAD_THREADS, SideBySide
from lakelatch.core.errors import StoreUnavailable


def nothing() -> None:
    return


def raising(error: BaseException) -> Callable[[], None]:
    def piece() -> None:
        raise error

    return piece


@pytest.mark.parametrize("count", [2, 5, UPLOAD_THREADS + 1])
def test_pieces_that_wait_for_a_store_all_wait_at_once(count: int) -> None:
    """A commit's files take one round trip together, however many there are: the caller's thread is one of those that wait."""
    all_here = threading.Barrier(count, timeout=10)
    pieces, done = SideBySide(), list[str]()
    pieces.add([all_here.wait] * (count - 1), "files", lambda: done.append("files"))
    pieces.add([all_here.wait], "list", lambda: done.append("list"))
    with Threads(UPLOAD_THREADS) as pool:
        pieces.run(pool)
    assert sorted(done) == ["files", "list"]
    assert pieces.failure is None


def test_the_caller_does_what_no_thread_takes() -> None:
    """One piece needs no thread, and more are done while threads are busy."""
    busy, names = threading.Event(), list[str]()

    def named() -> None:
        names.append(threading.current_thread().name)

    one, more = SideBySide(), SideBySide()
    one.add([named], "one", nothing)
    one.run(None)  # type: ignore[arg-type]
    with Threads(1) as pool:
        pool.submit(busy.wait, 10)
        more.add([named, named, lambda: (named(), busy.set())[0]], "more", nothing)
        more.run(pool)
    assert names == [threading.current_thread().name] * 4


def test_each_piece_is_done_once_and_each_group_told_once() -> None:
    lock, counts, told = threading.Lock(), dict[int, int](), list[int]()

    def counted(number: int) -> Callable[[], None]:
        def piece() -> None:
            with lock:
                counts[number] = counts.get(number, 0) + 1

        return piece

    with Threads(UPLOAD_THREADS) as pool:
        for _ in range(100):
            counts.clear()
            told.clear()
            pieces = SideBySide()
            for group in range(4):
                pieces.add([counted(group * 5 + n) for n in range(5)], group, lambda group=group: told.append(group))
            pieces.run(pool)
            assert counts == dict.fromkeys(range(20), 1)
            assert sorted(told) == [0, 1, 2, 3]


def test_a_failure_ends_no_other_piece_and_the_first_is_told() -> None:
    pieces, done = SideBySide(), list[str]()
    pieces.add([raising(StoreUnavailable("denied")), lambda: done.append("beside")], "bad", lambda: done.append("bad"))
    pieces.add([raising(StoreUnavailable("away"))], "worse", lambda: done.append("worse"))
    pieces.add([], "empty", lambda: done.append("empty"))
    with Threads(1) as pool:
        pool.submit(threading.Event().wait, 0.2)
        pieces.run(pool)
    assert pieces.failure == ("bad", "denied", StoreUnavailable.advice)
    assert done == ["empty", "beside"]


@pytest.mark.parametrize("error", [MemoryError, KeyError])
@pytest.mark.parametrize("by_thread", [True, False])
def test_another_error_is_raised_whoever_did_the_piece(error: type[Exception], by_thread: bool) -> None:
    caller, begun = threading.current_thread(), threading.Event()

    def piece() -> None:
        if (threading.current_thread() is caller) != by_thread:
            raise error
        begun.wait(10)

    def other() -> None:
        try:
            piece()
        finally:
            begun.set()

    pieces: Any = SideBySide()
    pieces.add([other, other], "files", nothing)
    with Threads(1) as pool, pytest.raises(error):
        pieces.run(pool)


def test_after_an_interrupt_nothing_more_is_begun() -> None:
    caller, late = threading.current_thread(), list[str]()
    first, ended = threading.Event(), threading.Event()

    def piece() -> None:
        if threading.current_thread() is caller:
            first.wait(10)
            raise KeyboardInterrupt
        first.set()
        ended.wait(10)

    pieces = SideBySide()
    pieces.add([piece, piece, *[lambda: late.append("begun")] * 3], "files", nothing)
    with Threads(1) as pool:
        with pytest.raises(KeyboardInterrupt):
            pieces.run(pool)
        ended.set()
    assert late == []
