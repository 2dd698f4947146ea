"""One commit's part in group commit: may it ride, who rides with it, and what became of its intent (decision 71).

Owns: `Group`, `Met`, `may_ride`, `has_riders`, `rides_by_option`. Must not know: the order of steps (the machine), how files are
written, how intents are kept. Hazards: H2, H5, H9.
Invariants: only a commit that adds rows and depends on none in its base rides or carries. A leader's riders are chosen on the
very base that it publishes on. Nothing of a rider is deleted by its leader.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from ....backends.store import ObjectInfo
from ....core import options as opt
from ....core.errors import LakelatchError, StoreUnavailable
from ....core.metadata.data_file import ADD, NO_BUCKETS, ManifestEntry
from ....core.metadata.schema import TableSchema
from ....core.metadata.schemas.bucket_mode import BucketMode, bucket_mode
from ....core.metadata.snapshot import Snapshot
from ...history.base import SHORTEST_AGE_MS, Base
from ...history.lineage import Fork, Standing, Untold, lineage_of
from ...history.row_numbers import Span
from ...history.timeline import Timeline, base_of
from ...identities.memory import name_of
from ...intents import shelf
from ...intents.carried import Carried, carried_by
from ...intents.intent import Intent, Leader, Numbered, Said
from ...intents.window import Aboard, Closed, Fate, Window, aboard_of, look_for
from ...protocol import effects as do
from ...protocol import events as ev
from ...protocol.events import Event
from ...protocol.snapshot_ref import SnapshotRef
from ...surroundings import Surroundings, backoff_s
from ..attempt import Delta
from ..checks.key_order import Numbers, bucket_count, has_numbers
from ..request import CommitRequest, KeyedRows, RepeatableRequest, only_adds_rows

MERGING_SHARE = 0.1
"""The share of the commits that begin a merge of manifests, while others commit beside them."""
PAUSE = 0.5
"""Between two looks for the next snapshot a rider waits this share of a round trip to the store …"""
LONGEST_PAUSE_S = 2.0
"""… which counts as this long at most."""


def has_riders(schema: TableSchema) -> bool:
    """Whether appends or upserts to a table can be the same on every base, so that they can ride."""
    if bucket_mode(schema) in (BucketMode.FIXED, BucketMode.POSTPONE):
        return has_numbers(schema)
    return bucket_mode(schema) is BucketMode.UNAWARE and not schema.options.get(opt.ROW_TRACKING)


def rides_by_option(schema: TableSchema) -> bool:
    return schema.options.get(opt.COMMIT_GROUP) == opt.GROUP_AUTO and has_riders(schema)


def may_ride(request: CommitRequest, schema: TableSchema) -> bool:
    """Whether it may ride with others and carry them: rows that only their numbers order among others, or an append of files that
    are the same on every base. Row ids and statistics are not.
    """
    option = schema.options.get(opt.COMMIT_GROUP)
    return (
        (option if request.group is None else request.group) == opt.GROUP_AUTO
        and has_riders(schema)
        and (only_adds_rows(request) if has_numbers(schema) else _is_plain(request))
        and not request.remarks.statistics
        and bool(request.entries)
    )


def _is_plain(request: CommitRequest) -> bool:
    return (
        type(request) in (CommitRequest, RepeatableRequest)
        and request.kind == "APPEND"
        and request.target is None
        and not request.index_entries
        and request.keyed == KeyedRows()
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
        of_schema, told = (self.schema.id, self.schema.bucket), request.remarks
        said = Said(request.query, request.in_order, told.watermark_ms, told.properties)
        numbered = self._numbered(delta)
        made = Intent(self.commit, user, request.identifier, base, *of_schema, rows, lines, self.table, numbered, said)
        self.intent, self.asked_s = made, self.asked_s or 0.0
        names = tuple(line.file_name for line in made.all_manifests)
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
        self,
        effect: do.ChooseRiders,
        base: Snapshot,
        timeline: Timeline,
        prepare: Callable[[], object] = lambda: None,
        delta: Delta | None = None,
    ) -> Event:
        """Does this commit lead, and whom does it carry? `prepare` is what a leader needs besides; it runs meanwhile. `delta`:
        its own files, whose numbers those of its riders must not meet.
        """
        request, of_schema = self.request, (self.schema.id, self.schema.bucket)
        own = (self._numbers(delta), bucket_count(delta.entries)) if delta is not None else (None, 0)
        leader = Leader(base, self.commit, request.commit_user, *of_schema, self.table, request.identifier, *own)
        files = shelf.waiting(timeline, leader, self.around.wall_ms)
        rank = self._rank(files, leader) if effect.waits else 0
        self.riders = ()
        if rank == 0 and files:
            self.riders = timeline.both(lambda: shelf.riders_for(timeline, leader, files), prepare)[0]
        return ev.RidersChosen(rank, tuple(intent.commit for intent in self.riders))

    def keep(self, delta: Delta | None, entries: tuple[ManifestEntry, ...]) -> None:
        """Leave those riders behind whose numbers meet the ones that the commit's own rows have got since it chose them."""
        if delta is None or delta.entries == entries:
            return
        span = Numbers.of(entries).span
        self.riders = tuple(i for i in self.riders if i.numbered is None or not i.numbered.span.meets(span))

    def _numbers(self, delta: Delta) -> Span | None:
        return Numbers.of(delta.entries).span if has_numbers(self.schema) else None

    def _numbered(self, delta: Delta) -> Numbered | None:
        span = self._numbers(delta)
        if span is None:
            return None
        lines = delta.changelog.own_lines if delta.changelog is not None else ()
        changes = sum(e.file.row_count for e in delta.changelog.entries) if delta.changelog is not None else 0
        return Numbered(span, bucket_count(delta.entries) or 0, lines, changes)

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
