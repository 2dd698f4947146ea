"""What a committer keeps from one commit to the next, so that the next reads less.

Owns: `Knowledge`, `NewestBase`. Must not know: how any of it was found out, or what a commit makes of it.
Invariant: all of it may be thrown away at any time; a commit then looks again.
"""

from __future__ import annotations

from ...backends.threads import PerProcess, forked_lock
from ...core.metadata.schema import TableSchema
from ..history.base import Base
from ..identities.recall import Known
from ..surroundings import Surroundings
from .bucket_numbers import BucketMemory
from .retries import Crowd


class NewestBase:
    """The newest base that is known. Thread-safe."""

    def __init__(self) -> None:
        self._base: Base | None = None
        self._lock = forked_lock()

    def get(self) -> Base | None:
        with self._lock:
            return self._base

    def id(self) -> int:
        """The id of its snapshot, 0 where nothing is known."""
        base = self.get()
        return base.id if base is not None else 0

    def learn(self, base: Base) -> None:
        """Take a base over, unless what is known was seen later."""
        with self._lock:
            if self._base is None or self._base.seen_ms <= base.seen_ms:
                self._base = base

    def forget(self) -> None:
        """What was known may be wrong by now: the next commit looks first."""
        with self._lock:
            self._base = None


class Knowledge:
    """One committer's knowledge of its table.

    Attributes:
        newest: the snapshot to build on.
        buckets: what manifests say of fixed buckets.
        identities: memories, pages and leaves of identities.
        schemas: the table's, by id.
        crowd: how many other writers were met lately.
        writer_id: this committer's name in the snapshots that it makes; a child of a fork has another.
    """

    def __init__(self, around: Surroundings, schema: TableSchema) -> None:
        self.newest = NewestBase()
        self.buckets = BucketMemory()
        self.identities = Known()
        self.schemas = {schema.id: schema}
        self.crowd = Crowd()
        self.writer_id = PerProcess(lambda: around.new_uuid().hex[:16])
