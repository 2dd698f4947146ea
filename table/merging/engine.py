"""What every merge engine offers.

Owns: the `Engine` protocol, `MergedRows`. Must not know: the engines, files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from ...core.metadata.merge_rules import MergeRules
from ...core.rows.types import Field
from ...core.typed import Array
from .groups import ColumnOf, Groups


@dataclass(frozen=True)
class Merge:
    """The result of an engine: one row for each key that is left.

    Attributes:
        positions: the row of the section that each row is taken from.
        taken: for columns that are taken from other rows, these rows, -1 for null.
        made: columns whose values are in no row of the section.
    """

    positions: Array
    taken: dict[str, Array] = field(default_factory=dict)
    made: dict[str, Any] = field(default_factory=dict)

    def column(self, name: str, column: ColumnOf) -> Any:
        """A column of the merged rows."""
        if name in self.made:
            return self.made[name]
        return take(column(name), self.taken.get(name, self.positions))


class Engine(Protocol):
    """A merge engine. Each is a module of this room with these two functions."""

    def needs(self, rules: MergeRules, fields: Sequence[Field], wanted: Sequence[str]) -> set[str]:
        """The columns that are read in order to merge `wanted`, besides keys, sequences and kinds.

        Raises:
            Unsupported: the engine cannot merge one of the columns.
        """

    def merge(
        self, rules: MergeRules, groups: Groups, column: ColumnOf, fields: Sequence[Field], wanted: Sequence[str]
    ) -> Merge:
        """Make one row of the rows of each key."""


def take(array: Any, positions: Array) -> Any:
    """Rows of an array, where position -1 gives null."""
    missing = positions < 0
    return array.take(pa.array(positions, pa.int64(), mask=missing if missing.any() else None))


def last_of(groups: Groups) -> Array:
    """The place of each key's newest row."""
    return np.asarray(groups.starts + groups.sizes - 1)
