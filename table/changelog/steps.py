"""The pieces of a read of changes, each of which one task reads.

Owns: `ChangeStep`. Must not know: how steps are found, how rows are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..scan.split import Split


@dataclass(frozen=True)
class ChangeStep:
    """Files whose rows are changes of one snapshot. Can be pickled to another machine.

    `came` are files of the later state, or with `holds_kinds` files whose rows are changes, each with its kind. If there
    are any in `gone`, those of the earlier state, the rows of both sides are compared.
    """

    snapshot_id: int
    time_ms: int
    came: tuple[Split, ...] = ()
    gone: tuple[Split, ...] = ()
    holds_kinds: bool = False

    @property
    def splits(self) -> tuple[Split, ...]:
        return (*self.came, *self.gone)

    @property
    def size(self) -> int:
        return sum(split.size for split in self.splits)

    def parts(self) -> Iterator[ChangeStep]:
        """The step in pieces that can be read side by side: one for each split, where nothing is compared."""
        if self.gone or len(self.came) < 2:
            yield self
            return
        for split in self.came:
            yield replace(self, came=(split,))
