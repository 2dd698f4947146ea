"""An object store over a file system in memory that answers as a test has planned."""

from __future__ import annotations

import uuid
from typing import Any

import fsspec.asyn

from lakelatch.backends.files.object_store import FsspecStore, bucket_root
from lakelatch.backends.files.upload import Multipart
from lakelatch.backends.requests.answers import Answer, AnswerTable
from lakelatch.backends.requests.patience import Patience
from lakelatch.backends.store import Capabilities

QUICK = Patience(deadline_seconds=7.0, sends=3, first_wait_seconds=0.001, longest_wait_seconds=0.001)

CODES = {"busy": Answer.BUSY, "conflict": Answer.CONFLICT, "missing": Answer.MISSING, "denied": Answer.DENIED}
CODES |= {"past end": Answer.PAST_END, "no bucket": Answer.NO_CONTAINER, "no condition": Answer.NO_CONDITION}
CODES |= {"exists": Answer.EXISTS, "silence": Answer.NO_ANSWER, "cut": Answer.BROKEN_OFF, "not sent": Answer.NOT_SENT}


class Said(Exception):
    """An answer of the store; its text is the code, and more after a colon."""


class FileSystem:
    """Objects in memory. What is planned for a call is raised instead, in turn."""

    def __init__(self) -> None:
        self.loop = fsspec.asyn.get_loop()
        self.objects: dict[str, bytes] = {}
        self.planned: list[BaseException] = []
        self.calls: list[tuple[Any, ...]] = []

    def answer(self, *call: Any) -> None:
        self.calls.append(call)
        if self.planned:
            raise self.planned.pop(0)

    def found(self, path: str) -> bytes:
        if path not in self.objects:
            raise Said("missing")
        return self.objects[path]

    async def _cat_file(self, path: str, start: int | None = None, end: int | None = None) -> bytes:
        self.answer("read", path, start, end)
        return self.found(path)[start:end]

    async def _info(self, path: str) -> dict[str, Any]:
        self.answer("info", path)
        return {"size": len(self.found(path)), "mtime": 12.5, "type": "file"}

    async def _pipe_file(self, path: str, data: bytes) -> None:
        self.answer("write", path)
        self.objects[path] = data

    async def _rm_file(self, path: str) -> None:
        self.answer("delete", path)
        self.found(path)
        del self.objects[path]

    async def _find(self, prefix: str, detail: bool) -> dict[str, dict[str, Any]]:
        self.answer("list", prefix)
        return {path: {"size": len(data), "mtime": 1} for path, data in sorted(self.objects.items())}


class PlannedStore(FsspecStore):
    """A store over `FileSystem`."""

    connects = 0

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities("for tests", None, "for tests")

    def _root_of(self, url: str) -> str:
        return bucket_root(url, ("planned",), "Planned")

    def _check_options(self) -> None:
        self._options.only(frozenset({"run", "secret"}), "Planned")

    async def _connect(self) -> FileSystem:
        return FileSystem()

    async def _create(self, fs: FileSystem, path: str, data: bytes) -> None:
        fs.answer("create", path)
        if path in fs.objects:
            raise Said("exists")
        fs.objects[path] = data

    def _classify(self, error: BaseException) -> Answer:
        if isinstance(error, Said):
            return CODES[str(error).partition(":")[0]]
        return AnswerTable().classify(error)

    def _multipart(self, path: str) -> Multipart:
        raise NotImplementedError

    @property
    def fs(self) -> FileSystem:
        made = self._filesystem()
        assert isinstance(made, FileSystem)
        return made


def options(**more: Any) -> dict[str, Any]:
    return {"run": uuid.uuid4().hex, **more}
