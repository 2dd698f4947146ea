"""Cold readers and warm writers agree on the history: gaps in the ids, and tables that were replaced by others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fragile import Fragile
from histories import (
    aged,
    delete,
    expire,
    filled,
    foreign_append,
    ids,
    make,
    opened,
    roll_back,
    rows,
    slept_snapshot,
    values,
)

from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import PutOutcome, Unknown
from lakelatch.coordinator.history.base import Base, longest_age_ms
from lakelatch.coordinator.history.rule import Evidence, Gap, the_history
from lakelatch.coordinator.history.timeline import contiguous_runs
from lakelatch.core.errors import Fenced, LakelatchError, OutcomeUnknown, TableCorrupt
from lakelatch.core.metadata.snapshot import parse_snapshot

# ------------------------------------------------------------------------------------------------------- the rule itself


def known(earliest: int | None, latest: int | None, *, gone: set[int], foreign: set[int], kin: bool) -> Evidence:
    return Evidence(earliest, latest, lambda n: n in gone, lambda n: n in foreign, lambda upper, lower: kin)


LOW, HIGH = range(1, 4), range(7, 10)


@pytest.mark.parametrize(
    ("earliest", "latest", "more", "expected"),
    [
        (1, 3, {}, LOW),
        (2, 3, {}, LOW),
        (1, None, {}, LOW),
        (1, 5, {}, LOW),
        (1, 9, {}, LOW),
        (1, 9, {"kin": False}, None),
        (1, None, {"kin": False}, None),
        (1, 3, {"kin": False}, LOW),
        (1, 9, {"foreign": {7}}, None),
        (1, 3, {"foreign": {7}}, LOW),
        (1, 9, {"gone": {3}}, HIGH),
        (1, 3, {"gone": {3}}, HIGH),
        (7, 9, {}, HIGH),
        (8, 3, {}, HIGH),
        (7, None, {}, HIGH),
        (None, 3, {}, LOW),
        (5, 3, {}, LOW),
        (None, 9, {}, HIGH),
        (None, 7, {}, HIGH),
        (None, 3, {"gone": {3}}, HIGH),
        (None, None, {}, None),
        (5, 12, {}, None),
        (None, None, {"gone": {3}}, HIGH),
    ],
)
def test_the_evidence_decides_which_run_is_the_history(
    earliest: int | None, latest: int | None, more: dict[str, Any], expected: range | None
) -> None:
    """H25, the table of decision 16; None: undecided."""
    settings = {"gone": set[int](), "foreign": set[int](), "kin": True, **more}
    found = the_history([LOW, HIGH], lambda: known(earliest, latest, **settings))
    assert isinstance(found, Gap) if expected is None else found == expected


def test_an_undecided_history_names_the_gap_and_the_hints() -> None:
    found = the_history([LOW, range(7, 8)], lambda: known(5, None, gone=set(), foreign=set(), kin=True))
    assert isinstance(found, Gap)
    assert found.reason == (
        "the snapshots 1 to 3, 7 exist, with a gap between them; EARLIEST says 5 and LATEST says nothing"
    )


@pytest.mark.parametrize(
    ("present", "earliest", "expected"), [([1, 2, 4, 5, 9], 4, [4, 5]), ([1, 3, 4, 9], 9, [9]), ([1, 3, 9], 1, [1])]
)
def test_of_three_runs_the_one_that_holds_earliest_is_the_history(
    present: list[int], earliest: int, expected: list[int]
) -> None:
    found = the_history(
        contiguous_runs(present), lambda: known(earliest, expected[-1], gone=set(), foreign=set(), kin=True)
    )
    assert not isinstance(found, Gap)
    assert list(found) == expected


# --------------------------------------------------------------------------------------------- a fork is never the table


@pytest.mark.parametrize("hint", ["as written", "never written"])
def test_a_fork_beside_a_rollback_is_not_the_table_though_nothing_ever_expired(store: Fragile, hint: str) -> None:
    """G2, H25: rows that were reported as not added are not found, and the next writer builds below."""
    table = filled(store, 1, 2, 3)
    if hint == "never written":
        store.delete_many(["snapshot/EARLIEST"])
    store.before["create snapshot/snapshot-4"] = lambda: roll_back(store, 1)
    with pytest.raises(Fenced):
        table.append(rows(4))
    assert ids(store) == [1, 4]
    assert values(store) == [1]
    assert opened(store).append(rows(5)).snapshot_id == 2
    assert values(store) == [1, 5]


def test_without_any_hint_no_writer_builds_or_gets_a_wrong_answer(store: Fragile) -> None:
    """G2: neither fenced nor committed; the message names the gap and the next step."""
    table = filled(store, 1, 2, 3)

    def no_hints() -> None:
        roll_back(store, 1)
        store.delete_many(["snapshot/EARLIEST", "snapshot/LATEST"])

    store.before["create snapshot/snapshot-4"] = no_hints
    with pytest.raises(OutcomeUnknown, match="1, 4 exist, with a gap"):
        table.append(rows(4))
    with pytest.raises(TableCorrupt, match=r"1, 4 exist, with a gap.*cannot be decided.*snapshot/EARLIEST"):
        opened(store).append(rows(5))
    assert ids(store) == [1, 4]
    store.put("snapshot/EARLIEST", b"1")
    store.put("snapshot/LATEST", b"1")
    assert opened(store).append(rows(5)).snapshot_id == 2


def test_a_leftover_of_an_expiry_under_way_is_not_the_history(store: Fragile) -> None:
    """H25: Apache Paimon's expiry deletes lists, then snapshots, one of which fails, and writes EARLIEST at its end."""
    table = filled(store, 1, 2, 3, 4)
    store.delete_many(["snapshot/LATEST"])
    first = table.timeline.snapshot(1)
    store.delete_many([f"manifest/{name}" for name in (first.base_manifest_list, first.delta_manifest_list)])
    delete(store, 2)
    assert store.get("snapshot/EARLIEST") == b"1"
    assert values(store) == [1, 2, 3, 4]
    assert opened(store).append(rows(5)).snapshot_id == 5


