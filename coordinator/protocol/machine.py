"""The commit path as a state machine. Prose first, then the table, then the handlers.

A commit begins in COLLECT: the latest snapshot is resolved, the identity looked up through it, the changes settled on it
and checked for conflicts. COMPACT_MANIFESTS merges older manifests where that is due. Then base list, delta list and the
data files that travel with the commit go out *together*; BASE_LIST and DELTA_LIST are left in that order as the
acknowledgements come, and PUBLISH begins when every one is there: the snapshot is built, and its bytes are an event, so
that whoever finds the journal can send them; then one atomic create of `snapshot-<base + 1>`.

Who finishes another's commit writes `TakenOver` into its journal first. The writer that meets it before its own next step
makes no further attempt (it is not committed), and where it would have to give up bytes that the journal holds and it never
sent, it is *undecided*: somebody else may be sending them.

A store that says "created" is believed. Anything else is read back first (H2, H3, H4): our own bytes under the name mean
that it landed; another's mean that the race is lost, proven; nothing means that the same bytes are sent again to the same
name (H9); no answer at all ends, after a few looks, as *undecided*, never as *failed*. A lost race goes through RETRY back
to COLLECT: whatever depends on the base is derived again, the rest is kept.

A snapshot that landed is not yet committed: VERIFY makes sure that it stands on the base that was read, on every path to
"committed" (H6). HINT comes after the caller was told, and its failure changes nothing (H7, H17).

Owns: phases, state, `step`. Must not know: stores, clocks, threads, randomness.
Invariants: `step` is pure; a (phase, event) that is not in the table raises `ProtocolViolation` and changes nothing;
names are discarded only when every send that could need them was refused with proof (H5, G5).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, TypeAlias

from ...core.errors import ProtocolViolation
from . import effects as do
from . import events as ev
from .effects import Effect, Outcome
from .events import Event, SnapshotRef
from .ledger import EMPTY, Ledger

SENDS = 3
"""How often the same snapshot is sent when nothing is found under its name."""
LOOKS = 4
"""How often a read-back or a lineage check is tried when it gets no answer."""
AGINGS = 5
"""How often a commit starts again because its base expired before anything was sent (H24)."""


class Phase(Enum):
    COLLECT = "collect"
    COMPACT_MANIFESTS = "compact manifests"
    BASE_LIST = "base list"
    DELTA_LIST = "delta list"
    PUBLISH = "publish"
    VERIFY = "verify"
    RETRY = "retry"
    HINT = "hint"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Repeats:
    """How often each step that may be repeated was taken; every one of them has a limit (H24).

    Attributes:
        attempt: 1 for the first; the retry policy limits it.
        agings: bases that expired before anything was sent on them, at most `AGINGS`.
        sends: of the current attempt's snapshot, at most `SENDS`.
        looks: of the current read-back or lineage check, at most `LOOKS`.
    """

    attempt: int = 1
    agings: int = 0
    sends: int = 0
    looks: int = 0


_NO_REPEATS = Repeats()


@dataclass(frozen=True, slots=True)
class CommitState:
    """Everything the protocol remembers of one commit: a fold of its events.

    Attributes:
        base, ours: what the current attempt builds on, and the snapshot that it makes.
        missing: what PUBLISH still waits for, of "data", "base list", "delta list".
        ledger: every metadata file that the commit wrote, and which of them its snapshot references.
        lost_to: the winners of the races that this commit lost.
    """

    phase: Phase = Phase.COLLECT
    request: ev.CommitRequested | None = None
    base: SnapshotRef | None = None
    ours: SnapshotRef | None = None
    missing: frozenset[str] = frozenset()
    repeats: Repeats = _NO_REPEATS
    ledger: Ledger = EMPTY
    lost_to: tuple[SnapshotRef, ...] = ()
    outcome: Outcome | None = None

    @property
    def attempt(self) -> int:
        """The number of the current attempt, from 1."""
        return self.repeats.attempt

    @property
    def sends(self) -> int:
        """How often the snapshot of the current attempt was sent."""
        return self.repeats.sends


Step: TypeAlias = tuple[CommitState, tuple[Effect, ...]]


def step(state: CommitState, event: Event) -> Step:
    """The next state, and what is to be done.

    Raises:
        ProtocolViolation: the phase does not know the event.

    >>> state, effects = step(CommitState(), ev.CommitRequested("me", None, "APPEND", False))
    >>> state.phase.value, [type(e).__name__ for e in effects]
    ('collect', ['ResolveLatest'])
    """
    transition = TRANSITIONS.get((state.phase, type(event)))
    if transition is None:
        raise ProtocolViolation(f"the commit machine in phase '{state.phase.value}' does not know {event!r}")
    after, effects = transition.handler(state, event)
    if after.phase not in transition.leads_to:
        raise ProtocolViolation(f"{type(event).__name__} led from '{state.phase.value}' to '{after.phase.value}'")
    return after, effects


def state_after(events: list[Event]) -> CommitState:
    """The state after these events: how a journal is replayed."""
    state = CommitState()
    for event in events:
        state, _ = step(state, event)
    return state


# ------------------------------------------------------------------------------------------------------------ collect


def _requested(state: CommitState, event: ev.CommitRequested) -> Step:
    if state.request is not None:
        raise ProtocolViolation("a commit is requested once")
    return replace(state, request=event), (do.ResolveLatest(1, None),)


def _resolved(state: CommitState, event: ev.LatestResolved) -> Step:
    request = _request(state)
    base_id = event.base.id if event.base else 0
    if request.identifier is not None:
        if event.inspected_through != base_id:
            raise ProtocolViolation(f"identity inspected through {event.inspected_through}, but the base is {base_id}")
        if event.replay_of is not None:
            return _conclude(state, do.Committed(event.replay_of, True))
        if event.last_identifier is not None and request.identifier <= event.last_identifier:
            reason = f"identifier {request.identifier} of '{request.user}' is not above {event.last_identifier}, its last one"
            return _conclude(state, do.NotCommitted("invalid-argument", reason))
    ours = SnapshotRef(base_id + 1, event.snapshot_uuid)
    repeats = replace(state.repeats, sends=0, looks=0)
    state = replace(state, base=event.base, ours=ours, repeats=repeats, ledger=state.ledger.with_snapshot(()))
    return state, (do.CollectChanges(event.base),)


def _resolve_failed(state: CommitState, event: ev.ResolveFailed) -> Step:
    return _conclude(state, do.NotCommitted(event.code, event.reason))


def _conflict(state: CommitState, event: ev.ConflictFound) -> Step:
    return _conclude(state, do.NotCommitted("commit-conflict", f"{event.check}: {event.reason}"))


def _collected(state: CommitState, event: ev.ChangesCollected) -> Step:
    return replace(state, phase=Phase.COMPACT_MANIFESTS), (do.CompactManifests(state.base, state.attempt > 1),)


# ---------------------------------------------------------------------------------------------- manifests, lists, data


def _compacted(state: CommitState, event: ev.ManifestsCompacted) -> Step:
    missing = {"base list", "delta list"}
    effects: list[Effect] = [do.WriteBaseList(state.base), do.WriteDeltaList(state.base)]
    # An attempt ends after its data files are durable, or with the commit: a later one finds them there.
    if _request(state).has_data and state.attempt == 1 and state.repeats.agings == 0:
        missing.add("data")
        effects.append(do.UploadData())
    ledger = state.ledger.with_files(event.written)
    return replace(state, phase=Phase.BASE_LIST, missing=frozenset(missing), ledger=ledger), tuple(effects)


def _data_uploaded(state: CommitState, event: ev.DataUploaded) -> Step:
    return _acknowledged(state, "data")


def _base_list_written(state: CommitState, event: ev.BaseListWritten) -> Step:
    return _acknowledged(replace(state, ledger=state.ledger.with_files((event.name, *event.beside))), "base list")


def _delta_list_written(state: CommitState, event: ev.DeltaListWritten) -> Step:
    return _acknowledged(replace(state, ledger=state.ledger.with_files((event.name, *event.manifests))), "delta list")


def _acknowledged(state: CommitState, what: str) -> Step:
    """One upload less to wait for; phases are left in their order, whatever order the answers come in."""
    missing = state.missing - {what}
    if "base list" in missing:
        return replace(state, missing=missing, phase=Phase.BASE_LIST), ()
    if missing:
        return replace(state, missing=missing, phase=Phase.DELTA_LIST), ()
    return _prepare(replace(state, missing=missing, phase=Phase.PUBLISH))


def _upload_failed(state: CommitState, event: ev.UploadFailed) -> Step:
    """Nothing was published on this attempt, and every earlier one was refused with proof: it is not committed.

    What was uploaded is left to orphan cleaning: another upload of this attempt may still be on its way.
    """
    return _conclude(_in_doubt(state), do.NotCommitted("store-unavailable", f"{event.what}: {event.reason}"))


# ------------------------------------------------------------------------------------------------------------ publish


def _prepare(state: CommitState) -> Step:
    return state, (do.PrepareSnapshot(_ours(state)),)


def _prepared(state: CommitState, event: ev.SnapshotPrepared) -> Step:
    if event.snapshot != state.ours or event.base != state.base:
        raise ProtocolViolation(f"{event.snapshot} on {event.base} is not the snapshot of this attempt")
    return _publish(replace(state, ledger=state.ledger.with_snapshot(event.names)))


def _taken_over(state: CommitState, event: ev.TakenOver) -> Step:
    """Before the first send of an attempt: every earlier attempt was refused with proof, or given up in the journal."""
    if state.sends > 0:
        raise ProtocolViolation("a commit that was sent cannot be told what others make of it")
    reason = "another process took this commit over while it was slow, and found that it had not landed"
    return _conclude(_in_doubt(state), do.NotCommitted("commit-conflict", reason))


def _journal_unsure(state: CommitState, event: ev.JournalUnsure) -> Step:
    return _undecided(state, event.reason)


def _publish(state: CommitState) -> Step:
    sends = state.sends + 1
    return _repeated(state, sends=sends), (do.Publish(_ours(state), sends),)


def _read_back(state: CommitState) -> Step:
    looks = state.repeats.looks + 1
    return _repeated(state, looks=looks), (do.ReadBack(_ours(state), looks, state.ledger.unsettled),)


def _base_aged(state: CommitState, event: ev.BaseAged) -> Step:
    """The base is not there any more. Before the first send another one is looked for, a few times at most.

    After a send, the same bytes would have to go to the same name.
    """
    if state.sends > 1:
        return _undecided(state, "its base is not there any more, or cannot be read: it is too late to send it again")
    agings = state.repeats.agings + 1
    if agings > AGINGS:
        reason = (
            f"{agings} snapshots that it was to build on expired, one after the other, before it could be published"
        )
        return _conclude(state, do.NotCommitted("retries-exhausted", reason))
    state = replace(_repeated(state, agings=agings), phase=Phase.COLLECT)
    return state, (do.ResolveLatest(state.attempt, state.base),)


def _publish_impossible(state: CommitState, event: ev.UploadFailed) -> Step:
    """The store refused the send itself (permission, wrong bucket): it cannot have landed, but an earlier send might."""
    if state.sends > 1:
        return _undecided(state, event.reason)
    return _upload_failed(state, event)


def _published(state: CommitState, event: ev.SnapshotPublished) -> Step:
    return _verify(replace(_repeated(state, looks=0), phase=Phase.VERIFY))


def _refused(state: CommitState, event: ev.PublishRefused) -> Step:
    return _read_back(_in_doubt(state) if event.earlier_send else state)


def _answer_lost(state: CommitState, event: ev.AnswerLost) -> Step:
    return _read_back(_in_doubt(state))


def _found_another(state: CommitState, event: ev.FoundAnother) -> Step:
    """The race is lost, and proven: another's snapshot holds the name, so no send of ours can land there."""
    state = replace(state, phase=Phase.RETRY, lost_to=(*state.lost_to, event.winner))
    return state, (do.AwaitRetry(state.attempt, event.winner),)


