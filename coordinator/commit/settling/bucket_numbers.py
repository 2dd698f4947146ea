"""Sequence numbers for new files of fixed buckets, and the check that their bucket count fits the base.

Owns: `BucketMemory` (a summary of each manifest's buckets, read once), `numbered` and the check `another_bucket_count`. Must not
know: stores, how files are written. Source: format/binary-row §5; format/data-files §6; H14.

Within a bucket numbers are unique, even with many writers. (Apache Paimon's concurrent writers may assign the same numbers, which
for append tables only changes the order in which a bucket is read.) Where a snapshot does not say what its numbers are (decision
128), they are assigned on the base of each attempt, above every number that the bucket's manifests mention, including those of
deleted files. Each manifest that may hold a written partition is read once, and the committer's own ones never.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ....core.metadata.change import owner_of
from ....core.metadata.data_file import ADD, EMPTY_ROW, SOURCE_APPEND, ManifestEntry, PartitionBucket
from ....core.metadata.folding import may_hold, may_hold_buckets
from ....core.metadata.manifest import ManifestFile
from ....core.paths import POSTPONE_BUCKET
from ....core.rows.partition import PartitionCodec
from ....core.rows.types import Field
from ..checks.conflicts import Conflict


@dataclass
class Buckets:
    """Sequence numbers, bucket counts and files with keys found in some entries.

    Attributes:
        last: the largest sequence number by partition and bucket.
        counts: the bucket counts that a partition's files were written with. Postponed files have none.
        files: by partition and bucket, how many files with keys are added to each level, less those that are deleted.
    """

    last: dict[PartitionBucket, int] = field(default_factory=dict)
    counts: dict[bytes, set[int]] = field(default_factory=dict)
    files: dict[PartitionBucket, Counter[int]] = field(default_factory=dict)

    @staticmethod
    def of(entries: Iterable[ManifestEntry]) -> Buckets:
        found = Buckets()
        for entry in entries:
            if entry.file.min_key != EMPTY_ROW:
                levels = found.files.setdefault((entry.partition, entry.bucket), Counter())
                levels[entry.file.level] += 1 if entry.kind == ADD else -1
            if entry.kind == ADD:
                found._add((entry.partition, entry.bucket), entry.file.max_sequence_number)
                if entry.bucket != POSTPONE_BUCKET:
                    found.counts.setdefault(entry.partition, set()).add(entry.total_buckets)
        return found

    def join(self, other: Buckets) -> None:
        for bucket, number in other.last.items():
            self._add(bucket, number)
        for partition, counts in other.counts.items():
            self.counts.setdefault(partition, set()).update(counts)
        for bucket, levels in other.files.items():
            self.files.setdefault(bucket, Counter()).update(levels)

    def run_count(self, bucket: PartitionBucket) -> int:
        """The number of sorted runs of a bucket: its files of level 0, and its higher levels with files."""
        levels = self.files.get(bucket, Counter())
        return levels[0] + sum(count > 0 for level, count in levels.items() if level)

    def _add(self, bucket: PartitionBucket, number: int) -> None:
        self.last[bucket] = max(number, self.last.get(bucket, number))


class BucketMemory:
    """Summaries of manifests, kept by a committer between its commits. Thread-safe: the mapping is replaced, never changed."""

    def __init__(self) -> None:
        self._known: Mapping[str, Buckets] = {}

    def learn(self, manifest: str, entries: Iterable[ManifestEntry]) -> None:
        self._known = {**self._known, manifest: Buckets.of(entries)}

    def knows(self, manifests: Iterable[ManifestFile]) -> bool:
        """Whether nothing has to be read for the summary of all these manifests."""
        return all(manifest.file_name in self._known for manifest in manifests)

    def of(
        self,
        manifests: Iterable[ManifestFile],
        partitions: set[bytes],
        fields: Sequence[Field],
        read: Callable[[Sequence[ManifestFile]], Iterable[Iterable[ManifestEntry]]],
        buckets: Collection[int] | None = None,
    ) -> Buckets:
        """The combined summary of the manifests that may hold some partitions, and some buckets if they are given; summaries of
        other manifests are dropped.
        """
        names = {m.file_name: m for m in manifests}
        known = {name: found for name, found in self._known.items() if name in names}
        wanted = [m for m in names.values() if may_hold(m, partitions, fields)]
        if buckets is not None:
            wanted = [m for m in wanted if may_hold_buckets(m, buckets)]
        unread = [m for m in wanted if m.file_name not in known]
        for manifest, entries in zip(unread, read(unread), strict=True):
            known[manifest.file_name] = Buckets.of(entries)
        self._known = known
        found = Buckets()
        for manifest in wanted:
            found.join(known[manifest.file_name])
        return found


def is_bucketed(entry: ManifestEntry) -> bool:
    """Whether the entry adds new rows to a fixed bucket. The output of a compaction keeps the numbers of its inputs."""
    return entry.kind == ADD and entry.total_buckets > 0 and entry.file.file_source == SOURCE_APPEND


def counts_buckets(entry: ManifestEntry) -> bool:
    return entry.kind == ADD and entry.total_buckets > 0


def numbered(entries: Iterable[ManifestEntry], buckets: Buckets) -> tuple[ManifestEntry, ...]:
    """The entries, with sequence numbers for each bucketed one that continue those of its bucket. Files with keys keep those of
    their rows, and so do files that stay and are only described anew.
    """
    last, found = dict(buckets.last), list(entries)
    kept = {owner_of(e) for e in found if e.kind != ADD}
    made = []
    for entry in found:
        if is_bucketed(entry) and entry.file.min_key == EMPTY_ROW and owner_of(entry) not in kept:
            bucket = (entry.partition, entry.bucket)
            first = last.get(bucket, -1) + 1
            last[bucket] = first + entry.file.row_count - 1
            file = entry.file._replace(min_sequence_number=first, max_sequence_number=last[bucket])
            entry = entry._replace(file=file)
        made.append(entry)
    return tuple(made)


def other_counts(entries: Iterable[ManifestEntry], buckets: Buckets) -> dict[bytes, set[int]]:
    """Partitions that would have files with different bucket counts after these entries."""
    counts = {
        e.partition: {e.total_buckets} | buckets.counts.get(e.partition, set()) for e in entries if counts_buckets(e)
    }
    return {partition: found for partition, found in counts.items() if len(found) > 1}


def another_bucket_count(
    entries: Iterable[ManifestEntry], alive: Iterable[ManifestEntry], codec: PartitionCodec
) -> Conflict | None:
    """Check that all live files of a partition have one bucket count: a reader looks for a key in one bucket only
    (format/binary-row §5). `alive` are the files that stay live; postponed ones may have any count.
    """
    new = {e.partition: e.total_buckets for e in entries if counts_buckets(e)}
    for entry in alive:
        count = new.get(entry.partition)
        if count is not None and entry.total_buckets != count and entry.bucket != POSTPONE_BUCKET:
            where = f"partition {codec.path(entry.partition)}" if codec.fields else "the table"
            reason = (
                f"{where} has files of {entry.total_buckets} buckets, this commit writes {count}: overwrite it first"
            )
            return Conflict("another_bucket_count", reason, (entry.file.file_name,))
    return None
