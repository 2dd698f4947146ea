"""Exactly once (G3): a table's memory of its commit users, however many they are and whatever has expired."""

from __future__ import annotations

import gzip
import itertools
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import fragile
import pytest
from fragile import Died, Fragile, die, names, only, recovered
from hypothesis import given, settings
from hypothesis import strategies as st
from identities import (
    COUNTER,
    FOLDER,
    Inline,
    Meddled,
    commit,
    expire,
    foreign,
    gets,
    identity_files,
    new_store,
    opened,
    published,
    ref,
    remembering,
    top,
)

from lakelatch.backends.metered import MeteredStore
from lakelatch.backends.store import PutOutcome
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.coordinator.identities import memory as identity
from lakelatch.coordinator.identities import pages
from lakelatch.coordinator.identities import recall as identity_recall
from lakelatch.coordinator.identities.memory import IDENTIFIERS_PROPERTY, Memory, memory_of, name_of
from lakelatch.coordinator.identities.pages import Leaf, Page, bits_of, parse_leaf, parse_page
from lakelatch.coordinator.identities.recall import Known, named_files, recall
from lakelatch.coordinator.journal.file_journal import FileJournal
from lakelatch.coordinator.journal.lines import Entry
from lakelatch.coordinator.maintenance.expire import apply_expiry, plan_expiry
from lakelatch.coordinator.maintenance.orphans import apply_clean, plan_orphans
from lakelatch.coordinator.maintenance.retention import Retention
from lakelatch.coordinator.protocol import events as ev
from lakelatch.coordinator.protocol.events import SnapshotRef
from lakelatch.core.errors import InvalidArgument, OutcomeUnknown, StoreUnavailable, TableCorrupt
from lakelatch.core.metadata.snapshot import BATCH_IDENTIFIER
from lakelatch.core.paths import TablePaths
from lakelatch.table.table import Table


def meddled(store: MeteredStore) -> Meddled:
    assert isinstance(store.inner, Meddled)
    return store.inner


# ------------------------------------------------------------------------------------------------------- many users


