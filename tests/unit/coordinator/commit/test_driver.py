"""The loop of a commit: which answers it waits for, what ends an attempt, and how often a step is tried when time is up."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import replace
from typing import Any

import pytest

from lakelatch.backends.requests.threads import Threads
from lakelatch.coordinator.commit.attempt import MetadataFile
from lakelatch.coordinator.commit.driver import Driver
from lakelatch.coordinator.commit.retries import RetryPolicy
from lakelatch.coordinator.commit.time_budget import ANSWER_WITHIN_S, TimeBudget
from lakelatch.coordinator.commit.turns import Turns
from lakelatch.coordinator.intents.tickets import Ticket
from lakelatch.coordinator.protocol import effects as do
from lakelatch.coordinator.protocol import events as ev
from lakelatch.coordinator.protocol.snapshot_ref import SnapshotRef
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.core.errors import StoreUnavailable

OURS = SnapshotRef(5, "ours")
BASE, DELTA, DATA = do.WriteBaseList(None), do.WriteDeltaList(None), do.UploadData()
ANSWERS = {
    BASE: ev.BaseListWritten("base"),
    DELTA: ev.DeltaListWritten("delta", ()),
    DATA: ev.DataUploaded(1),
}
UNUSED: Any = None


class Here(Executor):
    """Does everything at once, in the caller."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:
            done.set_exception(error)
        return done


class Newest:
    """What a commit knows of newer schemas."""

    def __init__(self) -> None:
        self.is_due, self.looks = False, 0
        self.error: Exception | None = None

    def look(self) -> None:
        self.looks += 1
        if self.error is not None:
            raise self.error


class Run:
    """The files of each effect, and what happens to each of them."""

    def __init__(self, **files: int) -> None:
        self.counts = {BASE: files.get("base", 1), DELTA: files.get("delta", 1), DATA: files.get("data", 0)}
        self.put: Callable[[str], None] = lambda name: None
        self.written: list[str] = []
        self.doubted = False
        self.newest_schema, self.group = Newest(), self
        self.settler, self.allowed, self.met_carrier, self.others_met = self, False, False, 2
        self.now_s, self.slept, self.asked = 100.0, list[float](), list[Any]()
        self.around = replace(
            MACHINE, monotonic_s=lambda: self.now_s, sleep=self.sleep, uniform=lambda least, most: most
        )

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds

    def uploads(self, effect: Any) -> Any:
        name = {BASE: "base", DELTA: "delta", DATA: "data"}[effect]
        files = [MetadataFile(f"{name}-{n}", f"{name}-{n}", b"") for n in range(self.counts[effect])]
        return files, ANSWERS[effect]

    def doubt_uploads(self) -> None:
        self.doubted = True

    def write(self, file: MetadataFile) -> None:
        self.put(file.name)
        self.written.append(file.name)

    def _ask(self, effect: Any) -> Any:
        self.asked.append(effect)
        return ev.LineageUnread("asked")

    publish = read_back = verify_lineage = verify_ride = _ask


def driven(run: Run, pool: Executor | None = None, timeout_ms: int | None = None) -> Driver:
    found = RetryPolicy(max_retries=3, timeout_ms=timeout_ms, min_wait_ms=100, max_wait_ms=900)
    made: Any = run
    budget = TimeBudget(timeout_ms, run.around)
    turns = Turns(found, Ticket(UNUSED, "c1"), run.around, budget)
    driver = Driver(made, UNUSED, turns, pool or Here(), UNUSED, UNUSED, budget, UNUSED)
    driver._began = driver._attempt_began = run.now_s
    return driver


def uploaded(run: Run, *effects: Any, pool: Executor | None = None) -> list[ev.Event]:
    events: deque[ev.Event] = deque()
    driven(run, pool)._carry_out(effects or (BASE, DELTA, DATA), events)
    return list(events)


def failing(**errors: Exception) -> Callable[[str], None]:
    def put(name: str) -> None:
        if (error := errors.get(name.replace("-", "_"))) is not None:
            raise error

    return put


# -------------------------------------------------------------------------------------------------------------- uploads


def test_every_file_is_written_and_every_effect_answered_once() -> None:
    run = Run(base=2, delta=3, data=1)
    assert uploaded(run) == [ANSWERS[BASE], ANSWERS[DELTA], ANSWERS[DATA]]
    assert sorted(run.written) == ["base-0", "base-1", "data-0", "delta-0", "delta-1", "delta-2"]


def test_what_has_nothing_to_write_is_answered_at_once() -> None:
    """The delta list of an earlier attempt is kept."""
    assert uploaded(Run(delta=0), BASE, DELTA) == [ANSWERS[DELTA], ANSWERS[BASE]]


def test_answers_come_in_the_order_in_which_files_are_durable() -> None:
    run, events, until_s = Run(), deque[ev.Event](), time.monotonic() + 5.0

    def put(name: str) -> None:
        while name == "base-0" and not events and time.monotonic() < until_s:
            time.sleep(0.001)

    run.put = put
    with Threads(2) as pool:
        driven(run, pool)._carry_out((BASE, DELTA), events)
    assert list(events) == [ANSWERS[DELTA], ANSWERS[BASE]]


