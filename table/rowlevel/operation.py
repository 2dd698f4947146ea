"""What every change of rows can say: which rows it concerns, and what becomes of them.

Owns: `Operation`, the protocol between the changes (`edit`, `merge`) and the kinds of tables (`append_table`, `key_table`,
`evolution`); `Found`. Must not know: files, SQL text.
Invariant: an operation has no state that changes, so that it can be applied to each file alone, in any order, and again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from ...core.expressions.tree import Predicate
from ...core.metadata.snapshot import OperationWord

DELETED = -1
"""The action of a row that is deleted. Other actions are the number of an assignment, from 0."""


@dataclass(frozen=True)
class Found:
    """What an operation does to the rows of a batch.

    Attributes:
        rows: the rows that it changes, by their place in the batch, ascending.
        actions: for each of them, `DELETED` or the number of an assignment.
        sources: for each of them, the row of the source that it meets, -1 for none.
        met: the rows of the source that meet any row of the batch.
    """

    rows: Any
    actions: Any
    sources: Any
    met: Any

    @staticmethod
    def nothing() -> Found:
        none = np.zeros(0, np.int64)
        return Found(none, none, none, none)


class Operation(Protocol):
    """DELETE, UPDATE or MERGE. Can be pickled to another machine.

    Attributes:
        word: for the snapshot: `DELETE`, `UPDATE` or `MERGE`.
        predicate: bound; rows for which it is not true are left alone. None if all rows must be looked at.
        columns: what `find` reads of a row.
        assigned: the columns that any assignment gives a value.
        updates: does it have assignments?
        deletes_all: are all rows for which `predicate` is true deleted, so that no row has to be looked at?
        absent: do rows that are not there matter?
    """

    @property
    def word(self) -> OperationWord: ...

    @property
    def predicate(self) -> Predicate | None: ...

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def assigned(self) -> frozenset[str]: ...

    @property
    def updates(self) -> bool: ...

    @property
    def deletes_all(self) -> bool: ...

    @property
    def absent(self) -> bool: ...

    def find(self, rows: pa.RecordBatch) -> Found:
        """What becomes of the rows of a batch that has `columns`."""

    def parts(self, sources: Any) -> Iterator[slice]:
        """Ranges of rows that may be made at once: what they take from their rows of the source (-1 for none) is bounded."""

    def make(self, rows: pa.RecordBatch, actions: Any, sources: Any) -> pa.RecordBatch:
        """Rows after their assignments. The batch has all columns of the table, and so has the result."""

    def inserted(self, met: Any) -> pa.Table | None:
        """The rows to add; None for none. `met` are the rows of the source that met a row of the table, each once."""


def made(operation: Operation, rows: pa.RecordBatch, actions: Any, sources: Any) -> Iterator[pa.RecordBatch]:
    """Rows after their assignments, in parts."""
    for part in operation.parts(sources):
        here = rows.slice(part.start, part.stop - part.start)
        yield operation.make(here, actions[part], sources[part])


def distinct(numbers: Any) -> Any:
    """The different numbers, ascending. NumPy's own function takes ten times as long for many."""
    found = np.sort(numbers)
    return found[np.concatenate(([True], found[1:] != found[:-1]))] if len(found) else found


def all_but(count: int, places: Any) -> Any:
    """The numbers below `count` that are not among some."""
    left = np.ones(count, bool)
    left[places] = False
    return np.flatnonzero(left)
