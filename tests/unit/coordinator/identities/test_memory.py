"""The memory of commit users as a value: how many it holds, who leaves it, and how it is written and read."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from by_hand.histories import foreign, of, snapshot

from lakelatch.coordinator.identities.memory import (
    IDENTIFIERS_PROPERTY,
    Memory,
    identity_file,
    is_ours,
    memory_of,
    name_of,
    users_from_json,
)
from lakelatch.coordinator.identities.trace import Trace
from lakelatch.core.errors import TableCorrupt
from lakelatch.core.metadata.snapshot import Snapshot

MOST = 200
"""Written out: so many users fit into the property of every snapshot."""


def users(number: int) -> dict[str, Trace]:
    return {f"user-{n}": Trace.of(n, of(1)) for n in range(number)}


def remembers(text: str, number: int = 7) -> Snapshot:
    made = snapshot(number)
    return replace(made, properties={**made.properties, IDENTIFIERS_PROPERTY: text})


@pytest.mark.parametrize(
    ("held", "names", "overflows"),
    [
        (MOST, (), False),
        (MOST, (None,), False),
        (MOST, ("user-0", "user-199", None), False),
        (MOST, ("new",), True),
        (MOST - 1, ("new", "new", None), False),
        (MOST - 1, ("new", "newer"), True),
        (MOST + 1, (), True),
    ],
)
def test_two_hundred_users_fit(held: int, names: tuple[str | None, ...], overflows: bool) -> None:
    assert Memory(users=users(held)).overflows_with(*names) == overflows


def test_the_less_recent_users_leave_until_a_hundred_are_left() -> None:
    memory = Memory(users=users(MOST + 30))
    leaving, staying = memory.divided()
    assert list(leaving) == [f"user-{n}" for n in range(130)]
    assert list(staying) == [f"user-{n}" for n in range(130, 230)]
    assert {**leaving, **staying} == memory.users


def test_a_user_that_commits_is_the_most_recent_one() -> None:
    memory = Memory(3, users(3), "identities-page-1").with_commit("user-0", 9, of(4))
    assert list(memory.users) == ["user-1", "user-2", "user-0"]
    assert memory.users["user-0"] == Trace(9, of(4), ((0, 0), (9, 9)), ((0, 1),))
    assert (memory.since, memory.page) == (3, "identities-page-1")
    long = "x" * 1_000
    assert Memory().with_commit(long, 1, of(1)) == Memory().with_name(name_of(long), 1, of(1))


def test_a_new_user_may_be_known_to_the_page_if_there_is_one() -> None:
    """Older identifiers of it, but none that is larger: those would be in the property."""
    alone = Memory(1, users(2))
    assert alone.with_unread("user-1") == alone, "without a page this is everything"
    paged = Memory(1, users(2), "identities-page-1")
    unread = {name: trace.unread for name, trace in paged.with_unread("user-1").users.items()}
    assert unread == {"user-0": 0, "user-1": 1}


def test_a_memory_over_an_older_one_reaches_as_far_back() -> None:
    newer = Memory(9, {"a": Trace.of(2, of(9))})
    older = Memory(4, {"b": Trace.of(1, of(4)), "a": Trace.of(1, of(5))})
    both = Trace(2, of(9), ((1, 2),), ((1, 5),))
    assert newer.over(older) == Memory(4, {"b": Trace.of(1, of(4)), "a": both})
    assert list(newer.over(older).users) == ["b", "a"], "the older one's users are the less recent"
    assert Memory(2).over(Memory(8)).since == 2


def test_the_property_is_written_in_its_shortest_form() -> None:
    memory = Memory(1, {"é": Trace.of(7, of(3, "abc"))}, "identities-page-1")
    assert memory.to_property() == '{"since":1,"page":"identities-page-1","users":{"é":[7,3,"abc"]},"landed":{}}'
    assert memory_of(remembers(memory.to_property())) == memory
    assert Memory().to_property() == '{"since":1,"page":null,"users":{},"landed":{}}'


@pytest.mark.parametrize(
    ("name", "stays"),
    [("x" * 128, True), ("x" * 200, False), ("é" * 64, True), ("é" * 100, False), ("sha256:abc", False), ("", True)],
)
def test_long_names_are_stored_as_hashes(name: str, stays: bool) -> None:
    """And those that look like one, so that none can be taken for another's."""
    assert (name_of(name) == name) == stays
    if not stays:
        assert name_of(name).startswith("sha256:") and len(name_of(name)) == 71


