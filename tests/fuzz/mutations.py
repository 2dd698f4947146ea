"""Damage of every kind, drawn from a random source: to bytes, and to what JSON says."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

BIG = (2**31, 2**63, -(2**63), 10**40, 1e308, float("inf"), float("nan"))
SCALARS = (*BIG, None, True, 0, -1, 1, "", "x", "../x", "\u0000", "9" * 400)
"""What stands where something else should."""


def mutated(data: bytes, rng: random.Random) -> bytes:
    """The bytes cut, lengthened, doubled, or with some of them changed; now and then bytes of no origin at all."""
    out = bytearray(data)
    spot = lambda: rng.randrange(len(out) + 1)  # noqa: E731
    match rng.randrange(8):
        case 0:
            del out[spot() :]
        case 1:
            start = spot()
            del out[start : start + rng.randrange(1, 9)]
        case 2:
            start = spot()
            out[start:start] = rng.randbytes(rng.randrange(1, 9))
        case 3:
            start, end = sorted((spot(), spot()))
            out[end:end] = out[start : min(end, start + 4096)]
        case 4:
            start, size = spot(), rng.choice((1, 2, 4, 8))
            out[start : start + size] = rng.choice((b"\x00", b"\xff", b"\x7f", b"\x80")) * size
        case 5 if rng.random() < 0.2:
            return rng.randbytes(rng.randrange(200))
        case _:
            for _ in range(min(len(out), rng.choice((1, 1, 1, 2, 5, 30)))):
                out[rng.randrange(len(out))] = rng.choice((0, 127, 128, 255, rng.randrange(256)))
    return bytes(out)


def mutated_json(data: bytes, rng: random.Random) -> bytes:
    """A document that is JSON still, one or two of whose values are another's, or missing; or one whose bytes are hurt."""
    if rng.random() < 0.3:
        return mutated(data, rng)
    document = json.loads(data)
    for _ in range(rng.choice((1, 1, 2))):
        holders = [value for value in _walk(document) if value]
        if not holders:
            break
        holder = rng.choice(holders)
        key = rng.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
        if rng.random() < 0.2:
            del holder[key]
        else:
            another = copy.deepcopy(rng.choice(holders))  # a copy: nothing may hold itself
            holder[key] = rng.choice((*SCALARS, [], {}, [None], {"": None}, another))
    return json.dumps(document).encode()


def _walk(value: Any) -> list[Any]:
    """Every object and array in it, itself first."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [value, *(inner for part in parts for inner in _walk(part))] if isinstance(value, dict | list) else []
