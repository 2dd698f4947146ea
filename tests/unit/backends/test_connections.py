"""Which stores share a connection, and on which threads its event loop does what blocks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import fsspec.asyn
import pytest
from planned_store import PlannedStore, options


def test_the_order_of_the_options_makes_no_other_connection() -> None:
    one = options(secret="s3cr3t")
    other = dict(reversed(one.items()))
    assert list(one) != list(other)
    assert PlannedStore("planned://lake/a", one).fs is PlannedStore("planned://lake/a", other).fs
    assert (
        PlannedStore("planned://lake/a", {**one, "secret": "other"}).fs is not PlannedStore("planned://lake/a", one).fs
    )


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop of fsspec that nobody has used yet."""
    made = asyncio.new_event_loop()
    thread = threading.Thread(target=made.run_forever, daemon=True)
    thread.start()
    monkeypatch.setattr(fsspec.asyn, "get_loop", lambda: made)
    yield made
    made.call_soon_threadsafe(made.stop)
    thread.join()
    made.close()


def named_thread(loop: asyncio.AbstractEventLoop) -> str:
    """The name of a thread on which the loop does what blocks, such as resolving names."""

    async def ask() -> str:
        return await loop.run_in_executor(None, lambda: threading.current_thread().name)

    name: str = fsspec.asyn.sync(loop, ask)
    return name


def test_the_loop_resolves_names_on_threads_that_work_until_the_end(loop: asyncio.AbstractEventLoop) -> None:
    """H23: those of the standard library refuse work once the interpreter is ending."""
    PlannedStore("planned://lake/a", options()).fs  # noqa: B018
    assert named_thread(loop).startswith("lakelatch-loop")


def test_the_applications_own_threads_are_kept(loop: asyncio.AbstractEventLoop) -> None:
    own = ThreadPoolExecutor(1, "of-the-application")
    loop.call_soon_threadsafe(loop.set_default_executor, own)
    fsspec.asyn.sync(loop, asyncio.sleep, 0)
    PlannedStore("planned://lake/a", options()).fs  # noqa: B018
    assert named_thread(loop).startswith("of-the-application")
    own.shutdown()
