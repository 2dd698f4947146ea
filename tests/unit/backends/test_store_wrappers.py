"""The store wrappers and the probe."""

from __future__ import annotations

import pickle
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lakelatch.backends.around.faulty import Faults, FaultyStore
from lakelatch.backends.around.metered import MeteredStore
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.probe import ProbedStores, probe
from lakelatch.backends.requests.deadline import answered_within
from lakelatch.backends.store import AlreadyThere, Capabilities, Created, ObjectNotFound, PutOutcome, Unknown
from lakelatch.core.errors import StoreUnavailable, UnsafeBackend


@pytest.fixture
def memory() -> Iterator[MemoryStore]:
    store = MemoryStore(f"memory://{uuid.uuid4().hex}/table")
    yield store
    store.clear()


class Overwriting(MemoryStore):
    """A store that ignores the condition of a create. The probe must find it."""

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        self.put(key, data)
        return Created()


class Silent(MemoryStore):
    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        return Unknown("no answer")


class SlowToAnswer(MemoryStore):
    """A store that leaves the first creates unanswered."""

    unanswered = 0

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        outcome = super().put_if_absent(key, data)
        self.unanswered -= 1
        return outcome if self.unanswered < 0 else Unknown("no answer")


class NoCreate(MemoryStore):
    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(None, None, "has no atomic create")


def test_probe_remembers_stores_that_refuse(memory: MemoryStore) -> None:
    """G9: the probe runs once per process and store."""
    memory.put("schema/schema-0", b"{}")
    metered, probed = MeteredStore(memory), ProbedStores()
    assert [probe(metered, "schema/schema-0", b"{}", probed=probed) for _ in range(3)] == [True] * 3
    assert metered.snapshot().by_operation == {"put_if_absent": 1}
    assert memory.url in probed
    probed.forget(memory.url)
    assert memory.url not in probed


def test_probe_refuses_stores_that_overwrite() -> None:
    """G9, H1: such a store is refused every time, and the object keeps its bytes."""
    store, probed = Overwriting(f"memory://{uuid.uuid4().hex}"), ProbedStores()
    store.put("schema/schema-0", b"{}")
    for _ in range(2):
        with pytest.raises(UnsafeBackend, match="ignores the condition"):
            probe(store, "schema/schema-0", b"{}", probed=probed)
    assert probe(store, "schema/schema-0", b"{}", allow_unsafe=True, probed=probed) is False
    assert store.get("schema/schema-0") == b"{}"
    store.clear()


def test_probe_of_stores_without_an_atomic_create() -> None:
    store = NoCreate(f"memory://{uuid.uuid4().hex}")
    with pytest.raises(UnsafeBackend, match="has no atomic create"):
        probe(store, "a", b"", probed=ProbedStores())
    assert probe(store, "a", b"", allow_unsafe=True, probed=ProbedStores()) is False


def test_probe_without_an_answer() -> None:
    """H2: a missing answer proves neither that the store is safe nor that it is unsafe."""
    probed = ProbedStores()
    with pytest.raises(StoreUnavailable, match="no answer"):
        probe(Silent(f"memory://{uuid.uuid4().hex}"), "a", b"", probed=probed)
    store = FaultyStore(MemoryStore(f"memory://{uuid.uuid4().hex}"), 3, {"put_if_absent": Faults(error=0.5)})
    store.put("a", b"")
    assert probe(store, "a", b"", probed=probed) is True


@pytest.mark.parametrize(("unanswered", "key"), [(7, "held"), (6, "gone")])
def test_probe_asks_until_it_is_answered(unanswered: int, key: str) -> None:
    """H2: one lost answer in ten is usual on a bad line, and must not end one job in a thousand before its first commit."""
    store, probed = SlowToAnswer(f"memory://{uuid.uuid4().hex}"), ProbedStores()
    store.put("held", b"{}")
    store.unanswered = unanswered
    assert probe(store, key, b"{}", probed=probed) is True
    assert store.url in probed
    store.clear()


def test_probe_asks_no_longer_than_its_caller_waits() -> None:
    metered = MeteredStore(Silent(f"memory://{uuid.uuid4().hex}"))
    with answered_within(0.1), pytest.raises(StoreUnavailable, match="no answer"):
        probe(metered, "a", b"", probed=ProbedStores())
    assert metered.snapshot().by_operation["put_if_absent"] < 8


def test_probe_of_an_object_that_was_just_deleted(memory: MemoryStore) -> None:
    """One accepted create does not prove that the store overwrites: the second is refused."""
    assert probe(memory, "gone", b"{}", probed=ProbedStores()) is True


def test_meter_counts(memory: MemoryStore) -> None:
    store = MeteredStore(memory)
    store.put("a", b"12345")
    assert store.put_if_absent("b", b"123") == Created()
    assert store.put_if_absent("b", b"123") == AlreadyThere()
    assert (store.get("a"), store.get_range("a", 1, 3)) == (b"12345", b"23")
    store.head("a")
    assert len(list(store.list(""))) == 2
    with pytest.raises(ObjectNotFound):
        store.get("none")
    with store.open_output("c") as file:
        file.write(b"1234567")
    assert store.open_input("c", 7).read() == b"1234567"
    store.delete_many(["a", "b", "c"])
    store.delete_many([])
    usage = store.snapshot()
    assert dict(usage.by_operation) == {
        "put": 2, "put_if_absent": 2, "get": 2, "get_range": 2, "head": 1, "list": 1, "delete_many": 1,
    }  # fmt: skip
    assert (usage.requests, usage.bytes_out, usage.bytes_in) == (11, 5 + 3 + 3 + 7, 5 + 2 + 7)
    assert usage.sequential_depth == 11
    store.reset()
    assert (store.snapshot().requests, store.snapshot().sequential_depth, store.snapshot().bytes_in) == (0, 0, 0)


