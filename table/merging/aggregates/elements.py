"""Functions of lists and maps: `collect`, `nested_update`, `nested_partial_update`, `merge_map`, `merge_map_with_keytime`.

Owns: these functions. Must not know: engines. Source: format/primary-keys §4.

Invariants: They loop over keys with several values, but never look at elements as Python values: an element is its number in the
column, and two elements are equal if their codes are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ....core.errors import InvalidArgument, Unsupported
from ....core.rows.bucket import key_hashes
from ....core.rows.types import ArrayType, DataType, Field, RowType
from ....core.typed import Array
from ..codes import same_codes
from ..engine import take
from .base import NO_ROW, Folding, TakingBack

_NOT_SUPPORTED = ("nested-sequence-field", "nested-key-null-strategy")
_NO_LIMIT = 2**31 - 1


def in_hash_order(found: Mapping[int, Any], hashes: Mapping[int, int], count: int) -> list[Any]:
    """The values of keys in the order in which Apache Paimon writes them, which is that of Java's hash map.

    Args:
        found: for each key, its value, in the order in which the keys came.
        hashes: for each key, its hash.
        count: the number of keys that the map held when it was largest.
    """
    places = 16
    while count > places * 3 // 4:
        places *= 2
    return [found[key] for key in sorted(found, key=lambda key: hashes[key] & (places - 1))]


def key_places(elements: Any, names: Sequence[str], field: Field, codes: Array) -> dict[int, int]:
    """For each code of a key in a list of rows, the number from which Java's hash map takes its place."""
    parts, types = _key_parts(elements, names, field)
    hashes = key_hashes(parts, types).view(np.uint32)
    return dict(zip(codes.tolist(), (hashes ^ hashes >> np.uint32(16)).tolist(), strict=True))


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


class NestedUpdate(TakingBack, Elements):
    """`nested_update`: rows in a list, which replace those with the same `nested-key`."""

    def __init__(self, name: str, field: Field, array: Any, count: int, texts: Mapping[str, str]) -> None:
        super().__init__(name, field, array, count, texts)
        for option in _NOT_SUPPORTED:
            if self.option(option):
                raise Unsupported(
                    f"column '{field.name}' of a table with a primary key has option 'fields.{field.name}.{option}', which is"
                    " not supported yet",
                    next_step="read the other columns, or read it with Apache Paimon",
                )
        self._keys = [name.strip() for name in self.option("nested-key").split(",") if name.strip()]
        codes = _key_codes(self.elements, self._keys, field)
        self._codes = codes.tolist()
        self._places = key_places(self.elements, self._keys, field, codes) if self._keys else {}
        self._limit = int(self.option("count-limit") or _NO_LIMIT)

    def joined(self, known: list[int], new: list[int]) -> list[int]:
        if len(known) >= self._limit:
            return known
        rows = self._rows(known) + self._rows(new)[: self._limit - len(known)]
        if not self._keys:
            return rows
        found = {self._codes[row]: row for row in rows}
        return in_hash_order(found, self._places, len(found))

    def without(self, known: list[int], gone: list[int]) -> list[int]:
        codes = {self._codes[row] for row in self._rows(gone)}
        rows = [row for row in self._rows(known) if self._codes[row] not in codes]
        if not self._keys:
            return rows
        held = len({self._codes[row] for row in self._rows(known)})
        return in_hash_order({self._codes[row]: row for row in rows}, self._places, held)

    def _rows(self, elements: Sequence[int]) -> list[int]:
        return [element for element in elements if self.present[element]]


class NestedPartialUpdate(Elements):
    """`nested_partial_update`: rows in a list; of those with the same `nested-key`, each field has its newest value."""

    def __init__(self, name: str, field: Field, array: Any, count: int, texts: Mapping[str, str]) -> None:
        super().__init__(name, field, array, count, texts)
        keys = [name.strip() for name in self.option("nested-key").split(",") if name.strip()]
        codes = _key_codes(self.elements, keys, field)
        self._codes = codes.tolist()
        self._places = key_places(self.elements, keys, field, codes)
        self._parts = self.elements.flatten()
        self._has = [part.is_valid().to_numpy(zero_copy_only=False) for part in self._parts]

    def value(self, row: int) -> list[Any]:
        elements = (element for element in super().value(row) if self.present[element])
        return [(self._codes[e], tuple(e if has[e] else NO_ROW for has in self._has)) for e in elements]

    def joined(self, known: list[Any], new: list[Any]) -> list[Any]:
        found: dict[int, tuple[int, ...]] = {}
        for code, row in (*known, *new):
            old = found.get(code, row)
            found[code] = tuple(b if a == NO_ROW else a for a, b in zip(row, old, strict=True))
        return in_hash_order({code: (code, row) for code, row in found.items()}, self._places, len(found))

    def array_of(self, values: list[Any]) -> Any:
        rows = np.array([row for value in values for _, row in value], np.int64).reshape(-1, len(self._parts))
        parts = [take(part, rows[:, i]) for i, part in enumerate(self._parts)]
        kind = self.elements.type
        structs = pa.StructArray.from_arrays(parts, fields=[kind.field(i) for i in range(kind.num_fields)])
        return pa.ListArray.from_arrays(
            pa.array(np.cumsum([0, *map(len, values)]), pa.int32()), structs, type=self.array.type
        )


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


def _key_codes(elements: Any, names: Sequence[str], field: Field) -> Array:
    """Codes of the key fields of rows in a list; of the whole rows if no key is named."""
    if not names:
        return value_codes(elements)
    parts, _ = _key_parts(elements, names, field)
    return value_codes(pa.StructArray.from_arrays(parts, list(names)))


def _key_parts(elements: Any, names: Sequence[str], field: Field) -> tuple[list[Any], list[DataType]]:
    """The key fields of rows in a list, and their types."""
    kind = field.type.element if isinstance(field.type, ArrayType) else None
    known = [part.name for part in kind.fields] if isinstance(kind, RowType) else []
    if not isinstance(kind, RowType) or not names or any(name not in known for name in names):
        raise InvalidArgument(f"option 'fields.{field.name}.nested-key' = {','.join(names)}: the rows have {known}")
    parts, places = elements.flatten(), [known.index(name) for name in names]
    return [parts[i] for i in places], [kind.fields[i].type for i in places]
