"""Which overwrites are found above a snapshot, what they may have brought back, and the note that saves the next search."""

from __future__ import annotations

import json
from typing import Any

import pytest
from by_hand.tables import Handmade, added, removed

from lakelatch.backends.store import ObjectInfo
from lakelatch.coordinator.maintenance.expiry.expired_files import number_of
from lakelatch.coordinator.maintenance.reach import overwrites as module
from lakelatch.coordinator.maintenance.reach.overwrites import (
    KEY,
    Overwrite,
    Overwrites,
    find_overwrites,
    is_linear,
    remember,
)
from lakelatch.coordinator.maintenance.reach.reachable import Reach
from lakelatch.coordinator.maintenance.reach.roots import list_roots
from lakelatch.core.metadata.data_file import ADD, EMPTY_ROW, IndexEntry, IndexFile
from lakelatch.core.metadata.manifest import encode_index_manifest
from lakelatch.core.metadata.snapshot import Snapshot

LONG_AGO_MS = -(10**15)


def roots_of(table: Handmade, *without: int) -> dict[int, ObjectInfo]:
    found = {number_of(info): info for info in list_roots(table.timeline) if "/tag-" not in info.key}
    return {number: found[number] for number in sorted(found) if number not in without}


def find(table: Handmade, end: int, roots: dict[int, ObjectInfo] | None = None) -> Overwrites:
    roots = roots_of(table) if roots is None else roots
    return find_overwrites(Reach(table.timeline, table.schema), roots, table.timeline.snapshot(end))


def six() -> Handmade:
    """Of snapshots 1 to 6 the second, third and fifth are overwrites."""
    table = Handmade()
    for number, kind in enumerate(("APPEND", "OVERWRITE", "OVERWRITE", "APPEND", "OVERWRITE", "COMPACT"), 1):
        table.snapshot(number, added(str(number), number), kind=kind)
    return table


@pytest.mark.parametrize(
    ("oldest_ms", "names", "newest_ms", "asked", "may"),
    [
        (5, (), 6, (), True),
        (5, (), 5, (), True),
        (5, (), 4, (), False),
        (None, (), 5, (), False),
        (5, (), None, (), False),
        (None, ("a",), None, ("b", "a"), True),
        (None, ("a",), None, ("b",), False),
        (5, ("a",), 4, ("a",), True),
        (5, ("a",), 6, ("b",), True),
    ],
)
def test_an_overwrite_may_bring_back_files_as_old_as_its_own_and_metadata_that_it_names(
    oldest_ms: int | None, names: tuple[str, ...], newest_ms: int | None, asked: tuple[str, ...], may: bool
) -> None:
    assert Overwrite(7, oldest_ms, frozenset(names)).may_bring_back(newest_ms, asked) is may


def said(number: int, on: str | None) -> Snapshot:
    properties = {} if on is None else {"lakelatch.base": on}
    return Snapshot(
        number, 0, "b", "d", "me", 1, "APPEND", 0, 1, 1, uuid=f"uuid-{number}", properties=properties,
        writer_version="lakelatch-1",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("snapshots", "known", "linear"),
    [
        ([], [], True),
        ([said(2, None), said(3, "2:uuid-2")], [], True),
        ([said(2, None), said(3, "2:another")], [], False),
        ([said(2, "1:another"), said(3, "2:uuid-2")], [], True),
        ([said(2, "1:another"), said(3, "2:uuid-2")], [(1, "uuid-1")], False),
        ([said(2, "1:uuid-1"), said(3, "2:uuid-2")], [(1, "uuid-1")], True),
        ([said(3, "2:another"), said(4, "3:uuid-3")], [(2, "uuid-2")], False),
        ([said(2, None), said(3, "2:uuid-2")], [(2, "what was there earlier")], True),
    ],
)
def test_a_history_is_linear_unless_a_snapshot_says_that_it_was_built_on_another_one(
    snapshots: list[Snapshot], known: list[tuple[int, str]], linear: bool
) -> None:
    """Other engines say nothing about it, and nothing is known of a base that is not there any more."""
    assert is_linear(iter(snapshots), known) is linear


def test_the_overwrites_above_a_snapshot_are_found_and_no_others() -> None:
    table = six()
    found = find(table, 3)
    assert [one.id for one in found.found] == [5]
    assert (found.after, found.last, found.read, found.linear) == (3, (6, "uuid-6"), 3, True)
    assert find(table, 6) == Overwrites(6, (6, "uuid-6"))
    assert [one.id for one in find(table, 1).found] == [2, 3, 5]


