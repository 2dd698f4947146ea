"""Bytes of an index that are read piece by piece, and never beyond their end.

Owns: `Block`, `Cursor`. Must not know: what the bytes mean, where they lie.
Source: format/file-indexes §3. Invariants: nothing is read that was not asked for; a number that points outside of the bytes is
one `TableCorrupt` that names the file; no count makes memory grow beyond the bytes that are there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..errors import TableCorrupt

Fetch = Callable[[int, int], bytes]
"""Bytes ``[start, end)`` of an index file; shorter at its end."""
NO_END = 1 << 40


@dataclass(frozen=True, slots=True)
class Block:
    """A part of an index file.

    Attributes:
        fetch: gives the file's bytes.
        start, length: of the part, in bytes of the file; `NO_END` where nobody says how long it is.
        where: the file, and the part, for errors.
    """

    fetch: Fetch
    start: int
    length: int
    where: str

    def read(self, at: int, count: int) -> bytes:
        """`count` bytes from position `at` of the part.

        Raises:
            TableCorrupt: they lie outside of the part, or of the file.
        """
        if at < 0 or count < 0 or at + count > self.length:
            raise self.damaged(f"bytes {at} to {at + count} lie outside of its {self.length}")
        data = self.fetch(self.start + at, self.start + at + count) if count else b""
        if len(data) != count:
            raise self.damaged(f"it ends before byte {self.start + at + count}")
        return data

    def part(self, at: int, count: int) -> Block:
        """A part of the part; raises as `read`."""
        if at < 0 or count < 0 or at + count > self.length:
            raise self.damaged(f"bytes {at} to {at + count} lie outside of its {self.length}")
        return Block(self.fetch, self.start + at, count, self.where)

    def damaged(self, why: str) -> TableCorrupt:
        """The error that says what is wrong with these bytes."""
        return TableCorrupt(
            f"{self.where} is cut off or damaged: {why}",
            next_step="run `lakelatch verify`; option 'file-index.read.enabled' = false reads the rows without it",
        )


class Cursor:
    """Reads a block from front to back."""

    __slots__ = ("at", "block")

    def __init__(self, block: Block, at: int = 0) -> None:
        self.block, self.at = block, at

    def take(self, count: int) -> bytes:
        """The next bytes."""
        data = self.block.read(self.at, count)
        self.at += count
        return data

    def number(self, size: int) -> int:
        """The next signed big-endian number of so many bytes."""
        return int.from_bytes(self.take(size), "big", signed=True)

    def count(self, size: int, least_bytes: int, what: str) -> int:
        """The next number, of things that take so many bytes each, at least, in the rest of the block."""
        found = self.number(size)
        if found < 0 or found * least_bytes > self.block.length - self.at:
            raise self.block.damaged(f"it cannot hold {found} {what}")
        return found
