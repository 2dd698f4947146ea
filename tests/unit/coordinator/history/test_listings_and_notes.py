"""Which files a listing shows, what is kept of what was read, and what a snapshot notes of lost attempts and replaced ones."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from at_each_request import Struck
from by_hand.histories import chain, hints, listed, new_store, of, put, put_lists, remove, snapshot, timeline

from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import ObjectInfo
from lakelatch.coordinator.history.base import Base, longest_age_ms
from lakelatch.coordinator.history.kept_files import KeptFiles
from lakelatch.coordinator.history.lost import (
    ATTEMPTS_PROPERTY,
    REPLACED_PROPERTY,
    lost_attempts,
    replaced_before,
    replaced_property,
)
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.core.errors import StoreUnavailable, TableCorrupt
from lakelatch.core.paths import TablePaths


@pytest.fixture
def store() -> Any:
    return new_store(Struck)


# ------------------------------------------------------------------------------------------------------------- listings


def test_the_files_of_tags_are_told_by_the_names_of_the_tags(store: Any) -> None:
    """Nothing else in that folder is a tag; and those of a branch are its own."""
    for key in ("tag/tag-eod", "tag/tag-tag-", "tag/tag-", "tag/notes", "tag/tag-success-file/eod_SUCCESS"):
        store.put(key, key.encode())
    store.put("branch/branch-dev/tag/tag-dev", b"12345")
    store.asked.clear()
    assert {name: info.key for name, info in timeline(store).tag_files().items()} == {
        "eod": "tag/tag-eod", "tag-": "tag/tag-tag-",
    }  # fmt: skip
    (found,) = Timeline(store, TablePaths("dev")).tag_files().items()
    assert (found[0], found[1].key, found[1].size) == ("dev", "branch/branch-dev/tag/tag-dev", 5)
    assert not [request for request in store.asked if request.startswith("get")], "nothing is read"


@pytest.mark.parametrize(
    ("there", "shown", "found"),
    [
        ([], [], []),
        ([1, 2, 3], [1, 2, 3], [1, 2, 3]),
        ([1, 2, 3, 4, 5], [1, 2, 5], [1, 2, 3, 4, 5]),
        ([1, 2, 5], [1, 2, 5], [1, 2, 5]),
        ([1, 2, 4, 7], [1, 2, 7], [1, 2, 4, 7]),
        ([1, 2, 3, 4], [1, 2], [1, 2, 3, 4]),
        ([1, 2, 4], [1, 2], [1, 2]),
        ([2, 4, 5, 6], [2, 5], [2, 4, 5, 6]),
        ([3, 4], [], []),
    ],
)
def test_snapshots_that_came_while_a_listing_went_on_are_looked_for_by_name(
    store: Any, there: list[int], shown: list[int], found: list[int]
) -> None:
    """Those in its gaps, and those above it as far as they follow one another: otherwise they would be told as damage."""
    chain(store, *there)
    assert listed(store, *shown).checked_snapshot_ids() == found


def test_at_most_a_hundred_missing_snapshots_are_looked_for(store: Any) -> None:
    chain(store, 1, 100, 101, 102, 300)
    store.asked.clear()
    assert listed(store, 1, 300).checked_snapshot_ids() == [1, 100, 101, 300]
    looked = [request for request in store.asked if request.startswith("head snapshot/")]
    assert looked == [f"head snapshot/snapshot-{number}" for number in (*range(2, 102), 301)]


def test_what_a_refused_deletion_has_left_below_is_no_part_of_the_history(store: Any) -> None:
    chain(store, 1, 2, 5, 6)
    hints(store, earliest=5, latest=6)
    assert timeline(store).history_ids() == [5, 6]
    assert timeline(store).history_of([1, 2, 5, 6]) == [5, 6]
    assert timeline(store).history_of([]) == []
    hints(store)
    for number in (2, 6):
        put_lists(store, snapshot(number))
    assert timeline(store).history_ids() == [1, 2, 5, 6], "where it is not decided, all count"


@pytest.mark.parametrize(
    ("key", "number"),
    [
        ("snapshot/snapshot-7", 7), ("snapshot/LATEST", None), ("changelog/changelog-7", None), ("snapshot-7", None),
        ("branch/branch-dev/snapshot/snapshot-7", None), ("snapshot/snapshot-7/x", None),
    ],
)  # fmt: skip
def test_a_snapshot_of_this_branch_is_told_by_its_key(store: Any, key: str, number: int | None) -> None:
    assert timeline(store).snapshot_id_of(key) == number
    of_branch = Timeline(store, TablePaths("dev"))
    assert of_branch.snapshot_id_of(f"branch/branch-dev/{key}") == number
    assert of_branch.snapshot_id_of("snapshot/snapshot-7") is None


# --------------------------------------------------------------------------------------------------------- what is kept


def test_the_least_recently_used_files_go_and_the_newest_stays_however_large_it_is() -> None:
    kept = KeptFiles(10)
    for name in ("a", "b", "c"):
        kept.keep(name, b"xyz")
    assert kept.get("a") == b"xyz"
    kept.keep("d", b"xyz")
    assert [kept.get(name) for name in "abcd"] == [b"xyz", None, b"xyz", b"xyz"]
    kept.keep("c", b"longer" * 10)
    assert [kept.get(name) for name in "abcd"] == [None, None, b"longer" * 10, None]
    kept.keep("e", b"x")
    assert [kept.get(name) for name in "ce"] == [None, b"x"]


def test_a_file_that_was_dropped_or_written_again_takes_no_room() -> None:
    kept = KeptFiles(10)
    for _ in range(9):
        kept.keep("a", b"xyz")
    kept.keep("b", b"1234567")
    assert (kept.get("a"), kept.get("b")) == (b"xyz", b"1234567"), "just full"
    kept.forget("a", "never there")
    assert (kept.get("a"), kept.get("b")) == (None, b"1234567")
    kept.keep("c", b"xyz")
    assert (kept.get("b"), kept.get("c")) == (b"1234567", b"xyz")
    kept.forget("b", "c")
    kept.keep("d", b"0123456789")
    assert kept.get("d") == b"0123456789"


def test_lists_that_are_read_ahead_are_not_read_again_and_damaged_ones_are(store: Any) -> None:
    made, kept = snapshot(2), KeptFiles(1 << 20)
    chain(store, 1, 2)
    put_lists(store, made, inherited=["m-1"], added=["m-2"])
    here = timeline(store).holding(kept)
    here.read_ahead(made, kept)
    store.asked.clear()
    here.read_ahead(made, kept)
    assert [line.file_name for line in here.manifests(made)] == ["m-1", "m-2"]
    assert store.asked == []
    good = store.get("manifest/base-u2")
    store.put("manifest/base-u2", b"garbage")
    other = KeptFiles(1 << 20)
    with pytest.raises(TableCorrupt, match="base-u2"):
        timeline(store).holding(other).manifests(made)
    store.put("manifest/base-u2", good)
    assert len(timeline(store).holding(other).manifests(made)) == 2, "restored under its name, it is read again"


@pytest.mark.parametrize("lacking", ["base-u2", "delta-u2"])
def test_a_list_that_cannot_be_read_ahead_is_left_out(
    store: Any, lacking: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = snapshot(2)
    put_lists(store, made)
    (other,) = {"base-u2", "delta-u2"} - {lacking}
    get = store.get

    def busy(key: str) -> bytes:
        if key.endswith(lacking):
            raise StoreUnavailable("503")
        return get(key)  # type: ignore[no-any-return]

    monkeypatch.setattr(store, "get", busy)
    kept = KeptFiles(1 << 20)
    timeline(store).read_ahead(made, kept)
    assert (kept.get(lacking), kept.get(other) is None) == (None, False)
    monkeypatch.undo()
    remove(store, f"manifest/{lacking}")
    timeline(store).read_ahead(made, kept)
    assert kept.get(lacking) is None


# ------------------------------------------------------------------------------------------------------------ the base


def test_a_base_is_known_for_thirty_seconds_or_a_tenth_of_what_snapshots_are_kept() -> None:
    """H6: and for a second in any case."""
    ages = {10**9: 30_000, 300_001: 30_000, 300_000: 30_000, 299_990: 29_999, 60_000: 6_000, 10_000: 1_000, 1: 1_000}
    assert {kept: longest_age_ms(kept) for kept in ages} == ages
    base = Base(None, (), 0, 5_000)
    assert [base.is_fresh(now, 60_000) for now in (5_000, 11_000, 11_001)] == [True, True, False]


def test_a_table_without_a_snapshot_begins_with_nothing() -> None:
    empty, base = Base(None, (), 0, 0), Base(replace(snapshot(7), next_row_id=12), (), 0, 0)
    assert (empty.ref, empty.id, empty.next_row_id, empty.unread) == (None, 0, 0, False)
    assert (base.ref, base.id, base.next_row_id) == (of(7), 7, 12)
    assert Base(replace(snapshot(7), next_row_id=None), (), 0, 0).next_row_id == 0


# ---------------------------------------------------------------------------------------------------------------- notes


def test_snapshots_that_were_replaced_are_noted_and_read_back() -> None:
    """In letters that people can read, and not at all where there are none."""
    assert replaced_property([]) == {}
    lost, by = snapshot(2, commit_user="é"), snapshot(2, uuid="theirs")
    noted = replaced_property([(lost, by), (snapshot(3), snapshot(3, uuid="others"))])
    assert noted[REPLACED_PROPERTY].startswith('[{"id":2,"identity":"u2","user":"é","by":"theirs"},')
    one = snapshot(4)
    told = replaced_before(replace(one, properties={**one.properties, **noted}))
    assert told == [
        {"id": 2, "identity": "u2", "user": "é", "by": "theirs"},
        {"id": 3, "identity": "u3", "user": "user-u3", "by": "others"},
    ]
    assert replaced_before(one) == lost_attempts(one) == []


def test_lost_attempts_are_read_with_the_fields_that_are_promised() -> None:
    one = snapshot(4)
    told = [{"id": 2, "to": "u2", "by": "etl", "more": 1}, {"id": 3, "to": "u3", "by": "ops"}]
    found = lost_attempts(replace(one, properties={**one.properties, ATTEMPTS_PROPERTY: json.dumps(told)}))
    assert found == [{"id": 2, "to": "u2", "by": "etl"}, {"id": 3, "to": "u3", "by": "ops"}]


@pytest.mark.parametrize("text", ["", "{", "7", "[7]", "[[]]", '[{"id": 2}]', "null", '[{"id": 2, "to": "x"}]'])
def test_a_garbled_note_is_named(text: str) -> None:
    one = snapshot(4)
    for name, read in ((ATTEMPTS_PROPERTY, lost_attempts), (REPLACED_PROPERTY, replaced_before)):
        with pytest.raises(TableCorrupt, match=f"^snapshot-4: property '{name}' is garbled: "):
            read(replace(one, properties={**one.properties, name: text}))


def test_the_tag_of_a_listing_is_that_of_the_store(store: Any) -> None:
    """By it a snapshot that was seen is known to be the same still, without being read."""
    chain(store, 1, 2)
    hints(store, earliest=1)
    infos: dict[str, ObjectInfo] = {info.key: info for info in MemoryStore.list(store, "snapshot/")}
    seen = timeline(store).look()
    assert seen.listed == infos["snapshot/snapshot-2"].tag
    store.asked.clear()
    again = timeline(store).look(seen.snapshot, listed=seen.listed)
    assert (again.snapshot, again.listed, again.read_later) == (seen.snapshot, seen.listed, True)
    assert not [request for request in store.asked if request.startswith("get")]


def test_what_has_taken_the_place_of_a_snapshot_that_was_seen_is_told(store: Any) -> None:
    """Another engine may rename its file over one that a commit stands in; whoever looks next can say so."""
    first, seen = chain(store, 1, 2)
    hints(store, earliest=1)
    assert timeline(store).look(seen).instead is None
    assert timeline(store).look().instead is None
    other = snapshot(2, uuid="other")
    put(store, other)
    for more in ([], [snapshot(3, on="2:other")]):
        put(store, *more)
        found = timeline(store).look(seen)
        assert (found.instead, found.snapshot) == (other, more[0] if more else other)
        assert timeline(store).look(seen, just_read=True).instead is None, "it was read a moment ago"
    remove(store, "snapshot/snapshot-2", "snapshot/snapshot-3")
    assert (timeline(store).look(seen).instead, timeline(store).look(seen).snapshot) == (None, first)
