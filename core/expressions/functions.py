"""The operators and functions of expressions, on Arrow columns.

Owns: `FUNCTIONS`, and how operands of different types meet. Must not know: the tree. Source: format/binary-row §2 (floats);
architecture §5. Invariants: Integers are computed in 64 bits; an overflow and a division by zero are errors. `/` of integers
gives a fraction. NaN equals itself and is larger than every other number; 0.0 and -0.0 are equal, as in SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import reduce
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InvalidArgument
from .masks import like_regex
from .scope import Scope, as_instant, as_local, is_instant, read_as

_is = pa.types
_DIGITS = {1: 3, 2: 5, 4: 10, 8: 20}
_MOST_DIGITS, _WIDEST = 38, 76
_LEAST_SCALE = 6
"""Digits after the point that a quotient of decimals has at least, as in Spark."""


Function = Callable[[Scope, list[Any]], Any]


def _refuse(where: Scope, what: str, *values: Any) -> NoReturn:
    types = " and ".join(str(v.type) for v in values)
    raise InvalidArgument(f"{where}: {what} does not fit {types}", next_step="CAST the values to one type")


def _is_text(value: Any) -> bool:
    return bool(_is.is_string(value.type) or _is.is_large_string(value.type) or _is.is_string_view(value.type))


def _is_number(value: Any) -> bool:
    t = value.type
    return bool(_is.is_integer(t) or _is.is_floating(t) or _is.is_decimal(t))


# ------------------------------------------------------------------------------------------------------------- types


def unified(where: Scope, values: Sequence[Any]) -> list[Any]:
    """Values with one type that can hold all of them. Nulls take any type. Raises InvalidArgument where there is none."""
    typed = [v for v in values if not _is.is_null(v.type)]
    if not typed:
        return list(values)
    kinds = {v.type for v in typed}
    if len(kinds) == 1:
        target = typed[0].type
    elif all(map(_is_number, typed)):
        target = _common_number(typed)
    elif all(map(_is_text, typed)):
        target = pa.large_string() if any(_is.is_large_string(t) for t in kinds) else pa.string()
    elif all(_is.is_binary(t) or _is.is_large_binary(t) for t in kinds):
        target = pa.large_binary()
    elif all(map(_is.is_time, kinds)):
        target = min(kinds, key=lambda t: ("ns", "us", "ms", "s").index(t.unit))
    else:
        others = [v for v in typed if not (_is_text(v) and isinstance(v, pa.Scalar))]
        if len({v.type for v in others}) == 1:
            target = others[0].type  # text is read as the type of the other values
        elif others and all(_is.is_timestamp(v.type) or _is.is_date(v.type) for v in others):
            if any(map(is_instant, others)):
                values = [v if _is.is_null(v.type) or _is_text(v) else as_instant(where, v) for v in values]
                others = [as_instant(where, v) for v in others]
            times = [v.type for v in others if _is.is_timestamp(v.type)]
            finest = min((t.unit for t in times), key=("ns", "us", "ms", "s").index)
            target = pa.timestamp(finest, times[0].tz)
        else:
            _refuse(where, "a choice", *typed[:2])
    return [as_type(where, v, target) for v in values]


def as_double(value: Any) -> Any:
    """The doubles next to some numbers. Arrow multiplies the digits of a decimal, and so misses 2.55."""
    return pc.cast(pc.cast(value, pa.string()) if _is.is_decimal(value.type) else value, pa.float64(), safe=False)


def as_type(where: Scope, value: Any, target: pa.DataType) -> Any:
    """A value as the type that `unified` has found for it. Integers beyond 2**53 become the doubles next to them, as in Spark."""
    if value.type == target:
        return value
    if _is.is_float64(target) and _is_number(value):
        return as_double(value)
    if _is_text(value) and isinstance(value, pa.Scalar) and not _is.is_large_string(target):
        return read_as(where, value, target)
    return pc.cast(_as_decimal(value) if _is.is_decimal(target) and _is_number(value) else value, target)


def _common_number(values: Sequence[Any]) -> pa.DataType:
    if any(_is.is_floating(v.type) for v in values):
        return pa.float64()
    if not any(_is.is_decimal(v.type) for v in values):
        return pa.int64()
    shapes = [(v.type.precision - v.type.scale, v.type.scale) for v in map(_as_decimal, values)]
    scale = max(s for _, s in shapes)
    return _decimal_type(max(w for w, _ in shapes) + scale, scale)


def _decimal_type(precision: int, scale: int) -> pa.DataType:
    return (
        pa.decimal128(precision, scale) if precision <= _MOST_DIGITS else pa.decimal256(min(precision, _WIDEST), scale)
    )


def _as_decimal(value: Any) -> Any:
    if _is.is_decimal(value.type):
        return value
    if isinstance(value, pa.Scalar) and value.is_valid:
        number = Decimal(value.as_py())
        return pa.scalar(number, pa.decimal128(max(len(number.as_tuple().digits), 1), 0))
    return pc.cast(value, pa.decimal128(_DIGITS[value.type.bit_width // 8], 0))


# -------------------------------------------------------------------------------------------------------- comparison


def _aligned(where: Scope, op: str, a: Any, b: Any) -> tuple[Any, Any]:
    if _is.is_null(a.type) or _is.is_null(b.type) or a.type == b.type:
        return (a.cast(b.type), b) if _is.is_null(a.type) else (a, b.cast(a.type) if _is.is_null(b.type) else b)
    if _is_number(a) and _is_number(b):
        target = _common_number([a, b])
        if target == pa.int64():
            return a, b
        return as_type(where, a, target), as_type(where, b, target)
    if _is_text(a) and _is_text(b):
        return a, b
    for one, other, order in ((a, b, 1), (b, a, -1)):
        if _is_text(one) and isinstance(one, pa.Scalar) and not _is.is_nested(other.type):
            read = read_as(where, one, other.type)
            return (read, other) if order == 1 else (other, read)
    dates = all(_is.is_date(v.type) or _is.is_timestamp(v.type) for v in (a, b))
    binary = all(
        _is.is_binary(v.type) or _is.is_large_binary(v.type) or _is.is_fixed_size_binary(v.type) for v in (a, b)
    )
    times = all(_is.is_time(v.type) for v in (a, b))
    if dates and (is_instant(a) or is_instant(b)):
        return as_instant(where, a), as_instant(where, b)
    if dates or binary or times:
        return a, b
    return _refuse(where, f"'{op}'", a, b)


def _equal(a: Any, b: Any) -> Any:
    found = pc.equal(a, b)
    if _is.is_floating(a.type):
        found = pc.or_kleene(found, pc.and_(pc.is_nan(a), pc.is_nan(b)))
    return found


def _less(a: Any, b: Any) -> Any:
    found = pc.less(a, b)
    if _is.is_floating(a.type):
        found = pc.or_kleene(found, pc.and_(pc.is_nan(b), pc.invert(pc.is_nan(a))))
    return found


def _compared(op: str) -> Function:
    def function(where: Scope, values: list[Any]) -> Any:
        a, b = _aligned(where, op, *values)
        try:
            match op:
                case "=":
                    return _equal(a, b)
                case "!=":
                    return pc.invert(_equal(a, b))
                case "<":
                    return _less(a, b)
                case ">":
                    return _less(b, a)
                case "<=":
                    return pc.invert(_less(b, a))
                case ">=":
                    return pc.invert(_less(a, b))
            same = pc.fill_null(_equal(a, b), False)
            return pc.or_(same, pc.and_(pc.is_null(a), pc.is_null(b)))
        except pa.ArrowNotImplementedError:
            _refuse(where, f"'{op}'", a, b)

    return function


def _in(where: Scope, values: list[Any]) -> Any:
    tested, *members = values
    if not members:
        return pc.if_else(pc.is_valid(tested), pa.scalar(False), pa.scalar(None, pa.bool_()))
    equal = _compared("=")
    return reduce(pc.or_kleene, (equal(where, [tested, member]) for member in members))


def _like(where: Scope, values: list[Any]) -> Any:
    value, pattern = values
    if not isinstance(pattern, pa.Scalar) or not (_is_text(pattern) or _is.is_null(pattern.type)):
        raise InvalidArgument(f"{where}: LIKE needs a pattern in quotes")
    if _is.is_null(value.type):
        return value.cast(pa.bool_())
    if not _is_text(value):
        _refuse(where, "LIKE", value)
    if not pattern.is_valid:
        return pc.if_else(pc.is_valid(value), pa.scalar(None, pa.bool_()), pa.scalar(None, pa.bool_()))
    return pc.match_substring_regex(value, pattern=like_regex(pattern.as_py(), "\\A", "\\z"))


# -------------------------------------------------------------------------------------------------------- arithmetic

_CHECKED = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}


def _operands(where: Scope, op: str, a: Any, b: Any) -> tuple[Any, Any]:
    a, b = (v.cast(pa.int64()) if _is.is_null(v.type) else v for v in (a, b))
    if not (_is_number(a) and _is_number(b)):
        _refuse(where, f"'{op}'", a, b)
    if _is.is_floating(a.type) or _is.is_floating(b.type):
        return as_double(a), as_double(b)
    if _is.is_decimal(a.type) or _is.is_decimal(b.type):
        a, b = _as_decimal(a), _as_decimal(b)
        if a.type.precision + b.type.precision + a.type.scale + b.type.scale + 2 > _MOST_DIGITS:
            a, b = (pc.cast(v, pa.decimal256(v.type.precision, v.type.scale)) for v in (a, b))
        return a, b
    return pc.cast(a, pa.int64()), pc.cast(b, pa.int64())


def _arithmetic(op: str) -> Function:
    def function(where: Scope, values: list[Any]) -> Any:
        a, b = values
        if op in "+-" and _is.is_date(a.type) and _is.is_integer(b.type):
            days = _CHECKED[op](pc.cast(pc.cast(a, pa.date32()), pa.int32()), pc.cast(b, pa.int32()))
            return pc.cast(days, pa.date32())
        if op == "-" and _is.is_date(a.type) and _is.is_date(b.type):
            return _CHECKED[op](*(pc.cast(pc.cast(pc.cast(v, pa.date32()), pa.int32()), pa.int64()) for v in (a, b)))
        a, b = _operands(where, op, a, b)
        if _is.is_floating(a.type):
            return {"+": pc.add, "-": pc.subtract, "*": pc.multiply}[op](a, b)
        return _CHECKED[op](a, b)

    return function


def _refuse_zero(where: Scope, a: Any, b: Any) -> None:
    nought = pa.scalar(Decimal(0) if _is.is_decimal(b.type) else 0, b.type)
    zero = pc.and_(pc.is_valid(a), pc.equal(b, nought))
    if pc.any(pc.fill_null(zero, False)).as_py() if not isinstance(zero, pa.Scalar) else zero.as_py():
        raise InvalidArgument(f"{where}: a division by zero", next_step="test for it with CASE or NULLIF")


def _divide(where: Scope, values: list[Any]) -> Any:
    a, b = _operands(where, "/", *values)
    if _is.is_integer(a.type):
        a, b = as_double(a), as_double(b)
    _refuse_zero(where, a, b)
    return _quotient(a, b) if _is.is_decimal(a.type) else pc.divide(a, b)


def _quotient(a: Any, b: Any) -> Any:
    """The quotient of decimals with as many digits after the point as in Spark, the last one rounded. Arrow cuts after fewer."""
    whole = a.type.precision - a.type.scale + b.type.scale
    scale = max(_LEAST_SCALE, a.type.scale + b.type.precision + 1)
    if whole + scale > _MOST_DIGITS:
        scale = max(_MOST_DIGITS - whole, min(scale, _LEAST_SCALE))
    more = max(scale + 1 - (a.type.scale + b.type.precision - b.type.scale + 1), 0)
    if whole + more + a.type.scale + b.type.precision - b.type.scale + 1 > _WIDEST:
        a, b = _narrowed(a), _narrowed(b)  # to what their values need
    a = pc.cast(a, pa.decimal256(a.type.precision + more, a.type.scale + more))
    found = pc.divide(a, pc.cast(b, pa.decimal256(b.type.precision, b.type.scale)))
    return pc.cast(rounded(found, scale), _decimal_type(whole + scale, scale))


def _narrowed(value: Any) -> Any:
    """Decimals with as many digits as the largest one has."""
    largest = pc.max(pc.abs(value)).as_py() if not isinstance(value, pa.Scalar) else value.as_py()
    digits = max(Decimal(largest or 0).adjusted() + 1, 1)
    return pc.cast(value, pa.decimal256(digits + value.type.scale, value.type.scale))


def _modulo(where: Scope, values: list[Any]) -> Any:
    a, b = _operands(where, "%", *values)
    _refuse_zero(where, a, b)
    if _is.is_floating(a.type):
        return pc.subtract(a, pc.multiply(pc.trunc(pc.divide(a, b)), b))
    if _is.is_decimal(a.type):
        _refuse(where, "'%'", a, b)
    return pc.subtract(a, pc.multiply(pc.divide(a, b), b))


def _negate(where: Scope, values: list[Any]) -> Any:
    (value,) = values
    if not _is_number(value):
        _refuse(where, "'-'", value)
    return pc.negate_checked(pc.cast(value, pa.int64()) if _is.is_integer(value.type) else value)


# -------------------------------------------------------------------------------------------------------------- text


def _text_of(where: Scope, value: Any) -> Any:
    if _is_text(value):
        return value
    if _is.is_floating(value.type) or _is.is_timestamp(value.type) or _is.is_nested(value.type):
        _refuse(where, "'||'", value)
    return pc.cast(value, pa.string())


def _concat(where: Scope, values: list[Any]) -> Any:
    texts = [_text_of(where, v) for v in values]
    kind = pa.large_string() if any(_is.is_large_string(t.type) for t in texts) else pa.string()
    return pc.binary_join_element_wise(*(pc.cast(t, kind) for t in texts), pa.scalar("", kind))


def _on_text(kernel: Callable[[Any], Any], name: str) -> Function:
    def function(where: Scope, values: list[Any]) -> Any:
        if len(values) != 1:
            raise InvalidArgument(f"{where}: {name} needs one value")
        value = values[0].cast(pa.string()) if _is.is_null(values[0].type) else values[0]
        if not _is_text(value):
            _refuse(where, name, value)
        return kernel(value)

    return function


def _cased(plain: Callable[[Any], Any], full: Callable[[str], str]) -> Callable[[Any], Any]:
    """Upper or lower case as Java has it, where one letter may become several; Arrow changes each letter alone."""

    def kernel(text: Any) -> Any:
        if isinstance(text, pa.Scalar):
            return pa.scalar(full(text.as_py()), text.type) if text.is_valid else text
        if pc.all(pc.string_is_ascii(text)).as_py() is not False:
            return plain(text)
        words = text.dictionary_encode()
        changed = [None if word is None else full(word) for word in words.dictionary.to_pylist()]
        return pa.array(changed, text.type).take(words.indices)

    return kernel


def _substring(where: Scope, values: list[Any]) -> Any:
    text, *numbers = values
    if not _is_text(text) or not numbers or any(not isinstance(n, pa.Scalar) or not n.is_valid for n in numbers):
        raise InvalidArgument(f"{where}: SUBSTRING needs a text, a start and perhaps a length, as numbers")
    start = numbers[0].as_py()
    begin = start - 1 if start > 0 else 0
    stop = None if len(numbers) < 2 else begin + max(numbers[1].as_py(), 0)
    if start < 0:
        raise InvalidArgument(f"{where}: SUBSTRING counts from 1")
    return pc.utf8_slice_codeunits(text, begin, stop)


# ------------------------------------------------------------------------------------------------------------ others


def _coalesce(where: Scope, values: list[Any]) -> Any:
    return pc.coalesce(*unified(where, values))


def _nullif(where: Scope, values: list[Any]) -> Any:
    same = pc.fill_null(_compared("=")(where, values), False)
    return pc.if_else(same, pa.scalar(None, values[0].type), values[0])


def _if(where: Scope, values: list[Any]) -> Any:
    if len(values) != 3:
        raise InvalidArgument(f"{where}: IF needs a condition and two values")
    return pc.if_else(pc.fill_null(values[0], False), *unified(where, values[1:]))


def _greatest(where: Scope, values: list[Any]) -> Any:
    values = unified(where, values)
    found = _extreme(pc.max_element_wise, values)
    for value in values if _is.is_floating(found.type) else ():
        found = pc.if_else(pc.fill_null(pc.is_nan(value), False), value, found)
    return found


def _least(where: Scope, values: list[Any]) -> Any:
    return _extreme(pc.min_element_wise, unified(where, values))


def _extreme(kernel: Any, values: Sequence[Any]) -> Any:
    kind = values[0].type
    if not _is.is_timestamp(kind):
        return kernel(*values, skip_nulls=True)
    return pc.cast(kernel(*(pc.cast(v, pa.int64()) for v in values), skip_nulls=True), kind)  # none has a zone


def rounded(value: Any, digits: int) -> Any:
    """A number with so many digits after the point; halves are rounded away from zero."""
    if _is.is_decimal(value.type):  # 9.99 becomes 10.0, which has a digit more
        value = pc.cast(value, _decimal_type(value.type.precision + 1, value.type.scale))
    return pc.round(value, ndigits=digits, round_mode="half_towards_infinity")


def _round(where: Scope, values: list[Any]) -> Any:
    digits = values[1].as_py() if len(values) > 1 else 0
    if not _is_number(values[0]) or not isinstance(digits, int):
        _refuse(where, "ROUND", values[0])
    return rounded(values[0], digits)


def _on_number(kernel: Callable[[Any], Any], name: str) -> Function:
    def function(where: Scope, values: list[Any]) -> Any:
        if len(values) != 1 or not _is_number(values[0]):
            _refuse(where, name, *values)
        return kernel(values[0])

    return function


def _part_of_date(kernel: Callable[[Any], Any], name: str) -> Function:
    def function(where: Scope, values: list[Any]) -> Any:
        if len(values) != 1 or not (_is.is_date(values[0].type) or _is.is_timestamp(values[0].type)):
            _refuse(where, name, *values)
        return kernel(as_local(where, values[0]))

    return function


FUNCTIONS: Mapping[str, Function] = {
    **{op: _compared(op) for op in ("=", "!=", "<", "<=", ">", ">=", "<=>")},
    **{op: _arithmetic(op) for op in "+-*"},
    "/": _divide,
    "%": _modulo,
    "mod": _modulo,
    "negate": _negate,
    "is_null": lambda where, values: pc.is_null(values[0]),
    "in": _in,
    "like": _like,
    "||": _concat,
    "concat": _concat,
    "upper": _on_text(_cased(pc.ascii_upper, str.upper), "UPPER"),
    "lower": _on_text(_cased(pc.ascii_lower, str.lower), "LOWER"),
    "trim": _on_text(lambda text: pc.utf8_trim(text, " "), "TRIM"),
    "length": _on_text(pc.utf8_length, "LENGTH"),
    "substring": _substring,
    "substr": _substring,
    "coalesce": _coalesce,
    "ifnull": _coalesce,
    "nvl": _coalesce,
    "nullif": _nullif,
    "if": _if,
    "greatest": _greatest,
    "least": _least,
    "abs": _on_number(pc.abs_checked, "ABS"),
    "floor": _on_number(pc.floor, "FLOOR"),
    "ceil": _on_number(pc.ceil, "CEIL"),
    "round": _round,
    "year": _part_of_date(pc.year, "YEAR"),
    "month": _part_of_date(pc.month, "MONTH"),
    "day": _part_of_date(pc.day, "DAY"),
}
