"""Changes of a column's type that can be read: which, and how values get there.

Owns: the decision for one pair of atomic types, and the cast. Must not know: schemas, nesting (see `evolution`), files.
Source: data-layer §1.5. Invariants: a change is read only if every old value has its own, equal value in the new type; then
statistics over old values hold for the new type as they are. More changes are added here, and nowhere else.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ..core.types import (
    BINARY_ROOTS,
    INTEGER_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    AtomicType,
    DataType,
    with_nullable,
)
from .physical import in_unit


def widens(source: AtomicType, target: AtomicType) -> bool:
    """Has every value of the old type its own, equal value in the new one?

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
        # CHAR(n) would have to be filled up with blanks: only the same one, or the way to VARCHAR.
        return target.length >= source.length if new == "VARCHAR" else source == with_nullable(target, source.nullable)
    if old in BINARY_ROOTS and new in BINARY_ROOTS:
        return (
            target.length >= source.length if new == "VARBINARY" else source == with_nullable(target, source.nullable)
        )
    if old == new and old in (*TIMESTAMP_ROOTS, "TIME"):
        return target.precision >= source.precision
    return source == with_nullable(target, source.nullable)


def same_bounds(source: DataType, target: DataType) -> bool:
    """Do statistics over values of the old type hold, as they are, for the new type?

    True of every change that is read, but for nested types: of those only null counts are known, and only of the same type.
    """
    return source == target or (
        isinstance(source, AtomicType) and isinstance(target, AtomicType) and widens(source, target)
    )


def widened(array: Any, arrow: Any) -> Any:
    """An array of the old type as the new one.

    Args:
        array: `pa.Array` of the old type's Arrow form.
        arrow: the new type's.

    Raises:
        OutOfRange: a time that the new unit cannot hold.
    """
    if array.type == arrow:
        return array
    return in_unit(array, arrow) if pa.types.is_timestamp(arrow) else array.cast(arrow)
