"""What an aggregate function is, and those that choose one of the values.

Owns: `Aggregate`, `Picking`, `Folding`, `TakingBack`. Must not know: engines. Source: format/primary-keys §4.

Invariants: Functions work on many keys at once, at most one row of each. Only functions of lists, maps and texts loop over keys.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from ....core.errors import InvalidArgument
from ....core.rows.types import Field
from ....core.typed import Array
from ..engine import take

NO_ROW = -1


class Aggregate(ABC):
    """The values of one column while the rows of all keys are taken.

    `array` holds its values in all rows of the section, `count` is the number of keys, and `texts` are the table's options.
    """

    def __init__(self, name: str, field: Field, array: Any, count: int, texts: Mapping[str, str]) -> None:
        self.name, self.field, self.array, self.count, self.texts = name, field, array, count, texts
        self.valid: Array = array.is_valid().to_numpy(zero_copy_only=False)
        self.ignores_retracts = self.option("ignore-retract").lower() == "true"

    def option(self, name: str) -> str:
        """The text of an option of this column; empty if it is not set."""
        return self.texts.get(f"fields.{self.field.name}.{name}", "")

    @abstractmethod
    def add(self, keys: Array, rows: Array) -> None:
        """Take rows that add, one for each of some keys."""

    @abstractmethod
    def add_older(self, keys: Array, rows: Array) -> None:
        """Take rows that are older than what their keys have."""

    @abstractmethod
    def set(self, keys: Array, rows: Array) -> None:
        """Replace the values of some keys by those of rows, whatever they were."""

    @abstractmethod
    def result(self, alone: Array, left: Array) -> Any:
        """The column, for the keys in `left`.

        For each key, `alone` is the row that it is taken from as it is; -1 for keys whose rows were merged.
        """

    def retract(self, keys: Array, rows: Array) -> None:
        """Take rows that delete."""
        if len(keys) and not self.ignores_retracts:
            self._retract(keys, rows)

    def _retract(self, keys: Array, rows: Array) -> None:
        raise InvalidArgument(
            f"column '{self.field.name}': function '{self.name}' cannot take back the values of rows that delete",
            next_step=f"set option 'fields.{self.field.name}.ignore-retract' = true on the table",
        )


class Picking(Aggregate):
    """A function whose result is always one of the values, or null: its state is the row that the value is from."""

    def __init__(self, name: str, field: Field, array: Any, count: int, texts: Mapping[str, str]) -> None:
        super().__init__(name, field, array, count, texts)
        self.rows = np.full(count, NO_ROW, np.int64)

    def add(self, keys: Array, rows: Array) -> None:
        self.rows[keys] = self.chosen(keys, self.rows[keys], np.where(self.valid[rows], rows, NO_ROW))

    def add_older(self, keys: Array, rows: Array) -> None:
        self.rows[keys] = self.chosen(keys, np.where(self.valid[rows], rows, NO_ROW), self.rows[keys])

    @abstractmethod
    def chosen(self, keys: Array, known: Array, new: Array) -> Array:
        """For each key, the row that the value is from, of the one that it has and a new one; -1 is null."""

    def set(self, keys: Array, rows: Array) -> None:
        self.rows[keys] = np.where(self.valid[rows], rows, NO_ROW)

    def result(self, alone: Array, left: Array) -> Any:
        return take(self.array, np.where(alone == NO_ROW, self.rows, alone)[left])


class Folding(Aggregate):
    """Makes new values of two, in Python, key by key. A key's first value costs nothing, unless the function changes it."""

    changes_first = False

    def __init__(self, name: str, field: Field, array: Any, count: int, texts: Mapping[str, str]) -> None:
        super().__init__(name, field, array, count, texts)
        self.rows = np.full(count, NO_ROW, np.int64)
        self.made: dict[int, Any] = {}

    def add(self, keys: Array, rows: Array) -> None:
        self._fold(keys, rows, older=False)

    def add_older(self, keys: Array, rows: Array) -> None:
        self._fold(keys, rows, older=True)

    def _fold(self, keys: Array, rows: Array, older: bool) -> None:
        given = self.valid[rows]
        fresh = given & self._is_null(keys)
        self.rows[keys[fresh]] = rows[fresh]
        if self.changes_first and not older:
            for key, row in zip(keys[fresh].tolist(), rows[fresh].tolist(), strict=True):
                self.made[key] = self.first(self.value(row))
        both = given & ~fresh
        for key, row in zip(keys[both].tolist(), rows[both].tolist(), strict=True):
            known, new = self._value(key), self.value(row)
            self.made[key] = self.joined(new, known) if older else self.joined(known, new)

    def _is_null(self, keys: Array) -> Array:
        return np.asarray(self.rows[keys] == NO_ROW)

    def _value(self, key: int) -> Any:
        return self.made[key] if key in self.made else self.value(int(self.rows[key]))

    def set(self, keys: Array, rows: Array) -> None:
        self.rows[keys] = np.where(self.valid[rows], rows, NO_ROW)
        for key in keys.tolist():
            self.made.pop(key, None)

    @abstractmethod
    def value(self, row: int) -> Any:
        """A row's value, in the form that `joined` takes."""

    @abstractmethod
    def joined(self, known: Any, new: Any) -> Any:
        """The value of two, the older one first. Neither is null, and neither is changed."""

    def first(self, new: Any) -> Any:
        return new

    @abstractmethod
    def array_of(self, values: list[Any]) -> Any:
        """An array of values that `joined` made."""

    def result(self, alone: Array, left: Array) -> Any:
        positions = np.where(alone == NO_ROW, self.rows, alone)
        array = self.array
        made = [key for key in sorted(self.made) if alone[key] == NO_ROW]
        if made:
            positions[made] = len(array) + np.arange(len(made))
            array = pa.concat_arrays([array, self.array_of([self.made[key] for key in made])])
        return take(array, positions[left])


class TakingBack(Folding):
    """A function that makes new values, and can take the values of rows that delete back."""

    def _retract(self, keys: Array, rows: Array) -> None:
        both = self.valid[rows] & ~self._is_null(keys)
        for key, row in zip(keys[both].tolist(), rows[both].tolist(), strict=True):
            self.made[key] = self.without(self._value(key), self.value(row))

    @abstractmethod
    def without(self, known: Any, gone: Any) -> Any:
        """The value after a row was taken back. Neither is null, and neither is changed."""
