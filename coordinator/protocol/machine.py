"""The commit path as a state machine. Prose first, then the handlers, then the table.

A commit begins in COLLECT: the latest snapshot is resolved, the commit's identity is looked up in its history, and the changes
are settled on it and checked for conflicts. COMPACT_MANIFESTS merges older manifests where that is due. Then the base list, the
delta list and the data files that travel with the commit are uploaded *together*; BASE_LIST and DELTA_LIST are left in that
order. PUBLISH begins when all have arrived: the snapshot is built, and its bytes are recorded as an event, so that any process
that finds the journal can send them. Then follows one atomic create of `snapshot-<base + 1>`.

A process that finishes another writer's commit first writes `TakenOver` into its journal. A writer that meets this entry before
its own next step makes no further attempt and reports *not committed*; or *undecided*, if the journal holds bytes that it never
sent, because another process may be sending them.

An answer "created" from the store is believed. After any other answer, the name is read back first (H2, H3, H4). If it holds
this commit's bytes, the commit landed. If it holds another snapshot, the race is provably lost. If it holds nothing, the same
bytes are sent again to the same name (H9). If there is no answer after a few looks, the commit ends as *undecided*, never as
*failed*. A lost race goes through RETRY back to COLLECT: what depends on the base is computed again, the rest is kept.

An append that has lost a race asks others to carry it (decision 71), and so does one that knows of others before it tries by
itself: its data files and manifests are then uploaded in REGISTER. There its intent is recorded as an event and then written.
From then on any of the next two snapshots may hold it. In GATHER it looks at the intents of others. The first of them leads: it
goes on to COLLECT and publishes a snapshot with all of them. The others are in RIDE: they look for the next snapshot, and lead
themselves if none comes. Whatever they do, they first look for themselves in the latest snapshot. A commit whose intent is open
is never reported as *not committed*. Only when both snapshots are published without it, it may register again, or give up. To
give up at once it *closes its window*: it publishes a snapshot without rows in each of the two ids, or loses them, looking for
itself each time (decision 120). A process that finishes the commit of a rider whose writer is gone begins with its open intent:
it publishes the next snapshot with the rider's manifests, or loses it, until the intent is closed, and registers nothing.

A snapshot that landed is not committed yet: on every path to "committed", VERIFY checks that it stands on the base that was read
(H6). HINT runs after the caller has its answer, and its failure changes nothing (H7, H17).

Owns: phases, state, `step`. Must not know: stores, clocks, threads, randomness.
Invariants: `step` is pure. A (phase, event) pair that is not in the table raises `ProtocolViolation` and changes nothing. Names
are discarded only when every send that could need them provably failed (H5, G5).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, TypeAlias, cast

from ...core.errors import ProtocolViolation
from . import effects as do
from . import events as ev
from .effects import Effect, Outcome
from .events import Event
from .ledger import EMPTY, Ledger
from .ride import ALONE, Ride
from .snapshot_ref import SnapshotRef

SENDS = 3
"""How many times the same snapshot is sent while nothing is found under its name."""
LOOKS = 4
"""How many times a read-back or a lineage check is tried while it gets no answer."""
AGINGS = 5
"""How many times a commit starts again because its base expired before anything was sent (H24)."""


class Phase(Enum):
    COLLECT = "collect"
    REGISTER = "register"
    GATHER = "gather"
    RIDE = "ride"
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
    """Counts the steps that may be repeated; each of them has a limit (H24).

    Attributes:
        attempt: 1 for the first; limited by the retry policy.
        agings: bases that expired before anything was sent on them, at most `AGINGS`.
        sends: sends of the current attempt's snapshot, at most `SENDS`.
        looks: looks of the current read-back or lineage check, at most `LOOKS`.
    """

    attempt: int = 1
    agings: int = 0
    sends: int = 0
    looks: int = 0


_NO_REPEATS = Repeats()


@dataclass(frozen=True, slots=True)
class CommitState:
    """Everything that the protocol remembers about one commit, folded from its events.

    Attributes:
        base, ours: the snapshot that the current attempt builds on, and the one that it makes.
        missing: the uploads that PUBLISH still waits for: "data", "base list", "delta list"; in REGISTER "data", "manifests".
        lost_to: the winners of the races that this commit lost, and the snapshots that came while it waited.
    """

    phase: Phase = Phase.COLLECT
    request: ev.CommitRequested | None = None
    base: SnapshotRef | None = None
    ours: SnapshotRef | None = None
    missing: frozenset[str] = frozenset()
    repeats: Repeats = _NO_REPEATS
    ledger: Ledger = EMPTY
    lost_to: tuple[SnapshotRef, ...] = ()
    ride: Ride = ALONE
    outcome: Outcome | None = None

    @property
    def attempt(self) -> int:
        return self.repeats.attempt

    @property
    def sends(self) -> int:
        return self.repeats.sends


Step: TypeAlias = tuple[CommitState, tuple[Effect, ...]]


def step(state: CommitState, event: Event) -> Step:
    """The next state, and the effects to carry out. Raises ProtocolViolation if the phase does not accept the event.

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
    state = CommitState()
    for event in events:
        state, _ = step(state, event)
    return state


