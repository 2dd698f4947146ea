"""Translates a predicate to questions to the indexes of a data file.

Owns: `asked_of`, which computes the questions once for all files of a layout. Must not know: the bytes of an index.
Source: format/file-indexes §5. Invariants: If no index can answer, nothing is asked and all rows may be kept. A negation is
pushed down to the comparisons, because a set of rows that may match says nothing about the negation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ..expressions.tree import And, Comparison, Not, Or, Predicate
from ..rows.types import AtomicType
from .keys import Question, question_of


@dataclass(frozen=True, slots=True)
class IndexedColumn:
    """A column of a predicate as it is in the data file.

    Attributes:
        data_type: the type in the file; each of its values equals exactly one value of the predicate's column.
        trimmed: readers drop the blanks at the end of values (CHAR in ORC).
    """

    name: str
    data_type: AtomicType
    trimmed: bool = False


@dataclass(frozen=True)
class OneColumn:
    column: IndexedColumn
    question: Question


@dataclass(frozen=True)
class AllOf:
    parts: tuple[Asked, ...]


@dataclass(frozen=True)
class AnyOf:
    parts: tuple[Asked, ...]


Asked: TypeAlias = "OneColumn | AllOf | AnyOf"


def asked_of(predicate: Predicate, columns: Mapping[str, IndexedColumn], *, negated: bool = False) -> Asked | None:
    """The questions for a bound predicate, or for its negation; None if no index could exclude a row.

    >>> from ..expressions.columns import col
    >>> column = IndexedColumn("a", AtomicType("INT"))
    >>> asked_of((col("a") == 1) & (col("b") == 2), {"a": column}).question
    Question(op='in', keys=(1,))
    >>> asked_of((col("a") == 1) | (col("b") == 2), {"a": column})
    """
    match predicate:
        case Comparison(column=name):
            column = columns.get(name)
            if column is None:
                return None
            question = question_of(predicate, negated, column.data_type, trimmed=column.trimmed)
            return None if question is None else OneColumn(column, question)
        case Not(part=part):
            return asked_of(part, columns, negated=not negated)
        case And(parts=parts) | Or(parts=parts):
            found = [asked_of(part, columns, negated=negated) for part in parts]
            known = tuple(each for each in found if each is not None)
            if isinstance(predicate, And) is not negated:
                return None if not known else known[0] if len(known) == 1 else AllOf(known)
            return AnyOf(known) if len(known) == len(found) else None
        case _:
            return None