def _found_nothing(state: CommitState, event: ev.FoundNothing) -> Step:
    if state.sends < SENDS:
        return _publish(_in_doubt(state))
    return _undecided(state, "the store took the snapshot neither as created nor as existing")


def _read_back_failed(state: CommitState, event: ev.ReadBackFailed) -> Step:
    if state.repeats.looks < LOOKS:
        return _read_back(state)
    return _undecided(state, event.reason)


# --------------------------------------------------------------------------------------------------- verify, hint, end


def _verify(state: CommitState) -> Step:
    looks = state.repeats.looks + 1
    return _repeated(state, looks=looks), (do.VerifyLineage(state.base, _ours(state), looks),)


def _verified(state: CommitState, event: ev.LineageVerified) -> Step:
    ours = _ours(state)
    outcome = do.Committed(ours, False)
    effects: list[Effect] = [do.Conclude(outcome), do.WriteHint(ours.id)]
    if spare := state.ledger.discardable(landed=True):
        effects.append(do.Discard(spare))
    return replace(state, phase=Phase.HINT, outcome=outcome), tuple(effects)


def _broken(state: CommitState, event: ev.LineageBroken) -> Step:
    """A fork: not in the history, but a file that names our metadata, on which somebody may have built: it stays (G5).

    Where it was taken away again, and there is no table any more, nobody can build on anything of it.

    Names have been freed: the race that an earlier attempt lost proves nothing any more, its send may land yet (H9).
    """
    taken_away = event.code != "fenced"
    if state.lost_to or (taken_away and state.ledger.unsettled):
        return _undecided(state, f"{event.reason}, and an earlier send of it may land on another")
    return _conclude(state if event.table_gone else _in_doubt(state), do.NotCommitted(event.code, event.reason))


