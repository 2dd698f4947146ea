"""The exit codes, and which error leads to which code.

Owns: the numbers. Scripts rely on them, so they never change.
Must not know: commands.
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
    PROBLEMS: "problems found: the table or the store is not in order",
    USAGE: "usage: the arguments are wrong, or the request is not supported",
    CONFLICT: "conflict: nothing was committed, because of other writers",
    UNKNOWN_OUTCOME: "unknown outcome: the commit may or may not have landed",
    UNAVAILABLE: "store unavailable: no response, or none that is conclusive",
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
    """Return the exit code for an error.

    >>> exit_code_of(errors.CommitConflict("lost")), exit_code_of(errors.TableCorrupt("cut off"))
    (3, 1)
    """
    return next((code for kind, code in _CODES.items() if isinstance(error, kind)), PROBLEMS)