def test_a_user_that_was_never_seen_costs_at_most_two_reads_more() -> None:
    """At 260 users the memory has overflowed once; the counted commits include the one that overflows again."""
    store = new_store()
    table = opened(store)
    for number in range(260):
        commit(table, f"query-{number}", 0)
    without = gets(store, opened(store), "batch")
    for number in range(60):
        assert gets(store, opened(store), f"new-{number}", 0) <= without + 2


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few users fit into the property, few into a page and a leaf."""
    monkeypatch.setattr(identity, "REMEMBERED_USERS", 20)
    monkeypatch.setattr(pages, "PAGE_USERS", 30)
    monkeypatch.setattr(pages, "LEAF_USERS", 25)


def test_a_user_moved_out_is_recognised_after_its_snapshot_expired(few: None) -> None:
    """A full memory is not complete: a commit that it does not hold may still have landed, and must not land twice."""
    store = new_store()
    table = opened(store)
    for number in range(95):
        commit(table, f"query-{number}", 7)
    expire(table, keep=2)
    for number in range(0, 95, 5):
        assert commit(opened(store), f"query-{number}", 7) == (number + 1, True), number
    assert commit(opened(store), "never", 7) == (96, False)


def test_the_most_recent_users_stay_in_the_property(few: None) -> None:
    """They are likely to commit next, and need no read."""
    store = new_store()
    table = opened(store)
    for number in range(20):
        commit(table, f"query-{number}", 7)
    commit(table, "query-0", 8)
    commit(table, "query-20", 7)
    assert list(memory_of(top(table)).users) == [*(f"query-{n}" for n in range(12, 20)), "query-0", "query-20"]
    assert commit(opened(store), "query-0", 8) == (21, True)
    assert opened(store).committer.lookup("query-0", 7) is None, "it landed, but which snapshot it was is forgotten"
    assert opened(store).committer.lookup("query-0", 9) is None
    receipt = opened(store).committer.lookup("query-0", 8)
    assert receipt is not None
    assert (receipt.snapshot_id, receipt.replayed) == (21, True)


def test_a_user_moved_out_comes_back_with_its_next_identifier(few: None) -> None:
    """The newer entry counts, not that of an older page or leaf."""
    store = new_store()
    table = opened(store)
    for number in range(95):
        commit(table, f"query-{number}", 7)
    for number in range(95):
        assert commit(table, f"query-{number}", 8) == (96 + number, False)
    for number in range(0, 95, 5):
        assert commit(opened(store), f"query-{number}", 8) == (96 + number, True), number
        with pytest.raises(InvalidArgument, match="not above 8"):
            commit(opened(store), f"query-{number}", 7)


# -------------------------------------------------------------------------------------------------- other writers


def test_a_memory_that_did_not_reach_the_beginning_is_incomplete() -> None:
    """A commit without identity walks past a few snapshots of other writers only. Later look-ups must look below them."""
    store = new_store()
    table = opened(store)
    foreign(table, "flink", 3)
    for _ in range(40):
        foreign(table, "other")
    commit(opened(store), "batch")
    assert commit(opened(store), "flink", 3) == (2, True)


def test_a_commit_without_identity_reads_few_foreign_snapshots() -> None:
    store = new_store()
    table = opened(store)
    for _ in range(60):
        foreign(table, "other", 3)
    before = gets(store, opened(store), "batch")
    for _ in range(60):
        foreign(table, "other", 3)
    assert before <= 30
    assert gets(store, opened(store), "batch") <= 30


def test_a_walk_to_the_beginning_of_history_is_made_once() -> None:
    store = new_store()
    table = opened(store)
    foreign(table, "flink", 3)
    for _ in range(40):
        foreign(table, "other")
    expire(table, keep=30)
    assert commit(opened(store), "etl", 1)[1] is False
    for number in range(5):
        without = gets(store, opened(store), "batch")
        assert gets(store, opened(store), f"new-{number}", 1) <= without


def test_foreign_identities_are_found_and_carried() -> None:
    store = new_store()
    table = opened(store)
    commit(table, "etl", 1)
    foreign(table, "flink", 5)
    foreign(table, "flink", 6)
    assert commit(opened(store), "flink", 6) == (3, True)
    commit(table, "etl", 2)
    expire(table, keep=1)
    assert commit(opened(store), "flink", 6) == (3, True)
    assert commit(opened(store), "etl", 2) == (4, True)


def test_a_long_foreign_history_is_read_once_however_often_the_base_ages() -> None:
    """The walk may take longer than a base may age: its results are kept, so that the next look needs no walk."""
    store = new_store()
    table = opened(store)
    for _ in range(100):
        foreign(table, "other", 4)
    fresh = opened(store)
    store.reset()
    assert fresh.committer.lookup("etl", 1) is None
    first = store.snapshot().by_operation["get"]
    foreign(table, "other", 5)
    store.reset()
    assert fresh.committer.lookup("etl", 1) is None
    assert first >= 100
    assert store.snapshot().by_operation["get"] <= 4


def test_an_interrupted_walk_is_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    """H24: snapshots that were read before the store failed, or time ran out, are not read again."""
    table, known = opened(new_store()), Known()
    for _ in range(100):
        foreign(table, "other", 4)
    base, read, find = top(table), [], table.timeline.find

    def failing(snapshot_id: int) -> Any:
        if snapshot_id < 50:
            raise StoreUnavailable("away")
        read.append(snapshot_id)
        return find(snapshot_id)

    with monkeypatch.context() as away:
        away.setattr(table.timeline, "find", failing)
        with pytest.raises(StoreUnavailable):
            recall("etl", base, table.timeline, known)
    table.store.reset()  # type: ignore[attr-defined]
    assert recall("etl", base, table.timeline, known).memory.complete
    assert len(read) > 40
    assert table.store.snapshot().by_operation["get"] <= 75  # type: ignore[attr-defined]


def test_a_snapshot_below_a_memory_is_older_than_it() -> None:
    """Read in one batch with the memory, it still counts less than the memory's page."""
    store = new_store()
    table = opened(store)
    foreign(table, "flink", 5)
    store.put(FOLDER + "identities-page-1", Page({"flink": (6, ref(9))}).to_bytes())
    published(table, Memory(page="identities-page-1"))
    foreign(table, "other")
    foreign(table, "other")
    assert commit(opened(store), "flink", 6) == (10, True)


