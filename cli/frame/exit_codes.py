"""The exit codes, and which error leads to which code.

Owns: the numbers. Scripts rely on them, so they never change. Must not know: commands.
"""

from __future__ import annotations

from ...core.errors import LakelatchError

OK = 0
PROBLEMS = 1
USAGE = 2
CONFLICT = 3
UNKNOWN_OUTCOME = 4
UNAVAILABLE = 5
INTERRUPTED = 130

MEANINGS = {
    OK: "ok",
    PROBLEMS: "problems found: the table or the store is not in order",
    USAGE: "usage: the arguments are wrong, or the request is not supported",
    CONFLICT: "conflict: nothing was committed, because of other writers",
    UNKNOWN_OUTCOME: "unknown outcome: the commit may or may not have landed",
    UNAVAILABLE: "store unavailable: no response, or none that is conclusive",
}

_EXIT_CODES = {
    "invalid-argument": USAGE,
    "table-not-found": USAGE,
    "table-exists": USAGE,
    "unsupported": USAGE,
    "commit-conflict": CONFLICT,
    "retries-exhausted": CONFLICT,
    "fenced": CONFLICT,
    "outcome-unknown": UNKNOWN_OUTCOME,
    "store-unavailable": UNAVAILABLE,
}
"""By the code of the error (see `core.errors.ERRORS`); every other one is a problem found."""


def exit_code_of(error: LakelatchError) -> int:
    """Return the exit code for an error.

    >>> from lakelatch.core.errors import ERRORS
    >>> [exit_code_of(ERRORS[code]("why")) for code in ("commit-conflict", "table-corrupt")]
    [3, 1]
    """
    return _EXIT_CODES.get(error.code, PROBLEMS)
