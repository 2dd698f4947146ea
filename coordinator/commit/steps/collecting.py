"""The first steps of an attempt: find the base, collect the changes on it, ask others or choose whom to carry, merge manifests.

Owns: `Collecting`. Must not know: how a request is settled on a base (`settling`), who rides (`group`). Hazards: H6, H9.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from ....core.errors import LakelatchError, StoreUnavailable
from ....core.metadata.data_file import ADD
from ....core.metadata.snapshot import Snapshot
from ...history.base import JUST_READ_MS, Base
from ...history.lineage import refuse_fork
from ...history.row_numbers import row_numbers
from ...history.timeline import Latest, base_of, ref_of
from ...identities.recall import Recalled, recall
from ...intents.carried import CLOSES_PROPERTY
from ...intents.window import Aboard
from ...outcome.carrier import carrier_of
from ...protocol import effects as do
from ...protocol import events as ev
from ...protocol.events import Event
from ...protocol.snapshot_ref import SnapshotRef
from ..checks.changes_since import HISTORY_GONE
from ..checks.conflicts import Conflict
from ..checks.layout import layout_conflict
from ..request import CommitRequest, Remarks
from ..riding.group import untold
from ..riding.rider import Rider
from ..settling.settler import Settled
from .state import NOTHING_REMEMBERED, Attempt, RunState

_LOG = logging.getLogger("lakelatch")


class Collecting(RunState):
    def resolve_latest(self, effect: do.ResolveLatest) -> Event:
        if effect.registered_on is None:
            self.group.intent = None  # it was refused
        self.group.riders, window = (), self.group.intent
        try:
            base = self._resolve(effect)
            if isinstance(base, Aboard):
                return self._found_aboard(base)
            identifier, known, replay = self.request.identifier, self.knows.identities, None
            user = None if identifier is None else self.request.commit_user
            found = recall(user, base.snapshot, self.timeline, known, identifier=identifier)
            if stranger := found.stranger(self.request.query):
                return ev.ResolveFailed("invalid-argument", stranger)
            if user is not None and identifier is not None and found.says(identifier):
                refuse_fork(self.timeline, base.snapshot)
                replay = carrier_of(user, identifier, found, base.snapshot, self.timeline, known)
        except LakelatchError as error:
            return ev.ResolveFailed(error.code, error.message, error.next_step)
        closed, crowded = window is not None and self.group.intent is None, self.group.crowded
        ours = SnapshotRef(base.id + 1, str(self.around.new_uuid()))
        self.attempt = Attempt(base, ours, found, delta=self.attempt.delta if self.attempt is not None else None)
        return ev.LatestResolved(
            base.ref,
            ours.identity,
            found.inspected_through,
            found.last[0] if found.last is not None else None,
            replay,
            closed=closed,
            crowded=crowded,
            doubt=found.doubt_of(identifier),
        )

    def _found_aboard(self, found: Aboard) -> Event:
        attempt, ref = self._attempt(), SnapshotRef(found.snapshot.id, found.snapshot.identity)
        self.attempt = Attempt(attempt.base, ref, attempt.recalled, delta=attempt.delta, snapshot=found.snapshot)
        return ev.LatestResolved(attempt.base.ref, "", 0, aboard=ref)

    def _resolve(self, effect: do.ResolveLatest) -> Base | Aboard:
        now_ms, warm, read = self.around.now_ms, self.warm, self.request.read_snapshot
        crowded_ms = self.knows.crowd.lasted_s * 1000 if self.group.crowded else None
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
            self.left.ahead = Base(seen, (), schema_id, met.asked_ms, unread=True)
            return aboard
        is_new = seen not in self.lost or effect.attempt == 2  # a writer that loses again is late each time
        is_near = met is not None and now_ms - met.asked_ms <= JUST_READ_MS
        # Its next look would come a round trip later, and whoever carries it meanwhile is found by the look after that.
        just_read = won and is_new and is_near and self.group.allowed
        look = Latest(seen) if just_read else self.timeline.look(seen, just_read=won)
        latest = look.snapshot
        self._compare(seen, look)
        fate = self.group.fate(latest, self.timeline)
        if isinstance(fate, Aboard):
            self.left.ahead = Base(latest, (), schema_id, now_ms, look.unhinted, unread=True)
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

    def _compare(self, seen: Snapshot | None, look: Latest) -> None:
        """Note if another writer, an engine without an atomic create, has renamed over the snapshot that this process knew. Its
        rows are gone then. Where such an engine won the race, or the winner has another base, that snapshot is read again.
        """
        known = self._known.snapshot if self._known is not None else None
        if known is None or not known.own_properties:
            return
        instead = look.instead if seen is known else None
        if instead is None and seen is not None and seen.id == known.id + 1 and base_of(seen) != ref_of(known):
            there = self.timeline.find(known.id)
            instead = there if ref_of(there) != ref_of(known) else None
        if instead is not None and all(known is not before for before, _ in self.left.replaced):
            self.left.replaced.append((known, instead))
            _LOG.warning(
                "snapshot %s of '%s' was committed, and another writer (%s) has put its own in its place: its rows are gone;"
                " run its job again, under the same identity",
                known.id, known.commit_user, instead.commit_user,
            )  # fmt: skip

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

    def collect_changes(self, effect: do.CollectChanges) -> Event:
        attempt = self._attempt()
        try:
            if effect.closes:
                return self._nothing()
            if self.left.closes is not None:  # it was to give up, and goes on after all
                assert self.left.offered is not None
                self.left.closes, attempt = None, replace(attempt, delta=self.left.offered.without_list())
            if not effect.asks_first or self.settler.reads_manifests(attempt.base):
                attempt = self._with_manifests()
            overtaken = self.newer_schema
            if overtaken is not None:
                return ev.ConflictFound(overtaken.check, overtaken.reason)
            misplaced = layout_conflict(self.request, self.schema, attempt.base, self.timeline, self.around)
            if misplaced is not None:
                return ev.ConflictFound(misplaced.check, misplaced.reason)
            found = self.settler.settle(attempt.base, attempt.ours.id)
            if isinstance(found, Conflict) and found.check == HISTORY_GONE:
                self.timeline.check_table()  # the snapshots may be gone because the whole table is
        except LakelatchError as error:
            return ev.ResolveFailed(error.code, error.message, error.next_step)
        if isinstance(found, Conflict):
            return ev.ConflictFound(found.check, found.reason)
        self.group.keep(attempt.delta, found.entries)
        self.attempt = replace(attempt, settled=found, base_manifests=attempt.base.manifests)
        added = sum(e.kind == ADD for e in found.entries)
        return ev.ChangesCollected(added, len(found.entries) - added)

    def _nothing(self) -> Event:
        """This attempt has no rows: it takes an id away from those who could carry the commit, which has given up."""
        if self.left.closes is None:
            said = Remarks(operation="WRITE", properties={CLOSES_PROPERTY: self.group.commit})
            self.left.closes = CommitRequest("APPEND", (), str(self.around.new_uuid()), remarks=said)
        attempt = self._with_manifests()
        base = attempt.base
        index = base.snapshot.index_manifest if base.snapshot is not None else None
        numbers = row_numbers(base.snapshot)
        left = numbers.without_rows() if numbers is not None else None
        settled = Settled((), index, (), base.next_row_id, numbers=left)
        self.attempt = replace(attempt, settled=settled, base_manifests=base.manifests, delta=None)
        return ev.ChangesCollected(0, 0)

    # --------------------------------------------------------------------------------------------------------- groups

    def take_over(self, rider: Rider) -> None:
        """Begin with the open intent and the manifests of a writer that is gone. The base is not known yet."""
        self.group.commit, self.group.intent, self.group.asked_s = rider.intent.commit, rider.intent, 0.0
        nowhere = Base(None, (), self.schema.id, float("-inf"))
        self.attempt = Attempt(nowhere, SnapshotRef(0, ""), Recalled(0, NOTHING_REMEMBERED), delta=rider.delta)
        self.left.offered = rider.delta

    def prepare_intent(self, effect: do.PrepareIntent) -> Event:
        """Build the intent, whose manifests are durable by now; or give up, if a newer schema was seen. Rows that may be numbered
        again are not what others could carry.
        """
        delta, overtaken = self._attempt().delta, self.newer_schema
        if overtaken is not None:
            return ev.ConflictFound(overtaken.check, overtaken.reason)
        try:
            if not self.settler.stays(self._attempt().base):
                return ev.IntentRefused("its rows may have to be numbered again")
        except LakelatchError as error:
            return ev.IntentRefused(error.message)
        assert delta is not None
        self.left.offered = delta
        return self.group.prepare(effect.base, delta)

    def choose_riders(self, effect: do.ChooseRiders) -> Event:
        attempt = self._attempt()
        assert attempt.base.snapshot is not None
        return self.group.choose(effect, attempt.base.snapshot, self.timeline, self._read_manifests, attempt.delta)

    def verify_ride(self, effect: do.VerifyRide) -> Event:
        return self.group.verify_ride(effect, self.timeline, self._attempt().base)

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
