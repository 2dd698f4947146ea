"""Carries out the effects of one commit on a store.

Owns: `Attempt` (a value: the base, and the files made on it) and `CommitRun`, which maps each effect of the machine to store
requests and their result to an event. Must not know: the order of effects (the machine), threads and time budgets (the
driver), how a request is settled on a base (`settling`). Hazards: H2, H3, H6, H7, H9, H20.
Invariants: an effect returns exactly one event, also when the store fails. The bytes of a snapshot are built once per attempt
and never change between sends (H9). The snapshot's contents come from the same values that its files are made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from ...backends.deadline import answered_within
from ...backends.store import AlreadyThere, Created, Store, Unknown
from ...core import options as opt
from ...core.errors import LakelatchError, StoreUnavailable
from ...core.metadata.data_file import ADD, ManifestEntry
from ...core.metadata.manifest import ManifestFile
from ...core.metadata.schema import TableSchema
from ...core.metadata.snapshot import Snapshot
from ...core.typed import assert_never
from ..history.base import SHORTEST_AGE_MS, Base
from ..history.lineage import (
    Fork,
    Lost,
    Nothing,
    Ours,
    Standing,
    Untold,
    base_stands,
    check_lineage,
    read_name,
    refuse_fork,
    take_away,
)
from ..history.timeline import Latest, Timeline, base_of, ref_of
from ..identities.memory import Memory
from ..identities.recall import Recalled, recall, with_room
from ..intents import shelf
from ..intents.window import Aboard
from ..protocol import effects as do
from ..protocol import events as ev
from ..protocol.events import Event
from ..protocol.ledger import check_discard
from ..protocol.snapshot_ref import SnapshotRef
from ..surroundings import Surroundings, backoff_s
from .attempt import Delta, MetadataFile, MetadataWriter, build_snapshot, committer_of
from .changes_since import HISTORY_GONE
from .conflicts import Conflict
from .group import Group, Met, untold
from .knowledge import Knowledge
from .layout import layout_conflict, schema_named
from .manifest_compaction import Merges
from .request import CommitRequest
from .rider import Rider
from .settling import Settled, Settler

Uploads: TypeAlias = tuple[Sequence[MetadataFile], Event]
"""Files that may be written in parallel, and the event to report once all of them are durable."""

HINT_WITHIN_MS = 5_000
JUST_READ_MS = 500
"""A winner that was asked for so lately counts as the newest snapshot for a commit that rides: its next look would come a round
trip later, and whoever carries it meanwhile is found by the look after that."""
NOTHING_REMEMBERED = Memory()


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to publish, and its progress; after a lost race another one begins.

    Attributes:
        base, ours: the snapshot that it builds on, and the one that it makes.
        recalled, memory: the identities found in the base's history, and those that the new snapshot remembers.
        identities: new files for the identities that the snapshot has no room for.
        settled: the request on this base.
        base_manifests: the manifests that the base list names.
        snapshot, data: the snapshot and its file, once it is built.
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
class CommitRun:
    """Carries out the effects of one commit; its attributes, other than the attempt, last for the whole commit.

    Attributes:
        knows: what the committer keeps between commits.
        warm: the base that it knew, used for the first attempt while it is fresh.
        group: the commit's part in group commit: its intents, and those whom it carries.
        settler: turns the request into entries on a base.
        tried: every snapshot that was sent, or may be sent by another process that finds it in the journal.
        lost: the snapshots that won the races which this commit lost.
        ahead: the newest snapshot when this commit was found in one of another; its manifests were not read.
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
    ahead: Base | None = None

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
    def landed(self) -> Snapshot | None:
        """The snapshot of the last attempt: the one that landed, if any did."""
        return self.attempt.snapshot if self.attempt is not None else None

    @property
    def others_met(self) -> int:
        """The number of different committers that won a race against this commit."""
        return len({committer_of(winner) for winner in self.lost})

    # ------------------------------------------------------------------------------------------------------- collect

    def resolve_latest(self, effect: do.ResolveLatest) -> Event:
        """The base of this attempt, and whether this identity already landed before it."""
        if effect.registered_on is None:
            self.group.intent = None  # it was refused
        self.group.riders, window = (), self.group.intent
        try:
            base = self._resolve(effect)
            if isinstance(base, Aboard):
                return self._found_aboard(base)
            user = None if self.request.identifier is None else self.request.commit_user
            found = recall(user, base.snapshot, self.timeline, self.knows.identities)
            if found.says(self.request.identifier):
                refuse_fork(self.timeline, base.snapshot)
        except LakelatchError as error:
            return ev.ResolveFailed(error.code, error.message)
        closed, crowded = window is not None and self.group.intent is None, self.group.crowded
        ours = SnapshotRef(base.id + 1, str(self.around.new_uuid()))
        self.attempt = Attempt(base, ours, found, delta=self.attempt.delta if self.attempt is not None else None)
        last, carrier = found.last or (None, None)
        replay = carrier if found.says(self.request.identifier) else None
        return ev.LatestResolved(
            base.ref, ours.identity, found.inspected_through, last, replay, closed=closed, crowded=crowded
        )

    def _found_aboard(self, found: Aboard) -> Event:
        """Another's snapshot carries this commit: nothing is built on it any more."""
        attempt, ref = self._attempt(), SnapshotRef(found.snapshot.id, found.snapshot.identity)
        self.attempt = Attempt(attempt.base, ref, attempt.recalled, delta=attempt.delta, snapshot=found.snapshot)
        return ev.LatestResolved(attempt.base.ref, "", 0, aboard=ref)

    def _resolve(self, effect: do.ResolveLatest) -> Base | Aboard:
        now_ms, warm, read = self.around.now_ms, self.warm, self.request.read_snapshot
        crowded_ms = self.knows.crowd.attempt_s * 1000 if self.group.crowded else None
        is_old = crowded_ms is not None and (warm is None or now_ms - warm.seen_ms > crowded_ms)
        if (
            effect.at_least is None
            and not is_old
            and warm is not None
            and warm.id >= (read.id if read is not None else 0)
            and self._is_fresh(warm)
        ):
            return warm
        known = self._known
        seen = self._newest_seen()
        met = self.group.met
        won = met is not None and seen is met.snapshot and self._won_on(seen)
        schema_id = known.schema_id if known else self.schema.id
        aboard = self.group.already_aboard(seen) if won else None
        if met is not None and aboard is not None:
            self.ahead = Base(seen, (), schema_id, met.asked_ms, unread=True)
            return aboard
        is_new = seen not in self.lost or effect.attempt == 2  # a writer that loses again is late each time
        is_near = met is not None and now_ms - met.asked_ms <= JUST_READ_MS
        just_read = won and is_new and is_near and self.group.allowed
        look = Latest(seen) if just_read else self.timeline.look(seen, just_read=won)
        latest = look.snapshot
        fate = self.group.fate(latest, self.timeline)
        if isinstance(fate, Aboard):
            self.ahead = Base(latest, (), schema_id, now_ms, look.unhinted, unread=True)
            return fate
        if why := untold(fate):
            raise StoreUnavailable(why)
        schema_id = max(schema_id, latest.schema_id if latest else 0)
        if known is None or not self._is_fresh(known):
            schema_id = max([schema_id, *self.timeline.schema_ids()])
            self.settler.newest_schema.saw(schema_id)
        if just_read and met is not None:
            now_ms = met.asked_ms
        if known is not None and known.ref == ref_of(latest):
            return Base(latest, known.manifests, schema_id, now_ms, look.unhinted, known.unread)
        if latest is not None and self.group.allowed and effect.at_least is not None:
            return Base(latest, (), schema_id, now_ms, look.unhinted, unread=True)  # another may carry it
        manifests = self.timeline.manifests(latest) if latest else ()
        return Base(latest, manifests, schema_id, now_ms, look.unhinted)

    def _won_on(self, winner: Snapshot) -> bool:
        """Whether the winner of the last race was built on the beaten attempt's base, and so belongs to the same table."""
        return base_of(winner) == self._attempt().base.ref

    @property
    def _known(self) -> Base | None:
        return self.attempt.base if self.attempt is not None else self.warm

    def _newest_seen(self) -> Snapshot | None:
        """The newest snapshot that this commit has met: its base, the one that it read, or the winner of the last race."""
        known, met = self._known, self.group.met
        seen = [known.snapshot if known else None, self.request.read_snapshot, met.snapshot if met else None]
        return max((s for s in seen if s is not None), key=lambda s: s.id, default=None)

    def _is_fresh(self, base: Base) -> bool:
        return base.is_fresh(self.around.now_ms, self.schema.options.get(opt.SNAPSHOT_TIME_RETAINED))

    def collect_changes(self, effect: do.CollectChanges) -> Event:
        """This commit's entries on this base, after the conflict checks."""
        attempt = self._attempt()
        try:
            if not effect.asks_first:
                attempt = self._with_manifests()
            overtaken = self.settler.newest_schema.conflict
            if overtaken is not None:
                return ev.ConflictFound(overtaken.check, overtaken.reason)
            misplaced = layout_conflict(self.request, self.schema, attempt.base, self.timeline, self.around)
            if misplaced is not None:
                return ev.ConflictFound(misplaced.check, misplaced.reason)
            found = self.settler.settle(attempt.base, attempt.ours.id)
            if isinstance(found, Conflict) and found.check == HISTORY_GONE:
                self.timeline.check_table()  # the snapshots may be gone because the whole table is
        except LakelatchError as error:
            return ev.ResolveFailed(error.code, error.message)
        if isinstance(found, Conflict):
            return ev.ConflictFound(found.check, found.reason)
        self.attempt = replace(attempt, settled=found, base_manifests=attempt.base.manifests)
        added = sum(e.kind == ADD for e in found.entries)
        return ev.ChangesCollected(added, len(found.entries) - added)

    # --------------------------------------------------------------------------------------------------------- groups

    def take_over(self, rider: Rider) -> None:
        """Begin with the open intent and the manifests of a writer that is gone. The base is not known yet."""
        self.group.commit, self.group.intent, self.group.asked = rider.intent.commit, rider.intent, True
        nowhere = Base(None, (), self.schema.id, float("-inf"))
        self.attempt = Attempt(nowhere, SnapshotRef(0, ""), Recalled(0, NOTHING_REMEMBERED), delta=rider.delta)

    def prepare_intent(self, effect: do.PrepareIntent) -> Event:
        """Build the intent; its manifests are durable since the first attempt."""
        delta = self._attempt().delta
        assert delta is not None
        return self.group.prepare(effect.base, delta)

    def choose_riders(self, effect: do.ChooseRiders) -> Event:
        """Whom this commit carries if it leads, and how many may lead before it."""
        base = self._attempt().base.snapshot
        assert base is not None
        return self.group.choose(effect, base, self.timeline, self._read_manifests)

    def _read_manifests(self) -> None:
        """Read the base's manifests early. An error is met again, and told, when they are needed."""
        with suppress(LakelatchError):
            self._with_manifests()

    def _with_manifests(self) -> Attempt:
        """The attempt, after reading the manifests of its base if they were not read yet."""
        attempt = self._attempt()
        if attempt.base.unread and attempt.base.snapshot is not None:
            manifests = self.timeline.manifests(attempt.base.snapshot)
            self.attempt = attempt = replace(attempt, base=replace(attempt.base, manifests=manifests, unread=False))
        return attempt

    def verify_ride(self, effect: do.VerifyRide) -> Event:
        """Check that the snapshot that carries this commit is part of the history (H6)."""
        return self.group.verify_ride(effect, self.timeline, self._attempt().base)

    # ----------------------------------------------------------------------------------------------- manifests, lists

    def compact_manifests(self, effect: do.CompactManifests) -> Event:
        """Merge manifests where due. Under contention an earlier merge is kept if it fits; no new one is started (H15)."""
        attempt = self._attempt()
        folded = self._settled().folded
        if folded is not None:
            self.attempt = replace(attempt, base_manifests=folded.applied(attempt.base.manifests) or ())
            return ev.ManifestsCompacted(folded.mode)
        found = self.merges.on(attempt.base, begin=not effect.contended and self.group.may_merge())
        if found is None:
            return ev.ManifestsCompacted("none")
        merge, manifests = found
        self.settler.learn(merge.files)
        self.attempt = replace(attempt, base_manifests=manifests)
        return ev.ManifestsCompacted("reused" if effect.contended else merge.mode, tuple(b.name for b in merge.files))

    def uploads(self, effect: do.UploadData | do.WriteManifests | do.WriteBaseList | do.WriteDeltaList) -> Uploads:
        """The files of an upload effect. The driver writes them, in parallel with the files of other effects."""
        match effect:
            case do.UploadData():
                gone = set(self.settler.key_rules.superseded)
                files = [MetadataFile(u.key, u.key, u.data) for u in self.request.uploads if u.key not in gone]
                return files, ev.DataUploaded(len(files))
            case do.WriteBaseList():
                base_list = self.writer.manifest_list(self._attempt().base_manifests)
                self.attempt = replace(self._attempt(), base_list=base_list)
                folded = self._settled().folded
                beside = folded.files if folded is not None else ()
                files = [*self._missing_hint(), *beside, base_list]
                return files, ev.BaseListWritten(base_list.name, tuple(b.name for b in beside))
            case do.WriteManifests():
                return self._manifest_uploads()
            case do.WriteDeltaList():
                return self._delta_uploads()
            case _:
                assert_never(effect)

    def doubt_uploads(self) -> None:
        """A file of this attempt was not written. A commit whose intent is open may go on after that, and then writes its lists
        anew; the manifests that its intent names were durable before.
        """
        attempt = self._attempt()
        kept = attempt.delta.without_list() if attempt.delta is not None and self.group.asked else None
        self.attempt = replace(attempt, delta=kept)

    def _missing_hint(self) -> list[MetadataFile]:
        """EARLIEST, if it is missing: without it, a fork above a gap cannot be distinguished from the history (H25)."""
        begin = self._attempt().base.unhinted
        return (
            []
            if begin is None
            else [MetadataFile("EARLIEST", self.timeline.paths.hint("EARLIEST"), str(begin).encode())]
        )

    def write(self, file: MetadataFile) -> None:
        """Make a file durable. EARLIEST is never lowered: an expiry may have raised it meanwhile (H7)."""
        if file.key != self.timeline.paths.hint("EARLIEST"):
            return self.store.put(file.key, file.data)
        for _ in range(3):
            if not isinstance(self.store.put_if_absent(file.key, file.data), Unknown):
                return None
        raise StoreUnavailable(f"the store does not say whether {file.key} was created")

    def _manifest_uploads(self) -> Uploads:
        """Delta manifests that others are to carry; whoever leads writes the list."""
        attempt, entries = self._attempt(), self._settled().entries
        new: tuple[MetadataFile, ...] = ()
        if attempt.delta is None or attempt.delta.entries != entries:
            delta = Delta.unlisted(entries, self.writer)
            self.attempt, new = replace(attempt, delta=delta), delta.files
        return new, ev.ManifestsWritten(tuple(file.name for file in new))

    def _delta_uploads(self) -> Uploads:
        """Delta and changelog manifests and lists, kept from an earlier attempt unless the entries changed with the base."""
        attempt, settled = self._attempt(), self._settled()
        index, before, new = settled.new_index_files, attempt.delta, list[MetadataFile]()
        delta, changelog = before, before.changelog if before is not None else None
        if delta is None or settled.entries != delta.entries:
            delta = Delta.of(settled.entries, self.writer, self.group.riders)
            self.settler.learn(delta.files)
            new = [*delta.files, delta.list]
        elif delta.riders != self.group.riders or not delta.list.name:
            delta = delta.carrying(self.group.riders, self.writer)
            new = [delta.list]
        if settled.changelog and (changelog is None or settled.changelog != changelog.entries):
            changelog = Delta.of(settled.changelog, self.writer)
            new += [*changelog.files, changelog.list]
        delta = replace(delta, changelog=changelog)
        self.attempt = replace(attempt, delta=delta)
        own = (file.name for file in delta.files if self.writer.names.own(file.name))  # the others are a rider's
        beside = [*own, *(changelog.names if changelog is not None else ())]
        if index:
            new, beside = [*new, *index], [*beside, index[-1].name]
        identities = self._carry_identities()
        beside += [file.name for file in identities]
        new += self._settled().new_data
        return [*new, *identities], ev.DeltaListWritten(delta.list.name, tuple(beside))

    def _carry_identities(self) -> list[MetadataFile]:
        """Compute what the next snapshot remembers; returns files for the identities that its property has no room for."""
        request, names, attempt = self.request, self.writer.names, self._attempt()
        riders = [(one.user, one.identifier) for one in self.group.carried if one.identifier is not None]
        users, known = [user for user, _ in riders], self.knows.identities
        recalled = with_room(attempt.recalled, users, attempt.base.snapshot, self.timeline, known)
        memory, made = recalled.carried_on(
            request.commit_user, request.identifier, attempt.ours, names.next, riders=riders
        )
        known.keep(attempt.ours, memory, made)
        self.attempt = replace(attempt, memory=memory, identities=tuple(file.name for file in made))
        return [MetadataFile(file.name, self.timeline.paths.identities(file.name), file.data) for file in made]

    # ------------------------------------------------------------------------------------------------------- publish

    def prepare_snapshot(self, effect: do.PrepareSnapshot) -> Event:
        """Build the snapshot file, once for all sends; or give up, where a newer schema was seen beside the uploads."""
        overtaken = self.settler.newest_schema.conflict
        if overtaken is not None:
            return ev.ConflictFound(overtaken.check, overtaken.reason)
        attempt = self._attempt()
        try:
            snapshot = self._built(attempt)
        except LakelatchError as error:
            return ev.UploadFailed("snapshot", error.message)
        self.attempt = attempt = replace(attempt, snapshot=snapshot, data=snapshot.to_json())
        own = tuple(sorted(name for name in attempt.needs if self.writer.names.own(name)))
        self.tried.append(ev.SnapshotPrepared(attempt.ours, attempt.base.ref, attempt.data.decode(), own))
        return self.tried[-1]

    def _built(self, attempt: Attempt) -> Snapshot:
        base, settled = attempt.base, self._settled()
        assert attempt.base_list is not None and attempt.delta is not None
        return build_snapshot(
            self.request,
            base.snapshot,
            attempt.ours,
            settled.entries,
            attempt.base_list,
            attempt.delta,
            schema_id=schema_named(self.schema, base, self.timeline),
            index_manifest=settled.index_manifest,
            memory=attempt.memory,
            lost=self.lost,
            next_row_id=settled.next_row_id,
            writer_id=self.knows.writer_id.get(),
            now_ms=self.around.wall_ms,
            named_as=self.group.commit if self.group.asked or self.group.riders else "",
        )

    def publish(self, effect: do.Publish) -> Event:
        """One atomic create of the snapshot file."""
        if effect.send > 1:
            self.around.sleep(backoff_s(effect.send))
        if not self._is_fresh(self._attempt().base) and not self._base_stands():
            return ev.BaseAged()
        if effect.send == 1:
            # Measured from the send, not from the answer: an answer after an hour reports a snapshot that is an hour old (H6,
            # H7).
            self.attempt = replace(self._attempt(), sent_ms=self.around.now_ms)
        key = self.timeline.paths.snapshot(effect.snapshot.id)
        try:
            answer = self.store.put_if_absent(key, self._attempt().data)
        except StoreUnavailable as error:
            return ev.UploadFailed(key, error.message)
        match answer:
            case Created():
                return ev.SnapshotPublished()
            case AlreadyThere(earlier_send=earlier_send):
                return ev.PublishRefused(earlier_send)
            case Unknown(reason=reason):
                return ev.AnswerLost(reason)
            case _:
                assert_never(answer)

    def _base_stands(self) -> bool:
        """Whether the base still exists, so that the name above it cannot be one that expiry freed (H6).

        One look is enough, however long the earlier steps took: nothing is computed again when only a look-up was slow.
        """
        base, now_ms = self._attempt().base, self.around.now_ms
        try:
            stands = base_stands(self.timeline, base.ref)
        except LakelatchError:
            return False
        again = replace(base, seen_ms=now_ms)
        if not stands or not self._is_fresh(again):
            return False
        self.attempt = replace(self._attempt(), base=again)
        return True

    def read_back(self, effect: do.ReadBack) -> Event:
        """Read the name back: does it hold this commit's snapshot, another one, or nothing? (H2, H3)"""
        if effect.look > 1:
            self.around.sleep(backoff_s(effect.look))
        began_ms = self.around.now_ms
        match read_name(self.timeline, self.tried[-1], doubtful=effect.doubtful):
            case Ours():
                return ev.FoundOurs()
            case Nothing():
                return ev.FoundNothing()
            case Lost(winner=Snapshot() as winner):
                self.lost.append(winner)
                self.group.met = Met(winner, began_ms)
                return ev.FoundAnother(SnapshotRef(winner.id, winner.identity), winner.commit_user)
            case Lost(reason=reason) | Untold(reason=reason):
                return ev.ReadBackFailed(reason)
            case other:
                assert_never(other)

    # ---------------------------------------------------------------------------------------------------- verify, hint

    def verify_lineage(self, effect: do.VerifyLineage) -> Event:
        """Check that the landed snapshot is built on the base that was read (H6)."""
        if effect.look > 1:
            self.around.sleep(backoff_s(effect.look))
        tried = self.tried[-1]
        aged = self.around.now_ms - self._attempt().base.seen_ms > SHORTEST_AGE_MS
        match check_lineage(self.timeline, tried, aged=aged):
            case Standing():
                return ev.LineageVerified()
            case Untold(reason=reason):
                return ev.LineageUnread(reason)
            case Fork(reason=reason, code="fenced"):
                return ev.LineageBroken(reason)
            case Fork(reason=reason) if effect.look == 1:
                return ev.LineageUnread(reason)  # the table may be in the middle of a drop or a move
            case Fork(reason=reason, code=code):
                left = take_away(self.timeline, tried)
                if left is not None:
                    return ev.LineageUnread(f"{reason}; {left}")
                self.attempt = replace(self._attempt(), sent_ms=None)  # no snapshot names its data files any more
                return ev.LineageBroken(reason, code, table_gone=not self.timeline.schema_ids())
            case other:
                assert_never(other)

    def write_hint(self, effect: do.WriteHint, newest_id: int) -> Event:
        """Write LATEST, best effort: soon after the commit or not at all, and never lower than a known id (H7)."""
        if newest_id > effect.snapshot_id:
            return ev.HintSkipped(f"snapshot {newest_id} is newer")
        key = self.timeline.paths.hint("LATEST")
        try:
            # Requests within these blocks finish in time or are given up: a late hint is worse than none.
            if self.lost:
                with answered_within(self._hint_time_s()):
                    hinted = self.timeline.hint("LATEST")
                    if hinted is not None and hinted >= effect.snapshot_id:
                        return ev.HintSkipped("another writer's hint is newer")
            with answered_within(self._hint_time_s()):
                self.store.put(key, str(effect.snapshot_id).encode())
        except LakelatchError as error:
            return ev.HintSkipped(error.message)
        return ev.HintWritten(effect.snapshot_id)

    def _hint_time_s(self) -> float:
        """Seconds that are left for writing the hint.

        Raises:
            StoreUnavailable: no time is left.
        """
        sent_ms = self._attempt().sent_ms
        left_ms = HINT_WITHIN_MS - (self.around.now_ms - sent_ms) if sent_ms is not None else 0.0
        if left_ms <= 0:
            raise StoreUnavailable("too late")
        return left_ms / 1000

    def discard(self, effect: do.Discard, *, landed: bool) -> None:
        """Delete private metadata of lost attempts, and data that no snapshot can name. Orphan cleaning removes the rest.

        Raises:
            ProtocolViolation: the published snapshot needs one of the files; nothing was deleted (H20).
        """
        check_discard(effect.names, self._attempt().needs if landed else ())
        try:
            data = [] if self.sent else [u.key for u in (*self.request.uploads, *self.settler.request.uploads)]
            names = [self.timeline.paths.written(name) for name in effect.names]
            self.store.delete_many([*names, *data, *(self.settler.key_rules.superseded if landed else ())])
        except LakelatchError:
            return

    def remove_intents(self, effect: do.RemoveIntents) -> None:
        """Delete this commit's intents, best effort."""
        shelf.remove(self.timeline, effect.names)

    def next_base(self) -> Base:
        """The base that is known after the commit landed, so that the next commit need not read it."""
        if self.ahead is not None:
            return self.ahead
        attempt = self._attempt()
        assert attempt.snapshot is not None and attempt.delta is not None and attempt.sent_ms is not None
        manifests = (*attempt.base_manifests, *attempt.delta.lines)
        return Base(attempt.snapshot, manifests, attempt.snapshot.schema_id, attempt.sent_ms)

    def _attempt(self) -> Attempt:
        assert self.attempt is not None
        return self.attempt

    def _settled(self) -> Settled:
        settled = self._attempt().settled
        assert settled is not None
        return settled