def _unread(state: CommitState, event: ev.LineageUnread) -> Step:
    if state.repeats.looks < LOOKS:
        return _verify(state)
    return _undecided(state, f"the snapshot landed, but its base could not be checked: {event.reason}")


def _hinted(state: CommitState, event: Any) -> Step:
    return replace(state, phase=Phase.DONE), ()


def _granted(state: CommitState, event: ev.RetryGranted) -> Step:
    attempt = state.attempt + 1
    state = replace(_repeated(state, attempt=attempt), phase=Phase.COLLECT)
    return state, (do.ResolveLatest(attempt, state.lost_to[-1]),)


def _budget_spent(state: CommitState, event: ev.BudgetSpent) -> Step:
    return _conclude(state, do.NotCommitted("retries-exhausted", event.reason))


def _undecided(state: CommitState, reason: str) -> Step:
    return _conclude(_in_doubt(state), do.Undecided(_ours(state), reason))


def _conclude(state: CommitState, outcome: Outcome) -> Step:
    """The end, for every outcome but a commit of our own."""
    effects: list[Effect] = [do.Conclude(outcome)]
    if spare := state.ledger.discardable(landed=False):
        effects.append(do.Discard(spare))
    return replace(state, phase=Phase.DONE, outcome=outcome), tuple(effects)


