"""Which snapshot carries an identity that has landed, compared with a plain list of what landed where."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from at_each_request import Struck
from by_hand.histories import hints, new_store, of, put, remove, snapshot, timeline

from lakelatch.coordinator.identities.memory import IDENTIFIERS_PROPERTY, Memory, name_of
from lakelatch.coordinator.identities.pages import Page
from lakelatch.coordinator.identities.recall import Known, recall
from lakelatch.coordinator.intents.carried import CARRIES_PROPERTY, Carried, to_property
from lakelatch.coordinator.outcome.carrier import carrier_of, carries
from lakelatch.coordinator.outcome.resolution import Case, find_out
from lakelatch.coordinator.protocol import effects as do
from lakelatch.coordinator.protocol.snapshot_ref import SnapshotRef
from lakelatch.core.metadata.snapshot import BATCH_IDENTIFIER, Snapshot

NUMBERS = random.Random(7).sample(range(0, 80, 2), 40)
"""The identifier that landed in each snapshot, from the first on: with gaps, and in no order."""


def history(store: Any, user: str = "job", numbers: list[int] = NUMBERS) -> list[Snapshot]:
    """A snapshot for each identifier, which remembers all of those before it."""
    memory, made = Memory(), []
    for at, number in enumerate(numbers, 1):
        memory = memory.with_commit(user, number, of(at))
        one = snapshot(at, commit_user=user, commit_identifier=number)
        made.append(replace(one, properties={**one.properties, IDENTIFIERS_PROPERTY: memory.to_property()}))
    put(store, *made)
    hints(store, earliest=1)
    return made


def carrier(store: Any, number: int, base: Snapshot, user: str = "job") -> SnapshotRef:
    here, known = timeline(store), Known()
    return carrier_of(user, number, recall(user, base, here, known, identifier=number), base, here, known)


@pytest.fixture
def store() -> Any:
    return new_store(Struck)


@pytest.mark.parametrize("user", ["job", "x" * 1_000])
def test_each_identity_is_found_in_its_own_snapshot(store: Any, user: str) -> None:
    """Also on an older base, which knows nothing of what came later; users with long names are remembered by a hash."""
    made = history(store, user)
    for at, number in enumerate(NUMBERS, 1):
        assert carrier(store, number, made[-1], user) == of(at), number
        assert carrier(store, number, made[at - 1], user) == of(at), "the base itself"
        if at < len(made):
            assert carrier(store, number, made[at], user) == of(at), "the one below the base"


def test_few_snapshots_are_read_however_many_there_are(store: Any) -> None:
    """By halves; of the largest identifier and of the last eight others none need be searched."""
    made = history(store)
    for at, number in enumerate(NUMBERS, 1):
        store.asked.clear()
        carrier(store, number, made[-1])
        reads = len([one for one in store.asked if one.startswith("get ")])
        lately = [n for n in NUMBERS if n != max(NUMBERS)][-8:]
        assert reads <= (0 if number == max(NUMBERS) else 1 if number in lately else 8), (at, number)


@pytest.mark.parametrize("left", [1, 5, 20, 38])
def test_of_a_snapshot_that_has_expired_its_name_is_told_as_far_as_it_is_remembered(store: Any, left: int) -> None:
    """Never the name of a snapshot that did not carry it."""
    made = history(store)
    remove(store, *(f"snapshot/snapshot-{number}" for number in range(1, len(made) - left + 1)))
    hints(store, earliest=len(made) - left + 1)
    lately = [number for number in NUMBERS if number != max(NUMBERS)][-8:]
    for at, number in enumerate(NUMBERS, 1):
        if number == max(NUMBERS) or at > len(made) - left:
            wanted = of(at)
        else:
            wanted = SnapshotRef(at, "") if number in lately else SnapshotRef(0, "")
        assert carrier(store, number, made[-1]) == wanted, number


def test_a_name_that_another_snapshot_has_by_now_is_not_taken_for_the_carrier(store: Any) -> None:
    """A rollback had freed it."""
    made = history(store)
    at = len(made) - 3
    assert NUMBERS[at - 1] != max(NUMBERS)
    put(store, snapshot(at, uuid="another", commit_user="job", commit_identifier=1))
    assert carrier(store, NUMBERS[at - 1], made[-1]) == SnapshotRef(at, "")
    first = made[2]
    put(store, replace(first, commit_identifier=1))
    assert carrier(store, NUMBERS[2], made[-1]) == SnapshotRef(0, ""), (
        "it knows the landing, and is not where it landed"
    )


def test_a_commit_that_rode_with_another_is_found_there(store: Any) -> None:
    made = history(store)
    rider = Carried(name_of("job"), NUMBERS[4], "c1", 1)
    led = replace(
        made[4],
        commit_user="leader",
        commit_identifier=BATCH_IDENTIFIER,
        properties={**made[4].properties, CARRIES_PROPERTY: to_property((Carried("leader", None, "c0", 1), rider))},
    )
    put(store, led)
    assert carrier(store, NUMBERS[4], made[-1]) == of(5)


@pytest.mark.parametrize(
    ("user", "number", "is_carried"),
    [
        ("job", 7, True), ("job", 8, False), ("other", 7, False), ("rider", 1, True), ("rider", 7, False),
        ("x" * 200, 3, True), ("x" * 201, 3, False), ("leader", 1, False), ("job", 1, False),
    ],
)  # fmt: skip
def test_a_snapshot_carries_its_own_commit_and_those_of_its_riders(user: str, number: int, is_carried: bool) -> None:
    riders = (Carried("job", 7, "c0", 1), Carried("rider", 1, "c1", 1), Carried(name_of("x" * 200), 3, "c2", 1))
    one = snapshot(2, commit_user="job", commit_identifier=7)
    assert carries(one, user, number) is (user == "job" and number == 7)
    led = replace(one, properties={**one.properties, CARRIES_PROPERTY: to_property(riders)})
    assert carries(led, user, number) is is_carried


def in_a_page(store: Any) -> list[Snapshot]:
    """Of `job` every second number landed; the property of the last four snapshots keeps the newest eight, a page the others."""
    numbers = list(range(0, 40, 2))
    made = history(store, numbers=numbers)
    for at in range(len(made) - 4, len(made)):
        trace = Memory()
        for place, number in enumerate(numbers[: at + 1], 1):
            trace = trace.with_commit("job", number, of(place))
        page = f"identities-page-{at}"
        store.put(f"lakelatch/identities/{page}", Page(trace.users).to_bytes())
        short = Memory(users={"job": trace.users["job"].short()}, page=page)
        made[at] = replace(made[at], properties={**made[at].properties, IDENTIFIERS_PROPERTY: short.to_property()})
    put(store, *made)
    return made


@pytest.mark.parametrize("number", [0, 2, 14, 16, 36, 38])
def test_a_landing_that_only_a_page_remembers_is_found(store: Any, number: int) -> None:
    """G3: whoever finds out how the commit ended, and where it is, asks for its very identifier."""
    made = in_a_page(store)
    assert carrier(store, number, made[-1]) == of(1 + number // 2)
    outcome = find_out(Case("job", number, ()), timeline(store)).outcome
    assert outcome == do.Committed(of(1 + number // 2), True)
    lost = find_out(Case("job", number + 1, ()), timeline(store)).outcome
    assert isinstance(lost, do.NotCommitted)


def test_of_many_commits_of_one_user_in_one_snapshot_each_is_found_there(store: Any) -> None:
    """They rode together; only the last few of them are remembered with their snapshot."""
    numbers, memory = range(20, 0, -1), Memory()
    for number in numbers:
        memory = memory.with_commit("job", number, of(1))
    carried = to_property([Carried("job", number, f"c{number}", 1) for number in numbers])
    made = snapshot(1, commit_user="job", commit_identifier=20)
    said = {IDENTIFIERS_PROPERTY: memory.to_property(), CARRIES_PROPERTY: carried}
    made = replace(made, properties={**made.properties, **said})
    put(store, made)
    hints(store, earliest=1)
    assert [carrier(store, number, made) for number in numbers] == [of(1)] * 20
