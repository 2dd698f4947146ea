"""Changes of a column's type: how old values are read as the new type, and whether statistics of old values remain valid.

Owns: the decision for one pair of types. Must not know: schemas, nesting (see `plan`), files, how a cast works
(`core.casts.rules`). Source: format/schema §5. Invariant: Statistics of old values are used only if every old value has its own,
equal value in the new type.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ...core.casts.keeping import widens
from ...core.casts.rules import cast_of
from ...core.rows.arrow import to_arrow
from ...core.rows.types import (
    AtomicType,
    DataType,
)
from .physical import in_unit


def same_bounds(source: DataType, target: DataType) -> bool:
    """Whether statistics of old values are also valid for the new type. Nested types have none but null counts."""
    return source == target or (
        isinstance(source, AtomicType) and isinstance(target, AtomicType) and widens(source, target)
    )


def can_change(source: AtomicType, target: AtomicType) -> bool:
    return widens(source, target) or cast_of(source, target) is not None


def changed(array: Any, source: AtomicType, target: AtomicType) -> Any:
    """Convert an array from the old type. `OverflowError`: a time does not fit; `CastFailure`: a text cannot be cast."""
    arrow = to_arrow(target)
    if not widens(source, target):
        cast = cast_of(source, target)
        assert cast is not None
        return cast(array)
    if array.type == arrow:
        return array
    return in_unit(array, arrow) if pa.types.is_timestamp(arrow) else array.cast(arrow)
