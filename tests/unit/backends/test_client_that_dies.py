"""A native client that panics raises an error that is not an `Exception`, which fsspec would turn into None: success (H2)."""

from __future__ import annotations

import asyncio
import threading
import uuid
from typing import Any

import pytest

from lakelatch.backends.hdfs import HdfsStore, _Connection
from lakelatch.backends.store import AlreadyThere, Created, Unknown
from lakelatch.core.errors import StoreUnavailable


class Panic(BaseException):
    """Not an `Exception`, like a panic of pyo3."""


class Client:
    """Planned answers of a name node, one for each call of a kind. Calls without a planned answer succeed."""

    def __init__(self) -> None:
        self.inner = self
        self.planned: dict[str, list[BaseException]] = {"rename": [], "create": [], "get_file_info": []}
        self.calls: list[str] = []
        self.files: set[str] = set()

    def _answer(self, call: str) -> None:
        self.calls.append(call)
        if self.planned.get(call):
            raise self.planned[call].pop(0)

    def get_file_info(self, path: str) -> object:
        self._answer("get_file_info")
        if path not in self.files:
            raise FileNotFoundError(path)
        return object()

    def create(self, path: str, options: object) -> Client:
        self._answer("create")
        return self

    def write(self, data: bytes) -> int:
        return len(data)

    def close(self) -> None:
        return

    def rename(self, source: str, target: str, overwrite: bool) -> None:
        self._answer("rename")
        self.files.add(target)

    def delete(self, path: str, recursive: bool) -> bool:
        self.calls.append("delete")
        return True


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.fixture
def store(client: Client, monkeypatch: pytest.MonkeyPatch) -> HdfsStore:
    async def connect(self: HdfsStore) -> Any:
        return _Connection(client, asyncio.get_running_loop())

    monkeypatch.setattr(HdfsStore, "_connect", connect)
    return HdfsStore("hdfs://127.0.0.1:1/lake", {"test.run": uuid.uuid4().hex})


def test_a_create_whose_client_panics_is_unknown(store: HdfsStore, client: Client) -> None:
    """H2: the outcome is not "created". A file that the rename could still find is deleted (H9)."""
    client.planned["rename"] = [Panic("no reactor")]
    answer = store.put_if_absent("snapshot-1", b"x")
    assert isinstance(answer, Unknown)
    assert "Panic: no reactor" in answer.reason
    assert client.calls[-2:] == ["rename", "delete"]


def test_a_panic_in_a_coroutine_is_not_an_answer(store: HdfsStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard between the client and fsspec covers every store."""

    async def panics(*_: object) -> None:
        raise Panic("in the loop itself")

    monkeypatch.setattr(HdfsStore, "_create", panics)
    monkeypatch.setattr(HdfsStore, "_write", panics)
    assert isinstance(store.put_if_absent("snapshot-1", b"x"), Unknown)
    with pytest.raises(StoreUnavailable, match="in the loop itself"):
        store.put("a", b"x")


def test_a_failure_before_the_rename_is_retried(store: HdfsStore, client: Client) -> None:
    """The final name was not touched, so the outcome is neither unknown nor a failure. A later refusal is about another file."""
    client.planned["create"] = [ConnectionError("RPC listener disconnected"), ConnectionError("again")]
    assert store.put_if_absent("snapshot-1", b"x") == Created()
    client.planned["create"] = [ConnectionError("RPC listener disconnected")]
    client.planned["rename"] = [FileExistsError("snapshot-2")]
    answer = store.put_if_absent("snapshot-2", b"x")
    assert isinstance(answer, AlreadyThere)
    assert not answer.earlier_send
    client.planned["create"] = [ConnectionError("gone") for _ in range(20)]
    with pytest.raises(StoreUnavailable, match="before the key was written"):
        store.put_if_absent("snapshot-3", b"x")


def test_a_hanging_call_does_not_block_others(
    store: HdfsStore, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call has a thread of its own: calls that hang block neither the next call nor the end of the process."""
    freed = threading.Event()
    hung = Client()
    monkeypatch.setattr(hung, "rename", lambda *_: freed.wait(60))
    stuck = HdfsStore("hdfs://127.0.0.1:1/lake", {"request_timeout": 0.2, "test.run": uuid.uuid4().hex})

    async def connect(self: HdfsStore) -> Any:
        return _Connection(hung if self is stuck else client, asyncio.get_running_loop())

    monkeypatch.setattr(HdfsStore, "_connect", connect)
    for number in range(40):
        assert isinstance(stuck.put_if_absent(f"snapshot-{number}", b"x"), Unknown)
    waiting = [thread for thread in threading.enumerate() if thread.name == "lakelatch-hdfs"]
    assert len(waiting) >= 35, "a pool would have a few threads, and the others would wait for them"
    assert all(thread.daemon for thread in waiting)
    assert store.put_if_absent("snapshot-1", b"x") == Created()
    freed.set()