# ------------------------------------------------------------------------------------------------------ older tables


def test_tables_with_the_first_form_of_the_property_are_read() -> None:
    """Their property names no page, and one of 200 users may have dropped some: older snapshots are searched once."""
    store = new_store()
    table = opened(store)
    for number in range(5):
        commit(table, f"old-{number}", 7)
    latest = table.timeline.latest()
    assert latest is not None
    users = {f"lost-{number}": [1, 1, "gone"] for number in range(200)}
    text = json.dumps({"since": 1, "users": users})
    made = replace(
        latest,
        id=latest.id + 1,
        uuid="00000000-0000-0000-0000-000000000000",
        commit_user="lost-199",
        properties={**latest.properties, IDENTIFIERS_PROPERTY: text},
    )
    store.put("snapshot/snapshot-6", made.to_json())
    assert commit(opened(store), "old-0", 7) == (1, True)
    assert commit(opened(store), "lost-0", 1) == (1, True)
    assert commit(opened(store), "new", 1) == (7, False)
    expire(table, keep=1)
    for number in range(5):
        assert commit(opened(store), f"old-{number}", 7) == (number + 1, True)
    without = gets(store, opened(store), "batch")
    assert gets(store, opened(store), "never", 1) <= without + 2


@pytest.mark.parametrize("users", [1, 199])
def test_a_memory_of_the_first_form_that_is_not_full_is_complete(users: int) -> None:
    store = new_store()
    table = opened(store)
    commit(table, "etl", 7)
    latest = table.timeline.latest()
    assert latest is not None
    text = json.dumps({"since": 1, "users": {f"u-{n}": [1, 1, "gone"] for n in range(users)}})
    made = replace(latest, id=2, uuid="0" * 8, properties={**latest.properties, IDENTIFIERS_PROPERTY: text})
    store.put("snapshot/snapshot-2", made.to_json())
    without = gets(store, opened(store), "batch")
    assert gets(store, opened(store), "never", 1) == without


# ----------------------------------------------------------------------------------------------------- pages, leaves


def test_after_6000_users_a_new_one_costs_at_most_two_reads() -> None:
    """Also for a commit that writes a page and moves users into a leaf: the first of these commits does."""
    store = new_store()
    table = opened(store)
    users = [f"query-{n}" for n in range(6_600)]
    remembering(table, users)
    expire(table, keep=1)
    without = gets(store, opened(store), "batch")
    before = identity_files(table)
    for number in range(20):
        assert gets(store, opened(store), f"new-{number}", 0) <= without + 2
    assert any("leaf" in name for name in identity_files(table) - before)
    for number in (0, 2_499, 6_399, 6_400, 6_599):
        store.reset()
        assert commit(opened(store), users[number], 7) == (ref(number).id, True)