# ------------------------------------------------------------------------------------------------------------ collect


def _requested(state: CommitState, event: ev.CommitRequested) -> Step:
    if state.request is not None:
        raise ProtocolViolation("a commit is requested once")
    return replace(state, request=event), (do.ResolveLatest(1, None),)


def _rider_taken_over(state: CommitState, event: ev.RiderTakenOver) -> Step:
    """Its writer's manifests are not in the ledger, so nothing of the writer's is deleted here.

    Until this process has read the latest snapshot, the commit is at best in the first one after the base of its intent.
    """
    if state.request is not None:
        raise ProtocolViolation("a commit is requested once")
    request = ev.CommitRequested(event.user, event.identifier, event.kind, False, True)
    ride = Ride(window=event.base, files=event.files)
    ride = replace(
        ride, spent=f"its writer is gone, and snapshots {event.base.id + 1} and {event.base.id + 2} are others'"
    )
    first = SnapshotRef(event.base.id + 1, "")
    return replace(state, request=request, ours=first, ride=ride), (do.ResolveLatest(1, event.base, event.base),)


def _resolved(state: CommitState, event: ev.LatestResolved) -> Step:
    request = _request(state)
    base_id = event.base.id if event.base else 0
    if event.aboard is not None:
        return _aboard(state, event.aboard)
    if event.closed:
        state = replace(state, ride=replace(state.ride, window=None))
    known = _known_by_identity(request, event, base_id)
    if isinstance(known, do.Committed) or (known is not None and state.ride.closing is None):
        return _conclude(state, known)
    ours = SnapshotRef(base_id + 1, event.snapshot_uuid)
    repeats = replace(state.repeats, sends=0, looks=0)
    state = replace(state, base=event.base, ours=ours, repeats=repeats)
    if state.ride.closing is not None:
        if state.ride.window is None:
            return _conclude(state, state.ride.closing)
        return state, (do.CollectChanges(event.base, closes=True),)
    if state.ride.spent and state.ride.window is None:
        return _conclude(state, do.NotCommitted("retries-exhausted", state.ride.spent))
    if request.rides and event.base is not None:
        if state.ride.window is not None:
            return _gather(state, waits=not state.ride.spent)
        if _is_late(request, event):
            return state, (do.CollectChanges(event.base),)
        if state.lost_to:
            return replace(state, phase=Phase.REGISTER), (do.PrepareIntent(event.base),)
        if event.crowded:
            return replace(state, ride=replace(state.ride, asks_first=True)), (do.CollectChanges(event.base, True),)
    return state, (do.CollectChanges(event.base),)