def test_a_fork_on_the_name_that_earliest_still_has_is_not_taken_for_the_table(store: Fragile) -> None:
    """H25: EARLIEST is written at the end of an expiry; until then this fork looks like the target of a rollback."""
    table = filled(store, 1, 2, 3, 4)
    old = table.timeline.snapshot(1)
    other = Fragile()
    make(other)
    filled(other, 9)
    for info in other.list("manifest/"):
        store.put(info.key, other.get(info.key))
    delete(store, 1, 2)
    store.put("snapshot/snapshot-1", other.get("snapshot/snapshot-1"))
    assert table.timeline.snapshot(1).identity != old.identity
    with pytest.raises(TableCorrupt, match="gap"):
        opened(store).append(rows(5))
    store.put("snapshot/EARLIEST", b"3")
    assert values(store) == [1, 2, 3, 4]


def test_a_base_that_expired_in_order_above_a_leftover_is_not_a_fork(store: Fragile) -> None:
    """H6: an older expiry failed to delete snapshot 1, which does not make any commit a fork."""
    table = filled(store, 1, 2, 3)

    def expiring() -> None:
        store.put("snapshot/EARLIEST", b"4")
        delete(store, 2, 3)

    store.before["get snapshot/snapshot-3"] = expiring
    assert table.append(rows(4)).snapshot_id == 4
    assert ids(store) == [1, 4]
    assert values(store) == [1, 2, 3, 4]


# ------------------------------------------------------------------------------------------------------------- EARLIEST


def test_the_first_commit_writes_earliest_before_it_publishes(store: Fragile) -> None:
    """H25."""
    there: list[bytes] = []
    store.before["create snapshot/snapshot-1"] = lambda: there.append(store.get("snapshot/EARLIEST"))
    filled(store, 1)
    assert there == [b"1"]


def test_a_table_without_earliest_gets_it_from_the_next_cold_commit(store: Fragile) -> None:
    """H25: the oldest existing id; a warm writer that has seen it sends no request."""
    table = filled(store, 1, 2, 3)
    store.delete_many(["snapshot/EARLIEST"])
    delete(store, 1)
    assert table.append(rows(4)).requests == 7
    assert "snapshot/EARLIEST" not in [info.key for info in store.list("snapshot/")]
    opened(store).append(rows(5))
    assert store.get("snapshot/EARLIEST") == b"2"


def test_earliest_that_an_expiry_has_raised_meanwhile_is_not_lowered(store: Fragile) -> None:
    """H7."""
    filled(store, 1, 2)
    store.delete_many(["snapshot/EARLIEST"])
    store.before["create snapshot/EARLIEST"] = lambda: store.put("snapshot/EARLIEST", b"2")
    opened(store).append(rows(3))
    assert store.get("snapshot/EARLIEST") == b"2"


def test_a_commit_does_not_begin_a_history_without_earliest(store: Fragile) -> None:
    """G2: while it is not known whether EARLIEST exists, nothing is published."""
    table = opened(store)
    store.put_if_absent = lambda key, data: (  # type: ignore[method-assign]
        Unknown("timeout") if key.endswith("EARLIEST") else MemoryStore.put_if_absent(store, key, data)
    )
    with pytest.raises(LakelatchError, match="EARLIEST"):
        table.append(rows(1))
    assert ids(store) == []


