"""Exactly once for jobs in any order (G3): which identifiers of a user have landed, not only the largest."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest
from identities import commit, expire, foreign, gets, identity_files, new_store, opened, top

from lakelatch.coordinator.commit.request import CommitRequest
from lakelatch.coordinator.identities import memory as identity
from lakelatch.coordinator.identities import pages
from lakelatch.coordinator.identities.memory import IDENTIFIERS_PROPERTY, memory_of
from lakelatch.coordinator.identities.recall import recall
from lakelatch.coordinator.identities.trace import RECENT, SHORT, Trace, landed_to_json, trace_from_json
from lakelatch.coordinator.protocol.snapshot_ref import SnapshotRef
from lakelatch.core.errors import InvalidArgument, OutcomeUnknown, TableCorrupt


def shuffled(numbers: range, seed: int = 7) -> list[int]:
    made = list(numbers)
    random.Random(seed).shuffle(made)
    return made


def property_of(table: Any) -> Any:
    return json.loads(top(table).properties[IDENTIFIERS_PROPERTY])


def test_identifiers_land_once_in_any_order_and_each_rerun_gets_its_receipt() -> None:
    store = new_store()
    landed: dict[int, int] = {}
    for number in shuffled(range(60)):
        landed[number], replayed = commit(opened(store), "hourly", number)
        assert not replayed
    for number in shuffled(range(60), 8):
        assert commit(opened(store), "hourly", number) == (landed[number], True)
    assert memory_of(top(opened(store))).users["hourly"].ranges == ((0, 59),)


def test_a_gap_stays_open_until_its_identifier_lands() -> None:
    store = new_store()
    table = opened(store)
    for number in (5, 8):
        commit(table, "hourly", number)
    for user in range(300):  # until the user has left the property
        commit(table, f"other-{user}", 1)
    for number, replayed in (
        (5, True),
        (7, False),
        (7, True),
        (6, False),
        (8, True),
        (9, False),
        (0, False),
        (1, False),
    ):
        assert commit(opened(store), "hourly", number)[1] is replayed, number
    assert commit(opened(store), "hourly", 4)[1] is False


def test_a_receipt_names_the_snapshot_also_long_afterwards() -> None:
    """It is looked for among the snapshots that are left, by halves; of one that has expired, the landing alone is known."""
    store = new_store()
    table = opened(store)
    for number in range(120):
        commit(table, "etl", 2 * number)
    store.reset()
    found = opened(store).committer.lookup("etl", 6)
    assert found is not None and found.snapshot_id == 4
    uuid = found.snapshot_uuid
    assert uuid == table.timeline.snapshot(4).uuid
    assert store.snapshot().by_operation["get"] < 25
    expire(table, keep=1)
    expired = opened(store).committer.lookup("etl", 6)
    assert expired is not None
    assert (expired.snapshot_id, expired.snapshot_uuid, expired.replayed) == (0, None, True)
    assert commit(opened(store), "etl", 6) == (0, True)
    recent = opened(store).committer.lookup("etl", 2 * (119 - RECENT))
    assert recent is not None and recent.snapshot_id == 120 - RECENT, "of the last ones, the id is remembered"
    assert commit(opened(store), "etl", 238) == (120, True)


def test_many_gaps_cost_two_reads_more_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """And none for the next identifier. The property keeps the most recent ranges of such a user only."""
    monkeypatch.setattr(pages, "PAGE_USERS", 300)
    store = new_store()
    table = opened(store)
    for number in range(1_000):
        commit(table, "clock", 3_600 * number)
        assert sum(len(trace.ranges) for trace in memory_of(top(table)).users.values()) <= identity.REMEMBERED_USERS
    for user in range(20):
        commit(table, f"other-{user}", 1)
    assert any("leaf" in name for name in identity_files(table))
    without = gets(store, opened(store), "batch")
    assert len(top(table).to_json()) < 12_000
    for number in (1, 3_599, 1_800_001, 3_599_999):
        assert gets(store, opened(store), "clock", number) <= without + 2, number
    for number in range(0, 1_000, 37):
        assert commit(opened(store), "clock", 3_600 * number)[1], number
    for number in (1, 3_599, 1_800_001, 3_599_999):
        assert commit(opened(store), "clock", number)[1], number
    assert gets(store, opened(store), "clock", 3_600 * 1_000) <= without


def test_a_user_with_many_gaps_does_not_crowd_out_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "REMEMBERED_USERS", 40)
    store = new_store()
    table = opened(store)
    for number in range(5):
        commit(table, f"other-{number}", 1)
    for number in range(100):
        commit(table, "clock", 2 * number)
        commit(table, "other-3", number + 2)
    held = memory_of(top(table)).users
    assert len(held["clock"].ranges) <= 40 and held["clock"].unread == 1
    assert held["other-3"].ranges == ((1, 101),)
    for number in range(100):
        assert commit(opened(store), "clock", 2 * number)[1]


@pytest.mark.parametrize("commits_next", [False, True])
def test_who_only_asks_is_told_of_every_identifier_as_who_commits(
    commits_next: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The older ones of a user with many gaps are in the page, those of a user that was away for long are in a leaf."""
    monkeypatch.setattr(identity, "REMEMBERED_USERS", 40)
    monkeypatch.setattr(pages, "PAGE_USERS", 60)
    store = new_store()
    table = opened(store)
    for number in range(20):
        commit(table, "away", 2 * number)
    for number in range(60):
        commit(table, "clock", 2 * number)
    for user in range(60):
        commit(table, f"other-{user}", 1)
    commit(table, "clock", 120)
    assert {"leaf", "page"} <= {name.split("-")[1] for name in map(name_in_folder, identity_files(table))}
    for user, first, last in (("away", 1, 40), ("clock", 21, 120)):
        for number in range(last):
            found = opened(store).committer.lookup(user, number, commits_next=commits_next)
            assert (found and found.snapshot_id) == (None if number % 2 else first + number // 2), (user, number)


def name_in_folder(key: str) -> str:
    return key.rpartition("/")[2]


# -------------------------------------------------------------------------------------------------- what is not known


def test_below_the_last_identifier_of_an_earlier_form_nothing_is_known() -> None:
    """Neither committed nor not committed: an earlier version remembered the last identifier of a user alone."""
    store = new_store()
    table = opened(store)
    commit(table, "etl", 5)
    commit(table, "etl", 8)
    old = top(table)
    raw = json.loads(old.properties[IDENTIFIERS_PROPERTY])
    del raw["landed"]
    written = replace(
        old, id=3, uuid="0" * 8, commit_user="x", properties={**old.properties, IDENTIFIERS_PROPERTY: json.dumps(raw)}
    )
    store.put("snapshot/snapshot-3", written.to_json())
    for number in (5, 7):
        with pytest.raises(OutcomeUnknown, match=f"identifier {number} of 'etl' may have landed.*below 8") as unknown:
            commit(opened(store), "etl", number)
        assert not unknown.value.sent and "another commit user" in str(unknown.value.next_step)
        with pytest.raises(OutcomeUnknown):
            opened(store).committer.lookup("etl", number)
        with pytest.raises(OutcomeUnknown):
            unknown.value.resolve(timeout=0)
    assert commit(opened(store), "etl", 8) == (2, True)
    assert commit(opened(store), "etl", 11)[1] is False
    assert commit(opened(store), "etl", 9)[1] is False, "what came since is known"
    assert commit(opened(store), "etl", 9)[1] is True
    with pytest.raises(OutcomeUnknown, match="below 8"):
        commit(opened(store), "etl", 7)
    assert commit(opened(store), "new", 1)[1] is False


def test_below_the_last_identifier_of_another_engine_nothing_is_known_once_its_snapshots_expired() -> None:
    store = new_store()
    table = opened(store)
    for number in (3, 5, 9):
        foreign(table, "flink", number)
    assert commit(opened(store), "flink", 4)[1] is False, "all of its snapshots are there"
    foreign(table, "spark", 2)
    foreign(table, "spark", 6)
    expire(table, keep=2)
    assert commit(opened(store), "spark", 6)[1] is True
    assert commit(opened(store), "spark", 2)[1] is True
    with pytest.raises(OutcomeUnknown, match="below 6"):
        commit(opened(store), "spark", 3)
    commit(opened(store), "spark", 7)
    with pytest.raises(OutcomeUnknown, match="below 6"):
        commit(opened(store), "spark", 3)


def test_a_larger_identifier_may_lie_in_the_page_below_another_engines_commit() -> None:
    """That commit says of its user nothing but its own identifier."""
    store = new_store()
    table = opened(store)
    commit(table, "both", 90)
    for user in range(250):
        commit(table, f"other-{user}", 1)
    foreign(table, "both", 20)
    with pytest.raises(InvalidArgument, match="50 of 'both' is not above 90"):
        opened(store).committer.commit(CommitRequest("APPEND", (), "both", 50, in_order=True))
    assert commit(opened(store), "both", 90)[1] is True
    assert commit(opened(store), "both", 20)[1] is True
    assert commit(opened(store), "both", 50)[1] is False


def test_a_name_belongs_to_the_query_that_used_it_first() -> None:
    """Two queries number their batches alike: the second one's would be taken for repetitions of the first one's."""
    store = new_store()

    def batch(number: int, query: str, user: str = "pages") -> tuple[int, bool]:
        request = CommitRequest("APPEND", (), user, number, in_order=True, query=query)
        receipt = opened(store).committer.commit(request)
        return receipt.snapshot_id, receipt.replayed

    assert batch(0, "q1") == (1, False)
    assert batch(0, "q1") == (1, True)
    for number in (0, 1, 7):
        with pytest.raises(
            InvalidArgument, match=r"'pages' belongs to query q1, and this is query q2.*name of its own"
        ):
            batch(number, "q2")
        with pytest.raises(InvalidArgument, match="belongs to query q1"):
            opened(store).committer.lookup("pages", number, query="q2")
    assert batch(1, "") == (2, False), "where the query is not known, nothing is compared"
    for user in range(250):
        commit(opened(store), f"other-{user}", 1)
    expire(opened(store), keep=1)
    with pytest.raises(InvalidArgument, match="belongs to query q1"):
        batch(2, "q2")
    assert batch(2, "q1")[1] is False
    assert batch(0, "q2", "clicks")[1] is False


# ------------------------------------------------------------------------------------------------- what others read


def test_earlier_versions_find_the_largest_identifier_where_they_look_for_the_last() -> None:
    """They refuse smaller ones, and land none twice; what they write says nothing of the others."""
    store = new_store()
    table = opened(store)
    for number in (5, 8, 7):
        commit(table, "hourly", number)
    raw = property_of(table)
    assert raw["users"]["hourly"][:2] == [8, 2]
    assert set(raw) == {"since", "page", "users", "landed"}
    commit(table, "once", 3)
    assert "once" not in property_of(table)["landed"], "a user with one commit takes no more room than before"


@pytest.mark.parametrize(
    "landed",
    [
        7,
        [[8], [], None],
        [[8, 0], [], None, 3],
        [[8], [], None, 0],
        [[7, 0], [], None, 0],
        [[5, 1, 1, 1], [], None, 0],
        [[8, 0], [1], None, 0],
        [[8, 0], [], "x", 0],
        [[9, -1], [], None, 0],
        [[], [], None, 0],
        [["8", 0], [], None, 0],
        [[8, 0], [], None, 0, 7],
        [[8, 0], [], None, 0, "q", "r"],
    ],
)
def test_garbled_ranges_are_reported(landed: object) -> None:
    table = opened(new_store())
    text = json.dumps({"since": 1, "page": None, "users": {"a": [8, 2, "x"]}, "landed": {"a": landed}})
    snapshot = replace(top(table), id=7, properties={IDENTIFIERS_PROPERTY: text})
    with pytest.raises(TableCorrupt, match="garbled"):
        memory_of(snapshot)


def test_a_trace_is_read_as_it_was_written() -> None:
    of = SnapshotRef(9, "u9")
    for trace in (
        Trace.of(0, of),
        Trace(2**63 - 2, of, ((0, 4), (7, 7), (9, 2**63 - 2)), ((4, 3), (7, 8)), 5, 2),
        Trace.of(3, of, query="q"),
    ):
        again = json.loads(json.dumps(landed_to_json(trace)))
        assert trace_from_json(Trace.of(trace.last, of), again, "a") == trace


def test_a_trace_over_an_older_one_loses_nothing() -> None:
    older = Trace(9, SnapshotRef(4, "a"), ((1, 3), (9, 9)), ((3, 2),), floor=2, unread=2)
    newer = Trace.of(5, SnapshotRef(6, "b"), 1)
    both = newer.over(older)
    assert both == Trace(9, SnapshotRef(4, "a"), ((1, 3), (5, 5), (9, 9)), ((3, 2), (5, 6)), 2, 1)
    assert [n for n in range(12) if n in both] == [1, 2, 3, 5, 9]
    assert [n for n in range(4) if both.doubts(n)] == [0]
    long = Trace(99, SnapshotRef(1, "a"), tuple((n, n) for n in range(1, 100, 2)))
    assert (len(long.short().ranges), long.short().unread, long.short().last) == (SHORT, 1, 99)
    assert long.short().settles(100) and not long.short().settles(2) and long.settles(2)


def test_two_commits_of_one_user_in_one_snapshot_are_both_remembered() -> None:
    """A leader and its rider, where both users were looked up in a page."""
    store = new_store()
    table = opened(store)
    commit(table, "etl", 1)
    found = recall("etl", top(table), table.timeline, identifier=2)
    after = found.after([("etl", 2, ""), ("etl", 4, "")], SnapshotRef(2, "x"))
    assert after.users["etl"].ranges == ((1, 2), (4, 4))
