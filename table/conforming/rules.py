"""What becomes of a value of an Arrow type in a column: the one table for all ways in.

Owns: `rule_of`, `check_type`, the words of the rules. Must not know: arrays, values. The page docs/rows-in.md shows the table.
Invariant: A point in time, a time on a wall clock, a length of time, a number and a truth value are never made of each other,
because nobody said which zone, which unit or which number is meant. The one exception is an INT for a TIME: it has the
milliseconds of the day, as Spark shows such columns where it has no type of its own for them.
"""

from __future__ import annotations

from typing import Any, Literal

import pyarrow as pa

from ...core.errors import InvalidArgument
from ...core.rows.partition import closest
from ...core.rows.sizes import is_list
from ...core.rows.types import (
    BINARY_ROOTS,
    INTEGER_ROOTS,
    STRING_ROOTS,
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VectorType,
    sql,
)
from .plain import plain_type

Rule = Literal["exact", "widened", "checked", "rounded", "parsed", "written", "refused"]
MEANINGS: dict[Rule, str] = {
    "exact": "the value as it is",
    "widened": "the same value in a larger type",
    "checked": "the same value; one that the column cannot hold exactly is an error",
    "rounded": "the nearest FLOAT; one beyond its range is an error",
    "parsed": "the value that the text says; a text that says none is an error",
    "written": "the text of the value, as Spark and Java write it",
    "refused": "an error that names the column, whatever the value is; nulls alone are taken",
}

_kinds = pa.types
_BITS = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "BIGINT": 63}
_EXACT_BITS = {"FLOAT": 24, "DOUBLE": 53}
"""The bits of integers that all are numbers of the type."""
_BYTES = (*BINARY_ROOTS, "BLOB", "GEOMETRY", "GEOGRAPHY")
_UNITS = ("s", "ms", "us", "ns")


def rule_of(source: pa.DataType, target: AtomicType) -> Rule:
    """What becomes of values of an Arrow type in a column.

    >>> rule_of(pa.int64(), AtomicType("INT")), rule_of(pa.duration("us"), AtomicType("BIGINT"))
    ('checked', 'refused')
    """
    root, given = target.root, plain_type(source)
    if _kinds.is_null(given):
        return "exact"
    if isinstance(given, pa.BaseExtensionType):
        return _of_extension(given, target)
    if _kinds.is_string(given):
        return _of_text(root)
    if root in STRING_ROOTS:
        return _as_text(given)
    if _kinds.is_boolean(given):
        return "exact" if root == "BOOLEAN" else "refused"
    if _kinds.is_binary(given):
        return "exact" if root in _BYTES else "refused"
    if _kinds.is_integer(given):
        return _of_integer(given, target)
    if _kinds.is_floating(given):
        return _of_float(source, target)
    if _kinds.is_decimal(given):
        return _of_decimal(given, target)
    return _of_time(given, target)


def _of_extension(given: Any, target: AtomicType) -> Rule:
    if given.extension_name == "arrow.uuid":
        return "written" if target.root in STRING_ROOTS else "exact" if target.root in _BYTES else "refused"
    if _is_pandas(given):
        return "refused"  # a period or an interval is more than the number that it is stored as
    known = rule_of(given.storage_type, target)
    return known if known == "exact" else "refused"


def _of_text(root: str) -> Rule:
    if root in STRING_ROOTS or root in _BYTES:
        return "exact"
    return "refused" if root == "VARIANT" else "parsed"


def _as_text(given: Any) -> Rule:
    if _kinds.is_binary(given):
        return "checked"
    if _kinds.is_timestamp(given):
        return "written" if given.tz is None else "refused"
    plain = _kinds.is_boolean(given) or _kinds.is_integer(given) or _kinds.is_floating(given)
    return (
        "written" if plain or _kinds.is_decimal(given) or _kinds.is_date(given) or _kinds.is_time(given) else "refused"
    )


def _of_integer(given: Any, target: AtomicType) -> Rule:
    bits = given.bit_width - (not _kinds.is_unsigned_integer(given))
    if target.root in INTEGER_ROOTS:
        most = _BITS[target.root]
        return "exact" if given.bit_width == most + 1 and bits == most else "widened" if bits <= most else "checked"
    if target.root in _EXACT_BITS:
        return "widened" if bits <= _EXACT_BITS[target.root] else "checked"
    if target.root == "DECIMAL":
        return "widened" if len(str(2**bits)) <= target.precision - target.scale else "checked"
    return "checked" if target.root == "TIME" and given == pa.int32() else "refused"


def _of_float(source: Any, target: AtomicType) -> Rule:
    if target.root in ("FLOAT", "DOUBLE"):
        most = 32 if target.root == "FLOAT" else 64
        bits = getattr(source, "bit_width", 64)
        return "exact" if bits == most else "widened" if bits < most else "rounded"
    return "checked" if target.root in INTEGER_ROOTS or target.root == "DECIMAL" else "refused"


def _of_decimal(given: Any, target: AtomicType) -> Rule:
    if target.root == "DECIMAL":
        if (given.precision, given.scale) == (target.precision, target.scale):
            return "exact"
        fits = given.scale <= target.scale and given.precision - given.scale <= target.precision - target.scale
        return "widened" if fits else "checked"
    return "checked" if target.root in INTEGER_ROOTS or target.root in _EXACT_BITS else "refused"


