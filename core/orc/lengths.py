"""Counts and adds up the numbers of an ORC stripe that cannot be negative, such as lengths and the scales of decimals.

Owns: run length encoding, versions 1 and 2, decoded only as far as needed. Must not know: stripes, blocks, the meaning
of the numbers. Source: ORC's own specification. Invariant: A stream that passes has no number below 0, and its sum is
not above `MOST_TOTAL`. liborc adds lengths up without checks, and accesses memory out of bounds if the sum is wrong.
"""

from __future__ import annotations

import bisect

import numpy as np

from .protobuf import varint

MOST_TOTAL = (1 << 31) - 1
WIDTHS = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)
_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.int64)


def measured(data: bytes, version: int, *, signed: bool = False, enough: int = 0) -> tuple[int, int]:
    """The count of a decompressed stream's numbers, and their sum. Raises ValueError where a number is below 0 or the
    sum is above `MOST_TOTAL`.

    Args:
        version: of the encoding, 1 or 2.
        signed: whether the encoding allows numbers below 0.
        enough: if the sum is at most this, an upper bound may be returned instead, which is much faster.

    >>> measured(bytes.fromhex("0a2710"), 2)
    (5, 50000)
    """
    try:
        count, total = _old_runs(data, signed) if version == 1 else _runs(data, signed, exactly=signed or not enough)
        if total > enough > 0 and version > 1:
            count, total = _runs(data, signed, exactly=True)
    except IndexError:
        raise ValueError("a run of numbers is cut off") from None
    if total > MOST_TOTAL:
        raise ValueError(f"numbers with a sum of {total}")
    return count, total


def _runs(data: bytes, signed: bool, *, exactly: bool) -> tuple[int, int]:
    at, end = 0, len(data)
    count = total = 0
    packed: dict[tuple[int, bool], list[bytes]] = {}  # by the bits of each value, and whether the last bit is the sign
    while at < end:
        head = data[at]
        if head < 8 and not signed:  # the most frequent case of the next branch
            size = 3 + head
            total += size * data[at + 1]
            at += 2
        elif head < 64:  # a value, 3 to 10 times
            size, start, at = 3 + (head & 7), at + 1, at + 2 + (head >> 3)
            total += size * _plain(int.from_bytes(data[start:at], "big"), signed)
        elif head < 128:
            width, size, start = WIDTHS[head >> 1 & 31], 1 + (head & 1) * 256 + data[at + 1], at + 2
            at = start + (size * width + 7 >> 3)
            if exactly:
                packed.setdefault((width, signed), []).append(data[start:at])
            else:
                total += size << width
        else:
            width, size = WIDTHS[head >> 1 & 31], 1 + (head & 1) * 256 + data[at + 1]
            if head < 192:
                values, sum_, at = _patched(data, at + 2, size, width)
                if exactly:
                    packed.setdefault((width, False), []).append(values)
                else:
                    total += size << width
            else:
                sum_, at = _delta(data, at + 2, size, width if head & 62 else 0, signed)
            total += sum_
        count += size
    if at > end:
        raise IndexError
    return count, total + sum(_sum(values, width, zigzag) for (width, zigzag), values in packed.items())


def _sum(packed: list[bytes], width: int, signed: bool) -> int:
    """The sum of values of `width` bits. Eight values fill `width` bytes, so byte i of each group has the same bits."""
    whole = b"".join(values + bytes(-len(values) % width) for values in packed)
    places = np.frombuffer(whole, np.uint8).reshape(-1, width)
    counts = np.concatenate([np.bincount(places[:, i], minlength=256) @ _BITS for i in range(width)])
    by_bit = [int(each) for each in counts.reshape(8, width).sum(axis=0)]
    if signed and by_bit[-1]:
        raise ValueError("a number below 0")
    return sum(each << width - 1 - n for n, each in enumerate(by_bit)) >> signed


def _patched(data: bytes, at: int, size: int, width: int) -> tuple[bytes, int, int]:
    """The packed values of a run, the sum of its base and patches (high bits of some values), and the offset of its end."""
    base_bytes, patch_width = 1 + (data[at] >> 5), WIDTHS[data[at] & 31]
    gap_width, patches = 1 + (data[at + 1] >> 5), data[at + 1] & 31
    base = int.from_bytes(data[at + 2 : at + 2 + base_bytes], "big")
    if base >> base_bytes * 8 - 1 or patch_width + gap_width > 64:
        raise ValueError("a run of numbers below 0, or with impossible patches")
    start = at + 2 + base_bytes
    first = start + _bytes_of(size, width)
    patch_bits = WIDTHS[bisect.bisect_left(WIDTHS, patch_width + gap_width)]
    end = first + _bytes_of(patches, patch_bits)
    entries = int.from_bytes(data[first:end], "big") >> -patches * patch_bits % 8
    high = sum(entries >> n * patch_bits & (1 << patch_width) - 1 for n in range(patches))
    return data[start:first], size * base + (high << width), end


def _delta(data: bytes, at: int, size: int, width: int, signed: bool) -> tuple[int, int]:
    """The sum of a run whose values only grow or only shrink, and the offset of its end."""
    first, at = varint(data, at)
    zigzag, at = varint(data, at)
    first, step = _plain(first, signed), zigzag >> 1 ^ -(zigzag & 1)
    second, more = first + step, max(0, size - 2) if width else 0
    start, at = at, at + _bytes_of(more, width)
    if at > len(data):
        raise IndexError
    if not width:
        last, sum_ = first + (size - 1) * step, size * first + size * (size - 1) // 2 * step
    else:
        bits = np.unpackbits(np.frombuffer(data, np.uint8, at - start, start), count=more * width).reshape(more, width)
        weights, sign = [1 << n for n in reversed(range(width))], -1 if step < 0 else 1
        last = second + sign * sum(map(int.__mul__, bits.sum(axis=0, dtype=np.int64).tolist(), weights))
        times = np.arange(more, 0, -1) @ bits  # a step counts in each value after it
        sum_ = first + (size - 1) * second + sign * sum(map(int.__mul__, times.tolist(), weights))
    if last < 0:
        raise ValueError(f"a number below 0: {last}")
    return sum_, at


def _plain(value: int, signed: bool) -> int:
    if signed and value & 1:
        raise ValueError("a number below 0")
    return value >> signed


def _bytes_of(size: int, width: int) -> int:
    return size * width + 7 >> 3


def _old_runs(data: bytes, signed: bool) -> tuple[int, int]:
    at = count = total = 0
    while at < len(data):
        head, at = data[at], at + 1
        if head < 128:  # a value, and the step between values
            size, step = head + 3, (data[at] ^ 128) - 128
            value, at = varint(data, at + 1)
            first = _plain(value, signed)
            if first + (size - 1) * step < 0:
                raise ValueError("a number below 0")
            total += size * first + size * (size - 1) // 2 * step
        else:
            size = 256 - head
            for _ in range(size):
                value, at = varint(data, at)
                total += _plain(value, signed)
        count += size
    return count, total
