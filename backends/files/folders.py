"""What catalogs and operations on whole tables ask of a store beyond single objects: folders, renames and copies.

Owns: the optional methods of stores for these, and what is done with a store that lacks one. Must not know: tables, catalogs.
Invariants: no method follows a link out of the store's root. A rename is one atomic step or it is refused. A copy never passes
through this process where the store can copy by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, runtime_checkable

from ...core.errors import Unsupported
from ..store import Store
from .keys import safe_key, safe_prefix

_PIECE_BYTES = 8 << 20
_ONE_REQUEST_BYTES = 5 << 30
"""The largest object that S3 copies with one request."""


@runtime_checkable
class ListsFolders(Protocol):
    """A store that lists one level without listing everything below it."""

    def folders(self, prefix: str) -> Iterable[str]:
        """The names of the folders directly below ``prefix``, in any order, without slashes. None if it does not exist."""


@runtime_checkable
class RemovesFolders(Protocol):
    """A store in which a folder exists without any file, or can be marked to exist."""

    def remove_folders(self, prefix: str) -> None:
        """Remove the folder ``prefix`` and all below it that hold no file, and temporary files that dead writers left there."""


@runtime_checkable
class MovesFolders(Protocol):
    """A store that renames a whole folder in one atomic step."""

    def move_to(self, url: str) -> bool:
        """Rename this store's root to another URL. Returns False where something exists there; nothing was changed then."""


@runtime_checkable
class CopiesObjects(Protocol):
    """A store that copies an object to another of its own kind, without sending its bytes through this process."""

    def copy_from(self, source: Store, source_key: str, key: str) -> bool:
        """False where these two stores cannot; nothing was copied then. Raises ObjectNotFound, StoreUnavailable."""


def folders(store: Store, prefix: str) -> list[str]:
    """The names of the folders directly below a prefix, ascending.

    >>> from ..memory import MemoryStore
    >>> store = MemoryStore("memory://doctest-folders")
    >>> store.put("air.db/flights/schema/schema-0", b""); store.put("notes.txt", b"")
    >>> folders(store, ""), folders(store, "air.db/"), folders(store, "sea.db/")
    (['air.db'], ['flights'], [])
    """
    safe_prefix(prefix)
    if isinstance(store, ListsFolders):
        return sorted(set(store.folders(prefix)))
    below = (info.key[len(prefix) :].partition("/") for info in store.list(prefix))
    return sorted({name for name, slash, _ in below if slash})


def remove_folders(store: Store, prefix: str = "") -> None:
    """Remove a folder and all below it that hold no file. Does nothing where folders are only the parts of keys."""
    safe_prefix(prefix)
    if isinstance(store, RemovesFolders):
        store.remove_folders(prefix)


def move(store: Store, url: str) -> bool:
    """Rename a store's root in one step. False where something exists at the URL. Raises Unsupported, StoreUnavailable."""
    if isinstance(store, MovesFolders):
        return store.move_to(url)
    raise Unsupported(
        f"{store.url}: this store cannot rename a folder in one step, so that a job that writes meanwhile would lose its rows",
        next_step="stop the jobs that write to the table, clone() it to the new place, then drop the old one",
    )


def copy(source: Store, source_key: str, target: Store, key: str, size: int | None = None) -> None:
    """Copy by the store itself if it can, else in pieces. Raises ObjectNotFound, StoreUnavailable."""
    safe_key(source_key)
    safe_key(key)
    size = source.head(source_key).size if size is None else size
    if size <= _ONE_REQUEST_BYTES and isinstance(target, CopiesObjects) and target.copy_from(source, source_key, key):
        return
    if size <= _PIECE_BYTES:
        target.put(key, source.get(source_key))
        return
    output: Any = target.open_output(key)
    try:
        for start in range(0, size, _PIECE_BYTES):
            output.write(source.get_range(source_key, start, min(start + _PIECE_BYTES, size)))
    except BaseException:
        output.abort()
        raise
    output.close()
