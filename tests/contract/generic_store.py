"""A store that adds nothing to an fsspec file system, so that it shows what `FsspecStore` does for all of them."""

from __future__ import annotations

import asyncio
from typing import Any

from lakelatch.backends.files.object_store import FsspecStore
from lakelatch.backends.files.upload import Multipart
from lakelatch.backends.requests.answers import Answer, AnswerTable
from lakelatch.backends.store import Capabilities

_LOCK = asyncio.Lock()


class GenericStore(FsspecStore):
    """Uses fsspec's memory file system through the wrapper for synchronous file systems."""

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities("lock", None, "for tests")

    def _root_of(self, url: str) -> str:
        return "/" + url.partition("://")[2]

    def _check_options(self) -> None:
        self._options.only(frozenset(), "generic stores")

    async def _connect(self) -> Any:
        from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper
        from fsspec.implementations.memory import MemoryFileSystem

        return AsyncFileSystemWrapper(fs=MemoryFileSystem(), asynchronous=False)

    async def _create(self, fs: Any, path: str, data: bytes) -> None:
        async with _LOCK:
            if await fs._exists(path):
                raise FileExistsError(path)
            await fs._pipe_file(path, data)

    def _classify(self, error: BaseException) -> Answer:
        return AnswerTable().classify(error)

    def _multipart(self, path: str) -> Multipart:
        return _Parts(self, path)


class _Parts:
    """Keeps the parts in memory until the end."""

    costs = (0, 0)

    def __init__(self, store: GenericStore, path: str) -> None:
        self._store = store
        self._path = path
        self._held: dict[int, bytes] = {}

    def start(self) -> None:
        pass

    def part(self, number: int, data: bytes) -> int:
        self._held[number] = data
        return number

    def finish(self, parts: list[Any], size: int) -> None:
        data = b"".join(self._held[number] for number in parts)
        assert len(data) == size
        self._store._request("write", self._path, 30, self._store._write, self._path, data)

    def abandon(self) -> None:
        self._held.clear()