def test_a_snapshot_that_has_gone_since_it_was_listed_is_left_out() -> None:
    table = six()
    roots = roots_of(table)
    table.gone("snapshot/snapshot-5", "snapshot/snapshot-6")
    found = find(table, 3, roots)
    assert (found.found, found.last, found.read) == ((), (4, "uuid-4"), 3)


def test_an_overwrite_is_as_old_as_the_oldest_file_that_it_adds() -> None:
    table = Handmade()
    table.snapshot(1)
    table.snapshot(2, removed("a", 5), added("b", 20), added("c", 30), kind="OVERWRITE")
    table.snapshot(3, removed("b", 20), kind="OVERWRITE")
    table.snapshot(4, added("d", 40), added("e", None), kind="OVERWRITE")
    two, three, four = find(table, 1).found
    assert (two, three) == (Overwrite(2, 20, frozenset()), Overwrite(3, None, frozenset()))
    assert four.may_bring_back(LONG_AGO_MS, ()), "a file without a time may be of any age"


@pytest.mark.parametrize("lacking", ["delta-2", "manifest-2", "base-2"])
def test_an_overwrite_that_lacks_a_file_may_have_brought_back_anything(lacking: str) -> None:
    """H11: what it adds cannot be told."""
    table = Handmade()
    table.snapshot(1)
    table.snapshot(2, added("a", 20), kind="OVERWRITE")
    table.gone(f"manifest/{lacking}")
    (found,) = find(table, 1).found
    assert found.may_bring_back(LONG_AGO_MS, ())


def test_a_changelog_that_is_an_overwrite_needs_its_delta_only() -> None:
    """Its other lists went with its snapshot."""
    table = Handmade()
    table.snapshot(1)
    table.snapshot(2, added("a", 20), at="changelog/changelog-2", kind="OVERWRITE")
    table.snapshot(3)
    table.gone("manifest/base-2")
    assert find(table, 1).found == (Overwrite(2, 20, frozenset()),)


def test_the_metadata_that_an_overwrite_brings_back_is_what_the_snapshot_before_it_does_not_name() -> None:
    table = Handmade()
    table.index("index-manifest-1", "index-a")
    table.index("index-manifest-2", "index-a", "index-b")
    table.snapshot(1, index_manifest="index-manifest-1", statistics="stat-1")
    table.snapshot(2, index_manifest="index-manifest-2", statistics="stat-2", kind="OVERWRITE", changelog=[added("x")])
    table.snapshot(3, index_manifest="index-manifest-2", statistics="stat-1", kind="OVERWRITE")
    table.snapshot(4, kind="OVERWRITE")
    brought = {2: {"index-manifest-2", "index-b", "stat-2"}, 3: {"stat-1"}, 4: set()}
    assert {one.id: set(one.names) for one in find(table, 1).found} == brought
    alone = {one.id: set(one.names) for one in find(table, 1, roots_of(table, 1)).found}
    assert alone == {**brought, 2: brought[2] | {"index-a"}}, "it is not known what the one before it named"


def test_an_index_file_is_told_by_its_name_wherever_it_lies() -> None:
    table = Handmade()
    file = IndexFile("HASH", "index-a", 1, 1, external_path="s3://elsewhere/deep/index-a")
    table.store.put("manifest/index-manifest-2", encode_index_manifest([IndexEntry(ADD, EMPTY_ROW, 0, file)]))
    table.snapshot(1)
    table.snapshot(2, index_manifest="index-manifest-2", kind="OVERWRITE")
    (found,) = find(table, 1).found
    assert found.names == {"index-manifest-2", "index-a"}


def test_the_lists_of_snapshots_that_are_no_overwrites_are_not_read() -> None:
    table = six()
    roots = roots_of(table)
    table.asked()
    find(table, 3, roots)
    assert {line for line in table.asked("get manifest/") if "-6" in line or "-2" in line} == set()
    find(table, 5, roots)
    assert table.asked("get manifest/") == []


def test_a_snapshot_that_was_built_on_another_one_than_the_oldest_that_stays_is_noticed() -> None:
    for on in ("1:uuid-1", "1:another"):
        table = Handmade()
        table.snapshot(1)
        table.snapshot(2, on=on)
        assert find(table, 1).linear is (on == "1:uuid-1")


# ------------------------------------------------------------------------------------------------------------- the note


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> Handmade:
    """Six snapshots, and a note of the overwrites above the first of them, which three snapshots are worth."""
    monkeypatch.setattr(module, "REMEMBERED_FROM", 3)
    table = six()
    remember(table.timeline, find(table, 1))
    return table


