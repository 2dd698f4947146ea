"""The outcome of `put_if_absent` for each answer of S3 and compatible stores, in the form in which s3fs raises it.

The errors are made by the code of botocore and s3fs. Only the server is missing.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from typing import Any

import aiohttp.http_exceptions
import botocore.exceptions
import pytest
from fsspec.exceptions import FSTimeoutError
from s3fs.errors import translate_boto_error

from lakelatch.backends.requests.answers import Answer, AnswerTable
from lakelatch.backends.requests.patience import Patience
from lakelatch.backends.s3 import S3_ANSWERS, S3Store
from lakelatch.backends.store import AlreadyThere, Created, PutOutcome, Unknown
from lakelatch.core.errors import LakelatchError, StoreUnavailable, UnsafeBackend

URL = "http://127.0.0.1:9/bucket/key"


def answered(code: str, status: int, **more: str) -> Exception:
    """The exception that s3fs raises for an answer of the server."""
    response = {"Error": {"Code": code, "Message": code, **more}, "ResponseMetadata": {"HTTPStatusCode": status}}
    error = translate_boto_error(botocore.exceptions.ClientError(response, "PutObject"))
    assert isinstance(error, Exception)
    return error


def caused(error: Exception, *causes: Exception) -> Exception:
    link = error
    for cause in causes:
        link.__cause__ = cause
        link = cause
    return error


def unhandled(error: Exception) -> Exception:
    """The exception that aiobotocore raises around an error of its HTTP library."""
    return botocore.exceptions.HTTPClientError(error=error)


ANSWERS: list[tuple[str, Callable[[], BaseException], Answer]] = [
    ("412 with <Condition>", lambda: answered("PreconditionFailed", 412, Condition="If-None-Match"), Answer.EXISTS),
    ("412 without (MinIO, RGW)", lambda: answered("PreconditionFailed", 412), Answer.EXISTS),
    ("412 without a body", lambda: answered("412", 412), Answer.EXISTS),
    ("409 conflict", lambda: answered("ConditionalRequestConflict", 409), Answer.CONFLICT),
    ("409 aborted", lambda: answered("OperationAborted", 409), Answer.CONFLICT),
    ("409 of another kind", lambda: answered("409", 409), Answer.CONFLICT),
    ("503 SlowDown", lambda: answered("SlowDown", 503), Answer.BUSY),
    ("503 without a body", lambda: answered("503", 503), Answer.BUSY),
    ("429", lambda: answered("TooManyRequests", 429), Answer.BUSY),
    ("500", lambda: answered("InternalError", 500), Answer.BUSY),
    ("502 from a proxy", lambda: answered("502", 502), Answer.BUSY),
    ("504", lambda: answered("GatewayTimeout", 504), Answer.BUSY),
    ("200 with an error inside", lambda: answered("InternalError", 200), Answer.BUSY),
    ("400 RequestTimeout", lambda: answered("RequestTimeout", 400), Answer.BUSY),
    (
        "RequestTimeout, two causes down",
        lambda: caused(FSTimeoutError(), TimeoutError(), answered("RequestTimeout", 400)),
        Answer.BUSY,
    ),
    ("400 damaged on the way", lambda: answered("BadDigest", 400), Answer.BUSY),
    ("501", lambda: answered("NotImplemented", 501), Answer.NO_CONDITION),
    ("403", lambda: answered("AccessDenied", 403), Answer.DENIED),
    ("403 of an archive", lambda: answered("InvalidObjectState", 403), Answer.ARCHIVED),
    ("403 without a body", lambda: answered("403", 403), Answer.DENIED),
    ("403 wrong secret", lambda: answered("SignatureDoesNotMatch", 403), Answer.DENIED),
    ("403 clock", lambda: answered("RequestTimeTooSkewed", 403), Answer.DENIED),
    ("400 expired", lambda: answered("ExpiredToken", 400), Answer.DENIED),
    ("400 of another kind", lambda: answered("InvalidArgument", 400), Answer.DENIED),
    ("301 other region", lambda: answered("PermanentRedirect", 301), Answer.DENIED),
    ("404 no bucket", lambda: answered("NoSuchBucket", 404), Answer.NO_CONTAINER),
    ("404 no key", lambda: answered("NoSuchKey", 404), Answer.MISSING),
    ("404 without a body", lambda: answered("404", 404), Answer.MISSING),
    ("404 no user (versitygw)", lambda: answered("XAdminUserNotFound", 404), Answer.DENIED),
    ("416", lambda: answered("InvalidRange", 416), Answer.PAST_END),
    ("connection cut", lambda: botocore.exceptions.ConnectionClosedError(endpoint_url=URL), Answer.NO_ANSWER),
    ("read timeout", lambda: botocore.exceptions.ReadTimeoutError(endpoint_url=URL), Answer.NO_ANSWER),
    ("connect timeout", lambda: botocore.exceptions.ConnectTimeoutError(endpoint_url=URL), Answer.NO_ANSWER),
    ("refused", lambda: botocore.exceptions.EndpointConnectionError(endpoint_url=URL), Answer.NO_ANSWER),
    ("own deadline", lambda: caused(FSTimeoutError(), asyncio.TimeoutError()), Answer.NO_ANSWER),
    ("reset", lambda: ConnectionResetError(errno.ECONNRESET, "reset"), Answer.NO_ANSWER),
    ("cut body", lambda: unhandled(aiohttp.ClientPayloadError("short")), Answer.NO_ANSWER),
    ("server gone", lambda: unhandled(aiohttp.ServerDisconnectedError()), Answer.NO_ANSWER),
    (
        "garbage: carries a status of its own, 400",
        lambda: caused(
            unhandled(aiohttp.http_exceptions.BadStatusLine("<xml")), aiohttp.http_exceptions.BadStatusLine("<xml")
        ),
        Answer.NO_ANSWER,
    ),
    ("unreadable answer", lambda: TypeError("'coroutine' object is not subscriptable"), Answer.NO_ANSWER),
    ("no credentials", botocore.exceptions.NoCredentialsError, Answer.NOT_SENT),
    (
        "half of them",
        lambda: botocore.exceptions.PartialCredentialsError(provider="env", cred_var="k"),
        Answer.NOT_SENT,
    ),
    ("no profile", lambda: botocore.exceptions.ProfileNotFound(profile="p"), Answer.NOT_SENT),
    ("bad parameter", lambda: botocore.exceptions.ParamValidationError(report="bucket"), Answer.NOT_SENT),
]

OUTCOMES: dict[Answer, type[Any]] = {
    Answer.EXISTS: AlreadyThere,
    Answer.CONFLICT: Unknown,
    Answer.BUSY: Unknown,
    Answer.NO_ANSWER: Unknown,
    Answer.PAST_END: Unknown,
    Answer.NO_CONDITION: UnsafeBackend,
    Answer.DENIED: StoreUnavailable,
    Answer.ARCHIVED: StoreUnavailable,
    Answer.NO_CONTAINER: StoreUnavailable,
    Answer.MISSING: StoreUnavailable,
    Answer.NOT_SENT: StoreUnavailable,
}


class ScriptedStore(S3Store):
    """An S3 store whose creates follow a script: an error is raised, and None is a success."""

    script: list[BaseException | None]
    sends = 0

    async def _create(self, fs: Any, path: str, data: bytes) -> None:
        self.sends += 1
        error = self.script[min(self.sends, len(self.script)) - 1]
        if error is not None:
            raise error


def outcome_of(*script: BaseException | None) -> tuple[PutOutcome | LakelatchError, int]:
    """The outcome or the raised error, and the number of sends."""
    patience = Patience(sends=4, first_wait_seconds=0.001, longest_wait_seconds=0.002)
    options = {"key": "k", "secret": "s", "endpoint_url": "http://127.0.0.1:9", "transport": "fsspec"}
    store = ScriptedStore("s3://bucket/t", options, patience)
    store.script = list(script)
    try:
        return store.put_if_absent("snapshot/snapshot-1", b"{}"), store.sends
    except LakelatchError as error:
        assert "s3://bucket/t" in str(error)
        assert "snapshot-1" in str(error)
        return error, store.sends


@pytest.mark.parametrize(("name", "make", "answer"), ANSWERS, ids=[name for name, _, _ in ANSWERS])
def test_each_answer(name: str, make: Callable[[], BaseException], answer: Answer) -> None:
    """H2, H3, H4: answers are recognised by code, not by exception class, and determine the outcome of a single send."""
    assert S3_ANSWERS.classify(make()) is answer
    outcome, sends = outcome_of(make())
    assert type(outcome) is OUTCOMES[answer]
    assert sends == (4 if answer in (Answer.CONFLICT, Answer.BUSY) else 1)


def test_every_answer_is_in_the_table() -> None:
    of_hdfs_alone = {Answer.BROKEN_OFF}  # tests/unit/backends/test_client_that_dies.py
    assert {answer for _, _, answer in ANSWERS} == set(OUTCOMES) == set(Answer) - of_hdfs_alone


def test_sent_again_until_it_is_created() -> None:
    """H4: 409 and 503 mean that the same request must be sent again."""
    assert outcome_of(answered("SlowDown", 503), answered("ConditionalRequestConflict", 409), None) == (Created(), 3)


def test_refused_after_an_own_send() -> None:
    """H3: our own first send may have caused the refusal, so it is read back. H9: the first send may also land later."""
    outcome, sends = outcome_of(answered("InternalError", 500), answered("PreconditionFailed", 412))
    assert (outcome, sends) == (AlreadyThere(), 2)
    assert isinstance(outcome, AlreadyThere)
    assert outcome.earlier_send
    alone, _ = outcome_of(answered("PreconditionFailed", 412))
    assert isinstance(alone, AlreadyThere)
    assert not alone.earlier_send


@pytest.mark.parametrize("last", ["AccessDenied", "NoSuchBucket", "NotImplemented"])
def test_denied_after_an_own_send(last: str) -> None:
    """H2: the first send may have been applied, whatever the second answer says. The outcome is unknown, not failed."""
    status = {"AccessDenied": 403, "NoSuchBucket": 404, "NotImplemented": 501}[last]
    outcome, sends = outcome_of(answered("InternalError", 500), answered(last, status))
    assert isinstance(outcome, Unknown)
    assert sends == 2


def test_a_create_without_an_answer_is_not_repeated() -> None:
    """H2, H9: after no answer the caller reads back. A second send could only hide what happened to the first."""
    outcome, sends = outcome_of(botocore.exceptions.ConnectionClosedError(endpoint_url=URL), None)
    assert isinstance(outcome, Unknown)
    assert sends == 1


def test_other_clients_carriers() -> None:
    """Other stores name the classes of errors that carry their answers. No other class is trusted."""

    class HttpResponseError(Exception):
        status_code = 409
        error_code = "BlobAlreadyExists"

    table = AnswerTable(
        codes={"BlobAlreadyExists": Answer.EXISTS}, carriers={"HttpResponseError": ("status_code", "error_code")}
    )
    assert table.classify(caused(RuntimeError("Failed to upload block"), HttpResponseError())) is Answer.EXISTS
    assert AnswerTable().classify(HttpResponseError()) is Answer.NO_ANSWER
