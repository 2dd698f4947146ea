"""Which stores share a connection, on which threads its event loop does what blocks, and which client carries a request."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import fsspec.asyn
import obstore
import pytest
from obstore.store import MemoryStore
from planned_store import PlannedStore, options

from lakelatch.backends.store import Created
from lakelatch.backends.transport.choice import ObstoreRequests


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


# ---------------------------------------------------------------------------------------------- two clients of one store

REQUESTS: dict[str, tuple[str, Callable[[PlannedStore], Any]]] = {
    "_read": ("read", lambda store: store.get("k")),
    "_read_range": ("read", lambda store: store.get_range("k", 1, 3)),
    "_stat": ("info", lambda store: store.head("k").size),
    "_write": ("write", lambda store: store.put("k", b"again")),
    "_create": ("create", lambda store: store.put_if_absent("new", b"1")),
    "_page": ("list", lambda store: [info.key for info in store.list("")]),
    "_glance": ("list", lambda store: [info.key for info in store.glance("")]),
    "_delete": ("delete", lambda store: store.delete_many(["k"])),
}
"""For each request that a store sends: what fsspec's file system calls it, and what needs it."""


class TwoClients(PlannedStore):
    """A store that obstore carries, in memory, but for one kind of requests."""

    left: tuple[str, ...] = ()

    def _obstore(self) -> Callable[[], ObstoreRequests]:
        client = MemoryStore()
        obstore.put(client, "table/k", b"1234")
        return lambda: ObstoreRequests(lambda bucket: client, lambda tag, data: True, self.left)


@pytest.mark.parametrize("left", [None, *REQUESTS])
def test_obstore_carries_every_request_but_what_is_left_to_fsspec(
    left: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both answer the same."""
    monkeypatch.setattr(TwoClients, "left", () if left is None else (left,))
    answers = {
        "_read": b"1234",
        "_read_range": b"23",
        "_stat": 4,
        "_create": Created(),
        "_page": ["k"],
        "_glance": ["k"],
    }
    for name, (call, ask) in REQUESTS.items():
        store = TwoClients("planned://lake/table", options())
        assert store.transport.name == "obstore"
        store.fs.objects["lake/table/k"] = b"1234"
        assert ask(store) == answers.get(name), name
        assert [found for found, *_ in store.fs.calls] == ([call] if name == left else []), name
