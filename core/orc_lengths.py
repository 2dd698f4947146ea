"""Lengths of strings, lists and maps in an ORC stripe: how many a stream holds, and what they come to.

Owns: run length encoding, versions 1 and 2, of numbers without sign, decoded as far as that takes. Must not know: stripes,
blocks, what the lengths are of. Source: ORC's own specification.

Invariant: what passes here has no length below 0, and no sum of lengths above `MOST_TOTAL`. liborc adds lengths up unseen, and
follows the sum out of its memory.
"""

from __future__ import annotations

import bisect

import numpy as np

from .protobuf import varint

MOST_TOTAL = (1 << 31) - 1
_WIDTHS = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)
"""Bits of a value, by the five bits of a run's head that say so."""
_DIRECT, _PATCHED = 1, 2


def measured_lengths(data: bytes, version: int, enough: int) -> tuple[int, int]:
    """How many lengths there are, and their sum.

    Args:
        data: the stream, without blocks.
        version: of the encoding, 1 or 2.
        enough: up to here a bound of the sum may be returned in its place, which is cheaper.

    Raises:
        ValueError: damaged; a length below 0, or a sum above `MOST_TOTAL`.

    >>> measured_lengths(bytes.fromhex("0a2710"), 2, 0)
    (5, 50000)
    """
    try:
        count, total = _old_runs(data) if version == 1 else _runs(data, enough)
    except IndexError:
        raise ValueError("a run of lengths is cut off") from None
    if total > MOST_TOTAL:
        raise ValueError(f"lengths that come to {total}")
    return count, total


def _runs(data: bytes, enough: int) -> tuple[int, int]:
    at, end = 0, len(data)
    count = total = bound = 0
    packed: list[tuple[int, int, int]] = []  # where packed values lie, how many, and the bits of each
    while at < end:
        head = data[at]
        if head < 64:  # a value, 3 to 10 times
            size, start, at = 3 + (head & 7), at + 1, at + 2 + (head >> 3)
            total += size * int.from_bytes(data[start:at], "big")
        else:
            mode, width = head >> 6, _WIDTHS[head >> 1 & 31]
            size, start = 1 + (head & 1) * 256 + data[at + 1], at + 2
            if mode > _PATCHED:
                sum_, at = _delta(data, start, size, width if head & 62 else 0)
                total += sum_
            else:
                if mode == _PATCHED:
                    sum_, start, at = _patches(data, start, size, width)
                    total += sum_
                else:
                    at = start + _bytes_of(size, width)
                packed.append((start, size, width))
                bound += size << width
        count += size
        if at > end:
            raise IndexError
    if total + bound <= enough:
        return count, total + bound
    return count, total + sum(_sum(data, start, size, width) for start, size, width in packed)


def _patches(data: bytes, at: int, size: int, width: int) -> tuple[int, int, int]:
    """What stands beside the packed values of a run: its base, times its size, and the high bits of some; where the values begin,
    and where the run ends."""
    base_bytes, patch_width = 1 + (data[at] >> 5), _WIDTHS[data[at] & 31]
    gap_width, patches = 1 + (data[at + 1] >> 5), data[at + 1] & 31
    base = int.from_bytes(data[at + 2 : at + 2 + base_bytes], "big")
    if base >> base_bytes * 8 - 1 or patch_width + gap_width > 64:
        raise ValueError("a run of lengths with a base below 0, or patches that are none")
    start = at + 2 + base_bytes
    entry_width = _WIDTHS[bisect.bisect_left(_WIDTHS, patch_width + gap_width)]
    first = start + _bytes_of(size, width)
    end = first + _bytes_of(patches, entry_width)
    entries = int.from_bytes(data[first:end], "big") >> -patches * entry_width % 8
    high = sum(entries >> n * entry_width & (1 << patch_width) - 1 for n in range(patches))
    return size * base + (high << width), start, end


def _delta(data: bytes, at: int, size: int, width: int) -> tuple[int, int]:
    """The sum of lengths that only grow or only shrink, and where their run ends."""
    first, at = varint(data, at)
    zigzag, at = varint(data, at)
    step = zigzag >> 1 ^ -(zigzag & 1)
    if not width:
        last, sum_ = first + (size - 1) * step, size * first + size * (size - 1) // 2 * step
    else:
        more = max(0, size - 2)
        start, at = at, at + _bytes_of(more, width)
        sign = -1 if step < 0 else 1
        last = first + step + sign * _sum(data, start, more, width)
        sum_ = first + (size - 1) * (first + step) + sign * _sum(data, start, more, width, np.arange(more, 0, -1))
    if last < 0:
        raise ValueError(f"a length of {last}")
    return sum_, at


def _sum(data: bytes, start: int, size: int, width: int, times: np.ndarray | None = None) -> int:
    """The sum of packed values, each as often as `times` says: how often each bit is set, then what it stands for."""
    if start + _bytes_of(size, width) > len(data):
        raise IndexError
    packed = np.frombuffer(data, np.uint8, _bytes_of(size, width), start)
    bits = np.unpackbits(packed, count=size * width).reshape(size, width)
    counts = bits.sum(axis=0, dtype=np.int64) if times is None else times @ bits
    return sum(int(each) << width - 1 - n for n, each in enumerate(counts))


def _bytes_of(size: int, width: int) -> int:
    return size * width + 7 >> 3


def _old_runs(data: bytes) -> tuple[int, int]:
    at = count = total = 0
    while at < len(data):
        head, at = data[at], at + 1
        if head < 128:  # a value, and what is added each time
            size, step = head + 3, (data[at] ^ 128) - 128
            first, at = varint(data, at + 1)
            if first + (size - 1) * step < 0:
                raise ValueError(f"a length of {first + (size - 1) * step}")
            total += size * first + size * (size - 1) // 2 * step
        else:
            size = 256 - head
            for _ in range(size):
                value, at = varint(data, at)
                total += value
        count += size
    return count, total
