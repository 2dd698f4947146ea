"""Streams a large object into an object store: one plain put if it turns out small, else an upload in parts or a spool.

Owns: the buffer, the parts under way, their order. Must not know: any particular store, retries (made below each call).
Invariants: the object appears at `close()` or not at all. At most `PARTS_UNDER_WAY` parts are held in memory besides the
buffer. After `abort()` or a failed close, the store is asked to discard the parts.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol

from ..requests.threads import Threads
from .open_files import OutputFile

PART_BYTES = 16 << 20
"""The size of a part, and of the largest object that is sent as one put. A store takes 10 000 parts: 160 GB."""

PARTS_UNDER_WAY = 2


class Multipart(Protocol):
    """An upload in parts to some store. Every call retries internally and raises `StoreUnavailable` when it gives up."""

    costs: tuple[int, int]
    """The number of requests that `start` and each `part` take; `finish` takes one."""

    def start(self) -> None: ...

    def part(self, number: int, data: bytes) -> Any:
        """Send part `number` (from 1), possibly from several threads. Returns the name of the part for `finish`."""

    def finish(self, parts: list[Any], size: int) -> None:
        """Make the object appear from `parts`, in order, with `size` bytes in all."""

    def abandon(self) -> None:
        """Ask the store to discard the parts, as far as possible. Never raises."""


class SpooledUpload:
    """Collects a large object in a temporary file of this machine (`TMPDIR`) and sends it whole at the end.

    For stores whose own uploads take parts in order only, and cannot resume in the middle without a request for the
    current offset. Here every repeat starts from the beginning, and parts may arrive in any order. `send` gets the size
    and a function (offset, count), and retries internally.
    """

    costs = (0, 0)

    def __init__(self, send: Callable[[int, Callable[[int, int], bytes]], None]) -> None:
        self._send = send

    def start(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="lakelatch-")  # noqa: SIM115  closed by `finish` and `abandon`

    def part(self, number: int, data: bytes) -> None:
        view, offset = memoryview(data), (number - 1) * PART_BYTES
        while view:
            written = os.pwrite(self._file.fileno(), view, offset)
            view, offset = view[written:], offset + written

    def finish(self, parts: list[Any], size: int) -> None:
        self._send(size, lambda offset, count: os.pread(self._file.fileno(), count, offset))
        self._file.close()

    def abandon(self) -> None:
        self._file.close()


class BufferedOutput(OutputFile):
    """Over one put, or a `Multipart` that is begun once the object turns out to be large."""

    def __init__(self, key: str, put: Callable[[bytes], None], multipart: Callable[[], Multipart]) -> None:
        super().__init__(key)
        self._put = put
        self._multipart = multipart
        self._held = bytearray()
        self._upload: Multipart | None = None
        self._pool: Threads | None = None
        self._parts: list[Future[Any]] = []

    def _append(self, data: memoryview) -> None:
        while data:
            if len(self._held) == PART_BYTES:  # more bytes follow, so the object is large
                self._send(bytes(self._held))
                self._held.clear()
            room = PART_BYTES - len(self._held)
            self._held += data[:room]
            data = data[room:]

    def _publish(self) -> None:
        if self._upload is None:
            self._put(bytes(self._held))
            self.requests += 1
            return
        self._send(bytes(self._held))
        self._held.clear()
        parts = [sent.result() for sent in self._parts]
        self._upload.finish(parts, self._written)
        self.requests += 1
        self._end_pool()

    def _discard(self) -> None:
        self._held.clear()
        for sent in self._parts:
            sent.cancel()
        self._end_pool()  # a part that lands after the upload was discarded would stay and cost money
        if self._upload is not None:
            self._upload.abandon()

    def _send(self, data: bytes) -> None:
        if self._upload is None:
            upload = self._multipart()
            upload.start()
            self._upload = upload
            self.requests += upload.costs[0]
        if self._pool is None:
            self._pool = Threads(PARTS_UNDER_WAY, "lakelatch-upload")
        number = len(self._parts) + 1
        if number > PARTS_UNDER_WAY:
            self._parts[number - PARTS_UNDER_WAY - 1].result()  # bounds memory, and reports a failure early
        self._parts.append(self._pool.submit(self._upload.part, number, data))
        self.requests += self._upload.costs[1]

    def _end_pool(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True)
            self._pool = None