def test_100000_users_are_all_known_with_two_reads() -> None:
    store = new_store()
    table = opened(store)
    users = [f"query-{n}" for n in range(100_000)]
    memory = remembering(table, users, first=96_000)
    without = gets(store, opened(store), "batch")
    for number in (0, 50_000, 95_999, 98_000, 99_899, 99_999):
        store.reset()
        assert commit(opened(store), users[number], 7) == (ref(number).id, True), number
        # A page and a leaf; and, since this is a replay, the check that the base is not a fork, and twice the snapshot that
        # landed.
        assert store.snapshot().by_operation["get"] <= without + 5
    assert gets(store, opened(store), "never", 7) <= without + 2
    assert memory.page is not None
    page = parse_page(store.get(FOLDER + memory.page), "page")
    leaves = [parse_leaf(store.get(FOLDER + name), prefix, name) for prefix, name in page.leaves.items()]
    assert max(len(leaf.users) for leaf in leaves) <= pages.LEAF_USERS
    held = set(memory.users).union(page.users, *(leaf.users for leaf in leaves))
    assert held == set(users)


def test_a_warm_writer_whose_base_is_its_own_reads_nothing_for_its_memory() -> None:
    """Not even pages and leaves that it has read or written."""
    store = new_store()
    table = opened(store)
    remembering(table, [f"query-{n}" for n in range(3_000)])
    warm = opened(store)
    commit(warm, "batch")
    without = gets(store, warm, "batch")
    commit(warm, "new-a", 0)
    for number in range(3):
        assert gets(store, warm, f"new-{number}", 0) <= without
    assert gets(store, warm, "query-0", 8) <= without


