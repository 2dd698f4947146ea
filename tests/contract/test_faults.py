"""Real servers behind a proxy: how each store handles lost answers, refusals and silence (H2, H3, H4, H9)."""

from __future__ import annotations

import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from report import not_here
from servers import AzureServer, FaultProxy, s3_server

from lakelatch.backends.files.object_store import FsspecStore
from lakelatch.backends.probe import ProbedStores, probe
from lakelatch.backends.registry import open_store
from lakelatch.backends.requests.patience import Patience
from lakelatch.backends.s3 import S3Store
from lakelatch.backends.store import Created, PutOutcome, Unknown
from lakelatch.core.errors import LakelatchError, StoreUnavailable, UnsafeBackend

from .conftest import QUICK, Faulty

S3 = tuple[str, dict[str, Any]]


@pytest.fixture
def proxy(faulty: Faulty) -> FaultProxy:
    return faulty.proxy


@pytest.fixture
def store(faulty: Faulty) -> FsspecStore:
    return faulty.store()


def test_a_create_without_an_answer_is_not_sent_again(faulty: Faulty, store: FsspecStore) -> None:
    """H2: the caller reads back first. The HTTP client resends a PUT by itself if a kept connection broke."""
    faulty.fail("lost", "snapshot-1", times=100)
    assert isinstance(store.put_if_absent("snapshot-1", b"mine"), Unknown)
    assert faulty.writes() <= (1 if faulty.kind == "gcs" else 2)


@pytest.mark.parametrize("fault", ["throttle", "conflict"])
def test_try_again_is_not_a_refusal(faulty: Faulty, store: FsspecStore, proxy: FaultProxy, fault: str) -> None:
    """H4: after 503 and 409 the same bytes are sent again until the object is created. After the last repeat it is unknown."""
    proxy.plan(fault, method="WRITE", path="/snapshot-1$", times=2)
    assert store.put_if_absent("snapshot-1", b"mine") == Created()
    assert faulty.writes() == 3
    proxy.clear()
    proxy.plan(fault, method="WRITE", path="/snapshot-2$", times=100)
    assert isinstance(store.put_if_absent("snapshot-2", b"mine"), Unknown)
    assert faulty.writes() == QUICK.sends


@pytest.mark.parametrize("fault", ["drop_answer", "drop_request", "throttle", "throttle_after"])
def test_idempotent_requests_are_repeated(store: FsspecStore, proxy: FaultProxy, fault: str) -> None:
    """A plain put, a read, a listing and a delete survive two faults each."""
    proxy.plan(fault, method="WRITE", times=2)
    store.put("a", b"1")
    by_post = store.transport.name == "obstore" and store.url.startswith("s3")
    for method in ("GET", "HEAD", "POST" if by_post else "DELETE"):
        proxy.plan(fault, method=method, times=2)
    assert store.get("a") == b"1"
    proxy.plan(fault, method="GET", times=2)
    assert [info.key for info in store.list("")] == ["a"]
    assert store.head("a").size == 1
    store.delete_many(["a"])
    assert list(store.list("")) == []


@pytest.mark.parametrize("fault", ["drop_answer", "throttle", "throttle_after"])
def test_large_uploads_survive(faulty: Faulty, store: FsspecStore, proxy: FaultProxy, fault: str) -> None:
    """Every request of an upload in parts is repeated. After a lost answer to the last one, the object is looked up."""
    if faulty.kind == "s3":
        proxy.plan(fault, method="POST", times=2)  # the first request of the upload
        proxy.plan(fault, method="POST", times=2, skip=1)  # and the last one
    if faulty.kind == "adls":
        proxy.plan(fault, method="PUT", times=2, skip=2)  # the last request
    proxy.plan(fault, method="WRITE", times=2)
    data = bytes(range(256)) * (20 << 12)
    with store.open_output("large") as file:
        file.write(data)
    assert store.get("large") == data


def test_silence_ends_at_the_deadline(faulty: Faulty) -> None:
    """H2: a server that never answers does not hang the writer, whatever the client's own timeouts are."""
    faulty.store().put("warm", b"")
    own = {
        "s3": {"config_kwargs": {"read_timeout": 600}},
        "gcs": {"requests_timeout": 600},
        "adls": {"read_timeout": 600},
    }
    store = faulty.store(Patience(sends=1), request_timeout=1, **own[faulty.kind])
    faulty.proxy.set(latency_ms=600_000)
    assert isinstance(store.put_if_absent("snapshot-1", b"mine"), Unknown)
    with pytest.raises(StoreUnavailable, match="cannot read warm"):
        store.get("warm")


def test_reconciled_winners(store: FsspecStore, proxy: FaultProxy) -> None:
    """G1, G2: a third of all puts fail. If writers read back after every outcome except `Created`, each round has one winner,
    and no writer with `Created` has lost."""
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


@contextmanager
def ignoring(kind: str, request: pytest.FixtureRequest) -> Any:
    """A store that ignores conditions: (url, options with the proxy, options without it)."""
    if kind == "s3":
        # The signature covers the condition, so this needs a server that checks no signatures.
        with s3_server("moto") as server, FaultProxy(server.endpoint_url, strip_conditions=True) as stripping:
            yield server.new_root(), server.storage_options(stripping.url), server.storage_options()
    elif kind == "gcs":
        host = request.getfixturevalue("gcs_host")
        with FaultProxy(host.endpoint_url, strip_conditions=True, dialect="gcs") as stripping:
            yield host.new_root(), host.storage_options(stripping.url), host.storage_options()
    else:
        host = request.getfixturevalue("azure_host")
        with FaultProxy(host.endpoint_url, strip_conditions=True, dialect="azure") as stripping:
            yield host.new_root(), host.shared_access_options(stripping.url), host.storage_options()


