"""Checks which of some files exist, with few requests: many are listed by folder, few are looked at one by one.

Owns: `sizes_of`. Must not know: what the files are for.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...backends.store import ObjectNotFound
from .timeline import Timeline

FEW_FILES = 16
MANY_FOLDERS = 64


def sizes_of(timeline: Timeline, keys: Sequence[str]) -> dict[str, int]:
    """The sizes in bytes of the files that exist."""
    if len(keys) <= FEW_FILES:
        found = zip(keys, timeline.parallel(lambda key: _size(timeline, key), keys), strict=True)
        return {key: size for key, size in found if size is not None}
    folders = sorted({key.rpartition("/")[0] + "/" for key in keys})
    if len(folders) > MANY_FOLDERS:
        folders = [""]  # one listing of everything costs less than one per folder
    wanted = set(keys)

    def listed(folder: str) -> dict[str, int]:
        return {info.key: info.size for info in timeline.store.list(folder) if info.key in wanted}

    return {key: size for part in timeline.parallel(listed, folders) for key, size in part.items()}


def _size(timeline: Timeline, key: str) -> int | None:
    try:
        return timeline.store.head(key).size
    except ObjectNotFound:
        return None
