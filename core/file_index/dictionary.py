"""The dictionary of a range-bitmap index: its sorted values, in chunks.

Owns: the look-up of a value's number, and the bytes. Must not know: the rows of a value. Source: format/file-indexes
§4; Apache Paimon's `ChunkedDictionary`. The head of a chunk contains its first value and its number; the other values
are stored separately, so a look-up reads the heads and one chunk.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from ..errors import Unsupported
from .block import Block, Cursor
from .keys import Key, KeyForm

VERSION = 1
_HEAD_BYTES = 13


def check_version(version: int, block: Block) -> None:
    if version != VERSION:
        raise Unsupported(
            f"{block.where}: version {version}; supported is {VERSION}",
            next_step="to read the rows without the index, set option 'file-index.read.enabled' = false",
        )


class _Chunk:
    def __init__(self, head: Cursor, form: KeyForm, keys: Block) -> None:
        check_version(head.number(1), head.block)
        self._form, self._keys = form, keys
        if form.is_text:
            self.first: Key = head.take(head.count(4, 1, "bytes"))
        else:
            self.first = int(form.keys(np.frombuffer(head.take(form.width), form.code))[0])
        self.number = head.number(4)
        self._at, self._count = head.number(4), head.number(4)
        self._sizes = head.number(4), head.number(4)
        if self.number < 0 or self._count < 0:
            raise head.block.damaged(f"a chunk of {self._count} values begins at number {self.number}")
        self._values: Sequence[Key] | None = None

    def values(self) -> Sequence[Key]:
        if self._values is None:
            self._values = [self.first, *(self._texts() if self._form.is_text else self._numbers())]
        return self._values

    def _numbers(self) -> list[int]:
        length, width = self._sizes
        if width != self._form.width or length != self._count * width:
            raise self._keys.damaged(f"a chunk of {self._count} values has {length} bytes, {width} each")
        data = self._keys.read(self._at, length)
        return self._form.keys(np.frombuffer(data, self._form.code)).tolist()  # type: ignore[no-any-return]

    def _texts(self) -> list[bytes]:
        offset_bytes, length = self._sizes
        if offset_bytes != 4 * self._count or length < 0:
            raise self._keys.damaged(f"a chunk of {self._count} values has {offset_bytes} bytes of offsets")
        data = self._keys.read(self._at, offset_bytes + length)
        texts = Block(lambda a, b: data[offset_bytes + a : offset_bytes + b], 0, length, self._keys.where)
        found = []
        for at in np.frombuffer(data[:offset_bytes], ">i4").tolist():
            cursor = Cursor(texts, at)
            found.append(cursor.take(cursor.count(4, 1, "bytes")))
        return found


class Dictionary:
    """Raises TableCorrupt where it is damaged, Unsupported for a later version."""

    def __init__(self, block: Block, form: KeyForm, count: int) -> None:
        self._block, self._form, self._count = block, form, count
        head = Cursor(block)
        length = head.number(4)
        if length < _HEAD_BYTES:
            raise block.damaged(f"the head of its dictionary has {length} bytes")
        check_version(head.number(1), block)
        number, offset_bytes, chunk_bytes = head.number(4), head.number(4), head.number(4)
        if number < 0 or offset_bytes != 4 * number or chunk_bytes < 0:
            raise block.damaged(f"a dictionary of {number} chunks has {offset_bytes} bytes of offsets")
        start = 4 + length
        data = block.read(start, offset_bytes + chunk_bytes)
        heads = Block(lambda a, b: data[offset_bytes + a : offset_bytes + b], 0, chunk_bytes, block.where)
        rest = start + offset_bytes + chunk_bytes
        keys = block.part(rest, block.length - rest)
        offsets = np.frombuffer(data[:offset_bytes], ">i4").tolist()
        self._chunk = cache(lambda i: _Chunk(Cursor(heads, offsets[i]), form, keys))
        self._numbers = range(number)

    def find(self, key: Key) -> tuple[int, bool]:
        """The number of smaller values, and whether the dictionary has the value."""
        number = bisect_right(self._numbers, key, key=lambda i: self._chunk(i).first) - 1
        if number < 0:
            return 0, False
        chunk = self._chunk(number)
        if chunk.first == key:
            return chunk.number, True
        values = chunk.values()
        at = bisect_left(values, key)
        return chunk.number + at, at < len(values) and values[at] == key

    def check(self) -> None:
        number, last = 0, None
        for chunk in map(self._chunk, self._numbers):
            if chunk.number != number:
                raise self._block.damaged(f"a chunk begins at number {chunk.number} instead of {number}")
            for key in chunk.values():
                if last is not None and not last < key:  # type: ignore[operator]
                    raise self._block.damaged(f"value number {number} is out of order")
                number, last = number + 1, key
        if number != self._count:
            raise self._block.damaged(f"its dictionary has {number} values instead of {self._count}")


def dictionary_bytes(keys: pa.Array, form: KeyForm, chunk_bytes: int) -> bytes:
    """The bytes for distinct ascending keys. `chunk_bytes` limits the values of a chunk after its first."""
    offsets: list[int] = []
    heads: list[bytes] = []
    bodies: list[bytes] = []
    at = body_at = 0
    for number, first, count, sizes, body in (
        _text_chunks(keys, chunk_bytes) if form.is_text else _number_chunks(keys, form, chunk_bytes)
    ):
        numbers = (number, body_at, count, *sizes)
        head = bytes((VERSION,)) + form.spelled(first) + b"".join(n.to_bytes(4, "big") for n in numbers)
        offsets.append(at)
        heads.append(head)
        bodies.append(body)
        at += len(head)
        body_at += len(body)
    counts = (len(heads), 4 * len(heads), at)
    top = _HEAD_BYTES.to_bytes(4, "big") + bytes((VERSION,)) + b"".join(n.to_bytes(4, "big") for n in counts)
    return b"".join((top, np.array(offsets, ">i4").tobytes(), *heads, *bodies))


_Made = tuple[int, Any, int, tuple[int, int], bytes]


def _number_chunks(keys: pa.Array, form: KeyForm, chunk_bytes: int) -> Iterator[_Made]:
    values = np.asarray(keys)
    spelled = form.numbers(values)
    step = 1 + chunk_bytes // form.width
    for start in range(0, len(values), step):
        body = spelled[start + 1 : start + step].tobytes()
        count = min(step, len(values) - start) - 1
        yield start, int(values[start]), count, (len(body), form.width), body


def _text_chunks(keys: pa.Array, chunk_bytes: int) -> Iterator[_Made]:
    values = keys.to_pylist()
    ends = np.cumsum([0, *(4 + len(value) for value in values)])
    start = 0
    while start < len(values):
        fitting = int(np.searchsorted(ends, ends[start + 1] + chunk_bytes, "right")) - 1
        stop = max(start + 1, min(fitting, start + 1 + chunk_bytes // 4))
        body = b"".join(len(v).to_bytes(4, "big") + v for v in values[start + 1 : stop])
        offsets = (ends[start + 1 : stop] - ends[start + 1]).astype(">i4").tobytes()
        yield start, values[start], stop - start - 1, (len(offsets), len(body)), offsets + body
        start = stop
