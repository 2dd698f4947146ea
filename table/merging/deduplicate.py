"""Engine `deduplicate`: the newest row of a key wins; if it deletes, the key is gone. Source: format/primary-keys §4."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.metadata.merge_rules import MergeRules
from ...core.rows.types import Field
from .engine import Merge, last_of, taken_whole
from .groups import ColumnOf, Groups


def needs(rules: MergeRules, fields: Sequence[Field], wanted: Sequence[str]) -> set[str]:
    """Nothing: all columns are from the newest row."""
    return set()


def merge(
    rules: MergeRules,
    groups: Groups,
    column: ColumnOf,
    fields: Sequence[Field],
    wanted: Sequence[str],
    keeps_deletes: bool,
) -> Merge:
    """The newest row of each key."""
    return taken_whole(groups, last_of(groups), keeps_deletes)