def test_the_cache_of_a_writer_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The least recently used files are dropped, and read again."""
    monkeypatch.setattr(identity_recall, "_KEPT_BYTES", 25)
    monkeypatch.setattr(identity_recall, "_KEPT_MEMORIES", 2)
    store = new_store()
    table, known = opened(store), Known()
    snapshots = [top(table), *(published(table, Memory()) for _ in range(2))]
    for snapshot in snapshots:
        known.keep_memory(SnapshotRef(snapshot.id, snapshot.identity), Memory())
    assert [known.memory(snapshot) for snapshot in snapshots] == [None, Memory(), Memory()]
    for name in "abc":
        store.put(f"{FOLDER}identities-{name}", b"0123456789")
    store.reset()
    for name in "abacbaa":
        assert known.file(f"identities-{name}", table.timeline) == b"0123456789"
    assert store.snapshot().by_operation["get"] == 5, "b went for c, a for b, c for a"


def test_two_writers_that_spill_at_once_leave_one_page() -> None:
    """The page of the attempt that lost is useless, and is deleted (G5: the winner's stays)."""
    store = new_store()
    table = opened(store)
    for number in range(200):
        commit(table, f"query-{number}", 7)
    assert identity_files(table) == set()
    first, second = opened(store), opened(store)
    meddled(store).before_create = [lambda: commit(second, "new-b", 0), lambda: None]
    assert commit(first, "new-a", 0) == (202, False)
    memory = memory_of(top(table))
    assert identity_files(table) == {memory.page}
    assert len(memory.users) == 101
    for number in range(200):
        assert recall(f"query-{number}", top(table), table.timeline).last is not None
    assert commit(opened(store), "new-b", 0) == (201, True)


def test_a_page_that_is_written_again_for_another_base_replaces_the_first() -> None:
    """The winner did not spill, so the loser writes its page again, with the new snapshot in it, and drops the old one."""
    store = new_store()
    table = opened(store)
    for number in range(200):
        commit(table, f"query-{number}", 7)
    first, second = opened(store), opened(store)
    meddled(store).before_create = [lambda: commit(second, "batch"), lambda: None]
    assert commit(first, "new-a", 0) == (202, False)
    assert identity_files(table) == {memory_of(top(table)).page}
    assert [key for key in meddled(store).deleted if key.startswith(FOLDER)] != []
    assert commit(opened(store), "new-a", 0) == (202, True)


def test_a_commit_that_conflicts_or_replays_leaves_no_page() -> None:
    store = new_store()
    table = opened(store)
    for number in range(200):
        commit(table, f"query-{number}", 7)
    with pytest.raises(InvalidArgument):
        commit(table, "query-0", 6)
    assert commit(opened(store), "query-0", 7) == (1, True)
    assert identity_files(table) == set()


def test_a_page_of_an_unknown_outcome_stays_and_a_commit_without_it_is_not_finished() -> None:
    """H5, H10: a snapshot must never be sent again if orphan cleaning has deleted its page, or one of the page's leaves."""
    store = new_store()
    table = opened(store)
    remembering(table, [f"query-{n}" for n in range(4_300)], first=4_200)
    commit(table, "batch")
    meddled(store).lost_before = 3
    before = identity_files(table)
    with pytest.raises(OutcomeUnknown) as unknown:
        commit(table, "query-0", 8)
    made = identity_files(table) - before
    assert made, "this commit spills"
    kept = {name: store.get(FOLDER + name) for name in identity_files(table)}
    for name, data in kept.items():
        if name in before and name.startswith("identities-page"):
            continue  # the base's only
        store.delete_many([FOLDER + name])
        with pytest.raises(OutcomeUnknown, match=name):
            unknown.value.resolve(timeout=0)
        store.put(FOLDER + name, data)
    assert unknown.value.resolve(timeout=5).snapshot_id == top(table).id
    assert commit(opened(store), "query-0", 8)[1]


class DyingJournal(FileJournal):
    """Its process dies just before the first send of a snapshot."""

    def record(self, entry: Entry, decisive: bool = False) -> PutOutcome | None:
        if isinstance(entry.event, ev.SnapshotPrepared):
            die()
        return super().record(entry, decisive)


def test_recovery_clears_away_the_page_of_a_commit_that_was_never_sent(few: None, tmp_path: Path) -> None:
    """G5: like manifests, it is in the journal's record of the files that the commit wrote."""
    store = Fragile()
    for number in range(20):
        commit(fragile.opened(store), f"query-{number}", 7)
    with pytest.raises(Died):
        commit(fragile.opened(store, DyingJournal(tmp_path / "journal")), "new", 7)
    left = set(names(store, FOLDER))
    assert left, "this commit spills"
    found = only(recovered(lambda: FileJournal(tmp_path / "journal"), store))
    assert set(found.cleaned) >= left
    assert names(store, FOLDER) == []


def test_names_of_any_length_keep_the_property_short() -> None:
    store = new_store()
    table = opened(store)
    long = '\u00e9"\\' * 4_000
    assert commit(table, long + "a", 1) == (1, False)
    for number in range(199):
        commit(table, f"{number}{long}", 1)
    assert len(top(table).to_json()) < 60_000
    assert commit(opened(store), long + "a", 1) == (1, True)
    assert commit(opened(store), long + "b", 1) == (201, False)
    hashed = next(iter(memory_of(top(table)).users))
    assert commit(opened(store), hashed, 1)[1] is False, "a name that looks like a hash is another user"


# ---------------------------------------------------------------------------------------------------- damage, cleaning


def many() -> tuple[MeteredStore, Table, Memory]:
    """A table that remembers 5 900 users, some in the property, some in the page, most in two leaves."""
    store = new_store()
    table = opened(store)
    memory = remembering(table, [f"query-{n}" for n in range(5_900)], first=5_000)
    return store, table, memory


def test_a_leaf_may_lie_as_deep_as_a_hash_is_long() -> None:
    """A user whose hash differs from another's only in the last bit is still found."""
    bits = pages.bits_of("query-0")
    deepest = [bits[:n] + ("1" if bits[n] == "0" else "0") for n in range(64)] + [bits]
    page = pages.Page({}, {prefix: f"leaf-{len(prefix)}" for prefix in deepest})
    assert page.prefix_of("query-0") == bits
    assert len(bits) == 64
    assert pages._covers(page.leaves)
    deeper = {**page.leaves, bits + "0": "leaf-65", bits + "1": "leaf-66"}
    del deeper[bits]
    assert not pages._covers(deeper), "no hash is as long"


def test_a_missing_page_or_leaf_is_an_error_and_never_an_unknown_user() -> None:
    store, table, memory = many()
    assert memory.page is not None
    page = parse_page(store.get(FOLDER + memory.page), "page")
    leaf = page.leaves[page.prefix_of("query-0")]
    for name in (memory.page, leaf):
        data = store.get(FOLDER + name)
        store.delete_many([FOLDER + name])
        with pytest.raises(TableCorrupt, match=name):
            commit(opened(store), "query-0", 7)
        assert [f.file for f in table.verify()] == [FOLDER + name]
        store.put(FOLDER + name, data[:-9])
        with pytest.raises(TableCorrupt, match=name):
            commit(opened(store), "query-0", 7)
        assert [f.file for f in table.verify()] == [FOLDER + name]
        store.put(FOLDER + name, data)
    assert table.verify() == []
    assert commit(opened(store), "query-0", 7) == (1, True)


@pytest.mark.parametrize("page", ["../../x", "/etc/passwd", "..", "", "manifest-1", 7, ["identities-page-1"]])
def test_a_property_that_names_a_page_elsewhere_is_refused(page: object) -> None:
    """H16."""
    store = new_store()
    table = opened(store)
    published(table, Memory(page="identities-page-1"))
    snapshot = top(table)
    text = json.dumps({"since": 1, "page": page, "users": {}})
    hostile = replace(snapshot, properties={**snapshot.properties, IDENTIFIERS_PROPERTY: text})
    store.put(f"snapshot/snapshot-{snapshot.id}", hostile.to_json())
    store.reset()
    with pytest.raises(TableCorrupt, match=f"snapshot-{snapshot.id}: property '{IDENTIFIERS_PROPERTY}'"):
        commit(opened(store), "etl", 1)
    assert [f.file for f in opened(store).verify()] == [f"snapshot/snapshot-{snapshot.id}"]


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{}",
        '{"since": "x", "users": {}}',
        '{"since": 1, "users": []}',
        '{"since": 0, "users": {}}',
        '{"since": 8, "users": {}}',
        '{"since": 1, "users": {"a": [1, 2]}}',
        '{"since": 1, "users": {"a": ["1", 2, "x"]}}',
        '{"since": 5, "page": "identities-page-1", "users": {}}',
    ],
)
def test_a_garbled_property_is_reported(text: str) -> None:
    table = opened(new_store())
    snapshot = replace(top(table), id=7, properties={IDENTIFIERS_PROPERTY: text})
    with pytest.raises(TableCorrupt, match="garbled"):
        memory_of(snapshot)


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ({"leaves": {}}, "users"),
        ({"users": {"a": 1}, "leaves": {}}, "users"),
        ({"users": {}}, "leaves"),
        ({"users": {}, "leaves": {"0": "identities-leaf-1"}}, "leaves"),
        (
            {"users": {}, "leaves": {"0": "identities-leaf-1", "00": "identities-leaf-2", "01": "identities-leaf-3"}},
            "leaves",
        ),
        ({"users": {}, "leaves": {"0": "identities-leaf-1", "2": "identities-leaf-2"}}, "leaves"),
        ({"users": {}, "leaves": {"": "../identities-leaf-1"}}, "leaves"),
        ({"users": {}, "leaves": {"": "manifest-1"}}, "leaves"),
        ({"users": {}, "leaves": []}, "leaves"),
    ],
)
def test_a_garbled_page_is_reported_with_its_field(content: object, field: str) -> None:
    with pytest.raises(TableCorrupt, match=f"here: field '{field}'"):
        parse_page(gzip.compress(json.dumps(content).encode()), "here")


