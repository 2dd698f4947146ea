"""Engine `first-row`: the oldest row of a key stays. Source: format/primary-keys §4."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.errors import InvalidArgument
from ...core.metadata.schemas.merge_rules import MergeRules
from ...core.rows.types import Field
from .engine import Merge, taken_whole
from .groups import ColumnOf, Groups


def needs(rules: MergeRules, fields: Sequence[Field], wanted: Sequence[str]) -> set[str]:
    return set()


def merge(
    rules: MergeRules,
    groups: Groups,
    column: ColumnOf,
    fields: Sequence[Field],
    wanted: Sequence[str],
    keeps_deletes: bool,
) -> Merge:
    """The oldest row of each key. `InvalidArgument`: a key has several rows, and one of them deletes."""
    retracts = groups.retracts
    if retracts.any() and (retracts & ~groups.is_alone.repeat(groups.sizes)).any():
        raise InvalidArgument(
            "a table with option 'merge-engine' = first-row holds rows that delete, which this engine cannot merge",
            next_step="set option 'ignore-delete' = true on the table",
        )
    return taken_whole(groups, groups.starts, keeps_deletes)
