"""One commit's part in group commit: may it ride, who rides with it, and what became of its intent (decision 71).

Owns: `Group`, `Met`, `may_ride`, `has_riders`. Must not know: the order of steps (the machine), how files are written, how
intents are kept. Hazards: H2, H5, H9.
Invariants: only an append that depends on nothing in its base rides or carries. A leader's riders are chosen on the very base
that it publishes on. Nothing of a rider is deleted by its leader.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from ....backends.store import ObjectInfo
from ....core import options as opt
from ....core.errors import LakelatchError, StoreUnavailable
from ....core.metadata.data_file import ADD, NO_BUCKETS
from ....core.metadata.schema import TableSchema
from ....core.metadata.snapshot import Snapshot
from ...history.base import SHORTEST_AGE_MS, Base
from ...history.lineage import Fork, Standing, Untold, lineage_of
from ...history.timeline import Timeline, base_of
from ...identities.memory import name_of
from ...intents import shelf
from ...intents.carried import Carried, carried_by
from ...intents.intent import Intent, Leader
from ...intents.window import Aboard, Closed, Fate, Window, aboard_of, look_for
from ...protocol import effects as do
from ...protocol import events as ev
from ...protocol.events import Event
from ...protocol.snapshot_ref import SnapshotRef
from ...surroundings import Surroundings, backoff_s
from ..attempt import Delta
from ..request import CommitRequest, KeyedRows, RepeatableRequest

MERGING_SHARE = 0.1
"""The share of the commits that begin a merge of manifests, while others commit beside them."""
PAUSE = 0.5
"""Between two looks for the next snapshot a rider waits this share of a round trip to the store …"""
LONGEST_PAUSE_S = 2.0
"""… which counts as this long at most."""


def has_riders(schema: TableSchema) -> bool:
    """Whether plain appends to a table are the same on every base, so that they can ride."""
    return schema.bucket == NO_BUCKETS and not schema.primary_keys and not schema.options.get(opt.ROW_TRACKING)


def may_ride(request: CommitRequest, schema: TableSchema) -> bool:
    """Whether it may ride with others and carry them: an append of files that are the same on every base. Sequence numbers, row
    ids, keys, and what a snapshot says of its own commit (properties, a watermark, statistics) are not.
    """
    said = request.remarks
    option = schema.options.get(opt.COMMIT_GROUP)
    return (
        (option if request.group is None else request.group) == opt.GROUP_AUTO
        and type(request) in (CommitRequest, RepeatableRequest)
        and request.kind == "APPEND"
        and request.target is None
        and not request.index_entries
        and request.keyed == KeyedRows()
        and not (said.properties or said.statistics or said.watermark_ms is not None)
        and has_riders(schema)
        and bool(request.entries)
        and all(entry.kind == ADD and entry.total_buckets == NO_BUCKETS for entry in request.entries)
    )


@dataclass(frozen=True, slots=True)
class Met:
    """The newest snapshot that this commit saw another commit make, and when it asked for it (monotonic milliseconds)."""

    snapshot: Snapshot
    asked_ms: float


@dataclass
class Group:
    """The riders and the intents of one commit.

    Attributes:
        commit: its id, which the names of its files contain.
        table: identity and place of the table, as in the intents that it registers and carries.
        crowded: other writers are committing, so the known base is probably outdated, and it is worth looking for riders.
        intent: its intent that may still be carried; None if there is none.
        met: what won the last race against it, or came while it waited.
        asked_s: how long the store took to register its intent, in seconds, 0 if that was not measured; None: it never asked.
    """

    request: CommitRequest
    commit: str
    schema: TableSchema
    around: Surroundings
    table: str = ""
    allowed: bool = False
    crowded: bool = False
    intent: Intent | None = None
    riders: tuple[Intent, ...] = ()
    met: Met | None = None
    aboard: Snapshot | None = None
    asked_s: float | None = None

    @property
    def asked(self) -> bool:
        """Whether it has ever registered an intent, so that its snapshot has to name it."""
        return self.asked_s is not None

    @property
    def window(self) -> Window | None:
        return Window(self.commit, self.intent.base) if self.intent is not None else None

    def fate(self, latest: Snapshot | None, timeline: Timeline) -> Fate | None:
        """What became of the open intent, as of the newest snapshot; None where there is none. Errors as for `look_for`."""
        if self.window is None:
            return None
        found = look_for(self.window, latest, timeline)
        if isinstance(found, Aboard):
            self.aboard = found.snapshot
        if isinstance(found, Closed):
            self.intent = None
        return found

    @property
    def met_carrier(self) -> bool:
        return (
            self.window is not None and self.met is not None and aboard_of(self.window, self.met.snapshot) is not None
        )

    def already_aboard(self, just_read: Snapshot | None) -> Aboard | None:
        """The snapshot that was just read, if it carries the commit: then nothing has to be looked for."""
        if self.window is None or just_read is None:
            return None
        found = aboard_of(self.window, just_read)
        if found is not None:
            self.aboard = found.snapshot
        return found

    def prepare(self, base: SnapshotRef, delta: Delta) -> Event:
        request = self.request
        lines = delta.own_lines
        rows = sum(entry.file.row_count for entry in delta.entries)
        user = name_of(request.commit_user)
        of_schema = self.schema.id, self.schema.bucket
        made = Intent(self.commit, user, request.identifier, base, *of_schema, rows, lines, self.table)
        self.intent, self.asked_s = made, self.asked_s or 0.0
        names = tuple(line.file_name for line in lines)
        return ev.IntentPrepared(base, made.file_name, names, made.to_json().decode())

    def register(self, timeline: Timeline) -> Event:
        assert self.intent is not None
        began_s = self.around.monotonic_s()
        try:
            doubt = shelf.register(timeline, self.intent)
        except StoreUnavailable as error:
            return ev.IntentRefused(error.message)
        self.asked_s = min(LONGEST_PAUSE_S, self.around.monotonic_s() - began_s)
        return ev.IntentRegistered(doubt or "")

    def choose(
        self, effect: do.ChooseRiders, base: Snapshot, timeline: Timeline, prepare: Callable[[], object] = lambda: None
    ) -> Event:
        """Does this commit lead, and whom does it carry? `prepare` is what a leader needs besides; it runs meanwhile."""
        request, of_schema = self.request, (self.schema.id, self.schema.bucket)
        leader = Leader(base, self.commit, request.commit_user, *of_schema, self.table, request.identifier)
        files = shelf.waiting(timeline, leader, self.around.wall_ms)
        rank = self._rank(files, leader) if effect.waits else 0
        self.riders = ()
        if rank == 0 and files:
            self.riders = timeline.both(lambda: shelf.riders_for(timeline, leader, files), prepare)[0]
        return ev.RidersChosen(rank, tuple(intent.commit for intent in self.riders))

    def _rank(self, files: tuple[ObjectInfo, ...], leader: Leader) -> int:
        return sum(commit < self.commit for commit in shelf.order_of(files, leader))

    def wait_for_carrier(self, base: SnapshotRef, timeline: Timeline) -> Event:
        """Look whether a snapshot came above the base, after a pause: one and a half round trips in all."""
        self.around.sleep((self.asked_s or 0.0) * PAUSE)
        began_ms = self.around.now_ms
        try:
            found = timeline.find(base.id + 1)
        except LakelatchError:
            return ev.NobodyCame()  # it cannot be read just now: the look for the latest snapshot tells more
        if found is None:
            return ev.NobodyCame()
        self.met = Met(found, began_ms)
        return ev.SnapshotSeen(SnapshotRef(found.id, found.identity))

    def verify_ride(self, effect: do.VerifyRide, timeline: Timeline, base: Base) -> Event:
        """Check that the snapshot that carries the commit is in the history (H6). `base`: the newest one that it knew before."""
        assert self.aboard is not None
        if effect.look > 1:
            self.around.sleep(backoff_s(effect.look))
        aged = base.ref != base_of(self.aboard) or self.around.now_ms - base.seen_ms > SHORTEST_AGE_MS
        found = lineage_of(timeline, self.aboard, aged=aged)
        if isinstance(found, Standing) or (isinstance(found, Fork) and found.survives):
            return ev.LineageVerified()
        return ev.LineageUnread(found.reason)

    def found_in(self, snapshot: SnapshotRef, timeline: Timeline) -> None:
        """The commit landed in this snapshot, as was found out later: a receipt that names its leader is worth one request."""
        if self.asked and self.aboard is None:
            with suppress(LakelatchError):
                found = timeline.find(snapshot.id)
                if found is not None and found.identity == snapshot.identity and carried_by(found):
                    self.aboard = found

    def may_merge(self) -> bool:
        """Whether this attempt may begin a merge of manifests: of many commits at once, one does the work (H15)."""
        return not (self.allowed and self.crowded) or self.around.uniform(0.0, 1.0) < MERGING_SHARE

    @property
    def leader(self) -> str | None:
        """None if the commit does not ride. A process that has taken it over publishes it as its own snapshot."""
        if self.aboard is None or carried_by(self.aboard)[0].commit == self.commit:
            return None
        return self.aboard.commit_user

    @property
    def company(self) -> int:
        return len(self.riders) if self.aboard is None else len(carried_by(self.aboard)) - 1

    @property
    def carried(self) -> tuple[Carried, ...]:
        return tuple(Carried(i.user, i.identifier, i.commit, i.rows) for i in self.riders)


def untold(fate: Fate | None) -> str:
    return fate.reason if isinstance(fate, Untold) else ""
