"""Historic bugs, planted one at a time: a check that does not find them proves nothing.

Owns: `MUTANTS`, each with the replaced function and the scenarios that must find it, and the table of the results. Bugs in the
contents of a commit are in `mutants_of_changes`. Must not know: how scenarios are explored.
Source: architecture §8; format/commit §5, §6.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from ...backends.requests import answers
from ...backends.store import AlreadyThere, Created, PutOutcome
from ...coordinator.commit import attempt
from ...coordinator.commit.driver import Driver
from ...coordinator.commit.settling import settler as settling
from ...coordinator.commit.settling.manifest_compaction import Merge
from ...coordinator.commit.steps import collecting, publishing, run
from ...coordinator.history import lineage
from ...coordinator.history.base import Base
from ...coordinator.history.timeline import Latest, Timeline
from ...coordinator.identities import recall as identity_recall
from ...coordinator.identities.trace import Trace
from ...coordinator.journal.object_journal import ObjectJournal
from ...coordinator.maintenance.expiry import expire
from ...coordinator.maintenance.reach.reachable import Reach
from ...coordinator.maintenance.reach.roots import list_roots, read_roots
from ...coordinator.protocol import effects as do
from ...coordinator.protocol import events as ev
from ...coordinator.protocol import machine
from ...coordinator.protocol.snapshot_ref import SnapshotRef
from ...coordinator.tags import creation, deletion
from ..actors import maintainers
from ..actors.undoing import UNDOS
from ..scenarios import rows as scenarios_rows
from ..scenarios import upkeep as scenarios_upkeep
from ..scenarios import writers as scenarios_writers
from ..world import simulated_store
from ..world.simulated_store import SimulatedStore
from .branches import BRANCHES
from .changes import CHANGES
from .clones import CLONES
from .expiry import EXPIRY
from .followers import FOLLOWERS
from .groups import GROUPS
from .keys import KEYS
from .merges import MERGES
from .planting import Kill, Mutant, Patch

__all__ = ["MUTANTS", "Kill", "Mutant", "hunt_all", "kill_table"]


def _overwriting_create(self: SimulatedStore, key: str, data: bytes) -> PutOutcome:
    self.put(key, data)
    return Created()


def _exists_then_put(self: SimulatedStore, key: str, data: bytes) -> PutOutcome:
    if any(info.key == key for info in self.list("snapshot/")):
        return AlreadyThere()
    self.put(key, data)
    return Created()


def _handler(phase: machine.Phase, event: type[Any], leads_to: tuple[machine.Phase, ...], handler: Any) -> Patch:
    return machine.TRANSITIONS, (phase, event), machine.Transition(handler, leads_to)


def _unknown_is_failed(state: machine.CommitState, event: ev.AnswerLost) -> machine.Step:
    return machine._conclude(state, do.NotCommitted("store-unavailable", event.reason))


def _refusal_is_loss(state: machine.CommitState, event: ev.PublishRefused) -> machine.Step:
    winner = replace(machine._ours(state), identity="somebody")
    after = replace(state, phase=machine.Phase.RETRY, lost_to=(*state.lost_to, winner))
    return after, (do.AwaitRetry(state.attempt, winner),)


def _clean_after_unknown(state: machine.CommitState, reason: str) -> machine.Step:
    settled = replace(state, ledger=replace(state.ledger, unsettled=False))
    after, effects = machine._conclude(settled, do.Undecided(machine._ours(state), reason))
    return after, (*effects, *machine._left_over(settled, landed=False))


def _nothing_is_lost(state: machine.CommitState, event: ev.FoundNothing) -> machine.Step:
    winner = machine._ours(state)
    after = replace(state, phase=machine.Phase.RETRY, lost_to=(*state.lost_to, winner))
    return after, (do.AwaitRetry(state.attempt, winner),)


def _always_verified(self: run.CommitRun, effect: do.VerifyLineage) -> ev.Event:
    return ev.LineageVerified()


def _no_trace(user: str | None, *where: Any, **how: Any) -> identity_recall.Recalled:
    return replace(identity_recall.recall(user, *where, **how), trace=None)


def _trace_of_anything(
    user: str | None, base: Any, timeline: Timeline, *known: Any, **how: Any
) -> identity_recall.Recalled:
    recalled = identity_recall.recall(user, base, timeline, *known, **how)
    for number in range(recalled.inspected_through, 0, -1):
        found = timeline.find(number)
        if found is not None and found.commit_user == user:
            return replace(recalled, trace=Trace.of(found.commit_identifier, SnapshotRef(found.id, found.identity)))
    return replace(recalled, trace=None)


def _trusting_look(self: Timeline, seen: Any = None, **how: Any) -> Latest:
    hinted = self.hint("LATEST")
    if hinted is not None:
        found = self.find(hinted)
        if found is not None:
            return Latest(found)
    return _look(self, seen, **how)


_look = Timeline.look


def _hint_whenever(self: run.CommitRun, effect: do.WriteHint, newest_id: int) -> ev.Event:
    self.store.put(self.timeline.paths.hint("LATEST"), str(effect.snapshot_id).encode())
    return ev.HintWritten(effect.snapshot_id)


_build_snapshot = attempt.build_snapshot


def _stale_counts(request: Any, base: Any, *args: Any, **kwargs: Any) -> Any:
    made = _build_snapshot(request, base, *args, **kwargs)
    return replace(made, total_record_count=made.delta_record_count)


_uploads = run.CommitRun.uploads


def _base_list_reused(self: run.CommitRun, effect: Any) -> Any:
    if not isinstance(effect, do.WriteBaseList):
        return _uploads(self, effect)
    files, answer = self.__dict__.setdefault("first lists", _uploads(self, effect))
    self.attempt = replace(self._attempt(), base_list=files[-1])
    return files, answer


def _publish_first(state: machine.CommitState, what: str) -> machine.Step:
    missing = state.missing - {what}
    if "base list" in missing:
        return replace(state, missing=missing, phase=machine.Phase.BASE_LIST), ()
    return machine._prepare(replace(state, missing=frozenset(), phase=machine.Phase.PUBLISH))


def _upload_failure_is_fine(self: Any, file: Any) -> None:
    from ...core.errors import LakelatchError

    try:
        self.run.store.put(file.key, file.data)
    except LakelatchError:
        return


def _discards_too_much(state: machine.CommitState, event: ev.LineageVerified) -> machine.Step:
    return machine._verified(replace(state, ledger=replace(state.ledger, named=())), event)


def _new_bytes_each_send(self: run.CommitRun, effect: do.Publish) -> ev.Event:
    made = self._attempt().snapshot
    if effect.send > 1 and made is not None:
        snapshot = replace(made, uuid=str(self.around.new_uuid()))
        self.attempt = replace(self._attempt(), snapshot=snapshot, data=snapshot.to_json())
    return _publish(self, effect)


def _base_with_deletions(self: settling.Settler, base: Base) -> Merge:
    """A rollback on an unchanged base: the DELETE of a file hides that the rollback brings it back."""
    return Merge("none", (), ())


def _used_before_chosen(timeline: Timeline, schema: Any, retention: Any, *about: Any) -> expire.ExpiryPlan:
    """The files that the roots use are collected before the snapshots to expire are chosen, so commits in between are missed."""
    roots = read_roots(timeline, list_roots(timeline))
    doomed, end, _ = expire._oldest(timeline, retention, None, frozenset())
    if end is None or not doomed:
        return expire.ExpiryPlan()
    reach = Reach(timeline, schema)
    gone, steps = expire._candidates(reach, doomed, end, "nothing")
    usage = reach.usage(gone.candidates)
    kept = reach.kept_by([root for root in roots if root not in doomed])
    used = {key for named in kept for key in named.keys} | usage.live(kept)
    ids = tuple(root.snapshot.id for root in doomed)
    seen = frozenset(root.info for root in (*roots, *doomed))
    return expire.ExpiryPlan(ids, end.snapshot.id, steps.without(used), None, seen, usage)


def _silent_expiry(timeline: Timeline, earliest_id: int) -> None:
    """The expiry is not announced before the last look for tags."""


def _no_second_look(steps: Any, *about: Any) -> Any:
    return steps


def _free_is_lost(timeline: Timeline, tried: ev.SnapshotPrepared) -> Any:
    return lineage.Lost("it is not there")


_publish = run.CommitRun.publish
_P = machine.Phase
_ONE = scenarios_writers.writers(1, 1)
_TWO = scenarios_writers.writers(2, 0)
_TWO_ONE = scenarios_writers.writers(2, 1)
_NO_CONFLICT = {**dict(answers.COMMON_STATUSES), 409: answers.Answer.EXISTS}


def _statuses() -> Any:
    return replace(simulated_store.ANSWERS, statuses=_NO_CONFLICT)


MUTANTS: tuple[Mutant, ...] = (
    Mutant("rename overwrites", lambda: [(SimulatedStore, "put_if_absent", _overwriting_create)], (_TWO,)),
    Mutant("exists, then put", lambda: [(SimulatedStore, "put_if_absent", _exists_then_put)], (_TWO,)),
    Mutant(
        "409 means exists, and is believed",
        lambda: [
            (simulated_store, "ANSWERS", _statuses()),
            _handler(_P.PUBLISH, ev.PublishRefused, (_P.RETRY,), _refusal_is_loss),
        ],
        (_ONE,),
    ),
    Mutant(
        "412 is believed without reading back",
        lambda: [_handler(_P.PUBLISH, ev.PublishRefused, (_P.RETRY,), _refusal_is_loss)],
        (_ONE,),
    ),
    Mutant(
        "no answer means failed",
        lambda: [_handler(_P.PUBLISH, ev.AnswerLost, (_P.DONE,), _unknown_is_failed)],
        (_ONE,),
    ),
    Mutant(
        "clean-up after unknown",
        lambda: [(machine, "_undecided", _clean_after_unknown)],
        (scenarios_writers.silent(1, 3),),
    ),
    Mutant(
        "a free name means lost",
        lambda: [_handler(_P.PUBLISH, ev.FoundNothing, (_P.RETRY,), _nothing_is_lost)],
        (_ONE, _TWO_ONE),
    ),
    Mutant(
        "no lineage check",
        lambda: [(run.CommitRun, "verify_lineage", _always_verified)],
        (scenarios_upkeep.expired(0, by_hand=True),),
    ),
    Mutant("no look-up of the identity", lambda: [(collecting, "recall", _no_trace)], (scenarios_writers.twins(0),)),
    Mutant(
        "the look-up accepts a fork",
        lambda: [(collecting, "recall", _trace_of_anything)],
        (scenarios_upkeep.forked_identity(),),
    ),
    Mutant("the hint is trusted", lambda: [(Timeline, "look", _trusting_look)], (scenarios_upkeep.hinted(),)),
    Mutant("LATEST is lowered", lambda: [(run.CommitRun, "write_hint", _hint_whenever)], (scenarios_upkeep.slept(),)),
    Mutant("totals outlive their base", lambda: [(publishing, "build_snapshot", _stale_counts)], (_TWO,)),
    Mutant("the base list outlives its base", lambda: [(run.CommitRun, "uploads", _base_list_reused)], (_TWO,)),
    Mutant("published before all is uploaded", lambda: [(machine, "_acknowledged", _publish_first)], (_ONE, _TWO_ONE)),
    Mutant(
        "a failed upload goes unnoticed",
        lambda: [(Driver, "_put", _upload_failure_is_fine)],
        (_ONE,),
    ),
    Mutant(
        "the winner discards its own delta",
        lambda: [
            _handler(_P.VERIFY, ev.LineageVerified, (_P.HINT,), _discards_too_much),
            (
                publishing,
                "check_discard",
                lambda names, needed: None,
            ),  # it refuses to delete files that the snapshot names
        ],
        (_TWO,),
    ),
    Mutant(
        "expiry lists before it chooses",
        lambda: [(maintainers, "plan_expiry", _used_before_chosen), (expire, "second_look", _no_second_look)],
        (scenarios_upkeep.expired(0, by_hand=True),),
    ),
    Mutant(
        "a commit that was taken over goes on",
        lambda: [(ObjectJournal, "_kept", lambda self, key, data, answer: Created())],
        (scenarios_writers.taken_over(0),),
    ),
    Mutant(
        "recovery: a free name means not landed",
        lambda: [(lineage, "_at_free_name", _free_is_lost)],
        (scenarios_writers.taken_over(0),),
    ),
    Mutant(
        "a rollback on deletions",
        lambda: [(settling.Settler, "_folded", _base_with_deletions)],
        (scenarios_upkeep.restored(0),),
    ),
    Mutant(
        "expiry does not say what goes",
        lambda: [(expire, "_raise_earliest", _silent_expiry)],
        (scenarios_upkeep.restored_while_expiring(0),),
    ),
    Mutant(
        "a tag without a second look",
        lambda: [(creation, "refuse_vanished", lambda *seen: None)],
        (scenarios_upkeep.tagged_while_expiring(0, "read snapshot/EARLIEST"),),
    ),
    Mutant(
        "a tag's files go without a second look",
        lambda: [(deletion, "second_look", lambda steps, seen, usage: steps)],
        (scenarios_upkeep.copied_while_untagged(0),),
    ),
    Mutant(
        "one look at what expires",
        lambda: [(creation, "expires_below", lambda timeline: timeline.hint("EARLIEST") or 0)],
        (scenarios_upkeep.tagged_while_expiring(1, "read snapshot/EARLIEST"),),
    ),
    Mutant(
        "a compaction of files that are gone",
        lambda: [(settling.Settler, "_inputs_conflict", lambda self, base: None)],
        (scenarios_rows.compacting(0),),
    ),
    Mutant("a resend is another snapshot", lambda: [(run.CommitRun, "publish", _new_bytes_each_send)], (_ONE,)),
    *CHANGES,
    *BRANCHES,
    *CLONES,
    *FOLLOWERS,
    *EXPIRY,
    *KEYS,
    *MERGES,
    *GROUPS,
    *UNDOS,
)


def hunt_all(mutants: Iterable[Mutant] = MUTANTS) -> Iterator[Kill]:
    for mutant in mutants:
        yield mutant.hunt().kill(mutant.name)


def kill_table(kills: Iterable[Kill]) -> str:
    head = ["| planted bug | killed in | steps | by |", "|---|---|---|---|"]
    return "\n".join([*head, *(f"| {k.mutant} | {k.scenario} | {k.steps} | {k.violation} |" for k in kills)])


if __name__ == "__main__":
    for line in hunt_all():
        print(line, flush=True)
