"""What each operation costs at a real S3 server, counted by a proxy in front of it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from servers.fault_proxy import FaultProxy
from servers.s3 import S3Server

from lakelatch.backends.metered import MeteredStore
from lakelatch.backends.s3 import S3Store
from lakelatch.backends.store import AlreadyThere, Created, ObjectNotFound

MEBIBYTE = 1 << 20


class Counted:
    """A store behind a proxy; `cost` runs something and says which requests it took."""

    def __init__(self, store: S3Store, proxy: FaultProxy) -> None:
        self.store = store
        self.proxy = proxy

    def cost(self, act: Callable[[], Any]) -> list[str]:
        self.proxy.clear()
        act()
        return sorted(request.method for request in self.proxy.requests)


@pytest.fixture
def counted(faulty_s3: tuple[str, dict[str, Any], FaultProxy]) -> Counted:
    url, options, proxy = faulty_s3
    return Counted(S3Store(f"{url}/table", options), proxy)


def test_one_request_each(counted: Counted) -> None:
    """The floor of two sequential round trips per append (architecture §3) needs one request per operation."""
    store, cost = counted.store, counted.cost
    assert cost(lambda: store.put("a", b"12345")) == ["PUT"]
    assert cost(lambda: store.put_if_absent("b", b"1")) == ["PUT"]
    assert cost(lambda: store.put_if_absent("b", b"2")) == ["PUT"]
    assert cost(lambda: store.get("a")) == ["GET"]
    assert cost(lambda: store.get_range("a", 1, 3)) == ["GET"]
    assert cost(lambda: store.get_range("a", 50, 60)) == ["GET"]
    assert cost(lambda: store.head("a")) == ["HEAD"]
    assert cost(lambda: list(store.list(""))) == ["GET"]
    assert cost(lambda: list(store.list("nothing/"))) == ["GET"]
    assert cost(lambda: store.delete_many(["a"])) == ["DELETE"]
    assert cost(lambda: store.delete_many(["a", "b", "c"])) == ["POST"]
    assert cost(lambda: store.delete_many([])) == []


def test_one_request_for_what_is_missing(counted: Counted) -> None:
    """A missing key is asked for once: s3fs alone would send a HEAD and a LIST."""
    store, cost = counted.store, counted.cost

    def missing(read: Callable[[str], Any]) -> Callable[[], None]:
        def act() -> None:
            with pytest.raises(ObjectNotFound):
                read("none")

        return act

    assert cost(missing(store.get)) == ["GET"]
    assert cost(missing(lambda key: store.get_range(key, 0, 1))) == ["GET"]
    assert cost(missing(store.head)) == ["HEAD"]


def test_conditions_are_on_creates_only(counted: Counted) -> None:
    """H1: every create carries its condition, the empty one too; no other request does."""
    store, proxy = counted.store, counted.proxy
    proxy.clear()
    store.put("a", b"1")
    assert [store.put_if_absent("b", data) for data in (b"1", b"")] == [Created(), AlreadyThere()]
    assert [request.conditional for request in proxy.requests] == [False, True, True]


def test_files(counted: Counted) -> None:
    """A small output is one PUT; a large one is its parts and two more; a small input is one GET where its size is known."""
    store, cost = counted.store, counted.cost

    def write(key: str, size: int) -> Callable[[], None]:
        def act() -> None:
            with store.open_output(key) as file:
                for _ in range(size // MEBIBYTE):
                    file.write(bytes(MEBIBYTE))

        return act

    assert cost(write("empty", 0)) == ["PUT"]
    assert cost(write("small", 16 * MEBIBYTE)) == ["PUT"]
    assert cost(write("large", 40 * MEBIBYTE)) == ["POST", "POST", "PUT", "PUT", "PUT"]
    store.put("object", bytes(MEBIBYTE))
    assert cost(lambda: store.open_input("object", MEBIBYTE).read()) == ["GET"]
    assert cost(lambda: store.open_input("object").read()) == ["GET", "HEAD"]

    def footer_first() -> None:
        file = store.open_input("large", 40 * MEBIBYTE)
        for offset in (8, 64 << 10, 200 << 10):  # a Parquet reader's steps backwards
            file.seek(-offset, 2)
            assert len(file.read(offset)) == offset

    assert cost(footer_first) == ["GET"]


def test_an_aborted_upload_is_forgotten(counted: Counted) -> None:
    """Parts of an upload that never ends cost money for ever."""
    store = counted.store

    def act() -> None:
        file = store.open_output("large")
        file.write(bytes(20 * MEBIBYTE))
        file.abort()

    assert counted.cost(act) == ["DELETE", "POST", "PUT"]
    assert list(store.list("")) == []


def test_pages(counted: Counted, s3_host: S3Server) -> None:
    """One request per 1000 keys, for listings and deletes."""
    direct = S3Store(counted.store.url, s3_host.storage_options())
    store, cost = counted.store, counted.cost
    names = [f"data/{number:05}" for number in range(1001)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda name: direct.put(name, b""), names))
    listed: list[str] = []
    assert cost(lambda: listed.extend(info.key for info in store.list(""))) == ["GET", "GET"]
    assert sorted(listed) == names
    assert cost(lambda: store.delete_many(names)) == ["DELETE", "POST"]
    assert cost(lambda: listed.clear()) == []
    assert list(store.list("")) == []


def test_the_meter_agrees_with_the_server(counted: Counted) -> None:
    """Receipts report requests: the count must be the server's."""
    metered = MeteredStore(counted.store)

    def act() -> None:
        metered.put_if_absent("a", b"1")
        metered.get("a")
        list(metered.list(""))
        with metered.open_output("large") as file:
            file.write(bytes(40 * MEBIBYTE))
        metered.open_input("a", 1).read()
        metered.delete_many(["a", "large"])

    at_server = counted.cost(act)
    assert metered.snapshot().requests == len(at_server) == 10


def test_bodies_go_out_at_once(counted: Counted) -> None:
    """A PUT that first asks `Expect: 100-continue` waits for two answers instead of one."""
    sent: list[Any] = []
    store = counted.store
    store.put("warm", b"")
    events = store._filesystem()._s3.meta.events
    events.register("before-send.s3", lambda request, **_: sent.append(dict(request.headers)))
    store.put("a", b"1")
    store.put_if_absent("b", b"1")
    assert len(sent) == 2
    assert not [headers for headers in sent if "Expect" in headers]
