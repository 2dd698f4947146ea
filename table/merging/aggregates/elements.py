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
from ....core.rows.value_numbers import value_numbers
from ....core.typed import Array
from ..engine import take
from .base import Folding, TakingBack


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
    """`collect`: all elements, or the different ones; rows that delete take one equal element away for each of theirs. The
    elements of an older row follow, too.
    """

    def __init__(self, name: str, field: Field, array: Any, count: int, texts: Mapping[str, str]) -> None:
        super().__init__(name, field, array, count, texts)
        self._codes = value_numbers(self.elements).tolist()
        self._distinct = self.changes_first = self.option("distinct").lower() == "true"
        self._keeps_known = pa.types.is_nested(self.elements.type)

    def add_older(self, keys: Array, rows: Array) -> None:
        self._fold(keys, rows, older=self.ignores_retracts)

    def _fold(self, keys: Array, rows: Array, older: bool) -> None:
        alone = self.valid[rows] & self._is_null(keys) & older
        super()._fold(keys, rows, older)
        if (
            self._distinct
        ):  # one list alone, too: a null joins what a row that deletes has brought, or an older row a null
            for key in keys[alone | (~self.valid[rows] & ~self._is_null(keys))].tolist():
                self.made[key] = self.joined(self._value(key), [])

    def first(self, new: list[int]) -> list[int]:
        return self.joined([], new)

    def joined(self, known: list[int], new: list[int]) -> list[int]:
        if not self._distinct:
            return [*known, *new]
        found = [*known] if self._keeps_known else []
        held = {self._codes[element] for element in found}
        for element in new if self._keeps_known else (*known, *new):
            if self._codes[element] not in held:
                held.add(self._codes[element])
                found.append(element)
        return found

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
        self._codes = value_numbers(self.keys).tolist()

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
        self._times = [None if time is None else time.encode("utf-16-be") for time in times.to_pylist()]
        self._has = self.items.is_valid().to_numpy(zero_copy_only=False)

    def joined(self, known: dict[int, int], new: dict[int, int]) -> dict[int, int]:
        found = dict(known)
        for code, entry in new.items():
            if not self._has[entry]:
                found.pop(code, None)
            elif self._times[entry] is not None:
                time = self._time(found[code]) if code in found else None
                if time is None or self._times[entry] > time:
                    found[code] = entry
        return found

    def _time(self, entry: int) -> Any:
        return self._times[entry] if self._has[entry] else None
