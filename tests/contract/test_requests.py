"""The number of requests of each operation to real servers, counted by a proxy in front of them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lakelatch.backends.around.metered import MeteredStore
from lakelatch.backends.files.object_store import FsspecStore
from lakelatch.backends.store import AlreadyThere, Created, ObjectNotFound

from .conftest import Faulty

MEBIBYTE = 1 << 20
WRITE = {"s3": "PUT", "gcs": "POST", "adls": "PUT"}
HEAD = {"s3": "HEAD", "gcs": "GET", "adls": "HEAD"}


class Counted:
    """A store behind a proxy. `cost` runs an operation and reports the requests that it took."""

    def __init__(self, faulty: Faulty) -> None:
        self.faulty = faulty
        self.store: FsspecStore = faulty.store()
        self.proxy = faulty.proxy
        self.write, self.head = WRITE[faulty.kind], HEAD[faulty.kind]
        self.one_delete = "POST" if self.faulty.kind == "s3" and self.store.transport.name == "obstore" else "DELETE"

    def cost(self, act: Callable[[], Any]) -> list[str]:
        self.proxy.clear()
        act()
        return sorted(request.method for request in self.proxy.requests)


@pytest.fixture
def counted(faulty: Faulty) -> Counted:
    return Counted(faulty)


def test_one_request_each(counted: Counted) -> None:
    """An append takes two sequential round trips at least (architecture §3), if every operation is one request."""
    store, cost = counted.store, counted.cost
    assert cost(lambda: store.put("a", b"12345")) == [counted.write]
    assert cost(lambda: store.put_if_absent("b", b"1")) == [counted.write]
    assert cost(lambda: store.put_if_absent("b", b"2")) == [counted.write]
    assert cost(lambda: store.get("a")) == ["GET"]
    assert cost(lambda: store.get_range("a", 1, 3)) == ["GET"]
    assert cost(lambda: store.get_range("a", 50, 60)) == ["GET"]
    assert cost(lambda: store.head("a")) == [counted.head]
    assert cost(lambda: list(store.list(""))) == ["GET"]
    # obstore believes any answer that is XML, so that the folder around is listed too.
    assert cost(lambda: list(store.list("nothing/"))) == ["GET"] * (2 if store.transport.name == "obstore" else 1)
    assert cost(lambda: store.delete_many(["a"])) == [counted.one_delete]
    deletes = ["DELETE"] * 3 if counted.faulty.kind == "adls" else ["POST"]
    assert cost(lambda: store.delete_many(["a", "b", "c"])) == deletes
    assert cost(lambda: store.delete_many([])) == []


def test_one_request_for_a_missing_object(counted: Counted) -> None:
    """A missing key takes one request. s3fs alone would send a HEAD and a LIST."""
    store, cost = counted.store, counted.cost

    def missing(read: Callable[[str], Any]) -> Callable[[], None]:
        def act() -> None:
            with pytest.raises(ObjectNotFound):
                read("none")

        return act

    assert cost(missing(store.get)) == ["GET"]
    assert cost(missing(lambda key: store.get_range(key, 0, 1))) == ["GET"]
    assert cost(missing(store.head)) == [counted.head]


def test_conditions_are_on_creates_only(counted: Counted) -> None:
    """H1: every create carries its condition, even for an empty object. No other request does."""
    store, proxy = counted.store, counted.proxy
    proxy.clear()
    store.put("a", b"1")
    assert [store.put_if_absent("b", data) for data in (b"1", b"")] == [Created(), AlreadyThere()]
    assert [request.conditional for request in proxy.requests] == [False, True, True]


def test_files(counted: Counted) -> None:
    """A small output is one request. A small input of known size is one, and so are the first steps of a Parquet reader.

    A large output takes its parts and two more requests (S3), its parts and one more (ADLS), or one (GCS)."""
    store, cost = counted.store, counted.cost

    def write(key: str, size: int) -> Callable[[], None]:
        def act() -> None:
            with store.open_output(key) as file:
                for _ in range(size // MEBIBYTE):
                    file.write(bytes(MEBIBYTE))

        return act

    assert cost(write("empty", 0)) == [counted.write]
    assert cost(write("small", 16 * MEBIBYTE)) == [counted.write]
    large = {"s3": ["POST", "POST", "PUT", "PUT", "PUT"], "gcs": ["POST"], "adls": ["PUT"] * 4}
    assert cost(write("large", 40 * MEBIBYTE)) == large[counted.faulty.kind]
    store.put("object", bytes(MEBIBYTE))
    assert cost(lambda: store.open_input("object", MEBIBYTE).read()) == ["GET"]
    assert cost(lambda: store.open_input("object").read()) == sorted(["GET", counted.head])

    def footer_first() -> None:
        file = store.open_input("large", 40 * MEBIBYTE)
        for offset in (8, 64 << 10, 200 << 10):  # a Parquet reader's steps backwards
            file.seek(-offset, 2)
            assert len(file.read(offset)) == offset

    assert cost(footer_first) == ["GET"]


def test_an_aborted_upload_is_dropped(counted: Counted) -> None:
    """The parts of an S3 upload that never ends would cost money forever. Azure drops them, and GCS never receives them."""
    store = counted.store

    def act() -> None:
        file = store.open_output("large")
        file.write(bytes(20 * MEBIBYTE))
        file.abort()

    sent = {"s3": ["DELETE", "POST", "PUT"], "gcs": [], "adls": ["PUT"]}
    assert counted.cost(act) == sent[counted.faulty.kind]
    assert list(store.list("")) == []


@pytest.mark.parametrize("kind", ["s3", "s3 fsspec", "gcs"])
def test_pages(counted: Counted) -> None:
    """A listing takes one request per 1000 keys. Deletes take as many keys as the store allows (one on ADLS)."""
    direct = counted.faulty.past()
    store, cost = counted.store, counted.cost
    names = [f"data/{number:05}" for number in range(1001)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda name: direct.put(name, b"1"), names))
    listed: list[str] = []
    assert cost(lambda: listed.extend(info.key for info in store.list(""))) == ["GET", "GET"]
    assert sorted(listed) == names
    deletes = {"s3": [counted.one_delete, "POST"], "gcs": ["DELETE", *["POST"] * 10]}
    assert cost(lambda: store.delete_many(names)) == deletes[counted.faulty.kind]
    assert list(store.list("")) == []


def test_the_meter_agrees_with_the_server(counted: Counted) -> None:
    """Receipts report the number of requests, so it must be the number that the server sees."""
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
    large_and_deletes = {"s3": 5 + 1, "gcs": 1 + 1, "adls": 4 + 2}
    assert metered.snapshot().requests == len(at_server) == 4 + large_and_deletes[counted.faulty.kind]


@pytest.mark.parametrize("kind", ["s3 fsspec"])
def test_bodies_go_out_at_once(counted: Counted) -> None:
    """A PUT that first sends `Expect: 100-continue` waits for two answers instead of one."""
    sent: list[Any] = []
    store = counted.store
    store.put("warm", b"")
    events = store._filesystem()._s3.meta.events
    events.register("before-send.s3", lambda request, **_: sent.append(dict(request.headers)))
    store.put("a", b"1")
    store.put_if_absent("b", b"1")
    assert len(sent) == 2
    assert not [headers for headers in sent if "Expect" in headers]
