"""Convert single values to the type of a column, by the rules of `rules`.

Owns: the casts, and the checks that no value is changed by them. Must not know: nested types, names of columns.
Invariant: a value that the column cannot hold is named in the error.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...core.casts.texts import plain_text
from ...core.errors import InvalidArgument
from ...core.rows.arrow import to_arrow
from ...core.rows.types import MAX_LENGTH, STRING_ROOTS, AtomicType, DataType, sql
from ...core.rows.values import MILLIS_PER_DAY, root_of
from .plain import plain, plain_type
from .rules import refusal, rule_of

_kinds = pa.types
_DECIMAL_NOISE = 1e-12
"""The largest relative difference between a decimal number and the double that it stands for."""
_UNIT_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_WIDE = 76
"""The digits of the largest decimals of Arrow."""
_CLOCK = r"^[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,3})?)?$"


def converted(array: Any, data_type: AtomicType, where: str) -> Any:
    """The values of an array, no dictionary and not nested, as those of a column's type.

    `InvalidArgument`: values of this type are refused, or one does not fit; names the column `where`, and the value.
    """
    target = to_arrow(data_type)
    rule = rule_of(array.type, data_type)
    if rule == "refused":
        raise refusal(array.type, data_type, where)
    try:
        given = plain(stored(array, data_type))
        if given.type.equals(target):
            made = given
        elif rule == "written":
            made = _text(given)
        elif data_type.root == "TIME" and rule == "parsed":
            made = _time_of(given, target, where)
        elif _kinds.is_integer(given.type) and _kinds.is_time(target):
            made = given.cast(pa.int32()).cast(target)
        elif _kinds.is_integer(given.type) and _kinds.is_decimal(target):
            made = given.cast(pa.decimal256(_WIDE, target.scale)).cast(target)
        else:
            made = given.cast(target)
    except pa.ArrowException as error:
        said = " ".join(str(error).split())[:200]
        raise InvalidArgument(f"column {where!r}: {said}", next_step=f"its type is {sql(data_type)}") from error
    _check_kept(given, made, where)
    if data_type.length and data_type.length != MAX_LENGTH:
        _check_length(made, data_type, where)
    return made


def stored(array: Any, data_type: DataType | None) -> Any:
    """The values of an extension type as plain ones. A UUID is text unless its column is one of bytes."""
    if not isinstance(array.type, pa.BaseExtensionType) or array.type.extension_name.startswith("pandas."):
        return array
    if array.type.extension_name == "arrow.uuid" and (data_type is None or root_of(data_type) in STRING_ROOTS):
        return _uuid_text(array.storage)
    return array if plain_type(array.type) != array.type else array.storage


def _uuid_text(stored: Any) -> Any:
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    raw = np.frombuffer(stored.buffers()[1], np.uint8).reshape(-1, 16)[stored.offset : stored.offset + len(stored)]
    text = np.full((len(raw), 36), ord("-"), np.uint8)
    places = [i for i in range(36) if i not in (8, 13, 18, 23)]
    text[:, places] = digits[np.stack([raw >> 4, raw & 15], axis=2).reshape(-1, 32)]
    made = pa.FixedSizeBinaryArray.from_buffers(pa.binary(36), len(raw), [None, pa.py_buffer(text.tobytes())])
    return pc.if_else(stored.is_valid(), made.cast(pa.binary()).cast(pa.string()), pa.scalar(None, pa.string()))


def _text(given: Any) -> Any:
    """Values as Spark and Java write them."""
    t = given.type
    if _kinds.is_decimal(t):
        return plain_text(AtomicType("DECIMAL"))(given)
    if _kinds.is_floating(t):
        return plain_text(AtomicType("FLOAT" if t == pa.float32() else "DOUBLE"))(given)
    if _kinds.is_timestamp(t) or _kinds.is_time(t):
        return pc.replace_substring_regex(
            pc.replace_substring_regex(given.cast(pa.string()), r"(\.[0-9]*?)0+$", r"\1"), r"\.$", ""
        )
    return given.cast(pa.string())


def _time_of(given: Any, target: Any, where: str) -> Any:
    wrong = pc.index(pc.fill_null(pc.match_substring_regex(given, _CLOCK), True), False).as_py()
    if wrong >= 0:
        raise InvalidArgument(
            f"column {where!r}: {given[wrong].as_py()!r} is no time of day", next_step="write 23:59:59.999"
        )
    day = pc.binary_join_element_wise(pa.scalar("1970-01-01"), given, " ")
    return day.cast(pa.timestamp("ms")).cast(target)


def _check_kept(given: Any, made: Any, where: str) -> None:
    """Refuse casts for which Arrow changes the value without an error: infinities, fractions, times of day."""
    source, target = given.type, made.type
    if source.equals(target):
        return
    if _kinds.is_floating(target):
        if _kinds.is_decimal(source):
            back = made.cast(pa.float64()).cast(pa.decimal256(_WIDE, source.scale), safe=False)
            lost = pc.not_equal(back, given.cast(back.type))
        elif _kinds.is_string(source):
            lost = pc.and_not(pc.is_inf(made), pc.match_substring(given, "inf", ignore_case=True))
        else:
            known = pc.is_inf(given) if _kinds.is_floating(source) else pa.scalar(False)
            lost = pc.and_not(pc.is_inf(made), known)
    elif _kinds.is_floating(source) and _kinds.is_decimal(target):
        off = pc.abs(pc.subtract(made.cast(pa.float64()), given.cast(pa.float64())))
        lost = pc.greater(off, pc.multiply(pc.abs(given.cast(pa.float64())), _DECIMAL_NOISE))
    elif _kinds.is_integer(source) and _kinds.is_time(target):
        lost = pc.or_(pc.less(given, 0), pc.greater_equal(given, MILLIS_PER_DAY))
    elif _kinds.is_timestamp(source) and _kinds.is_date(target):
        lost = pc.not_equal(made.cast(source), given)
    else:
        return
    first = pc.index(pc.fill_null(lost, False), True).as_py()
    if first >= 0:
        raise InvalidArgument(f"column {where!r}: {given[first]} does not fit {target}")


def _check_length(array: Any, data_type: AtomicType, where: str) -> None:
    is_text = pa.types.is_string(array.type)
    lengths = pc.utf8_length(array) if is_text else pc.binary_length(array)
    too_long = pc.index(pc.fill_null(pc.greater(lengths, data_type.length), False), True).as_py()
    if too_long >= 0:
        value = array[too_long].as_py()
        unit = "characters" if is_text else "bytes"
        raise InvalidArgument(f"column {where!r}: {value!r} is longer than its {data_type.length} {unit}")