# ------------------------------------------------------------------------------------------ names that were freed (H6, H9)


def test_a_base_below_earliest_proves_nothing(store: Fragile) -> None:
    """G2, H6: 1 to 3 expire, a writer that slept creates 3 again, and a late second send of 2, its base, lands once more."""
    filled(store, 1)
    sleeper = opened(store)
    sleep = aged(sleeper, 20.0)
    sleeper.append(rows(2))
    base = store.get("snapshot/snapshot-2")

    def meanwhile() -> None:
        sleep()
        filled(store, 3, 4)
        expire(store)
        MemoryStore.put_if_absent(store, "snapshot/snapshot-2", base)

    store.before["create snapshot/snapshot-3"] = meanwhile
    with pytest.raises(Fenced):
        sleeper.append(rows(99))
    assert ids(store) == [2, 3, 4], "one run, and the base is there"
    assert values(store) == [1, 2, 3, 4]


def test_an_earliest_whose_snapshot_does_not_exist_proves_nothing(store: Fragile) -> None:
    """H7: garbage in a hint does not make a commit a fork."""
    table = filled(store, 1)
    minutes = aged(table, 20.0)
    table.append(rows(2))

    def forged() -> None:
        minutes()
        store.put("snapshot/EARLIEST", b"1000")

    store.before["create snapshot/snapshot-3"] = forged
    assert table.append(rows(3)).snapshot_id == 3


def test_a_base_that_an_expiry_is_about_to_delete_is_not_a_fork(store: Fragile) -> None:
    """H6: EARLIEST is raised first; this snapshot is the oldest that stays, and the next one names it."""
    table = filled(store, 1)
    minutes = aged(table, 20.0)
    table.append(rows(2))

    def create(key: str, data: bytes) -> PutOutcome:
        answer = MemoryStore.put_if_absent(store, key, data)
        if key == "snapshot/snapshot-3" and not done:
            done.append(True)
            minutes()
            opened(store).append(rows(4))
            store.put("snapshot/EARLIEST", b"3")
        return answer

    done: list[bool] = []
    store.put_if_absent = create  # type: ignore[method-assign]
    assert table.append(rows(3)).snapshot_id == 3


def test_a_name_that_was_freed_and_taken_again_proves_no_loss(store: Fragile) -> None:
    """G3, H9: the snapshot landed unanswered, another engine built on it, all but the newest expired; a sleeper took the name."""
    table = filled(store, 1)
    slept = slept_snapshot(store)
    sent: list[bytes] = []

    def create(key: str, data: bytes) -> PutOutcome:
        if key != "snapshot/snapshot-2" or sent:
            return MemoryStore.put_if_absent(store, key, data)
        sent.append(data)
        foreign_append(store, 3, 3, on=parse_snapshot(data, key))
        store.put("snapshot/LATEST", b"3")
        store.put("snapshot/EARLIEST", b"3")
        delete(store, 1)
        MemoryStore.put_if_absent(store, key, slept)
        return Unknown("timeout")

    store.put_if_absent = create  # type: ignore[method-assign]
    with pytest.raises(OutcomeUnknown, match=r"another writer.*no longer reaches") as unknown:
        table.append(rows(2))
    with pytest.raises(OutcomeUnknown):
        unknown.value.resolve(timeout=0)
    assert values(store) == [1, 2, 3], "its rows are there once"


def test_a_run_beside_a_snapshot_that_is_gone_inherits_nothing(store: Fragile) -> None:
    """Two runs of ids belong together only if both ends of the gap can be read."""
    timeline = filled(store, 1, 2, 3, 4).timeline
    assert timeline._inherits(4, 3)
    store.delete_many(["snapshot/snapshot-2"])
    assert not timeline._inherits(3, 2)
    assert not timeline._inherits(5, 4)


def test_a_fork_above_the_history_does_not_stop_expiry(store: Fragile) -> None:
    """H25: the history that the hints show expires; the fork above it is not touched."""
    filled(store, 1)
    fork = parse_snapshot(slept_snapshot(store), "snapshot/snapshot-2")
    filled(store, 2, 3, 4)
    store.put("snapshot/snapshot-9", replace(fork, id=9).to_json())
    expire(store)
    assert ids(store) == [4, 9]


def test_knowledge_is_fresh_up_to_the_millisecond_of_its_age() -> None:
    base = Base(None, (), 0, seen_ms=1000.0)
    longest = longest_age_ms(3_600_000)
    assert base.is_fresh(1000.0 + longest, 3_600_000)
    assert not base.is_fresh(1000.5 + longest, 3_600_000)
