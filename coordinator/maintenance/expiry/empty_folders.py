"""Removes folders that have become empty, on stores that have folders (option `snapshot.clean-empty-directories`).

Owns: `remove_empty`. Must not know: why files were deleted. Source: format/commit §10.
Invariant: only empty folders are removed, each by a request that fails if it holds anything.
"""

from __future__ import annotations

from collections.abc import Iterable

from ....backends.files.folders import RemovesFolders, folders, remove_folders
from ....backends.store import Store
from ....core.places import is_external


def remove_empty(store: Store, deleted: Iterable[str], above: str = "") -> None:
    """Also removes folders above that become empty by it, but not `above`, that of the table's data. Object stores have none."""
    if not isinstance(store, RemovesFolders):
        return
    left = {key.rpartition("/")[0] for key in deleted if not is_external(key)}
    while left:
        without = [folder for folder in sorted(left - {"", above.strip("/")}) if not folders(store, f"{folder}/")]
        for folder in without:
            remove_folders(store, f"{folder}/")
        left = {folder.rpartition("/")[0] for folder in without}