def _known_by_identity(
    request: ev.CommitRequested, event: ev.LatestResolved, base_id: int
) -> do.Committed | do.NotCommitted | None:
    """How a commit ends because of what its identity has committed before; None where nothing stands against it."""
    if request.identifier is None:
        return None
    if event.inspected_through != base_id:
        raise ProtocolViolation(f"identity inspected through {event.inspected_through}, but the base is {base_id}")
    if request.in_order and _is_late(request, event):
        return do.NotCommitted("invalid-argument", late(request.user, request.identifier, event.last_identifier))
    if event.replay_of is not None:
        return do.Committed(event.replay_of, True)
    return do.NotCommitted("outcome-unknown", event.doubt) if event.doubt else None


def late(user: str, identifier: int, last: int | None) -> str:
    return f"identifier {identifier} of '{user}' is not above {last}, its last one"


def _is_late(request: ev.CommitRequested, event: ev.LatestResolved) -> bool:
    """Such a commit asks nobody to carry it: earlier versions remember the last identifier that they carry as the largest."""
    last = event.last_identifier
    return last is not None and request.identifier is not None and request.identifier < last


def _resolve_failed(state: CommitState, event: ev.ResolveFailed) -> Step:
    return _conclude(state, do.NotCommitted(event.code, event.reason, event.next_step))


def _conflict(state: CommitState, event: ev.ConflictFound) -> Step:
    return _conclude(state, do.NotCommitted("commit-conflict", f"{event.check}: {event.reason}"))


def _overtaken(state: CommitState, event: ev.ConflictFound) -> Step:
    """A conflict that was found beside the uploads: nothing of this attempt was sent, and every earlier one provably failed."""
    if state.sends > 0:
        raise ProtocolViolation("a commit that was sent cannot be given up for a conflict any more")
    return _conflict(state, event)


# ------------------------------------------------------------------------------------------------- riding with others


def _offer(state: CommitState) -> Step:
    """Make durable what an intent names: others can then carry this commit, before it has tried to publish anything itself."""
    missing, effects = {"manifests"}, [cast(Effect, do.WriteManifests(state.base))]
    if _brings_data(state):
        missing.add("data")
        effects.append(do.UploadData())
    return replace(state, phase=Phase.REGISTER, missing=frozenset(missing)), tuple(effects)


def _manifests_written(state: CommitState, event: ev.ManifestsWritten) -> Step:
    return _offered(replace(state, ledger=state.ledger.with_files(event.manifests)), "manifests")


def _data_offered(state: CommitState, event: ev.DataUploaded) -> Step:
    return _offered(state, "data")


def _offered(state: CommitState, what: str) -> Step:
    state, base = replace(state, missing=state.missing - {what}), state.base
    if base is None:
        raise ProtocolViolation("nothing rides before the first snapshot")
    return state, () if state.missing else (do.PrepareIntent(base),)


def _intent_prepared(state: CommitState, event: ev.IntentPrepared) -> Step:
    if event.base != state.base:
        raise ProtocolViolation(f"an intent on {event.base} does not fit the base of this attempt")
    return replace(state, ride=state.ride.registered(event)), (do.RegisterIntent(event.base),)


def _intent_registered(state: CommitState, event: ev.IntentRegistered) -> Step:
    return _gather(state, waits=True)


def _intent_refused(state: CommitState, event: ev.IntentRefused) -> Step:
    return _gather(replace(state, ride=replace(state.ride, window=None, asks_first=False)), waits=False)


def _intent_unsure(state: CommitState, event: ev.JournalUnsure) -> Step:
    """Whoever finds the intent in the journal may publish its manifests, even if the store never had it."""
    return _undecided(replace(state, ride=replace(state.ride, window=state.base)), event.reason)


def _gather(state: CommitState, *, waits: bool) -> Step:
    base = state.base
    if base is None:
        raise ProtocolViolation("nothing rides before the first snapshot")
    state = replace(state, phase=Phase.GATHER, ride=replace(state.ride, polls=0))
    return state, (do.ChooseRiders(base, waits),)


