"""What an expiry reads, and that nothing that came back is deleted: files that were removed and added again, at any time."""

from __future__ import annotations

import itertools
import json
import time
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.backends.store import ObjectInfo
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.coordinator.maintenance.expiry.expire import ExpiryPlan, apply_expiry, plan_expiry
from lakelatch.coordinator.maintenance.expiry.retention import Retention
from lakelatch.coordinator.maintenance.reach import overwrites
from lakelatch.coordinator.maintenance.reach.reachable import Reach
from lakelatch.core.paths import TablePaths
from lakelatch.table.table import Table

COUNTER = itertools.count()
SCHEMA = pa.schema([("p", pa.string()), ("v", pa.int64())])
KEYED = pa.schema([pa.field("k", pa.int32(), nullable=False), ("v", pa.int64())])


def rows(*values: int) -> pa.Table:
    return pa.table({"p": ["a"] * len(values), "v": list(values)})


def made() -> Table:
    return ll.create_table(f"memory://overwrites-{next(COUNTER)}/t", SCHEMA, partition_by=["p"])


def replaced(table: Table, times: int, first: int = 0) -> None:
    """So many overwrites of the same partition."""
    for value in range(first, first + times):
        table.overwrite(rows(value), partition={"p": "a"})
    table.committer.settle()


def restored(table: Table, snapshot: int) -> None:
    """A rollback whose tag somebody deletes."""
    table.rollback(snapshot=snapshot)
    table.committer.settle()
    table.store.delete_many([info.key for info in table.store.list("tag/")])


def expire(table: Table, keep: int, store: Any = None) -> ExpiryPlan:
    timeline = Timeline(store or table.store, TablePaths())
    retention = Retention.of(table.schema.options, 2**62, retain_max=keep, retain_min=keep, max_deletes=1_000)
    return apply_expiry(timeline, plan_expiry(timeline, table.schema, retention))


def data_files(table: Table, snapshot: int) -> set[str]:
    return set(table.at(snapshot=snapshot).files()["file_path"].to_pylist())


