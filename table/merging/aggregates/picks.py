"""Functions whose result is one of the values: the last, the first, the largest, the smallest. Source: format/primary-keys §4."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ....core.rows.types import Field
from ....core.typed import Array
from ..codes import ordered_codes
from .base import NO_ROW, Picking


class LastValue(Picking):
    """`last_value`: the newest value, null too."""

    def chosen(self, keys: Array, known: Array, new: Array) -> Array:
        return new

    def _retract(self, keys: Array, rows: Array) -> None:
        self.rows[keys] = NO_ROW


class LastNonNullValue(Picking):
    """`last_non_null_value`: the newest value that is not null."""

    def chosen(self, keys: Array, known: Array, new: Array) -> Array:
        return np.where(new == NO_ROW, known, new)

    def _retract(self, keys: Array, rows: Array) -> None:
        self.rows[keys[self.valid[rows]]] = NO_ROW


class FirstValue(Picking):
    """`first_value`: the oldest value, null too."""

    def __init__(self, name: str, field: Field, array: Any, count: int, texts: Mapping[str, str]) -> None:
        super().__init__(name, field, array, count, texts)
        self._has = np.zeros(count, bool)

    def chosen(self, keys: Array, known: Array, new: Array) -> Array:
        begins = ~self._has[keys] & self._counts(new)
        self._has[keys[begins]] = True
        return np.where(begins, new, known)

    def _counts(self, new: Array) -> Array:
        return np.ones(len(new), bool)


class FirstNonNullValue(FirstValue):
    """`first_non_null_value`: the oldest value that is not null."""

    def _counts(self, new: Array) -> Array:
        return np.asarray(new != NO_ROW)


class Largest(Picking):
    """`max` and `bool_or`: the largest value; nulls do not count. Of equal values the older one stays."""

    sign = 1

    def __init__(self, name: str, field: Field, array: Any, count: int, texts: Mapping[str, str]) -> None:
        super().__init__(name, field, array, count, texts)
        self._codes = ordered_codes(array)

    def chosen(self, keys: Array, known: Array, new: Array) -> Array:
        difference = self._codes[new] > self._codes[known] if self.sign > 0 else self._codes[new] < self._codes[known]
        return np.where((new != NO_ROW) & ((known == NO_ROW) | difference), new, known)


class Smallest(Largest):
    """`min` and `bool_and`: the smallest value; nulls do not count."""

    sign = -1
