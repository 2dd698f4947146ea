"""Tickets: who goes first, whose ticket counts, and that nothing that is wrong with them fails a commit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count

import pytest

from lakelatch.backends.around.metered import MeteredStore
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.requests.refusals import DeletionRefused
from lakelatch.backends.store import ObjectInfo
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.coordinator.intents.tickets import STALE_AFTER_MS, Ticket, waiting
from lakelatch.core.errors import StoreUnavailable
from lakelatch.core.paths import TablePaths

NUMBERS = count()


class Dated(MemoryStore):
    """A store that says when its objects were written."""

    def __init__(self) -> None:
        super().__init__(f"memory://tickets-{next(NUMBERS)}/t")
        self.now_ms, self.dates = 1_000_000, dict[str, int]()

    def put(self, key: str, data: bytes) -> None:
        super().put(key, data)
        self.dates[key] = self.now_ms

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return (ObjectInfo(i.key, i.size, self.dates[i.key]) for i in super().list(prefix))


@pytest.fixture
def store() -> Dated:
    return Dated()


def ticket(store: Dated | MeteredStore, commit: str, branch: str = "main") -> Ticket:
    return Ticket(Timeline(store, TablePaths(branch)), commit)


def test_who_began_to_wait_earlier_goes_first_and_then_the_smaller_name(store: Dated) -> None:
    late, early, twin = (ticket(store, name) for name in ("a", "c", "b"))
    assert late.ahead(10) == 0
    assert early.ahead(9) == 0
    assert twin.ahead(9) == 0
    assert (early.ahead(12), twin.ahead(12), late.ahead(12)) == (1, 0, 2), "each keeps its first number"
    twin.give_back()
    assert (early.ahead(12), late.ahead(12)) == (0, 1)
    assert waiting(early.timeline) == 2


def test_numbers_are_compared_as_numbers(store: Dated) -> None:
    assert ticket(store, "a").ahead(10) == 0
    assert ticket(store, "b").ahead(9) == 0
    assert ticket(store, "c").ahead(100) == 2


def test_the_ticket_of_a_dead_process_counts_for_a_while_and_is_taken_away(store: Dated) -> None:
    dead, living = ticket(store, "dead"), ticket(store, "living")
    dead.ahead(1)
    store.now_ms += STALE_AFTER_MS
    assert living.ahead(5) == 1
    living.give_back()
    store.now_ms += 1
    again = ticket(store, "again")
    assert again.ahead(6) == 0 or again.ahead(6) == 0, (
        "its own is the newest, and the other one is older than it may be"
    )
    again.give_back()
    assert list(store.list("lakelatch/intents/")) == []


def test_a_store_without_dates_makes_no_ticket_stale() -> None:
    store = MemoryStore(f"memory://tickets-{next(NUMBERS)}/t")
    first, second = (Ticket(Timeline(store, TablePaths()), name) for name in ("a", "b"))
    first.ahead(1)
    assert second.ahead(2) == 1


def test_tickets_of_another_branch_and_other_files_do_not_count(store: Dated) -> None:
    ticket(store, "a", "dev").ahead(1)
    for name in ("intent-4-c1.json", "ticket-1", "ticket--c1", "ticket-x-c1", ".ticket-1-c1.tmp", "ticket-1-c1/more"):
        store.put(f"lakelatch/intents/{name}", b"")
    assert ticket(store, "b").ahead(5) == 0
    assert waiting(Timeline(store, TablePaths())) == 1
    assert [i.key for i in store.list("branch/")] == ["branch/branch-dev/lakelatch/intents/ticket-1-a"]


def test_a_look_is_one_request_and_the_first_one_two(store: Dated) -> None:
    metered = MeteredStore(store)
    made = ticket(metered, "a")
    made.ahead(1)
    assert metered.snapshot().by_operation == {"list": 1, "put": 1}
    made.ahead(1)
    assert metered.snapshot().by_operation == {"list": 2, "put": 1}
    made.give_back()
    assert metered.snapshot().by_operation == {"list": 2, "put": 1, "delete_many": 1}


def test_a_ticket_that_may_not_be_deleted_says_that_it_is_over(store: Dated, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(keys: Iterable[str]) -> None:
        raise DeletionRefused(dict.fromkeys(keys, "403"))

    monkeypatch.setattr(store, "delete_many", refused)
    first, second = ticket(store, "a"), ticket(store, "b")
    assert (first.ahead(1), second.ahead(2)) == (0, 1)
    assert not first.give_back()
    assert second.ahead(2) == 0
    assert waiting(second.timeline) == 1
    assert first.give_back(), "it is given back already"


def test_a_ticket_is_given_back_although_that_of_a_dead_process_may_not_be_deleted(
    store: Dated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a ticket of its own that stays has to say that it is over."""
    ticket(store, "dead").ahead(1)
    store.now_ms += STALE_AFTER_MS + 1
    living = ticket(store, "living")
    living.ahead(5)
    assert living.ahead(5) == 0
    delete = store.delete_many

    def refused(keys: Iterable[str]) -> None:
        own = [key for key in keys if key.endswith("-living")]
        delete(own)
        raise DeletionRefused({"lakelatch/intents/ticket-1-dead": "403"})

    monkeypatch.setattr(store, "delete_many", refused)
    assert living.give_back(), "the store lets it delete its own"
    assert [info.key for info in store.list("lakelatch/intents/")] == ["lakelatch/intents/ticket-1-dead"]


@pytest.mark.parametrize("broken", ["put", "list", "delete_many"])
def test_what_is_wrong_with_the_store_is_no_error(store: Dated, broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*args: object) -> None:
        raise StoreUnavailable("you may not")

    ticket(store, "other").ahead(1)
    monkeypatch.setattr(store, broken, refused)
    made = ticket(store, "mine")
    assert made.ahead(3) == (0 if broken == "list" else 1)
    assert made.give_back(), "nobody has refused to let it wait again"
