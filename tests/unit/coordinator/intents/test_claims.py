"""Claims: one writer at a time is at a bucket, and nothing that is wrong with claims keeps anybody from working."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import count

import pytest

from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.requests.refusals import DeletionRefused
from lakelatch.backends.store import ObjectInfo, PutOutcome, Unknown
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.coordinator.intents.claims import STALE_AFTER_MS, Claims
from lakelatch.coordinator.intents.shelf import KEY
from lakelatch.coordinator.intents.tickets import waiting
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.core.errors import StoreUnavailable
from lakelatch.core.paths import TablePaths

NUMBERS = count()
A, B, OTHER = (b"a", 0), (b"a", 1), (b"b", 0)


class Dated(MemoryStore):
    """A store that says when its objects were written."""

    def __init__(self) -> None:
        super().__init__(f"memory://claims-{next(NUMBERS)}/t")
        self.now_ms = 1_000_000

    def head(self, key: str) -> ObjectInfo:
        return replace(super().head(key), modified_ms=1_000_000)


@pytest.fixture
def store() -> Dated:
    return Dated()


def claims(store: Dated, branch: str = "main") -> Claims:
    return Claims(Timeline(store, TablePaths(branch)), replace(MACHINE, wall_s=lambda: store.now_ms / 1000))


def left(store: Dated) -> list[str]:
    return [info.key for info in store.list("")]


def test_who_claims_a_bucket_first_has_it_until_it_gives_it_back(store: Dated) -> None:
    first, second = claims(store), claims(store)
    assert first.take([A, B]) == [A, B]
    assert first.take([A]) == [A], "it has it already"
    assert second.take([A, OTHER]) == [OTHER]
    assert second.counts(A) and not second.counts((b"c", 0))
    first.give_back()
    assert not second.counts(A) and second.take([A, B]) == [A, B]
    second.give_back()
    assert left(store) == []


def test_branches_have_claims_of_their_own(store: Dated) -> None:
    assert claims(store).take([A]) == claims(store, "dev").take([A]) == [A]


def test_claims_are_no_tickets_and_are_cleaned_away_like_them(store: Dated) -> None:
    mine = claims(store)
    mine.take([A])
    assert waiting(mine.timeline) == 0
    assert all(KEY.match(key) for key in left(store))


def test_the_claim_of_a_dead_process_counts_for_a_while(store: Dated) -> None:
    claims(store).take([A])
    store.now_ms += STALE_AFTER_MS
    assert claims(store).take([A]) == []
    store.now_ms += 1
    heir = claims(store)
    assert heir.take([A]) == [A]
    heir.give_back()
    assert left(store) == []


def test_a_claim_that_may_not_be_deleted_says_that_it_is_over(store: Dated, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(keys: Iterable[str]) -> None:
        raise DeletionRefused(dict.fromkeys(keys, "legal hold"))

    mine = claims(store)
    mine.take([A])
    monkeypatch.setattr(store, "delete_many", refused)
    mine.give_back()
    assert len(left(store)) == 1
    assert claims(store).take([A]) == [A]


@pytest.mark.parametrize("answer", ["unknown", "refused"])
def test_a_store_that_fails_is_leave_to_work(store: Dated, answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def put_if_absent(key: str, data: bytes) -> PutOutcome:
        if answer == "refused":
            raise StoreUnavailable("403")
        return Unknown("time ran out")

    monkeypatch.setattr(store, "put_if_absent", put_if_absent)
    mine = claims(store)
    assert mine.take([A, B]) == [A, B]
    mine.give_back()


def test_a_claim_that_cannot_be_looked_at_counts_for_nothing(store: Dated, monkeypatch: pytest.MonkeyPatch) -> None:
    def head(key: str) -> ObjectInfo:
        raise StoreUnavailable("503")

    claims(store).take([A])
    monkeypatch.setattr(store, "head", head)
    assert claims(store).take([A]) == [A]
