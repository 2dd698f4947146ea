"""Engine `aggregation`: each column has a function that makes one value of all. Source: format/primary-keys §4."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...core.metadata.schemas.functions import function_name
from ...core.metadata.schemas.merge_rules import MergeRules
from ...core.rows.types import Field
from .aggregates.functions import aggregate_of, check
from .engine import Merge, last_of, merged_kinds, naming_keys
from .groups import ColumnOf, Groups


def needs(rules: MergeRules, fields: Sequence[Field], wanted: Sequence[str]) -> set[str]:
    """Nothing: each column is made of its own values. Refuses functions that do not fit the wanted columns."""
    for field in fields:
        if field.name in wanted and field.name not in rules.key_names:
            check(_function(rules, field.name), field, rules.texts)
    return set()


def merge(
    rules: MergeRules,
    groups: Groups,
    column: ColumnOf,
    fields: Sequence[Field],
    wanted: Sequence[str],
    keeps_deletes: bool,
) -> Merge:
    """Make one value of all for each column. `InvalidArgument`: a value cannot be taken back, or does not fit into its type."""
    count = len(groups.starts)
    aggregates = {
        f.name: aggregate_of(_function(rules, f.name), f, column(f.name), count, rules.texts)
        for f in fields
        if f.name in wanted and f.name not in rules.key_names
    }
    removes = rules.is_on("aggregation.remove-record-on-delete")
    is_there = np.ones(count, bool)
    for keys, places, rows in groups.rounds():
        kinds = groups.kinds[places]
        removed = (kinds == 3) & removes
        retracts = (kinds % 2 == 1) & ~removed
        adds = kinds % 2 == 0
        is_there[keys] = ~removed
        with naming_keys(rules, groups, column):
            for aggregate in aggregates.values():
                aggregate.set(keys[removed], rows[removed])
                aggregate.add(keys[adds], rows[adds])
                aggregate.retract(keys[retracts], rows[retracts])
    single = groups.is_alone
    kinds = merged_kinds(groups, is_there)
    left = (kinds % 2 == 0) | keeps_deletes
    alone = np.where(single, groups.order[groups.starts], -1)
    last = groups.order[last_of(groups)][left]
    made = {name: aggregate.result(alone, left) for name, aggregate in aggregates.items()}
    return Merge(last, kinds[left], last, made=made)


def _function(rules: MergeRules, name: str) -> str:
    if name in rules.sequence_fields:
        return "last_value"
    return function_name(rules.texts, name) or "last_non_null_value"
