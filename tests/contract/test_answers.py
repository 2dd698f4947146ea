"""Every answer that a store can give, sent to the real client, and the resulting outcome of a create, a read and a listing.

A proxy in front of the real server gives the answer. The contents of the store are then checked without the proxy. Exceptions
of clients that no server in the tests can cause are in `test_create_outcomes.py`.
"""

from __future__ import annotations

from typing import Any

import pytest

from lakelatch.backends.patience import Patience
from lakelatch.backends.store import AlreadyThere, Created, ObjectNotFound, Unknown
from lakelatch.core.errors import StoreUnavailable, UnsafeBackend

from .conftest import QUICK, Faulty

AGAIN, ONCE = QUICK.sends, 1

CREATES: list[tuple[str, int, str, type[Any], int]] = [
    ("s3", 412, "PreconditionFailed", AlreadyThere, ONCE),  # without <Condition>: OSError(22) in s3fs
    ("s3", 409, "ConditionalRequestConflict", Unknown, AGAIN),
    ("s3", 409, "OperationAborted", Unknown, AGAIN),
    ("s3", 503, "SlowDown", Unknown, AGAIN),
    ("s3", 429, "TooManyRequests", Unknown, AGAIN),
    ("s3", 500, "InternalError", Unknown, AGAIN),
    ("s3", 502, "BadGateway", Unknown, AGAIN),
    ("s3", 400, "RequestTimeout", Unknown, AGAIN),
    ("s3", 400, "ExpiredToken", StoreUnavailable, ONCE),
    ("s3", 403, "AccessDenied", StoreUnavailable, ONCE),
    ("s3", 403, "RequestTimeTooSkewed", StoreUnavailable, ONCE),
    ("s3", 404, "NoSuchBucket", StoreUnavailable, ONCE),
    ("s3", 501, "NotImplemented", UnsafeBackend, ONCE),
    ("gcs", 412, "conditionNotMet", AlreadyThere, ONCE),
    ("gcs", 429, "rateLimitExceeded", Unknown, AGAIN),  # a busy name
    ("gcs", 403, "rateLimitExceeded", Unknown, AGAIN),
    ("gcs", 408, "requestTimeout", Unknown, AGAIN),
    ("gcs", 409, "conflict", Unknown, AGAIN),
    ("gcs", 500, "internalError", Unknown, AGAIN),
    ("gcs", 502, "", Unknown, AGAIN),
    ("gcs", 503, "backendError", Unknown, AGAIN),
    ("gcs", 401, "authError", StoreUnavailable, ONCE),  # an expired token
    ("gcs", 403, "forbidden", StoreUnavailable, ONCE),
    ("gcs", 404, "notFound", StoreUnavailable, ONCE),  # an upload to a missing bucket
    ("gcs", 501, "notImplemented", UnsafeBackend, ONCE),
    ("adls", 409, "BlobAlreadyExists", AlreadyThere, ONCE),
    ("adls", 412, "ConditionNotMet", AlreadyThere, ONCE),
    ("adls", 412, "LeaseIdMissing", AlreadyThere, ONCE),
    ("adls", 403, "UnauthorizedBlobOverwrite", AlreadyThere, ONCE),
    ("adls", 409, "PendingCopyOperation", Unknown, AGAIN),
    ("adls", 429, "TooManyRequests", Unknown, AGAIN),
    ("adls", 500, "OperationTimedOut", Unknown, AGAIN),
    ("adls", 500, "InternalError", Unknown, AGAIN),
    ("adls", 503, "ServerBusy", Unknown, AGAIN),
    ("adls", 401, "NoAuthenticationInformation", StoreUnavailable, ONCE),
    ("adls", 403, "AuthenticationFailed", StoreUnavailable, ONCE),
    ("adls", 403, "AuthorizationPermissionMismatch", StoreUnavailable, ONCE),
    ("adls", 404, "ContainerNotFound", StoreUnavailable, ONCE),
    ("adls", 409, "ContainerBeingDeleted", StoreUnavailable, ONCE),
]
CREATES += [(f"{kind} fsspec", *rest) for kind, *rest in CREATES if kind in ("s3", "adls")]


