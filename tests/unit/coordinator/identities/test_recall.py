"""Looking a user up: what is read for it, what is kept, and what the next snapshot needs."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from at_each_request import Struck
from by_hand.histories import foreign, new_store, of, put, remove, snapshot, timeline

from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.coordinator.identities import memory as identity
from lakelatch.coordinator.identities import pages
from lakelatch.coordinator.identities.memory import IDENTIFIERS_PROPERTY, Memory
from lakelatch.coordinator.identities.pages import IdentityFile, Leaf, Page
from lakelatch.coordinator.identities.recall import Known, Recalled, named_files, recall, with_room
from lakelatch.coordinator.identities.trace import Trace
from lakelatch.core.errors import TableCorrupt
from lakelatch.core.metadata.snapshot import Snapshot

FOLDER = "lakelatch/identities/"
PAGE, LEAF = "identities-page-1", "identities-leaf-1"


@pytest.fixture
def store() -> Any:
    return new_store(Struck)


def users(*names: str, identifier: int = 7) -> dict[str, Trace]:
    return {name: Trace.of(identifier, of(1)) for name in names}


def remembers(number: int, memory: Memory) -> Snapshot:
    made = snapshot(number)
    return replace(made, properties={**made.properties, IDENTIFIERS_PROPERTY: memory.to_property()})


def foreigners(store: Any, *numbers: int) -> Snapshot:
    """Snapshots of another engine without identifiers; returns the last."""
    made = [foreign(number) for number in numbers]
    put(store, *made)
    return made[-1]


def gets(store: Any) -> list[str]:
    return sorted(request for request in store.asked if request.startswith("get "))


# ---------------------------------------------------------------------------------------------------------- one user


def test_a_table_without_a_snapshot_knows_nobody(store: Any) -> None:
    assert recall("etl", None, timeline(store)) == Recalled(0, Memory())
    assert recall(None, None, timeline(store)) == Recalled(0, Memory())
    assert store.asked == []


def test_a_recent_user_is_found_in_the_base_itself(store: Any) -> None:
    memory = Memory(users=users("etl"), page=PAGE)
    found = recall("etl", remembers(4, memory), timeline(store))
    assert found == Recalled(4, memory, Trace.of(7, of(1)))
    assert store.asked == []


def test_whom_nobody_asks_for_is_not_looked_up(store: Any) -> None:
    memory = Memory(users=users("etl"), page=PAGE)
    assert recall(None, remembers(4, memory), timeline(store)) == Recalled(0, memory)
    assert store.asked == []


def test_a_user_that_left_the_property_is_in_the_page(store: Any) -> None:
    page = Page(users("old"), {"": LEAF})
    store.put(FOLDER + PAGE, page.to_bytes())
    memory = Memory(users=users("etl"), page=PAGE)
    store.asked.clear()
    found = recall("old", remembers(4, memory), timeline(store))
    assert found == Recalled(4, memory, Trace.of(7, of(1)), page=page)
    assert store.asked == [f"get {FOLDER}{PAGE}"]


@pytest.mark.parametrize("name", ["oldest", "never"])
def test_a_user_that_left_the_page_is_in_its_leaf(store: Any, name: str) -> None:
    page, leaf = Page(users("old"), {"": LEAF}), Leaf("", users("oldest"))
    store.put(FOLDER + PAGE, page.to_bytes())
    store.put(FOLDER + LEAF, leaf.to_bytes())
    memory = Memory(page=PAGE)
    store.asked.clear()
    found = recall(name, remembers(4, memory), timeline(store))
    assert found == Recalled(4, memory, Trace.of(7, of(1)) if name == "oldest" else None, page, leaf)
    assert store.asked == [f"get {FOLDER}{PAGE}", f"get {FOLDER}{LEAF}"]


def test_a_page_without_leaves_is_all_there_is(store: Any) -> None:
    store.put(FOLDER + PAGE, Page(users("old")).to_bytes())
    store.asked.clear()
    found = recall("never", remembers(4, Memory(page=PAGE)), timeline(store))
    assert (found.last, found.leaf) == (None, None)
    assert store.asked == [f"get {FOLDER}{PAGE}"]


def test_a_missing_leaf_is_named_with_its_page(store: Any) -> None:
    store.put(FOLDER + PAGE, Page({}, {"": LEAF}).to_bytes())
    with pytest.raises(TableCorrupt, match=f"{LEAF} is missing: .*; {FOLDER}{PAGE} needs it"):
        recall("etl", remembers(4, Memory(page=PAGE)), timeline(store))


def test_a_missing_page_is_named_with_the_snapshot_that_names_it(store: Any) -> None:
    """Of a base of another engine, which names none, nothing is said."""
    ours = remembers(4, Memory(page=PAGE))
    put(store, ours)
    with pytest.raises(TableCorrupt, match=f"{PAGE} is missing: .*; snapshot/snapshot-4 needs it"):
        recall("etl", ours, timeline(store))
    with pytest.raises(TableCorrupt) as missing:
        recall("etl", foreigners(store, 5), timeline(store))
    assert "needs it" not in missing.value.message


@pytest.mark.parametrize(("identifier", "says"), [(7, True), (6, False), (None, False)])
def test_an_identifier_of_a_user_has_landed_or_not(identifier: int | None, says: bool) -> None:
    assert Recalled(4, Memory(), Trace.of(7, of(1))).says(identifier) == says
    assert not Recalled(4, Memory()).says(identifier)


# ---------------------------------------------------------------------------------------------------------- other engines


def test_a_walk_without_a_user_ends_after_twenty_snapshots(store: Any) -> None:
    base = foreigners(store, *range(1, 41))
    store.asked.clear()
    found = recall(None, base, timeline(store))
    assert found.memory == Memory(20)
    assert gets(store) == sorted(f"get snapshot/snapshot-{n}" for n in range(20, 40))


def test_a_walk_without_a_user_ends_at_our_newest_snapshot(store: Any) -> None:
    put(store, remembers(3, Memory(3, users("etl"))))
    base = foreigners(store, 4)
    store.asked.clear()
    assert recall(None, base, timeline(store)).memory == Memory(3, users("etl"))
    assert gets(store) == ["get snapshot/snapshot-3"]


def test_a_walk_for_a_user_reaches_the_beginning_sixteen_at_a_time_at_most(store: Any) -> None:
    put(store, remembers(1, Memory(users=users("etl"))))
    base = foreigners(store, *range(2, 61))
    asked: list[list[int]] = []

    class Counting(Timeline):
        def parallel(self, read: Any, items: Any) -> Any:
            asked.append(list(items))
            return super().parallel(read, asked[-1])

    found = recall("etl", base, Counting(store, timeline(store).paths))
    assert (found.memory, found.last, found.inspected_through) == (Memory(users=users("etl")), (7, of(1)), 60)
    assert [len(ids) for ids in asked] == [1, 2, 4, 8, 16, 16, 12]
    assert [one for ids in asked for one in ids] == list(range(59, 0, -1))


def test_what_lies_below_an_expired_snapshot_is_never_asked_for_again(store: Any) -> None:
    base = foreigners(store, 5, 6, 7)
    known = Known()
    assert recall("etl", base, timeline(store), known).memory == Memory()
    store.asked.clear()
    assert recall("etl", base, timeline(store), known).memory.complete
    assert store.asked == []


def test_identities_of_another_engine_count_the_newest_first(store: Any) -> None:
    put(store, foreign(1, commit_user="flink", commit_identifier=1))
    put(store, foreign(2, commit_user="flink", commit_identifier=2))
    base = foreigners(store, 3, 4)
    assert recall("flink", base, timeline(store)).last == (2, of(2, "f2"))


def test_a_memory_in_the_midst_of_a_walk_covers_what_lies_below_it(store: Any) -> None:
    """Snapshots that were read in the same batch, below it, are no longer looked at."""
    put(store, foreign(1, commit_user="etl", commit_identifier=1), foreign(2))
    put(store, remembers(3, Memory(users=users("etl"))))
    base = foreigners(store, 4, 5)
    assert recall("etl", base, timeline(store)).last == (7, of(1))


def test_the_page_of_a_memory_counts_more_than_a_snapshot_below_it(store: Any) -> None:
    """Though both were read in one batch."""
    put(store, foreign(1), foreign(2, commit_user="flink", commit_identifier=5))
    put(store, remembers(3, Memory(page=PAGE)))
    store.put(FOLDER + PAGE, Page(users("flink", identifier=6)).to_bytes())
    base = foreigners(store, 4, 5)
    assert recall("flink", base, timeline(store)).last == (6, of(1))


def test_a_base_of_ours_is_carried_on_without_a_walk(store: Any) -> None:
    """Also where it does not know everything: whoever looks a user up reads what lies below."""
    put(store, foreign(3), foreign(4, commit_user="flink", commit_identifier=5))
    base = remembers(9, Memory(5, users("etl")))
    assert recall(None, base, timeline(store)) == Recalled(0, Memory(5, users("etl")))
    assert store.asked == []
    found = recall("flink", base, timeline(store))
    assert (found.last, found.memory.complete) == ((5, of(4, "f4")), True)


# ---------------------------------------------------------------------------------------------------------- what is kept


def test_sixteen_memories_are_kept_by_identity() -> None:
    known = Known()
    made = [snapshot(number) for number in range(1, 18)]
    for one in made:
        known.keep_memory(of(one.id), Memory(users=users(f"user-{one.id}")))
    assert known.memory(made[0]) is None
    assert known.memory(made[1]) == Memory(users=users("user-2"))
    assert known.memory(replace(made[1], uuid="another")) is None, "H18: ids are used again"
    known.keep_memory(of(2), Memory(2))
    known.keep_memory(of(99), Memory())
    assert known.memory(made[1]) == Memory(2), "what is kept again is the most recent"
    assert known.memory(made[2]) is None


def test_files_are_kept_up_to_sixteen_mebibytes(store: Any) -> None:
    """And the newest one however large it is."""
    known, read = Known(), timeline(store)
    half = b"x" * (8 << 20)
    for name in ("a", "b"):
        known.keep_file(IdentityFile(name, half))
    assert known.file("a", read) is known.file("b", read) is half
    known.keep_file(IdentityFile("b", half))
    assert known.file("a", read) is half, "kept twice, it counts once"
    known.keep_file(IdentityFile("c", b"x"))
    assert known.file("a", read) is half
    with pytest.raises(TableCorrupt, match="b is missing"):
        known.file("b", read)
    known.keep_file(IdentityFile("d", half + half + half))
    assert len(known.file("d", read)) == 24 << 20


def test_a_page_and_a_leaf_that_were_read_are_not_read_again(store: Any) -> None:
    store.put(FOLDER + PAGE, Page(users("old"), {"": LEAF}).to_bytes())
    store.put(FOLDER + LEAF, Leaf("", users("oldest")).to_bytes())
    base, known = remembers(4, Memory(page=PAGE)), Known()
    found = [recall("oldest", base, timeline(store), known) for _ in range(2)]
    assert found[0] == found[1] and found[0].last == (7, of(1))
    assert gets(store) == [f"get {FOLDER}{LEAF}", f"get {FOLDER}{PAGE}"]


def test_what_a_commit_writes_is_not_read_again(store: Any) -> None:
    known = Known()
    known.keep(of(4), Memory(page=PAGE), [IdentityFile(PAGE, Page(users("old")).to_bytes())])
    base = foreign(4, uuid="u4")
    assert recall("old", base, timeline(store), known).last == (7, of(1))
    assert store.asked == []


# ---------------------------------------------------------------------------------------------------------- what comes next


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """The property holds four users, a page five."""
    monkeypatch.setattr(identity, "REMEMBERED_USERS", 4)
    monkeypatch.setattr(pages, "PAGE_USERS", 5)


def named(kind: str) -> str:
    return f"{kind}-new"


def named_with(prefix: str, number: int) -> list[str]:
    """So many names whose hash begins with these bits."""
    names = (name for n in itertools.count() if pages.bits_of(name := f"user-{n}").startswith(prefix))
    return list(itertools.islice(names, number))


def test_a_commit_without_identity_carries_the_memory_on(store: Any) -> None:
    memory = Memory(users=users("etl"))
    assert Recalled(4, memory).carried_on("etl", None, of(5), named) == (memory, ())
    after, files = Recalled(4, memory).carried_on("job", 1, of(5), named, riders=[("rider", 2, ""), ("etl", 8, "")])
    assert (list(after.users), files) == (["job", "rider", "etl"], ())
    etl = Trace(8, of(5), ((7, 8),), ((7, 1),))
    assert after.users == {"job": Trace.of(1, of(5)), "rider": Trace.of(2, of(5)), "etl": etl}


def test_a_memory_that_is_just_full_needs_no_page(store: Any, few: None) -> None:
    base = remembers(4, Memory(users=users("a", "b", "c"), page=PAGE))
    found = recall("a", base, timeline(store))
    assert (found.page, found.leaf, store.asked) == (None, None, [])
    after, files = replace(found, memory=Memory(users=users("a", "b", "c"))).carried_on("d", 1, of(5), named)
    assert (list(after.users), files) == (["a", "b", "c", "d"], ())


def test_what_an_overflow_needs_is_read_before_it_comes(store: Any, few: None) -> None:
    """The page, and the leaf that is relieved once the page and the property together are too many."""
    store.put(FOLDER + PAGE, Page(users("x"), {"": LEAF}).to_bytes())
    store.put(FOLDER + LEAF, Leaf("", users("y")).to_bytes())
    base = remembers(4, Memory(users=users("a", "b", "c", "d"), page=PAGE))
    for user in ("a", None):
        found = recall(user, base, timeline(store))
        assert (found.page, found.leaf) == (None, None), "the user is there already, so nothing overflows"
    store.asked.clear()
    room = with_room(recall("a", base, timeline(store)), [("a", 8), ("rider", 1)], base, timeline(store), Known())
    assert store.asked == [f"get {FOLDER}{PAGE}", f"get {FOLDER}{LEAF}"]
    assert (room.page, room.leaf) == (Page(users("x"), {"": LEAF}), Leaf("", users("y")))
    after, files = room.carried_on("a", 8, of(5), named, riders=[("rider", 1, "")])
    assert list(after.users) == ["a", "rider"]
    assert after.page == files[-1].name == "identities-page-new"


@pytest.mark.parametrize(("in_page", "needs_leaf"), [(0, False), (1, True), (3, True)])
def test_a_leaf_is_read_only_where_the_page_may_become_too_long(
    store: Any, few: None, in_page: int, needs_leaf: bool
) -> None:
    page = Page(users(*(f"x{n}" for n in range(in_page))), {"": LEAF})
    store.put(FOLDER + PAGE, page.to_bytes())
    store.put(FOLDER + LEAF, Leaf("", users("y")).to_bytes())
    base = remembers(4, Memory(users=users("a", "b", "c", "d"), page=PAGE))
    room = with_room(
        Recalled(4, Memory(users=users("a", "b", "c", "d"), page=PAGE)), [("e", None)], base, timeline(store), Known()
    )
    assert room.page == page
    assert room.leaf == (Leaf("", users("y")) if needs_leaf else None)


def test_an_overflow_reads_the_page_and_one_leaf_at_most(store: Any, few: None) -> None:
    """H24: the leaf in which the user was looked for is relieved; where it was found before that, the fullest one."""
    low, *high = [named_with("0", 1)[0], *named_with("1", 8)]
    page = Page(users(*high[:2]), {"0": LEAF, "1": "identities-leaf-2"})
    leaves = {"0": Leaf("0", users()), "1": Leaf("1", users(high[3]))}
    store.put(FOLDER + PAGE, page.to_bytes())
    for prefix, leaf in leaves.items():
        store.put(FOLDER + page.leaves[prefix], leaf.to_bytes())
    base = remembers(4, Memory(users=users(*high[4:]), page=PAGE))
    for user, read in ((low, "0"), (high[3], "1"), (high[0], "1")):
        store.asked.clear()
        found = recall(user, base, timeline(store))
        assert store.asked == [f"get {FOLDER}{PAGE}", f"get {FOLDER}{page.leaves[read]}"], user
        assert (found.page, found.leaf) == (page, leaves[read])
        assert found.last == (None if user == low else (7, of(1)))


def test_a_first_page_that_would_be_too_long_gets_a_first_leaf(store: Any, few: None) -> None:
    memory = Memory(users=users("a", "b", "c", "d", "e"))
    room = with_room(Recalled(4, memory), [], remembers(4, memory), timeline(store), Known())
    assert (room.page, room.leaf, store.asked) == (Page(), Leaf(""), [])


def test_files_that_an_overflow_needs_and_that_are_gone_are_named(store: Any, few: None) -> None:
    memory = Memory(users=users("a", "b", "c", "d"), page=PAGE)
    base = remembers(4, memory)
    with pytest.raises(TableCorrupt, match=f"{PAGE} is missing.*snapshot-4 needs it"):
        with_room(Recalled(4, memory), [("e", None)], base, timeline(store), Known())
    store.put(FOLDER + PAGE, Page(users("x"), {"": LEAF}).to_bytes())
    with pytest.raises(TableCorrupt, match=f"{LEAF} is missing.*{PAGE} needs it"):
        with_room(Recalled(4, memory), [("e", None)], base, timeline(store), Known())


# ---------------------------------------------------------------------------------------------------------- what stays


def test_a_snapshot_needs_its_page_and_the_leaves_that_the_page_names(store: Any) -> None:
    store.put(FOLDER + PAGE, Page({}, {"0": LEAF, "1": "identities-leaf-2"}).to_bytes())
    made = remembers(4, Memory(page=PAGE))
    keys = [FOLDER + name for name in (PAGE, LEAF, "identities-leaf-2")]
    assert named_files(made, timeline(store), Known()) == keys
    assert named_files(remembers(4, Memory()), timeline(store), Known()) == []
    remove(store, FOLDER + PAGE)
    with pytest.raises(TableCorrupt, match="snapshot/snapshot-4 needs it"):
        named_files(made, timeline(store), Known())


@pytest.mark.parametrize("others", ["x", "y"], ids=["it is there", "it is not"])
def test_what_the_pages_told_of_a_user_is_all_that_there_is(store: Any, few: None, others: str) -> None:
    """So its next commit needs no page again."""
    store.put(FOLDER + PAGE, Page(users(others)).to_bytes())
    store.asked.clear()
    trace = replace(users("x")["x"], unread=2)
    found = recall("x", remembers(4, Memory(users={"x": trace}, page=PAGE)), timeline(store))
    assert store.asked == [f"get {FOLDER}{PAGE}"]
    assert found.trace is not None and found.trace.unread == 0
