"""Files outside a table's folder, in locations that an option of the table names (`data-file.external-paths`).

Owns: finding the store and the key for such a file's URL, and deleting files wherever they are. Must not know: which locations
are allowed (see `core.places`), tables.
Source: format/snapshot §1. Invariant: Only keys that were checked against the table's options are passed in.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..core.places import is_external, plain_url
from .registry import open_beside
from .store import Store


def located(store: Store, key: str) -> tuple[Store, str]:
    """The store of a file, and the file's key in that store.

    Args:
        store: the table's store.
        key: relative to the table's root, or a whole URL.

    >>> from .memory import MemoryStore
    >>> located(MemoryStore("memory://doctest/t"), "FILE:/data/x/bucket-0/data-1.orc")[1]
    'data-1.orc'
    """
    if not is_external(key):
        return store, key
    folder, _, name = plain_url(key).rpartition("/")
    return open_beside(store, folder), name


def delete_located(store: Store, keys: Iterable[str]) -> None:
    """Delete files of the table's store, and files elsewhere by their URLs. Missing files are no error.

    Raises:
        StoreUnavailable: a store refused.
    """
    inside: list[str] = []
    outside: dict[str, list[str]] = {}
    for key in keys:
        if is_external(key):
            folder, _, name = plain_url(key).rpartition("/")
            outside.setdefault(folder, []).append(name)
        else:
            inside.append(key)
    if inside:
        store.delete_many(inside)
    for folder, names in outside.items():
        open_beside(store, folder).delete_many(names)
