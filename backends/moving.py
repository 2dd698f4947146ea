"""Copies objects: inside a store if it can do that, else through this machine.

Owns: `copy_object`. Must not know: tables, why an object is copied.
Invariant: the copy appears with all its bytes or not at all, and it is durable when the call returns. The source is not changed.
"""

from __future__ import annotations

import shutil

from .store import ObjectInfo, Store

COPY_BYTES = 5 << 30
"""The largest object that one request copies (S3's limit)."""

_PIECE_BYTES = 8 << 20


def copy_object(source: Store, info: ObjectInfo, target: Store, to: str) -> None:
    """Copy an object.

    Args:
        info: the object's key in its store, and its size.
        to: the key of the copy in its store, where nothing else may have it.

    Raises:
        ObjectNotFound: the object is gone.
        StoreUnavailable: a store did not answer.

    >>> from .memory import MemoryStore
    >>> store = MemoryStore("memory://doctest-moving")
    >>> store.put("a", b"bytes")
    >>> copy_object(store, store.head("a"), store, "b/a")
    >>> store.get("b/a")
    b'bytes'
    """
    inside = getattr(source, "copy", None) if source is target and info.size <= COPY_BYTES else None
    if inside is not None:
        try:
            inside(info.key, to)
            return
        except OSError:
            pass  # a file system without hard links
    if info.size <= _PIECE_BYTES:
        target.put(to, source.get(info.key))
        return
    with source.open_input(info.key, info.size) as reader, target.open_output(to) as writer:
        shutil.copyfileobj(reader, writer, _PIECE_BYTES)