def _chosen(state: CommitState, event: ev.RidersChosen) -> Step:
    state = replace(state, ride=replace(state.ride, rank=event.rank))
    if event.rank == 0:
        return replace(state, phase=Phase.COLLECT), (do.CollectChanges(state.base),)
    return _poll(replace(state, phase=Phase.RIDE))


def _resumed(state: CommitState, event: ev.Resumed) -> Step:
    """Nobody else may close the window soon: the commit takes the next id itself, if nobody has carried it.

    Its caller was told that it is not known how it ended, so that it need not give up any more.
    """
    if not isinstance(state.outcome, do.Undecided) or state.ride.window is None:
        raise ProtocolViolation("only a commit whose intent is open goes on after its outcome was unknown")
    return _next_attempt(replace(state, outcome=None, ride=replace(state.ride, aboard=False, closing=None)))


def _poll(state: CommitState) -> Step:
    assert state.base is not None
    polls = state.ride.polls + 1
    return replace(state, ride=replace(state.ride, polls=polls)), (do.AwaitCarrier(state.base, polls),)


def _nobody_came(state: CommitState, event: ev.NobodyCame) -> Step:
    if state.ride.has_waited:
        return _gather(state, waits=False)
    return _poll(state)


def _snapshot_seen(state: CommitState, event: ev.SnapshotSeen) -> Step:
    state = replace(state, phase=Phase.RETRY, lost_to=(*state.lost_to, event.winner))
    return state, (do.AwaitRetry(state.attempt, event.winner),)


def _aboard(state: CommitState, aboard: SnapshotRef) -> Step:
    """Another's snapshot carries this commit. It needs this commit's manifests, and nothing else that it wrote."""
    if state.ride.window is None:
        raise ProtocolViolation("a commit without an intent cannot ride")
    ledger = state.ledger.with_snapshot(state.ride.manifests)
    ride = replace(state.ride, aboard=True)
    return _verify(replace(_repeated(state, looks=0), phase=Phase.VERIFY, ours=aboard, ledger=ledger, ride=ride))


def _collected(state: CommitState, event: ev.ChangesCollected) -> Step:
    if state.ride.closing is not None:
        return _list(state)
    if state.ride.asks_first:
        return _offer(state)
    return replace(state, phase=Phase.COMPACT_MANIFESTS), (do.CompactManifests(state.base, state.attempt > 1),)


# ---------------------------------------------------------------------------------------------- manifests, lists, data


def _compacted(state: CommitState, event: ev.ManifestsCompacted) -> Step:
    return _list(replace(state, ledger=state.ledger.with_files(event.written)))


def _list(state: CommitState) -> Step:
    missing = {"base list", "delta list"}
    effects: list[Effect] = [do.WriteBaseList(state.base), do.WriteDeltaList(state.base)]
    if _brings_data(state):
        missing.add("data")
        effects.append(do.UploadData())
    return replace(state, phase=Phase.BASE_LIST, missing=frozenset(missing)), tuple(effects)


def _brings_data(state: CommitState) -> bool:
    """Whether data files travel with this attempt: an earlier one, or an intent, was not begun before they were durable."""
    return _request(state).has_data and state.attempt == 1 and state.repeats.agings == 0 and not state.ride.files


def _data_uploaded(state: CommitState, event: ev.DataUploaded) -> Step:
    return _acknowledged(state, "data")


def _base_list_written(state: CommitState, event: ev.BaseListWritten) -> Step:
    return _acknowledged(replace(state, ledger=state.ledger.with_files((event.name, *event.beside))), "base list")


def _delta_list_written(state: CommitState, event: ev.DeltaListWritten) -> Step:
    return _acknowledged(replace(state, ledger=state.ledger.with_files((event.name, *event.manifests))), "delta list")


