"""Decides which types a column may change to.

Owns: the decision for a pair of types. Must not know: how old values are read as the new type (`table`).
Source: format/schema §5 (retype matrix). Invariant: Apache Paimon allows and can read every change allowed here.
"""

from __future__ import annotations

from typing import Literal

from ..rows.types import INTEGER_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS, AtomicType, DataType, string, with_nullable

_NUMBERS = (*INTEGER_ROOTS, "FLOAT", "DOUBLE", "DECIMAL")
_TO_TEXT = (*_NUMBERS, "BOOLEAN", "BINARY", "VARBINARY", *STRING_ROOTS, "ARRAY", "MAP", "ROW")
_TIMES = ("DATE", "TIME", *TIMESTAMP_ROOTS)

_IMPLICIT: dict[str, tuple[str, ...]] = {
    "VARCHAR": ("CHAR",),
    "VARBINARY": ("BINARY",),
    "DECIMAL": _NUMBERS,
    "SMALLINT": ("TINYINT",),
    "INT": ("TINYINT", "SMALLINT"),
    "BIGINT": ("TINYINT", "SMALLINT", "INT"),
    "FLOAT": (*INTEGER_ROOTS, "DECIMAL"),
    "DOUBLE": _NUMBERS,
    "DATE": ("TIMESTAMP",),
    "TIME": ("TIMESTAMP",),
    "TIMESTAMP": ("TIMESTAMP_LTZ",),
    "TIMESTAMP_LTZ": ("TIMESTAMP",),
}
_EXPLICIT: dict[str, tuple[str, ...]] = {
    "CHAR": _TO_TEXT,
    "VARCHAR": _TO_TEXT,
    "BOOLEAN": (*STRING_ROOTS, *INTEGER_ROOTS),
    "BINARY": (*STRING_ROOTS, "VARBINARY"),
    "VARBINARY": STRING_ROOTS,
    "DECIMAL": (*STRING_ROOTS, "BOOLEAN"),
    "TINYINT": (*_NUMBERS, *STRING_ROOTS, "BOOLEAN"),
    "SMALLINT": (*_NUMBERS, *STRING_ROOTS, "BOOLEAN"),
    "INT": (*_NUMBERS, *STRING_ROOTS, "BOOLEAN", *TIMESTAMP_ROOTS),
    "BIGINT": (*_NUMBERS, *STRING_ROOTS, "BOOLEAN", *TIMESTAMP_ROOTS),
    "FLOAT": ("DOUBLE", *STRING_ROOTS, "BOOLEAN"),
    "DOUBLE": (*STRING_ROOTS, "BOOLEAN"),
    "DATE": ("TIMESTAMP_LTZ", *STRING_ROOTS),
    "TIME": ("TIMESTAMP_LTZ", *STRING_ROOTS),
    "TIMESTAMP": ("DATE", "TIME", *STRING_ROOTS, "INT", "BIGINT"),
    "TIMESTAMP_LTZ": ("DATE", "TIME", *STRING_ROOTS, "INT", "BIGINT"),
}
_FIXED = ("VARIANT", "BLOB", "GEOMETRY", "GEOGRAPHY")


def retyping(source: DataType, target: DataType) -> Literal["implicit", "explicit"] | None:
    """How a column may change its type: implicitly, only explicitly (values may be truncated), or not at all.

    >>> retyping(AtomicType("INT"), AtomicType("BIGINT")), retyping(AtomicType("BIGINT"), AtomicType("INT"))
    ('implicit', 'explicit')
    >>> retyping(AtomicType("BOOLEAN"), AtomicType("DATE")) is None
    True
    """
    old, new = _root(source), _root(target)
    if old == new:
        # The parts of a nested type are changed by their own paths, so that field ids are kept.
        kept = isinstance(target, AtomicType) or with_nullable(source, True) == with_nullable(target, True)
        return "implicit" if kept else None
    if old in _FIXED or new in _FIXED:
        return None
    if old in _IMPLICIT.get(new, ()):
        return "implicit"
    if old in _EXPLICIT.get(new, ()) or (old in _TIMES and target == string()):
        return "explicit"
    return None


def _root(data_type: DataType) -> str:
    return (
        data_type.root if isinstance(data_type, AtomicType) else type(data_type).__name__.removesuffix("Type").upper()
    )
