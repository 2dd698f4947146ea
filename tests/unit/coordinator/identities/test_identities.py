"""Exactly once (G3): a table's memory of its commit users, however many they are and whatever has expired."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

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
    gets,
    identity_files,
    new_store,
    opened,
    published,
    ref,
    remembering,
    top,
)

from lakelatch.backends.around.metered import MeteredStore
from lakelatch.backends.store import PutOutcome
from lakelatch.coordinator.commit.request import CommitRequest
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.coordinator.identities import memory as identity
from lakelatch.coordinator.identities import pages, trace
from lakelatch.coordinator.identities import recall as identity_recall
from lakelatch.coordinator.identities.memory import IDENTIFIERS_PROPERTY, Memory, memory_of, name_of, weight
from lakelatch.coordinator.identities.pages import parse_leaf, parse_page
from lakelatch.coordinator.identities.recall import Known, recall
from lakelatch.coordinator.identities.trace import Trace
from lakelatch.coordinator.journal.file_journal import FileJournal
from lakelatch.coordinator.journal.lines import Entry
from lakelatch.coordinator.maintenance.reach.reachable import Reach
from lakelatch.coordinator.maintenance.reach.roots import read_roots
from lakelatch.coordinator.protocol import events as ev
from lakelatch.coordinator.protocol.snapshot_ref import SnapshotRef
from lakelatch.core.errors import InvalidArgument, OutcomeUnknown
from lakelatch.core.metadata.snapshot import BATCH_IDENTIFIER
from lakelatch.core.paths import TablePaths


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
    earlier = opened(store).committer.lookup("query-0", 7)
    assert earlier is not None and earlier.snapshot_id == 1, "its last identifier is not the only one"
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
        assert commit(opened(store), f"query-{number}", 7) == (1 + number, True), number


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
        table.committer.commit(CommitRequest("APPEND", (), "query-0", 6, in_order=True))
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
        small.setattr(trace, "SHORT", 2)
        small.setattr(trace, "RECENT", 2)
        table = opened(new_store())
        timeline = Timeline(table.store, TablePaths(), lambda threads, name: Inline())
        base, known, dice = top(table), Known(), random.Random(seed)
        model: dict[str, dict[int, SnapshotRef]] = {}
        for kind, user in history(seed, 250):
            if kind == "cold":
                known = Known()
                continue
            if kind == "expire":
                if memory_of(base).complete:
                    expire(table, keep=1)
                continue
            if kind.startswith("foreign"):
                identifier = dice.randrange(40) if kind == "foreign" else BATCH_IDENTIFIER
                base = published(table, None, user, identifier, base=base)
                if kind == "foreign":
                    model.setdefault(user, {})[identifier] = SnapshotRef(base.id, base.identity)
                continue
            number = dice.randrange(40) if kind == "ours" else None
            found = recall(user if kind == "ours" else None, base, timeline, known, identifier=number)
            if number is not None:
                landed = model.setdefault(user, {})
                assert found.says(number) == (number in landed)
                assert found.memory.complete and not found.doubt_of(number)
                if number in landed:
                    number = None
            ours = SnapshotRef(base.id + 1, f"snapshot-{next(COUNTER)}")
            memory, files = found.carried_on(user, number, ours, lambda kind: f"{kind}-{next(COUNTER)}")
            known.keep(ours, memory, files)
            for file in files:
                table.store.put(FOLDER + file.name, file.data)
            identifier = BATCH_IDENTIFIER if number is None else number
            base = published(table, memory, user, identifier, base=base, uuid=ours.identity)
            if number is not None:
                model[user][number] = ours
            assert weight(memory.users) <= identity.REMEMBERED_USERS
        for user, number in itertools.product((f"u{n}" for n in range(60)), range(41)):
            found = recall(user, base, timeline, known, identifier=number)
            assert found.says(number) == (number in model.get(user, {}))
        for user, landed in ((user, landed) for user, landed in model.items() if landed):
            last = recall(user, base, timeline, Known()).last
            assert last is not None and last[0] == max(landed)


def test_a_memory_from_the_second_snapshot_on_is_incomplete() -> None:
    """G3: it does not know the user of snapshot 1."""
    assert Memory(since=1).complete
    assert not Memory(since=2).complete


def test_the_newer_of_two_memories_wins() -> None:
    """Its page, and what it says of a user whom both know."""
    ref = SnapshotRef(1, "a")
    newer = Memory(5, {"etl": Trace.of(7, ref)}, "new")
    older = Memory(2, {"etl": Trace.of(3, ref), "job": Trace.of(1, ref)}, "old")
    both = Trace(7, ref, ((3, 3), (7, 7)), ((3, 1),))
    assert newer.over(older) == Memory(2, {"job": Trace.of(1, ref), "etl": both}, "new")
    assert Memory(5).over(older).page == "old"


def test_a_name_that_ends_like_a_hash_is_a_name() -> None:
    long = "x" * 10_000 + "sha256:"
    read = identity.users_from_json({"users": {long: [1, 2, "a"], name_of("y" * 10_000): [3, 4, "b"]}})
    assert sorted(read) == sorted([name_of(long), name_of("y" * 10_000)])


def test_a_changelog_keeps_no_page(few: None) -> None:
    """Only a snapshot that a commit may be built on is asked for identities; a changelog that outlives it is not."""
    store = new_store()
    table = opened(store)
    for number in range(24):
        commit(table, f"query-{number}", number)
    old = top(table)
    page = memory_of(old).page
    assert page is not None
    for number in range(24, 48):
        commit(table, f"query-{number}", number)
    store.put(f"changelog/changelog-{old.id}", store.get(f"snapshot/snapshot-{old.id}"))
    infos = [store.head(f"{kind}/{kind}-{old.id}") for kind in ("changelog", "snapshot")]
    kept = Reach(table.timeline, table.schema, identities=True).kept_by(read_roots(table.timeline, infos))
    changelog, snapshot = (named.keys for named in kept)
    assert FOLDER + page in snapshot
    assert not [key for key in changelog if key.startswith(FOLDER)]
