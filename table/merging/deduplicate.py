"""Engine `deduplicate`: the newest row of a key wins; if it deletes, the key is gone. Source: format/primary-keys §4."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.metadata.schemas.merge_rules import MergeRules
from ...core.rows.types import Field
from .engine import Merge, last_of, taken_whole
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
    return taken_whole(groups, last_of(groups), keeps_deletes)
