"""What each row does to the row that has its key: insert, update or delete it.

Owns: reading kinds from a column, which rows count, and whether a table can take rows that delete. Must not know: buckets, files.
Source: format/primary-keys §1, §9.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ...core import options as opt
from ...core.errors import InvalidArgument
from ...core.metadata.schemas.merge_rules import MergeRules
from ...core.options import TableOptions

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = range(4)
_KINDS = {
    "+I": INSERT,
    "-U": UPDATE_BEFORE,
    "+U": UPDATE_AFTER,
    "-D": DELETE,
    "C": INSERT,
    "R": INSERT,
    "U": UPDATE_AFTER,
    "D": DELETE,
}
"""The names of kinds in upper case: those of the format, and those of Debezium (create, read, update, delete)."""
_TEXTS = ("string", "large_string", "string_view", "null")
"""The Arrow types of texts; null is that of a column without values."""


def kinds_of(column: Any, name: str) -> pa.Array:
    """The kinds that a column of texts names, as int8: `+I -U +U -D`, or `c r u d`, in lower or upper case. Refuses others.

    >>> kinds_of(pa.array(["+I", "d"]), "op").to_pylist()
    [0, 3]
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if str(column.type) not in _TEXTS:
        raise InvalidArgument(
            f"column '{name}' has type {column.type}, which cannot name row kinds",
            next_step="give texts: +I, -U, +U and -D, or c, r, u and d",
        )
    codes = pc.index_in(pc.utf8_upper(column.cast(pa.string())), value_set=pa.array(list(_KINDS)))
    if codes.null_count:
        value = column[pc.index(codes.is_null(), True).as_py()].as_py()
        raise InvalidArgument(
            f"column '{name}': {'null' if value is None else repr(value)} is no row kind",
            next_step="use +I, -U, +U and -D, or c, r, u and d",
        )
    return pa.array(list(_KINDS.values()), pa.int8()).take(codes)


def retracts(kinds: pa.Array) -> pa.Array:
    """Which rows delete: -U and -D."""
    return pc.equal(pc.bit_wise_and(kinds, pa.scalar(1, pa.int8())), pa.scalar(1, pa.int8()))


def counted(kinds: pa.Array, rules: MergeRules, options: TableOptions) -> pa.Array | None:
    """Which rows are written; None for all (options `ignore-delete` and `ignore-update-before`)."""
    if rules.ignore_delete:
        left = pc.invert(retracts(kinds))
    elif options.get(opt.IGNORE_UPDATE_BEFORE):
        left = pc.not_equal(kinds, pa.scalar(UPDATE_BEFORE, pa.int8()))
    else:
        return None
    return None if pc.all(left).as_py() is not False else left


def check_retracts(rules: MergeRules) -> None:
    """Refuse rows that delete in a table whose merge engine could never merge them."""
    if rules.engine == "first-row":
        raise InvalidArgument(
            "a table with option 'merge-engine' = first-row takes no rows that delete",
            next_step="leave them out, or set option 'ignore-delete' = true on the table",
        )
    is_on = rules.is_on("partial-update.remove-record-on-delete")
    if rules.engine == "partial-update" and not is_on and not has_groups(rules):
        raise InvalidArgument(
            "a table with option 'merge-engine' = partial-update takes no rows that delete, because no option says what they"
            " mean",
            next_step="set 'ignore-delete' or 'partial-update.remove-record-on-delete' = true on the table",
        )


def has_groups(rules: MergeRules) -> bool:
    """Has the table columns that are ordered by columns of their own (`fields.<columns>.sequence-group`)?"""
    return any(key.startswith("fields.") and key.endswith(".sequence-group") for key in rules.texts)


def columns_to_delete(rules: MergeRules) -> tuple[str, ...]:
    """The columns that a row needs, besides its key, to delete the row that has its key. Refuses tables where none can."""
    if rules.ignore_delete:
        raise InvalidArgument("the table has option 'ignore-delete', so rows cannot be deleted from it by key")
    check_retracts(rules)
    removing = rules.texts.get("partial-update.remove-record-on-sequence-group", "")
    group = tuple(name.strip() for name in removing.split(",") if name.strip())
    if rules.engine == "partial-update":
        if rules.is_on("partial-update.remove-record-on-delete") or group:
            return (*rules.sequence_fields, *group)
        needed = "'partial-update.remove-record-on-sequence-group'"
    elif rules.engine == "aggregation" and not rules.is_on("aggregation.remove-record-on-delete"):
        needed = "'aggregation.remove-record-on-delete' = true"
    else:
        return rules.sequence_fields
    raise InvalidArgument(
        f"rows of a table with option 'merge-engine' = {rules.engine} cannot be deleted by key",
        next_step=f"set option {needed} on the table",
    )
