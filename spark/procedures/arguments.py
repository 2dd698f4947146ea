"""The arguments of a call: evaluated by Spark, matched with the procedure's parameters, and checked for their types.

Owns: `Given`, `checked`, `evaluated`. Must not know: what a procedure does.
Invariants: an argument that the procedure does not have is an error that names the nearest one; so is one that is missing, given
twice, or of another type. A value is never cut: only types that hold every value of the given one are taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from pyspark.sql import functions as F  # noqa: N812 - Spark's users know it by this name
from pyspark.sql import types as spark

from ...core.errors import InvalidArgument
from .procedure import Kind, Parameter, Procedure

_WHOLE = (spark.ByteType, spark.ShortType, spark.IntegerType, spark.LongType)
_TIMES = (spark.TimestampType, spark.TimestampNTZType, spark.DateType)
_BITS = {"int": 31, "bigint": 63}


@dataclass(frozen=True)
class Given:
    """An argument as written: its name, None for one by position, and the expression of its value."""

    name: str | None
    text: str


def matched(procedure: Procedure, given: Sequence[Given]) -> dict[str, str]:
    """The expression of each parameter that was given."""
    known = {p.name.lower(): p.name for p in procedure.parameters}
    by_name = [g for g in given if g.name is not None]
    if by_name and len(by_name) < len(given):
        raise InvalidArgument(
            f"{procedure.name}: some arguments have a name and others have none", next_step="give each its name"
        )
    if len(given) > len(known):
        raise InvalidArgument(
            f"{procedure.name} takes {len(known)} arguments, and {len(given)} were given",
            next_step=signature(procedure),
        )
    found: dict[str, str] = {}
    for place, one in enumerate(given):
        name = procedure.parameters[place].name if one.name is None else known.get(one.name.lower())
        if name is None:
            raise InvalidArgument(
                f"{procedure.name} has no argument {one.name!r}{_near(str(one.name), known)}",
                next_step=signature(procedure),
            )
        if name in found:
            raise InvalidArgument(f"{procedure.name}: argument {name} is given twice", next_step="give it once")
        found[name] = one.text
    missing = [p.name for p in procedure.parameters if p.needed and p.name not in found]
    if missing:
        raise InvalidArgument(f"{procedure.name} needs argument {', '.join(missing)}", next_step=signature(procedure))
    return found


def signature(procedure: Procedure) -> str:
    """How a procedure is called, for errors.

    >>> from .entries import PROCEDURES
    >>> signature(PROCEDURES["delete_tag"])
    'it is delete_tag(table => string, tag => string)'
    """
    parts = [f"{p.name} => {p.kind}" if p.needed else f"[{p.name} => {p.kind}]" for p in procedure.parameters]
    return f"it is {procedure.name}({', '.join(parts)})"


def evaluated(
    sql: Callable[..., Any], procedure: Procedure, texts: Mapping[str, str], *args: Any, **named: Any
) -> dict[str, Any]:
    """The value of each parameter, computed by Spark as `SELECT` would; None for one that was not given.

    Args:
        sql: Spark's own `sql`; `args` and `named` are the parameters of the statement.
    """
    values: dict[str, Any] = dict.fromkeys(p.name for p in procedure.parameters)
    if not texts:
        return values
    kinds = {p.name: p for p in procedure.parameters}
    frame = sql("SELECT " + ",\n".join(texts.values()), *args, **named).toDF(*texts)
    chosen = []
    for f in frame.schema.fields:
        _check_type(procedure, kinds[f.name], f.dataType)
        column = F.col(f.name)
        time = isinstance(f.dataType, _TIMES)
        chosen.append(F.unix_millis(column.cast("timestamp_ltz")).alias(f.name) if time else column)
    row = frame.select(*chosen).first()
    for name in texts:
        values[name] = _value(procedure, kinds[name], row[name])
    return values


def _check_type(procedure: Procedure, parameter: Parameter, found: spark.DataType) -> None:
    kind: Kind = parameter.kind
    match found:
        case spark.NullType():
            return
        case spark.StringType():
            fits = kind == "string"
        case spark.BooleanType():
            fits = kind == "boolean"
        case spark.MapType():
            fits = kind.startswith("map") and {found.keyType, found.valueType} == {spark.StringType()}
        case _ if isinstance(found, _WHOLE):
            fits = kind in _BITS or kind == "string"
        case _ if isinstance(found, _TIMES):
            fits = kind in ("string", "bigint")
        case _:
            fits = False
    if not fits:
        raise InvalidArgument(
            f"{procedure.name}: argument {parameter.name} is {found.simpleString()}, and takes {kind}",
            next_step=signature(procedure),
        )


def _value(procedure: Procedure, parameter: Parameter, value: Any) -> Any:
    if value is None:
        if parameter.needed:
            raise InvalidArgument(
                f"{procedure.name}: argument {parameter.name} is NULL", next_step=signature(procedure)
            )
        return None
    if parameter.kind == "string":
        return str(value)
    if parameter.kind in _BITS and abs(value) >= 1 << _BITS[parameter.kind]:
        raise InvalidArgument(
            f"{procedure.name}: argument {parameter.name} is {value}, which is no {parameter.kind}",
            next_step=signature(procedure),
        )
    return value


def _near(name: str, known: Mapping[str, str]) -> str:
    near = get_close_matches(name.lower(), known, 1, 0.5)
    return f"; did you mean {known[near[0]]}?" if near else ""
