"""Classifies the errors of store clients: a table maps each error to one of a few answers.

Owns: `Answer`, how an error of any client is examined, and what an answer means for a create. Must not know: any client
library, retries, tables. Errors are recognised by their attributes and the names of their classes. Source: format/stores §1,
§4. Invariants: a create raises only after a refusal that proves that nothing was applied. A refusal that an earlier send of our
own may have caused is `AlreadyThere` (H3). An error that proves nothing is `Unknown` (H2). No error means "created".
"""

from __future__ import annotations

import enum
import html
import http.client
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ..store import AlreadyThere, Unknown

_LONGEST_CHAIN = 12


class Answer(enum.Enum):
    EXISTS = "the key exists"
    MISSING = "the key does not exist"
    NO_CONTAINER = "the bucket or container does not exist"
    PAST_END = "the range starts past the end of the object"
    CONFLICT = "another request on the same key was under way"
    BUSY = "the store is busy or failed internally"
    NO_ANSWER = "no answer"
    NOT_SENT = "the request could not be made"
    BROKEN_OFF = "the connection broke before the key was written"
    DENIED = "the store refused"
    ARCHIVED = "the object is archived"
    NO_CONDITION = "the store does not know conditional requests"


REPEATABLE = frozenset({Answer.CONFLICT, Answer.BUSY, Answer.NO_ANSWER, Answer.BROKEN_OFF})
"""Reads, plain puts and deletes are idempotent, so they are sent again after these answers."""

REPEATABLE_CREATE = frozenset({Answer.CONFLICT, Answer.BUSY, Answer.BROKEN_OFF})
"""A create is sent again with the same bytes after these answers (H4), but not after silence: then it is read back."""

BUSY = frozenset({Answer.BUSY})

APPLIED_NOTHING = frozenset(
    {
        Answer.NOT_SENT,
        Answer.BROKEN_OFF,
        Answer.DENIED,
        Answer.ARCHIVED,
        Answer.MISSING,
        Answer.NO_CONTAINER,
        Answer.NO_CONDITION,
    }
)
"""A request with one of these answers changed nothing. An earlier send of the same bytes may have."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What an error and its causes tell.

    Attributes:
        types: the class names of the error and of its causes, outermost first.
        retry_after_s: how long the store asks to wait before the request is sent again.
        said: what the store says for people, on one line.
        region: where the bucket is, if the store says that it is elsewhere.
    """

    status: int | None
    code: str | None
    types: tuple[str, ...]
    retry_after_s: float = 0.0
    said: str = ""
    region: str = ""


@dataclass(frozen=True, slots=True)
class AnswerTable:
    """Maps the errors of one kind of store to answers. The code is looked up first, then the status, then the class
    names (of the error or of a cause).

    Attributes:
        carriers: class name -> the attributes that hold the HTTP status and the error code of a store's answer, for
            clients other than botocore. The classes are listed because an HTTP library's own parse errors carry a
            `status` too and would be mistaken for a refusal.
    """

    codes: Mapping[str, Answer] = field(default_factory=dict)
    statuses: Mapping[int, Answer] = field(default_factory=dict)
    types: Mapping[str, Answer] = field(default_factory=dict)
    carriers: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def classify(self, error: BaseException) -> Answer:
        """The answer that an error stands for. An unknown error is `NO_ANSWER`, because it proves nothing."""
        facts = facts_of(error, self.carriers)
        if facts.code is not None and facts.code in self.codes:
            return self.codes[facts.code]
        if facts.status is not None:
            known = self.statuses.get(facts.status)
            if known is not None:
                return known
            return Answer.BUSY if facts.status >= 500 else Answer.DENIED
        for name in facts.types:
            if name in self.types:
                return self.types[name]
            if name in COMMON_TYPES:
                return COMMON_TYPES[name]
        return Answer.NO_ANSWER


COMMON_STATUSES: Mapping[int, Answer] = {
    404: Answer.MISSING,
    408: Answer.BUSY,
    409: Answer.CONFLICT,
    412: Answer.EXISTS,
    416: Answer.PAST_END,
    425: Answer.BUSY,
    429: Answer.BUSY,
    501: Answer.NO_CONDITION,
}

COMMON_TYPES: Mapping[str, Answer] = {
    "FileExistsError": Answer.EXISTS,
    "FileNotFoundError": Answer.MISSING,
    "PermissionError": Answer.DENIED,
    "IsADirectoryError": Answer.MISSING,
    "NotADirectoryError": Answer.MISSING,
    "FSTimeoutError": Answer.NO_ANSWER,
    "TimeoutError": Answer.NO_ANSWER,
    "ConnectionError": Answer.NO_ANSWER,
    "ClientDied": Answer.NO_ANSWER,
}
"""The exceptions of Python and fsspec, for clients that report nothing else."""


