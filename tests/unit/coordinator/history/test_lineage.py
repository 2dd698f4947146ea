"""What proves that a snapshot is part of the history, and what does not: a next one, a base, a listing, an old merge."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fragile import Fragile
from histories import (
    aged,
    copied,
    delete,
    filled,
    foreign_append,
    ids,
    opened,
    roll_back,
    rows,
    slept_snapshot,
    values,
)

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import ObjectInfo, PutOutcome, Unknown
from lakelatch.coordinator.history.base import ref_of
from lakelatch.coordinator.history.lineage import (
    Fork,
    Lost,
    Standing,
    Untold,
    _as_prepared,
    _built_on,
    base_stands,
    check_lineage,
    did_it_land,
    read_name,
    take_away,
)
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.coordinator.maintenance.reach.roots import list_roots, read_roots
from lakelatch.coordinator.protocol import events as ev
from lakelatch.core.errors import Fenced, OutcomeUnknown, StoreUnavailable
from lakelatch.core.metadata.snapshot import parse_snapshot
from lakelatch.core.paths import TablePaths


def test_a_next_snapshot_without_the_commits_files_proves_nothing(store: Fragile) -> None:
    """G1, H6, decision 1: expiry ended exactly below the snapshot's name, and another engine wrote the snapshot above it."""
    table = filled(store, 1)
    theirs = parse_snapshot(slept_snapshot(store), "snapshot-2")

    def others_commit_and_expire() -> None:
        foreign_append(store, 3, 3, on=theirs)
        store.put("snapshot/LATEST", b"3")
        delete(store, 1)

    store.before["create snapshot/snapshot-2"] = others_commit_and_expire
    with pytest.raises(OutcomeUnknown, match="does not say what it was built on"):
        table.append(rows(2))
    assert ids(store) == [2, 3]
    assert 2 not in values(store)


def test_a_next_snapshot_with_the_commits_files_proves_that_it_landed(store: Fragile) -> None:
    """G1: another engine built on the snapshot before its base expired."""
    table = filled(store, 1)

    def built_on_and_expired() -> None:
        foreign_append(store, 3, 3, on=opened(store).timeline.snapshot(2))
        delete(store, 1)

    store.before["get snapshot/snapshot-1"] = built_on_and_expired
    assert table.append(rows(2)).snapshot_id == 2
    assert values(store) == [1, 2, 3]


def replaced_base(store: Fragile, number: int) -> None:
    """Replace snapshot `number` by another one under the same name."""
    other = copied(store)
    roll_back(other, number - 1)
    filled(other, 77)
    for info in other.list(""):
        if not info.key.startswith("snapshot/") or info.key == f"snapshot/snapshot-{number}":
            store.put(info.key, other.get(info.key))


def test_nothing_is_sent_again_on_a_replaced_base(store: Fragile) -> None:
    """H6, H9: neither by the writer nor by `resolve()`: it would bring back what a rollback removed."""
    filled(store, 1, 2)
    table = opened(store)
    minute = aged(table, 60.0)
    table.append(rows(3))

    def lost() -> PutOutcome:
        replaced_base(store, 3)
        minute()
        return Unknown("timeout")

    store.before["create snapshot/snapshot-4"] = lost
    with pytest.raises(OutcomeUnknown, match="base does not exist") as unknown:
        table.append(rows(4))
    assert ids(store) == [1, 2, 3]
    with pytest.raises(OutcomeUnknown, match="replaced by another"):
        unknown.value.resolve(timeout=0)
    assert ids(store) == [1, 2, 3]
    assert values(store) == [1, 2, 77]


def test_a_snapshot_is_sent_again_while_its_base_stands(store: Fragile) -> None:
    """H9: age alone is no reason to give up."""
    filled(store, 1)
    table = opened(store)
    minute = aged(table, 60.0)
    table.append(rows(2))

    def lost() -> PutOutcome:
        minute()
        return Unknown("timeout")

    store.before["create snapshot/snapshot-3"] = lost
    assert table.append(rows(3)).snapshot_id == 3


def test_a_listing_that_lacks_existing_snapshots_is_not_believed(store: Fragile) -> None:
    """H7: a snapshot that was seen, or the one after it, is newer than the listing; the end is found by walking on."""
    table = filled(store, 1, 2, 3, 4, 5)
    first, whole = table.timeline.snapshot(1), store.list

    def lagging(prefix: str) -> Any:
        def shown(info: ObjectInfo) -> bool:
            return info.key.rpartition("-")[2] not in "2345"

        return iter([info for info in whole(prefix) if shown(info)])

    store.list = lagging  # type: ignore[method-assign]
    found = opened(store).timeline.look(first)
    assert found.snapshot is not None
    assert found.snapshot.id == 5
    assert found.unhinted is None, "EARLIEST is there, and is not written again"
    store.delete_many(["snapshot/EARLIEST"])
    assert opened(store).timeline.look(first).unhinted == 1


