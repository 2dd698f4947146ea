"""A predicate as questions to the indexes of a data file.

Owns: `asked_of`: which index is asked what, worked out once for all files of a layout. Must not know: an index's bytes.
Source: format/file-indexes §5. Invariant: where no index can answer nothing is asked, and all rows may be kept; a negation is
carried down to the comparisons: "not surely true" of a part says nothing about its negation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ..predicates.predicate import And, Comparison, Not, Or, Predicate
from ..rows.types import AtomicType
from .keys import Question, question_of


@dataclass(frozen=True, slots=True)
class IndexedColumn:
    """A column of a predicate as the data file has it.

    Attributes:
        name: there.
        data_type: there; every value of it has its own, equal value in the predicate's column.
        trimmed: readers drop the blanks at its values' ends (CHAR in ORC).
    """

    name: str
    data_type: AtomicType
    trimmed: bool = False


@dataclass(frozen=True)
class OneColumn:
    """One question about one column."""

    column: IndexedColumn
    question: Question


@dataclass(frozen=True)
class AllOf:
    """The rows that every part leaves; some parts may be left out."""

    parts: tuple[Asked, ...]


@dataclass(frozen=True)
class AnyOf:
    """The rows that any part leaves."""

    parts: tuple[Asked, ...]


Asked: TypeAlias = "OneColumn | AllOf | AnyOf"


def asked_of(predicate: Predicate, columns: Mapping[str, IndexedColumn], *, negated: bool = False) -> Asked | None:
    """What is asked for a predicate; None where no index could leave a row out.

    Args:
        predicate: bound.
        columns: by name in the predicate, those that the file has and that can be asked for.
        negated: the rows are wanted for which the predicate is false.

    >>> from ..predicates.predicate import col
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
