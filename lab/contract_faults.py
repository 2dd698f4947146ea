"""What a store makes of a network that fails and of rights that it lacks, as tests that any backend inherits.

Owns: `FaultContract` and what it asks of whoever brings a backend (`Network`). Must not know: any particular store.
Invariants that it holds a store to: a create is "created" only where the store said so; no answer is `Unknown`, and what
proves that nothing was done is an error with a next step; the winner's bytes stay, whatever lands late (H2, H3, H4, H9).
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
    """The way to a store, which can be told to fail; the store repeats requests quickly, four times at most."""

    def store(self) -> Store:
        """The store, at the end of this way."""

    def fail(self, fault: str, key: str, times: int = 1) -> None:
        """Order what happens to the next writes of a key.

        Args:
            fault: `lost` (done, the answer is cut), `dropped` (cut before it is done), `throttled` (refused for now),
                `doubled` (done, and refused for now, so that the client sends it again), `late` (cut at once, done
                `LATE_MS` later).
            key: of the object.
            times: how many writes it hits.
        """


class FaultContract:
    """The cases. A subclass brings the fixtures `network`, `denied`, `nowhere` and `read_only`.

    A fixture may skip, where a store has no such thing. `denied` is a store whose credentials are refused (wrong, or
    expired); `nowhere` one whose bucket does not exist; `read_only` one that may read, and holds the object `there`.
    """

    def test_lost_answer(self, network: Network) -> None:
        """H2, H3: whether the client sends again and meets its own object, or not: never "created", never "failed"."""
        store = network.store()
        store.put("warm", b"")
        network.fail("lost", KEY)
        assert isinstance(store.put_if_absent(KEY, b"mine"), AlreadyThere | Unknown)
        assert store.get(KEY) == b"mine"

    def test_every_answer_lost(self, network: Network) -> None:
        """H2: no answer is no failure; the bytes may be there, and here they are."""
        store = network.store()
        network.fail("lost", KEY, times=100)
        outcome = store.put_if_absent(KEY, b"mine")
        assert isinstance(outcome, Unknown)
        assert "snapshot-1" in outcome.reason
        assert store.get(KEY) == b"mine"

    def test_every_request_lost(self, network: Network) -> None:
        """H2: the same silence, and nothing is there."""
        store = network.store()
        network.fail("dropped", KEY, times=100)
        assert isinstance(store.put_if_absent(KEY, b"mine"), Unknown)
        with pytest.raises(ObjectNotFound):
            store.get(KEY)

    def test_doubled(self, network: Network) -> None:
        """H3: our own repeat is refused: `AlreadyThere`, which the caller reads back, never `Created`."""
        store = network.store()
        network.fail("doubled", KEY)
        assert store.put_if_absent(KEY, b"mine") == AlreadyThere()
        assert store.get(KEY) == b"mine"

    def test_lands_late(self, network: Network) -> None:
        """H9: not there when one looks, there later, unchanged."""
        store = network.store()
        network.fail("late", KEY, times=2)
        assert isinstance(store.put_if_absent(KEY, b"mine"), Unknown)
        assert _awaited(store) == b"mine"

    def test_lands_too_late(self, network: Network) -> None:
        """H9: what lands after another's create is refused by the store: the winner's bytes stay."""
        store = network.store()
        network.fail("late", KEY, times=2)
        assert isinstance(store.put_if_absent(KEY, b"late"), Unknown)
        outcomes = [store.put_if_absent(KEY, b"winner") for _ in range(3)]  # the second fault may hit the first of them
        time.sleep(3 * LATE_MS / 1000)
        assert store.get(KEY) == (b"winner" if Created() in outcomes else b"late")

    def test_throttled(self, network: Network) -> None:
        """H4: "slow down" is no refusal: sent again, with the same bytes, and then it is created."""
        store = network.store()
        network.fail("throttled", KEY, times=2)
        assert store.put_if_absent(KEY, b"mine") == Created()
        assert store.get(KEY) == b"mine"

    def test_throttled_for_ever(self, network: Network) -> None:
        """H4: neither "exists" nor "failed" after the last repeat."""
        store = network.store()
        network.fail("throttled", KEY, times=100)
        assert isinstance(store.put_if_absent(KEY, b"mine"), Unknown)
        with pytest.raises(ObjectNotFound):
            store.get(KEY)

    def test_expired_credentials(self, denied: Store) -> None:
        """G2: an error that proves that nothing was done, from every operation, with the store's name and a next step."""
        _refused(denied, lambda: denied.get(KEY))

    def test_missing_bucket(self, nowhere: Store) -> None:
        """G2: not "no such object", nor an empty folder: the place is wrong, and the next step says so."""
        _refused(nowhere)

    def test_read_only_permission(self, read_only: Store) -> None:
        """G2: reading goes on; a create and a write are errors, and nothing is there."""
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
