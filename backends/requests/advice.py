"""What a person can do about an answer of a store, where its words name more than the kind of the answer.

Owns: the next steps of errors, and which refusals are about all requests. Must not know: any client library, retries.
Invariant: advice is for people. A deletion that is refused for a reason of the client's own (its clock, its region, its
credentials) is not taken for one of an object under a hold, and nothing else is judged by it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from .answers import Answer, Facts

NEXT_STEPS: Mapping[Answer, str] = {
    Answer.MISSING: "check that the path in the URL exists and is spelled correctly",
    Answer.NO_CONTAINER: "check that the bucket or container in the URL exists and is spelled correctly",
    Answer.DENIED: "check what the store reports: credentials (profile, key and secret, role), rights on the path, region",
    Answer.ARCHIVED: "bring the object back from the archive tier, and keep the table's folder out of rules that archive",
    Answer.NOT_SENT: "check the credentials, the region and the endpoint in the storage options",
    Answer.NO_ANSWER: "check the network and the endpoint, then run it again; storage option request_timeout says how long one"
    " request may take",
    Answer.BROKEN_OFF: "check the network and the endpoint, then run it again",
    Answer.CONFLICT: "run it again",
    Answer.BUSY: "the store is overloaded: run it again later, or with fewer writers",
}

_CLOCK = re.compile(
    r"RequestTimeTooSkewed|request time and the current time|date header too old|not within the valid time|iat and exp",
    re.IGNORECASE,
)
_HELD = re.compile(r"\b[Ll]ease|LeaseId|[Ii]mmutab|[Rr]etention|\b[Hh]old\b|ActiveHold|[Oo]bject [Ll]ock|WORM")
_OF_THE_CLIENT = frozenset(
    {"ExpiredToken", "ExpiredTokenException", "InvalidAccessKeyId", "InvalidToken", "TokenRefreshRequired", "authError"}
)


def next_step(answer: Answer, facts: Facts) -> str | None:
    if answer in (Answer.DENIED, Answer.NOT_SENT):
        if _is_of_clock(facts):
            return "set the clock of this machine: the store refuses requests whose time is not its own"
        if facts.region:
            return (
                f"the bucket is in region {facts.region}: name it with storage option client_kwargs"
                f" ({{'region_name': '{facts.region}'}}) or with AWS_DEFAULT_REGION"
            )
        if _HELD.search(f"{facts.code} {facts.said}"):
            return "end the lease, hold or retention of the object, or use a folder without them"
    return NEXT_STEPS.get(answer)


def is_of_the_client(facts: Facts) -> bool:
    """Whether a refusal is about who asks, when or where, so that every other request would meet it, too."""
    is_elsewhere = facts.status in (301, 307) or bool(facts.region)
    return is_elsewhere or facts.status == 401 or facts.code in _OF_THE_CLIENT or _is_of_clock(facts)


def _is_of_clock(facts: Facts) -> bool:
    return _CLOCK.search(f"{facts.code} {facts.said}") is not None
