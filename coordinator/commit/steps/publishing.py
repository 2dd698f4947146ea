"""The last steps of an attempt: create the snapshot, find out whether it is there and stands, write the hint, clean up.

Owns: `Publishing`. Must not know: what the snapshot's files hold. Hazards: H2, H3, H6, H7, H9, H20.
Invariant: the bytes of a snapshot are built once per attempt and never change between sends (H9).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from ....backends.requests.deadline import answered_within
from ....backends.store import AlreadyThere, Created, ObjectNotFound, Unknown, rewrite_seconds
from ....core.errors import LakelatchError, StoreUnavailable
from ....core.metadata.snapshot import Snapshot
from ....core.places import FileKeys
from ....core.typed import assert_never
from ...history.base import SHORTEST_AGE_MS, Base
from ...history.lineage import (
    Fork,
    Lost,
    Nothing,
    Ours,
    Standing,
    Untold,
    base_stands,
    check_lineage,
    read_name,
    take_away,
)
from ...history.lost import replaced_property
from ...history.row_numbers import NUMBERS_PROPERTY
from ...intents import shelf
from ...intents.intent import Intent
from ...protocol import effects as do
from ...protocol import events as ev
from ...protocol.events import Event
from ...protocol.ledger import check_discard
from ...protocol.snapshot_ref import SnapshotRef
from ...surroundings import backoff_s
from ..attempt import build_snapshot
from ..checks.layout import schema_named
from ..riding.group import Met
from .state import Attempt, RunState

HINT_WITHIN_MS = 5_000
QUICK_SCHEMES = ("file", "hdfs")
SLOW_HINT_S = 0.5
HINT_PAUSE = 10.0
"""Between two looks for the snapshot that a hint names it waits so many times as long as the hint took …"""
LONGEST_HINT_PAUSE_S = 0.5
"""… and no longer than this."""
_LOG = logging.getLogger("lakelatch")


class Publishing(RunState):
    def prepare_snapshot(self, effect: do.PrepareSnapshot) -> Event:
        """Build the snapshot file, once for all sends; or give up, where a newer schema was seen beside the uploads."""
        overtaken, attempt = self.newer_schema, self._attempt()
        if overtaken is not None and self.left.closes is None:
            return ev.ConflictFound(overtaken.check, overtaken.reason)
        try:
            snapshot = self._built(attempt)
        except LakelatchError as error:
            return ev.UploadFailed("snapshot", error.message, error.next_step)
        self.attempt = attempt = replace(attempt, snapshot=snapshot, data=snapshot.to_json())
        own = tuple(sorted(name for name in attempt.needs if self.writer.names.own(name)))
        if self.left.closes is not None:
            return ev.ClosingPrepared(attempt.ours, attempt.base.ref, own)
        self.tried.append(replace(self._sent, names=own))
        return self.tried[-1]

    def _built(self, attempt: Attempt) -> Snapshot:
        base, settled = attempt.base, self._settled()
        assert attempt.base_list is not None and attempt.delta is not None
        is_named = self.left.closes is None and bool(self.group.asked or self.group.riders)
        return build_snapshot(
            self._published,
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
            named_as=self.group.commit if is_named else "",
            properties={**replaced_property(self.left.replaced), **self._numbers(attempt.delta.riders)},
        )

    def _numbers(self, riders: Sequence[Intent]) -> dict[str, str]:
        """What the snapshot says of its sequence numbers, together with those of its riders."""
        own = self._settled().numbers
        if own is None:
            return {}
        spans = [intent.numbered.span for intent in riders if intent.numbered is not None]
        return {NUMBERS_PROPERTY: own.carrying(spans).to_property()}

    def publish(self, effect: do.Publish) -> Event:
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
            return ev.UploadFailed(key, error.message, error.next_step)
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
        """One look is enough, however long earlier steps took: nothing is computed again when only a look-up was slow (H6)."""
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
        match read_name(self.timeline, self._sent, doubtful=effect.doubtful):
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

    def verify_lineage(self, effect: do.VerifyLineage) -> Event:
        if effect.look > 1:
            self.around.sleep(backoff_s(effect.look))
        tried = self._sent
        aged = self.around.now_ms - self._attempt().base.seen_ms > SHORTEST_AGE_MS
        match check_lineage(self.timeline, tried, aged=aged):
            case Standing():
                return ev.LineageVerified()
            case Untold(reason=reason):
                return ev.LineageUnread(reason)
            case Fork(survives=True, reason=reason):
                _LOG.warning(
                    "%s; the rows of snapshot %s are read, and those of the other are not", reason, tried.snapshot.id
                )
                return ev.LineageVerified()
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

    def rest_before_hint(self) -> None:
        """Waits until the store takes another write of the hint. A newer snapshot may come meanwhile, whose hint is due then."""
        rest_s = self.knows.hinted_s + rewrite_seconds(self.store) - self.around.monotonic_s()
        if rest_s > 0:
            self.around.sleep(rest_s)

    def write_hint(self, effect: do.WriteHint, newest_id: int) -> Event:
        """LATEST is written soon after the commit or never, not below a known id, nor for a snapshot that is gone (H7)."""
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
            began_s = self.around.monotonic_s()
            with answered_within(self._hint_time_s()):
                self.store.put(key, str(effect.snapshot_id).encode())
            self.knows.hinted_s = self.around.monotonic_s()
            if self._is_gone(effect.snapshot_id, self.around.monotonic_s() - began_s):
                self.store.delete_many([key])
                return ev.HintSkipped(f"snapshot {effect.snapshot_id} was taken away, and the hint with it")
        except LakelatchError as error:
            return ev.HintSkipped(error.message)
        return ev.HintWritten(effect.snapshot_id)

    def _is_gone(self, snapshot_id: int, took_s: float) -> bool:
        """Whether a rollback by another engine has taken away the snapshot that the hint names: two looks, with a pause.

        That engine writes its own hint first and deletes snapshots then, each request about as long as that of this hint, which
        took `took_s` seconds. Apache Paimon believes a hint that names no snapshot; without a hint it lists them. On an object
        store such a rollback takes many times as long as a hint, so nothing is looked for unless the hint was slow.
        """
        if took_s < SLOW_HINT_S and self.store.capabilities.native_scheme not in QUICK_SCHEMES:
            return False
        for pause_s in (0.0, min(LONGEST_HINT_PAUSE_S, HINT_PAUSE * took_s)):
            self.around.sleep(pause_s)
            try:
                self.store.head(self.timeline.paths.snapshot(snapshot_id))
            except ObjectNotFound:
                return True
        return False

    def _hint_time_s(self) -> float:
        """Raises StoreUnavailable if no time is left."""
        sent_ms = self._attempt().sent_ms
        left_ms = HINT_WITHIN_MS - (self.around.now_ms - sent_ms) if sent_ms is not None else 0.0
        if left_ms <= 0:
            raise StoreUnavailable("too late")
        return left_ms / 1000

    def discard(self, effect: do.Discard, *, landed: bool) -> None:
        """Delete private metadata of lost attempts, and data that no snapshot can name. Orphan cleaning removes the rest. Raises
        ProtocolViolation if the published snapshot needs one of the files; nothing is deleted then (H20).
        """
        check_discard(effect.names, self._attempt().needs if landed else ())
        try:
            kept = landed or self.sent
            data = [] if kept else [u.key for u in (*self.request.uploads, *self.settler.request.uploads)]
            names = [self.timeline.paths.written(name) for name in effect.names]
            self.store.delete_many([*names, *data, *self._left_over(landed=landed)])
        except LakelatchError:
            return

    def discard_superseded(self) -> None:
        """Delete the files in whose place others were made and have landed, best effort: no snapshot can name them any more."""
        if left := self._left_over(landed=True):
            with suppress(LakelatchError):
                self.store.delete_many(left)

    def _left_over(self, *, landed: bool) -> list[str]:
        """The files of attempts that were refused, as far as the commit made them itself; each is told once."""
        made, superseded = (
            self.left.made,
            self._superseded() if landed else [],
        )  # else its caller knows them, and decides
        settled = self.attempt.settled if self.attempt is not None else None
        files = (*settled.new_index_files, *settled.marks) if landed and settled is not None else ()
        needed = {file.key for file in files}
        self.left.made = []
        return [*superseded, *(key for key in made if key not in needed)]

    def _superseded(self) -> list[str]:
        """The data files of which the landed commit has made others. One that was carried landed with those of its intent."""
        rules, offered = self.settler.key_rules, self.left.offered
        superseded, rules.superseded = rules.superseded, []
        if self.group.aboard is None or offered is None:
            return superseded
        keys, changelog = FileKeys(self.schema), offered.changelog.entries if offered.changelog is not None else ()
        needed = {key for entry in (*offered.entries, *changelog) for key in keys.data(entry)}
        later = [upload.key for upload in self.settler.request.uploads]
        return [key for key in (*superseded, *later) if key not in needed]

    def remove_intents(self, effect: do.RemoveIntents) -> None:
        shelf.remove(self.timeline, effect.names)

    def next_base(self) -> Base:
        """The base that is known after the commit landed, so that the next commit need not read it."""
        if self.left.ahead is not None:
            return self.left.ahead
        attempt = self._attempt()
        assert attempt.snapshot is not None and attempt.delta is not None and attempt.sent_ms is not None
        manifests = (*attempt.base_manifests, *attempt.delta.lines)
        return Base(attempt.snapshot, manifests, attempt.snapshot.schema_id, attempt.sent_ms)
