"""The behaviour of a store on a failing network and with missing rights, as tests that any backend inherits.

Owns: `FaultContract`, and the `Network` that the test module of a backend provides. Must not know: any particular store.
Invariants that a store must keep: a create returns `Created` only if the store said so. No answer means `Unknown`. A refusal
that proves that nothing was done is an error with a next step. The winner's bytes stay, whatever lands late (H2, H3, H4, H9).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import pytest

from ..backends.store import AlreadyThere, Created, ObjectNotFound, Store, Unknown
from ..core.errors import StoreUnavailable

KEY = "snapshot/snapshot-1"
LATE_MS = 400


class Network(Protocol):
    """A connection to a store that can fail on request. The store repeats requests quickly, four times at most."""

    def store(self) -> Store:
        """The store behind this connection."""

    def fail(self, fault: str, key: str, times: int = 1) -> None:
        """Make the next `times` writes of a key fail.

        Args:
            fault: `lost` (done, but the answer is cut), `dropped` (cut before it is done), `throttled` (refused for
                now), `doubled` (done, but refused for now, so that the client sends it again), `late` (cut at once, and
                done `LATE_MS` later).
        """


class FaultContract:
    """The test cases. A subclass provides the fixtures `network`, `denied`, `nowhere` and `read_only`.

    A fixture may skip if the store does not have such a case. `denied` is a store with refused credentials (wrong or
    expired), `nowhere` a store whose bucket does not exist, `read_only` a store without write access with the object `there`.
    """

    def test_lost_answer(self, network: Network) -> None:
        """H2, H3: a client that resends may find its own object. The outcome is neither "created" nor an error."""
        store = network.store()
        store.put("warm", b"")
        network.fail("lost", KEY)
        assert isinstance(store.put_if_absent(KEY, b"mine"), AlreadyThere | Unknown)
        assert store.get(KEY) == b"mine"

    def test_every_answer_lost(self, network: Network) -> None:
        """H2: a missing answer is not a failure. The bytes may exist, and in this case they do."""
        store = network.store()
        network.fail("lost", KEY, times=100)
        outcome = store.put_if_absent(KEY, b"mine")
        assert isinstance(outcome, Unknown)
        assert "snapshot-1" in outcome.reason
        assert store.get(KEY) == b"mine"

    def test_every_request_lost(self, network: Network) -> None:
        """H2: a missing answer again, but this time the object does not exist."""
        store = network.store()
        network.fail("dropped", KEY, times=100)
        assert isinstance(store.put_if_absent(KEY, b"mine"), Unknown)
        with pytest.raises(ObjectNotFound):
            store.get(KEY)

    def test_doubled(self, network: Network) -> None:
        """H3: our own repeat is refused. The outcome is `AlreadyThere`, which the caller reads back, and never `Created`."""
        store = network.store()
        network.fail("doubled", KEY)
        assert store.put_if_absent(KEY, b"mine") == AlreadyThere()
        assert store.get(KEY) == b"mine"

    def test_lands_late(self, network: Network) -> None:
        """H9: the object is missing at first and appears later, unchanged."""
        store = network.store()
        network.fail("late", KEY, times=2)
        assert isinstance(store.put_if_absent(KEY, b"mine"), Unknown)
        assert _awaited(store) == b"mine"

    def test_lands_too_late(self, network: Network) -> None:
        """H9: a write that lands after another writer's create is refused by the store, so the winner's bytes stay."""
        store = network.store()
        network.fail("late", KEY, times=2)
        assert isinstance(store.put_if_absent(KEY, b"late"), Unknown)
        outcomes = [
            store.put_if_absent(KEY, b"winner") for _ in range(3)
        ]  # the second fault may hit the first of these
        time.sleep(3 * LATE_MS / 1000)
        assert store.get(KEY) == (b"winner" if Created() in outcomes else b"late")

    def test_throttled(self, network: Network) -> None:
        """H4: "slow down" is not a refusal. The same bytes are sent again, and then the object is created."""
        store = network.store()
        network.fail("throttled", KEY, times=2)
        assert store.put_if_absent(KEY, b"mine") == Created()
        assert store.get(KEY) == b"mine"

    def test_throttled_for_ever(self, network: Network) -> None:
        """H4: the outcome after the last repeat is neither "exists" nor "failed"."""
        store = network.store()
        network.fail("throttled", KEY, times=100)
        assert isinstance(store.put_if_absent(KEY, b"mine"), Unknown)
        with pytest.raises(ObjectNotFound):
            store.get(KEY)

    def test_expired_credentials(self, denied: Store) -> None:
        """G2: every operation raises an error that proves that nothing was done, with the store's name and a next step."""
        _refused(denied, lambda: denied.get(KEY))

    def test_missing_bucket(self, nowhere: Store) -> None:
        """G2: a missing bucket is neither "no such object" nor an empty folder, and the next step names the bucket."""
        _refused(nowhere)

    def test_read_only_permission(self, read_only: Store) -> None:
        """G2: reading works. A create and a write are errors, and leave nothing."""
        assert read_only.get("there") == b"1"
        assert [info.key for info in read_only.list("")] == ["there"]
        for act in (lambda: read_only.put_if_absent(KEY, b"1"), lambda: read_only.put(KEY, b"1")):
            _refuses(read_only, act)
        assert [info.key for info in read_only.list("")] == ["there"]


def _refused(store: Store, *more: Callable[[], object]) -> None:
    for act in (
        lambda: store.put_if_absent(KEY, b"1"),
        lambda: store.put(KEY, b"1"),
        lambda: list(store.list("")),
        *more,
    ):
        _refuses(store, act)


def _refuses(store: Store, act: Callable[[], object]) -> None:
    with pytest.raises(StoreUnavailable) as caught:
        act()
    assert store.url in str(caught.value)
    assert caught.value.next_step


def _awaited(store: Store) -> bytes:
    deadline = time.monotonic() + 20
    while True:
        try:
            return store.get(KEY)
        except ObjectNotFound:
            assert time.monotonic() < deadline, "the late request never landed"
            time.sleep(0.05)
