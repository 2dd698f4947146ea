"""A `Column` of Spark as SQL text, for conditions and values of row changes.

Owns: `column_text`, and `as_text` and `as_texts`, which take what callers give. Must not know: what our expressions can compute;
text with an unknown function is refused where it is parsed. Source: architecture §5.

The expression of a Column is a tree: of Python's objects under Connect, and of the JVM's in a classic session, which are asked
over the session's own bridge. Invariant: what cannot be written as text that means the same is refused by its name.
"""

from __future__ import annotations

import datetime as dt
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from pyspark.errors import PySparkException
from pyspark.sql import Column
from pyspark.sql import types as spark

from ..core.errors import InvalidArgument
from ..core.rows.types import sql
from .types import from_spark_schema

_INFIX = {"=": "=", "==": "=", "<=>": "<=>", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "!=": "<>"}
_INFIX |= {"+": "+", "-": "-", "*": "*", "/": "/", "%": "%", "and": "AND", "or": "OR", "like": "LIKE"}
_PREFIX = {"not": "NOT ", "!": "NOT ", "negative": "- ", "negate": "- "}
_SUFFIX = {"isnull": " IS NULL", "isnotnull": " IS NOT NULL"}
_SAME = {"ucase": "upper", "lcase": "lower", "ceiling": "ceil", "dayofmonth": "day", "char_length": "length"}
_NAMES = {"tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long", "real": "float"}
"""SQL's names of types, and those of Spark's JSON."""
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - the zone is part of the text
Condition: TypeAlias = "str | Column | None"


def as_text(given: Any, what: str) -> str | None:
    """A condition as text. `InvalidArgument`: it is neither text nor a Column that can be read."""
    if isinstance(given, Column):
        return column_text(given, what)
    if given is None or isinstance(given, str):
        return given
    raise InvalidArgument(f"{what} is of type {type(given).__name__}", next_step="give it as SQL text: 't.id = s.id'")


def as_texts(given: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        name: column_text(value, f"the value of column '{name}'") if isinstance(value, Column) else value
        for name, value in given.items()
    }


def column_text(column: Column, what: str) -> str:
    """A Column, of a classic session or of Connect, as SQL text.

    It is made with `F.col`, `F.lit`, `F.expr`, operators and functions; all else is an `InvalidArgument`, which names the part.
    """
    held = vars(column)  # an attribute that a Column lacks is a field of its value
    if "_expr" in held:
        return _Remote(what).text(held["_expr"])
    if "_jc" in held:
        return _Classic(what).text(held["_jc"].node())
    raise _refused(what, f"a Column of {type(column).__module__}")


def _refused(what: str, part: str) -> InvalidArgument:
    return InvalidArgument(
        f"{what} is a Column of Spark with {part}, which cannot be read from it",
        next_step="give it as SQL text, such as 't.id = s.id AND s.price > 10', or as ll.lit(…)",
    )


class _Writer(ABC):
    def __init__(self, what: str) -> None:
        self.what = what

    @abstractmethod
    def text(self, node: Any) -> str:
        """The text of a node, which can stand in any place of another one."""

    def call(self, name: str, arguments: Sequence[Any]) -> str:
        name, given = name.lower(), [self.text(argument) for argument in arguments]
        if name in _INFIX and len(given) == 2:
            return f"({given[0]} {_INFIX[name]} {given[1]})"
        if name in _PREFIX and len(given) == 1:
            return f"({_PREFIX[name]}{given[0]})"
        if name in _SUFFIX and len(given) == 1:
            return f"({given[0]}{_SUFFIX[name]})"
        if name == "in" and len(given) > 1:
            return f"({given[0]} IN ({', '.join(given[1:])}))"
        if not name.isidentifier():
            raise _refused(self.what, f"the operator {name!r}")
        return f"{_SAME.get(name, name)}({', '.join(given)})"

    def case(self, branches: Iterator[tuple[Any, Any]], otherwise: Any) -> str:
        parts = [f"WHEN {self.text(test)} THEN {self.text(value)}" for test, value in branches]
        return f"CASE {' '.join(parts)} {'' if otherwise is None else f'ELSE {self.text(otherwise)} '}END"

    def cast(self, value: Any, data_type: spark.DataType) -> str:
        (field,) = from_spark_schema(spark.StructType([spark.StructField("cast", data_type)]))
        return f"CAST({self.text(value)} AS {sql(field.type)})"

    def _type(self, described: Any) -> spark.DataType:
        if isinstance(described, str):
            described = _NAMES.get(described.strip().lower(), described.strip().lower())
        try:
            return spark._parse_datatype_json_value(described)
        except PySparkException:
            raise _refused(self.what, f"a cast to {described!r}") from None

    def reference(self, parts: Sequence[str]) -> str:
        return ".".join("`" + part.replace("`", "``") + "`" for part in parts)

    def literal(self, value: Any, kind: str = "") -> str:
        match value:
            case None:
                return "NULL"
            case bool():
                return str(value).upper()
            case str():
                quoted = "'" + value.replace("'", "''") + "'"
                return f"{kind} {quoted}".lstrip()
            case bytes() | bytearray():
                return f"X'{bytes(value).hex()}'"
            case float():
                if value != value or value in (float("inf"), float("-inf")):
                    return f"CAST('{value}' AS DOUBLE)"
                return f"({value!r})" if "e" in repr(value) else f"({value!r}e0)"
            case int():
                return f"({value})"
        if type(value).__name__ == "Decimal":
            return f"({value:f})"
        raise _refused(self.what, f"a constant of type {type(value).__name__}")


