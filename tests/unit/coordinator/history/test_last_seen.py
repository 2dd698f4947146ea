"""What a reader saw last: it saves requests in sequence, and is never believed."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from at_each_request import Struck
from by_hand.histories import chain, get_once, hints, new_store, put, put_lists, remove, snapshot, timeline

from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import Capabilities
from lakelatch.coordinator.history.last_seen import LastSeen
from lakelatch.core.errors import LakelatchError, StoreUnavailable, TableCorrupt
from lakelatch.core.metadata.snapshot import Snapshot

LOOK = "list snapshot/"


@pytest.fixture
def store() -> Any:
    """A table with snapshots 1 to 4, whose lists are empty, and the hint LATEST."""
    store = new_store(Struck)
    chain(store, 1, 2, 3, 4)
    for number in range(1, 5):
        put_lists(store, snapshot(number))
    hints(store, latest=4)
    return store


def requests(store: Any) -> list[str]:
    asked = sorted(one.replace("snapshot/snapshot-", "").replace("manifest/", "") for one in store.asked)
    store.asked.clear()
    return asked


def look(seen: LastSeen, store: Any) -> Snapshot | None:
    """Look, and read the lists of what was found as every read does."""
    read, found = seen.look(timeline(store))
    if found is not None:
        assert read.manifests(found) == ()
    return found


def test_a_snapshot_that_is_still_the_newest_is_read_in_one_round_trip_with_its_lists(store: Any) -> None:
    seen = LastSeen.hinted(timeline(store))
    assert requests(store) == ["get 4", "get snapshot/LATEST"]
    assert look(seen, store) == snapshot(4)
    assert requests(store) == ["get 4", "get base-u4", "get delta-u4", LOOK], "each once, whoever needs it"
    assert look(seen, store) == snapshot(4)
    assert requests(store) == ["get 4", LOOK], "another snapshot may have taken its name between the two requests"
    seen.confirm(timeline(store))
    assert requests(store) == ["get 4"]
    for _ in range(2):
        assert look(seen, store) == snapshot(4)
        assert requests(store) == [LOOK]


def test_after_a_newer_one_the_lists_wait_until_a_snapshot_has_lasted(store: Any) -> None:
    """A reader of a busy table asks for nothing in vain but one snapshot."""
    seen = LastSeen(snapshot(2))
    assert look(seen, store) == snapshot(4)
    assert requests(store) == [
        "get 2", "get 4", "get base-u2", "get base-u4", "get delta-u2", "get delta-u4", LOOK
    ]  # fmt: skip
    chain(store, 5)
    put_lists(store, snapshot(5))
    assert look(seen, store) == snapshot(5)
    assert requests(store) == ["get 5", "get base-u5", "get delta-u5", LOOK]
    for _ in range(2):
        assert look(seen, store) == snapshot(5)
        assert requests(store) == [LOOK]


def hint_of(store: Any, text: bytes | None) -> None:
    remove(store, "snapshot/LATEST")
    if text is not None:
        store.plain().put("snapshot/LATEST", text)


@pytest.mark.parametrize("text", [None, b"", b"0", b"-3", b"garbage", b"1", b"3", b"9", b"4\n"])
def test_any_hint_leads_to_the_newest_snapshot(store: Any, text: bytes | None) -> None:
    """H7: it proves nothing."""
    hint_of(store, text)
    seen = LastSeen.hinted(timeline(store))
    assert [look(seen, store), look(seen, store)] == [snapshot(4)] * 2


def test_a_hinted_snapshot_that_cannot_be_read_does_not_keep_a_table_from_being_opened(store: Any) -> None:
    store.plain().put("snapshot/snapshot-4", b"garbage")
    seen = LastSeen.hinted(timeline(store))
    assert seen.snapshot is None
    with pytest.raises(TableCorrupt, match="snapshot-4"):
        look(seen, store)


def test_a_store_that_refuses_the_hint_does_not_keep_a_table_from_being_opened(store: Any) -> None:
    def refused() -> None:
        raise StoreUnavailable("not this file")

    get_once(store, "snapshot/LATEST", refused)
    seen = LastSeen.hinted(timeline(store))
    assert seen.snapshot is None
    assert look(seen, store) == snapshot(4)


def test_a_snapshot_of_the_same_number_is_not_the_one_that_was_seen(store: Any) -> None:
    """The table was rolled back, and another writer committed."""
    seen = LastSeen.hinted(timeline(store))
    for uuid in ("other", "third"):
        other = snapshot(4, uuid=uuid, on="3:u3")
        put(store, other)
        put_lists(store, other)
        for _ in range(3):
            assert look(seen, store) == other
            seen.confirm(timeline(store))
        requests(store)
        assert look(seen, store) == other
        assert requests(store) == [LOOK], "and then it is one that was seen"


def test_a_snapshot_that_takes_the_place_of_another_while_both_are_asked_for(store: Any) -> None:
    """The listing shows the new one, the read beside it found the old one: their tag proves nothing."""
    seen, other = LastSeen.hinted(timeline(store)), snapshot(4, uuid="other", on="3:u3")
    listed = store.list

    def replaced_first(prefix: str) -> Any:
        while "get snapshot/snapshot-4" not in store.asked[-4:]:
            time.sleep(0.001)
        put(store.plain(), other)
        put_lists(store.plain(), other)
        return listed(prefix)

    store.asked.clear()
    store.list = replaced_first
    found = seen.look(timeline(store))[1]
    store.list = listed
    seen.confirm(timeline(store))
    assert [found, look(seen, store), look(seen, store)] == [snapshot(4), other, other]


def test_a_store_without_tags_is_asked_for_the_snapshot_each_time(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = MemoryStore.list
    monkeypatch.setattr(MemoryStore, "list", lambda *args: (replace(info, tag="") for info in listed(*args)))
    seen = LastSeen.hinted(timeline(store))
    for _ in range(3):
        assert look(seen, store) == snapshot(4)
        assert "get 4" in requests(store)
        seen.confirm(timeline(store))
        assert requests(store) == [], "reading it once more would spare no later look anything"


def test_a_table_that_was_rolled_back_or_emptied(store: Any) -> None:
    seen = LastSeen.hinted(timeline(store))
    remove(store, "snapshot/snapshot-4")
    assert look(seen, store) == snapshot(3)
    remove(store, *(f"snapshot/snapshot-{number}" for number in (1, 2, 3)))
    assert look(seen, store) is None
    assert look(seen, store) is None


@pytest.mark.parametrize("lost", ["base-u4", "delta-u4"])
def test_a_lost_list_is_named_as_ever(store: Any, lost: str) -> None:
    seen = LastSeen.hinted(timeline(store))
    remove(store, f"manifest/{lost}")
    with pytest.raises(TableCorrupt, match=f"{lost}.*missing"):
        look(seen, store)


def test_a_damaged_list_is_named_as_ever(store: Any) -> None:
    seen = LastSeen.hinted(timeline(store))
    store.plain().put("manifest/delta-u4", b"garbage")
    with pytest.raises(LakelatchError, match="delta-u4"):
        look(seen, store)


def test_a_damaged_list_that_was_restored_is_read_again(store: Any) -> None:
    seen, good = LastSeen.hinted(timeline(store)), store.plain().get("manifest/delta-u4")
    store.plain().put("manifest/delta-u4", b"garbage")
    with pytest.raises(LakelatchError, match="delta-u4"):
        look(seen, store)
    store.plain().put("manifest/delta-u4", good)
    assert look(seen, store) == snapshot(4)


def test_a_local_table_asks_for_nothing_ahead(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    near = Capabilities("link", "file", "", near=True)
    monkeypatch.setattr(Struck, "capabilities", property(lambda _: near))
    seen = LastSeen.hinted(timeline(store))
    assert requests(store) == []
    assert look(seen, store) == snapshot(4)
    assert requests(store) == ["get 4", "get base-u4", "get delta-u4", LOOK]
    for _ in range(2):
        assert look(seen, store) == snapshot(4)
        assert requests(store) == [LOOK]


def test_a_local_table_does_not_read_again_what_is_no_longer_the_newest(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no listing has shown the snapshot that was seen, one more tells which the newest is; that one alone is read."""
    near = Capabilities("link", "file", "", near=True)
    monkeypatch.setattr(Struck, "capabilities", property(lambda _: near))
    seen = LastSeen(snapshot(2))
    assert look(seen, store) == snapshot(4)
    assert requests(store) == ["get 4", "get base-u4", "get delta-u4", LOOK]
