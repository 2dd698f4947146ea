"""Validates keys for every store, so that no key leaves the store's root (H16).

Owns: what a key may look like. Must not know: stores, tables, file systems.
Invariant: a valid key has non-empty parts between single slashes, none of them `.` or `..`. It has no NUL and can be
written as UTF-8. A path of a root and a valid key is therefore always below the root.
"""

from __future__ import annotations

from ...core.errors import InvalidArgument

_CLIMBING = ("", ".", "..")


def key_defect(key: str) -> str | None:
    """Why a key is refused, or None if it is valid.

    >>> key_defect("snapshot/snapshot-1"), key_defect("a/../b")
    (None, "has a part '..'")
    """
    if not isinstance(key, str):
        return f"is {type(key).__name__}, not text"
    if not key:
        return "is empty"
    if key.startswith("/"):
        return "is absolute"
    if "\x00" in key:
        return "has a NUL character"
    for part in key.split("/"):
        if part in _CLIMBING:
            return f"has a part {part!r}" if part else "has an empty part"
    try:
        key.encode("utf-8")
    except UnicodeEncodeError:
        return "cannot be written as UTF-8"
    return None


def safe_key(key: str) -> str:
    """The key, which is relative to the store's root, if it is valid. Raises InvalidArgument (H16)."""
    defect = key_defect(key)
    if defect is not None:
        raise InvalidArgument(
            f"key {key!r} {defect}",
            next_step="a key is relative to the store's root, its parts separated by single slashes",
        )
    return key


def safe_prefix(prefix: str) -> str:
    """The prefix of a listing if it is valid: empty, or a folder name that ends in one slash. Raises InvalidArgument.

    >>> safe_prefix("snapshot/"), safe_prefix("")
    ('snapshot/', '')
    """
    if prefix == "":
        return prefix
    if not isinstance(prefix, str) or not prefix.endswith("/"):
        raise InvalidArgument(
            f"prefix {prefix!r} is not a folder", next_step="list '' for everything, or a folder name that ends in '/'"
        )
    safe_key(prefix[:-1])
    return prefix


def join(root: str, key: str) -> str:
    """Join a root, which may be empty, and a key that has passed `safe_key` or `safe_prefix`.

    >>> join("bucket/table", "snapshot/LATEST"), join("", "LATEST")
    ('bucket/table/snapshot/LATEST', 'LATEST')
    """
    return f"{root}/{key}" if root else key
