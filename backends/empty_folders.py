"""Removes folders that have become empty, in stores that have folders.

Owns: `remove_empty_folders`. Must not know: tables. Invariants: a folder that holds a file stays. In object stores there are no
folders, so nothing is done.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable

from ..core.errors import StoreUnavailable
from .keys import safe_prefix
from .local import LocalStore
from .store import Store


def remove_empty_folders(store: Store, prefixes: Iterable[str]) -> None:
    """Remove these folders, in order, as far as they are empty. A failure is ignored, because an empty folder does no harm.

    Args:
        prefixes: names of folders, each ending in a slash.
    """
    for prefix in prefixes:
        safe_prefix(prefix)
        if isinstance(store, LocalStore):
            with contextlib.suppress(OSError):
                os.rmdir(os.path.join(store.root, prefix))
        elif store.capabilities.native_scheme == "hdfs":  # its delete, which is not recursive, takes empty folders too
            with contextlib.suppress(StoreUnavailable):
                store.delete_many([prefix.rstrip("/")])
