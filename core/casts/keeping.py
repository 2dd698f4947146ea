"""Decides whether a change of a column's type keeps every value, by the types alone or by the bounds of the values.

Owns: `widens`, `always_kept`, `judged`. Must not know: where bounds come from, how values are cast.
Source: format/schema §5; decision 11. Casts are those of Java: integers wrap around, fractions are dropped, decimals that do not
fit become null, and a text that cannot be parsed makes every read fail.
Invariant: "kept" is said only if each old value can be told from its new one, and no read of it fails.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from ..rows.arrow import to_arrow
from ..rows.literals import integer_range
from ..rows.types import (
    BINARY_ROOTS,
    INTEGER_ROOTS,
    MAX_LENGTH,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    AtomicType,
    DataType,
    with_nullable,
)
from .columns import CastFailure
from .rules import cast_of

Verdict: TypeAlias = Literal["kept", "lost", "fails", "unknown"]
"""For the values between two bounds: all are kept; one of the bounds becomes another value; one cannot be read; not known."""

TRUNCATED_FROM = 16
"""Bounds of texts are cut to this many characters by default, so only a shorter one is a value of the column."""

_NANOS = 2**63 - 1
_EXACT_INTEGERS = {"FLOAT": 2**24, "DOUBLE": 2**53}
_EXACT_DIGITS = {"FLOAT": 6, "DOUBLE": 15}
_LONGEST_BOOLEAN = len("false")
_UTF8_BYTES = 4


def widens(source: AtomicType, target: AtomicType) -> bool:
    """Does every value of the old type have its own, equal value in the new type?

    >>> widens(AtomicType("INT"), AtomicType("BIGINT")), widens(AtomicType("BIGINT"), AtomicType("INT"))
    (True, False)
    """
    old, new = source.root, target.root
    if old in INTEGER_ROOTS and new in INTEGER_ROOTS:
        return INTEGER_ROOTS.index(old) <= INTEGER_ROOTS.index(new)
    if (old, new) == ("FLOAT", "DOUBLE"):
        return True
    if old == new == "DECIMAL":
        return target.scale >= source.scale and target.precision - target.scale >= source.precision - source.scale
    if old in STRING_ROOTS and new in STRING_ROOTS:
        # CHAR(n) would have to be padded with blanks. So only an equal CHAR is allowed, or the change to VARCHAR.
        return target.length >= source.length if new == "VARCHAR" else source == with_nullable(target, source.nullable)
    if old in BINARY_ROOTS and new in BINARY_ROOTS:
        return (
            target.length >= source.length if new == "VARBINARY" else source == with_nullable(target, source.nullable)
        )
    if old == new and old in (*TIMESTAMP_ROOTS, "TIME"):
        return target.precision >= source.precision
    return source == with_nullable(target, source.nullable)


def always_kept(source: DataType, target: DataType) -> bool:
    """Does the change keep every value that the old type can hold?

    >>> always_kept(AtomicType("INT"), AtomicType("VARCHAR", length=11)), always_kept(AtomicType("INT"), AtomicType("FLOAT"))
    (True, False)
    """
    if not isinstance(target, AtomicType):
        return with_nullable(source, True) == with_nullable(target, True)
    if target.root == "VARCHAR" and target.length == MAX_LENGTH:
        return not isinstance(source, AtomicType) or source.root not in BINARY_ROOTS
    if not isinstance(source, AtomicType):
        return False
    limits, held = _limits(source, target), _held(source)
    if limits is not None:
        return held is not None and limits[0] <= held[0] and held[1] <= limits[1]
    old, new = source.root, target.root
    if new in STRING_ROOTS:
        return _text_length(source) <= target.length
    if old in STRING_ROOTS and new in BINARY_ROOTS:
        return source.length * _UTF8_BYTES <= target.length or target.length == MAX_LENGTH
    if old in BINARY_ROOTS and new in BINARY_ROOTS:
        return source.length <= target.length
    if old == "BOOLEAN":
        return new in INTEGER_ROOTS or (new == "DECIMAL" and target.precision > target.scale)
    if old == "DECIMAL" and new in _EXACT_DIGITS:
        return source.precision <= _EXACT_DIGITS[new]
    if old in TIMESTAMP_ROOTS and new in TIMESTAMP_ROOTS:
        return source.precision <= target.precision
    return (old in ("DATE", "TIME") and new in TIMESTAMP_ROOTS) or widens(source, target)


def judged(source: DataType, target: DataType, low: Any, high: Any) -> tuple[Verdict, Any]:
    """What happens to the values between two bounds (None if unknown), and the bound that shows it.

    >>> judged(AtomicType("BIGINT"), AtomicType("INT"), 1, 9), judged(AtomicType("BIGINT"), AtomicType("INT"), 1, 2**40)
    (('kept', None), ('lost', 1099511627776))
    >>> judged(AtomicType("VARCHAR", length=9), AtomicType("INT"), "12", "abc")
    ('fails', 'abc')
    """
    if always_kept(source, target):
        return "kept", None
    if low is None or high is None or not isinstance(source, AtomicType) or not isinstance(target, AtomicType):
        return "unknown", None
    limits = _limits(source, target)
    if limits is not None:
        outside = [bound for bound in (low, high) if not limits[0] <= bound <= limits[1]]
        return ("lost", outside[0]) if outside else ("kept", None)
    if source.root in STRING_ROOTS:
        for bound in (low, high):
            if len(bound) < TRUNCATED_FROM and not _can_be_read(bound, source, target):
                return "fails", bound
    return "unknown", None


def can_fail(source: DataType, target: DataType) -> bool:
    texts = STRING_ROOTS + BINARY_ROOTS
    return isinstance(source, AtomicType) and source.root in STRING_ROOTS and getattr(target, "root", "") not in texts


def _can_be_read(text: str, source: AtomicType, target: AtomicType) -> bool:
    cast = cast_of(source, target)
    if cast is None:
        return True
    try:
        cast(pa.array([text], to_arrow(source)))
    except (CastFailure, OverflowError):
        return False
    return True


def _limits(source: AtomicType, target: AtomicType) -> tuple[Any, Any] | None:
    """The smallest and largest value that the cast keeps with all values between; None if bounds do not decide."""
    old, new = source.root, target.root
    whole = old in INTEGER_ROOTS or (old == "DECIMAL" and source.scale == 0)
    if whole and new in INTEGER_ROOTS:
        return integer_range(new)
    if (whole or old == "DECIMAL") and new == "DECIMAL":
        most = Decimal(10) ** (target.precision - target.scale)
        # A decimal that is cut to fewer digits after the point is rounded: bounds do not show that.
        return (-most + 1, most - 1) if whole else _unrounded(source, target, most)
    if old in INTEGER_ROOTS and new in _EXACT_INTEGERS:
        return -_EXACT_INTEGERS[new], _EXACT_INTEGERS[new]
    if old in INTEGER_ROOTS and new == "BOOLEAN":
        return 0, 1
    if old in INTEGER_ROOTS and new in TIMESTAMP_ROOTS:
        seconds = _NANOS // 10**9 if target.precision > 6 else _NANOS // 10**6
        return -seconds, seconds
    if old in TIMESTAMP_ROOTS and new in TIMESTAMP_ROOTS and source.precision <= 6 < target.precision:
        return -_NANOS, _NANOS
    if old == "DATE" and new in TIMESTAMP_ROOTS and target.precision > 6:
        return dt.date(1677, 9, 22), dt.date(2262, 4, 10)
    return None


def _unrounded(source: AtomicType, target: AtomicType, most: Decimal) -> tuple[Decimal, Decimal] | None:
    step = Decimal(1).scaleb(-source.scale)
    return (-most + step, most - step) if target.scale >= source.scale else None


def _held(source: AtomicType) -> tuple[Any, Any] | None:
    if source.root in INTEGER_ROOTS:
        return integer_range(source.root)
    if source.root == "DECIMAL":
        most = (Decimal(10) ** source.precision - 1).scaleb(-source.scale)
        return -most, most
    return None


def _text_length(source: AtomicType) -> int:
    match source.root:
        case root if root in STRING_ROOTS:
            return source.length
        case root if root in INTEGER_ROOTS:
            return len(str(integer_range(root)[0]))
        case "BOOLEAN":
            return _LONGEST_BOOLEAN
        case "DECIMAL":
            return source.precision + 3  # sign, point and a zero before it
        case _:
            return MAX_LENGTH
