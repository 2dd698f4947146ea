"""Which tags have outlived their retention, to the millisecond; and the success file of a tag."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from by_hand.snapshots import Refusing, bare, snapshot, timeline

from lakelatch.backends.memory import MemoryStore
from lakelatch.coordinator.tags.expiry import _is_over, keeps_a_clone, outlived, wall_time
from lakelatch.coordinator.tags.success import mark_created
from lakelatch.core.metadata.tag import Tag, parse_tag

MADE_MS = 1_700_000_000_000
NAME = "tag/tag-success-file/eod_SUCCESS"


def tag(name: str = "eod", number: int = 1, created_ms: int | None = MADE_MS, kept_ms: int | None = 5_000) -> Tag:
    return Tag(name, snapshot(number), None if created_ms is None else wall_time(created_ms), kept_ms)


def test_a_wall_clock_shows_milliseconds_and_no_zone() -> None:
    shown = wall_time(MADE_MS + 250)
    assert shown.tzinfo is None
    assert shown.timestamp() * 1_000 == MADE_MS + 250
    assert wall_time(MADE_MS + 3_600_000) - wall_time(MADE_MS) == timedelta(hours=1)


@pytest.mark.parametrize(
    ("now_ms", "modified_ms", "over"),
    [
        (MADE_MS + 5_000, MADE_MS, False),
        (MADE_MS + 5_001, MADE_MS, True),
        (MADE_MS + 5_001, MADE_MS + 1, False),
        (MADE_MS + 5_002, MADE_MS + 1, True),
        (MADE_MS + 5_000, MADE_MS - 9_000, False),
        (MADE_MS + 4_999, MADE_MS, False),
        (MADE_MS + 9_000_000, MADE_MS + 9_000_000, False),
    ],
)
def test_a_retention_is_over_when_tag_and_file_are_older(now_ms: int, modified_ms: int, over: bool) -> None:
    assert _is_over(tag(), modified_ms, now_ms, None) is over


@pytest.mark.parametrize(("created_ms", "kept_ms"), [(None, 5_000), (MADE_MS, None), (None, None)])
def test_a_tag_without_a_retention_is_kept(created_ms: int | None, kept_ms: int | None) -> None:
    assert _is_over(tag(created_ms=created_ms, kept_ms=kept_ms), MADE_MS, 2**45, None) is False


@pytest.mark.parametrize("created_ms", [MADE_MS, None])
@pytest.mark.parametrize("kept_ms", [5_000, None])
def test_tags_that_are_older_than_a_time_go_whatever_their_retention(
    created_ms: int | None, kept_ms: int | None
) -> None:
    """Made at this very time, a tag is not older. Without a time of its own, that of its file counts."""
    held = tag(created_ms=created_ms, kept_ms=kept_ms)
    assert _is_over(held, MADE_MS, MADE_MS, MADE_MS) is False
    assert _is_over(held, MADE_MS, MADE_MS, MADE_MS + 1) is True
    assert _is_over(held, MADE_MS, MADE_MS, 0) is False
    if created_ms is not None:
        assert _is_over(held, MADE_MS + 9, MADE_MS, MADE_MS + 1) is True, "the tag's own time counts first"


def test_a_time_that_is_given_does_not_keep_a_tag_whose_retention_is_over() -> None:
    assert _is_over(tag(), MADE_MS, MADE_MS + 5_001, 0) is True


@pytest.mark.parametrize("years", [9_000, 10**12, 10**30])
def test_a_tag_may_be_kept_for_longer_than_a_date_can_say(years: int) -> None:
    """Its file is read, its text is made, and other tags expire beside it."""
    forever = replace(tag("forever"), retained_ms=years * 365 * 86_400_000)
    store = tagged(forever, tag("short"))
    assert [one.name for one in outlived(timeline(store), 2**45)] == ["short"]
    read = parse_tag(forever.to_json(), "forever", "tag/tag-forever")
    assert read == forever
    assert f"kept for {years * 365} days" in str(read)


def test_a_fraction_of_a_millisecond_is_rounded_up() -> None:
    data = tag().to_json().replace(b"5.000000000", b"5.000000001")
    assert parse_tag(data, "eod", "tag/tag-eod").retained_ms == 5_001


def tagged(*tags: Tag) -> Refusing:
    store = bare()
    for one in tags:
        store.plain().put(f"tag/tag-{one.name}", one.to_json())
    return store


def test_the_tags_that_are_over_are_found_by_snapshot_and_name() -> None:
    """Success files and other files of the folder are no tags."""
    store = tagged(tag("c", 1), tag("d", 3), tag("a", 2), tag("b", 1), tag("kept", 1, kept_ms=None))
    store.plain().put(NAME, b"{}")
    store.plain().put("tag/notes", b"{}")
    found = outlived(timeline(store), 2**45)
    assert [(one.name, one.snapshot.id) for one in found] == [("b", 1), ("c", 1), ("a", 2), ("d", 3)]
    assert outlived(timeline(store), MADE_MS) == []
    assert [one.name for one in outlived(timeline(store), MADE_MS, 2**45)] == ["b", "c", "kept", "a", "d"]


def test_a_tag_that_is_deleted_while_tags_are_read_is_left_out() -> None:
    store = tagged(tag("a"), tag("b"))
    store.plans["get tag/tag-a"] = lambda: store.plain().delete_many(["tag/tag-a"])
    assert [one.name for one in outlived(timeline(store), 2**45)] == ["b"]


@pytest.mark.parametrize(
    ("name", "in_table", "in_clone"),
    [
        ("eod", True, True),
        ("cloned", True, False),
        ("cloned-of-may", True, True),
        ("referenced-by-trial-6b046a21-7", False, False),
        ("branch-7-ab12cd34", False, False),
        ("branch-7-ab12cd3", True, True),
        ("branch-7-ab12cd345", True, True),
        ("branch-x-ab12cd34", True, True),
        ("the-branch-7-ab12cd34", True, True),
    ],
)
def test_tags_that_keep_files_of_a_clone_or_a_branch_do_not_expire(name: str, in_table: bool, in_clone: bool) -> None:
    """Decisions 72 and 106: whatever their age, only a person deletes them; in a clone also the one of its beginning."""
    store = tagged(tag(name))
    for of_clone, over in ((False, in_table), (True, in_clone)):
        for older_than in (None, 2**45):
            found = outlived(timeline(store), 2**45, older_than, of_clone=of_clone)
            assert [one.name for one in found] == ([name] if over else [])
        assert keeps_a_clone(name, of_clone) is not over
    assert [one.name for one in outlived(timeline(store), 2**45)] == ([name] if in_table else [])


# ------------------------------------------------------------------------------------------------------- success files


def marked(store: MemoryStore, now_ms: int) -> str:
    mark_created(timeline(store), "eod", now_ms)
    return store.get(NAME).decode()


def test_a_success_file_says_when_the_tag_was_made_and_when_replaced() -> None:
    store = bare()
    assert marked(store, 5) == '{\n  "creationTime": 5,\n  "modificationTime": 5\n}'
    assert marked(store, 9) == '{\n  "creationTime": 5,\n  "modificationTime": 9\n}'


@pytest.mark.parametrize("held", [b"", b"{", b"[]", b"null", b'{"modificationTime": 3}', b"\xff"])
def test_a_damaged_success_file_is_written_anew(held: bytes) -> None:
    store = bare()
    store.put(NAME, held)
    assert json.loads(marked(store, 9)) == {"creationTime": 9, "modificationTime": 9}


FAMILY = ["rollback-2-ab12cd34", "rollback-5-ab12cd34"]


@pytest.mark.parametrize(
    ("first", "other", "over"),
    [
        (4, None, []),  # a snapshot before that of the rollback is there
        (5, None, FAMILY),
        (5, ("branch-4-ab12cd34", 4), []),  # that older tag stays
        (5, ("branch-5-ab12cd34", 5), FAMILY),
        (5, ("monday", 1), ["monday", *FAMILY]),  # goes itself
        (5, ("rollback-1-00000000", 1), ["rollback-1-00000000", *FAMILY]),  # of another rollback
        (4, ("rollback-4-of-may", 4), ["rollback-4-of-may"]),  # a user's
    ],
)
def test_the_tags_of_a_rollback_stay_for_as_long_as_what_they_protect(
    first: int, other: tuple[str, int] | None, over: list[str]
) -> None:
    """Apache Paimon's expiry would take files of an older tag, or of the newest state."""
    store = tagged(tag(FAMILY[0], 2), tag(FAMILY[1], 5), *([] if other is None else [tag(*other)]))
    for number in range(first, 7):
        store.plain().put(f"snapshot/snapshot-{number}", snapshot(number).to_json())
    assert [one.name for one in outlived(timeline(store), MADE_MS, 2**45)] == over


def test_the_tag_of_a_rollback_stays_where_no_snapshot_is_listed() -> None:
    """A listing that shows nothing proves nothing: the tag may be all that keeps the first snapshot's files."""
    store = tagged(tag("rollback-1-ab12cd34", 1))
    assert outlived(timeline(store), MADE_MS, 2**45) == []
