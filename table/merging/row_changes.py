"""The rows of a changelog: what a compaction changed in the rows of each primary key.

Owns: `row_changes`. Must not know: files, levels, how the rows before and after were found.
Source: format/lookup-compaction §2.

Invariants: A key without a change has no row. The rows are in the order of the keys; of two rows of one key, -U is the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ...core.metadata.schemas.merge_rules import VALUE_KIND
from ...core.rows.value_numbers import same_values
from ...core.typed import Array

_INSERT, _UPDATE_BEFORE, _UPDATE_AFTER, _DELETE = 0, 1, 2, 3


def row_changes(
    before: pa.Table, after: pa.Table, has_before: Array, has_after: Array, compared: Sequence[str] | None
) -> pa.Table:
    """The rows of a changelog for some keys. A row that was deleted is the row before, with its sequence number.

    Args:
        before, after: for each key the row before and after, with all columns of a changelog file; any row if there is none.
        has_before, has_after: masks: which of these rows are there. A row that deletes is not.
        compared: if the rows before and after are equal in these columns, nothing has changed; None: they always differ.
    """
    updated = has_before & has_after
    if compared is not None:
        both = np.flatnonzero(updated)
        one, other = before.take(pa.array(both)), after.take(pa.array(both))
        same = np.ones(len(both), bool)
        for name in compared:
            same &= same_values(_whole(one, name), _whole(other, name))
        updated[both[same]] = False
    gone, new = has_before & ~has_after, has_after & ~has_before
    olds, news = np.flatnonzero(updated | gone), np.flatnonzero(updated | new)
    kinds = np.concatenate(
        (np.where(gone[olds], _DELETE, _UPDATE_BEFORE), np.where(new[news], _INSERT, _UPDATE_AFTER))
    ).astype(np.int8)
    keys, is_after = np.concatenate((olds, news)), np.repeat([0, 1], [len(olds), len(news)])
    order = np.lexsort((is_after, keys))
    rows = pa.concat_tables([before.take(pa.array(olds)), after.take(pa.array(news))]).take(pa.array(order))
    at = rows.schema.get_field_index(VALUE_KIND.name)
    return rows.set_column(at, rows.schema.field(at), pa.array(kinds[order]))


def _whole(rows: pa.Table, name: str) -> Any:
    combined = rows.column(name).combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)
