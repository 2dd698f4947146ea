"""Reads and builds Bloom filters of the values of a column.

Owns: the bytes of the filter, and its answer to a comparison. Must not know: containers, columns.
Source: format/file-indexes §2. Invariants: A value that was added is found. As in Apache Paimon, the number of bits is the
next larger multiple of eight, even if the needed number is one already.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from ..errors import InvalidArgument
from ..typed import Array
from .block import Block, Cursor
from .hashes import key_hashes
from .keys import Key, KeyForm, Question, distinct

DEFAULT_ITEMS = 1_000_000
DEFAULT_FPP = 0.1
_MOST_HASHES = 1 << 12
_MOST_BITS = 2**31 - 9


class BloomReader:
    """A Bloom filter of a file. Raises TableCorrupt if its head is damaged."""

    def __init__(self, block: Block, form: KeyForm, rows: int) -> None:
        self._block = block
        self._hash_count = Cursor(block).number(4)
        self._bits = (block.length - 4) * 8
        if not 1 <= self._hash_count <= _MOST_HASHES or self._bits < 8:
            raise block.damaged(f"a bloom filter of {self._bits} bits and {self._hash_count} hashes")
        self._form = form

    def rows(self, question: Question) -> BitMap | None:
        if question.op != "in":
            return None
        if not question.keys:
            return BitMap()
        data = self._block.read(4, self._block.length - 4)
        is_there = any(self._has(data, hash_) for hash_ in _literal_hashes(question.keys, self._form))
        return None if is_there else BitMap()

    def _has(self, data: bytes, hash_: int) -> bool:
        low, high = hash_, hash_ >> 32
        for i in range(1, self._hash_count + 1):
            mixed = (low + i * high) & 0xFFFFFFFF
            place = (mixed ^ 0xFFFFFFFF if mixed >> 31 else mixed) % self._bits
            if not data[place >> 3] >> (place & 7) & 1:
                return False
        return True

    def check(self) -> None:
        self._block.read(0, self._block.length)


@lru_cache(maxsize=64)
def _literal_hashes(keys: tuple[Key, ...], form: KeyForm) -> list[int]:
    """The hashes of the literals, which are the same for every file. No file contains a number of more than 64 bits."""
    if form.is_text:
        return _hashes(pa.array(keys, pa.binary()), form).tolist()  # type: ignore[no-any-return]
    numbers = [k for k in keys if isinstance(k, int) and -(2**63) <= k < 2**63]
    return _hashes(pa.array(numbers, pa.int64()), form).tolist()  # type: ignore[no-any-return]


def _hashes(keys: Any, form: KeyForm) -> Array:
    return key_hashes(pa.array(form.numbers(np.asarray(keys)).astype(np.int64)) if form.is_float else keys)


def _places(hashes: Array, hash_count: int, bits: int) -> Array:
    low, high = hashes.astype(np.int32), (hashes >> 32).astype(np.int32)
    with np.errstate(over="ignore"):
        mixed = low + np.arange(1, hash_count + 1, dtype=np.int32)[:, None] * high
    return np.where(mixed < 0, ~mixed, mixed).astype(np.int64) % bits


class BloomBuilder:
    """Raises InvalidArgument where no filter has so many different values (`items`) and this false positive rate (`fpp`)."""

    def __init__(self, form: KeyForm, items: int, fpp: float) -> None:
        if items < 1 or not 0 < fpp < 1:
            raise InvalidArgument(f"a bloom filter of {items} items and a false positive rate of {fpp} is impossible")
        self._form = form
        needed = int(-items * math.log(fpp) / (math.log(2) * math.log(2)))
        if needed > _MOST_BITS:
            raise InvalidArgument(f"a bloom filter of {items} items and a false positive rate of {fpp} is too large")
        self._bits = np.zeros(needed + 8 - needed % 8, bool)
        self._hash_count = max(1, math.floor(len(self._bits) / items * math.log(2) + 0.5))

    def add(self, keys: Any) -> None:
        found = distinct(keys)
        if len(found):
            self._bits[_places(_hashes(found, self._form), self._hash_count, len(self._bits)).ravel()] = True

    def finish(self) -> bytes:
        return self._hash_count.to_bytes(4, "big") + np.packbits(self._bits, bitorder="little").tobytes()
