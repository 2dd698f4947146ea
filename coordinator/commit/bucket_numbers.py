"""What files of fixed buckets get from the base that they land on: their sequence numbers, and whether their bucket count fits.

Owns: `BucketMemory` (what each manifest says of its buckets, read once), `numbered`, the check `another_bucket_count`.
Must not know: stores, how files are written. Source: format/binary-row §5; format/data-files §6; H14.

Numbers are given at the commit, on the base of each attempt: those of one bucket are unique and grow with the snapshots, however
many writers there are. (Apache Paimon's writers restore the largest number when they begin to write, so that two at once give the
same ones; for append tables that only blurs the order in which a bucket is read.) They begin above every number that the
bucket's manifests mention, that of a deleted file too. What it costs: a manifest is read once, and only where it may hold
partitions that are written to; a committer's own manifests never are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ...core.metadata.data_file import ADD, SOURCE_APPEND, ManifestEntry, PartitionBucket
from ...core.metadata.folding import may_hold
from ...core.metadata.manifest import ManifestFile
from ...core.rows.partition import PartitionCodec
from ...core.rows.types import Field
from .conflicts import Conflict


@dataclass
class Buckets:
    """What some entries say of fixed buckets.

    Attributes:
        last: the largest sequence number by partition and bucket.
        counts: the bucket counts that a partition's files were written with.
    """

    last: dict[PartitionBucket, int] = field(default_factory=dict)
    counts: dict[bytes, set[int]] = field(default_factory=dict)

    @staticmethod
    def of(entries: Iterable[ManifestEntry]) -> Buckets:
        """The sum of what entries add."""
        found = Buckets()
        for entry in entries:
            if entry.kind == ADD:
                found._add((entry.partition, entry.bucket), entry.file.max_sequence_number)
                found.counts.setdefault(entry.partition, set()).add(entry.total_buckets)
        return found

    def join(self, other: Buckets) -> None:
        """Take over what another one says."""
        for bucket, number in other.last.items():
            self._add(bucket, number)
        for partition, counts in other.counts.items():
            self.counts.setdefault(partition, set()).update(counts)

    def _add(self, bucket: PartitionBucket, number: int) -> None:
        self.last[bucket] = max(number, self.last.get(bucket, -1))


class BucketMemory:
    """What the manifests of a table say of its buckets; kept by a committer between its commits. Thread-safe by replacement."""

    def __init__(self) -> None:
        self._known: Mapping[str, Buckets] = {}

    def learn(self, manifest: str, entries: Iterable[ManifestEntry]) -> None:
        """A manifest, by its name, whose entries are at hand."""
        self._known = {**self._known, manifest: Buckets.of(entries)}

    def of(
        self,
        manifests: Iterable[ManifestFile],
        partitions: set[bytes],
        fields: Sequence[Field],
        read: Callable[[Sequence[ManifestFile]], Iterable[Iterable[ManifestEntry]]],
    ) -> Buckets:
        """What manifests say of partitions.

        Args:
            manifests: of a snapshot, all of them; others are forgotten.
            fields: the partition columns.
            read: the entries of each of some manifests.
        """
        names = {m.file_name: m for m in manifests}
        known = {name: found for name, found in self._known.items() if name in names}
        wanted = [m for m in names.values() if may_hold(m, partitions, fields)]
        unread = [m for m in wanted if m.file_name not in known]
        for manifest, entries in zip(unread, read(unread), strict=True):
            known[manifest.file_name] = Buckets.of(entries)
        self._known = known
        found = Buckets()
        for manifest in wanted:
            found.join(known[manifest.file_name])
        return found


def is_bucketed(entry: ManifestEntry) -> bool:
    """Does the entry add new rows to a fixed bucket? What a compaction writes keeps the numbers of its inputs."""
    return entry.kind == ADD and entry.total_buckets > 0 and entry.file.file_source == SOURCE_APPEND


def numbered(entries: Iterable[ManifestEntry], buckets: Buckets) -> tuple[ManifestEntry, ...]:
    """The entries, each bucketed one with the sequence numbers that follow those of its bucket."""
    last = dict(buckets.last)
    made = []
    for entry in entries:
        if is_bucketed(entry):
            bucket = (entry.partition, entry.bucket)
            first = last.get(bucket, -1) + 1
            last[bucket] = first + entry.file.row_count - 1
            file = entry.file._replace(min_sequence_number=first, max_sequence_number=last[bucket])
            entry = entry._replace(file=file)
        made.append(entry)
    return tuple(made)


def other_counts(entries: Iterable[ManifestEntry], buckets: Buckets) -> dict[bytes, set[int]]:
    """Partitions that the entries would give files of more than one bucket count."""
    counts = {
        e.partition: {e.total_buckets} | buckets.counts.get(e.partition, set()) for e in entries if is_bucketed(e)
    }
    return {partition: found for partition, found in counts.items() if len(found) > 1}


def another_bucket_count(
    entries: Iterable[ManifestEntry], alive: Iterable[ManifestEntry], codec: PartitionCodec
) -> Conflict | None:
    """All live files of a partition have one bucket count: a reader looks for a key in one bucket only (format/binary-row §5).

    Args:
        entries: of the commit.
        alive: the files that stay, those that the commit deletes left out.
    """
    new = {e.partition: e.total_buckets for e in entries if is_bucketed(e)}
    for entry in alive:
        count = new.get(entry.partition)
        if count is not None and entry.total_buckets != count:
            where = f"partition {codec.path(entry.partition)}" if codec.fields else "the table"
            reason = (
                f"{where} has files of {entry.total_buckets} buckets, this commit writes {count}: overwrite it first"
            )
            return Conflict("another_bucket_count", reason, (entry.file.file_name,))
    return None
