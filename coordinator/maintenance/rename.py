"""Renames a whole table, where the store does that in one step.

Owns: `rename`. Must not know: catalogs. Source: format/snapshot §1; H21.
Invariant: the table is at one of the two places at each moment, whole. A place that holds anything is not renamed over.
"""

from __future__ import annotations

from ...backends.files.folders import move
from ...backends.store import Store
from ...core.errors import TableExists, TableNotFound
from ...core.paths import TablePaths
from ..history.timeline import Timeline


def rename(store: Store, url: str) -> None:
    """Move the table at the store's root to another URL of the same store.

    Jobs that write to it under its old name get an error; none of their commits is lost or makes a table of its own there (H21).

    Raises:
        TableNotFound: there is no table.
        TableExists: something is at the URL; nothing was changed.
        Unsupported: the store cannot rename a folder in one step; nothing was changed.
    """
    if not Timeline(store, TablePaths()).schema_ids():
        raise TableNotFound(f"there is no table at {store.url}")
    if not move(store, url):
        raise TableExists(f"{store.url} was not renamed: something is at {url}", next_step="choose another name")