@pytest.mark.parametrize(
    ("kind", "status", "code", "outcome", "sends"),
    CREATES,
    ids=[f"{kind} {status} {code}" for kind, status, code, *_ in CREATES],
)
def test_creates(faulty: Faulty, status: int, code: str, outcome: type[Any], sends: int) -> None:
    """H3, H4: an error proves that nothing was applied; "try again" is sent again; no failure becomes "created"."""
    store = faulty.store()
    faulty.proxy.plan("refuse", method="WRITE", path="/snapshot-1$", times=100, status=status, code=code)
    if issubclass(outcome, Exception):
        with pytest.raises(outcome) as caught:
            store.put_if_absent("snapshot-1", b"mine")
        assert caught.value.next_step  # type: ignore[attr-defined]
        assert store.url in str(caught.value)
    else:
        assert isinstance(store.put_if_absent("snapshot-1", b"mine"), outcome)
    assert faulty.writes() == sends
    with pytest.raises(ObjectNotFound):
        store.get("snapshot-1")


@pytest.mark.parametrize(
    ("kind", "status", "code"),
    [("s3", 403, "AccessDenied"), ("gcs", 403, "forbidden"), ("adls", 403, "AuthorizationFailure")],
)
def test_denied_after_a_send_that_was_applied(faulty: Faulty, status: int, code: str) -> None:
    """H2: credentials expire between two sends. The first send was applied, so this is not a failure."""
    store = faulty.store()
    faulty.proxy.plan("throttle_after", method="WRITE", path="/snapshot-1$")
    faulty.proxy.plan("refuse", method="WRITE", path="/snapshot-1$", status=status, code=code)
    assert isinstance(store.put_if_absent("snapshot-1", b"mine"), Unknown)
    assert store.get("snapshot-1") == b"mine"


def test_reads_of_missing_objects(faulty: Faulty) -> None:
    """A missing object and a range past the end are answers, not errors of the store."""
    store = faulty.store()
    store.put("a", b"12345")
    assert store.get_range("a", 5, 9) == store.get_range("a", 100, 200) == b""
    for read in (store.get, store.head, lambda key: store.get_range(key, 0, 1)):
        with pytest.raises(ObjectNotFound):
            read("none")


def test_an_incomplete_answer(faulty: Faulty) -> None:
    """H2: a body that ends early is neither an object nor a listing. Both are requested again, and arrive whole."""
    store = faulty.store()
    store.put("a", b"1" * 1000)
    store.put("b", b"2")
    faulty.proxy.plan("cut_answer", method="GET", times=2)
    assert store.get("a") == b"1" * 1000
    faulty.proxy.plan("cut_answer", method="GET", times=2)
    assert store.get_range("a", 10, 900) == b"1" * 890
    faulty.proxy.plan("cut_answer", method="GET", times=2)
    assert [info.key for info in store.list("")] == ["a", "b"]
    faulty.proxy.plan("cut_answer", method="GET", times=100)
    with pytest.raises(StoreUnavailable, match="cannot list"):
        list(store.list(""))


def test_an_incomplete_answer_to_a_create(faulty: Faulty) -> None:
    """H2: the head of the answer reports success, but its body breaks off. The outcome is never "lost"."""
    store = faulty.store()
    faulty.proxy.plan("cut_answer", method="WRITE", path="/snapshot-1$", times=100)
    outcome = store.put_if_absent("snapshot-1", b"mine")
    assert isinstance(outcome, Created | Unknown | AlreadyThere)
    assert store.get("snapshot-1") == b"mine"


def test_a_refused_connection(faulty: Faulty) -> None:
    """H2: a refused connection proves nothing about a create. The error of a read names what to check."""
    store = faulty.store(Patience(sends=2, first_wait_seconds=0.01, longest_wait_seconds=0.01))
    store.put("a", b"1")
    faulty.proxy.close()
    assert isinstance(store.put_if_absent("snapshot-1", b"mine"), Unknown)
    with pytest.raises(StoreUnavailable) as caught:
        store.get("a")
    assert "network" in caught.value.next_step
