"""What became of an intent: the reason where nothing is proven, and the requests that each answer takes."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from lakelatch.backends.around.metered import MeteredStore
from lakelatch.backends.memory import MemoryStore
from lakelatch.coordinator.history.lineage import Untold
from lakelatch.coordinator.history.timeline import BASE_PROPERTY, Timeline
from lakelatch.coordinator.intents.carried import CARRIES_PROPERTY, Carried, to_property
from lakelatch.coordinator.intents.window import Aboard, Closed, StillOpen, Window, aboard_of, look_for
from lakelatch.coordinator.protocol.snapshot_ref import SnapshotRef
from lakelatch.core.metadata.snapshot import Snapshot
from lakelatch.core.paths import TablePaths

COUNT = count()
WINDOW = Window("c1", SnapshotRef(3, "u3"))
CARRIED = to_property((Carried("boss", None, "c0", 1), Carried("job", 1, "c1", 2)))


def snapshot(number: int, *, aboard: bool = False, foreign: bool = False, **more: Any) -> Snapshot:
    ours = {BASE_PROPERTY: f"{number - 1}:u{number - 1}"} | ({CARRIES_PROPERTY: CARRIED} if aboard else {})
    made = Snapshot(
        id=number, uuid=f"u{number}", schema_id=0, base_manifest_list="b", delta_manifest_list="d", commit_user="other",
        commit_identifier=2**63 - 1, commit_kind="APPEND", time_ms=0, total_record_count=1, delta_record_count=1,
        properties={} if foreign else ours, writer_version=None if foreign else "lakelatch-0",
    )  # fmt: skip
    return replace(made, **more)


class History:
    def __init__(self, *snapshots: Snapshot, earliest: int | None = None) -> None:
        inner = MemoryStore(f"memory://window-{next(COUNT)}/t")
        for one in snapshots:
            inner.put(f"snapshot/snapshot-{one.id}", one.to_json())
        inner.put("snapshot/EARLIEST", str(earliest or snapshots[0].id).encode())
        self.store, self.latest = MeteredStore(inner), snapshots[-1]
        self.timeline = Timeline(self.store, TablePaths())

    def look(self, latest: Snapshot | None = None) -> Any:
        return look_for(WINDOW, latest or self.latest, self.timeline)


def test_an_intent_may_land_in_two_snapshots() -> None:
    assert WINDOW.ids == (4, 5)


@pytest.mark.parametrize(
    ("history", "fate", "requests"),
    [
        ((snapshot(3),), StillOpen, 0),
        ((snapshot(3), snapshot(4)), StillOpen, 0),
        ((snapshot(3), snapshot(4, aboard=True)), Aboard, 0),
        ((snapshot(3), snapshot(4), snapshot(5)), Closed, 1),
        ((snapshot(3), snapshot(4), snapshot(5, aboard=True)), Aboard, 1),
        ((snapshot(3), snapshot(4, aboard=True), snapshot(5)), Aboard, 1),
        ((snapshot(3), snapshot(4, aboard=True), snapshot(5), snapshot(6)), Aboard, 2),
        ((snapshot(3), snapshot(4), snapshot(5, aboard=True), snapshot(6)), Aboard, 2),
    ],
    ids=["base", "first", "in the first", "both", "in the second", "then another", "far above", "far above the second"],
)
def test_a_rider_that_is_close_asks_little(history: tuple[Snapshot, ...], fate: type[Any], requests: int) -> None:
    made = History(*history)
    found = made.look()
    assert isinstance(found, fate)
    assert made.store.snapshot().requests == requests
    if fate is Aboard:
        assert CARRIES_PROPERTY in found.snapshot.own_properties


def told(found: Any) -> str:
    assert isinstance(found, Untold)
    return found.reason


def test_what_is_not_proven_is_told_with_its_reason() -> None:
    gone = "snapshot 3, on which its intent was registered, is gone"
    assert told(look_for(WINDOW, None, History(snapshot(1)).timeline)) == gone
    assert told(History(snapshot(2)).look()) == gone
    replaced = "another snapshot 3 stands where its intent was registered"
    assert told(History(snapshot(3, uuid="x")).look()) == replaced
    assert told(History(snapshot(4, properties={BASE_PROPERTY: "3:x"})).look()) == replaced
    unread = "snapshot {}, which may have carried it, can no longer be read"
    assert told(History(snapshot(5), snapshot(6)).look()) == unread.format(4)
    assert told(History(snapshot(3), snapshot(4), snapshot(6)).look()) == unread.format(5)
    other = History(snapshot(4), snapshot(5, properties={BASE_PROPERTY: "4:x"}))
    assert told(other.look()) == "snapshot 5 builds on another snapshot 4"


def test_a_snapshot_of_another_engine_names_no_base_so_the_history_is_read() -> None:
    """H9: it may have been created under a name that an expiry had freed."""
    foreign = snapshot(5, foreign=True)
    assert isinstance(History(snapshot(3), snapshot(4), foreign).look(), Closed)
    assert isinstance(History(snapshot(3), snapshot(4, foreign=True), foreign).look(), Closed)
    assert isinstance(History(snapshot(3), snapshot(4, foreign=True)).look(), StillOpen)
    doubted = History(snapshot(3), snapshot(4), foreign, earliest=5)
    assert "the history no longer reaches down to it" in told(doubted.look())
    trusted = History(snapshot(3), snapshot(4), snapshot(5), earliest=5)
    assert isinstance(trusted.look(), Closed), "it names the first one, which was read"


def test_a_snapshot_that_changes_while_it_is_read_proves_nothing() -> None:
    made = History(snapshot(3), snapshot(4), snapshot(5, foreign=True))
    assert told(made.look(replace(made.latest, uuid="before"))) == "snapshot 5 was replaced while it was read"


def test_only_the_two_snapshots_can_have_it_aboard() -> None:
    for number, is_aboard in ((3, False), (4, True), (5, True), (6, False)):
        found = aboard_of(WINDOW, snapshot(number, aboard=True))
        assert found == (Aboard(snapshot(number, aboard=True)) if is_aboard else None)
    assert aboard_of(WINDOW, snapshot(4)) is None
    assert aboard_of(Window("c9", SnapshotRef(3, "u3")), snapshot(4, aboard=True)) is None