def test_a_seen_snapshot_that_is_gone_is_not_believed(store: Fragile) -> None:
    """H6: it was rolled back since; and if its name holds another snapshot by now, that one is the latest."""
    table = filled(store, 1, 2, 3)
    third = table.timeline.snapshot(3)
    replaced_base(store, 3)
    found = table.timeline.latest(third)
    assert found is not None
    assert found.identity != third.identity
    roll_back(store, 1)
    found = table.timeline.latest(third)
    assert found is not None
    assert found.id == 1


def test_a_writer_with_an_unknown_outcome_looks_before_it_writes_again(store: Fragile) -> None:
    """H6: its earlier knowledge may be outdated: its own snapshot may have landed."""
    table = filled(store, 1)

    def unreadable(key: str) -> bytes:
        if key == "snapshot/snapshot-2":
            raise StoreUnavailable("no answer")
        return Fragile.get(store, key)

    sent: list[bytes] = []

    def create(key: str, data: bytes) -> PutOutcome:
        outcome = MemoryStore.put_if_absent(store, key, data)
        if key == "snapshot/snapshot-2" and not sent:
            sent.append(data)
            return Unknown("timeout")
        return outcome

    store.put_if_absent, store.get = create, unreadable  # type: ignore[method-assign]
    with pytest.raises(OutcomeUnknown):
        table.append(rows(2))
    store.get = lambda key: Fragile.get(store, key)  # type: ignore[method-assign]
    receipt = table.append(rows(3))
    assert (receipt.snapshot_id, receipt.attempts) == (3, 1)


def test_a_writer_that_was_fenced_looks_before_it_writes_again(store: Fragile) -> None:
    """H6: its base is gone."""
    table = filled(store, 1, 2, 3)
    store.before["create snapshot/snapshot-4"] = lambda: roll_back(store, 1)
    with pytest.raises(Fenced):
        table.append(rows(4))
    receipt = table.append(rows(5))
    assert (receipt.snapshot_id, receipt.attempts) == (2, 1)


def test_a_merge_whose_base_is_gone_is_not_used_again(store: Fragile) -> None:
    """H6, H15: its manifests are next to each other in the winner's list, but the base that they were merged on is gone."""
    other = filled(store, 1, 2, 3)
    opened(store).alter(ll.set_option("manifest.merge-min-count", "3"))
    table = opened(store)

    def others_commit_and_expire() -> None:
        other.append(rows(9))
        store.put("snapshot/EARLIEST", b"4")
        delete(store, 1, 2, 3)

    store.before["create snapshot/snapshot-4"] = others_commit_and_expire
    assert table.append(rows(4)).snapshot_id == 5
    modes = [e.event.mode for e in table.committer.journal.entries() if isinstance(e.event, ev.ManifestsCompacted)]
    assert modes == ["minor", "none"]
    assert values(store) == [1, 2, 3, 4, 9]


def test_a_first_snapshot_that_expired_is_not_sent_again(store: Fragile) -> None:
    """H6, H9: it landed and expired since; a writer whose answer was lost must not conclude that it never landed."""
    table = filled(store, 1, 2, 3)
    first = table.timeline.snapshot(1)
    delete(store, 1)
    store.put("snapshot/EARLIEST", b"2")
    timeline = opened(store).timeline
    assert did_it_land(timeline, _as_prepared(first)) == Standing()
    unnamed = replace(timeline.snapshot(2), properties={})
    store.put("snapshot/snapshot-2", unnamed.to_json())
    assert isinstance(did_it_land(opened(store).timeline, _as_prepared(first)), Standing), (
        "its manifest is in the latest"
    )


def test_a_name_below_the_history_that_holds_another_snapshot_proves_nothing(store: Fragile) -> None:
    """H6: a name that expiry freed was taken, which does not show whether this snapshot landed."""
    table = filled(store, 1, 2, 3, 4, 5)
    first = table.timeline.snapshot(1)
    delete(store, 2, 3)
    store.put("snapshot/EARLIEST", b"4")
    timeline = opened(store).timeline
    assert isinstance(check_lineage(timeline, _as_prepared(first)), Fork), "its own bytes, on a freed name"
    replaced_base(store, 1)
    found = check_lineage(opened(store).timeline, _as_prepared(first))
    assert isinstance(found, Untold)
    assert "another snapshot or none by now" in found.reason


def test_a_base_below_earliest_does_not_stand(store: Fragile) -> None:
    """H6: expiry raises EARLIEST before it deletes: the name may be freed at any moment, or was created again."""
    timeline = filled(store, 1, 2, 3).timeline
    first, second = (ref_of(timeline.snapshot(number)) for number in (1, 2))
    assert base_stands(timeline, first)
    store.put("snapshot/EARLIEST", b"2")
    assert not base_stands(timeline, first)
    assert base_stands(timeline, second)
    assert not base_stands(timeline, None)