def _acknowledged(state: CommitState, what: str) -> Step:
    """One upload less to wait for. Phases are left in their order, whatever the order of the answers."""
    missing = state.missing - {what}
    if "base list" in missing:
        return replace(state, missing=missing), ()
    if missing:
        return replace(state, missing=missing, phase=Phase.DELTA_LIST), ()
    return _prepare(replace(state, missing=missing, phase=Phase.PUBLISH))


def _upload_failed(state: CommitState, event: ev.UploadFailed) -> Step:
    """Nothing was published in this attempt, and every earlier one provably failed: the commit is not committed.

    Uploaded files are left to orphan cleaning, because another upload of this attempt may still be running.
    """
    reason = f"{event.what}: {event.reason}"
    return _conclude(_in_doubt(state), do.NotCommitted("store-unavailable", reason, event.next_step))


# ------------------------------------------------------------------------------------------------------------ publish


def _prepare(state: CommitState) -> Step:
    return state, (do.PrepareSnapshot(_ours(state)),)


def _prepared(state: CommitState, event: ev.SnapshotPrepared) -> Step:
    if event.snapshot != state.ours or event.base != state.base:
        raise ProtocolViolation(f"{event.snapshot} on {event.base} is not the snapshot of this attempt")
    return _publish(replace(state, ledger=state.ledger.with_snapshot(event.names)))


def _closing_prepared(state: CommitState, event: ev.ClosingPrepared) -> Step:
    if state.ride.closing is None or event.snapshot != state.ours or event.base != state.base:
        raise ProtocolViolation(f"{event.snapshot} on {event.base} closes no window of this attempt")
    return _publish(replace(state, ledger=state.ledger.with_snapshot(event.names)))


def _taken_over(state: CommitState, event: ev.TakenOver) -> Step:
    """Before the first send of an attempt: every earlier attempt provably failed, or was given up in the journal.

    Where the intent is open, the other process goes on with it.
    """
    if state.sends > 0:
        raise ProtocolViolation("a commit that was sent cannot be taken over by others any more")
    reason = "another process took this commit over while it was slow, and found that it had not landed"
    outcome = do.NotCommitted("commit-conflict", reason)
    return _left_open(state, outcome) if state.ride.window is not None else _conclude(_in_doubt(state), outcome)


def _journal_unsure(state: CommitState, event: ev.JournalUnsure) -> Step:
    return _undecided(state, event.reason)


def _publish(state: CommitState) -> Step:
    sends = state.sends + 1
    return _repeated(state, sends=sends), (do.Publish(_ours(state), sends),)


def _read_back(state: CommitState) -> Step:
    looks = state.repeats.looks + 1
    return _repeated(state, looks=looks), (do.ReadBack(_ours(state), looks, state.ledger.unsettled),)


def _base_aged(state: CommitState, event: ev.BaseAged) -> Step:
    """Before the first send another base is looked for; after it, the same bytes would have to go to the same name."""
    if state.sends > 1:
        return _undecided(state, "its base does not exist any more, or cannot be read: it is too late to send it again")
    agings = state.repeats.agings + 1
    if agings > AGINGS:
        reason = (
            f"{agings} snapshots that it was to build on expired, one after the other, before it could be published"
        )
        return _conclude(state, do.NotCommitted("retries-exhausted", reason))
    state = replace(_repeated(state, agings=agings), phase=Phase.COLLECT)
    return state, (do.ResolveLatest(state.attempt, state.base, state.ride.window),)


def _publish_impossible(state: CommitState, event: ev.UploadFailed) -> Step:
    """The store refused the send itself (permission, wrong bucket): it cannot have landed, but an earlier send might have. All
    other files were durable before, so that no upload is under way, and nothing can name them.
    """
    if state.sends > 1:
        return _undecided(state, event.reason)
    if state.sends == 0:  # it was not built, or the journal failed, whose line others may have read
        return _upload_failed(state, event)
    reason = f"{event.what}: {event.reason}"
    return _conclude(state, do.NotCommitted("store-unavailable", reason, event.next_step))


