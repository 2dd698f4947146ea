"""Folders of object stores: the common parts of keys, listed; the marks of empty ones, removed; objects copied by the store.

Owns: `ObjectFolders`, the part of `FsspecStore` that catalogs and operations on whole tables use. Must not know: any particular
store, tables.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from ..storage_options import StorageOptions
from ..store import ObjectNotFound
from .keys import join, key_defect, safe_prefix

_COPY_SECONDS = 600.0
"""The deadline of one copy within the store, which may move gigabytes."""


class ObjectFolders:
    """The methods of `folders` for a store of objects. A subclass of `FsspecStore` provides the requests."""

    _root: str
    _given: StorageOptions

    async def _folder_page(self, fs: Any, prefix: str, after: str | None) -> tuple[list[str], str | None]:
        """One page of the folders directly below ``prefix``, as paths, and the token to request the next page with."""
        found = await fs._ls(prefix.rstrip("/"), detail=True)
        return [one["name"] for one in found if one["type"] == "directory"], None

    copy: Callable[[Any, str, str], Awaitable[None]] | None = None
    """Copies an object within the store with one request: (file system, source, target). None where the store cannot."""

    def folders(self, prefix: str) -> list[str]:
        """The names of the folders directly below a prefix (see `folders.ListsFolders`)."""
        store: Any = self
        start = join(self._root, safe_prefix(prefix))
        start = start if start.endswith("/") else f"{start}/"
        names: list[str] = []
        after: str | None = None
        while True:
            try:
                found, after = store._request("list", prefix, store._seconds(0), self._folder_page, start, after)
            except ObjectNotFound:
                return names
            names += [name for path in found if key_defect(name := path[len(start) :].strip("/")) is None]
            if after is None:
                return names

    def remove_folders(self, prefix: str) -> None:
        """Delete the marks of folders that other clients left (see `folders.RemovesFolders`): empty objects named `folder/`."""
        store: Any = self
        start = join(self._root, safe_prefix(prefix))
        after: str | None = None
        while True:
            try:
                found, after = store._request("list", prefix, store._seconds(0), store._page, start, after)
            except ObjectNotFound:
                return
            marks = [path for path, size, *_ in found if path.startswith(start) and path.endswith("/") and size == 0]
            if marks:
                store._request("delete", f"{len(marks)} marks of folders", store._seconds(0), store._delete, marks)
            if after is None:
                return

    def copy_from(self, source: object, source_key: str, key: str) -> bool:
        """Copy an object within the store (see `folders.CopiesObjects`)."""
        store: Any = self
        if self.copy is None or not isinstance(source, type(self)) or dict(source._given) != dict(self._given):
            return False
        from_store: Any = source
        paths = from_store._path(source_key), store._path(key)
        store._request("read", source_key, _COPY_SECONDS, self.copy, *paths)
        return True
