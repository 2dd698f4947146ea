"""The folder of intents: what a leader lists, reads and leaves alone, and which requests that takes."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.backends.around.metered import MeteredStore
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import ObjectInfo, PutOutcome, Unknown
from lakelatch.coordinator.history.timeline import BASE_PROPERTY, Timeline
from lakelatch.coordinator.intents import shelf
from lakelatch.coordinator.intents.carried import CARRIES_PROPERTY, Carried, carried_by, riders_of, to_property
from lakelatch.coordinator.intents.intent import Intent, Leader, parse_intent, parse_name
from lakelatch.coordinator.protocol.snapshot_ref import SnapshotRef
from lakelatch.core.errors import StoreUnavailable, TableCorrupt
from lakelatch.core.metadata.manifest import ManifestFile, encode_manifest_list
from lakelatch.core.metadata.snapshot import Snapshot
from lakelatch.core.paths import TablePaths

COUNT = count()
HOUR_MS = 3_600_000
NOW_MS = 1_800_000_000_000


def line_of_a_table() -> ManifestFile:
    rows = pa.table({"v": [1, 2]})
    table = ll.create_table(f"memory://shelf-{next(COUNT)}/t", rows.schema)
    table.append(rows)
    latest = table.timeline.latest()
    assert latest is not None
    return table.timeline.delta_manifests(latest)[0]


LINE = line_of_a_table()


def intent(commit: str = "c1", base: int = 3, **more: Any) -> Intent:
    line = replace(LINE, file_name=f"manifest-{commit}-0")
    return replace(Intent(commit, f"job-{commit}", 1, SnapshotRef(base, f"u{base}"), 0, -1, 2, (line,)), **more)


def snapshot(number: int = 3, **more: Any) -> Snapshot:
    ours = {BASE_PROPERTY: f"{number - 1}:u{number - 1}"}
    made = Snapshot(
        id=number, uuid=f"u{number}", schema_id=0, base_manifest_list="b", delta_manifest_list="d", commit_user="other",
        commit_identifier=2**63 - 1, commit_kind="APPEND", time_ms=0, total_record_count=1, delta_record_count=1,
        properties=ours, writer_version="lakelatch-0",
    )  # fmt: skip
    return replace(made, **more)


LEADER = Leader(snapshot(), "own", "own-user", 0, -1)


class Shelf(MemoryStore):
    """A store in memory that may fail, and that shows any age of a file."""

    modified_ms = NOW_MS
    away = False
    instead: PutOutcome | None = None

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        if self.away:
            raise StoreUnavailable("away")
        found = [replace(info, modified_ms=self.modified_ms) for info in super().list(prefix)]
        return iter(sorted(found, key=lambda info: info.key, reverse=True))

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        return self.instead or super().put_if_absent(key, data)

    def delete_many(self, keys: Any) -> None:
        if self.away:
            raise StoreUnavailable("away")
        super().delete_many(keys)


@pytest.fixture
def store() -> Shelf:
    return Shelf(f"memory://shelf-{next(COUNT)}/t")


def shelved(store: Shelf, *intents: Intent) -> Timeline:
    timeline = Timeline(store, TablePaths())
    for one in intents:
        store.put(shelf.key_of(timeline.paths, one), one.to_json())
    return timeline


# ---------------------------------------------------------------------------------------------------------- registering


def test_an_intent_is_registered_once_and_a_doubt_is_told(store: Shelf) -> None:
    timeline = shelved(store)
    assert shelf.register(timeline, intent()) is None
    assert shelf.register(timeline, intent()) is None, "its name belongs to its commit alone"
    store.instead = Unknown("no answer")
    assert shelf.register(timeline, intent()) == "no answer"
    assert [info.key for info in store.list("")] == ["lakelatch/intents/intent-4-c1.json"]


def test_the_intents_of_a_branch_lie_in_its_folder() -> None:
    assert shelf.key_of(TablePaths("dev"), intent()) == "branch/branch-dev/lakelatch/intents/intent-4-c1.json"
    assert shelf.folder_of(TablePaths()) == "lakelatch/intents/"


# -------------------------------------------------------------------------------------------------------------- waiting


def names(found: tuple[ObjectInfo, ...]) -> list[str]:
    return [info.key.rpartition("/")[2] for info in found]


def test_those_whose_names_fit_the_base_wait_in_the_order_of_their_names(store: Shelf) -> None:
    fits = intent("c3"), intent("c2"), intent("c5", base=2)
    timeline = shelved(store, *fits, intent("c6", base=1), intent("c7", base=4), intent("own"))
    store.put("lakelatch/intents/.intent-4-c9.json.tmp", b"")
    found = shelf.waiting(timeline, LEADER, NOW_MS)
    assert names(found) == ["intent-3-c5.json", "intent-4-c2.json", "intent-4-c3.json"]
    assert shelf.order_of(reversed(found), LEADER) == ("c2", "c3", "c5")
    assert shelf.order_of([*found, ObjectInfo("x/intent-4-own.json", 1, 1), ObjectInfo("x/y", 1, 1)], LEADER) == (
        "c2", "c3", "c5",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("modified_ms", "waits"),
    [(NOW_MS - HOUR_MS, True), (NOW_MS - HOUR_MS - 1, False), (0, True), (1, False), (NOW_MS + 5, True)],
    ids=["an hour old", "older", "the store tells no time", "of 1970", "a clock is ahead"],
)
def test_what_is_older_than_an_hour_belongs_to_the_dead(store: Shelf, modified_ms: int, waits: bool) -> None:
    timeline, store.modified_ms = shelved(store, intent()), modified_ms
    assert bool(shelf.waiting(timeline, LEADER, NOW_MS)) is waits


def test_commits_that_the_base_carries_wait_no_more(store: Shelf) -> None:
    """Their writers remove their intents a little later. Whoever waited for them to lead would wait in vain."""
    timeline = shelved(store, intent("c1"), intent("c2"), intent("c3"))
    landed = to_property(
        [Carried("other", None, "c9", 1), Carried("job-c1", 1, "c1", 2), Carried("job-c3", 1, "c3", 2)]
    )
    base = snapshot(properties={**snapshot().own_properties, CARRIES_PROPERTY: landed})
    leader = replace(LEADER, base=base)
    found = shelf.waiting(timeline, leader, NOW_MS)
    assert shelf.order_of(found, leader) == ("c2",)
    assert shelf.asking(timeline, base, NOW_MS) == 1
    garbled = replace(base, properties={CARRIES_PROPERTY: "["})
    assert shelf.waiting(timeline, replace(LEADER, base=garbled), NOW_MS) == ()


def test_a_store_that_does_not_list_shows_nobody(store: Shelf) -> None:
    timeline, store.away = shelved(store, intent()), True
    assert shelf.waiting(timeline, LEADER, NOW_MS) == ()


def test_a_leader_reads_so_many_and_passes_over_what_is_gone_or_garbled(store: Shelf) -> None:
    made = [intent(f"c{number}") for number in range(4)]
    timeline = shelved(store, *made)
    files = shelf.waiting(timeline, LEADER, NOW_MS)
    store.delete_many([files[0].key])
    store.put(files[1].key, b"{")
    assert shelf.riders_for(timeline, LEADER, files) == (made[2], made[3])
    assert shelf.riders_for(timeline, LEADER, files, most=3) == (made[2],)
    assert shelf.MOST_RIDERS == 1_000


# ------------------------------------------------------------------------------------------------------------- removing


def test_removing_nothing_asks_nothing_and_a_failure_is_left_to_the_cleaner(store: Shelf) -> None:
    metered = MeteredStore(store)
    timeline = Timeline(metered, TablePaths())
    shelved(store, intent(), intent("c2"))
    shelf.remove(timeline, [])
    assert metered.snapshot().requests == 0
    shelf.remove(timeline, [intent().file_name])
    assert names(tuple(store.list(""))) == ["intent-4-c2.json"]
    store.away = True
    shelf.remove(timeline, [intent("c2").file_name])
    store.away = False
    assert names(tuple(store.list(""))) == ["intent-4-c2.json"]


def test_all_branches_are_looked_at(store: Shelf) -> None:
    shelved(store, intent())
    store.put("branch/branch-dev/lakelatch/intents/intent-4-c2.json", intent("c2").to_json())
    store.put("branch/branch-dev/snapshot/snapshot-1", b"")
    store.put("lakelatch/intents/other.json", b"")
    found = shelf.everywhere(Timeline(store, TablePaths()))
    assert sorted(found) == [
        "branch/branch-dev/lakelatch/intents/intent-4-c2.json",
        "lakelatch/intents/intent-4-c1.json",
    ]


@pytest.mark.parametrize(
    ("newest", "is_open"),
    [({"main": 3}, True), ({"main": 4}, True), ({"main": 5}, False), ({"dev": 3}, False)],
    ids=["before its ids", "its first is published", "both are", "another branch"],
)
def test_an_intent_is_open_until_its_last_id_is_published(store: Shelf, newest: dict[str, int], is_open: bool) -> None:
    timeline = shelved(store, intent())
    found = [key for key, _ in shelf.all_open(store, shelf.everywhere(timeline), newest)]
    assert found == (["lakelatch/intents/intent-4-c1.json"] if is_open else [])
    assert intent().is_open(next(iter(newest.values()))) is (newest != {"main": 5})


def test_intents_that_ended_since_they_were_listed_hide_no_others(store: Shelf) -> None:
    timeline = shelved(store, intent())
    keys = [
        "lakelatch/intents/nothing.txt",
        "lakelatch/intents/intent-2-old.json",
        "lakelatch/intents/intent-4-c0.json",
    ]
    found = shelf.all_open(store, [*keys, *shelf.everywhere(timeline)], {"main": 3})
    assert [(key, one.commit) for key, one in found] == [("lakelatch/intents/intent-4-c1.json", "c1")]


# ------------------------------------------------------------------------------------------------------------- its file


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda raw: raw | {"commit": 5}, "field 'commit' is 5"),
        (lambda raw: raw | {"user": None}, "field 'user' is None"),
        (lambda raw: raw | {"rows": True}, "field 'rows' is True"),
        (lambda raw: raw | {"rows": 2**63}, "field 'rows' is 9223372036854775808"),
        (lambda raw: raw | {"schema": -1}, "field 'schema' is -1"),
        (lambda raw: raw | {"buckets": "1"}, "field 'buckets' is '1'"),
        (lambda raw: raw | {"identifier": -1}, "field 'identifier' is -1"),
        (lambda raw: raw | {"base": {"id": 3, "identity": ""}}, "field 'base' names no snapshot"),
        (lambda raw: raw | {"base": {"id": 3}}, "is not an intent: KeyError"),
        (lambda raw: raw | {"base": {"id": "3", "identity": "u3"}}, "field 'id' is '3'"),
        (lambda raw: {key: raw[key] for key in raw if key != "user"}, "is not an intent: KeyError"),
        (lambda raw: {key: raw[key] for key in raw if key != "version"}, "an intent of version 1"),
        (lambda raw: raw | {"manifests": lines()}, "field 'manifests' names none"),
        (lambda raw: raw | {"manifests": lines(num_added_files=0)}, "is not that of an append"),
        (lambda raw: raw | {"manifests": raw["manifests"][:-4] + "?==="}, "is not an intent"),
    ],
)
def test_a_field_that_cannot_be_true_is_told(change: Callable[[Any], Any], told: str) -> None:
    made = intent()
    key = f"lakelatch/intents/{made.file_name}"
    with pytest.raises(TableCorrupt) as found:
        parse_intent(json.dumps(change(json.loads(made.to_json()))).encode(), key)
    assert found.value.message.startswith(key)
    assert told in found.value.message


def lines(**more: Any) -> str:
    made = [replace(LINE, file_name="manifest-c1-0", **more)] if more else []
    return base64.b64encode(encode_manifest_list(made, compression="none")).decode()


@pytest.mark.parametrize("identifier", [None, 0, 2**63 - 1])
def test_the_smallest_and_largest_numbers_are_read_back(identifier: int | None) -> None:
    made = intent(base=1, identifier=identifier, rows=0, schema_id=0, buckets=-1)
    assert parse_intent(made.to_json(), f"lakelatch/intents/{made.file_name}") == made
    assert made.ids == (2, 3)


def test_only_names_of_intents_are_parsed() -> None:
    assert parse_name("intent-12-a-b.json") == (12, "a-b")
    for other in (
        "intent-0-c1.json",
        "intent-4-.json",
        "intent-4-c_1.json",
        "intent-4-c1.json.tmp",
        "x-intent-4-c1.json",
    ):
        assert parse_name(other) is None


# ------------------------------------------------------------------------------------------------------ who may ride


def test_of_commits_in_the_base_the_last_identifier_of_each_user_counts() -> None:
    """Two commits of one user may be in one snapshot; the base's own commit counts beside those that it lists."""
    taken = (Carried("a", 5, "x", 1), Carried("a", 3, "y", 1), Carried("b", None, "z", 1))
    base = snapshot(4, commit_user="c", commit_identifier=8)
    base = replace(base, properties={**base.properties, CARRIES_PROPERTY: to_property(taken)})
    leads = Leader(base, "own", "own-user", 0, -1)
    waits = {
        "c1": intent("c1", user="a", identifier=5), "c2": intent("c2", user="a", identifier=6),
        "c3": intent("c3", user="b", identifier=0), "c4": intent("c4", user="c", identifier=8),
        "c5": intent("c5", user="c", identifier=9), "z": intent("z", identifier=None),
    }  # fmt: skip
    assert [one.commit for one in leads.choose(waits.values())] == ["c2", "c3", "c5"]