def _published(state: CommitState, event: ev.SnapshotPublished) -> Step:
    return _verify(replace(_repeated(state, looks=0), phase=Phase.VERIFY))


def _refused(state: CommitState, event: ev.PublishRefused) -> Step:
    return _read_back(_in_doubt(state) if event.earlier_send else state)


def _answer_lost(state: CommitState, event: ev.AnswerLost) -> Step:
    return _read_back(_in_doubt(state))


def _found_another(state: CommitState, event: ev.FoundAnother) -> Step:
    """The race is provably lost: another snapshot holds the name, so no send of this commit can land there."""
    state = replace(state, phase=Phase.RETRY, lost_to=(*state.lost_to, event.winner))
    return state, (do.AwaitRetry(state.attempt, event.winner),)


def _found_nothing(state: CommitState, event: ev.FoundNothing) -> Step:
    if state.sends < SENDS:
        return _publish(_in_doubt(state))
    return _undecided(state, "the store reported the snapshot neither as created nor as existing")


def _read_back_failed(state: CommitState, event: ev.ReadBackFailed) -> Step:
    if state.repeats.looks < LOOKS:
        return _read_back(state)
    return _undecided(state, event.reason)


# --------------------------------------------------------------------------------------------------- verify, hint, end


def _verify(state: CommitState) -> Step:
    looks = state.repeats.looks + 1
    if state.ride.aboard:
        return _repeated(state, looks=looks), (do.VerifyRide(_ours(state), looks),)
    return _repeated(state, looks=looks), (do.VerifyLineage(state.base, _ours(state), looks),)


def _verified(state: CommitState, event: ev.LineageVerified) -> Step:
    ours, aboard = _ours(state), state.ride.aboard
    if state.ride.closing is not None and not aboard:
        return _next_attempt(replace(state, ledger=state.ledger.without_named()), known=ours)
    outcome = do.Committed(ours, False)
    effects: list[Effect] = [do.Conclude(outcome)]
    if not aboard:  # the one that carries it writes the hint
        effects.append(do.WriteHint(ours.id))
    effects += _left_over(state, landed=True)
    return replace(state, phase=Phase.DONE if aboard else Phase.HINT, outcome=outcome), tuple(effects)


def _left_over(state: CommitState, *, landed: bool) -> list[Effect]:
    """Delete what nobody needs, after the outcome was reported. An intent goes first, as it names manifests."""
    effects: list[Effect] = [do.RemoveIntents(state.ride.files)] if state.ride.files else []
    if spare := state.ledger.discardable(landed=landed):
        effects.append(do.Discard(spare))
    return effects


