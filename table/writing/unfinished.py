"""Work whose files no snapshot names yet, and the one way to take them back.

Owns: `unfinished`, `discard`. Must not know: what the files hold, how they are written. Source: H5.
Invariants: after a failure the files go, unless a snapshot that names them was sent: that may be there, or still land. Every
writer is closed, whatever the others do. A deletion that fails is added to the first error, and what stays becomes an orphan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Protocol, TypeVar

from ...backends.elsewhere import delete_located
from ...backends.requests.refusals import DeletionRefused
from ...backends.store import Store
from ...coordinator.commit.committer import Committer
from ...coordinator.commit.receipt import Receipt
from ...coordinator.commit.request import CommitRequest
from ...core.errors import LakelatchError, StoreUnavailable

_TOLD = 5
"""How many files an error names."""


class Writes(Protocol):
    @property
    def written_keys(self) -> Iterable[str]: ...

    def abort(self) -> Any: ...


W = TypeVar("W", bound=Writes)
T = TypeVar("T")


class Unfinished:
    def __init__(self, store: Store) -> None:
        self._store, self._keys, self._writers = store, list[str](), list[Writes]()
        self.may_be_named = False

    def add(self, keys: Iterable[str]) -> None:
        """Files that are complete."""
        self._keys += keys

    def writer(self, writer: W) -> W:
        self._writers.append(writer)
        return writer

    def commit(self, committer: Committer, request: CommitRequest) -> Receipt:
        """Commit the files. From now on only an error of the commit can say that no snapshot names them."""
        self.may_be_named = True
        try:
            return committer.commit(request)
        except LakelatchError as error:
            self.may_be_named = error.sent
            raise

    def discard(self, error: BaseException | None) -> None:
        for writer in self._writers:
            with suppress(LakelatchError, OSError, ValueError):  # the first error is reported
                writer.abort()
        discard(self._store, [*self._keys, *(key for writer in self._writers for key in writer.written_keys)], error)


@contextmanager
def unfinished(store: Store) -> Iterator[Unfinished]:
    """A block that makes files for a commit: they are deleted if it fails before a snapshot that names them was sent."""
    made = Unfinished(store)
    try:
        yield made
    except BaseException as error:
        if not made.may_be_named:
            made.discard(error)
        raise


@contextmanager
def committing(transaction: AbstractContextManager[T], store: Store, keys: Iterable[str]) -> Iterator[T]:
    """The block of a transaction that commits files of other processes: they are deleted also if it refuses to begin."""
    with unfinished(store) as made:
        made.add(keys)
        with transaction as begun:
            made.may_be_named = True  # the transaction deletes them from now on
            yield begun


def discard(store: Store, keys: Iterable[str], error: BaseException | None = None) -> list[str]:
    """Delete files that no snapshot can name. Those that cannot be deleted are returned, and added to the text of `error`."""
    found = list(dict.fromkeys(keys))
    try:
        delete_located(store, found)
        return []
    except DeletionRefused as refused:
        left = list(refused.kept)
    except StoreUnavailable:
        left = found
    if isinstance(error, LakelatchError):
        more = f" and {len(left) - _TOLD} more" if len(left) > _TOLD else ""
        error.message += f"; files that could not be deleted: {', '.join(left[:_TOLD])}{more}"
    return left
