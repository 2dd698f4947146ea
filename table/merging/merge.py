"""Merge the rows of one section of files.

Owns: `merge_section`, `chosen_rows`, `merge_key_rows`, finding an engine by its name. Must not know: files, splits, predicates.
Source: format/primary-keys §4.

Invariant: No loop over rows: rows are sorted and chosen as columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa

from ...core.errors import Unsupported
from ...core.metadata.schema import ROW_SEQUENCE
from ...core.metadata.schemas.merge_rules import VALUE_KIND, MergeRules
from ...core.rows.types import Field
from ...core.typed import Array
from . import aggregation, deduplicate, first_row, partial_update
from .engine import Engine, take
from .groups import ColumnOf, group_rows
from .key_codes import key_codes

ENGINES = {
    "deduplicate": cast(Engine, deduplicate),
    "first-row": cast(Engine, first_row),
    "partial-update": cast(Engine, partial_update),
    "aggregation": cast(Engine, aggregation),
}


def engine_of(rules: MergeRules) -> Engine:
    """The engine that option `merge-engine` names; `Unsupported` if there is none."""
    if rules.engine not in ENGINES:
        keys = ", ".join(rules.key_names)
        raise Unsupported(
            f"reading a table with a primary key ({keys}) and option 'merge-engine' = {rules.engine} is not supported yet:"
            f" the engines that can be read are {', '.join(ENGINES)}",
            next_step="read it with Apache Paimon",
        )
    return ENGINES[rules.engine]


def columns_to_merge(rules: MergeRules, fields: Sequence[Field], wanted: Sequence[str]) -> set[str]:
    """The columns of the table that must be read in order to merge `wanted`; `fields` are all its columns."""
    keys = {f.name for f in rules.keys}
    return {*wanted, *keys, *rules.sequence_fields, *engine_of(rules).needs(rules, fields, wanted)}


def merge_section(
    rules: MergeRules, column: ColumnOf, fields: Sequence[Field], wanted: Sequence[str]
) -> tuple[int, dict[str, Any]]:
    """Merge the rows of the files of one section: the number of merged rows, and their `wanted` columns.

    `column` gives the columns of `columns_to_merge`, `_SEQUENCE_NUMBER`, `_VALUE_KIND` and `_LEVEL` of all rows, oldest file
    first. `fields` are all columns of the table.
    """
    groups = group_rows(column, rules)
    merged = engine_of(rules).merge(rules, groups, column, fields, wanted, keeps_deletes=False)
    return len(merged.positions), {name: merged.column(name, column) for name in wanted}


def chosen_rows(rules: MergeRules, column: ColumnOf, fields: Sequence[Field]) -> Array:
    """The positions of the rows that stay, of an engine that keeps whole rows; arguments as for `merge_section`."""
    groups = group_rows(column, rules)
    return engine_of(rules).merge(rules, groups, column, fields, (), keeps_deletes=False).positions


def newest_rows(rules: MergeRules, column: ColumnOf) -> Array:
    """Whether each row is the newest of its key, where rows of one key are known to come oldest first. Needs only the keys.

    >>> from ...core.rows.types import AtomicType
    >>> rules = MergeRules("deduplicate", (Field(0, "id", AtomicType("INT")),), ("id",))
    >>> newest_rows(rules, {"id": pa.array([1, 3, 1, 2])}.__getitem__).tolist()
    [False, True, True, True]
    """
    codes = key_codes([column(f.name) for f in rules.keys])
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    is_newest = np.ones(len(order), bool)
    is_newest[order[:-1]] = ordered[1:] != ordered[:-1]
    return is_newest


def merge_key_rows(
    rules: MergeRules, column: ColumnOf, fields: Sequence[Field], wanted: Sequence[str], *, drop_deletes: bool
) -> tuple[int, dict[str, Any]]:
    """Merge rows into rows of a data file: sorted by key, each with its sequence number and kind.

    A key with a single row keeps its kind. Engines that make new rows give +I, or -D for a key that is deleted. Rows that delete
    stay for older files that still have their keys, unless `drop_deletes`. Rows that are still to be written follow
    `MergeRules.of_new_rows`.

    Arguments and result are as for `merge_section`; `_LEVEL` is read only if the rules have lookups.
    """
    groups = group_rows(column, rules)
    merged = engine_of(rules).merge(rules, groups, column, fields, wanted, keeps_deletes=not drop_deletes)
    numbers = take(column(ROW_SEQUENCE.name), merged.numbered)
    columns = {
        ROW_SEQUENCE.name: numbers.fill_null(0) if numbers.null_count else numbers,
        VALUE_KIND.name: pa.array(merged.kinds, pa.int8()),
    }
    return len(merged.positions), columns | {name: merged.column(name, column) for name in wanted}
