"""Reads the bytes of an index piece by piece, and never beyond their end.

Owns: `Block`, `Cursor`. Must not know: the meaning or the location of the bytes.
Source: format/file-indexes §3. Invariants: Only requested bytes are read. A number that points outside the bytes raises
`TableCorrupt`, which names the file. No count can make memory grow beyond the size of the bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..errors import TableCorrupt

Fetch = Callable[[int, int], bytes]
NO_END = 1 << 40


@dataclass(frozen=True, slots=True)
class Block:
    """A part of an index file; `where` names it, and its length may be `NO_END`."""

    fetch: Fetch
    start: int
    length: int
    where: str

    def read(self, at: int, count: int) -> bytes:
        if at < 0 or count < 0 or at + count > self.length:
            raise self.damaged(f"bytes {at} to {at + count} are outside its {self.length} bytes")
        data = self.fetch(self.start + at, self.start + at + count) if count else b""
        if len(data) != count:
            raise self.damaged(f"it ends before byte {self.start + at + count}")
        return data

    def part(self, at: int, count: int) -> Block:
        if at < 0 or count < 0 or at + count > self.length:
            raise self.damaged(f"bytes {at} to {at + count} are outside its {self.length} bytes")
        return Block(self.fetch, self.start + at, count, self.where)

    def damaged(self, why: str) -> TableCorrupt:
        return TableCorrupt(
            f"{self.where} is cut off or damaged: {why}",
            next_step="run `lakelatch verify`; to read without the index, set option 'file-index.read.enabled' = false",
        )


class Cursor:
    __slots__ = ("at", "block")

    def __init__(self, block: Block, at: int = 0) -> None:
        self.block, self.at = block, at

    def take(self, count: int) -> bytes:
        data = self.block.read(self.at, count)
        self.at += count
        return data

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big", signed=True)

    def count(self, size: int, least_bytes: int, what: str) -> int:
        """The next number, which counts things in the rest of the block that take at least `least_bytes` each."""
        found = self.number(size)
        if found < 0 or found * least_bytes > self.block.length - self.at:
            raise self.block.damaged(f"it cannot hold {found} {what}")
        return found
