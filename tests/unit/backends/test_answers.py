"""How an error of a client is examined: which link of the chain counts, and in which order the tables are searched."""

from __future__ import annotations

import enum
from typing import Any

import pytest
from fsspec.exceptions import FSTimeoutError

from lakelatch.backends.requests.answers import (
    COMMON_STATUSES,
    Answer,
    AnswerTable,
    Facts,
    chain,
    create_outcome,
    facts_of,
    sentence,
    told,
)
from lakelatch.backends.store import AlreadyThere, Unknown
from lakelatch.backends.transport.choice import ClientDied


class BotoError(Exception):
    """Carries an answer like an error of botocore."""

    def __init__(self, response: Any) -> None:
        self.response = response


class Carrier(Exception):
    """Carries an answer like an error of another client."""

    def __init__(self, status: object, code: object) -> None:
        self.status, self.code = status, code


class Derived(Carrier):
    """A subclass of it."""


class Code(enum.Enum):
    """Azure's client has an enumeration for the codes that it knows."""

    KNOWN = "KnownToTheClient"


CARRIERS = {"Carrier": ("status", "code")}


def boto(status: object = None, code: object = None) -> BotoError:
    return BotoError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}})


def said(error: BaseException) -> tuple[int | None, str | None]:
    facts = facts_of(error, CARRIERS)
    return facts.status, facts.code


def after(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


def during(error: BaseException, context: BaseException) -> BaseException:
    error.__context__ = context
    return error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (boto(412, "PreconditionFailed"), (412, "PreconditionFailed")),
        (boto(None, "503"), (503, "503")),
        (boto(400, "503"), (400, "503")),
        (boto(None, "SlowDown"), (None, "SlowDown")),
        (boto(404), (404, None)),
        (boto(None, 404), (404, "404")),
        (BotoError({}), (None, None)),
        (BotoError("no mapping"), (None, None)),
        (Carrier(409, "Busy"), (409, "Busy")),
        (Derived(409, "Busy"), (409, "Busy")),
        (Carrier("409", Code.KNOWN), (None, "KnownToTheClient")),
        (Carrier(409, None), (409, None)),
        (ValueError("409"), (None, None)),
    ],
    ids=repr,
)
def test_facts_of_a_single_error(error: BaseException, expected: tuple[int | None, str | None]) -> None:
    assert said(error) == expected


class Explained(Carrier):
    """It says something for people, too."""

    def __init__(self, status: object, code: object, message: object) -> None:
        super().__init__(status, code)
        self.message = message

    def __str__(self) -> str:
        return "as it says itself"


def explained(message: object, status: object = 403, code: object = "AccessDenied") -> BotoError:
    answer = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return BotoError(answer)


LEASED = "There is a lease.\nRequestId:7\nTime:2024-02-29"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (explained("Access  Denied"), "403 AccessDenied: Access Denied"),
        (explained("Access Denied\r\nby a policy"), "403 AccessDenied: Access Denied"),
        (explained(None), "403 AccessDenied"),
        (explained(""), "403 AccessDenied"),
        (boto(403, "AccessDenied"), "403 AccessDenied"),
        (boto(403), "403 Forbidden"),
        (boto(None, "403"), "403 Forbidden"),
        (explained("Forbidden", code="403"), "403 Forbidden"),
        (explained("AccessDenied"), "403 AccessDenied"),
        (boto(299), "299 "),
        (Explained(412, "LeaseIdMissing", LEASED), "412 LeaseIdMissing: There is a lease."),
        (Explained(412, None, LEASED), "412 Precondition Failed: There is a lease."),
        (Explained(412, "LeaseIdMissing", None), "412 LeaseIdMissing"),
        (Carrier(412, "LeaseIdMissing"), "412 LeaseIdMissing"),
        (after(explained("outer"), explained("inner", 409, "Busy")), "409 Busy: inner"),
        (after(explained("outer"), boto(409, "Busy")), "409 Busy: outer"),
        (Explained(None, "Broken", "no status"), "as it says itself"),
        (ValueError("no answer"), "no answer"),
    ],
    ids=repr,
)
def test_an_answer_is_told_in_the_same_words_whichever_client_gives_it(error: BaseException, words: str) -> None:
    """Of what the store says, the first line: Azure's client adds the names of the request below it."""
    assert told(error, facts_of(error, CARRIERS)) == words