def test_a_commit_that_renewed_its_intent_rides_once() -> None:
    """The first of its intents is taken; both name the same manifests."""
    first, again = intent("c1", base=2, identifier=None), intent("c1", base=3, identifier=None)
    assert LEADER.choose([again, first]) == (first,)
    twins = [intent("c2", user="a"), intent("c1", user="a"), intent("c0", user="own-user", identifier=None)]
    assert [one.commit for one in LEADER.choose(twins)] == ["c0", "c1"]


def test_an_intent_holds_for_two_ids() -> None:
    assert [LEADER.near(first) for first in (2, 3, 4, 5)] == [False, True, True, False]
    far = snapshot(6, properties={BASE_PROPERTY: "3:u3"})
    assert Leader(far, "own", "own-user", 0, -1).choose([intent()]) == (), "whatever a snapshot says of its base"


# --------------------------------------------------------------------------------------------------- the list of riders


def test_a_snapshot_lists_its_leader_first() -> None:
    carried = (Carried("boss", None, "c0", 1), Carried("é", 7, "c1", 0))
    listed = snapshot(4, properties={CARRIES_PROPERTY: to_property(carried)})
    assert carried_by(listed) == carried
    assert [str(one) for one in riders_of(listed)] == ["é/7"]
    assert str(carried[0]) == "boss"
    assert '"é"' in to_property(carried), "readable, as in the rest of the file"
    assert carried_by(snapshot(4)) == () == riders_of(snapshot(4))
    assert carried_by(replace(listed, writer_version="Paimon")) == (), "copied by another engine's commit"


@pytest.mark.parametrize("text", ['[[1, null, "c", 1]]', '[["a", null, 2, 1]]', '[["a", 1.5, "c", 1]]', "[7]", "5"])
def test_a_list_with_another_kind_of_value_is_garbled(text: str) -> None:
    with pytest.raises(TableCorrupt, match=r"snapshot-4: property 'lakelatch\.carries' is garbled"):
        carried_by(snapshot(4, properties={CARRIES_PROPERTY: text}))
