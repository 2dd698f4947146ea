"""Keys, the form of values that all kinds of indexes compare, and their bytes in an index.

Owns: `key_array` (a column's keys), `KeyForm` (their bytes), `Question` and `question_of` (a comparison in terms of keys).
Must not know: containers, kinds. Source: format/file-indexes §1; format/binary-row §2; Apache Paimon's conversion of each type.

| type | key |
|---|---|
| BOOLEAN, integers | the number |
| DATE, TIME | days since 1970; milliseconds of the day |
| TIMESTAMP(p), both | milliseconds since 1970 up to p = 3, else microseconds, rounded down |
| DECIMAL | the unscaled number |
| FLOAT, DOUBLE | the bits, converted to sort like the numbers: there is one NaN, the largest; -0.0 is below 0.0 |
| CHAR, VARCHAR, BINARY, VARBINARY | the bytes |

Invariant: Keys of a column compare like its values, except for nanoseconds, which `question_of` takes into account.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..expressions.tree import COMPLEMENT, NULL_TESTS, TEXT_TESTS, Comparison
from ..rows.dates import date_to_days
from ..rows.types import BINARY_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS, AtomicType
from ..rows.values import EXACT, plain_array, time_to_millis
from ..typed import Array

Key = int | bytes

_CODES = {
    "BOOLEAN": ">i1",
    "TINYINT": ">i1",
    "SMALLINT": ">i2",
    "INT": ">i4",
    "DATE": ">i4",
    "TIME": ">i4",
    "FLOAT": ">i4",
    **dict.fromkeys(("BIGINT", "DOUBLE", "DECIMAL", *TIMESTAMP_ROOTS), ">i8"),
}
_NAN = {4: 0x7FC00000, 8: 0x7FF8000000000000}
_INFINITE = {4: 0x7F800000, 8: 0x7FF0000000000000}
_MOST_BLANKS = 64


@dataclass(frozen=True, slots=True)
class KeyForm:
    """How the keys of a type are stored: as big-endian numbers of a fixed width, or as a length and bytes.

    Attributes:
        code: NumPy's type code of the number; "" for text.
    """

    code: str
    is_float: bool = False

    @staticmethod
    def of(data_type: AtomicType) -> KeyForm:
        return KeyForm(_CODES.get(data_type.root, ""), data_type.root in ("FLOAT", "DOUBLE"))

    @property
    def is_text(self) -> bool:
        return not self.code

    @property
    def width(self) -> int:
        """The bytes of a number; for a text, those of its length."""
        return int(self.code[2:] or 4)

    def spelled(self, key: Key) -> bytes:
        if isinstance(key, bytes):
            return len(key).to_bytes(4, "big") + key
        return bytes(self.numbers(np.array([key], np.int64)).tobytes())

    def numbers(self, keys: Array) -> Array:
        return (_turned(keys, self.width) if self.is_float else keys).astype(self.code)

    def keys(self, numbers: Array) -> Array:
        keys = numbers.astype(np.int64)
        return _float_keys(keys, self.width) if self.is_float else keys


def _float_keys(bits: Array, width: int) -> Array:
    magnitude = bits & (_NAN[width] | (_NAN[width] - 1))
    return np.where(magnitude > _INFINITE[width], _NAN[width], _turned(bits, width))


def _turned(bits: Array, width: int) -> Array:
    """Convert the bits of floats to numbers that sort like the floats, and back."""
    return bits ^ ((bits >> 63) & ((1 << (8 * width - 1)) - 1))


# ------------------------------------------------------------------------------------------------------------- columns


def key_array(array: Any, data_type: AtomicType) -> Any:
    """The keys of a column, int64 or binary, with the same nulls. Raises OverflowError for a number of more than 64 bits.

    >>> key_array(pa.array([1.5, None], pa.float32()), AtomicType("FLOAT")).to_pylist()
    [1069547520, None]
    """
    array, root = plain_array(array), data_type.root
    if root in (*STRING_ROOTS, *BINARY_ROOTS):
        return array.cast(pa.large_binary() if pa.types.is_large_string(array.type) else pa.binary()).cast(pa.binary())
    if root == "DECIMAL":
        return _masked(_unscaled(array), array)
    if root in ("FLOAT", "DOUBLE"):
        width = array.type.bit_width // 8
        values = np.asarray(array.fill_null(0)).view(f"i{width}").astype(np.int64)
        return _masked(_float_keys(values, width), array)
    if root in TIMESTAMP_ROOTS:
        per_key = _UNITS_PER_KEY[array.type.unit, data_type.precision <= 3]
        values = np.asarray(array.cast(pa.int64()).fill_null(0))
        return _masked(values // per_key, array)
    if root in ("DATE", "TIME"):
        array = array.cast(pa.time32("ms")) if root == "TIME" else array
        return array.cast(pa.int32()).cast(pa.int64())
    return (array.cast(pa.int8()) if root == "BOOLEAN" else array).cast(pa.int64())


_UNITS_PER_KEY = {
    ("ms", True): 1,
    ("us", True): 1000,
    ("us", False): 1,
    ("ns", True): 1_000_000,
    ("ns", False): 1000,
}


def _masked(values: Array, array: Any) -> Any:
    return pa.array(values, pa.int64(), mask=np.asarray(array.is_null()) if array.null_count else None)


def _unscaled(array: Any) -> Array:
    words = np.frombuffer(array.buffers()[1] or b"", "<i8").reshape(-1, 2)[array.offset : array.offset + len(array)]
    low, high = words[:, 0], words[:, 1]
    fits = (high == low >> 63) | np.asarray(array.is_null())
    if not fits.all():
        raise OverflowError("a DECIMAL whose digits need more than 64 bits")
    return low


def distinct(keys: Any) -> Any:
    return pc.drop_null(keys).unique()


# --------------------------------------------------------------------------------------------------------- comparisons


@dataclass(frozen=True, slots=True)
class Question:
    """A comparison in terms of keys. An index may return more rows than the comparison keeps, but never fewer.

    Attributes:
        op: "in" or "not_in" with any number of keys (`not_in` without keys means every row with a value), "<", "<=",
            ">" or ">=" with one key, or "is_null".
    """

    op: str
    keys: tuple[Key, ...] = ()


NEVER = Question("in")
NOT_NULL = Question("not_in")


def question_of(leaf: Comparison, negated: bool, data_type: AtomicType, *, trimmed: bool = False) -> Question | None:
    """The question that a bound comparison, or its negation, asks of an index; None if no index can answer.

    >>> from ..expressions.columns import col
    >>> question_of(col("a") != 5, True, AtomicType("INT"))
    Question(op='in', keys=(5,))
    """
    op = leaf.op
    if negated and op in COMPLEMENT:
        op, negated = COMPLEMENT[op], False
    if op in NULL_TESTS:
        return Question("is_null") if op == "is_null" else NOT_NULL
    if op in TEXT_TESTS:
        return None
    if op == "in" and negated:
        op = "not_in"
    op = {"=": "in", "!=": "not_in"}.get(op, op)
    if None in leaf.literals and (op != "in" or len(leaf.literals) == 1):
        return NEVER  # a comparison with null is unknown
    literals = [zero for v in leaf.literals if v is not None for zero in _zeros(op, v)]
    if trimmed:
        return _of_trimmed(op, literals, data_type)
    found = [_key(v, data_type) for v in literals]
    if op == "not_in":
        return Question(op, tuple(key for key, exact in found if exact))
    if op != "in" and not found[0][1]:
        op = {"<": "<=", ">": ">="}.get(op, op)
    return Question(op, tuple(key for key, _ in found))


def _zeros(op: str, literal: Any) -> tuple[Any, ...]:
    """The values that a literal stands for: to an index -0.0 is below 0.0, and to a comparison they are equal."""
    if not isinstance(literal, float) or literal != 0:
        return (literal,)
    return (-0.0, 0.0) if op in ("in", "not_in") else (-0.0,) if op in ("<", ">=") else (0.0,)


def _of_trimmed(op: str, literals: list[str], data_type: AtomicType) -> Question | None:
    plain = [v for v in literals if not v.endswith(" ")]
    if op == "not_in":
        return Question(op, tuple(v.encode() for v in plain))
    if op != "in" or any(data_type.length - len(v) > _MOST_BLANKS for v in plain):
        return None
    return Question(op, tuple(key for v in plain for key in _filled_up(v.encode(), data_type.length - len(v))))


def _filled_up(text: bytes, blanks: int) -> Iterator[bytes]:
    return (text + b" " * count for count in range(max(blanks, 0) + 1))


def _key(value: Any, data_type: AtomicType) -> tuple[Key, bool]:
    """The key of a value, and whether only this value has the key; otherwise the key was rounded down."""
    root = data_type.root
    if root in TIMESTAMP_ROOTS:
        key, rest = divmod(int(value), 1_000_000 if data_type.precision <= 3 else 1000)
        return key, not rest and data_type.precision <= 6
    if root == "DECIMAL":
        shifted = Decimal(value).scaleb(data_type.scale, EXACT)
        key = int(shifted.to_integral_value(ROUND_FLOOR))
        return key, key == shifted
    if root in ("FLOAT", "DOUBLE"):
        width = KeyForm.of(data_type).width
        bits = np.array([value], f"f{width}").view(f"i{width}").astype(np.int64)
        return int(_float_keys(bits, width)[0]), True
    if root == "DATE":
        return date_to_days(value), True
    if root == "TIME":
        return time_to_millis(value), True
    if root in STRING_ROOTS:
        return value.encode(), True
    return bytes(value) if root in BINARY_ROOTS else int(value), True