def test_what_another_error_says_is_not_the_stores_word() -> None:
    """Only a link of the chain that carries an answer speaks for the store."""
    unlisted = ValueError()
    unlisted.message = "bad header"  # type: ignore[attr-defined]
    assert facts_of(after(explained("Slow down", 503, "SlowDown"), unlisted), CARRIERS).said == "Slow down"


def test_only_listed_classes_carry_answers() -> None:
    """An HTTP library's own parse errors carry a `status` too, and would be mistaken for a refusal."""
    assert facts_of(Carrier(409, "Busy"), {}) == Facts(None, None, ("Carrier",))
    assert facts_of(Carrier(409, "Busy"), {"Other": ("status", "code")}).status is None


def test_the_innermost_answer_counts() -> None:
    """This holds for status and code separately, because a wrapper may know only one of them."""
    assert said(after(boto(500, "Outer"), boto(412, "Inner"))) == (412, "Inner")
    assert said(after(boto(500, "Outer"), ValueError())) == (500, "Outer")
    assert said(after(boto(500, "Outer"), Carrier(None, "Inner"))) == (500, "Inner")
    assert said(after(ValueError(), boto(412))) == (412, None)


def test_causes_and_contexts_are_followed() -> None:
    assert said(during(ValueError(), boto(412))) == (412, None)
    both = during(after(ValueError(), boto(412)), boto(500))
    assert said(both) == (412, None), "the explicit cause of an error comes before its context"
    hidden = during(ValueError(), boto(412))
    hidden.__suppress_context__ = True
    assert said(hidden) == (None, None)
    assert list(chain(both)) == [both, both.__cause__]


def test_a_circular_chain_ends() -> None:
    one, two = ValueError(), TypeError()
    one.__context__, two.__context__ = two, one
    assert len(list(chain(one))) == 12
    links: list[BaseException] = [boto(412)]
    for _ in range(10):
        links.append(after(ValueError(), links[-1]))
    assert said(after(ValueError(), links[-1])) == (412, None)
    assert said(after(ValueError(), after(ValueError(), links[-1]))) == (None, None)


def test_classes_are_named_from_the_outside_in() -> None:
    error = after(Derived(None, None), FileNotFoundError())
    assert facts_of(error, {}).types == ("Derived", "Carrier", "FileNotFoundError", "OSError")


def test_a_code_beats_a_status_and_a_status_beats_a_class() -> None:
    table = AnswerTable(
        codes={"Full": Answer.BUSY},
        statuses={404: Answer.NO_CONTAINER, 503: Answer.DENIED},
        types={"BotoError": Answer.EXISTS, "TimeoutError": Answer.NOT_SENT},
    )
    assert table.classify(boto(404, "Full")) is Answer.BUSY
    assert table.classify(boto(404, "Other")) is Answer.NO_CONTAINER
    assert table.classify(boto(503)) is Answer.DENIED
    assert table.classify(boto(None, "Other")) is Answer.EXISTS
    assert table.classify(TimeoutError()) is Answer.NOT_SENT, "a store's own table comes before the common one"
    assert AnswerTable().classify(TimeoutError()) is Answer.NO_ANSWER


@pytest.mark.parametrize(
    ("status", "answer"), [(499, Answer.DENIED), (500, Answer.BUSY), (599, Answer.BUSY), (302, Answer.DENIED)]
)
def test_a_status_that_is_not_in_the_table(status: int, answer: Answer) -> None:
    assert AnswerTable().classify(boto(status)) is answer


