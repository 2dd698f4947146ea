"""The seam between lakelatch and a place where bytes live.

Owns: the `Store` protocol and the three answers to an atomic create. Must not know: tables, retries of commits.

Invariants that every store keeps:
* keys are relative to the store's root, with `/` between parts and no leading slash; a key with `..` is refused (H16);
* `put_if_absent` has exactly one winner among any number of racing callers; a loser's bytes are never visible;
* an object that is visible is complete, and once `put`, `put_if_absent` or `close()` of an output answered, durable;
* `list` shows every object whose create was answered before the call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable


class ObjectNotFound(Exception):
    """The key does not exist. `key` names it."""

    def __init__(self, key: str) -> None:
        super().__init__(f"{key} does not exist")
        self.key = key


@dataclass(frozen=True, slots=True)
class Created:
    """The object did not exist, and now it does, with our bytes."""


@dataclass(frozen=True, slots=True)
class AlreadyThere:
    """The store refused because the key exists. It may be our own earlier send: read back before believing it (H3).

    Attributes:
        earlier_send: the same bytes were sent before, and that send was neither taken nor refused: it may land yet (H9).
    """

    earlier_send: bool = field(default=False, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Unknown:
    """No answer that proves anything: the bytes may be there, or land later (H2, H9)."""

    reason: str


PutOutcome = Created | AlreadyThere | Unknown


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One object as a listing or a head shows it.

    Attributes:
        key: relative to the store's root.
        size: bytes.
        modified_ms: the store's clock, milliseconds since 1970 (0 where the store does not say).
    """

    key: str
    size: int
    modified_ms: int


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a store can do.

    Attributes:
        atomic_create: how the create is made atomic ("link", "If-None-Match", …), or None where it cannot be.
        native_scheme: scheme under which a Spark session would open these objects ("file", "s3a", …), or None.
        detail: one line for people.
        unsafe_allowed: the user named the risk with storage option `allow_unsafe`: a store without an atomic create is
            used all the same (H1).
    """

    atomic_create: str | None
    native_scheme: str | None
    detail: str
    unsafe_allowed: bool = False


@runtime_checkable
class Store(Protocol):
    """Bytes under one root URL. Instances are thread-safe and can be pickled to another machine."""

    @property
    def url(self) -> str:
        """The root, as the user wrote it, without credentials."""

    @property
    def capabilities(self) -> Capabilities: ...

    def get(self, key: str) -> bytes:
        """The whole object. Raises `ObjectNotFound`, `StoreUnavailable`."""

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Bytes ``[start, end)``; shorter at the end of the object."""

    def head(self, key: str) -> ObjectInfo: ...

    def put(self, key: str, data: bytes) -> None:
        """Create or replace. Returns once the bytes are durable."""

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        """Create atomically, or say why not: losing a race is a value, so is not knowing."""

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """Every object under ``prefix`` (a folder name ending in `/`, or ``""``), recursively, in any order."""

    def delete_many(self, keys: Iterable[str]) -> None:
        """Delete; keys that do not exist are no error."""

    def open_input(self, key: str, size: int | None = None) -> Any:
        """A seekable binary file (for pyarrow) over an object; ``size`` in bytes, where known, saves a request."""

    def open_output(self, key: str) -> Any:
        """A binary file to stream a large object into; it appears, complete, at ``close()``; ``abort()`` drops it."""
