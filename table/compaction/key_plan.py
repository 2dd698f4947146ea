"""Choose the sorted runs of a table with a primary key that are compacted together.

Owns: `BucketCompaction`, `live_files`, `bucket_compactions`. Must not know: how files are rewritten or committed.
Source: format/primary-keys §7. Invariants: The files of a compaction are the newest runs of one (partition, bucket). Planning
reads only metadata. Postponed rows (bucket -2) are no runs; they are put into real buckets first.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ...coordinator.history.timeline import Timeline
from ...coordinator.surroundings import MACHINE
from ...core import options as opt
from ...core.errors import Unsupported
from ...core.expressions.tree import Predicate
from ...core.metadata.data_file import IndexEntry, ManifestEntry
from ...core.metadata.folding import live
from ...core.metadata.schema import TableSchema
from ...core.metadata.schemas.merge_rules import POSTPONED, MergeRules, merge_rules
from ...core.metadata.schemas.record_expiry import record_expiry
from ...core.metadata.snapshot import Snapshot
from ...core.metadata.sorted_runs.compaction_picks import Pick, PickRules, drops_deletes, pick, pick_all
from ...core.metadata.sorted_runs.levels import SortedRun, runs_of
from ...core.metadata.sorted_runs.lookup_rules import lookup_rules
from ...core.places import codec_of
from ..merging.merge import columns_to_merge
from ..reading.expired import has_expired_rows
from ..scan.entry_pruning import wanted_entries
from ..scan.plan import may_hold
from ..scan.refusals import check_files_readable
from ..scan.split import Split
from ..scan.split_planning import SplitPlanner
from ..writing.files.key_files import KeyFileSettings


@dataclass(frozen=True)
class BucketCompaction(Split):
    """The files of one (partition, bucket) that are compacted together, into `output_level`.

    Attributes:
        last_level: the last level of the bucket.
        drops_deletes: rows that delete are left out.
        one_by_one: each file is rewritten by itself.
        why: the rule that chose the files.
        above: the bucket's files of levels above the output, in which older rows are looked up; None if none are.
        index: the index files of the bucket, if older rows are looked up.
    """

    output_level: int = 0
    last_level: int = 0
    drops_deletes: bool = False
    one_by_one: bool = False
    why: str = ""
    above: Split | None = None
    index: tuple[IndexEntry, ...] = ()


def check_key_compactable(schema: TableSchema) -> MergeRules:
    """The rules of a table with a primary key; refuses tables whose files cannot be merged or written."""
    rules = merge_rules(schema)
    assert rules is not None
    columns_to_merge(rules, schema.fields, [f.name for f in schema.fields])
    if schema.options.texts.get("pk-clustering-override", "false").lower() == "true":
        raise Unsupported(
            "option 'pk-clustering-override' = true: compacting files that are not sorted by key is not supported",
            next_step="compact the table with Apache Paimon",
        )
    if lookup_rules(schema, rules).writes_changelog:
        KeyFileSettings.of(schema, level=1, changelog=True)
    KeyFileSettings.of(schema, level=1)
    return rules


def live_files(
    timeline: Timeline,
    snapshot: Snapshot,
    schema: TableSchema,
    on_partition: Predicate | None,
) -> list[ManifestEntry]:
    """The files of the partitions that a bound predicate chooses, of all levels and buckets."""
    codec = codec_of(schema)
    manifests = timeline.manifests(snapshot)
    readable = [m for m in manifests if on_partition is None or may_hold(m, on_partition, codec)]
    found = wanted_entries(timeline.entry_parts(readable), on_partition, None, schema, timeline.schema, codec)
    return live(found.entries())


def bucket_compactions(
    timeline: Timeline,
    snapshot: Snapshot,
    schema: TableSchema,
    entries: Sequence[ManifestEntry],
    index: Iterable[IndexEntry],
    *,
    full: bool,
) -> list[BucketCompaction]:
    """What is due in each bucket, whose live files are `entries`. With `full`, all runs are merged even if nothing is due."""
    rules, index = check_key_compactable(schema), tuple(index)
    check_files_readable(schema, entries)

    def schema_of(schema_id: int) -> TableSchema:
        return schema if schema_id == schema.id else timeline.schema(schema_id, timeline.file_of(snapshot))

    planner = SplitPlanner(schema, schema_of, index, timeline.paths.branch, timeline.file_of(snapshot))
    now = MACHINE.wall_s()
    here, expiry = time.localtime(now), record_expiry(schema)
    now_ms, hour = int((now + here.tm_gmtoff) * 1000), here.tm_hour
    found = [
        _compaction(bucket, Pick((SortedRun(0, bucket.files),), 0, "postponed rows go to real buckets"), 0, False)
        for bucket in planner.whole_buckets(e for e in entries if e.bucket == POSTPONED)
    ]
    for bucket in planner.whole_buckets(e for e in entries if e.bucket != POSTPONED):
        runs = runs_of(bucket.files, rules.keys)
        by_options = PickRules.of(schema.options, rules.has_lookups, bucket.files)
        if full:
            marked = frozenset(f.file_name for i, f in enumerate(bucket.files) if bucket.deletion(i) is not None)
            if expiry is not None:
                marked |= {f.file_name for f in bucket.files if has_expired_rows(expiry, f, schema_of, now)}
            rewrites = schema.options.get(opt.COMPACTION_FORCE_REWRITE)
            chosen = pick_all(by_options, runs, marked=marked, rewrites=rewrites)
        else:
            chosen = pick(by_options, runs, now_ms=now_ms, hour=hour)
        if chosen is not None:
            drops = drops_deletes(chosen, runs, rules.has_vectors)
            group = _compaction(bucket, chosen, by_options.last_level, drops)
            found.append(_with_lookups(group, bucket, index) if rules.has_lookups else group)
    return found


def above_of(group: Split) -> Split | None:
    """The files in which the compaction of a bucket looks up older rows; None if it does not."""
    return group.above if isinstance(group, BucketCompaction) else None


def _with_lookups(group: BucketCompaction, bucket: Split, index: Iterable[IndexEntry]) -> BucketCompaction:
    wanted = [i for i, file in enumerate(bucket.files) if file.level > group.output_level]
    above = replace(
        bucket,
        files=tuple(bucket.files[i] for i in wanted),
        keys=tuple(bucket.keys[i] for i in wanted),
        deletions=(),
    )
    place = (bucket.partition, bucket.bucket)
    return replace(group, above=above, index=tuple(e for e in index if (e.partition, e.bucket) == place))


def _compaction(bucket: Split, chosen: Pick, last_level: int, drops: bool) -> BucketCompaction:
    places = {file.file_name: i for i, file in enumerate(bucket.files)}
    wanted = [places[file.file_name] for file in chosen.files]
    deletions = tuple(bucket.deletion(i) for i in wanted)
    return BucketCompaction(
        bucket.partition,
        bucket.partition_path,
        bucket.bucket,
        bucket.total_buckets,
        tuple(bucket.files[i] for i in wanted),
        tuple(bucket.keys[i] for i in wanted),
        deletions=deletions if any(deletions) else (),
        branch=bucket.branch,
        named_by=bucket.named_by,
        output_level=chosen.output_level,
        last_level=last_level,
        drops_deletes=drops,
        one_by_one=chosen.one_by_one,
        why=chosen.why,
    )
