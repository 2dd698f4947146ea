"""The exceptions: one base class, and one class for each way in which a caller can react.

Owns: the classes and their stable codes (`ERRORS`). Must not know: stores, tables, Spark.
Invariants: Every message names what is wrong and the next step. Expected outcomes (a lost race, an unknown answer) are values;
an exception is raised only for what reaches the caller of the public API.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Generic, TypeVar

Resolved = TypeVar("Resolved")
"""What `OutcomeUnknown.resolve()` returns."""


class LakelatchError(Exception):
    """The base class of all errors that lakelatch raises on purpose.

    Args:
        message: what is wrong, naming the file, field, column or option.
        next_step: what the caller can do about it; the class's own advice by default.

    >>> error = InvalidArgument("column 'x' is not in the table", next_step="add it with evolve=True")
    >>> error.code, error.next_step
    ('invalid-argument', 'add it with evolve=True')
    """

    code: ClassVar[str] = "lakelatch"
    advice: ClassVar[str] = ""
    sent: bool = True
    """For a commit: may a snapshot that names its data files be there, or still land? If not, the files can be deleted (H5)."""
    newer_schema: bool = False
    """For a commit: was it given up only because the table has a newer schema than its rows were written with?"""
    keys_changed: bool = False
    """For a commit: was it given up only because keys came to the table since its rows got their partitions?"""
    moved_keys: tuple[Any, ...] = ()
    """For a commit: was it given up only because of keys that another writer has put into other dynamic buckets? These."""

    def __init__(self, message: str, *, next_step: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.next_step = next_step if next_step is not None else self.advice

    def __str__(self) -> str:
        return f"{self.message} ({self.next_step})" if self.next_step else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.next_step, dict(self.__dict__))


def _rebuild(kind: type[LakelatchError], message: str, next_step: str, state: dict[str, Any]) -> LakelatchError:
    error = kind.__new__(kind)
    Exception.__init__(error, message)
    error.__dict__.update(state)
    return error


class CommitConflict(LakelatchError):
    """Another commit changed what this one had read. Nothing was committed; plan again on the newest snapshot."""

    code = "commit-conflict"
    advice = "read the newest snapshot and plan the operation again"


class RetriesExhausted(LakelatchError):
    """Other writers kept winning until the retries or the time ran out. Nothing was committed, and nothing can still land."""

    code = "retries-exhausted"
    advice = "raise commit.max-retries or commit.timeout, or write with fewer jobs at once"


class OutcomeUnknown(LakelatchError, Generic[Resolved]):
    """The store never answered the publish, so the commit may or may not have landed.

    Attributes:
        identity: identifies the commit: ``{"snapshot_id", "snapshot_uuid", "commit_user", "identifier"}``.
    """

    code = "outcome-unknown"
    advice = "call resolve() on this error; do not run the job again before it has answered"

    def __init__(
        self,
        message: str,
        *,
        identity: dict[str, Any],
        resolver: Callable[[float], Resolved] | None = None,
        next_step: str | None = None,
    ) -> None:
        super().__init__(message, next_step=next_step)
        self.identity = identity
        self._resolver = resolver

    def resolve(self, timeout: float = 60.0) -> Resolved:
        """Look the commit up. If its name is still free, publish it.

        Args:
            timeout: the number of seconds to keep asking the store.

        Returns:
            The `Receipt` of a commit that landed; for `alter` the schema, for `create_table` the key of its schema file.

        Raises:
            CommitConflict: not committed, because another writer's snapshot has the name.
            OutcomeUnknown: still no answer.
        """
        if self._resolver is None:
            raise OutcomeUnknown(
                self.message,
                identity=self.identity,
                next_step="run `lakelatch resolve` with its journal, or look for the identity in the table",
            )
        return self._resolver(timeout)

    def __reduce__(self) -> tuple[Any, ...]:
        state = {key: value for key, value in self.__dict__.items() if key != "_resolver"} | {"_resolver": None}
        return _rebuild, (type(self), self.message, self.next_step, state)


class Fenced(LakelatchError):
    """The snapshot was created under a name that expiry or a rollback had freed, so it is not part of the table's history."""

    code = "fenced"
    advice = "open the table again and repeat the operation; the rows were not added"


class StoreUnavailable(LakelatchError):
    """The store did not answer, or refused for a reason other than the table. Nothing was committed."""

    code = "store-unavailable"
    advice = "check the network, the URL and the credentials, then run it again"


class UnsafeBackend(LakelatchError):
    """The store cannot create an object atomically, so that two writers could overwrite each other's snapshots (H1)."""

    code = "unsafe-backend"
    advice = "use a store with conditional create, or name the risk with storage option 'allow_unsafe'"


class TableNotFound(LakelatchError):
    """There is no table at the URL."""

    code = "table-not-found"
    advice = "check the URL, or create the table first"


class TableExists(LakelatchError):
    """There already is a table at the URL."""

    code = "table-exists"
    advice = "open it, or pass exist_ok=True"


class TableCorrupt(LakelatchError):
    """A file of the table is missing, cut off, or has impossible contents. The message names the file and the field."""

    code = "table-corrupt"
    advice = "run `lakelatch verify` on the table; snapshots that do not use the file still read"
    missing: str = ""
    """The file that is missing, where that is what is wrong."""
    needed_by: str = ""
    """The file that names the missing one, if it is known."""


def missing(file: str, needed_by: str = "", what: str = "") -> TableCorrupt:
    """The error about a missing file.

    Args:
        needed_by: the file that names it.
        what: words before the name of the file.

    >>> missing("manifest/manifest-1", "manifest/manifest-list-0").message
    'manifest/manifest-1 is missing; manifest/manifest-list-0 needs it'
    """
    error = TableCorrupt(f"{what}{file} is missing" + (f"; {needed_by} needs it" if needed_by else ""))
    error.missing, error.needed_by = file, needed_by
    return error


class Unsupported(LakelatchError):
    """The table uses a feature that this version does not support. The message names the feature and the option."""

    code = "unsupported"
    advice = "see the README for what is supported"


class InvalidArgument(LakelatchError):
    """An argument, option or value is not valid."""

    code = "invalid-argument"


class ProtocolViolation(LakelatchError):
    """The commit machine received an event that is not allowed in its phase. Nothing changed. This is a bug in lakelatch."""

    code = "protocol-violation"
    advice = "report it with the commit's journal"


ERRORS: Mapping[str, type[LakelatchError]] = MappingProxyType(
    {
        kind.code: kind
        for kind in (
            LakelatchError,
            CommitConflict,
            RetriesExhausted,
            OutcomeUnknown,
            Fenced,
            StoreUnavailable,
            UnsafeBackend,
            TableNotFound,
            TableExists,
            TableCorrupt,
            Unsupported,
            InvalidArgument,
            ProtocolViolation,
        )
    }
)
"""The class of each code. Codes appear in `--json`, journals, metrics and the docs, and never change.

>>> ERRORS["commit-conflict"].__name__
'CommitConflict'
"""