def facts_of(error: BaseException, carriers: Mapping[str, tuple[str, str]]) -> Facts:
    """The innermost answer of the store in an error and its causes. botocore's `response` needs no entry in `carriers`."""
    status: int | None = None
    code: str | None = None
    types: list[str] = []
    told_s, said, region = 0.0, "", ""
    for link in chain(error):
        names = [kind.__name__ for kind in type(link).__mro__ if kind not in (object, BaseException, Exception)]
        types.extend(names)
        found_status, found_code = _answered(link, names, carriers)
        status = status if found_status is None else found_status
        code = code if found_code is None else found_code
        if found_status is not None or found_code is not None:
            said = _said(link) or said
        headers = _headers(link)
        waits = headers.get("retry-after", "")
        told_s = max(told_s, float(waits) if waits.isdecimal() else 0.0)  # a date there counts as none
        region = headers.get("x-amz-bucket-region", region)
    if status not in (301, 307):  # S3 names the region of the bucket in other answers, too
        region = "".join(_EXPECTED.findall(said)[:1])
    return Facts(status, code, tuple(types), told_s, said, region)


def create_outcome(answer: Answer, reason: str, earlier_send: bool) -> AlreadyThere | Unknown | None:
    """The outcome by the answer to the last send, or None if certainly nothing was applied: then the caller raises.

    >>> create_outcome(Answer.DENIED, "403", earlier_send=False) is None
    True
    >>> create_outcome(Answer.EXISTS, "412", earlier_send=False)
    AlreadyThere()
    """
    if answer is Answer.EXISTS:
        return AlreadyThere(earlier_send)
    if answer in APPLIED_NOTHING:
        return Unknown(f"{reason}, after a send that was not answered") if earlier_send else None
    return Unknown(reason)


_EXPECTED = re.compile(r"expecting '([\w-]+)'")
_DOCUMENT = re.compile(
    r"\ufeff?(?:<\?xml[^>]*\?>\s*)?<Error>.*?<Code>([^<]*)</Code>.*?<Message>([^<]*)</Message>.*?</Error>", re.DOTALL
)
_LONGEST_DOCUMENT = 4000


def told(error: BaseException, facts: Facts) -> str:
    """What a store answered, in the same words by every client: status, code and message. Else what the error says."""
    if facts.status is None:
        return sentence(error)
    phrase = http.client.responses.get(facts.status, "")
    named = phrase if facts.code in (None, str(facts.status)) else str(facts.code)
    return f"{facts.status} {named}" + (f": {facts.said}" if facts.said not in ("", phrase, named) else "")


def sentence(error: BaseException) -> str:
    """What an error says, on one line. Of a store's XML document only the code and the message are told."""
    text = " ".join(str(error).split()) or type(error).__name__
    if "<Error>" not in text:
        return text
    said = _DOCUMENT.sub(lambda found: f"{found[1]}: {found[2]}", text[:_LONGEST_DOCUMENT])
    return html.unescape(said) + text[_LONGEST_DOCUMENT:]


def chain(error: BaseException) -> Iterator[BaseException]:
    """An error and its causes, outermost first."""
    link: BaseException | None = error
    for _ in range(_LONGEST_CHAIN):
        if link is None:
            return
        yield link
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)


def _headers(error: BaseException) -> dict[str, str]:
    response = getattr(error, "response", None)
    if isinstance(response, Mapping):
        headers = response.get("ResponseMetadata", {}).get("HTTPHeaders")
    else:
        headers = getattr(response, "headers", None) or getattr(error, "headers", None)
    return {str(name).lower(): str(value) for name, value in headers.items()} if isinstance(headers, Mapping) else {}


def _said(error: BaseException) -> str:
    response = getattr(error, "response", None)
    found = response.get("Error", {}).get("Message") if isinstance(response, Mapping) else getattr(error, "message", "")
    lines = str(found or "").splitlines()  # in those behind the first, Azure's client adds names of the request
    return " ".join(lines[0].split()) if lines else ""


def _answered(
    error: BaseException, names: list[str], carriers: Mapping[str, tuple[str, str]]
) -> tuple[int | None, str | None]:
    response = getattr(error, "response", None)
    if isinstance(response, Mapping):
        code = response.get("Error", {}).get("Code")
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        if status is None and str(code).isdigit():
            status = int(code)
        return status, None if code is None else str(code)
    for name in names:
        if name in carriers:
            status, code = (getattr(error, attribute, None) for attribute in carriers[name])
            code = getattr(code, "value", code)  # Azure's codes are an enumeration where its client knows them
            return (status if isinstance(status, int) else None), None if code is None else str(code)
    return None, None
