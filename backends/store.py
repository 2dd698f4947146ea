"""The protocol between lakelatch and the stores that hold its objects.

Owns: the `Store` protocol and the three outcomes of an atomic create. Must not know: tables, retries of commits.

Invariants that every store keeps:
* Keys are relative to the store's root, with `/` between parts and no leading slash. A key with `..` is refused (H16).
* `put_if_absent` has exactly one winner among any number of racing callers. A loser's bytes are never visible.
* A visible object is complete. Once `put`, `put_if_absent` or `close()` of an output has returned, the object is durable.
* `list` shows every object whose create had returned before the call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable


class ObjectNotFound(Exception):
    """The object named by `key` does not exist."""

    def __init__(self, key: str) -> None:
        super().__init__(f"{key} does not exist")
        self.key = key


@dataclass(frozen=True, slots=True)
class Created:
    """The object did not exist before, and this request created it."""


@dataclass(frozen=True, slots=True)
class AlreadyThere:
    """The key exists, so the store refused. The object may be from an earlier send of our own: read it back first (H3).

    Attributes:
        earlier_send: the same bytes were sent before without a definite answer, so that send may still land (H9).
    """

    earlier_send: bool = field(default=False, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Unknown:
    """The outcome is not known: the object may exist already, or appear later (H2, H9)."""

    reason: str


PutOutcome = Created | AlreadyThere | Unknown


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One object, as a listing or `head` reports it.

    Attributes:
        size: in bytes.
        modified_ms: by the store's clock, in milliseconds since 1970 (0 if the store does not report it).
        tag: another one for each content that the key ever has; empty if the store does not tell. Only listings report it.
    """

    key: str
    size: int
    modified_ms: int
    tag: str = field(default="", compare=False)


Listed = tuple[str, int, int, str]
"""One object of a listing, as adapters report it: path, size, milliseconds since 1970, tag."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a store can do.

    Attributes:
        atomic_create: the mechanism of the atomic create ("link", "If-None-Match", …), or None if the store has none.
        native_scheme: the scheme under which a Spark session would open these objects ("file", "s3a", …), or None.
        detail: one line for people.
        unsafe_allowed: the user accepted the risk with the storage option `allow_unsafe`: the store is used even if it
            has no atomic create (H1).
        near: a few small files are read one after the other, because that takes less time than starting threads, or so that
            their order can be foreseen.
    """

    atomic_create: str | None
    native_scheme: str | None
    detail: str
    unsafe_allowed: bool = False
    near: bool = False


def rewrite_seconds(store: object) -> float:
    """How long a store wants between two writes of one name, such as GCS; 0 for all others. The store may be wrapped."""
    asked: Any = store
    while not hasattr(asked, "rewrite_seconds") and hasattr(asked, "inner"):
        asked = asked.inner
    return float(getattr(asked, "rewrite_seconds", 0.0))


@runtime_checkable
class Store(Protocol):
    """The objects under one root URL. Instances are thread-safe and can be pickled to another machine."""

    @property
    def url(self) -> str:
        """The root, as the user wrote it, without credentials."""

    @property
    def capabilities(self) -> Capabilities: ...

    def get(self, key: str) -> bytes:
        """The whole object. Raises `ObjectNotFound` or `StoreUnavailable`."""

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """The bytes ``[start, end)``, or fewer if the object ends before ``end``."""

    def head(self, key: str) -> ObjectInfo: ...

    def put(self, key: str, data: bytes) -> None:
        """Create or replace an object. Returns once the bytes are durable."""

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        """Create an object atomically. A lost race and an unknown outcome are returned as values, not raised."""

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """List every object under ``prefix`` (a folder name ending in `/`, or ``""``), recursively, in any order."""

    def delete_many(self, keys: Iterable[str]) -> None:
        """Delete objects. Keys that do not exist are ignored."""

    def open_input(self, key: str, size: int | None = None) -> Any:
        """Open an object as a seekable binary file (for pyarrow). Passing its ``size`` in bytes saves a request."""

    def open_output(self, key: str) -> Any:
        """Open a binary file to stream a large object into. The object appears at ``close()``; ``abort()`` discards it."""
