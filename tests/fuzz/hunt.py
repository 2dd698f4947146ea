"""One decoder, many damaged inputs, in a process whose memory is bounded: what escapes the error tree, and what takes long.

Owns: the bounds, and what is counted. Must not know: any particular decoder.
"""

from __future__ import annotations

import random
import resource
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fuzz.decoders import DECODERS

from lakelatch.core.errors import LakelatchError

MOST_SECONDS = 5
MOST_BYTES = 4 << 30
"""Of address space; a sound input takes a hundredth of it."""
MOST_ESCAPES = 5


class TooLong(BaseException):
    """An input took longer than `MOST_SECONDS`."""


@dataclass
class Hunt:
    """What came of a decoder's inputs.

    Attributes:
        refused: inputs that ended in an error of the tree.
        longest: seconds that the slowest input took.
        escapes: for each input that ended in another way, or in an error that names no file: its number, and what was raised.
    """

    name: str
    inputs: int = 0
    refused: int = 0
    longest: float = 0.0
    escapes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.name}: {self.inputs} inputs, {self.refused} refused, the slowest {self.longest * 1000:.0f} ms"


def hunt(name: str, inputs: int, seed: int, tables: list[Path]) -> Hunt:
    """Damage sound inputs of one decoder, `inputs` times; `seed` and the number of an input give it again."""
    decoder = DECODERS[name](tables)
    for sound in decoder.sound:
        decoder.decode(sound)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    signal.signal(signal.SIGALRM, _too_long)
    found = Hunt(name)
    for number in range(inputs):
        rng = random.Random(f"{seed} {name} {number}")
        data = decoder.mutation(rng.choice(decoder.sound), rng)
        before = time.perf_counter()
        signal.setitimer(signal.ITIMER_REAL, MOST_SECONDS)
        try:
            decoder.decode(data)
        except LakelatchError as error:
            found.refused += 1
            if decoder.where not in str(error):
                found.escapes.append(f"input {number} of seed {seed}: the error does not name {decoder.where}: {error}")
        except (Exception, TooLong) as error:
            found.escapes.append(f"input {number} of seed {seed}: {error!r} for {data[:200]!r}")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        found.inputs += 1
        found.longest = max(found.longest, time.perf_counter() - before)
        if len(found.escapes) == MOST_ESCAPES:
            break
    return found


def _too_long(*_: Any) -> None:
    raise TooLong(f"more than {MOST_SECONDS} s")
