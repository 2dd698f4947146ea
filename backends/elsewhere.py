"""Files outside a table's folder, in locations that an option of the table names (`data-file.external-paths`).

Owns: finding the store and the key for such a file's URL, and deleting files wherever they are. Must not know: tables.
Source: format/snapshot §1. Invariant: nothing outside of a table's folder is touched but in a place that the caller allowed for
it (`trust`), whatever the table's options name (H16).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from ..core.errors import InvalidArgument
from ..core.places import is_external, plain_url, scheme_of
from .registry import first_alias, open_beside
from .requests.refusals import DeletionRefused, collect
from .store import Store
from .trust import check_allowed, spelled


def location_of(store: Store) -> str:
    """The URL of a store, absolute and with a scheme, in one spelling.

    >>> from .local import LocalStore
    >>> location_of(LocalStore("/data/lake/"))
    'file:/data/lake'
    """
    return absolute(fixed_url(store)).rstrip("/")


def place_of(store: Store) -> str:
    """The URL of a store, in one spelling: links to a folder of this machine are followed, and `s3a` is `s3`.

    >>> from .memory import MemoryStore
    >>> place_of(MemoryStore("memory://doctest/t"))
    'memory://doctest/t'
    """
    location = location_of(store)
    scheme, _, path = location.partition(":")
    return f"{first_alias(scheme)}:{os.path.realpath(path) if scheme == 'file' else path}"


def fixed_url(store: Store) -> str:
    """The URL with an absolute path, because the process may have changed its folder since the store was opened."""
    root: str = getattr(store, "root", store.url)
    return root


def native_root(store: Store) -> str:
    """The URL by which other engines open the store's root, without a slash at the end. They must be able to: see
    `Capabilities.native_scheme`.

    >>> from .local import LocalStore
    >>> native_root(LocalStore("/data/lake/"))
    'file:/data/lake'
    """
    from .local import local_path

    scheme = store.capabilities.native_scheme
    if scheme == "file":
        return f"file:{local_path(store.url)}"
    return f"{scheme}://{store.url.partition('://')[2].rstrip('/')}"


def absolute(url: str) -> str:
    """A URL, absolute and with a scheme, in one spelling. A path is one of this machine."""
    if scheme_of(url) not in ("", "file"):
        return plain_url(url)
    from .local import local_path

    return plain_url(local_path(url))


def located(store: Store, key: str) -> tuple[Store, str]:
    """The store of a file, and the file's key there, from a key relative to the table's root or a whole URL. Raises
    InvalidArgument where the caller did not allow the place.

    >>> from .memory import MemoryStore
    >>> located(MemoryStore("memory://doctest/t"), "memory://doctest/t/bucket-0/data-1.orc")[1]
    'bucket-0/data-1.orc'
    """
    if not is_external(key):
        return store, key
    root = _root(store, key)
    return _store_at(store, root), _inside(key, root)


def store_elsewhere(store: Store, url: str) -> Store:
    _root(store, url)
    return open_beside(store, url)


def _store_at(store: Store, root: str) -> Store:
    return store if root == spelled(fixed_url(store)) else open_beside(store, root)


def _inside(url: str, root: str) -> str:
    return spelled(url)[len(root) :].lstrip("/")


def _root(store: Store, url: str) -> str:
    """The place that was allowed, or the folder of a file that was allowed by itself. Links in it are not followed."""
    root = check_allowed(fixed_url(store), url, "the metadata")
    return root if root != spelled(url) else root[: root.rindex("/") + 1]


def delete_located(store: Store, keys: Iterable[str], *, named: bool = True) -> frozenset[str]:
    """Delete files of the table's store, and files elsewhere by their URLs. Missing files are no error.

    Args:
        named: whether anything may name the files. If not, it does no harm that some are there again after a power cut,
            and stores that would have to wait for the disk do not.

    Returns:
        The files that the store refused to delete, in a block of `past_refusals`.

    Raises:
        DeletionRefused: the store refused some of them, or the caller did not allow where they lie; all others are gone.
    """
    places: dict[str | None, list[str]] = {}
    kept: dict[str, str] = {}
    for key in keys:
        try:
            places.setdefault(_root(store, key) if is_external(key) else None, []).append(key)
        except InvalidArgument as error:
            kept[key] = error.message
    for root, found in places.items():
        there = store if root is None else _store_at(store, root)
        named_there = {key if root is None else _inside(key, root): key for key in found}
        try:
            _deletion(there, named)(list(named_there))
        except DeletionRefused as refused:
            kept |= {named_there.get(key, key): why for key, why in refused.kept.items()}
    collect(kept)
    return frozenset(kept)


def _deletion(store: Store, named: bool) -> Callable[[list[str]], None]:
    found: Callable[[list[str]], None] = store.delete_many
    return found if named else getattr(store, "forget_many", found)
