"""The files of consumers: which there are, what they say, and from where changes can still be read. Names are enough for that."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import ObjectInfo, ObjectNotFound
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.coordinator.maintenance.expiry.consumers import (
    Consumer,
    _next_snapshot,
    consumer_key,
    expire_consumers,
    expired_consumers,
    list_consumers,
    oldest_change,
    place_consumer,
    read_consumer,
    remove_consumer,
    write_consumer,
)
from lakelatch.core.errors import InvalidArgument, TableCorrupt
from lakelatch.core.paths import TablePaths

COUNTER = itertools.count()
KEY = "consumer/consumer-etl"


class Watched(MemoryStore):
    """A store in memory that counts reads and deletions, and whose files have the ages that a test gives them.

    Attributes:
        answers: what is read instead of a consumer's file, the next one first; None where it is gone by then.
        put_first: called before a consumer's file is written.
    """

    def __init__(self) -> None:
        super().__init__(f"memory://consumer-files-{next(COUNTER)}/t")
        self.times: dict[str, int] = {}
        self.answers: list[bytes | None] = []
        self.reads = 0
        self.deletions: list[list[str]] = []
        self.put_first: list[Callable[[], object]] = []

    def get(self, key: str) -> bytes:
        if not key.startswith("consumer/"):
            return super().get(key)
        self.reads += 1
        answer = self.answers.pop(0) if self.answers else super().get(key)
        if answer is None:
            raise ObjectNotFound(key)
        return answer

    def put(self, key: str, data: bytes) -> None:
        if key.startswith("consumer/") and self.put_first:
            self.put_first.pop(0)()
        super().put(key, data)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return iter([replace(i, modified_ms=self.times.get(i.key, i.modified_ms)) for i in super().list(prefix)])

    def delete_many(self, keys: object) -> None:
        names = list(keys)  # type: ignore[call-overload]
        self.deletions.append(names)
        super().delete_many(names)


@pytest.fixture
def store() -> Watched:
    return Watched()


@pytest.fixture
def timeline(store: Watched) -> Timeline:
    return Timeline(store, TablePaths())


def history(
    store: Watched, snapshots: list[int], hint: int | None, changelogs: list[int], changelog_hint: int | None
) -> None:
    for number in snapshots:
        store.put(f"snapshot/snapshot-{number}", b"")
    for number in changelogs:
        store.put(f"changelog/changelog-{number}", b"")
    for folder, said in (("snapshot", hint), ("changelog", changelog_hint)):
        if said is not None:
            store.put(f"{folder}/EARLIEST", str(said).encode())


def said(timeline: Timeline) -> dict[str, int]:
    return {consumer.name: consumer.next_snapshot for consumer in list_consumers(timeline)}


@pytest.mark.parametrize(
    ("snapshots", "hint", "changelogs", "changelog_hint", "oldest"),
    [
        ([], None, [], None, None),
        ([], None, [1, 2], None, None),
        ([1, 2, 3], None, [], None, 1),
        ([1, 2, 3], 2, [], None, 2),
        ([1, 2, 3], 3, [], None, 3),
        ([1, 2, 3], 9, [], None, 3),
        ([3, 4, 5], None, [1, 2], None, 1),
        ([3, 4, 5], None, [1], None, 3),
        ([5, 6], None, [1, 3, 4], None, 3),
        ([3, 4, 5], 4, [1, 2, 3], None, 1),
        ([3, 4, 5], None, [1, 2], 1, 1),
        ([3, 4, 5], None, [1, 2], 2, 2),
        ([3, 4, 5], None, [1, 2], 5, 5),
        ([3, 4, 5], None, [1, 2], 6, 1),
    ],
)
def test_the_oldest_changes_that_can_be_read(
    store: Watched,
    timeline: Timeline,
    snapshots: list[int],
    hint: int | None,
    changelogs: list[int],
    changelog_hint: int | None,
    oldest: int | None,
) -> None:
    """Snapshots from EARLIEST on, and the changelogs right below them, from their own EARLIEST on; nonsense is not believed."""
    history(store, snapshots, hint, changelogs, changelog_hint)
    assert oldest_change(timeline) == oldest


def test_a_consumer_may_wait_for_the_first_snapshot(timeline: Timeline) -> None:
    place_consumer(timeline, "etl", 1)
    place_consumer(timeline, "later", 7)
    assert said(timeline) == {"etl": 1, "later": 7}


def test_the_oldest_changes_may_be_read_and_earlier_ones_not(store: Watched, timeline: Timeline) -> None:
    history(store, [3, 4], None, [], None)
    place_consumer(timeline, "etl", 3)
    written = list[str]()
    store.put_first = [lambda: written.append(KEY)]
    with pytest.raises(InvalidArgument, match="'etl' cannot read snapshot 2 next") as caught:
        place_consumer(timeline, "etl", 2)
    assert caught.value.next_step == "set it to 3 or later"
    assert written == [], "an expiry that looks just now must not see it, not even for a moment"
    assert said(timeline) == {"etl": 3}


@pytest.mark.parametrize("before", [None, 5])
def test_a_consumer_that_an_expiry_overtakes_is_what_it_was_before(
    store: Watched, timeline: Timeline, before: int | None
) -> None:
    """Decision 10: the expiry announces itself between the first look and the file."""
    history(store, [1, 2, 3, 4, 5], None, [], None)
    if before is not None:
        place_consumer(timeline, "etl", before)
    store.put_first = [lambda: store.put("snapshot/EARLIEST", b"4")]
    with pytest.raises(InvalidArgument, match="the oldest changes are those of 4"):
        place_consumer(timeline, "etl", 2)
    assert said(timeline) == ({} if before is None else {"etl": 5})


def test_consumers_are_listed_by_name_and_other_files_are_none(store: Watched, timeline: Timeline) -> None:
    for name in ("b", "a", "c"):
        write_consumer(timeline, name, 2)
        store.times[f"consumer/consumer-{name}"] = 70
    for key in ("consumer/README", "consumer/.consumer-d.tmp", "consumer/consumer-e/part", "consumers/consumer-f"):
        store.put(key, b"{}")
    assert list_consumers(timeline) == [Consumer(name, 2, 70) for name in "abc"]
    assert Consumer("a", 2) == Consumer("a", 2, 0)
    assert list_consumers(timeline)[0].to_dict() == {"consumer": "a", "next_snapshot": 2, "modified_ms": 70}


def test_a_consumer_that_is_deleted_while_they_are_listed_is_left_out(store: Watched, timeline: Timeline) -> None:
    write_consumer(timeline, "etl", 2)
    store.answers = [None]
    assert list_consumers(timeline) == []
    assert [consumer.name for consumer in list_consumers(timeline)] == ["etl"]
    assert read_consumer(timeline, "nobody") is None


@pytest.mark.parametrize(
    "data",
    [b"", b'{"nextSn', b"{}", b"[]", b"7", b"null", b'{"nextSnapshot": true}', b'{"nextSnapshot": "3"}',
     b'{"nextSnapshot": 1.5}', b'{"nextSnapshot": null}', b"\xff"],
)  # fmt: skip
def test_a_file_that_names_no_snapshot_is_read_four_times_and_then_reported(
    store: Watched, timeline: Timeline, data: bytes
) -> None:
    """H11: never skipped. Waits in between are short, because Apache Paimon writes the file in place within moments."""
    waits: list[float] = []
    store.put(KEY, data)
    with pytest.raises(TableCorrupt, match=f"{KEY} does not say which snapshot") as caught:
        _next_snapshot(timeline, KEY, waits.append)
    assert "delete the file" in caught.value.next_step
    assert store.reads == 4
    assert waits == [0.05, 0.1, 0.1]


def test_the_last_look_may_still_find_it(store: Watched, timeline: Timeline) -> None:
    waits: list[float] = []
    store.answers = [b"", b"{", b'{"nextSnapshot": "', b'{"nextSnapshot": 6}']
    assert _next_snapshot(timeline, KEY, waits.append) == 6
    assert len(waits) == 3
    store.answers, store.reads = [b'{"nextSnapshot": 7}'], 0
    assert _next_snapshot(timeline, KEY, waits.append) == 7
    assert (store.reads, len(waits)) == (1, 3)


@pytest.mark.parametrize("wanted", [0, -3, True, "1", None, 2.0])
def test_nothing_but_an_id_is_written(store: Watched, timeline: Timeline, wanted: object) -> None:
    for call in (write_consumer, place_consumer):
        with pytest.raises(InvalidArgument, match="is not a snapshot id"):
            call(timeline, "etl", wanted)  # type: ignore[arg-type]
    assert list(store.list("")) == []
    write_consumer(timeline, "etl", 1)


def test_a_consumer_is_removed_by_its_whole_name(timeline: Timeline) -> None:
    write_consumer(timeline, "etl", 1)
    assert remove_consumer(timeline, "et") is False
    assert remove_consumer(timeline, "etl2") is False
    assert said(timeline) == {"etl": 1}
    assert remove_consumer(timeline, "etl") is True
    assert said(timeline) == {}


def test_which_consumers_have_been_idle(store: Watched, timeline: Timeline) -> None:
    """A store that does not report times reports 0, of which nothing follows."""
    for name, modified_ms in (("untold", 0), ("ancient", 1), ("old", 99), ("new", 100)):
        write_consumer(timeline, name, 1)
        store.times[consumer_key(timeline.paths, name)] = modified_ms
    assert [consumer.name for consumer in expired_consumers(timeline, 100)] == ["ancient", "old"]


def test_only_those_go_that_have_not_moved_since(store: Watched, timeline: Timeline) -> None:
    for name in ("idle", "busy", "gone"):
        write_consumer(timeline, name, 1)
        store.times[consumer_key(timeline.paths, name)] = 50
    seen = list_consumers(timeline)
    store.times[consumer_key(timeline.paths, "busy")] = 60
    store.delete_many([consumer_key(timeline.paths, "gone")])
    del store.deletions[:]
    assert [consumer.name for consumer in expire_consumers(timeline, seen)] == ["idle"]
    assert store.deletions == [["consumer/consumer-idle"]]
    assert expire_consumers(timeline, seen) == []
    assert len(store.deletions) == 1, "nothing to delete needs no request"
