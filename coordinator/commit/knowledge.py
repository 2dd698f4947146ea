"""What a committer keeps from one commit to the next, so that the next one reads less.

Owns: `Knowledge`, `NewestBase`. Must not know: where the knowledge comes from, or how a commit uses it.
Invariant: all of it can be dropped at any time; the next commit then reads the store.
"""

from __future__ import annotations

import math

from ...backends.requests.threads import PerProcess, forked_lock
from ...core.metadata.schema import TableSchema
from ..history.base import Base
from ..history.kept_files import KeptFiles
from ..history.timeline import Timeline
from ..identities.recall import Known
from ..surroundings import Surroundings
from .attempt import MetadataWriter
from .request import CommitRequest
from .retries import Crowd
from .riding.group import rides_by_option
from .settling.bucket_numbers import BucketMemory
from .settling.declared import Numbering
from .settling.hash_indexes import HashMemory
from .settling.settler import Settler

_KEPT_BYTES = 16 << 20


class NewestBase:
    """The newest base that is known. Thread-safe."""

    def __init__(self) -> None:
        self._base: Base | None = None
        self._lock = forked_lock()

    def get(self) -> Base | None:
        with self._lock:
            return self._base

    def id(self) -> int:
        base = self.get()
        return base.id if base is not None else 0

    def learn(self, base: Base) -> None:
        """Keep a base, unless the known one was seen later."""
        with self._lock:
            if self._base is None or self._base.seen_ms <= base.seen_ms:
                self._base = base

    def forget(self) -> None:
        with self._lock:
            self._base = None


class Knowledge:
    """One committer's knowledge of its table.

    Attributes:
        files: manifests that were read after commits, to compact buckets.
        hinted_s: when its last hint was written, in monotonic seconds.
        writer_id: this committer's name in the snapshots that it makes; a forked child process gets another.
    """

    def __init__(self, around: Surroundings, schema: TableSchema) -> None:
        self._around, self._schema = around, schema
        self.newest = NewestBase()
        self.buckets = BucketMemory()
        self.hashes = HashMemory()
        self.identities = Known()
        self.schemas = {schema.id: schema}
        self.files = KeptFiles(_KEPT_BYTES)
        self.crowd = Crowd()
        self.hinted_s = -math.inf
        self.writer_id = PerProcess(lambda: around.new_uuid().hex[:16])

    def settler(self, request: CommitRequest, timeline: Timeline, writer: MetadataWriter, rides: bool) -> Settler:
        """For one commit, which may ride itself."""
        worth = rides or rides_by_option(self._schema)
        numbering = Numbering(self._schema, timeline, self._around, self.buckets, worth)
        return Settler(request, self._schema, timeline, writer, numbering, self.hashes)
