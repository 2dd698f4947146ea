"""Single values in Iceberg's forms: the bytes of bounds, and partition values in manifests.

Owns: `bound_bytes`, `partition_type`, `partition_value`. Must not know: which columns have bounds. Source: Iceberg's
specification, "Binary single-value serialization" and Appendix A, "Avro". Values have the forms of `core.rows.values`.
"""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

from ..rows.dates import date_to_days
from ..rows.types import AtomicType
from ..rows.values import decimal_unscaled
from .types import atomic_type

_NANOS_PER_MICRO = 1000
_PACKED = {"boolean": "<?", "int": "<i", "long": "<q", "float": "<f", "double": "<d", "date": "<i"}


def bound_bytes(value: Any, data_type: AtomicType) -> bytes | None:
    """The bytes of a minimum or maximum; None for NaN, which is no bound.

    >>> bound_bytes(7, AtomicType("BIGINT")), bound_bytes(Decimal("-1.50"), AtomicType("DECIMAL", precision=9, scale=2))
    (b'\\x07\\x00\\x00\\x00\\x00\\x00\\x00\\x00', b'\\xffj')
    """
    plain = _plain(value, data_type)
    if plain is None or plain != plain:
        return None
    if isinstance(plain, Decimal):
        unscaled = decimal_unscaled(plain, data_type.scale)
        return unscaled.to_bytes((unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1, "big", signed=True)
    if isinstance(plain, str):
        return plain.encode()
    if isinstance(plain, bytes):
        return plain
    kind = atomic_type(data_type)
    return struct.pack(_PACKED["long" if kind.startswith("timestamp") else kind], plain)


def _plain(value: Any, data_type: AtomicType) -> Any:
    """A date as days, and a time as micro- or nanoseconds, since 1970; all others as they are."""
    kind = atomic_type(data_type)
    if value is None:
        return None
    if kind == "date":
        return date_to_days(value)
    if kind.startswith("timestamp"):
        return value if kind.endswith("_ns") else value // _NANOS_PER_MICRO
    return value


def partition_type(data_type: AtomicType) -> Any:
    """The Avro type of a partition column in a manifest, without null."""
    kind = atomic_type(data_type)
    if data_type.root == "DECIMAL":
        return {
            "type": "fixed",
            "name": f"decimal_{data_type.precision}_{data_type.scale}",
            "size": _fixed_size(data_type.precision),
            "logicalType": "decimal",
            "precision": data_type.precision,
            "scale": data_type.scale,
        }
    if kind.startswith("timestamp"):
        unit = "nanos" if kind.endswith("_ns") else "micros"
        return {"type": "long", "logicalType": f"timestamp-{unit}", "adjust-to-utc": data_type.root != "TIMESTAMP"}
    if kind == "date":
        return {"type": "int", "logicalType": "date"}
    return "bytes" if kind == "binary" else kind


def partition_value(value: Any, data_type: AtomicType) -> Any:
    """A partition value as the Avro type stores it."""
    plain = _plain(value, data_type)
    if isinstance(plain, Decimal):
        unscaled = decimal_unscaled(plain, data_type.scale)
        return unscaled.to_bytes(_fixed_size(data_type.precision), "big", signed=True)
    return plain


def _fixed_size(precision: int) -> int:
    """The bytes that every number of so many digits fits into.

    >>> [_fixed_size(digits) for digits in (2, 9, 18, 38)]
    [1, 4, 8, 16]
    """
    largest: int = 10**precision - 1
    return largest.bit_length() // 8 + 1
