"""Compact the buckets that a write has touched, after its commit, unless option `write-only` is set.

Owns: `compact_written`, `compact_buckets`, `show_restored`. Must not know: how rows were written. Source: format/primary-keys §7;
decision 41.

Invariants: The write is committed before this begins, and nothing that happens here can fail it. The compaction is a snapshot of
its own. Buckets that nobody wrote to are left alone. If nothing is due, nothing is read that the commit has not read. Of many
writers that commit at the same time, one compacts what can wait, and one at a time what cannot: the others leave it to that one,
or wait where their rows are not visible before (decision 129).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from ...coordinator.commit.aftercare import Aftercare
from ...coordinator.commit.committer import Committer
from ...coordinator.commit.settling.bucket_numbers import Buckets
from ...coordinator.history.timeline import Timeline
from ...core import options as opt
from ...core.metadata.data_file import ManifestEntry, PartitionBucket
from ...core.metadata.folding import live, may_hold, may_hold_buckets
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
_TOLD = "others changed the buckets of this commit %d times: a later compaction has to finish them"
_WAITS = 10
"""How often a writer waits for others who make its rows visible."""
_MOST_AT_ONCE = 64
"""How many buckets with rows that are not visible yet one writer takes care of, its own and those of others."""
_ANY: PartitionBucket = (b"", -1)
"""Who makes rows visible claims all buckets together: one snapshot for many is worth the wait."""


def compact_written(
    committer: Committer,
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
    care = committer.aftercare()
    try:
        (_show if _hides_rows(schema) else _tidy)(_Written(committer, care, rewritten), touched)
    except Exception as error:  # the write has landed
        _LOG.warning("the rows are committed, but compacting their buckets afterwards failed: %s", error)
    finally:
        care.give_back()


@dataclass(frozen=True)
class _Written:
    committer: Committer
    care: Aftercare
    rewritten: Callable[[AnyRewriter], Rewrite]

    def compact(self, snapshot: Snapshot, buckets: Collection[PartitionBucket]) -> Compaction | None:
        return compact_buckets(self.committer, self.care.timeline, snapshot, buckets, self.rewritten)


def _tidy(written: _Written, touched: Collection[PartitionBucket]) -> None:
    """Compact what is due in some buckets: once what can wait, again what has too many runs. Others may be at it already."""
    schema, care = written.committer.schema, written.care
    known = care.known(touched, runs=_due_from(schema))
    if known is None:  # another has carried the commit, and tidies up
        return
    left, done = [bucket for bucket in touched if is_due(schema, known[1], bucket)], None
    if not care.does_its_share():
        left = [bucket for bucket in left if _is_urgent(schema, known[1], bucket)]
    for tried in range(_ROUNDS):
        left = care.take(left) if left else []
        if not left:
            return
        if tried:
            known = care.newest(touched) or known
        done = written.compact(known[0], left)
        known = care.known(touched) or known
        left = [bucket for bucket in left if _is_urgent(schema, known[1], bucket)]
    if done is not None and done.given_up:
        _LOG.warning(_TOLD, _ROUNDS)


def _show(written: _Written, touched: Collection[PartitionBucket]) -> None:
    """Make the rows of a commit visible: compact its buckets, and those of others, who wait for the one that is at it."""
    schema, care, tried = written.committer.schema, written.care, 0
    known = care.known(touched, beside=True)
    if known is None:  # another has carried the commit, and is the first to be at it
        care.wait(0)
        known = care.newest(touched, beside=True)
    for _ in range(_WAITS):
        hidden = [b for b in touched if known is not None and _is_urgent(schema, known[1], b)]
        if known is None or not hidden:
            return
        if care.take([_ANY]):
            done = written.compact(known[0], [*hidden, *_others_hidden(schema, care, known[1], touched)])
            if done is None or not done.given_up:
                return
            tried += 1
            if tried == _ROUNDS:
                break
        else:
            care.wait_for(_ANY)
        known = care.newest(touched, beside=True)
    _LOG.warning(_TOLD, tried)


def _others_hidden(
    schema: TableSchema, care: Aftercare, found: Buckets, touched: Collection[PartitionBucket]
) -> list[PartitionBucket]:
    if not care.is_crowded or len(touched) > _MOST_AT_ONCE:
        return []
    others = (bucket for bucket in found.files if bucket not in touched and bucket[1] != POSTPONED)
    return [bucket for bucket in others if _is_urgent(schema, found, bucket)][: _MOST_AT_ONCE - len(touched)]


def _is_urgent(schema: TableSchema, found: Buckets, bucket: PartitionBucket) -> bool:
    """Has a bucket rows that are not visible yet, or more runs than it should ever have?"""
    if _hides_rows(schema):
        return bucket in found.files and found.files[bucket][0] > 0
    return found.run_count(bucket) > stop_trigger(schema.options)


def show_restored(table: OpenTable, schema: TableSchema, restored: Iterable[ManifestEntry]) -> None:
    """Compact the buckets to whose level 0 a rollback or an undo has brought files back, if readers do not see that level."""
    rules = merge_rules(schema)
    if rules is not None and rules.hides_level_0:
        buckets = {(e.partition, e.bucket) for e in restored if e.file.level == 0}
        compact_written(table.committer, buckets)


def is_due(schema: TableSchema, found: Buckets, bucket: PartitionBucket) -> bool:
    """May a bucket have something to compact? Without reading its files' metadata again."""
    return found.run_count(bucket) >= _due_from(schema)


def _due_from(schema: TableSchema) -> int:
    """From how many sorted runs on there may be something to compact."""
    rules = merge_rules(schema)
    assert rules is not None
    by_options = PickRules.of(schema.options, rules.has_lookups)
    early = (by_options.interval_ms, by_options.total_bytes, by_options.newer_bytes, _is_full(schema) or None)
    if by_options.raises_level_0 or any(limit is not None for limit in early):
        return 0
    return by_options.trigger


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
    held, wanted = committer.aftercare().manifests(snapshot), {bucket for _, bucket in due}
    manifests = [m for m in held if may_hold(m, partitions, fields) and may_hold_buckets(m, wanted)]
    found = timeline.parallel(timeline.entries_of, manifests)
    chosen = list(live(entry for part in found for entry in part if (entry.partition, entry.bucket) in due))
    index = tuple(timeline.index_entries(snapshot))
    groups = bucket_compactions(timeline, snapshot, schema, chosen, index, full=_is_full(schema))
    if not groups:
        return None
    plan = CompactionPlan(snapshot, target_bytes_of(schema), tuple(groups), len(chosen), index)
    rewriter = rewriter_of(committer.store, timeline, schema, plan.groups, plan.target_bytes)
    return run_compaction(committer, timeline, schema, plan, rewritten(rewriter))
