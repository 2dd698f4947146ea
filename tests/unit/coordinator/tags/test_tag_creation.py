"""A tag is made, replaced or renamed: what the store holds afterwards, also where the tag's source goes meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from by_hand.snapshots import Refusing, bare, chain, keys, landed, raising, snapshot, timeline

from lakelatch.backends.store import AlreadyThere, Unknown
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.coordinator.tags.creation import (
    create_tag,
    find_tag,
    list_tags,
    refuse_vanished,
    rename_tag,
    replace_tag,
)
from lakelatch.coordinator.tags.expiry import wall_time
from lakelatch.core.errors import CommitConflict, InvalidArgument, OutcomeUnknown, StoreUnavailable, TableCorrupt
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.metadata.tag import Tag, parse_tag
from lakelatch.core.rows.arrow import from_arrow_schema

HISTORY = chain(1, 2, 3)
SCHEMA = new_schema(from_arrow_schema(pa.schema([("v", pa.int64())])))
QUICK = replace(MACHINE, sleep=lambda seconds: None)
BUSY = StoreUnavailable("503")
GONE = "has expired, or is about to"


@pytest.fixture
def store() -> Refusing:
    store = bare()
    landed(store, *HISTORY)
    return store


def put(store: Refusing, *tags: Tag) -> None:
    for tag in tags:
        store.plain().put(f"tag/tag-{tag.name}", tag.to_json())


def tags(store: Refusing) -> list[tuple[str, int]]:
    return [(tag.name, tag.snapshot.id) for tag in list_tags(timeline(store.plain()))]


# -------------------------------------------------------------------------------------------------------------- listed


def test_tags_are_listed_by_snapshot_and_name(store: Refusing) -> None:
    put(store, Tag("c", HISTORY[0]), Tag("b", HISTORY[1]), Tag("a", HISTORY[1]), Tag("z", HISTORY[0]))
    store.plain().put("tag/tag-success-file/z_SUCCESS", b"{}")
    store.plain().put("tag/notes", b"{}")
    assert tags(store) == [("c", 1), ("z", 1), ("a", 2), ("b", 2)]
    assert list(timeline(store).tag_files()) == ["z", "a", "b", "c"], "in the order of the listing"


def test_a_tag_that_is_deleted_while_tags_are_listed_is_left_out(store: Refusing) -> None:
    put(store, Tag("a", HISTORY[0]), Tag("b", HISTORY[1]))
    store.plans["get tag/tag-a"] = lambda: store.plain().delete_many(["tag/tag-a"])
    assert [tag.name for tag in list_tags(timeline(store))] == ["b"]


def test_a_tag_is_found_with_its_name_and_a_damaged_one_by_its_file(store: Refusing) -> None:
    put(store, Tag("eod", HISTORY[1]))
    assert find_tag(timeline(store), "eod") == Tag("eod", HISTORY[1])
    assert find_tag(timeline(store), "none") is None
    store.plain().put("tag/tag-eod", b"{")
    with pytest.raises(TableCorrupt, match="tag/tag-eod is not a snapshot"):
        find_tag(timeline(store), "eod")


# ------------------------------------------------------------------------------------------------------- a source that goes


def expired(below: int) -> Callable[[Refusing], None]:
    return lambda store: store.plain().put("snapshot/EARLIEST", str(below).encode())


def deleted(key: str) -> Callable[[Refusing], None]:
    return lambda store: store.plain().delete_many([key])


def overwritten(key: str) -> Callable[[Refusing], None]:
    return lambda store: store.plain().put(key, snapshot(2, "theirs").to_json())


OWN, TAGGED = "snapshot/snapshot-2", "tag/tag-eod"


@pytest.mark.parametrize(
    ("source", "happens", "stays"),
    [
        (OWN, expired(1), True), (OWN, expired(2), True), (OWN, expired(3), False), (OWN, expired(9), False),
        (OWN, deleted(OWN), False), (OWN, overwritten(OWN), False), (OWN, deleted(TAGGED), True),
        (TAGGED, expired(9), True), (TAGGED, deleted(OWN), True), (TAGGED, deleted(TAGGED), False),
        (TAGGED, overwritten(TAGGED), False),
    ],
)  # fmt: skip
def test_what_a_tag_was_copied_from_must_still_be_there(
    store: Refusing, source: str, happens: Callable[[Refusing], None], stays: bool
) -> None:
    """EARLIEST counts where the snapshot itself was the source; a tag keeps its files whatever EARLIEST says."""
    put(store, Tag("eod", HISTORY[1]))
    happens(store)
    if stays:
        refuse_vanished(timeline(store), HISTORY[1], source)
        return
    with pytest.raises(InvalidArgument) as raised:
        refuse_vanished(timeline(store), HISTORY[1], source)
    assert (raised.value.message, raised.value.next_step) == (f"{source} {GONE}", "choose a later snapshot, or a tag")


# ------------------------------------------------------------------------------------------------------------- created


def created(store: Refusing, tag: Tag) -> Tag:
    return create_tag(timeline(store), tag, QUICK)


def test_a_new_tag_holds_the_snapshot_and_its_retention(store: Refusing) -> None:
    made = Tag("eod", HISTORY[1], wall_time(5_000), 7_000)
    assert created(store, made) is made
    assert parse_tag(store.get("tag/tag-eod"), "eod", "") == made
    assert store.changes == ["create tag/tag-eod"]


def test_the_same_tag_again_is_the_one_that_is_there(store: Refusing) -> None:
    """When it was made does not count: a job that runs again says a later time."""
    first = Tag("eod", HISTORY[1], wall_time(5_000), 7_000)
    put(store, first)
    assert created(store, replace(first, created=wall_time(9_000))) == first
    assert store.get("tag/tag-eod") == first.to_json()


@pytest.mark.parametrize("other", [{"snapshot": HISTORY[0]}, {"retained_ms": 8_000}, {"retained_ms": None}])
def test_another_tag_of_the_name_is_told(store: Refusing, other: dict[str, Any]) -> None:
    first = Tag("eod", HISTORY[1], wall_time(5_000), 7_000)
    put(store, first)
    with pytest.raises(InvalidArgument) as raised:
        created(store, replace(first, **other))
    assert raised.value.message == "there is a tag 'eod' already, of snapshot 2"
    assert raised.value.next_step == "choose another name, or replace it: replace=True"
    assert store.get("tag/tag-eod") == first.to_json()


def second_read_finds_nothing(store: Refusing, key: str, first: bytes) -> None:
    """The name holds these bytes when a create is refused, and nothing when it is read again."""
    reads = 0

    def read() -> None:
        nonlocal reads
        reads += 1
        if reads == 2:
            store.plain().delete_many([key])

    store.plain().put(key, first)
    store.plans[f"get {key}"] = read


def test_another_tag_of_the_name_that_is_deleted_at_once_is_told_too(store: Refusing) -> None:
    second_read_finds_nothing(store, "tag/tag-eod", HISTORY[0].to_json())
    with pytest.raises(InvalidArgument, match="there is a tag 'eod' already, of a snapshot, until a moment ago"):
        created(store, Tag("eod", HISTORY[1]))


@pytest.mark.parametrize(
    ("happens", "error"),
    [
        (expired(3), InvalidArgument),
        (deleted(OWN), InvalidArgument),
        (lambda store: store.plans.update({f"get {OWN}": raising(BUSY)}), StoreUnavailable),
    ],
)
def test_a_tag_whose_source_may_be_gone_is_taken_away_again(
    store: Refusing, happens: Callable[[Refusing], None], error: type[Exception]
) -> None:
    store.once("create tag/tag-eod", lambda: happens(store))
    with pytest.raises(error):
        created(store, Tag("eod", HISTORY[1]))
    assert keys(store, "tag/") == []


def test_a_copy_of_a_tag_needs_that_tag_and_not_the_snapshot(store: Refusing) -> None:
    put(store, Tag("eod", HISTORY[1]))
    store.plain().delete_many([OWN])
    source = replace(HISTORY[1], read_from=TAGGED)
    assert created(store, Tag("copy", source)).name == "copy"
    store.once("create tag/tag-more", lambda: deleted(TAGGED)(store))
    with pytest.raises(InvalidArgument, match=f"{TAGGED} {GONE}"):
        created(store, Tag("more", source))
    assert tags(store) == [("copy", 2)]


def test_a_store_that_does_not_say_is_told_with_the_tag(store: Refusing) -> None:
    store.plans["create tag/tag-eod"] = lambda: Unknown("timeout")
    with pytest.raises(OutcomeUnknown, match="not known whether tag/tag-eod was created") as raised:
        created(store, Tag("eod", HISTORY[1]))
    assert raised.value.identity == {"tag": "tag/tag-eod"}


# ------------------------------------------------------------------------------------------------------------ replaced


def replaced(store: Refusing, old: Tag, new: Tag) -> Tag:
    return replace_tag(timeline(store), SCHEMA, old, new)


def test_a_tag_of_the_same_snapshot_only_gets_the_new_retention(store: Refusing) -> None:
    """Nothing is looked at: it keeps what it kept."""
    old, new = Tag("eod", HISTORY[1]), Tag("eod", HISTORY[1], wall_time(5_000), 7_000)
    put(store, old)
    assert replaced(store, old, new) is new
    assert store.changes == ["put tag/tag-eod"]
    assert store.reads == []
    assert find_tag(timeline(store), "eod") == new


def test_a_tag_of_another_snapshot_takes_the_place_of_the_old_one(store: Refusing) -> None:
    old, new = Tag("eod", HISTORY[1]), Tag("eod", HISTORY[2])
    put(store, old)
    assert replaced(store, old, new) is new
    assert [change for change in store.changes if change.startswith("put")] == ["put tag/tag-eod"]
    assert tags(store) == [("eod", 3)]
    assert keys(store, "lakelatch/") == []


@pytest.mark.parametrize("error", [InvalidArgument, StoreUnavailable])
def test_a_replacement_whose_source_may_be_gone_gives_the_old_tag_back(store: Refusing, error: type[Exception]) -> None:
    old = Tag("eod", HISTORY[1], wall_time(5_000), 7_000)
    put(store, old)
    happens = expired(4) if error is InvalidArgument else _unreadable
    store.once("put tag/tag-eod", lambda: happens(store))
    with pytest.raises(error):
        replaced(store, old, Tag("eod", HISTORY[2]))
    assert store.get("tag/tag-eod") == old.to_json()


def _unreadable(store: Refusing) -> None:
    store.plans["get snapshot/snapshot-3"] = raising(BUSY)


def test_a_tag_that_another_writer_replaces_between_plan_and_replacement_is_a_conflict(store: Refusing) -> None:
    old = Tag("eod", HISTORY[1])
    put(store, old)
    reads = 0

    def second() -> None:
        nonlocal reads
        reads += 1
        if reads == 2:
            put(store, Tag("eod", HISTORY[0]))

    store.plans["get tag/tag-eod"] = second
    with pytest.raises(CommitConflict, match="tag/tag-eod was replaced since its deletion was planned"):
        replaced(store, old, Tag("eod", HISTORY[2]))
    assert tags(store) == [("eod", 1)]


# ------------------------------------------------------------------------------------------------------------- renamed


def renamed(store: Refusing, new: str = "eom") -> Tag:
    return rename_tag(timeline(store), "eod", new, QUICK)


def test_a_renamed_tag_is_the_same_file(store: Refusing) -> None:
    old = Tag("eod", HISTORY[1], wall_time(5_000), 7_000)
    put(store, old)
    assert renamed(store) == replace(old, name="eom")
    assert store.changes == ["create tag/tag-eom", "delete tag/tag-eod"]
    assert store.get("tag/tag-eom") == old.to_json()


def test_a_tag_that_gets_its_own_name_stays(store: Refusing) -> None:
    put(store, Tag("eod", HISTORY[1]))
    assert renamed(store, "eod") == Tag("eod", HISTORY[1])
    assert store.changes == []


def test_a_tag_that_does_not_exist_or_is_damaged_is_not_renamed(store: Refusing) -> None:
    with pytest.raises(InvalidArgument) as raised:
        renamed(store)
    assert (raised.value.message, raised.value.next_step) == ("there is no tag 'eod'", "tags() lists them")
    store.plain().put("tag/tag-eod", b"{")
    with pytest.raises(TableCorrupt, match="tag/tag-eod is not a snapshot"):
        renamed(store)
    assert store.changes == []


def test_a_name_that_another_tag_has_is_refused(store: Refusing) -> None:
    put(store, Tag("eod", HISTORY[1]), Tag("eom", HISTORY[0]))
    with pytest.raises(InvalidArgument) as raised:
        renamed(store)
    assert raised.value.message == "there is a tag 'eom' already, of snapshot 1"
    assert raised.value.next_step == "choose another name"
    assert tags(store) == [("eom", 1), ("eod", 2)]


def test_a_name_that_another_tag_had_until_a_moment_ago_is_refused(store: Refusing) -> None:
    put(store, Tag("eod", HISTORY[1]))
    second_read_finds_nothing(store, "tag/tag-eom", HISTORY[0].to_json())
    with pytest.raises(InvalidArgument) as raised:
        renamed(store)
    assert raised.value.message == "there is a tag 'eom' already"


def test_a_renaming_that_was_cut_off_is_finished(store: Refusing) -> None:
    put(store, Tag("eod", HISTORY[1]), Tag("eom", HISTORY[1]))
    store.plans["create tag/tag-eom"] = AlreadyThere
    assert renamed(store).name == "eom"
    assert tags(store) == [("eom", 2)]


@pytest.mark.parametrize("error", [InvalidArgument, StoreUnavailable])
def test_a_tag_that_is_deleted_while_it_is_renamed_does_not_come_back(store: Refusing, error: type[Exception]) -> None:
    put(store, Tag("eod", HISTORY[1]))
    happens: Callable[[Refusing], Any] = deleted(TAGGED)
    if error is StoreUnavailable:
        happens = lambda store: store.plans.update({f"get {TAGGED}": raising(BUSY)})  # noqa: E731
    store.once("create tag/tag-eom", lambda: happens(store))
    with pytest.raises(error):
        renamed(store)
    assert "tag/tag-eom" not in keys(store)
    assert store.changes == ["create tag/tag-eom", "delete tag/tag-eom"]
