"""A store in this process's memory: `memory://name/path`.

Owns: the named spaces of objects and their locks. Must not know: tables.
Invariants: two stores of one name see the same objects, also after pickling within the process. Every operation is atomic
under the lock of its space. Nothing outlives the process, so the store is for tests, trials and simulation.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ..core.errors import InvalidArgument
from .files.keys import join, safe_key, safe_prefix
from .files.open_files import OutputFile, checked_range
from .requests.threads import forked_lock
from .storage_options import StorageOptions
from .store import AlreadyThere, Capabilities, Created, ObjectInfo, ObjectNotFound, PutOutcome


class _Held(NamedTuple):
    data: bytes
    modified_ms: int
    version: int


class _Space:
    def __init__(self) -> None:
        self.lock = forked_lock()
        self.objects: dict[str, _Held] = {}
        self._versions = itertools.count(1)

    def put(self, path: str, data: bytes) -> None:
        """The caller has the lock."""
        self.objects[path] = _Held(data, _now_ms(), next(self._versions))


_SPACES: dict[str, _Space] = {}  # shared by the whole process on purpose: the name in the URL is the address


class MemoryStore:
    """Objects in a dictionary that every `MemoryStore` of the same name shares.

    Args:
        url: `memory://name` or `memory://name/path`.

    Raises:
        InvalidArgument: the URL has another scheme or no name, or options were given.

    >>> store = MemoryStore("memory://doctest/table")
    >>> store.put_if_absent("snapshot/snapshot-1", b"one"), store.put_if_absent("snapshot/snapshot-1", b"two")
    (Created(), AlreadyThere())
    >>> MemoryStore("memory://doctest").get("table/snapshot/snapshot-1")
    b'one'
    >>> store.clear()
    """

    def __init__(self, url: str, storage_options: Mapping[str, Any] | None = None) -> None:
        StorageOptions(storage_options).without("allow_unsafe").only(frozenset(), "memory stores")
        scheme, found, rest = url.partition("://")
        name, _, path = rest.partition("/")
        if scheme != "memory" or not found or not name:
            raise InvalidArgument(f"{url!r} is not a memory URL", next_step="use memory://name/path")
        self._url = url
        self._root = safe_key(path.strip("/")) if path.strip("/") else ""
        self._space = _SPACES.setdefault(name, _Space())

    def __reduce__(self) -> tuple[Any, ...]:
        return MemoryStore, (self._url,)

    def __repr__(self) -> str:
        return f"MemoryStore({self._url!r})"

    @property
    def url(self) -> str:
        return self._url

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities("lock", None, "objects live in this process's memory and end with it")

    def clear(self) -> None:
        with self._space.lock:
            for path in [path for path in self._space.objects if path.startswith(join(self._root, ""))]:
                del self._space.objects[path]

    def get(self, key: str) -> bytes:
        return self._find(key).data

    def get_range(self, key: str, start: int, end: int) -> bytes:
        checked_range(key, start, end)
        return self._find(key).data[start:end]

    def head(self, key: str) -> ObjectInfo:
        held = self._find(key)
        return ObjectInfo(key, len(held.data), held.modified_ms)

    def put(self, key: str, data: bytes) -> None:
        path, held = join(self._root, safe_key(key)), bytes(data)
        with self._space.lock:
            self._space.put(path, held)

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        path, held = join(self._root, safe_key(key)), bytes(data)
        with self._space.lock:
            if path in self._space.objects:
                return AlreadyThere()
            self._space.put(path, held)
        return Created()

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        start, cut = join(self._root, safe_prefix(prefix)), len(join(self._root, ""))
        with self._space.lock:
            found = [(path, held) for path, held in self._space.objects.items() if path.startswith(start)]
        return iter(
            [ObjectInfo(path[cut:], len(held.data), held.modified_ms, str(held.version)) for path, held in found]
        )

    def delete_many(self, keys: Iterable[str]) -> None:
        paths = [join(self._root, safe_key(key)) for key in keys]
        with self._space.lock:
            for path in paths:
                self._space.objects.pop(path, None)

    def open_input(self, key: str, size: int | None = None) -> Any:
        import pyarrow

        return pyarrow.BufferReader(self._find(key).data)

    def open_output(self, key: str) -> Any:
        return _MemoryOutput(self, safe_key(key))

    def move_to(self, url: str) -> bool:
        """Rename everything under the root in one step (see `folders.MovesFolders`)."""
        target = MemoryStore(url)
        if target._space is not self._space:
            raise InvalidArgument(f"{url} is in another memory than {self._url}")
        start, new = join(self._root, ""), join(target._root, "")
        with self._space.lock:
            held = self._space.objects
            if any(path.startswith(new) for path in held):
                return False
            for path in [path for path in held if path.startswith(start)]:
                held[new + path[len(start) :]] = held.pop(path)
        return True

    def _find(self, key: str) -> _Held:
        path = join(self._root, safe_key(key))
        with self._space.lock:
            held = self._space.objects.get(path)
        if held is None:
            raise ObjectNotFound(key)
        return held


class _MemoryOutput(OutputFile):
    def __init__(self, store: MemoryStore, key: str) -> None:
        super().__init__(key)
        self._store = store
        self._held = bytearray()

    def _append(self, data: memoryview) -> None:
        self._held += data

    def _publish(self) -> None:
        self._store.put(self.key, bytes(self._held))

    def _discard(self) -> None:
        self._held.clear()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
