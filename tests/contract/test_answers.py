"""Every answer that a store can give to a request, sent to the real client, and what comes out: one table, walked by one test.

A proxy in front of the real server gives the answer. The contents of the store are then checked without the proxy. Exceptions
of clients that no server in the tests can cause are in `test_create_outcomes.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest
from servers import FaultProxy

from lakelatch.backends.files.object_store import FsspecStore
from lakelatch.backends.requests.patience import Patience
from lakelatch.backends.requests.refusals import DeletionRefused
from lakelatch.backends.store import AlreadyThere, Created, ObjectNotFound, Unknown
from lakelatch.core.errors import StoreUnavailable, UnsafeBackend
from lakelatch.lab.contract import NIGHTLY

from .conftest import DIALECTS, HOSTS, QUICK, Faulty, transport_of

AGAIN, ONCE = QUICK.sends, 1

WIRED = ("s3", "s3 fsspec", "gcs", "adls", *(("adls fsspec",) if NIGHTLY else ()))
THERE = ("folder/a", "folder/b")
OPERATIONS: dict[str, Callable[[FsspecStore], object]] = {
    "CREATE": lambda store: store.put_if_absent("folder/snapshot-1", b"mine"),
    "PUT": lambda store: store.put("folder/hint", b"mine"),
    "GET": lambda store: store.get("folder/a"),
    "RANGE": lambda store: store.get_range("folder/a", 5, 9),
    "HEAD": lambda store: store.head("folder/a"),
    "LIST": lambda store: [info.key for info in store.list("folder/")],
    "DELETE": lambda store: store.delete_many(["folder/a"]),
    "BATCH": lambda store: store.delete_many(THERE),
}
READS, WRITES, DELETES = "GET RANGE HEAD LIST", "CREATE PUT", "DELETE BATCH"
ALL = f"{READS} {WRITES} {DELETES}"
REST = ALL.replace("CREATE ", "")


@dataclass(frozen=True)
class Says:
    """One answer of a store, and what comes out.

    Attributes:
        operations: the requests that are answered so.
        said: the message, for people.
        outcome: the class of the error or of the result, or the result.
        words: a regular expression that the error's text must match.
        sends: how many requests are sent; several objects may be asked for one by one.
        headers: those of the answer.
    """

    operations: str
    status: int
    code: str
    said: str
    outcome: Any
    words: str = ""
    sends: int = ONCE
    headers: Mapping[str, str] = field(default_factory=dict)


def busy(status: int, code: str) -> tuple[Says, ...]:
    """The store asks for patience: nothing is taken for done or for refused, and everything is sent again."""
    return (
        Says("CREATE", status, code, "", Unknown, sends=AGAIN),
        Says(REST, status, code, "", StoreUnavailable, "overloaded", AGAIN),
    )


def conflict(status: int, code: str) -> tuple[Says, ...]:
    """Another request on the key is under way: it proves nothing."""
    return (
        Says("CREATE", status, code, "", Unknown, sends=AGAIN),
        Says(f"{READS} PUT", status, code, "", StoreUnavailable, r"another request .*\(run it again", AGAIN),
        Says(DELETES, status, code, "", DeletionRefused, str(status), AGAIN),
    )


def held(status: int, code: str, said: str, words: str = "") -> tuple[Says, ...]:
    """The one object is refused. A deletion goes on past it."""
    return (
        Says(f"{READS} {WRITES}", status, code, said, StoreUnavailable, words or f"refused: {status} "),
        Says(DELETES, status, code, said, DeletionRefused, f"folder/a: {status} "),
    )


def of_the_client(status: int, code: str, said: str, words: str, **headers: str) -> Says:
    """Every request would be refused so: the error says what to do, and no deletion asks for each of a thousand objects."""
    return Says(ALL, status, code, said, StoreUnavailable, words, headers=headers)


def no_bucket(code: str, said: str, operations: str = ALL) -> Says:
    return Says(operations, 404, code, said, StoreUnavailable, "bucket or container in the URL exists")


SKEW = "The difference between the request time and the current time is too large."
ENDPOINT = "The bucket you are attempting to access must be addressed using the specified endpoint."
MALFORMED = "The authorization header is malformed; the region 'us-east-1' is wrong; expecting 'eu-west-1'"
TOO_OLD = "Server failed to authenticate the request. Request date header too old: 'Fri, 27 Nov 2026 03:00:00 GMT'"
WITH_BODY = ALL.replace("HEAD ", "")
"""S3 answers a HEAD without a body, so that its reason is not known."""

ANSWERS: dict[str, list[Says | tuple[Says, ...]]] = {
    "s3": [
        Says(
            ALL,
            301,
            "PermanentRedirect",
            ENDPOINT,
            StoreUnavailable,
            "region eu-west-1",
            3,
            {"x-amz-bucket-region": "eu-west-1"},
        ),
        Says(f"{READS} {WRITES}", 307, "TemporaryRedirect", "", StoreUnavailable, "refused: 307 Tempor", 3),
        Says(WITH_BODY, 400, "AuthorizationHeaderMalformed", MALFORMED, StoreUnavailable, "region eu-west-1", 2),
        Says(
            WITH_BODY,
            400,
            "ExpiredToken",
            "The provided token has expired.",
            StoreUnavailable,
            "400 ExpiredToken: .*credentials",
        ),
        Says("HEAD", 400, "", "", StoreUnavailable, "refused: 400 Bad Request", 3),
        Says(
            WITH_BODY,
            403,
            "RequestTimeTooSkewed",
            SKEW,
            StoreUnavailable,
            "403 RequestTimeTooSkewed: .*clock of this machine",
        ),
        Says("HEAD", 403, "", "", StoreUnavailable, "refused: 403 Forbidden .*rights"),
        Says(
            f"{READS} {WRITES}".replace("HEAD ", ""),
            403,
            "AccessDenied",
            "Access Denied",
            StoreUnavailable,
            "403 AccessDenied: Access Denied .*rights",
        ),
        Says(
            DELETES,
            403,
            "AccessDenied",
            "Access Denied because object protected by object lock.",
            DeletionRefused,
            "folder/a: 403 AccessDenied: .*object lock",
        ),
        Says(
            "GET RANGE",
            403,
            "InvalidObjectState",
            "The operation is not valid",
            StoreUnavailable,
            "archived: .*bring the object back",
        ),
        no_bucket("NoSuchBucket", "", WITH_BODY),
        Says("GET RANGE HEAD", 404, "NoSuchKey", "", ObjectNotFound),
        Says(DELETES, 404, "NoSuchKey", "", None),
        Says("LIST PUT CREATE", 404, "NoSuchKey", "", StoreUnavailable, "path in the URL"),
        Says(WITH_BODY.replace(DELETES, ""), 405, "MethodNotAllowed", "", StoreUnavailable, "405 MethodNotAllowed"),
        conflict(409, "ConditionalRequestConflict"),
        conflict(409, "OperationAborted"),
        Says("CREATE", 412, "PreconditionFailed", "", AlreadyThere),  # without <Condition>: OSError(22) in s3fs
        Says("GET HEAD LIST PUT", 412, "PreconditionFailed", "", StoreUnavailable, "the store refused: 412"),
        Says("RANGE", 416, "InvalidRange", "", b""),
        Says("GET HEAD LIST", 416, "InvalidRange", "", StoreUnavailable, "416"),
        Says("CREATE", 400, "RequestTimeout", "", Unknown, sends=AGAIN),
        Says(WITH_BODY.replace("CREATE ", ""), 400, "RequestTimeout", "", StoreUnavailable, "overloaded", AGAIN),
        busy(429, "TooManyRequests"),
        busy(500, "InternalError"),
        busy(502, "BadGateway"),
        busy(503, "SlowDown"),
        Says("CREATE", 501, "NotImplemented", "", UnsafeBackend),
    ],
    "gcs": [
        of_the_client(301, "movedPermanently", "", "refused: 301 movedPermanently"),
        of_the_client(307, "temporaryRedirect", "", "refused: 307 temporaryRedirect"),
        held(400, "invalid", "no such field"),
        of_the_client(
            401, "authError", "Invalid Credentials", "401 authError: Invalid .*credentials"
        ),  # an expired token
        held(403, "forbidden", "x does not have storage.objects.create access", "403 forbidden: .*rights"),
        held(403, "retentionPolicyNotMet", "Object is subject to the bucket's retention policy", "end the .*retention"),
        held(403, "objectUnderActiveHold", "Object is under active Temporary hold", "end the lease, hold"),
        busy(403, "rateLimitExceeded"),
        no_bucket("notFound", "The specified bucket does not exist."),
        no_bucket("notFound", "Not Found", "LIST PUT CREATE"),
        Says("GET RANGE HEAD", 404, "notFound", "Not Found", ObjectNotFound),
        Says("DELETE", 404, "notFound", "Not Found", None),
        busy(408, "requestTimeout"),
        conflict(409, "conflict"),
        Says("CREATE", 412, "conditionNotMet", "", AlreadyThere),
        Says("GET HEAD LIST PUT", 412, "conditionNotMet", "", StoreUnavailable, "the store refused: 412"),
        held(412, "orgPolicyConstraintFailed", "a constraint of the organization", "412 orgPolicy"),
        Says("RANGE", 416, "requestedRangeNotSatisfiable", "", b""),
        Says("GET HEAD LIST", 416, "requestedRangeNotSatisfiable", "", StoreUnavailable, "416"),
        busy(429, "rateLimitExceeded"),  # a busy name
        busy(500, "internalError"),
        busy(502, ""),
        busy(503, "backendError"),
        Says("CREATE", 501, "notImplemented", "", UnsafeBackend),
    ],
    "azure": [
        Says(ALL, 301, "", "", StoreUnavailable, "refused: 301 Moved Permanently", 2),
        Says(ALL, 307, "", "", StoreUnavailable, "refused: 307 Temporary Redirect", 2),
        held(400, "InvalidHeaderValue", "One of the headers is not valid"),
        Says(
            WITH_BODY,
            403,
            "AuthenticationFailed",
            TOO_OLD,
            StoreUnavailable,
            "403 AuthenticationFailed: .*clock of this machine",
        ),
        held(403, "AuthenticationFailed", "Server failed to authenticate the request.", "403 Auth.*credentials"),
        of_the_client(401, "NoAuthenticationInformation", "", "401 NoAuth.*credentials"),
        held(403, "AuthorizationPermissionMismatch", "This request is not authorized", "403 Authorization.*rights"),
        no_bucket("ContainerNotFound", "The specified container does not exist."),
        Says("GET RANGE HEAD", 404, "BlobNotFound", "", ObjectNotFound),
        Says(DELETES, 404, "BlobNotFound", "", None),
        Says("LIST PUT CREATE", 404, "ResourceNotFound", "", StoreUnavailable, "path in the URL"),
        held(
            409,
            "BlobArchived",
            "This operation is not permitted on an archived blob.",
            "archived: .*bring the object back",
        ),
        held(409, "BlobBeingRehydrated", "The blob is being rehydrated.", "archived: .*bring the object back"),
        held(409, "SnapshotsPresent", "The operation is not permitted because the blob has snapshots."),
        Says("CREATE", 409, "BlobAlreadyExists", "", AlreadyThere),
        Says("CREATE", 409, "BlobImmutableDueToPolicy", "", AlreadyThere),
        Says("PUT", 409, "BlobImmutableDueToPolicy", "immutable", StoreUnavailable, "refused: 409 BlobImm.*retention"),
        Says(DELETES, 409, "BlobImmutableDueToPolicy", "immutable", DeletionRefused, "folder/a: 409 BlobImm"),
        Says(REST.replace(DELETES, ""), 409, "ContainerBeingDeleted", "", StoreUnavailable, "bucket or container"),
        conflict(409, "PendingCopyOperation"),
        Says("CREATE", 403, "UnauthorizedBlobOverwrite", "", AlreadyThere),
        Says("CREATE", 412, "ConditionNotMet", "", AlreadyThere),
        Says("CREATE", 412, "LeaseIdMissing", "", AlreadyThere),
        Says("PUT", 412, "LeaseIdMissing", "There is a lease", StoreUnavailable, "refused: 412 LeaseId.*end the lease"),
        Says(DELETES, 412, "LeaseIdMissing", "There is a lease", DeletionRefused, "folder/a: 412 LeaseId"),
        Says("RANGE", 416, "InvalidRange", "", b""),
        Says("HEAD LIST", 416, "InvalidRange", "", StoreUnavailable, "416"),
        busy(429, "TooManyRequests"),
        busy(500, "InternalError"),
        busy(500, "OperationTimedOut"),
        busy(503, "ServerBusy"),
    ],
}
"""What stores document that they may answer, for each dialect. A new answer is one line."""

ROWS = [
    (kind, says)
    for kind in WIRED
    for row in ANSWERS[DIALECTS[kind]]
    for says in (row if isinstance(row, tuple) else (row,))
]


@pytest.fixture(scope="module")
def wired(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Faulty]]:
    """A store of each kind behind a proxy of its own, with two objects."""
    with ExitStack() as stack:
        made: dict[str, Faulty] = {}

        def at(kind: str) -> Faulty:
            if kind not in made:
                host, dialect = request.getfixturevalue(HOSTS[kind]), DIALECTS[kind]
                proxy = stack.enter_context(FaultProxy(host.endpoint_url, dialect=dialect))
                options = {**host.storage_options(proxy.url), **transport_of(kind)}
                made[kind] = Faulty(kind, dialect, host.new_root(), options, proxy, host.storage_options())
                for key in THERE:
                    made[kind].past().put(key, b"12345")
            return made[kind]

        yield at


@pytest.mark.parametrize(
    ("kind", "says"),
    ROWS,
    ids=[f"{kind}-{says.status}-{says.code}-{says.operations.replace(' ', '+')}" for kind, says in ROWS],
)
def test_each_answer(wired: Callable[[str], Faulty], kind: str, says: Says) -> None:
    """H3, H4: no refusal becomes a success, "try again" is sent again, what is refused for good is not, the error says what to
    do, and nothing in the store has changed."""
    at = wired(kind)
    for name in says.operations.split():
        at.proxy.set(answer=(says.status, says.code, says.said, dict(says.headers)))
        at.proxy.clear()
        store = at.store()
        try:
            if isinstance(says.outcome, type) and issubclass(says.outcome, Exception):
                with pytest.raises(says.outcome) as caught:
                    OPERATIONS[name](store)
                assert type(caught.value) is says.outcome
                assert re.search(says.words, str(caught.value)), name
            else:
                found = OPERATIONS[name](store)
                assert isinstance(found, says.outcome) if isinstance(says.outcome, type) else found == says.outcome, (
                    name
                )
        finally:
            at.proxy.set(answer=None)
        sent = len(at.proxy.requests)
        most = says.sends * 2 * len(THERE) if name == "BATCH" else says.sends
        assert (says.sends if says.sends in (ONCE, AGAIN) else ONCE) <= sent <= most, (name, sent)
    assert {info.key: info.size for info in at.past().list("")} == dict.fromkeys(THERE, 5)


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