def test_a_snapshot_of_another_engine_knows_its_own_commit_alone() -> None:
    alone = foreign(7, commit_user="flink", commit_identifier=3)
    assert memory_of(alone) == Memory(7, {"flink": Trace.of(3, of(7, "f7"), unread=2)})
    assert memory_of(foreign(7)) == Memory(7), "a commit without an identifier"
    assert not is_ours(alone) and is_ours(remembers("{}"))


def test_a_copied_property_is_not_the_memory_of_another_engines_snapshot() -> None:
    """Apache Paimon copies the properties of the snapshot before."""
    copied = replace(foreign(7), properties={IDENTIFIERS_PROPERTY: Memory(users=users(2)).to_property()})
    assert memory_of(copied) == Memory(7)
    assert not is_ours(copied)


@pytest.mark.parametrize(("since", "fits"), [(0, False), (1, True), (6, True), (7, True), (8, False)])
def test_a_memory_reaches_from_the_first_snapshot_to_its_own_at_most(since: int, fits: bool) -> None:
    text = json.dumps({"since": since, "page": None, "users": {}})
    if fits:
        assert memory_of(remembers(text)) == Memory(since)
        return
    with pytest.raises(TableCorrupt, match=f"snapshot-7: property .* is garbled.*snapshot {since} on"):
        memory_of(remembers(text))


def test_only_a_complete_memory_has_a_page() -> None:
    text = json.dumps({"since": 2, "page": "identities-page-1", "users": {}})
    with pytest.raises(TableCorrupt, match="identities-page-1"):
        memory_of(remembers(text))
    whole = memory_of(remembers(text.replace("2,", "1,", 1)))
    assert (whole.page, whole.complete) == ("identities-page-1", True)


@pytest.mark.parametrize(("held", "form", "since"), [(199, 1, 1), (200, 1, 7), (201, 1, 7), (200, 2, 1)])
def test_a_full_memory_of_the_first_form_may_have_forgotten_users(held: int, form: int, since: int) -> None:
    raw = json.loads(Memory(users=users(held)).to_property())
    del raw["landed"]
    if form == 1:
        del raw["page"]
    found = memory_of(remembers(json.dumps(raw)))
    assert found.since == since
    told = {name: (trace.last, trace.floor, trace.unread) for name, trace in found.users.items()}
    assert told == {f"user-{n}": (n, n, 1) for n in range(held)}, "of each the last identifier alone is known"


@pytest.mark.parametrize(
    "entry", [["1", 2, "x"], [1, "2", "x"], [1, 2, 3], [True, 2, "x"], [1, 2.0, "x"], [1, 2, None]]
)
def test_what_is_remembered_of_a_user_is_a_number_and_a_snapshot(entry: list[object]) -> None:
    with pytest.raises(TypeError, match=r"'etl' is not \[identifier, snapshot id, snapshot identity\]"):
        users_from_json({"users": {"etl": entry}, "landed": {}})


def test_long_names_of_an_older_version_are_hashed_as_they_are_read() -> None:
    """Versions before did not shorten them; a hash stays itself."""
    hashed = name_of("y" * 1_000)
    found = users_from_json({"users": {"x" * 1_000: [1, 2, "a"], hashed: [3, 4, "b"], "etl": [5, 6, "c"]}})
    last = {name: (trace.last, trace.carrier) for name, trace in found.items()}
    assert last == {name_of("x" * 1_000): (1, of(2, "a")), hashed: (3, of(4, "b")), "etl": (5, of(6, "c"))}


@pytest.mark.parametrize("name", ["identities-page-1", "identities-leaf-2"])
def test_a_file_of_identities_is_known_by_its_name(name: str) -> None:
    assert identity_file(name, "here") == name
    for other in (f"manifest-{name}", f"{name}/..", "../" + name):
        with pytest.raises(TableCorrupt, match="here"):
            identity_file(other, "here")
