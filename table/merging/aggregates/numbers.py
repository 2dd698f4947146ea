"""Sums and products. Whole numbers wrap as in Java; decimals that do not fit are null. Source: format/primary-keys §4."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from ....core.errors import InvalidArgument
from ....core.rows.types import AtomicType, Field
from ....core.typed import Array
from .base import NO_ROW, Aggregate

_WIDE = Context(prec=100, rounding=ROUND_HALF_UP)


class Sum(Aggregate):
    """`sum`: nulls do not count; rows that delete are subtracted. Decimals are added in Python, one key after the other."""

    def __init__(self, name: str, field: Field, array: Any, count: int, texts: Mapping[str, str]) -> None:
        super().__init__(name, field, array, count, texts)
        kind = array.type
        self._decimal = field.type if pa.types.is_decimal(kind) and isinstance(field.type, AtomicType) else None
        if self._decimal is None:
            self._input = np.asarray(array.fill_null(0).to_numpy(zero_copy_only=False))
        else:
            self._input = np.array(array.fill_null(Decimal(0)).to_pylist(), object)
        self._values = np.zeros(count, self._input.dtype)
        self._has = np.zeros(count, bool)

    def add(self, keys: Array, rows: Array) -> None:
        self._take(keys, rows, self.joined)

    def add_older(self, keys: Array, rows: Array) -> None:
        self.add(keys, rows)

    def _retract(self, keys: Array, rows: Array) -> None:
        fresh = self.valid[rows] & ~self._has[keys]
        known = ~fresh
        self._values[keys[fresh]] = -self._input[rows[fresh]]
        self._has[keys[fresh]] = True
        self._take(keys[known], rows[known], self.taken_back)

    def _take(self, keys: Array, rows: Array, function: Any) -> None:
        given = self.valid[rows]
        fresh = given & ~self._has[keys]
        both = given & ~fresh
        known, new = self._values[keys[both]], self._input[rows[both]]
        with np.errstate(all="ignore"):
            made = function(known, new)
        self._values[keys[fresh]] = self._input[rows[fresh]]
        self._has[keys[fresh]] = True
        if self._decimal is not None:
            made, fits = self._fitted(made)
            self._has[keys[both]] = fits
        self._values[keys[both]] = made

    def joined(self, known: Array, new: Array) -> Array:
        """The value of two."""
        return np.asarray(known + new)

    def taken_back(self, known: Array, gone: Array) -> Array:
        """The value after a row was taken back."""
        return np.asarray(known - gone)

    def _fitted(self, values: Array) -> tuple[Array, Array]:
        """Decimals rounded to the column's scale, and which of them fit into its precision."""
        assert self._decimal is not None
        unit, limit = (
            Decimal(1).scaleb(-self._decimal.scale),
            Decimal(10) ** (self._decimal.precision - self._decimal.scale),
        )
        rounded = [value.quantize(unit, context=_WIDE) for value in values.tolist()]
        fits = np.array([abs(value) < limit for value in rounded], bool)
        return np.array([v if fit else Decimal(0) for v, fit in zip(rounded, fits, strict=True)], object), fits

    def set(self, keys: Array, rows: Array) -> None:
        self._values[keys], self._has[keys] = self._input[rows], self.valid[rows]

    def result(self, alone: Array, left: Array) -> Any:
        single = alone != NO_ROW
        rows = np.where(single, alone, 0)
        values = np.where(single, self._input[rows], self._values)[left] if len(self._input) else self._values[left]
        has = np.where(single, self.valid[rows], self._has)[left]
        if self._decimal is not None:
            return pa.array([v if known else None for v, known in zip(values, has, strict=True)], self.array.type)
        return pa.array(values, self.array.type, mask=~has)


class Product(Sum):
    """`product`: nulls do not count; rows that delete divide, and nothing is divided if there is no value yet."""

    def joined(self, known: Array, new: Array) -> Array:
        if self._decimal is not None:
            return np.array([_WIDE.multiply(a, b) for a, b in zip(known, new, strict=True)], object)
        return np.asarray(known * new)

    def _retract(self, keys: Array, rows: Array) -> None:
        known = self._has[keys]
        self._take(keys[known], rows[known], self.taken_back)

    def taken_back(self, known: Array, gone: Array) -> Array:
        if self._input.dtype.kind == "f":
            return np.asarray(known / gone)
        if (gone == 0).any():
            raise InvalidArgument(
                f"column '{self.field.name}': a row that deletes divides the product by zero",
                next_step=f"set option 'fields.{self.field.name}.ignore-retract' = true on the table",
            )
        if self._decimal is not None:
            return np.array([_WIDE.divide(a, b) for a, b in zip(known, gone, strict=True)], object)
        quotient = np.abs(known) // np.abs(gone)
        return np.asarray(np.where((known < 0) != (gone < 0), -quotient, quotient).astype(known.dtype))
