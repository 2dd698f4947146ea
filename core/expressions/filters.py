"""Conditions that compare a column with values, as predicates, by which files can be left out.

Owns: `as_predicate`. Must not know: Arrow. Source: architecture §5.
Invariant: the predicate is true for the same rows as the expression, or there is none.
"""

from __future__ import annotations

from .predicate import Comparison, Not, Predicate
from .tree import Call, Expression, Literal, Reference
from .where import like

_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def as_predicate(expression: Expression) -> Predicate | None:
    """The predicate that an expression is; None if it is more than predicates can say.

    Args:
        expression: bound by `Names`, to columns of one table.

    >>> str(as_predicate(Call("<", (Literal(1), Reference(("target", "a"))))))
    'a > 1'
    """
    match expression:
        case Call(name="and" | "or" as name, arguments=(left, right)):
            parts = as_predicate(left), as_predicate(right)
            if parts[0] is None or parts[1] is None:
                return None
            return parts[0] & parts[1] if name == "and" else parts[0] | parts[1]
        case Call(name="not", arguments=(part,)):
            inside = as_predicate(part)
            return None if inside is None else Not(inside)
        case Call(name=name, arguments=(Reference() as column, Literal() as value)) if name in _MIRRORED:
            return _test(name, column, value.value)
        case Call(name=name, arguments=(Literal() as value, Reference() as column)) if name in _MIRRORED:
            return _test(_MIRRORED[name], column, value.value)
        case Call(name="is_null", arguments=(Reference() as column,)):
            return _test("is_null", column)
        case Call(name="in", arguments=(Reference() as column, *members)):
            values = [m.value for m in members if isinstance(m, Literal)]
            return _test("in", column, *values) if len(values) == len(members) else None
        case Call(name="like", arguments=(Reference() as column, Literal(value=str() as pattern))):
            found = like("", pattern)
            return _test(found.op, column, *found.literals)
        case Reference():
            return _test("=", expression, True)
        case _:
            return None


def _test(op: str, column: Reference, *literals: object) -> Comparison:
    _, name, *path = column.parts
    return Comparison(op, name, tuple(literals), tuple(path))