def test_a_file_that_is_not_a_page_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    for data in (b"", b"{}", gzip.compress(b"[]"), gzip.compress(b"{}")[:-1], gzip.compress(b"\xff")):
        with pytest.raises(TableCorrupt, match="here is not a file of identities"):
            parse_page(data, "here")
    monkeypatch.setattr(pages, "LONGEST_FILE", 1_000)
    with pytest.raises(TableCorrupt, match="too long"):
        parse_page(gzip.compress(json.dumps({"users": {}, "leaves": {}, "x": "x" * 1_000}).encode()), "here")


def test_a_leaf_of_other_users_is_reported() -> None:
    users = {f"query-{n}": (1, ref(n)) for n in range(20)}
    with pytest.raises(TableCorrupt, match="does not begin with 1"):
        parse_leaf(Leaf("", users).to_bytes(), "1", "here")
    assert parse_leaf(Leaf("", users).to_bytes(), "", "here") == Leaf("", users)


def test_a_page_relieves_itself_of_most_users() -> None:
    """Otherwise pages would grow: with many leaves, each leaf has few users waiting in the page."""
    page = Page({f"query-{n}": (1, ref(n)) for n in range(101)}, {"0": "a", "10": "b", "11": "c"})
    waiting = [sum(bits_of(name).startswith(prefix) for name in page.users) for prefix in ("0", "10", "11")]
    assert page.fullest_prefix([]) == "0"
    assert waiting[0] == max(waiting)
    more = [name for name in (f"more-{n}" for n in range(400)) if bits_of(name).startswith("11")]
    assert page.fullest_prefix(more) == "11"


