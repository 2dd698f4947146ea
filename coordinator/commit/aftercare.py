"""After a commit: how the buckets stand that it has written, and who of many writers takes care of them.

Owns: `Aftercare`. Must not know: what is done with a bucket. Source: decisions 41 and 129.
Invariant: where nobody else commits, it costs no request to find out who does the work.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field

from ...core.metadata.data_file import ManifestEntry, PartitionBucket
from ...core.metadata.folding import may_hold, may_hold_buckets
from ...core.metadata.manifest import ManifestFile
from ...core.metadata.schema import TableSchema
from ...core.metadata.snapshot import Snapshot
from ...core.places import codec_of
from ...core.rows.types import Field
from ..history.timeline import Timeline, ref_of
from ..intents.claims import Claims
from ..surroundings import Surroundings
from .base_numbers import BaseNumbers
from .knowledge import Knowledge
from .settling.bucket_numbers import Buckets

LONGEST_WAIT_S = 0.8
QUICK_WAITS, MOST_WAITS = 10, 65
GROWS = 1.3
"""Each wait is longer than the one before, then as long as it may be, until the claim of a dead process counts no more."""


@dataclass
class Aftercare:
    """What one committer does after one of its commits. Its timeline keeps the manifests that it reads for the next time."""

    timeline: Timeline
    schema: TableSchema
    around: Surroundings
    knows: Knowledge
    pool: Executor
    _claims: Claims = field(init=False)

    def __post_init__(self) -> None:
        self.timeline = self.timeline.holding(self.knows.files)
        self._claims = Claims(self.timeline, self.around)

    def does_its_share(self) -> bool:
        """Whether this writer should do work that any of those who commit at the same time could do, and one of them has to."""
        others = self.knows.crowd.size if self.is_crowded else 0.0
        return self.around.uniform(0.0, 1.0) * (1.0 + others) <= 1.0

    def known(
        self, places: Collection[PartitionBucket], *, beside: bool = False, runs: int = 0
    ) -> tuple[Snapshot, Buckets] | None:
        """The newest snapshot that is known, after a commit its own, and what its manifests say at least about some buckets, or
        about all buckets of their partitions (`beside`); None if none is known. Reads only manifests that this committer has
        neither written nor read, and not those that only add files where their buckets surely have fewer sorted runs than `runs`.
        """
        base = self.knows.newest.get()
        if base is None or base.snapshot is None or base.unread:
            return None
        return base.snapshot, self._of(base.manifests, places, beside, runs)

    def manifests(self, snapshot: Snapshot) -> tuple[ManifestFile, ...]:
        """Those of a snapshot, without a request where it is the newest that is known."""
        base = self.knows.newest.get()
        if base is not None and not base.unread and base.ref == ref_of(snapshot):
            return base.manifests
        return self.timeline.manifests(snapshot)

    def newest(self, places: Collection[PartitionBucket], *, beside: bool = False) -> tuple[Snapshot, Buckets] | None:
        """The same of the newest snapshot that there is, which is looked for."""
        numbers = BaseNumbers(self.timeline, self.knows, self.schema, self.around, self.pool)
        return None if numbers.snapshot is None else (numbers.snapshot, self._of(numbers.manifests, places, beside))

    def _of(
        self, manifests: Sequence[ManifestFile], places: Collection[PartitionBucket], beside: bool, runs: int = 0
    ) -> Buckets:
        timeline, fields = self.timeline, codec_of(self.schema).fields
        partitions, numbers = {partition for partition, _ in places}, {bucket for _, bucket in places}

        def read(unread: Sequence[ManifestFile]) -> list[list[ManifestEntry]]:
            return timeline.parallel(timeline.entries_of, unread)

        if runs:
            plain = [m for m in manifests if _only_adds_to_one(m) and not self.knows.buckets.knows([m])]
            names = {m.file_name for m in plain}
            rest = [m for m in manifests if m.file_name not in names]
            found = self.knows.buckets.of(rest, partitions, fields, read, numbers)
            if all(found.run_count(p) + _added(plain, p, fields) < runs for p in places):
                return found
        return self.knows.buckets.of(manifests, partitions, fields, read, None if beside else numbers)

    def take(self, buckets: Sequence[PartitionBucket]) -> list[PartitionBucket]:
        """Those buckets that no other writer is at work on. Others see that this one is, until `give_back`."""
        return self._claims.take(buckets) if self.is_crowded else list(buckets)

    def give_back(self) -> None:
        """Before the caller goes on: its process may end, and others wait."""
        self._claims.give_back()

    def wait(self, times: int) -> None:
        """Wait for those who work on what this writer needs, for about an attempt of a commit, and longer from time to time;
        not as long as others that wait, who then come one by one.
        """
        attempts_s = self.knows.crowd.attempt_s * GROWS ** min(times, QUICK_WAITS)
        longest_s = LONGEST_WAIT_S if times > QUICK_WAITS else min(LONGEST_WAIT_S, attempts_s)
        self.around.sleep(self.around.uniform(0.5, 1.0) * longest_s)

    def wait_for(self, bucket: PartitionBucket) -> None:
        """Wait until nobody is at work on a bucket any more, or for so long that whoever is may have died."""
        for times in range(MOST_WAITS):
            self.wait(times)
            if not self._claims.counts(bucket):
                return

    @property
    def is_crowded(self) -> bool:
        return self.knows.crowd.is_near(self.around.monotonic_s())


def _only_adds_to_one(manifest: ManifestFile) -> bool:
    return (
        not manifest.num_deleted_files
        and manifest.min_bucket is not None
        and manifest.min_bucket == manifest.max_bucket
    )


def _added(manifests: Iterable[ManifestFile], place: PartitionBucket, fields: Sequence[Field]) -> int:
    """At most so many files are added to a bucket, each of which is a sorted run at most."""
    return sum(
        m.num_added_files for m in manifests if may_hold_buckets(m, [place[1]]) and may_hold(m, {place[0]}, fields)
    )
