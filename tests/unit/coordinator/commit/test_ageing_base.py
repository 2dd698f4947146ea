"""Knowledge of the base has an age limit, and every repeat has a limit: a commit ends with one of three answers (H6, H24)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import PutOutcome, Unknown
from lakelatch.coordinator.commit.committer import Committer
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.core.errors import OutcomeUnknown, RetriesExhausted, StoreUnavailable
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.paths import TablePaths
from lakelatch.core.rows.arrow import from_arrow_schema
from lakelatch.table.table import Table

COUNTER = itertools.count()
ROWS = pa.table({"v": pa.array([1], pa.int64())})


class Clock:
    """A clock that a test sets; it advances a little at each reading."""

    now_s = 1_000.0

    def tick(self) -> float:
        self.now_s += 0.001
        return self.now_s


class Slow(MemoryStore):
    """A store in memory with slow requests, and a hook that runs before each."""

    def __init__(self, url: str, clock: Clock) -> None:
        super().__init__(url)
        self.clock = clock
        self.seconds: Callable[[str], float] = lambda key: 0.0
        self.before: Callable[[str, str], None] = lambda operation, key: None
        self.asked: list[str] = []
        self.silent = 0
        """How many creates of snapshots are neither carried out nor answered."""

    def get(self, key: str) -> bytes:
        self._spend("get", key)
        return super().get(key)

    def put(self, key: str, data: bytes) -> None:
        self._spend("put", key)
        super().put(key, data)

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        self._spend("create", key)
        if key.startswith("snapshot/snapshot-") and self.silent:
            self.silent -= 1
            return Unknown("no answer")
        return super().put_if_absent(key, data)

    def _spend(self, operation: str, key: str) -> None:
        self.asked.append(f"{operation} {key}")
        self.before(operation, key)
        self.clock.now_s += self.seconds(key)


def opened(store: MemoryStore, clock: Clock) -> Table:
    made = new_schema(from_arrow_schema(ROWS.schema))
    store.put_if_absent("schema/schema-0", made.to_json())
    table = Table(store, made)
    around = replace(MACHINE, monotonic_s=clock.tick, sleep=lambda seconds: None)
    table._committer = Committer(store, TablePaths(), made, around=around)
    return table


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> Slow:
    return Slow(f"memory://ageing-{next(COUNTER)}/t", clock)


def test_a_slow_preparation_costs_one_look_at_the_base(store: Slow, clock: Clock) -> None:
    """The base was not the cause of the delay: it is looked at once more, and nothing is computed again."""
    table = opened(store, clock)
    table.append(ROWS)
    table.committer.settle()
    store.asked.clear()
    store.seconds = lambda key: 40.0 if key.startswith("manifest/") else 0.0
    receipt = table.append(ROWS)
    assert (receipt.snapshot_id, receipt.attempts) == (2, 1)
    written = [asked for asked in store.asked if asked.startswith("put manifest/")]
    assert len(written) == 3, "a delta manifest and two lists, once"
    assert store.asked.count("get snapshot/snapshot-1") == 2, "before the send, and to verify"


def test_a_base_that_expires_again_and_again_ends_as_not_committed(store: Slow, clock: Clock) -> None:
    """Other writers commit and expire during each preparation: the commit gives up after a few rounds, with a reason."""
    table, other = opened(store, clock), opened(store, clock)
    table.append(ROWS)
    busy = False

    def others_go_on(operation: str, key: str) -> None:
        nonlocal busy
        if busy or operation != "put" or "-list-" not in key:
            return
        busy = True
        for _ in range(2):
            other.append(ROWS)
        store.delete_many([f"snapshot/snapshot-{number}" for number in other.timeline.snapshot_ids()[:-1]])
        clock.now_s += 3_600
        busy = False

    store.before = others_go_on
    with pytest.raises(RetriesExhausted, match="expired, one after the other"):
        table.append(ROWS)
    store.before = lambda operation, key: None
    before = other.to_arrow().num_rows
    assert table.append(ROWS).snapshot_id > 2
    assert table.to_arrow().num_rows == before + 1, "nothing of the commit that gave up is there"
    assert [finding for finding in table.verify() if finding.severity == "error"] == []


def test_a_late_hint_is_given_up(store: Slow, clock: Clock) -> None:
    """A hint written long after its commit makes readers jump back (H7), so its time is limited, counted from the send."""
    table = opened(store, clock)
    table.append(ROWS)
    table.committer.settle()
    store.seconds = lambda key: 6.0 if key == "snapshot/snapshot-1" else 0.0  # VERIFY takes six seconds
    table.append(ROWS)
    table.committer.settle()
    assert store.get("snapshot/LATEST") == b"1", "too late"
    assert table.append(ROWS).snapshot_id == 3
    table.committer.settle()
    assert store.get("snapshot/LATEST") == b"3"


def test_the_request_for_a_hint_has_a_deadline(store: Slow, clock: Clock) -> None:
    """A put that hangs is given up within the rest of the five seconds."""
    from lakelatch.backends.requests.deadline import left_s

    table = opened(store, clock)
    left: list[float] = []

    def look(operation: str, key: str) -> None:
        if (operation, key) == ("put", "snapshot/LATEST"):
            left.append(left_s())
            raise StoreUnavailable("given up")

    store.before = look
    table.append(ROWS)
    table.committer.settle()
    assert left, "a hint was about to be written"
    assert max(left) <= 5.0


@pytest.mark.parametrize("stands", [True, False])
def test_bytes_are_sent_again_only_while_their_base_stands(store: Slow, clock: Clock, stands: bool) -> None:
    """H6: a minute after the first send, expiry may have freed the name above the base."""
    table = opened(store, clock)
    table.append(ROWS)
    table.committer.settle()
    store.silent = 1

    def a_minute_passes(operation: str, key: str) -> None:
        if (operation, key) == ("create", "snapshot/snapshot-2"):
            clock.now_s += 50
            if not stands:
                store.delete_many(["snapshot/snapshot-1"])

    store.before = a_minute_passes
    if stands:
        assert table.append(ROWS).snapshot_id == 2
    else:
        with pytest.raises(OutcomeUnknown, match="too late to send it again"):
            table.append(ROWS)
    assert store.asked.count("create snapshot/snapshot-2") == (2 if stands else 1)


def test_an_interrupt_after_an_aged_base_is_only_an_interrupt(store: Slow, clock: Clock) -> None:
    """G2: the snapshot of the aged base was built and journalled, but never sent: there is no outcome to resolve."""
    table, other = opened(store, clock), opened(store, clock)
    for writer in (table, other):
        writer.append(ROWS)
        writer.committer.settle()
    lists = 0

    def a_base_ages(operation: str, key: str) -> None:
        nonlocal lists
        lists += operation == "put" and "-list-" in key
        if lists == 2:  # both of the first attempt
            clock.now_s += 3_600
            store.delete_many(["snapshot/snapshot-1", "snapshot/snapshot-2"])
            lists += 1
        elif lists > 3:
            raise KeyboardInterrupt

    store.asked.clear()
    store.before = a_base_ages
    with pytest.raises(KeyboardInterrupt) as caught:
        table.append(ROWS)
    assert not isinstance(caught.value.__cause__, OutcomeUnknown)
    assert not [asked for asked in store.asked if asked.startswith("create snapshot/snapshot-")]
