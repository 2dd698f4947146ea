"""Runs a commit: carries out the machine's effects and feeds the results back as events, until there is an answer.

Owns: the loop, the threads and the order of the journal. Must not know: what an effect means (`run`), which comes next (the
machine). Source: architecture §3.
Invariants: events are recorded before their effects begin. Uploads of effects that arrive together run together. Everything
after `Conclude` happens after the caller has its answer, and cannot change the outcome (H17).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from ...core.typed import assert_never
from ..journal.lines import BoundJournal
from ..protocol import effects as do
from ..protocol import events as ev
from ..protocol.effects import Effect, Outcome
from ..protocol.events import Event
from ..protocol.machine import CommitState, step
from ..watching.observe import Watch
from .attempt import MetadataFile
from .riding.rider import Rider
from .side_by_side import SideBySide
from .steps.run import CommitRun
from .time_budget import TimeBudget
from .turns import Turns

Upload: TypeAlias = do.UploadData | do.WriteManifests | do.WriteBaseList | do.WriteDeltaList
UPLOADS = (do.UploadData, do.WriteManifests, do.WriteBaseList, do.WriteDeltaList)
_UPLOADED = dict(zip(UPLOADS, ("the data files", "the manifests", "the base list", "the delta list"), strict=True))
_SPENT = "the time budget of the commit is spent"


@dataclass
class Driver:
    """Drives one commit.

    Attributes:
        aside: runs the hint and clean-up after the caller has its answer.
        newest_id: the newest snapshot that this committer published, for the hint.
        seen: the watchers, notified of each event after it is recorded and the machine has taken it.
    """

    run: CommitRun
    journal: BoundJournal
    turns: Turns
    pool: Executor
    aside: Executor
    newest_id: Callable[[], int]
    budget: TimeBudget
    seen: Watch
    state: CommitState = field(default_factory=CommitState)
    _began: float = field(init=False)
    _attempt_began: float = field(init=False)
    _asked_at: float = field(init=False)

    @property
    def asked(self) -> ev.CommitRequested:
        request = self.run.request
        return ev.CommitRequested(
            request.commit_user,
            request.identifier,
            request.kind,
            bool(request.uploads),
            self.run.group.allowed,
            request.in_order,
        )

    def commit(self) -> Outcome:
        """Run the commit to its outcome. Where others commit, it waits for its turn first, unless it rides."""
        try:
            if self.run.group.crowded and not self.run.group.allowed:
                self.turns.wait(self.run.knows.crowd.attempt_s, self.run.newest_seen_id)
            return self._until_concluded(self.asked)
        finally:
            self.turns.give_back(self.aside)

    def finish(self, rider: Rider) -> Outcome:
        """Publish the next snapshot with a commit whose writer is gone, or lose it, until nobody can carry it any more."""
        self.run.take_over(rider)
        return self._until_concluded(rider.taken_over)

    def resume(self, budget: TimeBudget, seen: Watch) -> Outcome:
        """Go on with a commit whose outcome was unknown, and whose intent is open."""
        self.budget, self.seen = budget, seen
        return self._until_concluded(ev.Resumed())

    def _until_concluded(self, first: Event) -> Outcome:
        self._began = self._attempt_began = self._asked_at = self.run.around.monotonic_s()
        events: deque[Event] = deque([first])
        while True:
            effects = self._feed(events.popleft())
            conclusion = next((i for i, e in enumerate(effects) if isinstance(e, do.Conclude)), None)
            if conclusion is not None:
                concluded = effects[conclusion]
                assert isinstance(concluded, do.Conclude)
                self.turns.give_back(self.aside)
                self.aside.submit(self._finish, effects[conclusion + 1 :])
                return concluded.outcome
            with self.budget.preparing():
                self._carry_out(effects, events)

    @property
    def attempt_s(self) -> float:
        return self.run.around.monotonic_s() - self._attempt_began

    @property
    def lasted_s(self) -> float:
        """The same, but of a commit that another carries since the attempt began in which it asked."""
        return self.run.around.monotonic_s() - self._asked_at

    def _feed(self, event: Event) -> tuple[Effect, ...]:
        counts = self.journal.record(event)
        if isinstance(counts, ev.BaseAged) and self.state.sends == 1 and self.run.left.closes is None:
            self.run.tried.pop()  # never sent; the journal keeps that, so no other process sends it (G2)
        self.state, effects = step(self.state, counts)
        self.seen.happened(counts, self.state)
        return effects

    def _carry_out(self, effects: tuple[Effect, ...], events: deque[Event]) -> None:
        uploads = [e for e in effects if isinstance(e, UPLOADS)]
        if uploads:
            self._upload(uploads, events)
        for effect in effects:
            if effect not in uploads:
                events.append(self.answer(effect))

    def answer(self, effect: Effect) -> Event:
        run = self.run
        match effect:
            case do.ResolveLatest():
                return run.resolve_latest(effect)
            case do.CollectChanges():
                return run.collect_changes(effect)
            case do.CompactManifests():
                return run.compact_manifests(effect)
            case do.PrepareSnapshot():
                return run.prepare_snapshot(effect)
            case do.Publish() | do.ReadBack() | do.VerifyLineage() | do.VerifyRide():
                return self._settle(effect)
            case do.AwaitRetry():
                return self._await_retry(effect)
            case do.PrepareIntent():
                return run.prepare_intent(effect)
            case do.RegisterIntent():
                return run.group.register(run.timeline)
            case do.ChooseRiders():
                return run.choose_riders(effect)
            case do.AwaitCarrier(base=base):
                return run.group.wait_for_carrier(base, run.timeline)
            case (
                do.UploadData()
                | do.WriteManifests()
                | do.WriteBaseList()
                | do.WriteDeltaList()
                | do.WriteHint()
                | do.Discard()
                | do.RemoveIntents()
                | do.Conclude()
            ):
                raise AssertionError(f"{effect!r} has no answer")
            case _:
                assert_never(effect)

    def _settle(self, effect: do.Publish | do.ReadBack | do.VerifyLineage | do.VerifyRide) -> Event:
        """A step that finds out whether a snapshot landed: tried once in any case, and again only while time is left."""
        run, spent = self.run, self.budget.spent
        if isinstance(effect, do.Publish) and effect.send == 1:
            self.budget.sending()
        with self.budget.settling():
            match effect:
                case do.Publish(send=send):
                    return ev.AnswerLost(_SPENT) if spent and send > 1 else run.publish(effect)
                case do.ReadBack(look=look):
                    return ev.ReadBackFailed(_SPENT) if spent and look > 1 else run.read_back(effect)
                case do.VerifyLineage(look=look):
                    return ev.LineageUnread(_SPENT) if spent and look > 1 else run.verify_lineage(effect)
                case do.VerifyRide(look=look):
                    if spent and look > 1:
                        return ev.LineageUnread(_SPENT)
                    return run.verify_ride(effect)
                case _:
                    assert_never(effect)

    def _upload(self, effects: list[Upload], events: deque[Event]) -> None:
        """The first failure ends the attempt, after waiting for the others. The newest schema is looked for beside, if due."""
        pieces = SideBySide()
        for effect in effects:
            files, answer = self.run.uploads(effect)
            pieces.add(
                [partial(self._put, file) for file in files], _UPLOADED[type(effect)], partial(events.append, answer)
            )
        newest = self.run.settler.newest_schema
        if newest.is_due:
            pieces.add([newest.look], "the look at the newest schema", lambda: None)
        pieces.run(self.pool)
        if pieces.failure is not None:
            self.run.doubt_uploads()
            events.clear()
            events.append(ev.UploadFailed(*pieces.failure))

    def _put(self, file: MetadataFile) -> None:
        self.run.write(file)

    def _await_retry(self, effect: do.AwaitRetry) -> Event:
        elapsed_s = self.run.around.monotonic_s() - self._began
        wait_ms = self.turns.policy.next_wait_ms(
            effect.attempt,
            elapsed_s=elapsed_s,
            attempt_s=self.attempt_s,
            others=self.run.others_met,
            uniform=self.run.around.uniform,
        )
        if wait_ms is None:
            spent = f"{effect.attempt} attempts in {elapsed_s:.1f} s"
            return ev.BudgetSpent(f"lost the race to {self.run.others_met} other writers; {spent}")
        if self.run.group.allowed:
            wait_ms = 0  # it asks the next winner to carry it instead of waiting for its turn
        elif self.turns.queues(effect.attempt):
            wait_ms = self.turns.wait(self.attempt_s, self.run.newest_seen_id)
        else:
            self.run.around.sleep(wait_ms / 1000)
        self._attempt_began = self.run.around.monotonic_s()
        if not self.run.group.met_carrier:
            self._asked_at = self._attempt_began
        return ev.RetryGranted(wait_ms)

    def _finish(self, effects: tuple[Effect, ...]) -> None:
        for effect in effects:
            match effect:
                case do.WriteHint():
                    if self.newest_id() <= effect.snapshot_id:
                        self.run.rest_before_hint()
                    self._feed(self.run.write_hint(effect, self.newest_id()))
                case do.RemoveIntents():
                    self.run.remove_intents(effect)
                case do.Discard():
                    self.run.discard(effect, landed=isinstance(self.state.outcome, do.Committed))
                case _:
                    raise AssertionError(f"{effect!r} cannot follow the conclusion")
        outcome = self.state.outcome
        if isinstance(outcome, do.Committed) and not (outcome.replayed or self.state.ledger.unsettled):
            self.run.discard_superseded()
        if not isinstance(outcome, do.Undecided):
            self.journal.conclude()
