"""A real S3 server behind a proxy that lies: what the store makes of lost answers, refusals, silence (H2, H3, H4, H9)."""

from __future__ import annotations

import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from servers.fault_proxy import FaultProxy
from servers.s3 import S3Server, s3_server

from lakelatch.backends.object_store import Patience
from lakelatch.backends.probe import ProbedStores, probe
from lakelatch.backends.s3 import S3Store
from lakelatch.backends.store import AlreadyThere, Created, ObjectNotFound, PutOutcome, Unknown
from lakelatch.core.errors import LakelatchError, StoreUnavailable, UnsafeBackend

S3 = tuple[str, dict[str, Any]]
QUICK = Patience(sends=4, first_wait_seconds=0.01, longest_wait_seconds=0.05)


@pytest.fixture
def proxy(faulty_s3: tuple[str, dict[str, Any], FaultProxy]) -> FaultProxy:
    return faulty_s3[2]


@pytest.fixture
def store(faulty_s3: tuple[str, dict[str, Any], FaultProxy]) -> S3Store:
    return S3Store(f"{faulty_s3[0]}/table", faulty_s3[1], QUICK)


def puts(proxy: FaultProxy) -> int:
    return sum(request.method == "PUT" for request in proxy.requests)


def test_lost_answer_on_a_kept_connection(store: S3Store, proxy: FaultProxy) -> None:
    """H3: the HTTP client sends again by itself and is refused by its own object: never "created", never "failed"."""
    store.put("warm", b"")
    proxy.plan("drop_answer", path="/snapshot-1$")
    assert store.put_if_absent("snapshot-1", b"mine") == AlreadyThere()
    assert store.get("snapshot-1") == b"mine"


def test_every_answer_lost(store: S3Store, proxy: FaultProxy) -> None:
    """H2: no answer is no failure; the bytes may be there, and here they are."""
    proxy.plan("drop_answer", path="/snapshot-1$", times=100)
    outcome = store.put_if_absent("snapshot-1", b"mine")
    assert isinstance(outcome, Unknown)
    assert "snapshot-1" in outcome.reason
    assert store.get("snapshot-1") == b"mine"
    assert puts(proxy) <= 2  # silence is not answered with more of the same: the caller reads back first


def test_request_lost(store: S3Store, proxy: FaultProxy) -> None:
    """H2: the same silence, and nothing is there."""
    proxy.plan("drop_request", path="/snapshot-1$", times=100)
    assert isinstance(store.put_if_absent("snapshot-1", b"mine"), Unknown)
    with pytest.raises(ObjectNotFound):
        store.get("snapshot-1")


def test_lands_late(store: S3Store, proxy: FaultProxy) -> None:
    """H9: not there when one looks, there later, unchanged."""
    proxy.plan("land_late", path="/snapshot-1$", times=2, delay_ms=500)
    assert isinstance(store.put_if_absent("snapshot-1", b"mine"), Unknown)
    for _ in range(200):
        try:
            assert store.get("snapshot-1") == b"mine"
            return
        except ObjectNotFound:
            threading.Event().wait(0.05)
    pytest.fail("the late request never landed")


@pytest.mark.parametrize("fault", ["throttle", "conflict"])
def test_try_again_is_not_a_refusal(store: S3Store, proxy: FaultProxy, fault: str) -> None:
    """H4: 503 and 409 are sent again, with the same bytes, and then it is created."""
    proxy.plan(fault, path="/snapshot-1$", times=2)
    assert store.put_if_absent("snapshot-1", b"mine") == Created()
    assert puts(proxy) == 3
    assert store.get("snapshot-1") == b"mine"


@pytest.mark.parametrize("fault", ["throttle", "conflict"])
def test_try_again_for_ever_is_unknown(store: S3Store, proxy: FaultProxy, fault: str) -> None:
    """H4: neither "exists" nor "failed" after the last repeat."""
    proxy.plan(fault, path="/snapshot-1$", times=100)
    assert isinstance(store.put_if_absent("snapshot-1", b"mine"), Unknown)
    assert puts(proxy) == QUICK.sends


def test_throttled_after_it_was_done(store: S3Store, proxy: FaultProxy) -> None:
    """H3: our own repeat is refused: `AlreadyThere`, which the caller reads back, never `Created`."""
    proxy.plan("throttle_after", path="/snapshot-1$")
    assert store.put_if_absent("snapshot-1", b"mine") == AlreadyThere()
    assert store.get("snapshot-1") == b"mine"


@pytest.mark.parametrize("fault", ["drop_answer", "drop_request", "throttle", "throttle_after"])
def test_idempotent_requests_are_repeated(store: S3Store, proxy: FaultProxy, fault: str) -> None:
    """A plain put, a read, a listing and a delete survive two faults each."""
    proxy.plan(fault, method="PUT", times=2)
    store.put("a", b"1")
    for method in ("GET", "HEAD", "DELETE"):
        proxy.plan(fault, method=method, times=2)
    assert store.get("a") == b"1"
    proxy.plan(fault, method="GET", times=2)
    assert [info.key for info in store.list("")] == ["a"]
    assert store.head("a").size == 1
    store.delete_many(["a"])
    assert list(store.list("")) == []


@pytest.mark.parametrize("fault", ["drop_answer", "throttle", "throttle_after"])
def test_large_uploads_survive(store: S3Store, proxy: FaultProxy, fault: str) -> None:
    """Every request of an upload in parts is repeated; a lost answer to the last one is looked up."""
    proxy.plan(fault, method="PUT", times=2)
    proxy.plan(fault, method="POST", times=2)  # the first request of the upload
    proxy.plan(fault, method="POST", times=2, skip=1)  # and the last
    data = bytes(range(256)) * (20 << 12)
    with store.open_output("large") as file:
        file.write(data)
    assert store.get("large") == data