class Counting:
    """Records what is read and written."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.read: list[str] = []
        self.listed: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def get(self, key: str) -> bytes:
        self.read.append(key)
        return self._store.get(key)  # type: ignore[no-any-return]


def test_the_cost_goes_with_what_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    """No list and no manifest of a snapshot that stays is read, except of the oldest; a later run reads only what is new."""
    monkeypatch.setattr(overwrites, "REMEMBERED_FROM", 8)
    table = made()
    for value in range(40):
        table.append(rows(value))
    table.committer.settle()
    first = Counting(table.store)
    assert len(expire(table, 37, first).snapshot_ids) == 3
    metadata = [key for key in first.read if key.startswith("manifest/")]
    assert len(metadata) <= 4 * 3 and len(set(metadata)) == len(metadata)
    assert len([key for key in first.read if key.startswith("snapshot/snapshot-")]) <= 40 + 7
    table.append(rows(40))
    table.committer.settle()
    second = Counting(table.store)
    assert expire(table, 37, second).snapshot_ids == (4,)
    assert len(second.read) <= 20, second.read
    table.append(rows(41))
    table.committer.settle()
    assert table.verify("all") == []


@pytest.mark.parametrize("broken", [b"", b"{}", b"[1]", b'{"version": 1}', "identity", "after", "version", "times"])
def test_what_is_remembered_is_not_believed_without_proof(broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """H7: a note that is garbage, or of another history, costs time and no file."""
    monkeypatch.setattr(overwrites, "REMEMBERED_FROM", 4)
    table = made()
    replaced(table, 5)
    replaced(table, 2, first=10)
    restored(table, 2)
    replaced(table, 6, first=20)
    note = {
        "version": 1,
        "after": 0,
        "snapshot": 12,
        "identity": table.timeline.snapshot(12).identity,
        "overwrites": [],
    }
    if isinstance(broken, str):
        note |= {"identity": {"identity": "another"}, "after": {"after": 11}, "version": {"version": 2}}.get(broken, {})
        if broken == "times":
            note["overwrites"] = [[8, "yesterday", []]]
    data = json.dumps(note).encode() if isinstance(broken, str) else broken
    table.store.put(overwrites.KEY, data)
    assert expire(table, 9).snapshot_ids == (1, 2, 3, 4, 5)
    assert data_files(table, 8) <= {info.key for info in table.store.list("")}
    assert table.verify("all", data=True) == []


def test_an_overwrite_is_as_old_as_the_oldest_file_that_it_brings_back() -> None:
    """A newer one beside it does not hide it."""
    table = made()
    for value in range(3):
        table.append(rows(value))
        time.sleep(0.003)
    table.overwrite(rows(9), partition={"p": "a"})
    restored(table, 3)
    times = [e.file.creation_time for e in table.entries() if e.file.row_count == 1]
    timeline = table.timeline
    roots = {number: ObjectInfo(timeline.paths.snapshot(number), 0, 0) for number in timeline.snapshot_ids()}
    found = overwrites.find_overwrites(Reach(timeline, table.schema), roots, timeline.snapshot(3)).found
    assert [one.id for one in found] == [4, 5]
    assert found[-1].oldest_ms == min(times) < max(times)


@pytest.mark.parametrize("again", [True, False])
def test_a_file_that_came_back_stays_for_as_long_as_a_snapshot_has_it(again: bool) -> None:
    """Removed by 3, back in 8, perhaps removed again by 9: each expiry in between keeps it, and the last one deletes it."""
    table = made()
    replaced(table, 7)
    (path,) = data_files(table, 2)
    restored(table, 2)
    if again:
        replaced(table, 1, first=7)
    for value in range(4):
        table.append(rows(value))
    table.committer.settle()
    newest = table.timeline.snapshot_ids()[-1]
    for oldest in range(2, newest + 1):
        expire(table, newest - oldest + 1)
        there = path in {info.key for info in table.store.list("p=a/")}
        assert there is (oldest <= 8 or not again), f"with {oldest} as the oldest"
        assert Table(table.store, table.schema).verify("all", data=True) == []


def test_a_file_that_left_and_came_back_within_one_run_stays() -> None:
    """Removed by 3 and back in 8, of which both expire at once."""
    table = made()
    replaced(table, 7)
    restored(table, 2)
    for value in range(3):
        table.append(rows(value))
    table.committer.settle()
    assert expire(table, 2).snapshot_ids[-1] == 9
    assert Table(table.store, table.schema).verify("all", data=True) == []


def test_a_rollback_needs_no_tag_for_expiry() -> None:
    """G7: two rollbacks whose tags were deleted, and overwrites in between."""
    table = made()
    replaced(table, 4)
    for value in (10, 20):
        restored(table, 2)
        replaced(table, 2, first=value)
    for value in range(3):
        table.append(rows(value))
    table.committer.settle()
    ids = table.timeline.snapshot_ids()
    wanted = {n: sorted(table.at(snapshot=n).to_arrow()["v"].to_pylist()) for n in ids}
    for keep in range(len(ids), 0, -1):
        expire(table, keep)
        again = Table(table.store, table.schema)
        assert {n: sorted(again.at(snapshot=n).to_arrow()["v"].to_pylist()) for n in again.timeline.snapshot_ids()} == {
            n: wanted[n] for n in ids[-keep:]
        }
        assert again.verify("all", data=True) == []


@pytest.mark.parametrize("emptied", [True, False])
def test_index_files_that_came_back_stay(emptied: bool) -> None:
    """Deletion vectors have no creation time, and may come back without any data file: their names are compared."""
    options = {"bucket": "1", "deletion-vectors.enabled": "true", "commit.min-retry-wait": "1 ms"}
    url = f"memory://overwrites-{next(COUNTER)}/t"
    table = ll.create_table(url, KEYED, primary_key=["k"], options=options)
    table.upsert(pa.table({"k": pa.array(range(50), pa.int32()), "v": range(50)}))
    for value in range(2):
        table.upsert(pa.table({"k": pa.array([value], pa.int32()), "v": [value + 100]}))
    earlier = table.timeline.snapshot_ids()[-1]
    if emptied:
        table.truncate()
    else:
        table.upsert(pa.table({"k": pa.array([7], pa.int32()), "v": [200]}))
    assert (table.plan_rollback(snapshot=earlier).added == ()) is not emptied
    restored(table, earlier)
    for value in range(2):
        table.upsert(pa.table({"k": pa.array([9 + value], pa.int32()), "v": [9]}))
    table.committer.settle()
    ids = table.timeline.snapshot_ids()
    wanted = {n: table.at(snapshot=n).to_arrow().sort_by("k").to_pylist() for n in ids}
    for keep in range(len(ids), 0, -1):
        expire(table, keep)
        again = Table(table.store, table.schema)
        assert all(again.at(snapshot=n).to_arrow().sort_by("k").to_pylist() == wanted[n] for n in ids[-keep:])
        assert again.verify("all", data=True) == []


def test_a_gap_in_the_ids_makes_the_run_ask_everyone() -> None:
    """H25: what is not one row of snapshots is not reasoned about."""
    table = made()
    replaced(table, 8)
    restored(table, 2)
    expected = data_files(table, 9)
    table.store.delete_many(["snapshot/snapshot-6"])
    table.store.put("snapshot/EARLIEST", b"7")
    expire(table, 2)
    assert expected <= {info.key for info in table.store.list("p=a/")}


@pytest.mark.parametrize("keep", [3, 2, 1])
def test_a_snapshot_that_was_renamed_over_makes_the_run_ask_everyone(keep: int) -> None:
    """Apache Paimon without a lock puts another snapshot 3 in place of the one that 4 was built on. What it deletes is live."""
    table = made()
    for value in range(5):
        table.append(rows(value))
    table.committer.settle()
    other = Table(type(table.store)(f"memory://overwrites-{next(COUNTER)}/t"), table.schema)
    for info in table.store.list(""):
        if info.key not in {f"snapshot/snapshot-{n}" for n in (3, 4, 5)}:
            other.store.put(info.key, table.store.get(info.key))
    other.truncate()
    other.committer.settle()
    for info in other.store.list(""):
        if info.key.startswith("manifest/") or info.key == "snapshot/snapshot-3":
            table.store.put(info.key, other.store.get(info.key))
    again = Table(table.store, table.schema)
    wanted = again.to_arrow().num_rows
    expire(again, keep)
    assert Table(table.store, table.schema).to_arrow().num_rows == wanted == 5