def test_orphan_cleaning_deletes_unused_pages_and_leaves() -> None:
    """G7: files that any snapshot, tag or branch needs stay; the folder is searched like the format's own."""
    store, table, old = many()
    store.put("tag/tag-kept", top(table).to_json())
    tagged = set(named_files(top(table), table.timeline, Known()))
    commit(table, "new", 0)
    expire(table, keep=1)
    for name in ("identities-page-left-0", "identities-leaf-left-1"):
        store.put(FOLDER + name, b"left over")
    left = {info.key for info in plan_orphans(table.timeline, table.schema, 2**62).files}
    needed = set(named_files(top(table), table.timeline, Known()))
    assert old.page is not None
    assert {FOLDER + name for name in identity_files(table)} - left == tagged | needed
    assert left >= {FOLDER + "identities-page-left-0", FOLDER + "identities-leaf-left-1"}
    assert tagged - needed
    store.delete_many(["tag/tag-kept"])
    apply_clean(plan_orphans(table.timeline, table.schema, 2**62))
    assert {FOLDER + name for name in identity_files(table)} == needed
    assert FOLDER + old.page not in needed
    assert commit(opened(store), "query-0", 7) == (1, True)
    assert [f for f in table.verify("all") if f.severity == "error"] == []


def test_orphan_cleaning_stops_where_a_page_is_missing() -> None:
    """H11: leaves that only the missing page names would look unused."""
    store, table, memory = many()
    store.delete_many([f"{FOLDER}{memory.page}"])
    with pytest.raises(TableCorrupt, match=f"{memory.page} is missing"):
        plan_orphans(table.timeline, table.schema, 2**62)


def test_a_page_that_came_after_the_plan_keeps_its_leaves() -> None:
    """H10: the second look sees the snapshots that came since."""
    store, table, memory = many()
    needed = {key[len(FOLDER) :] for key in named_files(top(table), table.timeline, Known())}
    kept = published(table, None)
    gone = f"snapshot/snapshot-{kept.id - 1}"
    data = store.get(gone)
    store.delete_many([gone])
    plan = plan_orphans(table.timeline, table.schema, 2**62)
    assert {FOLDER + name for name in needed} <= {info.key for info in plan.files}
    store.put(gone, data)
    apply_clean(plan)
    assert identity_files(table) == needed
    assert memory.page in needed