def test_the_first_failure_ends_the_attempt_after_all_files_were_tried() -> None:
    """Nothing of the attempt is acknowledged, neither what is durable nor what had nothing to write."""
    run = Run(base=1, delta=2, data=0)
    run.put = failing(delta_0=StoreUnavailable("denied"), delta_1=StoreUnavailable("away"))
    assert uploaded(run) == [ev.UploadFailed("the delta list", "denied")]
    assert run.written == ["base-0"]
    assert run.doubted, "what the attempt has made is not used again"


def test_a_failure_that_is_not_the_stores_is_raised() -> None:
    run = Run()
    run.put = failing(delta_0=MemoryError())
    with pytest.raises(MemoryError):
        uploaded(run)


def test_other_effects_are_answered_beside_uploads() -> None:
    run = Run()
    found = uploaded(run, BASE, do.VerifyRide(OURS, 1))
    assert found == [ANSWERS[BASE], ev.LineageUnread("asked")]
    assert uploaded(run, do.VerifyRide(OURS, 1)) == [ev.LineageUnread("asked")]


def test_the_newest_schema_is_looked_for_only_where_it_matters() -> None:
    run = Run()
    uploaded(run)
    assert run.newest_schema.looks == 0
    run.newest_schema.is_due = True
    assert uploaded(run, BASE) == [ANSWERS[BASE]]
    assert run.newest_schema.looks == 1


def test_a_look_at_the_newest_schema_that_fails_ends_the_attempt() -> None:
    run = Run()
    run.newest_schema.is_due, run.newest_schema.error = True, StoreUnavailable("no schema")
    assert uploaded(run) == [ev.UploadFailed("the look at the newest schema", "no schema")]
    run.put = failing(base_0=StoreUnavailable("no list"))
    assert uploaded(run) == [ev.UploadFailed("the base list", "no list")], "the first failure is told"
    run.put, run.newest_schema.error = failing(), ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        uploaded(run)


# ---------------------------------------------------------------------------------------------------------------- looks

STEPS = pytest.mark.parametrize(
    ("step", "given_up"),
    [
        (lambda n: do.Publish(OURS, n), ev.AnswerLost),
        (lambda n: do.ReadBack(OURS, n, True), ev.ReadBackFailed),
        (lambda n: do.VerifyLineage(None, OURS, n), ev.LineageUnread),
        (lambda n: do.VerifyRide(OURS, n), ev.LineageUnread),
    ],
    ids=["publish", "read back", "verify", "verify the ride"],
)


@STEPS
def test_a_step_is_tried_once_whatever_time_it_is_and_again_only_in_time(step: Any, given_up: type[Any]) -> None:
    """H2: an answer that would come at once is still worth a request."""
    run = Run()
    driver = driven(run, timeout_ms=60_000)
    driver.answer(step(2))
    run.now_s += 60.0
    assert run.asked == [step(2)]
    spent: Any = driver.answer(step(2))
    assert isinstance(spent, given_up)
    assert spent.reason == "the time budget of the commit is spent"
    assert run.asked == [step(2)]
    driver.answer(step(1))
    assert run.asked == [step(2), step(1)]


def test_without_a_timeout_the_time_begins_with_the_first_send() -> None:
    run = Run()
    driver = driven(run)
    run.now_s += 10_000.0
    driver.answer(do.Publish(OURS, 1))
    run.now_s += ANSWER_WITHIN_S - 1
    driver.answer(do.Publish(OURS, 2))
    assert len(run.asked) == 2
    run.now_s += 1
    assert isinstance(driver.answer(do.Publish(OURS, 3)), ev.AnswerLost), "a second send does not begin it again"


# -------------------------------------------------------------------------------------------------------------- retries


def test_a_lost_attempt_waits_as_the_policy_says() -> None:
    run = Run()
    driver = driven(run)
    driver._began = driver._attempt_began = 90.0
    assert driver.answer(do.AwaitRetry(1, OURS)) == ev.RetryGranted(100)
    assert run.slept == [0.1]
    assert driver.attempt_s == 0.0, "another attempt begins"
    run.now_s, driver._attempt_began = 200.0, 199.96875
    assert driver.answer(do.AwaitRetry(1, OURS)) == ev.RetryGranted(62), (
        "no longer than an attempt takes each other writer"
    )


def test_who_may_ride_asks_at_once() -> None:
    run = Run()
    run.allowed = True
    assert driven(run).answer(do.AwaitRetry(1, OURS)) == ev.RetryGranted(0)
    assert run.slept == []


@pytest.mark.parametrize(("carried", "took_s"), [(True, 7.0), (False, 0.0)])
def test_a_commit_that_another_carries_has_lasted_since_it_asked(carried: bool, took_s: float) -> None:
    run = Run()
    run.allowed, run.met_carrier = True, carried
    driver = driven(run)
    driver._began = driver._attempt_began = driver._asked_at = run.now_s - 7.0
    assert driver.answer(do.AwaitRetry(1, OURS)) == ev.RetryGranted(0)
    assert (driver.attempt_s, driver.lasted_s) == (0.0, took_s)


@pytest.mark.parametrize(("attempt", "elapsed_s"), [(4, 1.25), (1, 60.0)], ids=["retries", "time"])
def test_a_spent_budget_says_what_it_was_spent_on(attempt: int, elapsed_s: float) -> None:
    run = Run()
    driver = driven(run, timeout_ms=60_000)
    driver._began = run.now_s - elapsed_s
    spent = driver.answer(do.AwaitRetry(attempt, OURS))
    assert spent == ev.BudgetSpent(f"lost the race to 2 other writers; {attempt} attempts in {elapsed_s:.1f} s")
    assert run.slept == []