def _broken(state: CommitState, event: ev.LineageBroken) -> Step:
    """A fork: not in the history, but a file that names this commit's metadata, and that others may have built on, so it stays
    (G5). Where it was deleted again, and the table no longer exists, no other snapshot can be built on it.

    Since names were freed, an earlier lost race no longer proves that its send cannot land (H9).
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
    return _next_attempt(state)


def _next_attempt(state: CommitState, known: SnapshotRef | None = None) -> Step:
    attempt = state.attempt + 1
    state = replace(_repeated(state, attempt=attempt), phase=Phase.COLLECT)
    known = known or (state.lost_to[-1] if state.lost_to else state.base)  # a commit that asked first has lost no race
    return state, (do.ResolveLatest(attempt, known, state.ride.window),)


def _budget_spent(state: CommitState, event: ev.BudgetSpent) -> Step:
    """An open intent has to be closed first: the commit takes the next id, or loses it to another. That ends after two ids."""
    if state.ride.window is not None:
        return _next_attempt(replace(state, ride=replace(state.ride, spent=state.ride.spent or event.reason)))
    return _conclude(state, do.NotCommitted("retries-exhausted", event.reason))


def _undecided(state: CommitState, reason: str) -> Step:
    return _conclude(_in_doubt(state), do.Undecided(_ours(state), reason))


def _conclude(state: CommitState, outcome: Outcome) -> Step:
    """End the commit, with any outcome other than its own landing. If others may still carry it, it closes its window first."""
    if isinstance(outcome, do.NotCommitted) and state.ride.window is not None:
        if state.ride.closing is not None:
            return _left_open(state, state.ride.closing)
        return _next_attempt(replace(state, ride=replace(state.ride, closing=outcome, aboard=False)))
    left = [] if isinstance(outcome, do.Undecided) else _left_over(state, landed=False)
    return replace(state, phase=Phase.DONE, outcome=outcome), (do.Conclude(outcome), *left)


def _left_open(state: CommitState, outcome: do.NotCommitted) -> Step:
    return _undecided(state, f"{outcome.reason}; snapshot {state.ride.ids} may still carry it")


def _in_doubt(state: CommitState) -> CommitState:
    """Something of this commit may still land, or stands where it should not: its files stay (H5)."""
    return replace(state, ledger=state.ledger.with_doubt())


def _repeated(state: CommitState, **counts: int) -> CommitState:
    return replace(state, repeats=replace(state.repeats, **counts))


def discardable(state: CommitState) -> tuple[str, ...]:
    """The files of a commit that nothing can need, after another process found out that it did not land. Empty where the last
    send was never answered, because it may still arrive (H5, H9).
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
        raise ProtocolViolation("there is no snapshot to send before the latest is resolved")
    return state.ours


# ------------------------------------------------------------------------------------------------------ the table

Handler: TypeAlias = Callable[[CommitState, Any], Step]


@dataclass(frozen=True, slots=True)
class Transition:
    """`leads_to`: the phases that the handler may return; any other one is a defect and raises an error."""

    handler: Handler
    leads_to: tuple[Phase, ...]


