"""Check the sorted runs of tables with a primary key, and what snapshots say of sequence numbers.

Owns: `check_runs`, `check_counts`, `check_numbers`, `crowded_buckets`. Must not know: rows, how runs are compacted. Source:
format/primary-keys §2, §7; decision 128.
Invariant: Only metadata is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...coordinator.history.row_numbers import NUMBERS_PROPERTY, row_numbers
from ...coordinator.history.timeline import Timeline
from ...core.errors import TableCorrupt
from ...core.metadata.data_file import DataFile, ManifestEntry, PartitionBucket
from ...core.metadata.folding import live
from ...core.metadata.schema import TableSchema
from ...core.metadata.schemas.merge_rules import POSTPONED, MergeRules, merge_rules
from ...core.metadata.snapshot import Snapshot
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


def check_counts(schema: TableSchema, entries: Iterable[tuple[ManifestEntry, str]], findings: Findings) -> None:
    """Report partitions of a table with a primary key whose files were written with different bucket counts."""
    if not schema.primary_keys:
        return
    counts: dict[bytes, tuple[int, str]] = {}
    for entry, manifest in entries:
        if entry.total_buckets <= 0 or entry.bucket == POSTPONED:
            continue
        count, first = counts.setdefault(entry.partition, (entry.total_buckets, entry.file.file_name))
        if entry.total_buckets != count:
            message = (
                f"{first} was written for {count} buckets and {entry.file.file_name} for {entry.total_buckets}, in one partition:"
                " readers may return two rows of a key"
            )
            findings.error(TablePaths().manifest(manifest), "_TOTAL_BUCKETS", message)


def check_numbers(
    key: str, snapshot: Snapshot, entries: Iterable[tuple[ManifestEntry, str]], findings: Findings
) -> None:
    """Check what a snapshot says of its sequence numbers against its live files (decision 128)."""
    if NUMBERS_PROPERTY not in snapshot.own_properties:
        return
    said = row_numbers(snapshot)
    if said is None:
        message = "cannot be understood: it counts as missing, and the next commit writes it anew"
        findings.warning(key, NUMBERS_PROPERTY, message)
        return
    for entry, _ in entries:
        file = entry.file
        if entry.bucket >= 0 and file.max_sequence_number > said.largest:
            message = f"says that no row has a number above {said.largest}, but {file.file_name} has {file.max_sequence_number}"
            findings.error(key, NUMBERS_PROPERTY, message)
        if said.buckets is not None and 0 < entry.total_buckets != said.buckets and entry.bucket >= 0:
            message = f"says that there are {said.buckets} buckets, but {file.file_name} was written for {entry.total_buckets}"
            findings.error(key, NUMBERS_PROPERTY, message)


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
