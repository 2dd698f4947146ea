"""Removes folders that have become empty, on stores that have folders (option `snapshot.clean-empty-directories`).

Owns: `remove_empty`. Must not know: why files were deleted. Source: format/commit §10.
Invariant: only empty folders are removed, each by a request that fails if it holds anything.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...backends.store import Store
from ...core.places import is_external


def remove_empty(store: Store, deleted: Iterable[str], above: str = "") -> int:
    """Remove the folders in which files were deleted, and those above that become empty by it.

    Args:
        deleted: the keys of the files.
        above: the folder of the table's data, which stays itself.

    Returns:
        How many folders were removed. Object stores have none.
    """
    remove = getattr(store, "remove_folder", None)
    if remove is None:
        return 0
    removed, folders = 0, {key.rpartition("/")[0] for key in deleted if not is_external(key)}
    while folders:
        gone = [folder for folder in sorted(folders) if folder not in ("", above.strip("/")) and remove(folder)]
        removed += len(gone)
        folders = {folder.rpartition("/")[0] for folder in gone}
    return removed