_P = Phase
TRANSITIONS: dict[tuple[Phase, type[Any]], Transition] = {
    (_P.COLLECT, ev.CommitRequested): Transition(_requested, (_P.COLLECT,)),
    (_P.COLLECT, ev.RiderTakenOver): Transition(_rider_taken_over, (_P.COLLECT,)),
    (_P.COLLECT, ev.LatestResolved): Transition(_resolved, (_P.COLLECT, _P.REGISTER, _P.GATHER, _P.VERIFY, _P.DONE)),
    (_P.COLLECT, ev.ResolveFailed): Transition(_resolve_failed, (_P.COLLECT, _P.DONE)),
    (_P.COLLECT, ev.ConflictFound): Transition(_conflict, (_P.COLLECT, _P.DONE)),
    (_P.COLLECT, ev.ChangesCollected): Transition(_collected, (_P.COMPACT_MANIFESTS, _P.REGISTER, _P.BASE_LIST)),
    (_P.REGISTER, ev.ManifestsWritten): Transition(_manifests_written, (_P.REGISTER,)),
    (_P.REGISTER, ev.DataUploaded): Transition(_data_offered, (_P.REGISTER,)),
    (_P.REGISTER, ev.IntentPrepared): Transition(_intent_prepared, (_P.REGISTER,)),
    (_P.REGISTER, ev.ConflictFound): Transition(_conflict, (_P.DONE,)),
    (_P.REGISTER, ev.TakenOver): Transition(_taken_over, (_P.DONE,)),
    (_P.REGISTER, ev.JournalUnsure): Transition(_intent_unsure, (_P.DONE,)),
    (_P.REGISTER, ev.UploadFailed): Transition(_upload_failed, (_P.COLLECT, _P.DONE)),
    (_P.REGISTER, ev.IntentRegistered): Transition(_intent_registered, (_P.GATHER,)),
    (_P.REGISTER, ev.IntentRefused): Transition(_intent_refused, (_P.GATHER,)),
    (_P.GATHER, ev.RidersChosen): Transition(_chosen, (_P.COLLECT, _P.RIDE)),
    (_P.RIDE, ev.NobodyCame): Transition(_nobody_came, (_P.RIDE, _P.GATHER)),
    (_P.RIDE, ev.SnapshotSeen): Transition(_snapshot_seen, (_P.RETRY,)),
    (_P.COMPACT_MANIFESTS, ev.ManifestsCompacted): Transition(_compacted, (_P.BASE_LIST,)),
    (_P.BASE_LIST, ev.BaseListWritten): Transition(_base_list_written, (_P.DELTA_LIST, _P.PUBLISH)),
    (_P.BASE_LIST, ev.DeltaListWritten): Transition(_delta_list_written, (_P.BASE_LIST,)),
    (_P.BASE_LIST, ev.DataUploaded): Transition(_data_uploaded, (_P.BASE_LIST,)),
    (_P.BASE_LIST, ev.UploadFailed): Transition(_upload_failed, (_P.COLLECT, _P.DONE)),
    (_P.DELTA_LIST, ev.DeltaListWritten): Transition(_delta_list_written, (_P.DELTA_LIST, _P.PUBLISH)),
    (_P.DELTA_LIST, ev.DataUploaded): Transition(_data_uploaded, (_P.DELTA_LIST, _P.PUBLISH)),
    (_P.DELTA_LIST, ev.UploadFailed): Transition(_upload_failed, (_P.COLLECT, _P.DONE)),
    (_P.PUBLISH, ev.SnapshotPrepared): Transition(_prepared, (_P.PUBLISH,)),
    (_P.PUBLISH, ev.ClosingPrepared): Transition(_closing_prepared, (_P.PUBLISH,)),
    (_P.PUBLISH, ev.ConflictFound): Transition(_overtaken, (_P.DONE,)),
    (_P.PUBLISH, ev.TakenOver): Transition(_taken_over, (_P.DONE,)),
    (_P.PUBLISH, ev.JournalUnsure): Transition(_journal_unsure, (_P.DONE,)),
    (_P.PUBLISH, ev.BaseAged): Transition(_base_aged, (_P.COLLECT, _P.DONE)),
    (_P.PUBLISH, ev.UploadFailed): Transition(_publish_impossible, (_P.COLLECT, _P.DONE)),
    (_P.PUBLISH, ev.SnapshotPublished): Transition(_published, (_P.VERIFY,)),
    (_P.PUBLISH, ev.PublishRefused): Transition(_refused, (_P.PUBLISH,)),
    (_P.PUBLISH, ev.AnswerLost): Transition(_answer_lost, (_P.PUBLISH,)),
    (_P.PUBLISH, ev.FoundOurs): Transition(_published, (_P.VERIFY,)),
    (_P.PUBLISH, ev.FoundAnother): Transition(_found_another, (_P.RETRY,)),
    (_P.PUBLISH, ev.FoundNothing): Transition(_found_nothing, (_P.PUBLISH, _P.DONE)),
    (_P.PUBLISH, ev.ReadBackFailed): Transition(_read_back_failed, (_P.PUBLISH, _P.DONE)),
    (_P.VERIFY, ev.LineageVerified): Transition(_verified, (_P.HINT, _P.COLLECT, _P.DONE)),
    (_P.VERIFY, ev.LineageBroken): Transition(_broken, (_P.COLLECT, _P.DONE)),
    (_P.VERIFY, ev.LineageUnread): Transition(_unread, (_P.VERIFY, _P.DONE)),
    (_P.RETRY, ev.RetryGranted): Transition(_granted, (_P.COLLECT,)),
    (_P.RETRY, ev.BudgetSpent): Transition(_budget_spent, (_P.COLLECT, _P.DONE)),
    (_P.HINT, ev.HintWritten): Transition(_hinted, (_P.DONE,)),
    (_P.HINT, ev.HintSkipped): Transition(_hinted, (_P.DONE,)),
    (_P.DONE, ev.Resumed): Transition(_resumed, (_P.COLLECT,)),
}