def _of_time(given: Any, target: AtomicType) -> Rule:
    root = target.root
    if _kinds.is_date(given):
        if root == "TIMESTAMP":
            return "widened" if target.precision <= 6 else "checked"  # few centuries have nanoseconds
        return "exact" if root == "DATE" else "refused"
    if _kinds.is_time(given):
        return (
            "refused"
            if root != "TIME"
            else "exact"
            if given.unit == "ms"
            else "widened"
            if given.unit == "s"
            else "checked"
        )
    if not _kinds.is_timestamp(given):
        return "refused"
    if root == "DATE" and given.tz is None:
        return "checked"
    if root != ("TIMESTAMP" if given.tz is None else "TIMESTAMP_LTZ"):
        return "refused"
    there = 1 if target.precision <= 3 else 2 if target.precision <= 6 else 3
    here = _UNITS.index(given.unit)
    return "exact" if here == there else "checked" if there == 3 or here > there else "widened"


def _is_pandas(t: Any) -> bool:
    return isinstance(t, pa.BaseExtensionType) and bool(t.extension_name.startswith("pandas."))


_ADVICE: list[tuple[Any, str]] = [
    (_is_pandas, "make text of it with astype(str), or times with dt.to_timestamp()"),
    (lambda t: _kinds.is_duration(t) or _kinds.is_interval(t), "make a number of it, in the unit of the column"),
    (
        lambda t: _kinds.is_timestamp(t) and t.tz is None,
        "say in which zone its times are, for example with dt.tz_localize",
    ),
    (_kinds.is_timestamp, "convert it to times on the clock of a zone, without the zone"),
    (_kinds.is_boolean, "cast it to the column's type if 0 and 1 are meant"),
]


def refusal(source: pa.DataType, target: DataType, where: str) -> InvalidArgument:
    """The error for a type of which no value can become one of the column."""
    advice = next((text for matches, text in _ADVICE if matches(source)), "cast it to the column's type first")
    return InvalidArgument(
        f"column '{where}' is of type {sql(target)}, which takes no values of type {source}", next_step=advice
    )


def check_type(source: pa.DataType, target: DataType, where: str) -> list[Rule]:
    """The rules for all parts of a type, before there is any value. `InvalidArgument` names the part whose values are refused."""
    if isinstance(target, AtomicType) and not (target.root == "VARIANT" and _kinds.is_struct(source)):
        rule = rule_of(source, target)
        if rule == "refused":
            raise refusal(source, target, where)
        return [rule]
    if isinstance(source, pa.BaseExtensionType) and not _is_pandas(source):
        source = source.storage_type
    if _kinds.is_dictionary(source) or _kinds.is_run_end_encoded(source):
        source = source.value_type
    match target:
        case _ if _kinds.is_null(source):
            return ["exact"]
        case ArrayType(element=element) | VectorType(element=element) if is_list(source):
            return check_type(source.value_type, element, f"{where}.element")
        case MapType(key=key, value=value) if is_map(source):
            given = pair_types(source)
            return check_type(given[0], key, f"{where}.key") + check_type(given[1], value, f"{where}.value")
        case MultisetType(element=element) if is_map(source):
            given = pair_types(source)
            return check_type(given[0], element, f"{where}.key") + check_type(given[1], _COUNT, f"{where}.value")
        case RowType() if _kinds.is_struct(source):
            places = places_of(source, target, where)
            return [
                rule
                for field, place in zip(target.fields, places, strict=True)
                if place is not None
                for rule in check_type(source.field(place).type, field.type, f"{where}.{field.name}")
            ]
        case AtomicType(root="VARIANT") if sorted(f.name for f in source) == ["metadata", "value"]:
            return ["exact"]
    raise refusal(source, target, where)


_COUNT = AtomicType("INT", False)


def is_map(source: Any) -> bool:
    """Is it a map, or a list of its entries, as tools without maps have it?"""
    if _kinds.is_map(source):
        return True
    return (
        is_list(source)
        and _kinds.is_struct(source.value_type)
        and [f.name for f in source.value_type] == ["key", "value"]
    )


def pair_types(source: Any) -> tuple[Any, Any]:
    if _kinds.is_map(source):
        return source.key_type, source.item_type
    return source.value_type.field(0).type, source.value_type.field(1).type


def places_of(source: Any, target: RowType, where: str) -> list[int | None]:
    """For each field of a ROW, the field of a struct that has its name.

    `InvalidArgument`: the struct has a field that the ROW lacks, one of them twice, or lacks one that must not be null.
    """
    names = [f.name for f in source]
    known = {f.name for f in target.fields}
    for name in names:
        if name not in known:
            raise InvalidArgument(
                f"column '{where}': the table has no field '{name}' in it",
                next_step=f"{closest(name, sorted(known))}; evolve=True adds fields that are new",
            )
    if len(set(names)) != len(names):
        raise InvalidArgument(f"column '{where}' has two fields with the same name")
    missing = next((f.name for f in target.fields if not f.type.nullable and f.name not in names), None)
    if missing is not None:
        raise InvalidArgument(f"column '{where}.{missing}' is missing, but it is NOT NULL")
    return [names.index(f.name) if f.name in names else None for f in target.fields]
