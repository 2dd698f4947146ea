"""Functions of lists of rows: `nested_update`, `nested_partial_update`.

Owns: these functions, and the order in which Java's hash map gives its values. Must not know: engines.
Source: format/primary-keys §4; format/releases §1.

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
from ....core.rows.value_numbers import value_numbers
from ....core.typed import Array
from ..codes import ordered_codes
from ..engine import take
from .base import NO_ROW, TakingBack
from .elements import Elements

_NO_LIMIT = 2**31 - 1


def in_hash_order(
    found: Mapping[int, Any], hashes: Mapping[int, int], count: int, newest_first: bool = False
) -> list[Any]:
    """The values of keys in the order in which Apache Paimon writes them, which is that of Java's hash map.

    Args:
        found: for each key, its value, in the order in which the keys came.
        count: the number of keys that the map held when it was largest.
        newest_first: of the keys that share a place, the newest is the first: they were added by `computeIfAbsent`.
    """
    places = 16
    while count > places * 3 // 4:
        places *= 2
    keys = reversed([*found]) if newest_first else found
    return [found[key] for key in sorted(keys, key=lambda key: hashes[key] & (places - 1))]


def key_places(elements: Any, names: Sequence[str], field: Field, codes: Array) -> dict[int, int]:
    """For each code of a key in a list of rows, the number from which Java's hash map takes its place."""
    parts, types = _key_parts(elements, names, field)
    hashes = key_hashes(parts, types).view(np.uint32)
    return dict(zip(codes.tolist(), (hashes ^ hashes >> np.uint32(16)).tolist(), strict=True))


class Rows(Elements):
    """A function of lists of rows that have keys."""

    changes_first = True

    def __init__(self, name: str, field: Field, array: Any, count: int, texts: Mapping[str, str]) -> None:
        super().__init__(name, field, array, count, texts)
        self.keys = self.names("nested-key")
        codes = _key_codes(self.elements, self.keys, field)
        self.codes = codes.tolist()
        self.places = key_places(self.elements, self.keys, field, codes) if self.keys else {}
        self._nulls = self.option("nested-key-null-strategy").lower() or "merge"
        self._unkeyed = self._without_a_key()

    def names(self, option: str) -> list[str]:
        return [name.strip() for name in self.option(option).split(",") if name.strip()]

    def _without_a_key(self) -> Array:
        """The rows in lists whose key has a null, where the option says that this matters."""
        if self._nulls == "merge" or not self.keys:
            return np.zeros(len(self.elements), bool)
        parts, _ = _key_parts(self.elements, self.keys, self.field)
        nulls = np.logical_or.reduce([part.is_null().to_numpy(zero_copy_only=False) for part in parts])
        return np.asarray(nulls & self.present)

    def counted(self, elements: Sequence[int]) -> list[int]:
        """The rows of a list that count: those that are not null and have a key."""
        found = [element for element in elements if self.present[element]]
        counted = [element for element in found if not self._unkeyed[element]]
        if self._nulls == "error" and len(counted) < len(found):
            raise InvalidArgument(
                f"column '{self.field.name}': a row in a list has a null in its key (option 'nested-key')",
                next_step=f"set option 'fields.{self.field.name}.nested-key-null-strategy' to merge or ignore",
            )
        return counted

    def _fold(self, keys: Array, rows: Array, older: bool) -> None:
        super()._fold(keys, rows, older)
        if older:  # Java then takes what the key has for a first value
            for key in keys[~self.valid[rows] & ~self._is_null(keys)].tolist():
                self.made[key] = self.first(self._value(key))

    def first(self, new: Any) -> Any:
        return self.joined([], new)


class NestedUpdate(TakingBack, Rows):
    """`nested_update`: rows in a list, which replace those with the same `nested-key`."""

    def __init__(self, name: str, field: Field, array: Any, count: int, texts: Mapping[str, str]) -> None:
        super().__init__(name, field, array, count, texts)
        self._ages = self._sequence_ages()
        self._limit = int(self.option("count-limit") or _NO_LIMIT)

    def _sequence_ages(self) -> Array | None:
        """For each row in a list, a number that is larger for a newer one; None without `nested-sequence-field`."""
        names = self.names("nested-sequence-field")
        if not names:
            return None
        option = f"fields.{self.field.name}.nested-sequence-field"
        if not self.keys:
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

    def joined(self, known: list[int], new: list[int]) -> list[int]:
        """Without a key the rows of both, up to the limit. With one, each key's newest row; the limit is for new keys only."""
        if not self.keys:
            if known and len(known) >= self._limit:
                return known
            return self.counted(known) + self.counted(new)[: self._limit - len(known)]
        found: dict[int, int] = {}
        for rows, limit in ((known, _NO_LIMIT), (new, self._limit)):
            for row in self.counted(rows):
                code = self.codes[row]
                if code in found:
                    if self._ages is None or self._ages[row] >= self._ages[found[code]]:
                        found[code] = row
                elif len(found) < limit:
                    found[code] = row
        return in_hash_order(found, self.places, len(found))

    def without(self, known: list[int], gone: list[int]) -> list[int]:
        codes = {self.codes[row] for row in self.counted(gone)}
        rows = self.counted(known)
        kept = [row for row in rows if self.codes[row] not in codes]
        if not self.keys:
            return kept
        held = len({self.codes[row] for row in rows})
        return in_hash_order({self.codes[row]: row for row in kept}, self.places, held)


class NestedPartialUpdate(Rows):
    """`nested_partial_update`: rows in a list; of those with the same `nested-key`, each field has its newest value."""

    def __init__(self, name: str, field: Field, array: Any, count: int, texts: Mapping[str, str]) -> None:
        super().__init__(name, field, array, count, texts)
        if not self.keys:
            raise InvalidArgument(
                f"column '{field.name}': function '{name}' needs option 'fields.{field.name}.nested-key'"
            )
        self._parts = self.elements.flatten()
        self._has = [part.is_valid().to_numpy(zero_copy_only=False) for part in self._parts]

    def value(self, row: int) -> list[Any]:
        elements = self.counted(super().value(row))
        return [(self.codes[e], tuple(e if has[e] else NO_ROW for has in self._has)) for e in elements]

    def joined(self, known: list[Any], new: list[Any]) -> list[Any]:
        found: dict[int, tuple[int, tuple[int, ...]]] = {}
        held = 0
        for code, row in (*known, *new):
            held = len(found)  # Java's map grows before it takes the next key
            _, old = found.get(code, (code, row))
            found[code] = code, tuple(b if a == NO_ROW else a for a, b in zip(row, old, strict=True))
        return in_hash_order(found, self.places, held, newest_first=True)

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
        return value_numbers(elements)
    parts, _ = _key_parts(elements, names, field)
    return value_numbers(pa.StructArray.from_arrays(parts, list(names)))


def _key_parts(
    elements: Any, names: Sequence[str], field: Field, option: str = "nested-key"
) -> tuple[list[Any], list[DataType]]:
    kind = field.type.element if isinstance(field.type, ArrayType) else None
    known = [part.name for part in kind.fields] if isinstance(kind, RowType) else []
    if not isinstance(kind, RowType) or not names or any(name not in known for name in names):
        raise InvalidArgument(f"option 'fields.{field.name}.{option}' = {','.join(names)}: the rows have {known}")
    parts, places = elements.flatten(), [known.index(name) for name in names]
    return [parts[i] for i in places], [kind.fields[i].type for i in places]
