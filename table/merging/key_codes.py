"""One number or byte string for each row that compares as its key does, so that sorted files are merged with one stable sort.

Owns: `key_codes`. Must not know: engines, files. Source: format/primary-keys §3.

A value becomes big-endian words of 64 bits: texts and bytes as they are, filled up with zeros, numbers with their sign turned.
Bytes that are the same in all rows are dropped, as in the common prefix of texts. If at most eight are left they are one number.

Invariants: Codes compare like keys, and are equal only if the keys are. They are comparable among the rows of one call only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ...core.typed import Array
from .codes import ordered_codes

_WORD = 8
_MOST_WORDS = 32
"""Longer texts are ranked by Arrow."""
_SIGN = np.uint64(1 << 63)
_LEADING = np.array([0, *(((1 << 64) - 1) ^ ((1 << (64 - 8 * i)) - 1) for i in range(1, _WORD + 1))], np.uint64)
"""For 0 to 8, a word whose first bytes, so many, are all ones."""


def key_codes(columns: Sequence[Any]) -> Array:
    """A code for each row: 64-bit numbers or byte strings, which NumPy sorts. The most significant column is the first.

    >>> key_codes([pa.array(["user-b", "user-a", "user-aa"])]).argsort().tolist()
    [1, 2, 0]
    """
    if len(columns) == 1 and not columns[0].null_count and pa.types.is_integer(columns[0].type):
        return np.asarray(columns[0].to_numpy(zero_copy_only=False), np.int64)
    return _packed([word for column in columns for word in _words(column)])


def _words(array: Any) -> list[Array]:
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    kind = array.type
    if (pa.types.is_string(kind) or pa.types.is_binary(kind)) and not array.null_count:
        found = _text_words(array)
        if found is not None:
            return found
    return [ordered_codes(array).view(np.uint64) ^ _SIGN]


def _text_words(array: Any) -> list[Array] | None:
    """Texts or bytes as words; None if they are too long."""
    if not len(array):
        return [np.zeros(0, np.uint64)]
    _, places, values = array.buffers()
    ends = np.frombuffer(places, np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    lengths = np.diff(ends)
    count = -(-int(lengths.max()) // _WORD)
    if count > _MOST_WORDS:
        return None
    first, last = int(ends[0]), int(ends[-1])
    data = np.zeros(last - first + _WORD * (count + 1), np.uint8)
    if last > first:
        data[: last - first] = np.frombuffer(values, np.uint8)[first:last]
    if int(lengths.min()) == int(lengths.max()):
        return _words_of_equal_length(data, len(array), int(lengths[0]))
    starts = ends[:-1] - first
    at_any_byte = np.ndarray((len(data) - _WORD + 1,), ">u8", data.data, 0, (1,))
    words = []
    for number in range(count):
        word = at_any_byte[starts + _WORD * number].astype(np.uint64)
        left = lengths - _WORD * number
        if int(left.min()) < _WORD:
            word &= _LEADING[np.clip(left, 0, _WORD)]
        words.append(word)
    if not data[: last - first].all():
        words.append(lengths.view(np.uint64))  # a zero at the end of a value is not one that fills it up
    return words or [np.zeros(len(array), np.uint64)]


def _words_of_equal_length(data: Array, rows: int, length: int) -> list[Array]:
    """The words of values that lie one after the other at equal distances, without those that all values share."""
    words = []
    for start in range(0, length, _WORD):
        word = np.ndarray((rows,), ">u8", data.data, start, (length,))
        if start + _WORD > length:  # the next value begins within the word
            word = word.astype(np.uint64) & _LEADING[length - start]
        if not (word == word[0]).all():
            words.append(word.astype(np.uint64))
    return words or [np.zeros(rows, np.uint64)]


def _packed(words: Sequence[Array]) -> Array:
    """Words as one number for each row, if the bytes in which rows differ fit into it, or as byte strings."""
    if not len(words[0]):
        return words[0]
    varying = [int(np.bitwise_or.reduce(word ^ word[0])) for word in words]
    used = [[place for place in range(_WORD) if bits >> 8 * (_WORD - 1 - place) & 0xFF] for bits in varying]
    if sum(map(len, used)) <= _WORD:
        return _one_word(words, used)
    kept = [word for word, places in zip(words, used, strict=True) if places]
    if len(kept) == 1:
        return kept[0]
    rows = np.empty((len(words[0]), len(kept)), ">u8")
    for number, word in enumerate(kept):
        rows[:, number] = word
    return rows.view(f"S{_WORD * len(kept)}").reshape(-1)


def _one_word(words: Sequence[Array], used: Sequence[Sequence[int]]) -> Array:
    found = np.zeros(len(words[0]), np.uint64)
    for word, places in zip(words, used, strict=True):
        if places:
            first, last = places[0], places[-1]
            span = last - first + 1
            if span == len(places):  # the usual case: one block of bytes
                block = word >> np.uint64(8 * (_WORD - 1 - last))
                found = found << np.uint64(8 * span) if span < _WORD else found
                found |= block & np.uint64((1 << 8 * span) - 1)
            else:
                for place in places:
                    found <<= np.uint64(8)
                    found |= word >> np.uint64(8 * (_WORD - 1 - place)) & np.uint64(0xFF)
    return found