def test_a_note_says_all_in_an_order_that_does_not_change() -> None:
    names = frozenset(f"index-{number}" for number in range(9))
    found = Overwrites(1, (6, "uuid-6"), (Overwrite(2, 20, names), Overwrite(5, None, frozenset())), 5)
    assert json.loads(found.to_json()) == {
        "version": 1,
        "after": 1,
        "snapshot": 6,
        "identity": "uuid-6",
        "overwrites": [[2, 20, sorted(names)], [5, None, []]],
    }


def test_what_was_noted_is_not_read_again(noted: Handmade) -> None:
    before = find(noted, 1).found
    noted.snapshot(7, added("7", 7), kind="OVERWRITE")
    noted.asked()
    again = find(noted, 1)
    assert (again.read, again.last, again.found[:-1], again.found[-1].id) == (1, (7, "uuid-7"), before, 7)
    read = set(noted.asked("get snapshot/"))
    assert read == {f"get snapshot/snapshot-{number}" for number in (1, 6, 7)}, (
        "the last one is looked at, and 7's base"
    )
    later = find(noted, 3)
    assert [one.id for one in later.found] == [5, 7], "what has expired since does not count any more"
    assert (later.after, later.read) == (3, 1)


def test_a_snapshot_above_the_note_that_was_built_on_another_one_is_noticed(noted: Handmade) -> None:
    noted.snapshot(7, on="6:another")
    assert (find(noted, 1).linear, find(noted, 1).read) == (False, 1)


def test_a_note_is_only_read_where_it_saves_enough(noted: Handmade) -> None:
    noted.asked()
    assert find(noted, 3).read == 0
    assert f"get {KEY}" in noted.asked()
    assert find(noted, 4).read == 2
    assert f"get {KEY}" not in noted.asked()


@pytest.mark.parametrize(("read", "linear", "kept"), [(3, True, True), (2, True, False), (3, False, False)])
def test_only_a_long_search_in_a_linear_history_is_noted(
    read: int, linear: bool, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REMEMBERED_FROM", 3)
    table = Handmade(branch="dev")
    remember(table.timeline, Overwrites(1, (6, "uuid-6"), (), read, linear))
    assert (f"branch/branch-dev/{KEY}" in table.files()) is kept
    assert KEY not in table.files()


def test_a_note_is_worth_while_from_64_snapshots_on() -> None:
    table = Handmade()
    remember(table.timeline, Overwrites(1, (64, "uuid-64"), (), 63))
    assert KEY not in table.files()
    remember(table.timeline, Overwrites(1, (65, "uuid-65"), (), 64))
    assert KEY in table.files()


GOOD = {"version": 1, "after": 1, "snapshot": 5, "identity": "uuid-5", "overwrites": [[2, None, []], [5, 5, []]]}


def test_a_good_note_is_believed(noted: Handmade) -> None:
    noted.store.put(KEY, json.dumps(GOOD).encode())
    assert (find(noted, 1).read, find(noted, 2).read) == (1, 1)


@pytest.mark.parametrize(
    "wrong",
    [
        b"", b"{}", b"[1]", b"null",
        *({name: None} for name in ("version", "after", "snapshot", "overwrites")),
        {"version": 2}, {"after": 2}, {"after": "one"}, {"snapshot": "five"}, {"identity": "another"},
        {"snapshot": 99}, {"snapshot": 1, "identity": "uuid-1"},
        {"overwrites": [[2, "yesterday", []]]}, {"overwrites": [[2]]}, {"overwrites": [[None, 2, []]]},
        {"overwrites": [[2, 2, 7]]},
    ],
)  # fmt: skip
def test_a_note_that_is_damaged_or_of_another_history_is_not_believed(wrong: Any, noted: Handmade) -> None:
    """H7: the search costs the same as without it, and finds the same."""
    noted.store.put(KEY, wrong if isinstance(wrong, bytes) else json.dumps({**GOOD, **wrong}).encode())
    found = find(noted, 1)
    assert (found.read, [one.id for one in found.found], found.last) == (5, [2, 3, 5], (6, "uuid-6"))


@pytest.mark.parametrize("name", sorted(GOOD))
def test_a_note_that_does_not_say_everything_is_not_believed(name: str, noted: Handmade) -> None:
    noted.store.put(KEY, json.dumps({key: value for key, value in GOOD.items() if key != name}).encode())
    assert find(noted, 1).read == 5


def test_a_note_whose_last_snapshot_goes_meanwhile_is_not_believed(noted: Handmade) -> None:
    roots = roots_of(noted)
    noted.gone("snapshot/snapshot-6")
    assert find(noted, 1, roots).read == 5
