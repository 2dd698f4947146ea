"""The method of `Table` that sorts rows, so that filters open fewer files.

Owns: `Optimizing`. Must not know: how files are chosen or sorted. Source: architecture §7.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...core import arguments
from ..opened import OpenTable

if TYPE_CHECKING:
    from ...coordinator.maintenance.deletion import Progress
    from ...core.expressions.tree import Predicate
    from ..compaction.clustering import Clustering
    from ..compaction.curves import Curve


class Optimizing(OpenTable):
    """The method of `Table` that sorts rows."""

    def optimize(
        self,
        by: Sequence[str],
        curve: Curve = "zorder",
        where: Predicate | str | None = None,
        *,
        full: bool = False,
        target_size: int | str | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Clustering:
        """Sort the rows of files of a table without a primary key, so that a filter on some columns opens few of them.

        The table's rows do not change. Rows that other jobs add meanwhile stay; files that they change first are given up. Files
        that were sorted before are left alone, so that it costs little to run this again after new rows have come.

        Args:
            by: the columns that filters test.
            curve: `order` sorts by the columns in turn, which helps filters on the first one most; `zorder` and `hilbert` keep
                rows together that are close in all of them.
            where: the partitions, as a predicate on partition columns.
            full: sort all files anew.
            target_size, dry_run, progress: as for `compact`.

        Returns:
            The files before and after, and how many of them a filter opens.

        Raises:
            Unsupported: the table has a primary key, buckets or data evolution.
            InvalidArgument: there is no such column or curve.

        >>> import pyarrow as pa, lakelatch as ll
        >>> schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
        >>> table = ll.create_table("memory://optimize-doctest/t", schema)
        >>> for start in range(2):
        ...     receipt = table.append(pa.table({"a": [1 - start, 7 + start], "b": [5, 5]}, schema))
        >>> table.optimize(by=["a"], curve="order").compaction.files_after
        1
        >>> table.to_arrow().column("a").to_pylist()
        [0, 1, 7, 8]
        """
        from ..compaction.clustering import Clustering, SortingRewriter, opened, plan_clustering
        from ..compaction.run import Compaction, rewritten_here, run_compaction
        from ..scan.fallback import file_schemas_of

        arguments.callback(progress, "progress")
        self._check_not_pinned()
        schema = self.refresh()._schema
        plan = plan_clustering(self.timeline, schema, by, curve, where, full, target_size)
        if dry_run or not plan.groups:
            return Clustering(Compaction(plan))
        before = opened(self.timeline, schema, by, where)
        schemas = file_schemas_of(self.timeline, schema, plan.groups)
        rewriter = SortingRewriter(self.store, schema, schemas, plan.target_bytes, tuple(by), curve)
        done = run_compaction(self.committer, self.timeline, schema, plan, rewritten_here(rewriter), progress=progress)
        return Clustering(done, before, opened(self.timeline, schema, by, where))