class _Remote(_Writer):
    def text(self, node: Any) -> str:
        match type(node).__name__:
            case "ColumnReference" if node._plan_id is None:
                return self.reference(_names(node._unparsed_identifier))
            case "ColumnReference":
                raise _refused(self.what, f"column '{node._unparsed_identifier}' of a certain DataFrame")
            case "LiteralExpression":
                return self._constant(node._value, node._dataType)
            case "UnresolvedFunction" if not node._is_distinct:
                return self.call(node._name, node._args)
            case "CaseWhen":
                return self.case(iter(node._branches), node._else_value)
            case "CastExpression" if node._eval_mode in (None, "ansi"):
                given = node._data_type
                return self.cast(node._expr, given if isinstance(given, spark.DataType) else self._type(given))
            case "ColumnAlias":
                return self.text(node._child)
            case "SQLExpression":
                return f"({node._expr})"
        raise _refused(self.what, f"a part of kind {type(node).__name__}")

    def _constant(self, value: Any, data_type: Any) -> str:
        if value is None:
            return self.literal(None)
        match data_type:
            case spark.DateType():
                return self.literal(str(_EPOCH.date() + dt.timedelta(days=value)), "DATE")
            case spark.TimestampType():
                return self.literal(f"{_EPOCH + dt.timedelta(microseconds=value)}+00:00", "TIMESTAMP")
            case spark.TimestampNTZType():
                return self.literal(str(_EPOCH + dt.timedelta(microseconds=value)), "TIMESTAMP")
        return self.literal(value)


class _Classic(_Writer):
    """Expressions of a classic session, which are objects of the JVM. One question each; trees are small."""

    def text(self, node: Any) -> str:
        match node.getClass().getSimpleName():
            case "UnresolvedAttribute" if not node.planId().isDefined():
                return self.reference(list(_each(node.nameParts())))
            case "Literal":
                return self._constant(node.value())
            case "UnresolvedFunction" if not node.isDistinct():
                return self.call(node.functionName(), list(_each(node.arguments())))
            case "CaseWhenOtherwise":
                branches = ((pair._1(), pair._2()) for pair in _each(node.branches()))
                return self.case(branches, node.otherwise().get() if node.otherwise().isDefined() else None)
            case "Cast" if not node.evalMode().isDefined():
                return self.cast(node.child(), self._type(json.loads(node.dataType().json())))
            case "Alias":
                return self.text(node.child())
            case "SqlExpression":
                return f"({node.expression()})"
            case "UnresolvedAttribute" | "ExpressionColumnNode":
                raise _refused(self.what, f"column '{node.sql()}' of a certain DataFrame")
        raise _refused(self.what, f"a part of kind {node.getClass().getSimpleName()}")

    def _constant(self, value: Any) -> str:
        if not hasattr(value, "getClass"):
            return self.literal(value)
        match value.getClass().getName():
            case "java.sql.Date" | "java.time.LocalDate":
                return self.literal(value.toString(), "DATE")
            case "java.sql.Timestamp":
                moment = _EPOCH + dt.timedelta(seconds=value.getTime() // 1000, microseconds=value.getNanos() // 1000)
                return self.literal(f"{moment}+00:00", "TIMESTAMP")
            case "java.time.Instant":
                return self.literal(value.toString(), "TIMESTAMP")
            case "java.time.LocalDateTime":
                return self.literal(value.toString(), "TIMESTAMP")
        raise _refused(self.what, f"a constant of type {value.getClass().getSimpleName()}")


def _each(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(place) for place in range(sequence.size()))


def _names(text: str) -> list[str]:
    """The parts of a column's name as a user writes it: words with dots between them, or in backticks."""
    parts, rest = [""], text
    while rest:
        if rest.startswith("`"):
            end = 1
            while end < len(rest) and (rest[end] != "`" or rest[end : end + 2] == "``"):
                end += 2 if rest[end] == "`" else 1
            parts[-1] += rest[1:end].replace("``", "`")
            rest = rest[end + 1 :]
        elif rest.startswith("."):
            parts.append("")
            rest = rest[1:]
        else:
            parts[-1] += rest[0]
            rest = rest[1:]
    return parts
