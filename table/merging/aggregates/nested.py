"""Functions of lists of rows: `nested_update`, `nested_partial_update`.

Owns: these functions, and the order in which Java's hash map gives its values. Must not know: engines.
Source: format/primary-keys §4.

Invariant: They loop over keys with several values, but never look at rows in lists as Python values: such a row is its number in
the column, and two have the same key if their codes are equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ....core.errors import InvalidArgument
from ....core.rows.bucket import key_hashes
from ....core.rows.types import ArrayType, DataType, Field, RowType
from ....core.typed import Array
from ..codes import ordered_codes
from ..engine import take
from .base import NO_ROW, TakingBack
from .elements import Elements, value_codes

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


class NestedUpdate(TakingBack, Elements):
    """`nested_update`: rows in a list, which replace those with the same `nested-key`."""

    def __init__(self, name: str, field: Field, array: Any, count: int, texts: Mapping[str, str]) -> None:
        super().__init__(name, field, array, count, texts)
        self._keys = [name.strip() for name in self.option("nested-key").split(",") if name.strip()]
        self._ages = self._sequence_ages()
        self._nulls = self.option("nested-key-null-strategy").lower() or "merge"
        self._unkeyed = self._without_a_key()
        codes = _key_codes(self.elements, self._keys, field)
        self._codes = codes.tolist()
        self._places = key_places(self.elements, self._keys, field, codes) if self._keys else {}
        self._limit = int(self.option("count-limit") or _NO_LIMIT)

    def _fold(self, keys: Array, rows: Array, older: bool) -> None:
        fresh = self.valid[rows] & (self.rows[keys] == NO_ROW)
        super()._fold(keys, rows, older)
        if self._is_ordered:  # the first list may hold a key twice
            for key, row in zip(keys[fresh].tolist(), rows[fresh].tolist(), strict=True):
                self.made[key] = self.joined([], self.value(row))

    @property
    def _is_ordered(self) -> bool:
        """Does an option of Apache Paimon 2.0 say more about keys?"""
        return bool(self._keys) and (self._ages is not None or self._nulls != "merge")

    def _sequence_ages(self) -> Array | None:
        """For each row in a list, a number that is larger for a newer one; None without `nested-sequence-field`."""
        names = [name.strip() for name in self.option("nested-sequence-field").split(",") if name.strip()]
        if not names:
            return None
        option = f"fields.{self.field.name}.nested-sequence-field"
        if not self._keys:
            raise InvalidArgument(f"option '{option}' needs option 'fields.{self.field.name}.nested-key'")
        parts, _ = _key_parts(self.elements, names, self.field, "nested-sequence-field")
        codes = [ordered_codes(part) for part in parts]
        order = np.lexsort(codes[::-1])
        differs = np.zeros(len(order), bool)
        for code in codes:
            differs[1:] |= np.diff(code[order]) != 0
        ages = np.empty(len(order), np.int64)
        ages[order] = np.cumsum(differs)
        return ages

    def _without_a_key(self) -> Array:
        """The rows in lists whose key has a null, and which do not count for that reason."""
        if self._nulls not in ("merge", "ignore", "error"):
            raise InvalidArgument(
                f"option 'fields.{self.field.name}.nested-key-null-strategy' is '{self._nulls}'",
                next_step="use merge, ignore or error",
            )
        if self._nulls == "merge" or not self._keys:
            return np.zeros(len(self.elements), bool)
        parts, _ = _key_parts(self.elements, self._keys, self.field)
        nulls = np.logical_or.reduce([part.is_null().to_numpy(zero_copy_only=False) for part in parts])
        unkeyed = np.asarray(nulls & self.present)
        if self._nulls == "error" and unkeyed.any():
            raise InvalidArgument(
                f"column '{self.field.name}': a row in a list has a null in its key (option 'nested-key')"
            )
        return unkeyed

    def _joined_in_order(self, known: list[int], new: list[int]) -> list[int]:
        """Of the rows of each key, the one with the largest sequence, the later one of two equal ones."""
        found: dict[int, int] = {}
        for row in self._rows(known):
            found[self._codes[row]] = row
        for row in self._rows(new):
            code = self._codes[row]
            if code in found:
                if self._ages is None or self._ages[row] >= self._ages[found[code]]:
                    found[code] = row
            elif len(found) < self._limit:
                found[code] = row
        return in_hash_order(found, self._places, len(found))

    def joined(self, known: list[int], new: list[int]) -> list[int]:
        if self._is_ordered:
            return self._joined_in_order(known, new)
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
        return [element for element in elements if self.present[element] and not self._unkeyed[element]]


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


def _key_codes(elements: Any, names: Sequence[str], field: Field) -> Array:
    """Codes of the key fields of rows in a list; of the whole rows if no key is named."""
    if not names:
        return value_codes(elements)
    parts, _ = _key_parts(elements, names, field)
    return value_codes(pa.StructArray.from_arrays(parts, list(names)))


def _key_parts(
    elements: Any, names: Sequence[str], field: Field, option: str = "nested-key"
) -> tuple[list[Any], list[DataType]]:
    """The fields of rows in a list that an option names, and their types."""
    kind = field.type.element if isinstance(field.type, ArrayType) else None
    known = [part.name for part in kind.fields] if isinstance(kind, RowType) else []
    if not isinstance(kind, RowType) or not names or any(name not in known for name in names):
        raise InvalidArgument(f"option 'fields.{field.name}.{option}' = {','.join(names)}: the rows have {known}")
    parts, places = elements.flatten(), [known.index(name) for name in names]
    return [parts[i] for i in places], [kind.fields[i].type for i in places]