def _in_doubt(state: CommitState) -> CommitState:
    """Something of this commit may still land, or stands where it should not: its files stay (H5)."""
    return replace(state, ledger=state.ledger.with_doubt())


def _repeated(state: CommitState, **counts: int) -> CommitState:
    return replace(state, repeats=replace(state.repeats, **counts))


def discardable(state: CommitState) -> tuple[str, ...]:
    """What a commit wrote that nothing can need, where somebody else found out that it did not land: the folded state tells.

    Nothing where the last send was never answered: it may still arrive (H5, H9).
    """
    sent = state.phase is Phase.PUBLISH and state.sends > 0
    if sent or state.phase in (Phase.VERIFY, Phase.HINT, Phase.DONE):
        return ()
    return state.ledger.discardable(landed=False)


def _request(state: CommitState) -> ev.CommitRequested:
    if state.request is None:
        raise ProtocolViolation("no commit was requested")
    return state.request


def _ours(state: CommitState) -> SnapshotRef:
    if state.ours is None:
        raise ProtocolViolation("there is no snapshot of ours before the latest is resolved")
    return state.ours


# ------------------------------------------------------------------------------------------------------ the table

Handler: TypeAlias = Callable[[CommitState, Any], Step]


@dataclass(frozen=True, slots=True)
class Transition:
    """What an event does in a phase.

    Attributes:
        leads_to: the phases that the handler may answer; any other is a defect, and refused.
    """

    handler: Handler
    leads_to: tuple[Phase, ...]


