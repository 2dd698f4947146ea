"""Functions of sketches by Apache DataSketches: `hll_sketch` and `theta_sketch`, which count different values.

Owns: joining two sketches, as their own library does it. Must not know: engines. Source: format/primary-keys §4.

The library is an extra of the package, and is imported when the first value is joined. Invariant: The bytes are those of Apache
Paimon's Java, which reads them.
"""

from __future__ import annotations

from abc import abstractmethod
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pyarrow as pa

from ....core.errors import TableCorrupt, Unsupported
from .base import Folding

LIBRARY = "datasketches"
# Where the bytes of C++ differ from those of Java:
_SAMPLING = slice(12, 16)
_EVERYTHING = b"\x00\x00\x80\x3f"
"""The probability with which values were looked at: Java writes 1 as a float, and C++ leaves it 0."""
_FLAGS, _IS_EMPTY, _IS_SINGLE = 5, 0x04, 0x20
"""Java marks a sketch of a single value."""


def check_sketches(function: str, column: str) -> None:
    """Refuse functions of sketches without their library; the error says what to install."""
    if find_spec(LIBRARY) is None:
        raise Unsupported(
            f"column '{column}' of a table with a primary key has function '{function}' (option"
            f" 'fields.{column}.aggregate-function'), which needs the package {LIBRARY}",
            next_step="pip install 'lakelatch[sketches]', or read the other columns",
        )


class Sketch(Folding):
    def value(self, row: int) -> bytes:
        return bytes(self.array[row].as_py())

    def joined(self, known: bytes, new: bytes) -> bytes:
        try:
            return self.union(import_module(LIBRARY), known, new)
        except (ValueError, RuntimeError, IndexError) as error:
            raise TableCorrupt(f"column '{self.field.name}': a value is no sketch of function '{self.name}'") from error

    @abstractmethod
    def union(self, library: Any, known: bytes, new: bytes) -> bytes:
        """The bytes of the union."""

    def array_of(self, values: list[Any]) -> Any:
        return pa.array(values, self.array.type)


class HllSketch(Sketch):
    """`hll_sketch`: the union of HyperLogLog sketches, with four bits for each register."""

    def union(self, library: Any, known: bytes, new: bytes) -> bytes:
        older, newer = map(library.hll_sketch.deserialize, (known, new))
        both = library.hll_union(newer.lg_config_k)
        both.update(newer)
        both.update(older)
        return bytes(both.get_result(library.HLL_4).serialize_compact())


class ThetaSketch(Sketch):
    """`theta_sketch`: the union of theta sketches."""

    def union(self, library: Any, known: bytes, new: bytes) -> bytes:
        both = library.theta_union()
        for data in (known, new):
            both.update(library.compact_theta_sketch.deserialize(data))
        result = bytearray(both.get_result().serialize())
        if result[0] & 0x3F > 1:  # longs before the values
            result[_SAMPLING] = _EVERYTHING
        elif not result[_FLAGS] & _IS_EMPTY:
            result[_FLAGS] |= _IS_SINGLE
        return bytes(result)
