"""Planted bugs in group commit: each is a tempting shortcut, and each breaks a promise.

Owns: `GROUPS`. Must not know: how scenarios are explored. Source: decision 71.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...coordinator.commit.riding import rider
from ...coordinator.commit.riding.group import Group
from ...coordinator.commit.steps import run
from ...coordinator.identities.recall import Recalled
from ...coordinator.intents import shelf
from ...coordinator.intents.intent import Intent, Leader
from ...coordinator.intents.window import Closed, StillOpen, look_for
from ...coordinator.journal.lines import BoundJournal
from ...coordinator.maintenance.reach.used import UsedFiles
from ...coordinator.outcome import resolution
from ...coordinator.protocol import effects as do
from ...coordinator.protocol import events as ev
from ...coordinator.protocol import machine
from ..scenarios import groups as worlds
from .planting import Mutant, Patch

_choose, _register, _fate = Leader.choose, Group.register, Group.fate
_choose_riders, _record, _carried_on = Group.choose, BoundJournal.record, Recalled.carried_on


_built = run.CommitRun._built


def _told_too_early(state: machine.CommitState, outcome: Any) -> machine.Step:
    return _conclude(replace(state, ride=replace(state.ride, window=None)), outcome)


_conclude = machine._conclude


def _withdraws(state: machine.CommitState, event: ev.RidersChosen) -> machine.Step:
    alone = replace(state, ride=replace(state.ride, window=None))
    return _conclude(alone, do.NotCommitted("retries-exhausted", "it has withdrawn its intent"))


def _closes_one_id(state: machine.CommitState, event: ev.LineageVerified) -> machine.Step:
    ride = state.ride
    if ride.closing is not None and not ride.aboard:
        return _conclude(replace(state, ride=replace(ride, window=None)), ride.closing)
    return _verified(state, event)


_verified = machine._verified


def _closes_under_its_name(self: run.CommitRun, attempt: Any) -> Any:
    self.left.closes = None
    return _built(self, attempt)


def _silence_is_refusal(self: Group, timeline: Any) -> Any:
    answer = _register(self, timeline)
    if isinstance(answer, ev.IntentRegistered) and answer.reason:
        self.intent = None
        return ev.IntentRefused(answer.reason)
    return answer


def _does_not_look(self: Group, latest: Any, timeline: Any) -> Any:
    return None if self.intent is None else StillOpen()


def _forgets_who_landed(self: Leader, waiting: Any) -> Any:
    nobody = {k: v for k, v in self.base.own_properties.items() if k != "lakelatch.carries"}
    return _choose(replace(self, base=replace(self.base, properties=nobody)), waiting)


def _keeps_riders(self: Group, *given: Any) -> Any:
    before = self.__dict__.setdefault("first riders", ())
    answer = _choose_riders(self, *given)
    self.riders = self.__dict__["first riders"] = before or self.riders
    return answer


def _names_nobody_but_riders(self: run.CommitRun, attempt: Any) -> Any:
    """A leader that carries nobody does not list itself, although its intent may be open."""
    self.group.asked_s = None
    return _built(self, attempt)


def _told_apart_by_intent(self: Leader, waiting: Any) -> Any:
    chosen = {i.commit: i for i in waiting if self.near(i.ids[0]) and self._stands(i) and i.commit != self.commit}
    return tuple(chosen[commit] for commit in sorted(chosen))


def _carries_its_twin(self: Leader, waiting: Any) -> Any:
    return _choose(replace(self, user="somebody else"), waiting)


def _lost_with_riders(self: run.CommitRun, effect: Any) -> Any:
    answer = _read_back(self, effect)
    if isinstance(answer, ev.FoundAnother):
        names = [line.file_name for rider in self.group.riders for line in rider.manifests]
        self.store.delete_many([self.timeline.paths.manifest(name) for name in names])
    return answer


_read_back = run.CommitRun.read_back


def _not_in_the_journal(self: BoundJournal, event: Any) -> Any:
    return event if isinstance(event, ev.IntentPrepared) else _record(self, event)


def _takes_it_for_closed(*about: Any) -> Any:
    found = _look_for(*about)
    return Closed() if isinstance(found, StillOpen) else found


_look_for = look_for


def _riders_forgotten(self: Recalled, *about: Any, riders: Any = (), **how: Any) -> Any:
    return _carried_on(self, *about, **how)


def _does_not_name_it(self: run.CommitRun, dead: Any) -> None:
    """Whoever finishes a dead rider publishes its rows as a commit of its own."""
    _take_over(self, dead)
    self.group.asked_s = None


def _under_its_names(self: run.CommitRun, dead: Any) -> None:
    _take_over(self, dead)
    self.writer.names.uuid = dead.intent.commit


_take_over = run.CommitRun.take_over


def _asks_again(state: machine.CommitState, event: ev.RiderTakenOver) -> machine.Step:
    after, effects = _rider_taken_over(state, event)
    return replace(after, ride=replace(after.ride, spent="")), effects


_rider_taken_over = machine._rider_taken_over


def _everything_is_there(timeline: Any, keys: Any) -> Any:
    return dict.fromkeys(keys, 1)


def _any_base(self: Leader, intent: Intent) -> bool:
    return True


def _for_ever(self: Leader, first_id: int) -> bool:
    return first_id <= self.base.id + 1


def _gather(handler: Any, leads_to: tuple[machine.Phase, ...]) -> Patch:
    return machine.TRANSITIONS, (machine.Phase.GATHER, ev.RidersChosen), machine.Transition(handler, leads_to)


_REFUSED = frozenset({"403"})

GROUPS: tuple[Mutant, ...] = (
    Mutant(
        "an error is told while the intent is open",
        lambda: [(machine, "_conclude", _told_too_early)],
        (worlds.ridden(1, strikes=worlds.LOOKING, faults=_REFUSED, commits=2),),
    ),
    Mutant(
        "a commit that gives up closes one of its ids",
        lambda: [
            (
                machine.TRANSITIONS,
                (machine.Phase.VERIFY, ev.LineageVerified),
                machine.Transition(_closes_one_id, tuple(machine.Phase)),
            )
        ],
        (worlds.refused_rider(first=True), worlds.refused_rider(first=False)),
    ),
    Mutant(
        "a snapshot that closes a window names the commit",
        lambda: [(run.CommitRun, "_built", _closes_under_its_name)],
        (worlds.refused_rider(first=True), worlds.refused_rider(first=False)),
    ),
    Mutant("a rider withdraws", lambda: [_gather(_withdraws, (machine.Phase.DONE,))], (worlds.ridden(0),)),
    Mutant(
        "an intent without an answer is none",
        lambda: [(Group, "register", _silence_is_refusal)],
        (worlds.ridden(1, strikes=worlds.ASKING),),
    ),
    Mutant(
        "a rider does not look for itself",
        lambda: [(Group, "fate", _does_not_look), (Group, "already_aboard", lambda self, just_read: None)],
        (worlds.ridden(0),),
    ),
    Mutant(
        "a leader does not look into its base",
        lambda: [(Leader, "choose", _forgets_who_landed), (shelf, "carried_by", lambda base: ())],
        (worlds.ridden(0), worlds.ridden(0, 2)),
    ),
    Mutant(
        "a leader keeps its riders", lambda: [(Group, "choose", _keeps_riders)], (worlds.ridden(0), worlds.ridden(0, 2))
    ),
    Mutant(
        "a rider that leads does not name itself",
        lambda: [(run.CommitRun, "_built", _names_nobody_but_riders)],
        (worlds.ridden(0),),
    ),
    Mutant(
        "twins are told apart by their intents",
        lambda: [(Leader, "choose", _told_apart_by_intent)],
        (worlds.twin_riders(0),),
    ),
    Mutant(
        "a leader carries its own twin",
        lambda: [(Leader, "choose", _carries_its_twin)],
        (worlds.twin_riders(0, leads=True),),
    ),
    Mutant(
        "a loser deletes the manifests of its riders",
        lambda: [(run.CommitRun, "read_back", _lost_with_riders)],
        (worlds.ridden(0), worlds.ridden(0, 2)),
    ),
    Mutant(
        "the journal does not know of the intent",
        lambda: [(BoundJournal, "record", _not_in_the_journal)],
        (worlds.dead_rider(recovers=True),),
    ),
    Mutant(
        "an open intent is taken for closed",
        lambda: [(resolution, "look_for", _takes_it_for_closed)],
        (worlds.dead_rider(recovers=True),),
    ),
    Mutant(
        "riders are not remembered",
        lambda: [(Recalled, "carried_on", _riders_forgotten)],
        (worlds.restarted_rider(1, worlds.ASKING),),
    ),
    Mutant(
        "a list that was not written is named",
        lambda: [(run.CommitRun, "doubt_uploads", lambda self: None)],
        (worlds.refused_rider(first=True, budget=2), worlds.refused_rider(first=False, budget=2)),
    ),
    Mutant(
        "a recovered rider is not named",
        lambda: [(run.CommitRun, "take_over", _does_not_name_it)],
        (worlds.recovered_rider(0, carried=False), worlds.rider_recovered_twice()),
    ),
    Mutant(
        "a recovered rider is not looked for",
        lambda: [(Group, "fate", _does_not_look), (Group, "already_aboard", lambda self, just_read: None)],
        (worlds.rider_recovered_twice(),),
    ),
    Mutant(
        "a recovery uses the names of the rider",
        lambda: [(run.CommitRun, "take_over", _under_its_names)],
        (worlds.rider_recovered_twice(),),
    ),
    Mutant(
        "a recovered rider asks once more",
        lambda: [
            (
                machine.TRANSITIONS,
                (machine.Phase.COLLECT, ev.RiderTakenOver),
                machine.Transition(_asks_again, (machine.Phase.COLLECT,)),
            )
        ],
        (worlds.rider_recovered_too_late(),),
    ),
    Mutant(
        "a recovered rider needs no files",
        lambda: [(rider, "sizes_of", _everything_is_there)],
        (worlds.rider_recovered_without_files(),),
    ),
    Mutant(
        "orphan cleaning ignores intents",
        lambda: [(UsedFiles, "add_intents", lambda self, keys, roots: None)],
        (worlds.dead_rider(cleans=True),),
    ),
    Mutant(
        "an intent without an end",
        lambda: [(Leader, "near", _for_ever), (Leader, "_stands", _any_base)],
        (worlds.ridden(0, 2),),
    ),
)