@pytest.mark.parametrize("kind", ["s3", "gcs", "adls"])
def test_a_store_that_ignores_conditions_is_refused(kind: str, request: pytest.FixtureRequest) -> None:
    """G9: the probe finds it before a second writer overwrites anything."""
    with ignoring(kind, request) as (url, through, past):
        store = open_store(f"{url}/table", through)
        store.put("schema/schema-0", b"{}")
        with pytest.raises(UnsafeBackend, match="ignores the condition"):
            probe(store, "schema/schema-0", b"{}", probed=ProbedStores())
        named = open_store(f"{url}/table", {**through, "allow_unsafe": True})
        assert probe(named, "schema/schema-0", b"{}", probed=ProbedStores()) is False
        assert probe(open_store(f"{url}/table", past), "schema/schema-0", b"{}", probed=ProbedStores()) is True
        assert store.get("schema/schema-0") == b"{}"


SECRET = "wrong-secret-9f8e7d"
WRONG_KEY = "d3Jvbmctc2VjcmV0LTlmOGU3ZC13cm9uZy1zZWNyZXQ="


def wrong_key(azure: AzureServer) -> dict[str, Any]:
    return {"connection_string": azure.connection_string(credential=f"AccountKey={WRONG_KEY}")}


@pytest.mark.parametrize(
    ("kind", "change", "place", "says"),
    [
        ("s3", {"secret": SECRET}, "{url}/t", "credentials"),
        ("s3", {"key": "AKIAWRONG", "secret": SECRET}, "{url}/t", "credentials"),
        ("s3", {"secret": SECRET, "profile": "no-such-profile"}, "{url}/t", "profile"),
        ("s3", {}, "s3://no-such-bucket-here/t", "bucket"),
        ("gcs", {}, "gs://no-such-bucket-here/t", "bucket"),
        ("adls", wrong_key, "{url}/t", "credentials"),
        ("adls", {}, "abfs://no-such-container-here/t", "container"),
    ],
    ids=["s3 secret", "s3 key", "s3 profile", "s3 bucket", "gcs bucket", "adls key", "adls container"],
)
def test_refusals_prove_that_nothing_was_done(
    kind: str, change: Any, place: str, says: str, request: pytest.FixtureRequest
) -> None:
    """G2: these are errors, not unknown outcomes. They name the store, the key and the next step, and no secret (H19)."""
    url, options = request.getfixturevalue(kind)
    if kind == "s3" and says == "credentials" and request.getfixturevalue("s3_host").name.startswith("moto"):
        not_here("S3 credentials", "moto checks no signature: this needs versitygw, which Go builds")
    changed = change(request.getfixturevalue("azure_host")) if callable(change) else change
    store = open_store(place.format(url=url), {**options, **changed})
    secrets = [SECRET, WRONG_KEY, options.get("secret", SECRET), options.get("connection_string", SECRET)]
    acts = [
        lambda: store.put_if_absent("snapshot-1", b"1"),
        lambda: store.put("snapshot-1", b"1"),
        lambda: list(store.list("")),
    ]
    if kind != "gcs":  # the server answers 404 to both: a missing object and a missing bucket
        acts += [lambda: store.get("snapshot-1"), lambda: store.delete_many(["snapshot-1", "snapshot-2"])]
    for act in acts:
        with pytest.raises(StoreUnavailable) as caught:
            act()
        assert store.url in str(caught.value)
        assert says in str(caught.value)
        assert caught.value.next_step
        shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + repr(store)
        assert not [secret for secret in secrets if secret in shown]


def test_read_only_permission(azure_host: AzureServer, adls: S3) -> None:
    """G2: reading works. A write and a create are errors that name the reason, and leave nothing."""
    url, options = adls
    open_store(f"{url}/t", options).put("there", b"1")
    store = open_store(f"{url}/t", azure_host.shared_access_options(permission="rl"))
    assert (store.get("there"), [info.key for info in store.list("")]) == (b"1", ["there"])
    for act in (
        lambda: store.put_if_absent("snapshot-1", b"1"),
        lambda: store.put("snapshot-1", b"1"),
        lambda: store.delete_many(["there"]),
        lambda: store.delete_many(["there", "snapshot-1"]),
    ):
        with pytest.raises(StoreUnavailable, match=r"AuthorizationPermissionMismatch|not authorized"):
            act()
    assert [info.key for info in store.list("")] == ["there"]


URLS_WITH_CREDENTIALS = [
    "s3://AKIAEXAMPLE:s3cr3t@bucket/path",
    "gs://someone:s3cr3t@bucket/path",
    "abfs://container:s3cr3t@account.dfs.core.windows.net/path",
    "abfs://lake@someone:s3cr3t@account/path",
]


def test_secrets_do_not_show(s3: S3) -> None:
    """H19: no secret in URLs, reprs or capabilities. Credentials in a URL are refused without repeating them."""
    url, options = s3
    store = S3Store(f"{url}/t", {**options, "token": "session-token-1234"})
    shown = f"{store!r} {store} {store.url} {store.capabilities!r} {store._options!r} {store._given}"
    assert not [secret for secret in (options["secret"], options["key"], "session-token-1234") if secret in shown]
    for url in URLS_WITH_CREDENTIALS:
        with pytest.raises(LakelatchError) as caught:
            open_store(url)
        assert "s3cr3t" not in str(caught.value)
