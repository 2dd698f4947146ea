"""The rows of data files that are deleted, or selected, by their positions.

Owns: fetching a deletion vector, and the masks for a batch. Must not know: formats, columns, plans.
Source: format/deletion-vectors §1. Invariant: A vector that cannot be read is an error, and never means "nothing is deleted".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from ...backends.store import ObjectNotFound, Store
from ...core.errors import TableCorrupt, missing
from ...core.metadata.data_file import DataFile
from ...core.metadata.deletion_vector import decode_vector, vector_end
from ..formats.external import located
from ..scan.row_runs import first_row
from ..scan.split import DeletionVectorPlace, Split


def deleted_rows(store: Store, split: Split, run: Sequence[int]) -> Any:
    """The positions of deleted rows in a run of files, ascending, in a NumPy array, or None. `TableCorrupt`: they are damaged."""
    marked = [(split.files[i], place) for i in run for place in (split.deletion(i),) if place is not None]
    if not marked:
        return None
    start = first_row([split.files[i] for i in run])
    found = [_positions(store, place, file) + ((file.first_row_id or start) - start) for file, place in marked]
    return found[0] if len(found) == 1 else np.unique(np.concatenate(found))


def _positions(store: Store, place: DeletionVectorPlace, file: DataFile) -> Any:
    found = place.vector
    if found.offset < 0 or found.length < 0:
        raise TableCorrupt(f"{place.key}: the deletion vector of {found.data_file} begins at byte {found.offset}")
    try:
        where, key = located(store, place.key)
        data = where.get_range(key, found.offset, vector_end(found))
    except ObjectNotFound:
        raise missing(place.key, what=f"the deletion vector of {found.data_file}: ") from None
    return decode_vector(data, found, file.row_count, place.key)


def live_mask(deleted: Any, position: int, rows: int) -> pa.BooleanArray:
    """Which rows of a batch, which begins at `position` in the file, are not deleted.

    >>> live_mask(np.array([0, 5, 7]), 4, 3).to_pylist()
    [True, False, True]
    """
    first, last = np.searchsorted(deleted, (position, position + rows))
    live = np.ones(rows, bool)
    live[deleted[first:last] - position] = False
    return pa.array(live)


def selected_mask(wanted: BitMap, position: int, rows: int) -> pa.BooleanArray:
    """Which rows of a batch, which begins at `position` in the file, are selected.

    >>> selected_mask(BitMap([0, 5, 7]), 4, 3).to_pylist()
    [False, True, False]
    """
    window = BitMap()
    window.add_range(position, position + rows)
    chosen = np.zeros(rows, bool)
    chosen[np.asarray((wanted & window).to_array(), np.int64) - position] = True
    return pa.array(chosen)
