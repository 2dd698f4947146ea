"""Check the sorted runs of tables with a primary key.

Owns: `check_runs`, `crowded_buckets`. Must not know: rows, how runs are compacted. Source: format/primary-keys §2, §7.
Invariant: Only metadata is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...coordinator.history.timeline import Timeline
from ...core.errors import TableCorrupt
from ...core.metadata.data_file import DataFile, ManifestEntry, PartitionBucket
from ...core.metadata.folding import live
from ...core.metadata.schema import TableSchema
from ...core.metadata.schemas.merge_rules import POSTPONED, MergeRules, merge_rules
from ...core.metadata.sorted_runs.compaction_picks import stop_trigger
from ...core.metadata.sorted_runs.levels import overlapping, run_count
from ...core.paths import TablePaths
from ...core.places import codec_of
from .finding import Findings


@dataclass(frozen=True)
class CrowdedBucket:
    """A bucket, by its folder, with more sorted runs than the most that it should have."""

    folder: str
    runs: int
    most: int


def check_runs(schema: TableSchema, entries: Iterable[tuple[ManifestEntry, str]], findings: Findings) -> None:
    """Report files of one level above 0 that have keys in common: readers could return both rows of a key."""
    rules = merge_rules(schema)
    if rules is None or not _is_sorted(rules):
        return
    manifests: dict[str, str] = {}
    by_bucket: dict[PartitionBucket, list[DataFile]] = {}
    for entry, manifest in entries:
        if entry.file.level and entry.bucket != POSTPONED:
            by_bucket.setdefault((entry.partition, entry.bucket), []).append(entry.file)
            manifests[entry.file.file_name] = manifest
    for files in by_bucket.values():
        try:
            found = overlapping(files, rules.keys)
        except TableCorrupt as error:
            findings.error(TablePaths().manifest(manifests[files[0].file_name]), "_MIN_KEY", error.message)
            continue
        for first, second in found:
            message = (
                f"level {first.level} has files with keys in common, {first.file_name} and {second.file_name}:"
                " of a key in both, readers may return both rows"
            )
            findings.error(TablePaths().manifest(manifests[second.file_name]), "_MIN_KEY", message)


def crowded_buckets(timeline: Timeline) -> list[CrowdedBucket]:
    """The buckets of the newest snapshot that have more runs than option `num-sorted-run.stop-trigger` allows, most first."""
    snapshot, schema = timeline.latest(), timeline.latest_schema()
    if snapshot is None or not schema.primary_keys:
        return []
    most, codec = stop_trigger(schema.options), codec_of(schema)
    by_bucket: dict[PartitionBucket, list[DataFile]] = {}
    for entry in live(timeline.entries(timeline.manifests(snapshot))):
        if entry.bucket != POSTPONED:
            by_bucket.setdefault((entry.partition, entry.bucket), []).append(entry.file)
    counts = {bucket: run_count(files) for bucket, files in by_bucket.items()}
    found = [
        CrowdedBucket(timeline.paths.bucket_dir(codec.path(partition), bucket), counts[partition, bucket], most)
        for partition, bucket in by_bucket
        if counts[partition, bucket] > most
    ]
    return sorted(found, key=lambda crowded: -crowded.runs)


def _is_sorted(rules: MergeRules) -> bool:
    return not rules.is_on("pk-clustering-override")
