"""The identity of a statement's commit, by settings of the session.

Owns: `lakelatch.commit-user` and `lakelatch.identifier`, and when the identifier is taken away. Must not know: statements.
Source: decision 124.

Invariants: an identifier is that of one statement. It is unset once that statement has committed or failed, and kept where the
outcome is not known, so that running it again finds out. A commit user without an identifier is an error, so that a statement
that was to land once does not land without its identity.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ...core.errors import InvalidArgument, OutcomeUnknown

COMMIT_USER, IDENTIFIER = "lakelatch.commit-user", "lakelatch.identifier"
_SETTING = re.compile(
    r"\s*(SET|RESET)\s+(lakelatch\.(?:commit-user|identifier))\s*(?:=\s*(?:'([^']*)'|([^\s;]+)))?\s*;?\s*",
    re.IGNORECASE,
)


def settled(session: Any, text: str) -> Any:
    """Carry out `SET lakelatch.commit-user = etl`, which Spark takes in backticks only, and its like; None for other texts."""
    found = _SETTING.fullmatch(text)
    if found is None:
        return None
    verb, key, value = found[1].upper(), found[2].lower(), found[3] or found[4]
    if verb == "RESET":
        session.conf.unset(key)
    elif value is not None:
        session.conf.set(key, value)
    else:
        value = session.conf.get(key, "<undefined>")
    return session.createDataFrame([] if verb == "RESET" else [(key, value)], "key string, value string")


@contextmanager
def identity_of(session: Any, commits: bool = True) -> Iterator[dict[str, Any]]:
    """`commit_user` and `identifier` for the commit that is made inside; empty if the session names none, or nothing commits."""
    if not commits:
        yield {}
        return
    user, number = session.conf.get(COMMIT_USER, None), session.conf.get(IDENTIFIER, None)
    if user is None and number is None:
        yield {}
        return
    if user is None or number is None:
        given, missing = (IDENTIFIER, COMMIT_USER) if user is None else (COMMIT_USER, IDENTIFIER)
        raise InvalidArgument(
            f"{given} is set, and {missing} is not: each statement needs an identifier of its own",
            next_step=f"SET {missing} = …, or RESET {given}",
        )
    if not number.lstrip("-").isdigit():
        raise InvalidArgument(
            f"{IDENTIFIER} is {number!r}, which is not a number", next_step=f"SET {IDENTIFIER} = 1, for instance"
        )
    try:
        yield {"commit_user": user, "identifier": int(number)}
    except OutcomeUnknown:
        raise
    except BaseException:
        session.conf.unset(IDENTIFIER)
        raise
    session.conf.unset(IDENTIFIER)


def as_options(about: Mapping[str, Any]) -> dict[str, str]:
    """An identity as options of a write."""
    return {key.replace("_", "-"): str(value) for key, value in about.items()}
