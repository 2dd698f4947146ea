"""Claims: a writer that compacts a bucket after its commit says so, and the others leave the bucket to it.

Owns: `Claims`. Must not know: what is done with a bucket, who waits for it. Source: decision 129.
Invariant: as for tickets, a claim decides nothing. Two that work on one bucket at once lose one of two races; so whatever is
wrong with the store or with a claim counts as leave to work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from ...backends.store import AlreadyThere, ObjectNotFound
from ...core.errors import LakelatchError
from ...core.metadata.data_file import PartitionBucket
from ..history.timeline import Timeline
from ..surroundings import Surroundings
from .shelf import folder_of
from .tickets import withdraw

STALE_AFTER_MS = 20_000
"""A claim that is older counts for nothing: its process has died, or works for so long that nobody should wait for it."""


@dataclass
class Claims:
    """What one writer has claimed. `key_of` is where others see it, as an object beside the tickets."""

    timeline: Timeline
    around: Surroundings
    _held: dict[PartitionBucket, str] = field(default_factory=dict)

    def take(self, buckets: Sequence[PartitionBucket]) -> list[PartitionBucket]:
        """Those that nobody else has claimed, which are this writer's until `give_back`. Takes a round trip or two."""
        taken = self.timeline.parallel(self._take, buckets)
        return [bucket for bucket, is_taken in zip(buckets, taken, strict=True) if is_taken]

    def give_back(self) -> None:
        keys, self._held = list(self._held.values()), {}
        if keys:
            withdraw(self.timeline.store, keys)

    def _take(self, bucket: PartitionBucket) -> bool:
        key = self.key_of(bucket)
        if bucket in self._held:
            return True
        try:
            answer = self.timeline.store.put_if_absent(key, b"")
        except LakelatchError:
            return True
        if isinstance(answer, AlreadyThere) and not answer.earlier_send and self.counts(bucket):
            return False
        self._held[bucket] = key
        return True

    def key_of(self, bucket: PartitionBucket) -> str:
        partition = blake2b(bucket[0], digest_size=8).hexdigest()
        return f"{folder_of(self.timeline.paths)}ticket-of-{partition}-{bucket[1]}"

    def counts(self, bucket: PartitionBucket) -> bool:
        """Whether another has claimed a bucket, and may be alive."""
        try:
            info = self.timeline.store.head(self.key_of(bucket))
        except (ObjectNotFound, LakelatchError):
            return False
        return not info.size and not 0 < info.modified_ms < self.around.wall_ms - STALE_AFTER_MS
