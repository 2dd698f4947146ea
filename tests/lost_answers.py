"""A local store that loses the answer to a publish, once, in whichever process publishes.

It comes by the entry point group `lakelatch.backends` (this folder is on every worker's path), as another package's store
would: `lost:///folder`. While `<folder>/lose-next-publish` is there, the next create of a snapshot is done, its answer
lost, and the process that asked sees nothing of the snapshots any more: it cannot know. Other processes can.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lakelatch.backends.local import LocalStore
from lakelatch.backends.store import Capabilities, ObjectInfo, PutOutcome, Unknown
from lakelatch.core.errors import StoreUnavailable

MARK = "lose-next-publish"
SNAPSHOTS = "snapshot/"


class LostAnswers:
    """See the module."""

    def __init__(self, url: str, options: Mapping[str, Any] | None = None) -> None:
        self._url, self._options = url, dict(options or {})
        self._root = Path(url.partition("://")[2])
        self._store = LocalStore(str(self._root), {"fsync": False})
        self._cut = False

    def __reduce__(self) -> tuple[Any, ...]:
        return LostAnswers, (self._url, self._options)

    @property
    def url(self) -> str:
        return self._url

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities("link", None, "a local store whose answers get lost")

    def _seen(self, key: str) -> None:
        if self._cut and key.startswith(SNAPSHOTS):
            raise StoreUnavailable(f"{key} cannot be reached")

    def get(self, key: str) -> bytes:
        self._seen(key)
        return self._store.get(key)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        self._seen(key)
        return self._store.get_range(key, start, end)

    def head(self, key: str) -> ObjectInfo:
        self._seen(key)
        return self._store.head(key)

    def put(self, key: str, data: bytes) -> None:
        self._seen(key)
        self._store.put(key, data)

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        self._seen(key)
        outcome = self._store.put_if_absent(key, data)
        mark = self._root / MARK
        if key.startswith(SNAPSHOTS) and mark.exists():
            mark.unlink()
            self._cut = True
            return Unknown("the answer was lost")
        return outcome

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        self._seen(prefix)
        return self._store.list(prefix)

    def delete_many(self, keys: Iterable[str]) -> None:
        self._store.delete_many(keys)

    def open_input(self, key: str, size: int | None = None) -> Any:
        return self._store.open_input(key, size)

    def open_output(self, key: str) -> Any:
        return self._store.open_output(key)
