"""How long a losing commit waits, when it gives up, and how long a winner holds back, with the test's own dice and clocks."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.coordinator.commit.committer import Committer
from lakelatch.coordinator.commit.retries import Crowd, RetryPolicy
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.options import TableOptions
from lakelatch.core.rows.arrow import from_arrow_schema
from lakelatch.table.table import Table

COUNTER = itertools.count()

POLICY = RetryPolicy(max_retries=12, timeout_ms=60_000, min_wait_ms=100, max_wait_ms=10_000)


def wait_ms(
    policy: RetryPolicy, attempt: int, *, others: int = 100, attempt_s: float = 1.0, elapsed_s: float = 0.0
) -> int | None:
    """The longest wait that the dice allow."""
    return policy.next_wait_ms(
        attempt, elapsed_s=elapsed_s, attempt_s=attempt_s, others=others, uniform=lambda least, most: most
    )


def test_waits_double_up_to_the_longest() -> None:
    waits = [wait_ms(POLICY, attempt) for attempt in range(1, 10)]
    assert waits == [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]


def test_waits_are_no_longer_than_the_turns_of_the_others() -> None:
    """A writer that has lost to each of them has waited for its turn: then one attempt's time is enough."""
    assert wait_ms(POLICY, 7, others=8, attempt_s=0.5) == 4000
    assert wait_ms(POLICY, 8, others=8, attempt_s=0.5) == 4000
    assert wait_ms(POLICY, 9, others=8, attempt_s=0.5) == 500
    assert wait_ms(POLICY, 2, others=1, attempt_s=0.05) == 50


def test_a_wait_is_doubled_64_times_at_most() -> None:
    """No number of attempts is too large for the arithmetic."""
    patient = RetryPolicy(max_retries=10**9, timeout_ms=None, min_wait_ms=1000, max_wait_ms=2**90)
    waits = [wait_ms(patient, attempt, attempt_s=2.0**70, others=10**9) for attempt in (64, 65, 66, 10**6)]
    assert waits == [2**63 * 1000, 2**64 * 1000, 2**64 * 1000, 2**64 * 1000]


def test_any_wait_down_to_none_is_possible() -> None:
    """Full jitter: writers that lost at the same moment must not retry at the same moment."""
    seen: list[tuple[float, float]] = []

    def dice(least: float, most: float) -> float:
        seen.append((least, most))
        return 0.0123456

    assert POLICY.next_wait_ms(3, elapsed_s=0.0, attempt_s=1.0, others=9, uniform=dice) == 12
    assert seen == [(0, 0.4)]


def test_the_number_of_retries_is_limited() -> None:
    assert wait_ms(POLICY, 12) is not None
    assert wait_ms(POLICY, 13) is None
    assert wait_ms(replace(POLICY, max_retries=0), 1) is None


def test_no_retry_begins_after_the_timeout() -> None:
    assert wait_ms(POLICY, 1, elapsed_s=59.99) is not None
    assert wait_ms(POLICY, 1, elapsed_s=60.0) is None
    assert wait_ms(replace(POLICY, timeout_ms=None), 1, elapsed_s=1e6) is not None
    assert wait_ms(replace(POLICY, timeout_ms=None), 13) is None


def test_the_policy_comes_from_the_tables_options() -> None:
    options = {"max-retries": "3", "timeout": "4 s", "min-retry-wait": "5 ms", "max-retry-wait": "6 ms"}
    policy = RetryPolicy.from_options(TableOptions({f"commit.{name}": value for name, value in options.items()}))
    assert policy == RetryPolicy(max_retries=3, timeout_ms=4000, min_wait_ms=5, max_wait_ms=6)


def test_others_that_were_met_are_near_for_a_while() -> None:
    crowd = Crowd()
    assert crowd == Crowd(size=0.0, attempt_s=0.0, met_at_s=0.0), "no other writer was met yet"
    assert not crowd.is_near(0.0)
    crowd.observe(others=3, attempt_s=0.5, now_s=100.0)
    assert crowd.is_near(100.0) and crowd.is_near(110.0)
    assert not crowd.is_near(110.01), "who was not met for ten seconds is gone"


@pytest.mark.parametrize(("lasted_s", "kept_s"), [(0.0, 0.5), (0.25, 0.5), (2.0, 2.0)])
def test_who_was_carried_knows_how_long_the_others_take(lasted_s: float, kept_s: float) -> None:
    crowd = Crowd()
    crowd.observe(others=3, attempt_s=0.5, now_s=100.0, lasted_s=lasted_s)
    assert (crowd.lasted_s, crowd.attempt_s) == (kept_s, 0.5)


def test_a_crowd_is_forgotten_commit_by_commit() -> None:
    """The largest crowd counts, until commits that met no other writer have reduced it."""
    crowd = Crowd()
    crowd.observe(others=2, attempt_s=1.0, now_s=0.0)
    crowd.observe(others=1, attempt_s=0.5, now_s=9.0)
    assert crowd.is_near(19.0), "met again at 9 s"
    assert (crowd.size, crowd.attempt_s) == (2.0, 0.5), "with the attempt of the latest"
    for size in (1.4, 0.98, 0.686):
        crowd.observe(others=0, attempt_s=0.5, now_s=9.0)
        assert crowd.size == pytest.approx(size) and crowd.is_near(9.0)
    crowd.observe(others=0, attempt_s=0.5, now_s=9.0)
    assert not crowd.is_near(9.0), "less than half of one counts as none"


