"""Files outside of a table's folder, where an option of the table names their place (`data-file.external-paths`).

Owns: from such a file's URL to a store and a key. Must not know: which places are allowed (see `core.places`).
Source: format/snapshot §1. Invariant: a key that was checked when the read was planned is opened, and nothing around it.
"""

from __future__ import annotations

from ...backends.registry import open_beside
from ...backends.store import Store
from ...core.places import is_external, plain_url


def located(store: Store, key: str) -> tuple[Store, str]:
    """The store and the key in it of a file of a split.

    Args:
        store: of the table.
        key: relative to the table's root, or a whole URL.

    >>> from ...backends.memory import MemoryStore
    >>> located(MemoryStore("memory://doctest/t"), "FILE:/data/x/bucket-0/data-1.orc")[1]
    'data-1.orc'
    """
    if not is_external(key):
        return store, key
    folder, _, name = plain_url(key).rpartition("/")
    return open_beside(store, folder), name
