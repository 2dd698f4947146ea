"""Conditions as Python writes them: `ll.col("a") > 1`.

Owns: `col`, and the comparisons of a `Column`. Must not know: the types of columns (see `binding`), SQL text.
Source: architecture §5. Invariant: Python's `and`, `or`, `not`, chained comparisons and None never give another condition than
the one that was meant.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..arguments import listed
from ..errors import InvalidArgument
from ..rows.literals import plain_scalar
from .tree import Call, Comparison, Expression, Reference


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A column in a condition; see `col`."""

    name: str

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        return self._compare("=", other)

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        return self._compare("!=", other)

    def __lt__(self, other: Any) -> Expression:
        return self._compare("<", other)

    def __le__(self, other: Any) -> Expression:
        return self._compare("<=", other)

    def __gt__(self, other: Any) -> Expression:
        return self._compare(">", other)

    def __ge__(self, other: Any) -> Expression:
        return self._compare(">=", other)

    def __hash__(self) -> int:
        return hash(self.name)

    def __bool__(self) -> bool:
        raise InvalidArgument(f"column '{self.name}' is not a condition", next_step="compare it: col('a') == True")

    def _compare(self, op: str, other: Any) -> Expression:
        if other is None:
            raise InvalidArgument(
                f"column '{self.name}' {op} None is never true", next_step="use .is_null() or .is_not_null()"
            )
        if isinstance(other, Column):
            return Call(op, (Reference((self.name,)), Reference((other.name,))))
        return Comparison(op, self.name, (_literal(self.name, other),))

    def is_null(self) -> Expression:
        return Comparison("is_null", self.name)

    def is_not_null(self) -> Expression:
        return Comparison("is_not_null", self.name)

    def is_in(self, values: Iterable[Any]) -> Expression:
        """True if the column equals one of the values."""
        given = listed(values, f"column '{self.name}': is_in of", "a list of values")
        return Comparison("in", self.name, tuple(_literal(self.name, v) for v in given))

    def between(self, low: Any, high: Any) -> Expression:
        """True for values from `low` to `high`, both included."""
        return self._compare(">=", low) & self._compare("<=", high)

    def starts_with(self, text: str | bytes) -> Expression:
        return Comparison("starts_with", self.name, (_literal(self.name, text),))

    def ends_with(self, text: str | bytes) -> Expression:
        return Comparison("ends_with", self.name, (_literal(self.name, text),))

    def contains(self, text: str | bytes) -> Expression:
        return Comparison("contains", self.name, (_literal(self.name, text),))

    def like(self, pattern: str) -> Expression:
        r"""SQL's LIKE: `%` matches any text, `_` any character, and `\` escapes both."""
        return Comparison("like", self.name, (_literal(self.name, pattern),))


def _literal(column: str, value: Any) -> Any:
    if isinstance(value, (Column, Expression)):
        raise InvalidArgument(
            f"column '{column}' can be compared with a value or a column here, not with a condition"
            if isinstance(value, Expression)
            else f"column '{column}': another column can only be compared with = != < <= > >="
        )
    return plain_scalar(bytes(value) if isinstance(value, (bytearray, memoryview)) else value)


def col(name: str) -> Column:
    """A column for use in conditions.

    Args:
        name: the name of a column, or the path to a field of a ROW column: `st.a`. A column whose whole name is `st.a` comes
            first. In a path, names that hold a dot are written in backticks.

    >>> str((col("month") == 1) & ~col("carrier").is_in(["AA", "UA"]))
    "month = 1 AND NOT (carrier IN ('AA', 'UA'))"
    """
    return Column(name)