def test_meter_counts_pages(memory: MemoryStore) -> None:
    for number in range(2000):
        memory.put(f"data/{number}", b"")
    store = MeteredStore(memory)
    assert len(list(store.list(""))) == 2000
    store.delete_many(f"data/{number}" for number in range(1001))
    assert dict(store.snapshot().by_operation) == {"list": 2, "delete_many": 2}


class Meeting(MemoryStore):
    """Puts wait for each other in pairs, so that they certainly overlap."""

    barrier = threading.Barrier(2)

    def put(self, key: str, data: bytes) -> None:
        self.barrier.wait(30)
        super().put(key, data)


def test_depth_counts_overlapping_requests_once() -> None:
    """The guarantee of 2 sequential round trips (architecture §3) is measured with this."""
    store = MeteredStore(Meeting(f"memory://{uuid.uuid4().hex}"))
    with ThreadPoolExecutor(2) as pool:
        for _ in range(3):
            list(pool.map(lambda key: store.put(key, b""), ("a", "b")))
    store.get("a")
    assert (store.snapshot().requests, store.snapshot().sequential_depth) == (7, 4)


def test_meter_under_threads(memory: MemoryStore) -> None:
    store = MeteredStore(memory)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: store.put(f"{number}", b"12"), range(800)))
    assert (store.snapshot().requests, store.snapshot().bytes_out) == (800, 1600)
    assert pickle.loads(pickle.dumps(store)).snapshot().requests == 0


def faulty(memory: MemoryStore, fault: str, operation: str = "*", share: float = 1.0) -> FaultyStore:
    return FaultyStore(memory, 7, {operation: Faults(**{fault: share})}, sleep=lambda _: None)


def test_errors_before_anything_is_done(memory: MemoryStore) -> None:
    for fault in ("error", "throttled"):
        store = faulty(memory, fault)
        assert isinstance(store.put_if_absent("a", b"1"), Unknown)
        with pytest.raises(StoreUnavailable):
            store.put("a", b"1")
        with pytest.raises(StoreUnavailable), store.open_output("a") as file:
            file.write(b"1")
    assert list(memory.list("")) == []


def test_lost_answers(memory: MemoryStore) -> None:
    """H2: the object exists, although no caller got an answer."""
    store = faulty(memory, "lost")
    assert isinstance(store.put_if_absent("a", b"1"), Unknown)
    with pytest.raises(StoreUnavailable):
        store.put("b", b"2")
    with pytest.raises(StoreUnavailable), store.open_output("c") as file:
        file.write(b"3")
    assert [memory.get(key) for key in "abc"] == [b"1", b"2", b"3"]
    for read in (store.get, store.head, lambda key: list(store.list("")), lambda key: store.get_range(key, 0, 1)):
        with pytest.raises(StoreUnavailable):
            read("a")
    with pytest.raises(StoreUnavailable):
        store.delete_many(["a", "b"])
    assert [info.key for info in memory.list("")] == ["c"]


def test_refusals_prove_that_nothing_was_done(memory: MemoryStore) -> None:
    with pytest.raises(StoreUnavailable, match="denied"):
        faulty(memory, "refused").put_if_absent("a", b"1")
    assert list(memory.list("")) == []


def test_duplicate_sends(memory: MemoryStore) -> None:
    """H3: the second send is refused because of the object of the first."""
    assert faulty(memory, "duplicate").put_if_absent("a", b"1") == AlreadyThere()
    assert memory.get("a") == b"1"


def test_delays(memory: MemoryStore) -> None:
    slept: list[float] = []
    store = FaultyStore(memory, 1, {"put": Faults(delayed=1.0)}, sleep=slept.append)
    store.put("a", b"1")
    assert (memory.get("a"), slept) == (b"1", [store.delay_seconds])


def test_late_landings(memory: MemoryStore) -> None:
    """H9: the write lands after later requests. A late create still loses if the object exists by then."""
    store = FaultyStore(memory, 1, {"put_if_absent": Faults(late=1.0)})
    assert isinstance(store.put_if_absent("a", b"late"), Unknown)
    for _ in range(store.late_after - 1):
        assert list(store.list("")) == []
    assert [info.key for info in store.list("")] == ["a"]
    assert isinstance(store.put_if_absent("b", b"late"), Unknown)
    memory.put("b", b"first")
    store.settle()
    assert (memory.get("a"), memory.get("b")) == (b"late", b"first")


def test_a_seed_replays_under_any_order_of_threads() -> None:
    """architecture §8: a seed suffices to reproduce a bug."""
    plan = {"put_if_absent": Faults(error=0.2, lost=0.2, duplicate=0.2), "get": Faults(error=0.3)}

    def run(seed: int, threads: int) -> list[Any]:
        store = FaultyStore(MemoryStore(f"memory://{uuid.uuid4().hex}"), seed, plan)

        def work(number: int) -> None:
            store.put_if_absent(f"{number % 20}", b"1")
            try:
                store.get(f"{number}")
            except (StoreUnavailable, ObjectNotFound):
                time.sleep(0)

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, range(100)))
        return sorted((struck.operation, struck.key, struck.number, struck.fault) for struck in store.log)

    assert run(5, 1) == run(5, 8)
    assert run(5, 1) != run(6, 1)
    assert {fault for *_, fault in run(5, 1)} == {"error", "lost", "duplicate"}


def test_unknown_operations_are_refused(memory: MemoryStore) -> None:
    with pytest.raises(ValueError, match="rename"):
        FaultyStore(memory, 1, {"rename": Faults()})
