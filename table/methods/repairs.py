"""`Table.repair`.

Owns: this method. Must not know: what can be damaged.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..opened import OpenTable

if TYPE_CHECKING:
    from ..repair.steps import RepairPlan
    from ..verify.whole import Depth


class Repairs(OpenTable):
    """The method of `Table` that mends damage."""

    def repair(self, *, dry_run: bool = True, accept_loss: bool = False, data: Depth = False) -> RepairPlan:
        """Mend what `verify` finds, as far as that is possible: gaps in the history, snapshots that are not part of it, hints,
        schemas that a branch still has, tags that cannot be read, manifests that say something wrong, data files that are gone.

        The plan tells for each finding what is done about it, or why nothing is. Whatever a repair deletes is copied to
        `lakelatch/repaired/` before, and snapshots that leave the history although they can be read stay as tags. Data files
        leave the table with a commit, like any other overwrite. For a table that cannot be opened, use `lakelatch repair`.

        Args:
            dry_run: change nothing.
            accept_loss: also carry out the steps that give up rows or earlier states. The plan says which, by partition and
                number of rows; the rows are gone already, or cannot be read.
            data: also look into the data files, as for `verify`.

        Returns:
            The plan; after a repair, only the steps that were carried out. Prints as text.

        Raises:
            CommitConflict: the table changed since the plan was made: run it again.

        Source: decision 63.

        >>> import pyarrow as pa, lakelatch as ll
        >>> table = ll.create_table("memory://repair-doctest/t", pa.schema([("v", pa.int64())]))
        >>> receipt = table.append(pa.table({"v": [1]}))
        >>> print(table.repair())
        nothing to repair
        """
        from ..repair.apply import apply_repair
        from ..repair.plan import plan_repair

        self._check_not_pinned()
        if self._committer is not None:
            self._committer.settle()  # the hint of this table's last commit may still be under way
        plan = plan_repair(self.store, self.paths.branch, data)
        if dry_run:
            return plan
        done = apply_repair(self.store, self.paths.branch, plan, accept_loss=accept_loss)
        self.refresh()
        self._committer = None  # what it knows of the newest snapshot may be outdated
        return replace(plan, steps=done)
