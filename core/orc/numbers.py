"""Decodes and encodes the whole numbers of an ORC stream.

Owns: run length encoding, version 2: every form is decoded, one is written. Must not know: stripes, blocks, the meaning of the
numbers. Source: ORC's own specification.
"""

from __future__ import annotations

import bisect
from typing import Any

import numpy as np

from .lengths import WIDTHS
from .protobuf import varint

_MOST_VALUES = 512
_DIRECT = 0x40


def decoded(data: bytes, *, signed: bool = False) -> Any:
    """The numbers of a stream, as `int64`. Raises ValueError.

    If the encoding is not `signed`, a number of 64 bits is below 0 if its first bit is set.

    >>> decoded(bytes.fromhex("0a2710")).tolist(), decoded(bytes.fromhex("5e035ca1ab1edeadbeef")).tolist()
    ([10000, 10000, 10000, 10000, 10000], [23713, 43806, 57005, 48879])
    """
    runs = []
    at, end = 0, len(data)
    try:
        while at < end:
            head = data[at]
            if head < 64:  # one value, 3 to 10 times
                stop = at + 2 + (head >> 3)
                value = int.from_bytes(data[at + 1 : stop], "big")
                run, at = _signed(np.full(3 + (head & 7), value, np.uint64), signed), stop
                runs.append(run)
                continue
            width, size = WIDTHS[head >> 1 & 31], 1 + (head & 1) * 256 + data[at + 1]
            if head < 128:
                run, at = _packed(data, at + 2, size, width)
                run = _signed(run, signed)
            elif head < 192:
                run, at = _patched(data, at + 2, size, width)
            else:
                run, at = _delta(data, at + 2, size, width if head & 62 else 0, signed)
            runs.append(run)
    except IndexError:
        raise ValueError("a run of numbers is cut off") from None
    if at != end:
        raise ValueError("a run of numbers is cut off")
    return np.concatenate([*runs, np.zeros(0, np.uint64)]).view(np.int64)


def _packed(data: bytes, at: int, size: int, width: int) -> tuple[Any, int]:
    end = at + (size * width + 7 >> 3)
    if end > len(data):
        raise IndexError
    bits = np.unpackbits(np.frombuffer(data, np.uint8, end - at, at), count=size * width).reshape(size, width)
    weights = np.uint64(1) << np.arange(width - 1, -1, -1, dtype=np.uint64)
    return bits.astype(np.uint64) @ weights, end


def _patched(data: bytes, at: int, size: int, width: int) -> tuple[Any, int]:
    base_bytes, patch_width = 1 + (data[at] >> 5), WIDTHS[data[at] & 31]
    gap_width, patches = 1 + (data[at + 1] >> 5), data[at + 1] & 31
    base = int.from_bytes(data[at + 2 : at + 2 + base_bytes], "big")
    sign = 1 << base_bytes * 8 - 1
    if base & sign:
        base = sign - base
    values, at = _packed(data, at + 2 + base_bytes, size, width)
    if patch_width + gap_width > 64:
        raise ValueError("a run of numbers with impossible patches")
    entries, at = _packed(data, at, patches, WIDTHS[bisect.bisect_left(WIDTHS, patch_width + gap_width)])
    place = 0
    for entry in entries.tolist():
        place += entry >> patch_width
        values[place] |= np.uint64((entry & (1 << patch_width) - 1) << width)
    return values + np.uint64(base % (1 << 64)), at


def _signed(values: Any, signed: bool) -> Any:
    one = np.uint64(1)
    return values >> one ^ np.uint64(0) - (values & one) if signed else values


def _delta(data: bytes, at: int, size: int, width: int, signed: bool) -> tuple[Any, int]:
    first, at = varint(data, at)
    zigzag, at = varint(data, at)
    step = zigzag >> 1 ^ -(zigzag & 1)
    first = (first >> 1 ^ -(first & 1)) % (1 << 64) if signed else first
    if not width:
        return np.uint64(first) + np.arange(size, dtype=np.uint64) * np.uint64(step % (1 << 64)), at
    more, at = _packed(data, at, max(0, size - 2), width)
    steps = np.concatenate([np.array([0, abs(step)], np.uint64)[:size], more])
    sums = np.cumsum(steps, dtype=np.uint64)
    return (np.uint64(first) - sums if step < 0 else np.uint64(first) + sums), at


def encoded(values: Any) -> bytes:
    """A stream of `int64` numbers, which `decoded` returns again. Numbers below 0 take 64 bits.

    >>> encoded(np.array([1, 300])).hex()
    '5e010001012c'
    """
    values = values.view(np.uint64)
    width = max(1, (int(values.max(initial=0)).bit_length() + 7) // 8)
    code = WIDTHS.index(width * 8)
    packed = values.astype(">u8").view(np.uint8).reshape(-1, 8)[:, 8 - width :].tobytes()
    out = []
    for start in range(0, len(values), _MOST_VALUES):
        last = min(_MOST_VALUES, len(values) - start) - 1
        out.append(bytes((_DIRECT | code << 1 | last >> 8, last & 255)))
        out.append(packed[start * width : (start + last + 1) * width])
    return b"".join(out)