def test_silence_ends_at_the_deadline(faulty_s3: tuple[str, dict[str, Any], FaultProxy]) -> None:
    """H2: a server that swallows the request does not hang the writer, whatever the client's own timeouts do."""
    url, options, proxy = faulty_s3
    S3Store(url, options).put("warm", b"")
    store = S3Store(url, {**options, "request_timeout": 1, "config_kwargs": {"read_timeout": 600}}, Patience(sends=1))
    proxy.set(latency_ms=600_000)
    assert isinstance(store.put_if_absent("snapshot-1", b"mine"), Unknown)
    with pytest.raises(StoreUnavailable, match="cannot read warm"):
        store.get("warm")


def test_reconciled_winners(store: S3Store, proxy: FaultProxy) -> None:
    """G1, G2: with a third of all puts failing one way or another, reading back after anything but `Created` gives one
    winner per round, and nobody who was told `Created` lost."""
    proxy.set(drop_put_answers=0.2, throttle_puts=0.15, seed=11)
    workers, rounds, barrier = 8, 15, threading.Barrier(8)

    def work(worker: int) -> list[tuple[PutOutcome, bool]]:
        told = []
        for number in range(rounds):
            key, mine = f"snapshot-{number}", b"worker %d" % worker
            barrier.wait(60)
            outcome = store.put_if_absent(key, mine)
            told.append((outcome, store.get(key) == mine))  # some create of the round has landed before any reads
            barrier.wait(60)
        return told

    with ThreadPoolExecutor(workers) as pool:
        told = list(pool.map(work, range(workers)))
    for number in range(rounds):
        of_round = [of_worker[number] for of_worker in told]
        assert sum(mine for _, mine in of_round) == 1
        assert all(mine for outcome, mine in of_round if outcome == Created())
    outcomes = [outcome for of_worker in told for outcome, _ in of_worker]
    assert sum(outcome == Created() for outcome in outcomes) <= rounds
    assert {request.fault for request in proxy.requests} == {"", "drop_answer", "throttle"}


def test_a_store_that_ignores_conditions_is_refused() -> None:
    """G9: the probe finds it before a second writer does."""
    with s3_server("moto") as server, FaultProxy(server.endpoint_url, strip_conditions=True) as stripping:
        bucket = server.create_bucket()
        store = S3Store(f"s3://{bucket}/table", server.storage_options(stripping.url))
        store.put("schema/schema-0", b"{}")
        with pytest.raises(UnsafeBackend, match="ignores the condition"):
            probe(store, "schema/schema-0", b"{}", probed=ProbedStores())
        named = S3Store(f"s3://{bucket}/table", {**server.storage_options(stripping.url), "allow_unsafe": True})
        assert probe(named, "schema/schema-0", b"{}", probed=ProbedStores()) is False
        sound = S3Store(f"s3://{bucket}/table", server.storage_options())
        assert probe(sound, "schema/schema-0", b"{}", probed=ProbedStores()) is True
        assert store.get("schema/schema-0") == b"{}"


SECRET = "wrong-secret-9f8e7d"


@pytest.mark.parametrize(
    ("change", "place", "says"),
    [
        ({"secret": SECRET}, "{url}/t", "credentials"),
        ({"key": "AKIAWRONG", "secret": SECRET}, "{url}/t", "credentials"),
        ({"secret": SECRET, "profile": "no-such-profile"}, "{url}/t", "profile"),
        ({}, "s3://no-such-bucket-here/t", "bucket"),
    ],
    ids=["secret", "key", "profile", "bucket"],
)
def test_refusals_that_prove_that_nothing_was_done(
    s3_host: S3Server, s3: S3, change: dict[str, Any], place: str, says: str
) -> None:
    """G2: these are errors, not unknown outcomes; they name store and key and the next step, and no secret (H19)."""
    if says == "credentials" and s3_host.name.startswith("moto"):
        pytest.skip("moto checks no signature: this needs versitygw")
    url, options = s3
    store = S3Store(place.format(url=url), {**options, **change}, QUICK)
    secrets = [SECRET, options["secret"]]
    for act in (
        lambda: store.put_if_absent("snapshot-1", b"1"),
        lambda: store.put("snapshot-1", b"1"),
        lambda: store.get("snapshot-1"),
        lambda: list(store.list("")),
        lambda: store.delete_many(["snapshot-1", "snapshot-2"]),
    ):
        with pytest.raises(StoreUnavailable) as caught:
            act()
        assert store.url in str(caught.value)
        assert says in str(caught.value)
        assert caught.value.next_step
        shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + repr(store)
        assert not [secret for secret in secrets if secret in shown]


def test_secrets_do_not_show(s3: S3) -> None:
    """H19: not in URLs, reprs, capabilities; credentials in a URL are refused without being repeated."""
    url, options = s3
    store = S3Store(f"{url}/t", {**options, "token": "session-token-1234"})
    shown = f"{store!r} {store} {store.url} {store.capabilities!r} {store._options!r} {store._given}"
    assert not [secret for secret in (options["secret"], options["key"], "session-token-1234") if secret in shown]
    with pytest.raises(LakelatchError) as caught:
        S3Store("s3://AKIAEXAMPLE:s3cr3t@bucket/path")
    assert "s3cr3t" not in str(caught.value)