def test_statuses_have_the_meaning_of_http() -> None:
    """Unless the store's own table gives it another meaning."""
    said = {
        404: Answer.MISSING,
        409: Answer.CONFLICT,
        412: Answer.EXISTS,
        416: Answer.PAST_END,
        501: Answer.NO_CONDITION,
    }
    assert said | dict.fromkeys((408, 425, 429), Answer.BUSY) == dict(COMMON_STATUSES)
    own = AnswerTable(statuses={**COMMON_STATUSES, 404: Answer.NO_CONTAINER})
    assert own.classify(boto(429)) is Answer.BUSY
    assert own.classify(boto(404)) is Answer.NO_CONTAINER


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (FileExistsError(), Answer.EXISTS),
        (FileNotFoundError(), Answer.MISSING),
        (PermissionError(), Answer.DENIED),
        (IsADirectoryError(), Answer.MISSING),
        (NotADirectoryError(), Answer.MISSING),
        (TimeoutError(), Answer.NO_ANSWER),
        (ConnectionResetError(), Answer.NO_ANSWER),
        (OSError(), Answer.NO_ANSWER),
        (after(TimeoutError(), FileExistsError()), Answer.NO_ANSWER),
        (after(ConnectionResetError(), FileExistsError()), Answer.NO_ANSWER),
        (after(FSTimeoutError(), FileExistsError()), Answer.NO_ANSWER),
        (after(ClientDied(), FileExistsError()), Answer.NO_ANSWER),
        (after(OSError(), FileExistsError()), Answer.EXISTS),
    ],
    ids=repr,
)
def test_builtin_errors(error: BaseException, answer: Answer) -> None:
    assert AnswerTable().classify(error) is answer


@pytest.mark.parametrize("answer", Answer)
def test_outcome_of_a_create(answer: Answer) -> None:
    """H2, H3: a failure proves that nothing was applied. After an earlier send, not even that is a failure."""
    nothing = {
        Answer.NOT_SENT,
        Answer.BROKEN_OFF,
        Answer.DENIED,
        Answer.ARCHIVED,
        Answer.MISSING,
        Answer.NO_CONTAINER,
        Answer.NO_CONDITION,
    }
    first, later = (create_outcome(answer, "why", earlier_send=earlier) for earlier in (False, True))
    if answer is Answer.EXISTS:
        assert isinstance(first, AlreadyThere) and not first.earlier_send
        assert isinstance(later, AlreadyThere) and later.earlier_send
    elif answer in nothing:
        assert first is None
        assert isinstance(later, Unknown) and later.reason.startswith("why, after a send")
    else:
        assert first == later == Unknown("why")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("plain text", "plain text"),
        ("", "OSError"),
        (
            '409 Conflict: \ufeff<?xml version="1.0" encoding="utf-8"?>\n<Error><Code>BlobImmutableDueToPolicy</Code>\n'
            "<Message>It is\nprotected &amp; held.</Message></Error>",
            "409 Conflict: BlobImmutableDueToPolicy: It is protected & held.",
        ),
        (
            "403: <Error><Code>AccessDenied</Code><Message>Access Denied</Message><RequestId>7</RequestId></Error>, sent once",
            "403: AccessDenied: Access Denied, sent once",
        ),
        ("<Error><Code>Cut</Code><Mess", "<Error><Code>Cut</Code><Mess"),
        ("<Error>" + "<Code>" * 3000, "<Error>" + "<Code>" * 3000),
    ],
)
def test_a_document_of_a_store_is_told_as_a_sentence(text: str, told: str) -> None:
    assert sentence(OSError(text)) == told


@pytest.mark.parametrize(("status", "region"), [(301, "eu-west-1"), (307, "eu-west-1"), (403, "")])
def test_only_a_redirect_says_that_the_bucket_is_in_another_region(status: int, region: str) -> None:
    """S3 names the region of the bucket in the headers of other answers, too."""
    headers = {"x-amz-bucket-region": "eu-west-1"}
    answer = {"ResponseMetadata": {"HTTPStatusCode": status, "HTTPHeaders": headers}, "Error": {"Message": "elsewhere"}}
    assert facts_of(BotoError(answer), CARRIERS).region == region
