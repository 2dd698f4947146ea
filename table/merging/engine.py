"""What every merge engine offers.

Owns: the `Engine` protocol, `Merge`, `CannotMerge`. Must not know: the engines, files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from ...core.errors import InvalidArgument
from ...core.metadata.schemas.merge_rules import MergeRules
from ...core.rows.types import Field
from ...core.typed import Array
from .groups import ColumnOf, Groups


@dataclass(frozen=True)
class Merge:
    """The result of an engine: one row for each key that is left.

    Attributes:
        positions: the row of the section that each row is taken from.
        kinds: `_VALUE_KIND` of each row.
        numbered: the row of the section whose sequence number each row has, -1 for number 0.
        taken: for columns that are taken from other rows, these rows, -1 for null.
        made: columns whose values are in no row of the section.
    """

    positions: Array
    kinds: Array
    numbered: Array
    taken: dict[str, Array] = field(default_factory=dict)
    made: dict[str, Any] = field(default_factory=dict)

    def column(self, name: str, column: ColumnOf) -> Any:
        if name in self.made:
            return self.made[name]
        return take(column(name), self.taken.get(name, self.positions))


class Engine(Protocol):
    """A merge engine. Each is a module of this room with these two functions."""

    def needs(self, rules: MergeRules, fields: Sequence[Field], wanted: Sequence[str]) -> set[str]:
        """The columns to read in order to merge `wanted`, besides keys, sequences and kinds. Refuses those it cannot merge."""

    def merge(
        self,
        rules: MergeRules,
        groups: Groups,
        column: ColumnOf,
        fields: Sequence[Field],
        wanted: Sequence[str],
        keeps_deletes: bool,
    ) -> Merge:
        """Make one row of the rows of each key. A deleted key is left out; if `keeps_deletes`, it is a row that deletes."""


class CannotMerge(Exception):
    """The values of a key, given by its number, have no result. `naming_keys` adds the key's values to the message."""

    def __init__(self, key: int, message: str, next_step: str) -> None:
        super().__init__(message)
        self.key, self.message, self.next_step = key, message, next_step


@contextmanager
def naming_keys(rules: MergeRules, groups: Groups, column: ColumnOf) -> Iterator[None]:
    """Raise `InvalidArgument`, which tells the key, in place of `CannotMerge`."""
    try:
        yield
    except CannotMerge as error:
        row = int(groups.order[groups.starts[error.key]])
        key = ", ".join(f"{f.name} = {column(f.name)[row].as_py()!r}" for f in rules.keys)
        raise InvalidArgument(f"key {key}: {error.message}", next_step=error.next_step) from error


def take(array: Any, positions: Array) -> Any:
    """Rows of an array, where position -1 gives null."""
    if len(positions) == len(array) and np.array_equal(positions, np.arange(len(array))):
        return array  # rows that were sorted and different already are not copied
    missing = positions < 0
    return array.take(pa.array(positions, pa.int64(), mask=missing if missing.any() else None))


def taken_whole(groups: Groups, places: Array, keeps_deletes: bool) -> Merge:
    """The result of an engine that chooses one of the rows of each key, by their places in `Groups.order`."""
    if not keeps_deletes:
        places = places[~groups.retracts[places]]
    rows = groups.order[places]
    return Merge(rows, groups.kinds[places], rows)


def merged_kinds(groups: Groups, is_there: Array) -> Array:
    """`_VALUE_KIND` of the rows that an engine makes: +I or -D, but a row that is not merged keeps its kind."""
    return np.where(groups.is_alone, groups.kinds[groups.starts], np.where(is_there, 0, 3))


def last_of(groups: Groups) -> Array:
    """The place of each key's newest row."""
    return np.asarray(groups.starts + groups.sizes - 1)
