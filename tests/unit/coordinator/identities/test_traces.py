"""What is known of one user, compared with plain sets of the numbers that have landed."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable
from dataclasses import replace

import pytest
from by_hand.histories import of

from lakelatch.coordinator.identities.trace import Ranges, Trace, landed_to_json, trace_from_json

MOST = 40


def runs(landed: Iterable[int]) -> Ranges:
    """The unbroken runs of some numbers."""
    numbers = sorted(set(landed))
    begins = [n for n in numbers if n - 1 not in numbers]
    ends = [n for n in numbers if n + 1 not in numbers]
    return tuple(zip(begins, ends, strict=True))


def landed_in(trace: Trace) -> set[int]:
    return {n for first, last in trace.ranges for n in range(first, last + 1)}


def trace_of(numbers: Iterable[int], at: int = 1) -> Trace:
    """They landed in this order, the first of them in snapshot `at`."""
    first, *rest = numbers
    trace = Trace.of(first, of(at))
    for place, number in enumerate(rest, at + 1):
        trace = trace.with_landing(number, of(place))
    return trace


@pytest.mark.parametrize("seed", range(20))
def test_a_trace_holds_what_has_landed_in_any_order_and_nothing_else(seed: int) -> None:
    numbers = random.Random(seed).sample(range(MOST), 1 + seed)
    trace = trace_of(numbers)
    assert trace.ranges == runs(numbers)
    assert [n in trace for n in range(-1, MOST + 1)] == [n in numbers for n in range(-1, MOST + 1)]
    assert (trace.last, trace.carrier) == (max(numbers), of(1 + numbers.index(max(numbers))))
    lately = [(n, at) for at, n in enumerate(numbers, 1) if n != max(numbers)][-8:]
    assert trace.recent == tuple(lately), "of eight others it is known where they landed, the latest last"
    assert trace_from_json(Trace.of(trace.last, trace.carrier), landed_to_json(trace), "etl") == trace


@pytest.mark.parametrize("seed", range(30))
def test_one_trace_over_another_holds_what_either_holds(seed: int) -> None:
    """Whether they overlap, touch, lie apart, or one lies within a run of the other."""
    draw = random.Random(seed)
    sets = [{n for n in range(MOST) if draw.random() < share} | {draw.randrange(MOST)} for share in (0.2, 0.8)]
    one, other = (
        trace_of(draw.sample(sorted(found), len(found)), at) for found, at in zip(sets, (1, 100), strict=True)
    )
    both = other.over(one)
    assert both.ranges == runs(sets[0] | sets[1])
    assert landed_in(one.over(other)) == landed_in(both) == sets[0] | sets[1]
    ahead = other if other.last >= one.last else one
    assert (both.last, both.carrier) == (ahead.last, ahead.carrier)


@pytest.mark.parametrize("inner", [((2, 3),), ((1, 3),), ((2, 5),), ((1, 5),), ((3, 3), (5, 5)), ((-3, 0), (6, 9))])
def test_a_run_within_another_shortens_neither(inner: Ranges) -> None:
    outer = trace_of(range(1, 6))
    within = replace(Trace.of(inner[-1][1], of(9)), ranges=inner)
    wanted = runs({*range(1, 6), *landed_in(within)})
    assert within.over(outer).ranges == outer.over(within).ranges == wanted


def test_what_is_not_known_stays_unknown_and_what_one_knows_counts() -> None:
    trace = Trace.of(5, of(1))
    for floors in itertools.product((None, 3, 7), repeat=2):
        one, other = (replace(trace, floor=floor) for floor in floors)
        wanted = max((floor for floor in floors if floor is not None), default=None)
        assert one.over(other).floor == other.over(one).floor == wanted
    for unread in itertools.product((0, 1, 2), repeat=2):
        one, other = (replace(trace, unread=number) for number in unread)
        assert one.over(other).unread == min(unread)
    assert replace(trace, query="a").over(replace(trace, query="b")).query == "a"
    assert trace.over(replace(trace, query="b")).query == "b"


@pytest.mark.parametrize(
    ("unread", "settled"),
    [(0, {1, 2, 3, 4, 5, 6, 7}), (1, {2, 3, 5, 6, 7}), (2, {2, 3, 5})],
    ids=["this is everything", "older ones may be elsewhere", "larger ones, too"],
)
def test_a_trace_tells_of_a_number_alone_where_nothing_else_can_know_it(unread: int, settled: set[int]) -> None:
    trace = replace(trace_of([2, 3, 5]), unread=unread)
    assert {n for n in range(1, 8) if trace.settles(n)} == settled


@pytest.mark.parametrize(
    ("floor", "doubted"), [(None, set[int]()), (5, {1, 4}), (4, {1}), (0, set[int]()), (7, {1, 4, 6})]
)
def test_only_numbers_below_the_floor_that_nobody_remembers_are_doubted(floor: int | None, doubted: set[int]) -> None:
    trace = replace(trace_of([2, 3, 5]), floor=floor)
    assert {n for n in range(1, 8) if trace.doubts(n)} == doubted
    assert trace.with_floor().floor == 5


def test_of_many_runs_the_last_eight_stay() -> None:
    trace = trace_of(range(0, 18, 2))
    assert len(trace.ranges) == 9 and not trace.is_short
    kept = trace.short()
    assert (kept.ranges, kept.unread, kept.last) == (trace.ranges[1:], 1, 16)
    assert replace(trace, unread=2).short().unread == 2
    eight = trace_of(range(0, 16, 2))
    assert eight.is_short and eight.short() is eight


def test_a_user_of_one_commit_is_told_by_that_alone() -> None:
    assert Trace.of(5, of(3)).is_single
    for more in ({"unread": 1}, {"floor": 5}, {"query": "q"}, {"ranges": ((4, 5),)}, {"recent": ((4, 2),)}):
        assert not replace(Trace.of(5, of(3)), **more).is_single


WRITTEN = [[1, 2, 4, 0], [3, 4, 1, 9], 6, 1]


@pytest.mark.parametrize(
    "wrong",
    [
        [[], [], None, 0], [[1], [], None, 0], [[1, 2, 4], [], None, 0], [[3, -1, 4, 1], [], None, 0],
        [[1, 2, 1, 3], [], None, 0], [[1, 2, 0, 4], [], None, 0], [[1, 2, 4, 1], [], None, 0], [[1, 2, 3, 0], [], None, 0],
        [[1, 2, 4, 0], [1], None, 0], [[1, 2, 4, 0], [], None, 3], [[1, 2, 4, 0], [], None, -1],
    ],
)  # fmt: skip
def test_what_cannot_have_been_written_is_refused(wrong: list[object]) -> None:
    """Runs ascend, lie apart, and end with the last number; landings are pairs."""
    assert trace_from_json(Trace.of(7, of(3)), WRITTEN, "etl").ranges == ((1, 3), (7, 7))
    with pytest.raises(ValueError, match=r"what has landed of 'etl'|cannot be pairs"):
        trace_from_json(Trace.of(7, of(3)), wrong, "etl")


@pytest.mark.parametrize(
    "wrong",
    [
        [[1, 2, 4, "0"], [], None, 0], [[1, 2, 4, 0.0], [], None, 0], [[1, 2, 4, False], [], None, 0],
        [[1, 2, 4, 0], [1, "2"], None, 0], [[1, 2, 4, 0], [], "6", 0], [[1, 2, 4, 0], [], None, None],
        [*WRITTEN, 5], [*WRITTEN, None], [*WRITTEN, "query", "more"],
    ],
)  # fmt: skip
def test_what_is_not_made_of_whole_numbers_and_a_query_is_refused(wrong: list[object]) -> None:
    assert trace_from_json(Trace.of(7, of(3)), [*WRITTEN, "query"], "etl").query == "query"
    with pytest.raises(TypeError, match="'etl'"):
        trace_from_json(Trace.of(7, of(3)), wrong, "etl")