_P = Phase
TRANSITIONS: dict[tuple[Phase, type[Any]], Transition] = {
    (_P.COLLECT, ev.CommitRequested): Transition(_requested, (_P.COLLECT,)),
    (_P.COLLECT, ev.LatestResolved): Transition(_resolved, (_P.COLLECT, _P.DONE)),
    (_P.COLLECT, ev.ResolveFailed): Transition(_resolve_failed, (_P.DONE,)),
    (_P.COLLECT, ev.ConflictFound): Transition(_conflict, (_P.DONE,)),
    (_P.COLLECT, ev.ChangesCollected): Transition(_collected, (_P.COMPACT_MANIFESTS,)),
    (_P.COMPACT_MANIFESTS, ev.ManifestsCompacted): Transition(_compacted, (_P.BASE_LIST,)),
    (_P.BASE_LIST, ev.BaseListWritten): Transition(_base_list_written, (_P.DELTA_LIST, _P.PUBLISH)),
    (_P.BASE_LIST, ev.DeltaListWritten): Transition(_delta_list_written, (_P.BASE_LIST,)),
    (_P.BASE_LIST, ev.DataUploaded): Transition(_data_uploaded, (_P.BASE_LIST,)),
    (_P.BASE_LIST, ev.UploadFailed): Transition(_upload_failed, (_P.DONE,)),
    (_P.DELTA_LIST, ev.DeltaListWritten): Transition(_delta_list_written, (_P.DELTA_LIST, _P.PUBLISH)),
    (_P.DELTA_LIST, ev.DataUploaded): Transition(_data_uploaded, (_P.DELTA_LIST, _P.PUBLISH)),
    (_P.DELTA_LIST, ev.UploadFailed): Transition(_upload_failed, (_P.DONE,)),
    (_P.PUBLISH, ev.SnapshotPrepared): Transition(_prepared, (_P.PUBLISH,)),
    (_P.PUBLISH, ev.TakenOver): Transition(_taken_over, (_P.DONE,)),
    (_P.PUBLISH, ev.JournalUnsure): Transition(_journal_unsure, (_P.DONE,)),
    (_P.PUBLISH, ev.BaseAged): Transition(_base_aged, (_P.COLLECT, _P.DONE)),
    (_P.PUBLISH, ev.UploadFailed): Transition(_publish_impossible, (_P.DONE,)),
    (_P.PUBLISH, ev.SnapshotPublished): Transition(_published, (_P.VERIFY,)),
    (_P.PUBLISH, ev.PublishRefused): Transition(_refused, (_P.PUBLISH,)),
    (_P.PUBLISH, ev.AnswerLost): Transition(_answer_lost, (_P.PUBLISH,)),
    (_P.PUBLISH, ev.FoundOurs): Transition(_published, (_P.VERIFY,)),
    (_P.PUBLISH, ev.FoundAnother): Transition(_found_another, (_P.RETRY,)),
    (_P.PUBLISH, ev.FoundNothing): Transition(_found_nothing, (_P.PUBLISH, _P.DONE)),
    (_P.PUBLISH, ev.ReadBackFailed): Transition(_read_back_failed, (_P.PUBLISH, _P.DONE)),
    (_P.VERIFY, ev.LineageVerified): Transition(_verified, (_P.HINT,)),
    (_P.VERIFY, ev.LineageBroken): Transition(_broken, (_P.DONE,)),
    (_P.VERIFY, ev.LineageUnread): Transition(_unread, (_P.VERIFY, _P.DONE)),
    (_P.RETRY, ev.RetryGranted): Transition(_granted, (_P.COLLECT,)),
    (_P.RETRY, ev.BudgetSpent): Transition(_budget_spent, (_P.DONE,)),
    (_P.HINT, ev.HintWritten): Transition(_hinted, (_P.DONE,)),
    (_P.HINT, ev.HintSkipped): Transition(_hinted, (_P.DONE,)),
}
