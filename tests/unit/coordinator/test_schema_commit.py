"""One create of a schema file: each answer of the store, what is asked again, and what is done if the table is gone by then."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import AlreadyThere, Created, ObjectNotFound, PutOutcome, Unknown
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.coordinator.schema_commit import Changed, change_schema, create_first_schema, create_schema
from lakelatch.coordinator.surroundings import MACHINE, Surroundings
from lakelatch.core.errors import OutcomeUnknown, RetriesExhausted, StoreUnavailable, TableNotFound
from lakelatch.core.metadata.schema import TableSchema, new_schema
from lakelatch.core.paths import TablePaths
from lakelatch.core.rows.types import AtomicType, Field

COUNTER = itertools.count()
KEY = "schema/schema-1"
OURS = b"ours"
Answer = PutOutcome | Exception | Callable[[], object] | None
SILENCE, REFUSED = Unknown("silence"), StoreUnavailable("denied", next_step="check the rights")


class Told(MemoryStore):
    """A store in memory that answers creates and reads of `KEY` as a test has planned, and then as it is.

    Attributes:
        creates: answers to creates: instead of one, or what happens just before one.
        reads: answers to reads: errors, or what happens just before one.
        asked: how many creates and reads of `KEY` there were.
    """

    def __init__(self, creates: list[Answer] | None = None, reads: list[Answer] | None = None) -> None:
        super().__init__(f"memory://schema-commit-{next(COUNTER)}/t")
        self.creates, self.reads = creates or [], reads or []
        self.asked = [0, 0]

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        if key != KEY:
            return super().put_if_absent(key, data)
        self.asked[0] += 1
        answer = self._next(self.creates)
        return answer if answer is not None else super().put_if_absent(key, data)

    def get(self, key: str) -> bytes:
        if key == KEY:
            self.asked[1] += 1
            self._next(self.reads)
        return super().get(key)

    @staticmethod
    def _next(answers: list[Answer]) -> PutOutcome | None:
        answer = answers.pop(0) if answers else None
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Unknown | AlreadyThere | Created) or answer is None:
            return answer
        answer()
        return None


@dataclass
class Clock:
    """Time that passes by waiting."""

    now_s: float = 0.0
    waits: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now_s += seconds

    @property
    def around(self) -> Surroundings:
        return replace(MACHINE, sleep=self.sleep, monotonic_s=lambda: self.now_s)


# ------------------------------------------------------------------------------------------------------ the first one


def test_a_first_schema_is_created_unless_there_is_one() -> None:
    store = Told()
    assert create_first_schema(store, KEY, OURS) is True
    assert store.asked == [1, 1]
    assert create_first_schema(store, KEY, OURS) is False
    assert create_first_schema(store, KEY, b"another") is False
    assert store.asked[0] == 1 and store.get(KEY) == OURS


def test_a_store_that_cannot_be_reached_is_not_asked_to_create_anything() -> None:
    store = Told(reads=[REFUSED])
    with pytest.raises(StoreUnavailable) as caught:
        create_first_schema(store, KEY, OURS)
    assert (caught.value.message, caught.value.next_step) == ("no table was created: denied", "check the rights")
    assert store.asked == [0, 1]


# ------------------------------------------------------------------------------------------------- answers to a create


@pytest.mark.parametrize(
    ("held", "creates", "reads", "made", "asked"),
    [
        (None, [], [], True, [1, 0]),
        (OURS, [], [], True, [1, 1]),
        (b"another", [], [], False, [1, 1]),
        (OURS, [SILENCE], [], True, [1, 1]),
        (b"another", [SILENCE], [], False, [1, 1]),
        (None, [SILENCE], [], True, [2, 1]),
        (None, [SILENCE, SILENCE, SILENCE], [], True, [4, 3]),
        (None, [AlreadyThere(), AlreadyThere()], [], True, [3, 2]),
        (OURS, [SILENCE], [StoreUnavailable("away")], True, [2, 2]),
        (OURS, [], [ObjectNotFound(KEY), ObjectNotFound(KEY)], True, [3, 3]),
        (None, [SILENCE, REFUSED, REFUSED], [], True, [4, 1]),
    ],
)
def test_the_file_itself_decides_who_made_it(
    held: bytes | None, creates: list[Answer], reads: list[Answer], made: bool, asked: list[int]
) -> None:
    """H2, H3: only "created" is believed; after any other answer the file is read, and where it is not there, sent again."""
    store = Told(list(creates), list(reads))
    if held is not None:
        store.put(KEY, held)
    assert create_schema(store, KEY, OURS, Clock().around) is made
    assert store.asked == asked


def test_a_refusal_of_the_first_send_is_final() -> None:
    store = Told([REFUSED])
    with pytest.raises(StoreUnavailable) as caught:
        create_schema(store, KEY, OURS)
    assert (caught.value.message, caught.value.next_step) == (f"{KEY} was not created: denied", "check the rights")
    assert store.asked == [1, 0]


@pytest.mark.parametrize("called", ["schema", "tag"])
def test_four_sends_without_an_answer_are_unknown(called: str) -> None:
    store, clock = Told([SILENCE] * 4), Clock()
    with pytest.raises(OutcomeUnknown) as unknown:
        create_schema(store, KEY, OURS, clock.around, **({} if called == "schema" else {"called": called}))
    assert store.asked == [4, 4]
    assert unknown.value.identity == {called: KEY}
    assert unknown.value.message == f"it is not known whether {KEY} was created in {store.url}"
    assert [wait <= longest for wait, longest in zip(clock.waits, (0.05, 0.1, 0.2), strict=True)] == [True] * 3
    assert max(clock.waits) > 0
    store.creates = [SILENCE] * 4
    with pytest.raises(OutcomeUnknown) as still:
        unknown.value.resolve(0.0)
    assert still.value.identity == {called: KEY}
    store.creates = [REFUSED] * 4
    with pytest.raises(OutcomeUnknown):
        still.value.resolve(0.0)  # an earlier send may have landed, whatever this one is told
    assert still.value.resolve(1.0) == KEY


def test_a_refusal_after_an_unanswered_send_proves_nothing() -> None:
    store = Told([REFUSED] * 4)
    with pytest.raises(OutcomeUnknown):
        create_schema(store, KEY, OURS, Clock().around, sent_before=True)
    assert store.asked == [4, 0]


def test_it_is_asked_again_until_the_time_is_over() -> None:
    store, clock = Told([SILENCE] * 10_000), Clock()
    with pytest.raises(OutcomeUnknown) as unknown:
        create_schema(store, KEY, OURS, clock.around)
    began = clock.now_s
    with pytest.raises(OutcomeUnknown):
        unknown.value.resolve(3.0)
    assert 2.99 < clock.now_s - began < 3.4
    store.creates = []
    store.put(KEY, b"another")
    with pytest.raises(RetriesExhausted, match=f"{KEY} of {store.url} was made by another writer"):
        unknown.value.resolve(3.0)


def test_without_time_it_is_asked_once_also_where_no_time_passes() -> None:
    store, around = Told([SILENCE] * 8), replace(MACHINE, sleep=lambda seconds: None, monotonic_s=lambda: 7.0)
    with pytest.raises(OutcomeUnknown) as unknown:
        create_schema(store, KEY, OURS, around)
    with pytest.raises(OutcomeUnknown):
        unknown.value.resolve(0.0)
    assert store.asked[0] == 8


# ------------------------------------------------------------------------------------------------- a change of a table

FIRST = new_schema([Field(0, "a", AtomicType("INT"))], time_ms=1)
CHANGE = [ll.add_column("b", "INT")]


def table(creates: list[Answer] | None = None, *, is_opened: bool = False, first: TableSchema = FIRST) -> Any:
    """A store with a table, and its timeline; one that has been opened knows its first schema."""
    store = Told(creates)
    store.put("schema/schema-0", first.to_json())
    return store, Timeline(store, TablePaths(), first_schema=first.to_json() if is_opened else None)


@pytest.mark.parametrize("is_opened", [False, True])
def test_a_change_reports_what_was_before_and_what_is_now(is_opened: bool) -> None:
    store, timeline = table(is_opened=is_opened)
    made = change_schema(timeline, CHANGE, replace(MACHINE, wall_s=lambda: 5.0))
    assert made.after.time_ms == 5_000
    assert (made.before, made.after.id, made.after.names, made.holds_files) == (FIRST, 1, ("a", "b"), False)
    assert store.get(KEY) == made.after.to_json()


def test_a_change_of_a_table_with_files_says_so() -> None:
    import pyarrow as pa

    held = ll.create_table(f"memory://schema-commit-{next(COUNTER)}/t", pa.schema([("a", pa.int32())]))
    held.append(pa.table({"a": pa.array([1], pa.int32())}))
    made = change_schema(held.timeline, CHANGE, seen=held.snapshot())
    assert isinstance(made, Changed) and made.holds_files


def gone(store: Told) -> None:
    store.delete_many(["schema/schema-0"])


def made_again(store: Told) -> None:
    store.put("schema/schema-0", replace(FIRST, time_ms=2).to_json())


@pytest.mark.parametrize("is_opened", [False, True])
@pytest.mark.parametrize("happens", [gone, made_again])
def test_a_change_of_a_table_that_is_gone_by_then_leaves_no_schema(
    is_opened: bool, happens: Callable[[Told], None]
) -> None:
    """H21: its schema would be a table of its own, or a part of another one."""
    store, timeline = table(is_opened=is_opened)
    store.creates = [lambda: happens(store)]
    with pytest.raises(TableNotFound, match="was dropped or renamed while its schema was changed") as caught:
        change_schema(timeline, CHANGE)
    assert caught.value.next_step == "open the table again, where it is now"
    assert [info.key for info in store.list("")] == ([] if happens is gone else ["schema/schema-0"])


@pytest.mark.parametrize("is_opened", [False, True])
def test_a_change_that_cannot_be_looked_at_afterwards_was_made(is_opened: bool) -> None:
    store, timeline = table(is_opened=is_opened)
    get = store.get

    def away(key: str) -> bytes:
        raise StoreUnavailable("away")

    def cut_off() -> None:
        store.get = away  # type: ignore[method-assign]

    store.creates = [cut_off]
    assert change_schema(timeline, CHANGE).after.id == 1
    store.get = get  # type: ignore[method-assign]
    assert store.get(KEY)
