"""Finds the store for a URL. The adapter of a scheme is imported when the scheme is first used.

Owns: the table of schemes and adapters, and the entry point group for stores of other packages. Must not know: tables.
Invariants: no client library is imported before a URL needs it. A missing package is an error that says what to install.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from importlib.metadata import entry_points
from os import PathLike, fspath
from typing import Any

from ..core.errors import InvalidArgument
from .store import Store

ENTRY_POINTS = "lakelatch.backends"
"""The entry point group for stores of other packages: the name is a scheme, the value a callable (url, options) -> Store."""

_ADAPTERS: Mapping[str, tuple[str, str]] = {
    "file": ("local", "LocalStore"),
    "memory": ("memory", "MemoryStore"),
    "s3": ("s3", "S3Store"),
    "s3a": ("s3", "S3Store"),
    "gs": ("gcs", "GcsStore"),
    "gcs": ("gcs", "GcsStore"),
    "abfs": ("adls", "AdlsStore"),
    "abfss": ("adls", "AdlsStore"),
    "az": ("adls", "AdlsStore"),
    "hdfs": ("hdfs", "HdfsStore"),
}


_SHORT = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?!//[^/])(?P<rest>.*)", re.DOTALL)


def scheme_of(url: str) -> str:
    """The scheme of a URL; a plain path has the scheme `file`.

    >>> scheme_of("s3://lake/flights"), scheme_of("/data/lake"), scheme_of("file:/data/lake"), scheme_of("a:b/c")
    ('s3', 'file', 'file', 'file')
    """
    scheme, found, _ = url.partition("://")
    return scheme if found and scheme.replace("+", "").replace("-", "").replace(".", "").isalnum() else "file"


def url_text(url: str | PathLike[str]) -> str:
    """A URL as text, from text or a path. `hdfs:/path` means the file system that Hadoop's configuration names, as in Hadoop.

    Raises:
        InvalidArgument: it is something else, or blank. As text it would name a folder, such as `None`. Or it is the URL of a
            store that has lost slashes, as by `Path("s3://lake") / "t"`; or a path of Windows; or a `file:` URL that climbs.

    >>> from pathlib import PurePosixPath
    >>> url_text(PurePosixPath("/data/lake")), url_text("hdfs:/lake/t")
    ('/data/lake', 'hdfs:///lake/t')
    """
    text = url if isinstance(url, str) else fspath(url) if isinstance(url, PathLike) else None
    if not isinstance(text, str):
        raise InvalidArgument(f"URL {url!r} is not text", next_step="give a path, or a URL such as s3://bucket/path")
    if not text.strip():
        raise InvalidArgument("the URL is empty", next_step="give a path, or a URL such as s3://bucket/path")
    found = _SHORT.match(text)
    text = text if found is None else _with_slashes(text, found["scheme"].lower(), found["rest"])
    if text[:5].lower() == "file:" and ".." in text.split("/"):  # stores refuse it themselves, and a path may climb
        raise InvalidArgument(f"{text!r} climbs with '..'", next_step="name the folder that is meant, or give a path")
    return text


def _with_slashes(text: str, scheme: str, rest: str) -> str:
    path = rest.lstrip("/")
    if scheme == "file":
        return f"file:{rest}"
    if scheme == "hdfs" and rest.startswith("/"):
        return f"hdfs:///{path}"
    if len(scheme) == 1 and rest.startswith(("/", "\\")):
        raise InvalidArgument(f"{text!r} is a path of Windows, and lakelatch runs on Linux and macOS")
    if rest.startswith("//") and scheme not in _ADAPTERS:
        return text  # a store of others may have no name in front of its paths
    offered = {point.name for point in entry_points(group=ENTRY_POINTS)}
    if scheme in {*_ADAPTERS, *offered} or (rest.startswith("/") and scheme in _known_to_fsspec()):
        raise InvalidArgument(
            f"{text!r} is no URL: it would name a folder of this machine",
            next_step=f"use {scheme}://{path}; a path object takes a slash away. For a folder of that name, use ./{text}",
        )
    return text


def open_store(url: str | PathLike[str], storage_options: Mapping[str, Any] | None = None) -> Store:
    """Return the store at a URL. No request is sent yet.

    Args:
        url: a path, `file:`, `memory://name/path`, `s3://bucket/path`, `s3a://…`, `gs://…`, `gcs://…`,
            `abfs://container/path`, `abfss://…`, `az://…` or `hdfs://host:port/path`. Also a scheme that an installed package
            offers in the entry point group `lakelatch.backends`, or one that fsspec knows, which is read-only by default.
        storage_options: the options of that store; see its class.

    Raises:
        InvalidArgument: the URL is empty or no text, its scheme is unknown, or the store does not know an option.
        Unsupported: the store's package is not installed. The message says which one.

    >>> open_store("memory://doctest/table").url
    'memory://doctest/table'
    """
    url = url_text(url)
    scheme = scheme_of(url)
    if scheme in _ADAPTERS:
        module, name = _ADAPTERS[scheme]
        adapter = getattr(importlib.import_module(f".{module}", __package__), name)
        store: Store = adapter(url, storage_options)
        return store
    return _from_others(scheme)(url, dict(storage_options or {}))


def open_beside(store: Store, url: str | PathLike[str]) -> Store:
    """The store at the URL, with the options of `store` if it is of the same kind, else with the environment's.

    >>> from .local import LocalStore
    >>> open_beside(LocalStore("/data/lake"), "file:/data/more").url
    'file:/data/more'
    """
    sibling = getattr(store, "sibling", None)
    url = url_text(url)
    one, other = scheme_of(store.url), scheme_of(url)
    if sibling is not None and first_alias(one) == first_alias(other):
        found: Store = sibling(url)
        return found
    return open_store(url)


def first_alias(scheme: str) -> str:
    """The first of the schemes that mean the same store.

    >>> first_alias("s3a"), first_alias("other")
    ('s3', 'other')
    """
    adapter = _ADAPTERS.get(scheme)
    return next((name for name, one in _ADAPTERS.items() if one == adapter), scheme)


def _from_others(scheme: str) -> Callable[[str, dict[str, Any]], Store]:
    for offered in entry_points(group=ENTRY_POINTS):
        if offered.name == scheme:
            loaded: Callable[[str, dict[str, Any]], Store] = offered.load()
            return loaded
    if scheme in _known_to_fsspec():
        from .other import OtherStore

        return OtherStore
    near = get_close_matches(scheme.lower(), _ADAPTERS, n=1)
    raise InvalidArgument(
        f"no store is known for scheme {scheme!r}",
        next_step=f"did you mean {near[0]}://?" if near else f"known schemes: {', '.join(sorted(_ADAPTERS))}",
    )


def _known_to_fsspec() -> frozenset[str]:
    from fsspec import available_protocols

    return frozenset(available_protocols())
