"""Merge the rows of a section as a compaction with a changelog does: the merged rows, and what changed in the row of each key.

Owns: `merge_and_compare`, which rows are the old ones. Must not know: files, how older rows were found, options of changelogs.
Source: format/lookup-compaction §1, §2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ...core.metadata.schema import ROW_SEQUENCE
from ...core.metadata.schemas.merge_rules import LEVEL, VALUE_KIND, MergeRules
from ...core.rows.types import Field
from ...core.typed import Array
from .engine import Merge, take
from .groups import ColumnOf, Groups, group_rows
from .merge import engine_of
from .row_changes import row_changes

SYSTEM = (ROW_SEQUENCE.name, VALUE_KIND.name)


@dataclass(frozen=True)
class Comparison:
    """How the row before is known, and when a row counts as changed.

    Attributes:
        top_level: the rows before are of this level (producer `full-compaction`); None: of any above level 0 (producer `lookup`).
        compared: a row that is equal in these columns has not changed; None: a row that was written again has changed.
    """

    top_level: int | None = None
    compared: tuple[str, ...] | None = None


def merge_and_compare(
    rules: MergeRules,
    column: ColumnOf,
    fields: Sequence[Field],
    wanted: Sequence[str],
    comparison: Comparison,
    *,
    drop_deletes: bool,
) -> tuple[pa.Table, pa.Table]:
    """Merge the rows of a section, and compare the row of each key before and after. Arguments are as for `merge_key_rows`.

    Older rows that were looked up are among the rows of `column`. The results are the merged rows and the changelog's rows, both
    sorted by key, with `_SEQUENCE_NUMBER`, `_VALUE_KIND` and the wanted columns.
    """
    groups = group_rows(column, rules)
    merged = engine_of(rules).merge(rules, groups, column, fields, wanted, keeps_deletes=True)
    after = merged_rows(merged, column, wanted)
    old, is_new = _old_rows(groups, column, comparison.top_level)
    has_old = (old >= 0) & np.isin(_kinds(column)[np.maximum(old, 0)], (0, 2))
    before = pa.table({name: column(name).take(pa.array(np.maximum(old, 0))) for name in (*SYSTEM, *wanted)})
    adds = np.isin(merged.kinds, (0, 2))
    if rules.engine == "first-row":  # an older row stays, and a new one keeps its kind
        changes = after.filter(pa.array(adds & is_new & (old < 0)))
    else:
        changes = row_changes(before, after, has_old & is_new, adds & is_new, comparison.compared)
    return (after.filter(pa.array(adds)) if drop_deletes else after), changes


def merged_rows(merged: Merge, column: ColumnOf, names: Sequence[str]) -> pa.Table:
    numbers = take(column(ROW_SEQUENCE.name), merged.numbered)
    columns: dict[str, Any] = {
        ROW_SEQUENCE.name: numbers.fill_null(0) if numbers.null_count else numbers,
        VALUE_KIND.name: pa.array(merged.kinds, pa.int8()),
    }
    return pa.table(columns | {name: merged.column(name, column) for name in names})


def keys_without_old_row(rules: MergeRules, column: ColumnOf) -> Array:
    """One row of each key that has rows of level 0 only: those whose older row has to be looked up in other files."""
    groups = group_rows(column, rules)
    old, _ = _old_rows(groups, column, None)
    return np.asarray(groups.order[groups.starts[old < 0]])


def _old_rows(groups: Groups, column: ColumnOf, top_level: int | None) -> tuple[Array, Array]:
    """For each key, its row before (-1 if there is none), and whether the key has a newer row."""
    levels = np.asarray(column(LEVEL.name).to_numpy(), np.int64)[groups.order]
    is_old = levels > 0 if top_level is None else levels == top_level
    key = np.repeat(np.arange(len(groups.starts)), groups.sizes)
    old = np.full(len(groups.starts), -1)
    old[key[is_old]] = groups.order[is_old]
    return old, np.bincount(key[~is_old], minlength=len(groups.starts)) > 0


def _kinds(column: ColumnOf) -> Array:
    return np.asarray(column(VALUE_KIND.name).to_numpy(), np.int64)
