"""Sums and products of numbers, exact to the last digit. Source: format/primary-keys §4; format/releases §1.

Owns: `Sum`, `Product`. Must not know: engines.

Invariant: No number becomes another one: a whole number that does not fit is an error, a decimal that does not fit is null.
Decimals are whole numbers of their smallest unit, in Python, without any limit of digits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from ....core.rows.types import AtomicType, Field, sql
from ....core.typed import Array
from ..engine import CannotMerge
from .base import NO_ROW, Aggregate
from .decimals import decimal_array, decimal_units

_COMPACT_DIGITS = 18
"""Up to so many digits Apache Paimon adds units as 64-bit numbers and does not look at the precision."""


class Sum(Aggregate):
    """`sum`: nulls do not count; rows that delete are subtracted."""

    sign, opposite = "+", "-"

    def __init__(self, name: str, field: Field, array: Any, count: int, texts: Mapping[str, str]) -> None:
        super().__init__(name, field, array, count, texts)
        self._decimal = field.type if pa.types.is_decimal(array.type) and isinstance(field.type, AtomicType) else None
        if self._decimal is not None:
            self._input = decimal_units(array)
        else:
            self._input = np.asarray(array.fill_null(0).to_numpy(zero_copy_only=False))
        self._values = np.zeros(count, self._input.dtype)
        self._has = np.zeros(count, bool)

    def add(self, keys: Array, rows: Array) -> None:
        given = self.valid[rows]
        fresh = given & ~self._has[keys]
        self._values[keys[fresh]] = self._input[rows[fresh]]
        self._has[keys[fresh]] = True
        both = given & ~fresh
        self._replace(keys[both], rows[both], self.joined, self.sign)

    def add_older(self, keys: Array, rows: Array) -> None:
        self.add(keys, rows)

    def _retract(self, keys: Array, rows: Array) -> None:
        fresh = self.valid[rows] & ~self._has[keys]
        self._values[keys[fresh]] = -0.0 if self._input.dtype.kind == "f" else 0
        self._has[keys[fresh]] = True
        taken = self.valid[rows]
        self._replace(keys[taken], rows[taken], self.taken_back, self.opposite)

    def _replace(self, keys: Array, rows: Array, function: Any, sign: str) -> None:
        known, new = self._values[keys], self._input[rows]
        with np.errstate(all="ignore"):
            made, fits = function(known, new)
        if self._decimal is not None:
            self._has[keys] = fits
        elif not fits.all():
            first = int(np.flatnonzero(~fits)[0])
            raise CannotMerge(
                int(keys[first]),
                f"column '{self.field.name}': {known[first]} {sign} {new[first]} (function '{self.name}') does not fit into"
                f" {sql(self.field.type)}",
                "give the column a larger type with update_type, such as DECIMAL(38, 0), or undo the commit of that value",
            )
        self._values[keys] = made

    def joined(self, known: Array, new: Array) -> tuple[Array, Array]:
        """The value of two, and whether it fits."""
        made = known + new
        return made, self._fits(made) if made.dtype.kind != "i" else ((known ^ made) & (new ^ made)) >= 0

    def taken_back(self, known: Array, gone: Array) -> tuple[Array, Array]:
        """The value after a row was taken back, and whether it fits."""
        made = known - gone
        return made, self._fits(made) if made.dtype.kind != "i" else ((known ^ gone) & (known ^ made)) >= 0

    def _fits(self, made: Array) -> Array:
        if self._decimal is None:
            return np.ones(len(made), bool)
        compact = self._decimal.precision <= _COMPACT_DIGITS
        limit = 2**63 if compact else 10**self._decimal.precision
        least = -limit if compact else 1 - limit
        return np.asarray((made >= least) & (made < limit), bool)

    def set(self, keys: Array, rows: Array) -> None:
        self._values[keys], self._has[keys] = self._input[rows], self.valid[rows]

    def result(self, alone: Array, left: Array) -> Any:
        single = alone != NO_ROW
        rows = np.where(single, alone, 0)
        values = np.where(single, self._input[rows], self._values)[left] if len(self._input) else self._values[left]
        has = np.where(single, self.valid[rows], self._has)[left]
        if self._decimal is not None:
            return decimal_array(values, has, self.array.type)
        return pa.array(values, self.array.type, mask=~has)


class Product(Sum):
    """`product`: nulls do not count; rows that delete divide, and nothing is divided if there is no value yet."""

    sign, opposite = "*", "/"

    def joined(self, known: Array, new: Array) -> tuple[Array, Array]:
        if known.dtype.kind == "f":
            return known * new, np.ones(len(known), bool)
        made = known.astype(object) * new
        if self._decimal is not None:
            made = _rounded(made, 10**self._decimal.scale)
        return self._limited(made)

    def _retract(self, keys: Array, rows: Array) -> None:
        known = self.valid[rows] & self._has[keys]
        keys, rows = keys[known], rows[known]
        if self._input.dtype.kind != "f":
            self._refuse(keys, self._input[rows] == 0, "a row that deletes divides the product by zero")
        self._replace(keys, rows, self.taken_back, self.opposite)

    def taken_back(self, known: Array, gone: Array) -> tuple[Array, Array]:
        if known.dtype.kind == "f":
            return known / gone, np.ones(len(known), bool)
        dividend, divisor = known.astype(object), gone.astype(object)
        if self._decimal is not None:
            return self._limited(_rounded(dividend * 10**self._decimal.scale, divisor))
        quotient = np.abs(dividend) // np.abs(divisor)
        return self._limited(np.where((known < 0) != (gone < 0), -quotient, quotient))

    def _limited(self, made: Array) -> tuple[Array, Array]:
        """Whole numbers of any size as those of the column, and which of them fit."""
        if self._decimal is not None:
            limit = 10**self._decimal.precision
            return made, np.asarray((made > -limit) & (made < limit), bool)
        known = np.iinfo(self._input.dtype)
        fits = np.asarray((made >= known.min) & (made <= known.max), bool)
        return np.where(fits, made, 0).astype(self._input.dtype), fits

    def _refuse(self, keys: Array, wrong: Array, why: str) -> None:
        if wrong.any():
            raise CannotMerge(
                int(keys[np.flatnonzero(wrong)[0]]),
                f"column '{self.field.name}': {why}",
                f"set option 'fields.{self.field.name}.ignore-retract' = true on the table",
            )


def _rounded(dividend: Array, divisor: Any) -> Array:
    """Whole numbers that are divided, each half away from zero.

    >>> _rounded(np.array([25, -25, 24], object), 10).tolist()
    [3, -3, 2]
    """
    size, by = np.abs(dividend), np.abs(divisor)
    quotient = (2 * size + by) // (2 * by)
    return np.asarray(np.where((dividend < 0) != (divisor < 0), -quotient, quotient))
