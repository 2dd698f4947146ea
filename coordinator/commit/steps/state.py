"""What one commit knows while it runs: its attempt, and what lasts from one attempt to the next.

Owns: `Attempt` (a value: the base, and the files made on it) and `RunState`, which the steps of a commit share. Must not know:
what a step does. Invariant: the snapshot's contents come from the same values that its files are made of.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace

from ....backends.store import Store
from ....core import options as opt
from ....core.errors import LakelatchError
from ....core.metadata.data_file import ManifestEntry
from ....core.metadata.manifest import ManifestFile
from ....core.metadata.schema import TableSchema
from ....core.metadata.snapshot import Snapshot
from ...history.base import Base
from ...history.timeline import Timeline
from ...identities.memory import Memory
from ...identities.recall import Recalled
from ...protocol import events as ev
from ...protocol.snapshot_ref import SnapshotRef
from ...surroundings import Surroundings
from ..attempt import Delta, MetadataFile, MetadataWriter, committer_of
from ..checks.conflicts import Conflict
from ..knowledge import Knowledge
from ..request import CommitRequest
from ..riding.group import Group
from ..settling.manifest_compaction import Merges
from ..settling.settler import Settled, Settler

NOTHING_REMEMBERED = Memory()


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to publish, and its progress; after a lost race another one begins.

    Attributes:
        recalled, memory: the identities found in the base's history, and those that the new snapshot remembers.
        identities: new files for the identities that the snapshot has no room for.
        sent_ms: monotonic clock at its first send, in milliseconds; None before.
    """

    base: Base
    ours: SnapshotRef
    recalled: Recalled
    memory: Memory = NOTHING_REMEMBERED
    identities: tuple[str, ...] = ()
    settled: Settled | None = None
    base_manifests: tuple[ManifestFile, ...] = ()
    base_list: MetadataFile | None = None
    delta: Delta | None = None
    snapshot: Snapshot | None = None
    data: bytes = b""
    sent_ms: float | None = None

    @property
    def entries(self) -> tuple[ManifestEntry, ...]:
        return self.settled.entries if self.settled is not None else ()

    @property
    def needs(self) -> frozenset[str]:
        """The names of all metadata files that the snapshot references, this commit's and older ones."""
        if self.base_list is None or self.delta is None or self.settled is None:
            return frozenset()  # an earlier attempt landed, or another process with the same identity
        lists = {self.base_list.name, self.delta.list.name, self.settled.index_manifest or self.delta.list.name}
        lists.update(self.delta.changelog.names if self.delta.changelog is not None else ())
        return frozenset(lists.union(self.identities, (m.file_name for m in (*self.base_manifests, *self.delta.lines))))


@dataclass
class LeftBehind:
    """What attempts leave for what comes after them.

    Attributes:
        made: the keys of the index files and marks that they have made, each on its own base.
        ahead: the newest snapshot when this commit was found in one of another; its manifests were not read.
        replaced: snapshots that were known, each with the one that another writer has put in its place since.
        offered: the manifests that the newest intent names.
        closes: what snapshots say that close the window of the intent; None as long as the commit has not given up.
    """

    made: list[str] = field(default_factory=list)
    ahead: Base | None = None
    replaced: list[tuple[Snapshot, Snapshot]] = field(default_factory=list)
    offered: Delta | None = None
    closes: CommitRequest | None = None


@dataclass
class RunState:
    """The state of one commit; all but the attempt lasts for the whole commit.

    Attributes:
        warm: the base that the committer knew, used for the first attempt while it is fresh.
        tried: every snapshot of the commit that was sent, or may be sent by another process that finds it in the journal.
        lost: the snapshots that won the races which this commit lost.
    """

    request: CommitRequest
    timeline: Timeline
    writer: MetadataWriter
    settler: Settler
    knows: Knowledge
    warm: Base | None
    group: Group
    attempt: Attempt | None = None
    merges: Merges = field(init=False)
    tried: list[ev.SnapshotPrepared] = field(default_factory=list)
    lost: list[Snapshot] = field(default_factory=list)
    left: LeftBehind = field(default_factory=LeftBehind)

    def __post_init__(self) -> None:
        self.merges = Merges(self.timeline, self.writer)

    @property
    def around(self) -> Surroundings:
        return self.group.around

    @property
    def store(self) -> Store:
        return self.timeline.store

    @property
    def schema(self) -> TableSchema:
        return self.writer.schema

    @property
    def sent(self) -> bool:
        """Whether any snapshot was sent that names the data files of this commit."""
        return bool(self.lost) or (self.attempt is not None and self.attempt.sent_ms is not None)

    @property
    def newer_schema(self) -> Conflict | None:
        """The conflict with a newer schema, if one was seen. None while others may carry the commit: its intent was registered
        after a look, so such a schema came after the commit had begun, and the rows may land as they are.
        """
        return None if self.group.intent is not None else self.settler.newest_schema.conflict

    @property
    def landed(self) -> Snapshot | None:
        return self.attempt.snapshot if self.attempt is not None else None

    @property
    def others_met(self) -> int:
        return len({committer_of(winner) for winner in self.lost})

    @property
    def newest_seen_id(self) -> int:
        """The newest snapshot that this commit has built on, or knew before; 0 for none."""
        base = self.attempt.base if self.attempt is not None else self.warm
        return base.id if base is not None else 0

    def _is_fresh(self, base: Base) -> bool:
        return base.is_fresh(self.around.now_ms, self.schema.options.get(opt.SNAPSHOT_TIME_RETAINED))

    def _read_manifests(self) -> None:
        """Read the base's manifests early. An error is met again, and told, when they are needed."""
        with suppress(LakelatchError):
            self._with_manifests()

    def _with_manifests(self) -> Attempt:
        attempt = self._attempt()
        if attempt.base.unread and attempt.base.snapshot is not None:
            manifests = self.timeline.manifests(attempt.base.snapshot)
            self.attempt = attempt = replace(attempt, base=replace(attempt.base, manifests=manifests, unread=False))
        return attempt

    @property
    def _published(self) -> CommitRequest:
        """Whose snapshot this attempt publishes."""
        return self.left.closes or self.request

    def _attempt(self) -> Attempt:
        assert self.attempt is not None
        return self.attempt

    @property
    def _sent(self) -> ev.SnapshotPrepared:
        """The snapshot of this attempt: the last one of `tried`, or one without rows that closes the commit's window."""
        attempt = self._attempt()
        return ev.SnapshotPrepared(attempt.ours, attempt.base.ref, attempt.data.decode())

    def _settled(self) -> Settled:
        settled = self._attempt().settled
        assert settled is not None
        return settled
