"""Compaction as a Spark job: the executors rewrite files, and the driver commits.

Owns: `compact`. Must not know: which files are chosen, how they are rewritten, or what is given up after a conflict (see
`table.compact`). Source: architecture §6, §7; format/spark §3. Invariants: Each batch runs one action and makes one commit. A
batch that fails leaves no file behind, or the error names those that are left.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from ..coordinator.commit.message import CommitMessage
from ..core.expressions.tree import Predicate
from ..core.metadata.schemas.merge_rules import POSTPONED
from ..core.paths import DEFAULT_BRANCH
from ..table.compaction.plan import plan_compaction
from ..table.compaction.postponed import settle_postponed
from ..table.compaction.run import AnyRewriter, Compaction, Rewrite, rewriter_of, run_compaction
from ..table.create import open_table
from ..table.scan.split import Split
from .jobs.packing import frame_of, packed
from .jobs.running import run_job
from .jobs.tasks import RewriteTask
from .sessions.session import checked_url, parallelism
from .sessions.zones import bound_in, session_zone

BATCH_BYTES = 64 << 30
"""How many bytes one job rewrites before it commits."""


def compact(
    spark: Any,
    url: str,
    where: Predicate | str | None = None,
    *,
    full: bool = False,
    target_size: int | str | None = None,
    min_files: int | None = None,
    dry_run: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    branch: str = DEFAULT_BRANCH,
) -> Compaction:
    """Rewrite small files of a table into large ones on Spark's executors; otherwise like `Table.compact`.

    Args:
        spark: the session, classic or Connect.
        url: the URL of the table, which must mean the same on the driver and on the executors.
        where: the partitions to compact, as a predicate on partition columns or its text, in which times without a zone are those
            of the session's zone.
        full, target_size, min_files, dry_run: as for `Table.compact`.
        storage_options: fsspec's options for the store. Keys given here are sent to the executors; prefer profiles (H19).
        branch: the branch of the table that is compacted.

    Returns:
        What was rewritten, or with `dry_run` what would be; prints as one line.

    Raises:
        LakelatchError: as for `Table.compact`. If Spark's job fails, Spark's own error is raised, with `left_files` as for
            `write`.

    Example:
        ``print(lakelatch.spark.compact(spark, "s3://lake/flights", "month = 1"))``
    """
    table = open_table(checked_url(spark, url), branch=branch, storage_options=storage_options)
    where = bound_in(session_zone(spark), where, table.schema)
    plan = plan_compaction(table.timeline, table.schema, where, target_size, min_files, full)
    if dry_run or not plan.groups:
        return Compaction(plan)
    settled = settle_postponed(table.committer, table.timeline, table.schema, plan)
    if any(group.bucket == POSTPONED for group in plan.groups):
        plan = plan_compaction(table.timeline, table.schema, where, target_size, min_files, full).without_postponed
    rewriter = rewriter_of(table.store, table.timeline, table.schema, plan.groups, plan.target_bytes)
    rewrite = rewritten_by(spark, rewriter)
    done = run_compaction(table.committer, table.timeline, table.schema, plan, rewrite, batch_bytes=BATCH_BYTES)
    return done.after(settled)


def rewritten_by(spark: Any, rewriter: AnyRewriter) -> Rewrite:
    """A function that rewrites groups on executors, in one job whose tasks read about the same number of bytes."""

    def rewrite(groups: Sequence[Split]) -> list[CommitMessage]:
        frame = frame_of(spark, packed(groups, parallelism(spark), rewriter.target_bytes))
        return run_job(frame, RewriteTask(rewriter, str(uuid.uuid4())))

    return rewrite
