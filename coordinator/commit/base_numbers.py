"""The largest sequence numbers of the snapshot that a job begins on.

Owns: `BaseNumbers`. Must not know: what the new numbers are, rows. Source: format/primary-keys §3; H14; decision 39.
Invariants: the look never begins before the job. The job's commit builds on what it finds, so that nothing is read twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import replace

from ...core import options as opt
from ...core.metadata.data_file import ManifestEntry, PartitionBucket
from ...core.metadata.folding import live
from ...core.metadata.manifest import ManifestFile
from ...core.metadata.schema import TableSchema
from ...core.metadata.snapshot import Snapshot
from ...core.places import codec_of
from ..history.base import JUST_READ_MS, Base
from ..history.row_numbers import row_numbers
from ..history.timeline import Timeline, ref_of
from ..surroundings import Surroundings
from .knowledge import Knowledge
from .settling.bucket_numbers import Buckets


class BaseNumbers:
    """Looks for the newest snapshot while the job prepares its rows. Methods raise LakelatchError for an unreadable manifest."""

    def __init__(
        self, timeline: Timeline, knows: Knowledge, schema: TableSchema, around: Surroundings, pool: Executor
    ) -> None:
        self._timeline, self._knows, self._schema, self._around = timeline, knows, schema, around
        self._base: Future[Base] = pool.submit(self._look)
        self._whole: Base | None = None

    @property
    def snapshot(self) -> Snapshot | None:
        return self._base.result().snapshot

    def largest(self, partitions: set[bytes]) -> Mapping[PartitionBucket, int]:
        """The largest number of each bucket of some partitions; buckets without rows are missing, or have that of others."""
        said = row_numbers(self.snapshot)
        return _Everywhere(said.largest) if said is not None else self.buckets(partitions).last

    def buckets(self, partitions: set[bytes]) -> Buckets:
        """What its manifests say about the buckets of some partitions."""
        return self._knows.buckets.of(self.manifests, partitions, codec_of(self._schema).fields, self._read)

    def bucket_count(self, partition: bytes) -> int | None:
        """The number of buckets of a partition's files; None if it has none in real buckets."""
        said = row_numbers(self.snapshot)
        if said is not None and said.buckets == self._schema.options.get(opt.POSTPONE_DEFAULT_BUCKETS):
            return said.buckets  # of all partitions, and of one without files it is the same
        counts = self.buckets({partition}).counts.get(partition, set())
        if len(counts) > 1:  # it was rescaled: only live files say which count holds
            counts = Buckets.of(live(self._timeline.entries(self.manifests))).counts.get(partition, set())
        return _real(counts)

    def bucket_counts(self) -> dict[bytes, int]:
        """The same, of all partitions that have files in real buckets."""
        manifests = self.manifests
        counts = self._knows.buckets.of(manifests, {b""}, (), self._read).counts
        if any(len(found) > 1 for found in counts.values()):
            counts = Buckets.of(live(self._timeline.entries(manifests))).counts
        real = {partition: _real(found) for partition, found in counts.items()}
        return {partition: count for partition, count in real.items() if count is not None}

    def largest_of_all(self) -> int:
        """The largest number of the whole table, -1 for none: for jobs that do not know which partitions they will write."""
        said = row_numbers(self.snapshot)
        if said is not None:
            return said.largest
        found = self._knows.buckets.of(self.manifests, {b""}, (), self._read)
        return max(found.last.values(), default=-1)

    @property
    def manifests(self) -> tuple[ManifestFile, ...]:
        """Those of the base, which are read where its snapshot does not say enough."""
        if self._whole is None:
            base = self._base.result()
            if base.unread and base.snapshot is not None:
                base = replace(base, manifests=self._timeline.manifests(base.snapshot), unread=False)
                self._knows.newest.learn(base)
            self._whole = base
        return self._whole.manifests

    def _read(self, manifests: Sequence[ManifestFile]) -> list[list[ManifestEntry]]:
        return self._timeline.parallel(self._timeline.entries_of, manifests)

    def _look(self) -> Base:
        known, now_ms = self._knows.newest.get(), self._around.now_ms
        just_read = known is not None and known.snapshot is not None and now_ms - known.seen_ms <= JUST_READ_MS
        look = self._timeline.look(known.snapshot if known is not None else None, just_read=just_read)
        latest = look.snapshot
        named = latest.schema_id if latest is not None else 0
        is_fresh = known is not None and known.is_fresh(now_ms, self._schema.options.get(opt.SNAPSHOT_TIME_RETAINED))
        listed = [] if is_fresh else self._timeline.schema_ids()
        schema_id = max(self._schema.id, named, *listed, known.schema_id if known is not None else 0)
        if known is not None and known.ref == ref_of(latest) and not known.unread:
            base = Base(latest, known.manifests, schema_id, now_ms, look.unhinted)
        elif row_numbers(latest) is not None:
            base = Base(latest, (), schema_id, now_ms, look.unhinted, unread=True)
        else:
            manifests = self._timeline.manifests(latest) if latest is not None else ()
            base = Base(latest, manifests, schema_id, now_ms, look.unhinted)
        self._knows.newest.learn(base)
        return base


class _Everywhere(Mapping[PartitionBucket, int]):
    """The same number in every bucket."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __getitem__(self, place: PartitionBucket) -> int:
        return self._number

    def __iter__(self) -> Iterator[PartitionBucket]:
        return iter(())

    def __len__(self) -> int:
        return 0


def _real(counts: Iterable[int]) -> int | None:
    return max((count for count in counts if count > 0), default=None)
