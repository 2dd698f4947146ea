"""Compact the buckets that a write has touched, after its commit, unless option `write-only` is set.

Owns: `compact_written`, `compact_buckets`, `show_restored`. Must not know: how rows were written. Source: format/primary-keys §7;
decision 41.

Invariants: The write is committed before this begins, and nothing that happens here can fail it. The compaction is a snapshot of
its own. Buckets that nobody wrote to are left alone. If nothing is due, nothing is read that the commit has not read. Of many
writers that commit at the same time, one compacts what can wait.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable

from ...coordinator.commit.committer import Committer
from ...coordinator.commit.settling.bucket_numbers import Buckets
from ...coordinator.history.timeline import Timeline
from ...core import options as opt
from ...core.metadata.data_file import ManifestEntry, PartitionBucket
from ...core.metadata.folding import live, may_hold
from ...core.metadata.schema import TableSchema
from ...core.metadata.schemas.merge_rules import POSTPONED, merge_rules
from ...core.metadata.snapshot import Snapshot
from ...core.metadata.sorted_runs.compaction_picks import PickRules, stop_trigger
from ...core.places import codec_of
from ..opened import OpenTable
from .key_plan import bucket_compactions
from .plan import CompactionPlan, target_bytes_of
from .run import AnyRewriter, Compaction, Rewrite, rewriter_of, rewritten_here, run_compaction

_LOG = logging.getLogger("lakelatch.compaction")
_ROUNDS = 10
"""How often a bucket is tried while others change it, if it has more runs than option `num-sorted-run.stop-trigger` allows, or
rows that are not visible yet."""


def compact_written(
    committer: Committer,
    timeline: Timeline,
    buckets: Collection[PartitionBucket],
    rewritten: Callable[[AnyRewriter], Rewrite] = rewritten_here,
) -> None:
    """Compact what is due in the buckets that the committer's newest commit has written into.

    Gives up quietly if other commits change them first, and raises nothing. `rewritten` makes the function that rewrites files.
    """
    schema = committer.schema
    touched = {bucket for bucket in buckets if bucket[1] != POSTPONED}
    if not schema.primary_keys or not touched or schema.options.get(opt.WRITE_ONLY):
        return
    try:
        known = committer.landed({partition for partition, _ in touched})
        if known is None:
            return
        snapshot, found = known
        due = [bucket for bucket in touched if is_due(schema, found, bucket)]
        urgent = due if _hides_rows(schema) else [b for b in due if found.run_count(b) > stop_trigger(schema.options)]
        if not committer.does_its_share():
            due = urgent
        done = compact_buckets(committer, timeline, snapshot, due, rewritten) if due else None
        for _ in range(_ROUNDS - 1):
            latest = timeline.latest() if done is not None and done.given_up and urgent else None
            if latest is None:
                return
            done = compact_buckets(committer, timeline, latest, urgent, rewritten)
        if done is not None and done.given_up:
            _LOG.warning(
                "others changed the buckets of this commit %d times: a later compaction has to finish them", _ROUNDS
            )
    except Exception as error:  # the write has landed
        _LOG.warning("the rows are committed, but compacting their buckets afterwards failed: %s", error)


def show_restored(table: OpenTable, schema: TableSchema, restored: Iterable[ManifestEntry]) -> None:
    """Compact the buckets to whose level 0 a rollback or an undo has brought files back, if readers do not see that level."""
    rules = merge_rules(schema)
    if rules is not None and rules.hides_level_0:
        buckets = {(e.partition, e.bucket) for e in restored if e.file.level == 0}
        compact_written(table.committer, table.timeline, buckets)


def is_due(schema: TableSchema, found: Buckets, bucket: PartitionBucket) -> bool:
    """May a bucket have something to compact? Without reading its files' metadata again."""
    rules = merge_rules(schema)
    assert rules is not None
    by_options = PickRules.of(schema.options, rules.has_lookups)
    early = (by_options.interval_ms, by_options.total_bytes, by_options.newer_bytes, _is_full(schema) or None)
    if by_options.raises_level_0 or any(limit is not None for limit in early):
        return True
    return found.run_count(bucket) >= by_options.trigger


def _hides_rows(schema: TableSchema) -> bool:
    """Are rows, or the changes that they make, visible only after a compaction that the write waits for?"""
    rules = merge_rules(schema)
    return rules is not None and rules.has_lookups and schema.options.get(opt.LOOKUP_WAIT)


def _is_full(schema: TableSchema) -> bool:
    """Does every write merge all files of its buckets? As in Apache Paimon, where a write is a batch."""
    commits = schema.options.get(opt.FULL_COMPACTION_COMMITS)
    return commits is not None and commits > 0


def compact_buckets(
    committer: Committer,
    timeline: Timeline,
    snapshot: Snapshot,
    due: Collection[PartitionBucket],
    rewritten: Callable[[AnyRewriter], Rewrite] = rewritten_here,
) -> Compaction | None:
    """Compact what is due in some buckets of a snapshot, once; None if nothing is."""
    schema, partitions = committer.schema, {partition for partition, _ in due}
    fields = codec_of(schema).fields
    manifests = [m for m in timeline.manifests(snapshot) if may_hold(m, partitions, fields)]
    found = timeline.parallel(timeline.entries_of, manifests)
    entries = live(entry for part in found for entry in part if entry.partition in partitions)
    chosen, index = [e for e in entries if (e.partition, e.bucket) in due], tuple(timeline.index_entries(snapshot))
    groups = bucket_compactions(timeline, snapshot, schema, chosen, index, full=_is_full(schema))
    if not groups:
        return None
    plan = CompactionPlan(snapshot, target_bytes_of(schema), tuple(groups), len(chosen), index)
    rewriter = rewriter_of(committer.store, timeline, schema, plan.groups, plan.target_bytes)
    return run_compaction(committer, timeline, schema, plan, rewritten(rewriter))
