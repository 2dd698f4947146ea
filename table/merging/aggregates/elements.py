"""Functions of lists and maps: `collect`, `merge_map`, `merge_map_with_keytime`.

Owns: these functions. Must not know: engines. Source: format/primary-keys §4.

Invariants: They loop over keys with several values, but never look at elements as Python values: an element is its number in the
column, and two elements are equal if their codes are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from ....core.errors import InvalidArgument, Unsupported
from ....core.rows.types import Field
from ....core.typed import Array
from ..codes import same_codes
from ..engine import take
from .base import NO_ROW, Folding, TakingBack


def value_codes(array: Any) -> Array:
    """A number for each value, also of nested types, which two values share only if they are equal."""
    if pa.types.is_struct(array.type):
        codes = [array.is_valid().to_numpy(zero_copy_only=False), *(value_codes(part) for part in array.flatten())]
        return np.unique(np.stack(codes, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
    if pa.types.is_nested(array.type):
        known: dict[str, int] = {}
        return np.array([known.setdefault(repr(value), len(known)) for value in array.to_pylist()], np.int64)
    return same_codes(array)


class Elements(Folding):
    """A function of lists whose values are lists of element numbers."""

    def __init__(self, name: str, field: Field, array: Any, count: int, texts: Mapping[str, str]) -> None:
        super().__init__(name, field, array, count, texts)
        self._offsets = array.offsets.to_numpy(zero_copy_only=False)
        self.elements = array.values
        self.present = self.elements.is_valid().to_numpy(zero_copy_only=False)

    def value(self, row: int) -> list[Any]:
        return list(range(int(self._offsets[row]), int(self._offsets[row + 1])))

    def array_of(self, values: list[Any]) -> Any:
        offsets = pa.array(np.cumsum([0, *map(len, values)]), pa.int32())
        chosen = np.array([element for value in values for element in value], np.int64)
        return pa.ListArray.from_arrays(offsets, take(self.elements, chosen), type=self.array.type)


class Collect(TakingBack, Elements):
    """`collect`: all elements, or the different ones; rows that delete take one equal element away for each of theirs."""

    def __init__(self, name: str, field: Field, array: Any, count: int, texts: Mapping[str, str]) -> None:
        super().__init__(name, field, array, count, texts)
        self._codes = value_codes(self.elements).tolist()
        self._distinct = self.option("distinct").lower() == "true"

    def _fold(self, keys: Array, rows: Array, older: bool) -> None:
        fresh = self.valid[rows] & (self.rows[keys] == NO_ROW)
        super()._fold(keys, rows, older)
        if self._distinct:  # the first list may hold an element twice
            for key, row in zip(keys[fresh].tolist(), rows[fresh].tolist(), strict=True):
                found = self.value(row)
                if len({self._codes[e] for e in found}) < len(found):
                    self.made[key] = self.joined([], found)

    def joined(self, known: list[int], new: list[int]) -> list[int]:
        both = [*known, *new]
        if not self._distinct:
            return both
        first: dict[int, int] = {}
        for element in both:
            first.setdefault(self._codes[element], element)
        return list(first.values())

    def without(self, known: list[int], gone: list[int]) -> list[int]:
        left = Counter(self._codes[element] for element in gone)
        kept = []
        for element in known:
            if left[self._codes[element]] > 0:
                left[self._codes[element]] -= 1
            else:
                kept.append(element)
        return kept


class Maps(Folding):
    """A function of maps: a value is the number of an entry for each key."""

    def __init__(self, name: str, field: Field, array: Any, count: int, texts: Mapping[str, str]) -> None:
        super().__init__(name, field, array, count, texts)
        self._offsets = array.offsets.to_numpy(zero_copy_only=False)
        self.keys, self.items = array.keys, array.items
        self._codes = value_codes(self.keys).tolist()

    def value(self, row: int) -> dict[int, int]:
        return {self._codes[e]: e for e in range(int(self._offsets[row]), int(self._offsets[row + 1]))}

    def array_of(self, values: list[Any]) -> Any:
        entries = np.array([entry for value in values for entry in value.values()], np.int64)
        offsets = pa.array(np.cumsum([0, *map(len, values)]), pa.int32())
        kind = self.array.type
        return pa.MapArray.from_arrays(offsets, take(self.keys, entries), take(self.items, entries), type=kind)


class MergeMap(TakingBack, Maps):
    """`merge_map`: the entries of all maps; the newest one of a key stays. Rows that delete remove their keys."""

    def joined(self, known: dict[int, int], new: dict[int, int]) -> dict[int, int]:
        return known | new

    def without(self, known: dict[int, int], gone: dict[int, int]) -> dict[int, int]:
        return {code: entry for code, entry in known.items() if code not in gone}


class MergeMapWithKeyTime(Maps):
    """`merge_map_with_keytime`: the entry with the largest time stays; an entry without a value removes its key."""

    def __init__(self, name: str, field: Field, array: Any, count: int, texts: Mapping[str, str]) -> None:
        super().__init__(name, field, array, count, texts)
        kind = self.items.type
        names = [kind.field(i).name for i in range(kind.num_fields)]
        wanted = self.option("ts-field") or names[-1]
        if wanted not in names:
            raise InvalidArgument(
                f"option 'fields.{field.name}.ts-field' names '{wanted}', which its values do not have"
            )
        times = self.items.flatten()[names.index(wanted)]
        if not pa.types.is_string(times.type):
            raise Unsupported(
                f"column '{field.name}' of a table with a primary key has function '{name}' with times of type {times.type},"
                " which is not supported",
                next_step="Apache Paimon takes only texts as times: leave the column out",
            )
        self._times = times.to_pylist()
        self._has = self.items.is_valid().to_numpy(zero_copy_only=False)

    def joined(self, known: dict[int, int], new: dict[int, int]) -> dict[int, int]:
        found = dict(known)
        for code, entry in new.items():
            if not self._has[entry]:
                found.pop(code, None)
            elif self._times[entry] is not None:
                old = found.get(code)
                if old is None or self._time(old) is None or self._times[entry] > (self._time(old) or ""):
                    found[code] = entry
        return found

    def _time(self, entry: int) -> str | None:
        return self._times[entry] if self._has[entry] else None