def test_expiry_leaves_pages_to_orphan_cleaning() -> None:
    """A commit under way may carry on a leaf that only the snapshot it builds on still needs."""
    _, table, _ = many()
    before = identity_files(table)
    commit(table, "new", 0)
    retention = Retention.of(table.schema.options, 2**50, retain_min=1, retain_max=1)
    apply_expiry(table.timeline, plan_expiry(table.timeline, table.schema, retention))
    assert table.timeline.snapshot_ids() == [top(table).id]
    assert identity_files(table) >= before


# ------------------------------------------------------------------------------------------------------------- a model


def history(seed: int, steps: int) -> Iterator[tuple[str, str]]:
    """Random operations on a table by several users, so that users return long after they were moved out."""
    dice = random.Random(seed)
    kinds = ["ours"] * dice.randint(4, 30) + ["batch", "foreign", "foreign batch", "expire", "cold"]
    for _ in range(steps):
        yield dice.choice(kinds), f"u{min(dice.randrange(60), dice.randrange(60))}"


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32))
def test_the_memory_equals_a_plain_dictionary(seed: int) -> None:
    """Whatever commits, spills and other writers come in between, each look-up gives the same answer as a plain dictionary."""
    with pytest.MonkeyPatch.context() as small:
        small.setattr(identity, "REMEMBERED_USERS", 4)
        small.setattr(pages, "PAGE_USERS", 6)
        small.setattr(pages, "LEAF_USERS", 5)
        small.setattr(identity_recall, "WALK", 3)
        table = opened(new_store())
        timeline = Timeline(table.store, TablePaths(), lambda threads, name: Inline())
        base, known, numbers = top(table), Known(), itertools.count()
        model: dict[str, Any] = {}
        for kind, user in history(seed, 250):
            if kind == "cold":
                known = Known()
                continue
            if kind == "expire":
                if memory_of(base).complete:
                    expire(table, keep=1)
                continue
            if kind.startswith("foreign"):
                identifier = next(numbers) if kind == "foreign" else BATCH_IDENTIFIER
                base = published(table, None, user, identifier, base=base)
                if kind == "foreign":
                    model[user] = (identifier, SnapshotRef(base.id, base.identity))
                continue
            found = recall(user if kind == "ours" else None, base, timeline, known)
            number = next(numbers) if kind == "ours" else None
            if kind == "ours":
                assert found.last == model.get(user)
                assert found.memory.complete
            ours = SnapshotRef(base.id + 1, f"snapshot-{next(COUNTER)}")
            memory, files = found.carried_on(user, number, ours, lambda kind: f"{kind}-{next(COUNTER)}")
            known.keep(ours, memory, files)
            for file in files:
                table.store.put(FOLDER + file.name, file.data)
            identifier = BATCH_IDENTIFIER if number is None else number
            base = published(table, memory, user, identifier, base=base, uuid=ours.identity)
            if number is not None:
                model[user] = (number, ours)
            assert len(memory.users) <= identity.REMEMBERED_USERS
        cold = Known()
        for user in (f"u{n}" for n in range(60)):
            assert recall(user, base, timeline, cold).last == model.get(user)


def test_a_memory_from_the_second_snapshot_on_is_incomplete() -> None:
    """G3: it does not know the user of snapshot 1."""
    assert Memory(since=1).complete
    assert not Memory(since=2).complete


def test_the_newer_of_two_memories_wins() -> None:
    """Its page, and what it says of a user whom both know."""
    ref = SnapshotRef(1, "a")
    newer, older = Memory(5, {"etl": (7, ref)}, "new"), Memory(2, {"etl": (3, ref), "job": (1, ref)}, "old")
    assert newer.over(older) == Memory(2, {"job": (1, ref), "etl": (7, ref)}, "new")
    assert Memory(5).over(older).page == "old"


def test_a_name_that_ends_like_a_hash_is_a_name() -> None:
    long = "x" * 10_000 + "sha256:"
    read = identity.users_from_json({long: [1, 2, "a"], name_of("y" * 10_000): [3, 4, "b"]})
    assert sorted(read) == sorted([name_of(long), name_of("y" * 10_000)])
