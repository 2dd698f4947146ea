"""Files outside a table's folder, in locations that an option of the table names (`data-file.external-paths`).

Owns: finding the store and the key for such a file's URL. Must not know: which locations are allowed (see `core.places`).
Source: format/snapshot §1. Invariant: Only keys that were checked when the read was planned are opened.
"""

from __future__ import annotations

from ...backends.registry import open_beside
from ...backends.store import Store
from ...core.places import is_external, plain_url


def located(store: Store, key: str) -> tuple[Store, str]:
    """The store of a split's file, and the file's key in that store.

    Args:
        store: the table's store.
        key: relative to the table's root, or a whole URL.

    >>> from ...backends.memory import MemoryStore
    >>> located(MemoryStore("memory://doctest/t"), "FILE:/data/x/bucket-0/data-1.orc")[1]
    'data-1.orc'
    """
    if not is_external(key):
        return store, key
    folder, _, name = plain_url(key).rpartition("/")
    return open_beside(store, folder), name
