"""The file by which a branch's name is taken, and what became of one create, whatever the store answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from by_hand.snapshots import Refusing, bare, raising

from lakelatch.backends.store import AlreadyThere, ObjectNotFound, Unknown
from lakelatch.coordinator.branches.claim import Answer, Claim, claim_key, claim_of, create
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.core.errors import OutcomeUnknown, StoreUnavailable, TableCorrupt

CLAIM = Claim("a1b2", "maïn", 7, "uuid-7", "eod", 3, 1_700_000_000_000, renamed="old")
TEXT = """{
  "version": 1,
  "maker": "a1b2",
  "source": "maïn",
  "snapshot": 7,
  "identity": "uuid-7",
  "tag": "eod",
  "schema": 3,
  "time_ms": 1700000000000,
  "renamed": "old",
  "deleted": false
}"""


def test_a_claim_is_a_json_file_that_people_can_read() -> None:
    assert CLAIM.to_json().decode() == TEXT
    store = bare()
    store.put(claim_key("b"), CLAIM.to_json())
    assert claim_of(store, "b") == CLAIM
    assert claim_of(store, "none") is None


def test_a_claim_that_names_no_rename_and_no_deletion_has_neither() -> None:
    """As those that were written before there were renames."""
    store = bare()
    short = (
        b'{"maker": "x", "source": "main", "snapshot": null, "identity": null, "tag": null, "schema": 0, "time_ms": 5}'
    )
    store.put(claim_key("b"), short)
    assert claim_of(store, "b") == Claim("x", "main", None, None, None, 0, 5, None, False)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"{", "is not JSON"),
        (b"\xff", "is not JSON"),
        (b"[]", "does not say what the branch was made from"),
        (b"5", "does not say what the branch was made from"),
        (b"null", "does not say what the branch was made from"),
        (b'{"version": 1}', "does not say what the branch was made from"),
        (b'{"version": 1, "colour": "red"}', "does not say what the branch was made from"),
    ],
)
def test_a_damaged_claim_is_named(text: bytes, told: str) -> None:
    store = bare()
    store.put(claim_key("b"), text)
    with pytest.raises(TableCorrupt, match=f"branch/branch-b/lakelatch/origin {told}") as raised:
        claim_of(store, "b")
    assert raised.value.next_step == "it may be deleted: the branch works without"


def test_two_calls_make_the_same_branch_whoever_they_are_and_whenever() -> None:
    """The newest schema does not count either: it may have been altered between two calls."""
    other = replace(CLAIM, maker="c3", time_ms=5, schema=9)
    assert CLAIM.same_work(other)
    assert other.same_work(CLAIM)


@pytest.mark.parametrize(
    "other",
    [
        {"source": "dev"}, {"snapshot": 8}, {"snapshot": None}, {"identity": "uuid-8"}, {"tag": None}, {"renamed": None},
        {"deleted": True},
    ],
)  # fmt: skip
def test_two_calls_that_differ_in_what_they_make_are_told_apart(other: dict[str, Any]) -> None:
    assert not CLAIM.same_work(replace(CLAIM, **other))


# ---------------------------------------------------------------------------------------------------------- one create


class Said(Refusing):
    """Answers the creates of `k` one after another as a test says, and then by itself."""

    def __init__(self, *answers: Any) -> None:
        super().__init__()
        self.answers = list(answers)
        self.plans["create k"] = self._answer

    def _answer(self) -> Any:
        answer: Any = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer() if callable(answer) else answer

    def holding(self, data: bytes, answer: Any) -> Callable[[], Any]:
        """The name holds these bytes by the time of the answer."""

        def planned() -> Any:
            self.plain().put("k", data)
            return answer

        return planned


def asked(store: Said, data: bytes = b"ours") -> tuple[Answer, int, list[float]]:
    """The answer, how many creates were sent, and the pauses in seconds."""
    pauses: list[float] = []
    answer = create(store, "k", data, replace(MACHINE, sleep=pauses.append))
    return answer, store.changes.count("create k"), pauses


def test_a_name_that_is_free_is_created_with_one_request() -> None:
    store = Said()
    assert asked(store) == (Answer.CREATED, 1, [])
    assert store.plain().get("k") == b"ours"
    assert store.reads == []


@pytest.mark.parametrize(("held", "wanted"), [(b"ours", Answer.SAME), (b"theirs", Answer.OTHER)])
def test_a_name_that_is_taken_says_by_which_bytes(held: bytes, wanted: Answer) -> None:
    store = Said()
    store.plain().put("k", held)
    assert asked(store) == (wanted, 1, [])
    assert store.plain().get("k") == held


@pytest.mark.parametrize("said", [Unknown("timeout"), AlreadyThere(earlier_send=True)])
def test_bytes_that_are_there_after_a_send_without_an_answer_are_our_own(said: Any) -> None:
    store = Said()
    store.answers = [store.holding(b"ours", said)]
    assert asked(store) == (Answer.CREATED, 1, [])
    store = Said()
    store.answers = [store.holding(b"theirs", said)]
    assert asked(store) == (Answer.OTHER, 1, [])


def test_a_send_without_an_answer_that_did_not_land_is_sent_again() -> None:
    assert asked(Said(Unknown("timeout"))) == (Answer.CREATED, 2, [0.1])
    assert asked(Said(Unknown("timeout"), Unknown("timeout"))) == (Answer.CREATED, 3, [0.1, 0.2])


def test_what_an_earlier_send_left_is_our_own_although_a_later_one_is_refused() -> None:
    store = Said(Unknown("timeout"))
    store.answers.append(store.holding(b"ours", AlreadyThere()))
    assert asked(store) == (Answer.CREATED, 2, [0.1])


def test_a_name_that_was_taken_and_is_free_by_the_time_it_is_read_is_tried_again() -> None:
    assert asked(Said(AlreadyThere())) == (Answer.CREATED, 2, [0.1])


def test_a_refusal_proves_that_nothing_was_created_if_no_send_is_open() -> None:
    store = Said(StoreUnavailable("503"))
    with pytest.raises(StoreUnavailable, match="503"):
        asked(store)
    assert store.changes == ["create k"]
    store = Said(AlreadyThere())
    store.plans["get k"] = raising(StoreUnavailable("503"))
    with pytest.raises(StoreUnavailable, match="503"):
        asked(store)
    assert store.changes == ["create k"]


def test_a_refusal_after_a_send_without_an_answer_proves_nothing() -> None:
    assert asked(Said(Unknown("timeout"), StoreUnavailable("503"))) == (Answer.CREATED, 3, [0.1, 0.2])


def test_a_store_that_never_answers_leaves_the_outcome_open() -> None:
    """After four sends, each after a longer pause."""
    store, pauses = Said(*[Unknown("timeout")] * 9), list[float]()
    with pytest.raises(OutcomeUnknown, match=f"it is not known whether k was created in {store.url}") as raised:
        create(store, "k", b"ours", replace(MACHINE, sleep=pauses.append))
    assert pauses == [0.1, 0.2, 0.4]
    assert store.changes == ["create k"] * 4
    assert raised.value.identity == {"file": "k"}
    assert raised.value.next_step == "run the same call again: it finishes what was begun"
    with pytest.raises(ObjectNotFound):
        store.plain().get("k")
