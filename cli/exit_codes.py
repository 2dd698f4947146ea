"""Exit codes, and which error ends in which.

Owns: the numbers, which are promises to scripts. Must not know: commands.
"""

from __future__ import annotations

from ..core import errors

OK = 0
PROBLEMS = 1
USAGE = 2
CONFLICT = 3
UNKNOWN_OUTCOME = 4
UNAVAILABLE = 5
INTERRUPTED = 130

MEANINGS = {
    OK: "ok",
    PROBLEMS: "problems found: the table or the store is not as it should be",
    USAGE: "usage: the request cannot be meant, or is not supported",
    CONFLICT: "conflict: nothing was committed, because of other writers",
    UNKNOWN_OUTCOME: "unknown outcome: the commit may or may not have landed",
    UNAVAILABLE: "store unavailable: no answer, or none that says anything",
}

_CODES: dict[type[errors.LakelatchError], int] = {
    errors.InvalidArgument: USAGE,
    errors.TableNotFound: USAGE,
    errors.TableExists: USAGE,
    errors.Unsupported: USAGE,
    errors.CommitConflict: CONFLICT,
    errors.RetriesExhausted: CONFLICT,
    errors.Fenced: CONFLICT,
    errors.OutcomeUnknown: UNKNOWN_OUTCOME,
    errors.StoreUnavailable: UNAVAILABLE,
}


def exit_code_of(error: errors.LakelatchError) -> int:
    """The exit code for an error.

    >>> exit_code_of(errors.CommitConflict("lost")), exit_code_of(errors.TableCorrupt("cut off"))
    (3, 1)
    """
    return next((code for kind, code in _CODES.items() if isinstance(error, kind)), PROBLEMS)
