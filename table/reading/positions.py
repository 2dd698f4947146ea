"""The rows of a data file with their positions in it, for changes of single rows.

Owns: `PositionReader`. Must not know: what is done with the rows. Source: format/deletion-vectors §1.
Invariant: a position counts all rows of the file, deleted ones too; deleted rows are never returned.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from ...backends.store import Store
from ...core.errors import TableCorrupt
from ...core.expressions.evaluate import to_arrow_mask
from ..formats.external import located
from ..scan.split import Split
from .arrow import SplitReader
from .deletion import deleted_rows, live_mask, selected_mask
from .referrers import with_referrer


class PositionReader(SplitReader):
    def numbered(
        self, store: Store, split: Split, wanted: BitMap | None = None
    ) -> Iterator[tuple[Any, pa.RecordBatch]]:
        """The live rows that fulfil the reader's predicate, with their positions as an ascending NumPy array.

        If `wanted` is given, only rows at these positions are read.
        """
        self._readers[split.branch].check(split.files)
        try:
            yield from self._numbered(store, split, wanted)
        except TableCorrupt as error:
            told = with_referrer(error, store, split)
            if told is error:
                raise
            raise told from None

    def _numbered(self, store: Store, split: Split, wanted: BitMap | None) -> Iterator[tuple[Any, pa.RecordBatch]]:
        constants = self._constants(split)
        left = self._wanted(store, split, (0,))
        if left is not None:
            wanted = left if wanted is None else left & wanted
        if wanted is not None and not wanted:
            return
        deleted = deleted_rows(store, split, (0,))
        files = {split.files[0]: located(store, split.keys[0])}
        for position, rows in self._readers[split.branch].rows(files, self.residual, False, wanted):
            at = np.arange(position, position + len(rows))
            masks = [] if deleted is None else [live_mask(deleted, position, len(rows))]
            if wanted is not None:
                masks.append(selected_mask(wanted, position, len(rows)))
            if masks:
                mask = masks[0] if len(masks) == 1 else pc.and_(*masks)
                at, rows = at[mask.to_numpy(zero_copy_only=False)], rows.kept(mask)
            if self.residual is not None:
                mask = to_arrow_mask(self.residual, self._columns(self._tested, rows, constants))
                at, rows = at[mask.to_numpy(zero_copy_only=False)], rows.kept(mask)
            if len(rows):
                yield at, self._columns(self.output, rows, constants)
