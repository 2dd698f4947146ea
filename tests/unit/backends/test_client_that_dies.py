"""A native client that panics raises what is no `Exception`; fsspec would answer None for it: "done" (H2)."""

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
    """As pyo3's: it names no `Exception`."""


class Client:
    """A name node's answers, one for each call of a kind; where none is left, all goes well."""

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
    """H2: not "created"; and what a rename could still find is deleted (H9)."""
    client.planned["rename"] = [Panic("no reactor")]
    answer = store.put_if_absent("snapshot-1", b"x")
    assert isinstance(answer, Unknown)
    assert "Panic: no reactor" in answer.reason
    assert client.calls[-2:] == ["rename", "delete"]


def test_a_panic_inside_of_a_coroutine_is_no_answer_either(store: HdfsStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever store it is: the guard stands between the client and fsspec."""

    async def panics(*_: object) -> None:
        raise Panic("in the loop itself")

    monkeypatch.setattr(HdfsStore, "_create", panics)
    monkeypatch.setattr(HdfsStore, "_write", panics)
    assert isinstance(store.put_if_absent("snapshot-1", b"x"), Unknown)
    with pytest.raises(StoreUnavailable, match="in the loop itself"):
        store.put("a", b"x")


def test_what_breaks_before_the_rename_is_sent_again(store: HdfsStore, client: Client) -> None:
    """The name was not asked for: it is neither unknown nor a failure, and a refusal after it is about another's file."""
    client.planned["create"] = [ConnectionError("RPC listener disconnected"), ConnectionError("again")]
    assert store.put_if_absent("snapshot-1", b"x") == Created()
    client.planned["create"] = [ConnectionError("RPC listener disconnected")]
    client.planned["rename"] = [FileExistsError("snapshot-2")]
    answer = store.put_if_absent("snapshot-2", b"x")
    assert isinstance(answer, AlreadyThere)
    assert not answer.earlier_send
    client.planned["create"] = [ConnectionError("gone") for _ in range(20)]
    with pytest.raises(StoreUnavailable, match="before the store was asked"):
        store.put_if_absent("snapshot-3", b"x")


def test_calls_that_hang_hold_nobody_up(store: HdfsStore, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call has a thread of its own: however many hang, the next one is made, and none keeps the process alive."""
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
    assert len(waiting) >= 40
    assert all(thread.daemon for thread in waiting)
    assert store.put_if_absent("snapshot-1", b"x") == Created()
    freed.set()