def test_half_of_one_still_counts() -> None:
    assert Crowd(size=0.5, attempt_s=1.0, met_at_s=0.0).is_near(0.0)


def test_a_writer_that_met_others_leaves_them_their_turns() -> None:
    """Its next commit lets those go first who wait, each for an attempt's time."""
    a_row = pa.table({"v": pa.array([1], pa.int64())})
    store, clock, slept = MemoryStore(f"memory://turns-{next(COUNTER)}/t"), [100.0], list[float]()
    made = new_schema(from_arrow_schema(a_row.schema), options={"commit.min-retry-wait": "1 ms"})
    store.put("schema/schema-0", made.to_json())
    others = [Table(store, made) for _ in range(2)]
    create, racing = store.put_if_absent, iter(others)

    def overtaken(key: str, data: bytes) -> Any:
        if key.startswith("snapshot/snapshot-") and (other := next(racing, None)) is not None:
            clock[0] += 0.25
            store.put_if_absent = create  # type: ignore[method-assign]
            other.append(a_row)
            store.put_if_absent = overtaken  # type: ignore[method-assign]
        return create(key, data)

    around = replace(MACHINE, monotonic_s=lambda: clock[0], sleep=slept.append, uniform=lambda least, most: most)
    writer = Table(store, made)
    writer._committer = Committer(store, writer.paths, made, around=around)
    store.put_if_absent = overtaken  # type: ignore[method-assign]
    assert writer.append(a_row).attempts == 3
    assert slept == [0.001, 0.0], "as the policy says; nobody else waits; and not at all before the first attempt"
    crowd = writer.committer._knows.crowd
    assert (crowd.size, crowd.met_at_s) == (2.0, clock[0])
    assert crowd.attempt_s == 0.0, "of the last attempt"
    crowd.attempt_s = 0.5
    slept.clear()
    store.put("lakelatch/intents/ticket-1-another", b"")
    writer.append(a_row)
    assert slept == [pytest.approx(0.7 * 0.5)]


# ------------------------------------------------------------------------------------- others whom a winner never meets


def looks(crowd: Crowd, *began_s: float, rides: bool = True, lasts_s: float = 0.0) -> list[bool]:
    """For each of some commits that met nobody, by their beginnings: whether the writer looks for others after it."""
    found = []
    for began in began_s:
        found.append(crowd.may_be_unseen(began, began + lasts_s, rides=rides))
        crowd.observe(others=0, attempt_s=crowd.attempt_s, now_s=began + lasts_s)
    return found


def test_a_writer_that_commits_again_within_a_second_looks_for_others() -> None:
    """Those that lose to it need more time for an attempt, and it would never meet them."""
    assert looks(Crowd(), 0.0, 1.0) == [False, True]
    assert looks(Crowd(), 0.0, 1.01) == [False, False], "a writer that pauses leaves them enough time"
    assert looks(Crowd(), 100.0, 102.0, lasts_s=1.5) == [False, True], "the pause begins when a commit has ended"


def test_a_writer_that_has_met_others_need_not_look_for_them() -> None:
    crowd = Crowd()
    crowd.observe(others=1, attempt_s=0.0, now_s=10.0)
    assert looks(crowd, 10.5, 10.6) == [False, False]


def test_where_nobody_can_ask_to_be_carried_a_writer_looks_after_five_commits_in_a_row() -> None:
    """The others wait longer before they say so."""
    in_a_row = [10.0, 10.5, 11.0, 11.5, 12.0, 12.5, 13.0]
    assert looks(Crowd(), *in_a_row, rides=False) == [False] * 5 + [True] * 2
    interrupted = [10.0, 10.5, 11.0, 11.5, 12.0, 20.0, 20.5, 21.0, 21.5, 22.0, 22.5]
    assert looks(Crowd(), *interrupted, rides=False) == [False] * 10 + [True], "a pause begins a new row"


def test_four_attempts_lie_between_two_looks() -> None:
    crowd = Crowd(attempt_s=0.25)
    assert looks(crowd, 10.0, 10.5, 11.0, 11.25, 11.5, 12.25, 12.5) == [False, True, False, False, True, False, True]


@pytest.mark.parametrize(("group", "looks"), [("off", set()), ("auto", {True})])
def test_a_writer_that_carries_nobody_commits_a_few_times_before_it_looks(
    group: Any, looks: set[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others ask a leader at once, and wait for turns only after a while."""
    looked = set[bool]()
    monkeypatch.setattr(Committer, "_look_for_others", lambda self, attempt_s, rides: looked.add(rides))
    table = ll.create_table(f"memory://looks-for-others/{group}", pa.schema([("id", pa.int64())]))
    for number in range(3):
        table.append(pa.table({"id": [number]}), group=group)
    table.committer.settle()
    assert looked == looks