def test_a_snapshot_whose_base_is_below_earliest_is_not_sent_again(store: Fragile) -> None:
    """H6: its name is free because it expired, and its base is the next to go."""
    table = filled(store, 1, 2, 3)
    second = table.timeline.snapshot(2)
    delete(store, 2)
    store.put("snapshot/EARLIEST", b"3")
    assert did_it_land(opened(store).timeline, _as_prepared(second)) == Standing()


def test_a_snapshot_that_cannot_be_taken_away_is_not_reported_as_gone(store: Fragile) -> None:
    """H21: the answer is not "not committed" while the snapshot may exist."""
    table = filled(store, 1)
    landed = _as_prepared(table.timeline.snapshot(1))

    def refused() -> None:
        raise StoreUnavailable("access denied")

    store.before["delete snapshot/snapshot-1"] = refused
    for info in list(store.list("")):
        if not info.key.startswith("snapshot/snapshot-"):
            MemoryStore.delete_many(store, [info.key])
    assert take_away(Timeline(store, TablePaths()), landed) == "access denied"
    assert take_away(Timeline(store, TablePaths()), landed) is None


def test_a_root_that_is_deleted_while_it_is_read_is_left_out(store: Fragile) -> None:
    timeline = filled(store, 1, 2, 3).timeline
    infos = list_roots(timeline)
    delete(store, 1)
    roots = read_roots(timeline, infos)
    assert sorted((root.kind, root.branch, root.snapshot.id) for root in roots) == [
        ("snapshot", "main", 2),
        ("snapshot", "main", 3),
    ]


def test_the_first_snapshot_is_a_fork_only_where_earliest_passed_it(store: Fragile) -> None:
    """H21: what stands above it may be left of a table that was dropped, unless an expiry is known to have come by."""
    table = filled(store, 1, 2)
    first = _as_prepared(table.timeline.snapshot(1))
    other = replace(first, snapshot=replace(first.snapshot, identity="another"))
    store.put("snapshot/EARLIEST", b"2")
    assert isinstance(_built_on(opened(store).timeline, table.timeline.snapshot(2), other), Fork)
    store.put("snapshot/EARLIEST", b"1")
    assert isinstance(_built_on(opened(store).timeline, table.timeline.snapshot(2), other), Untold)
    store.delete_many(["snapshot/EARLIEST"])
    assert isinstance(_built_on(opened(store).timeline, table.timeline.snapshot(2), other), Untold)


def test_anothers_snapshot_under_the_name_proves_a_loss_where_the_history_goes_through_it(store: Fragile) -> None:
    """H2: after a send without an answer. As the newest one, or below one that names it; not below one that names another."""
    timeline = filled(store, 1, 2).timeline
    second = _as_prepared(timeline.snapshot(2))
    ours = replace(second, text="{}", snapshot=replace(second.snapshot, identity="ours"))
    for doubtful in (False, True):
        assert isinstance(read_name(opened(store).timeline, ours, doubtful=doubtful), Lost)
    filled(store, 3)
    for doubtful in (False, True):
        assert isinstance(read_name(opened(store).timeline, ours, doubtful=doubtful), Lost)
    replaced_base(store, 2)
    fresh = opened(store).timeline
    assert isinstance(read_name(fresh, ours, doubtful=False), Lost)
    found = read_name(fresh, ours, doubtful=True)
    assert isinstance(found, Untold) and "belongs to another writer" in found.reason


def test_a_latest_above_the_first_snapshot_is_a_leftover_only_where_all_says_so(store: Fragile) -> None:
    """H7, H21, decision 3: of a table that was dropped here. Otherwise the listing may be out of date, and nothing is proven."""
    table = filled(store, 1)
    table.committer.settle()
    first = _as_prepared(table.timeline.snapshot(1))

    def judged(latest: bytes = b"7", earliest: bytes | None = b"1", **there: bytes) -> Any:
        store.put("snapshot/LATEST", latest)
        store.delete_many(["snapshot/EARLIEST"])
        if earliest is not None:
            store.put("snapshot/EARLIEST", earliest)
        timeline = opened(store).timeline
        listed = timeline.snapshot_ids
        timeline.snapshot_ids = lambda: listed() and [1]  # type: ignore[method-assign]
        for name, data in there.items():
            store.put(f"snapshot/snapshot-{name[1:]}", data.replace(b'"id": 1', b'"id": ' + name[1:].encode()))
        try:
            return check_lineage(timeline, first)
        finally:
            store.delete_many([f"snapshot/snapshot-{name[1:]}" for name in there])

    other = store.get("snapshot/snapshot-1")
    assert judged() == judged(latest=b"9") == Standing()
    for found in (judged(earliest=b"7"), judged(earliest=None), judged(_7=other), judged(_8=other)):
        assert isinstance(found, Untold) and "LATEST says 7" in found.reason
    timeline = opened(store).timeline
    store.put("snapshot/LATEST", b"7")
    store.put("snapshot/EARLIEST", b"1")
    listings = iter([[1], [1, 5]])
    timeline.snapshot_ids = lambda: next(listings)  # type: ignore[method-assign]
    assert isinstance(check_lineage(timeline, first), Untold)
