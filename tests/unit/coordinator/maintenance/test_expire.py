"""Snapshot expiry on real tables in memory: what is deleted, what tags, branches, consumers and writers keep, and what stops
it.
"""

from __future__ import annotations

import itertools
import json
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.coordinator.commit.request import CommitRequest
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.coordinator.maintenance.deletion import Steps
from lakelatch.coordinator.maintenance.expiry.expire import ExpiryPlan, apply_expiry, plan_expiry
from lakelatch.coordinator.maintenance.expiry.retention import Retention, expirable
from lakelatch.core.errors import (
    CommitConflict,
    InvalidArgument,
    StoreUnavailable,
    TableCorrupt,
    Unsupported,
)
from lakelatch.core.options import TableOptions
from lakelatch.core.paths import TablePaths
from lakelatch.table.table import Table

COUNTER = itertools.count()
SCHEMA = pa.schema([("p", pa.string()), ("v", pa.int64())])
LATER_MS = 10 * 24 * 3_600_000
NEWEST = 2**62


def rows(part: str, *values: int) -> pa.Table:
    return pa.table({"p": [part] * len(values), "v": list(values)})


@pytest.fixture
def table() -> Table:
    """Six snapshots: the files of 1 and 2 are replaced by 3, that of 4 by 5."""
    made = ll.create_table(f"memory://expire-{__name__}-{next(COUNTER)}/t", SCHEMA, partition_by=["p"])
    made.append(rows("a", 1))
    made.append(rows("a", 2))
    made.overwrite(rows("a", 3), partition={"p": "a"})
    made.append(rows("b", 4))
    made.overwrite(rows("b", 5), partition={"p": "b"})
    made.append(rows("c", 6))
    made.committer.settle()
    return made


def planned(table: Table, timeline: Timeline | None = None, **arguments: Any) -> ExpiryPlan:
    """The plan of an expiry days later."""
    newest = table.snapshot()
    assert newest is not None
    retention = Retention.of(table.schema.options, newest.time_ms + LATER_MS, **arguments)
    return plan_expiry(timeline or table.timeline, table.schema, retention)


def expired(table: Table, **arguments: Any) -> ExpiryPlan:
    return apply_expiry(table.timeline, planned(table, **arguments))


def keys(table: Table, prefix: str = "") -> set[str]:
    return {info.key for info in table.store.list(prefix)}


def data_keys(table: Table) -> set[str]:
    return {key for key in keys(table) if key.startswith("p=")}


def copy(table: Table, source: str, target: str) -> None:
    table.store.put(target, table.store.get(source))


def tag(table: Table, name: str, snapshot: int) -> None:
    copy(table, f"snapshot/snapshot-{snapshot}", f"tag/tag-{name}")


def assert_sound(table: Table) -> None:
    """Check that no remaining snapshot lacks a file."""
    assert table.verify("all") == []


# --------------------------------------------------------------------------------------------------------- what goes


def test_only_unneeded_files_are_deleted(table: Table) -> None:
    """G7: after an expiry to one snapshot the table holds exactly the files that this snapshot reaches."""
    before = table.to_arrow().sort_by("v")
    plan = expired(table, retain_max=1)
    assert plan.snapshot_ids == (1, 2, 3, 4, 5)
    assert keys(table, "snapshot/") == {"snapshot/snapshot-6", "snapshot/EARLIEST", "snapshot/LATEST"}
    assert table.store.get("snapshot/EARLIEST") == b"6"
    newest = table.snapshot()
    assert newest is not None
    lists = {f"manifest/{newest.base_manifest_list}", f"manifest/{newest.delta_manifest_list}"}
    manifests = {f"manifest/{m.file_name}" for m in table.timeline.manifests(newest)}
    assert keys(table, "manifest/") == lists | manifests
    assert data_keys(table) == set(table.files()["file_path"].to_pylist())
    assert table.to_arrow().sort_by("v").equals(before)
    assert_sound(table)


def test_a_plan_changes_nothing_and_lists_what_would_be_deleted(table: Table) -> None:
    before = keys(table)
    plan = planned(table, retain_max=4)
    assert keys(table) == before
    assert str(plan) == "2 snapshots, 1 to 2: 2 data files, 4 files of metadata"
    assert plan.to_dict()["earliest"] == 3
    assert len(plan.to_dict()["data_files"]) == 2


def test_snapshots_that_stay_read_as_before(table: Table) -> None:
    """G7, one by one: expiry in small steps, every remaining snapshot read each time."""
    wanted = {s.id: sorted(table.at(snapshot=s.id).to_arrow()["v"].to_pylist()) for s in table.snapshots()}
    for left in range(5, 0, -1):
        expired(table, retain_max=left)
        assert [s.id for s in table.snapshots()] == list(range(7 - left, 7))
        for snapshot in table.snapshots():
            assert sorted(table.at(snapshot=snapshot.id).to_arrow()["v"].to_pylist()) == wanted[snapshot.id]
        assert_sound(table)


def test_nothing_to_do(table: Table) -> None:
    expired(table, retain_max=1)
    before = keys(table)
    assert expired(table, retain_max=1) == ExpiryPlan(earliest_id=6)
    assert keys(table) == before
    empty = ll.create_table(f"memory://expire-{__name__}-{next(COUNTER)}/t", SCHEMA)
    assert str(empty.expire()) == "no snapshot expires"


def test_the_table_method_is_careful_by_default(table: Table) -> None:
    """H6: seconds after the commits nothing expires, whatever the arguments; a dry run never deletes."""
    before = keys(table)
    assert table.expire(retain_max=1, older_than=NEWEST).snapshot_ids == ()
    assert keys(table) == before
    with pytest.raises(InvalidArgument, match="read only"):
        table.at(snapshot=2).expire()


# ------------------------------------------------------------------------------------------------ how much stays


def chosen(
    count: int = 10, step_ms: int = 1_000, consumer: int | None = None, now_ms: int = NEWEST, **given: Any
) -> int:
    """The number of snapshots that expire, of so many committed at 1000, 2000 …"""
    times = {n: n * step_ms for n in range(1, count + 1)}
    options = TableOptions({"snapshot.time-retained": "0 ms"})
    return expirable(list(times), times, Retention.of(options, now_ms, **given), consumer)


@pytest.mark.parametrize(
    ("arguments", "goes"),
    [
        ({}, 0),
        ({"retain_min": 3}, 7),
        ({"retain_max": 4}, 6),
        ({"retain_max": 8, "retain_min": 2, "older_than_ms": 0}, 2),
        ({"retain_min": 1, "older_than_ms": 5_000}, 3),
        ({"retain_min": 1, "older_than_ms": 5_001}, 4),
        ({"retain_min": 1, "max_deletes": 2}, 2),
        ({"retain_min": 1, "consumer": 4}, 3),
        ({"retain_max": 1, "consumer": 1}, 0),
        ({"retain_max": 1, "now_ms": 7_500}, 5),
        ({"count": 1, "retain_max": 1}, 0),
    ],
)
def test_how_many_snapshots_expire(arguments: dict[str, Any], goes: int) -> None:
    """format/commit §9: the minimum overrides the maximum, the maximum the time; consumers and young snapshots override all."""
    assert chosen(**arguments) == goes


def test_the_number_that_is_wrong_is_named() -> None:
    """Each number by its argument, or by its option where no argument was given."""
    for wrong, named in (
        ({"retain_max": 0}, "retain_max 0 is less than 1"),
        ({"retain_min": 0}, "retain_min 0 is less than 1"),
        ({"max_deletes": -1}, "max_deletes -1 is less than 1"),
        ({"retain_max": 2, "retain_min": 3}, "retain_max 2 is less than retain_min 3"),
    ):
        with pytest.raises(InvalidArgument, match=f"^{named}"):
            Retention.of(TableOptions({}), 0, **wrong)
    with pytest.raises(InvalidArgument, match=r"option 'snapshot\.num-retained\.max' 2 is less than retain_min 3"):
        Retention.of(TableOptions({"snapshot.num-retained.max": "2"}), 0, retain_min=3)


@pytest.mark.parametrize(
    ("option", "value", "kept"),
    [
        ("changelog.num-retained.max", "21", (10, 21, 3_600_000)),
        ("changelog.num-retained.min", "20", (20, 20, 3_600_000)),
        ("changelog.time-retained", "2 h", (10, 20, 7_200_000)),
    ],
)
def test_changelogs_outlive_snapshots_where_an_option_is_larger(
    option: str, value: str, kept: tuple[int, int, int]
) -> None:
    """What is not set is as for snapshots."""
    found = Retention.of(TableOptions({option: value, "snapshot.num-retained.max": "20"}), NEWEST).changelogs
    assert found is not None
    assert (found.at_least, found.at_most, NEWEST - found.until_ms) == kept


def test_changelogs_that_would_be_kept_by_contradicting_numbers_are_refused() -> None:
    texts = {"changelog.num-retained.min": "30", "snapshot.num-retained.max": "20"}
    with pytest.raises(InvalidArgument, match=r"'changelog\.num-retained\.max' \(20\) is less than"):
        Retention.of(TableOptions(texts), NEWEST)


# ------------------------------------------------------------------------------------------------- what others keep


@pytest.mark.parametrize(
    ("option", "value"),
    [("changelog.num-retained.max", "20"), ("changelog.num-retained.min", "10"), ("changelog.time-retained", "1 h")],
)
def test_changelogs_kept_as_long_as_snapshots_are_accepted(option: str, value: str) -> None:
    snapshots = {"snapshot.num-retained.max": "20", "snapshot.num-retained.min": "10", "snapshot.time-retained": "1 h"}
    found = Retention.of(TableOptions({**snapshots, option: value}), NEWEST)
    assert found.at_most == 20 and found.changelogs is None


def test_a_tag_keeps_its_files(table: Table) -> None:
    """G7: the tag outlives its snapshot, and reads as before."""
    tag(table, "eod", 2)
    kept = set(table.at(tag="eod").files()["file_path"].to_pylist())
    plan = expired(table, retain_max=1)
    assert 2 in plan.snapshot_ids
    assert kept <= data_keys(table)
    assert sorted(table.at(tag="eod").to_arrow()["v"].to_pylist()) == [1, 2]
    assert_sound(table)


@pytest.mark.parametrize("root", ["snapshot/snapshot-2", "tag/tag-fork"])
def test_a_branch_keeps_what_it_reaches(table: Table, root: str) -> None:
    """G7: manifests and data belong to all branches; Apache Paimon asks main's tags only (format/commit §10)."""
    copy(table, "schema/schema-0", "branch/branch-dev/schema/schema-0")
    copy(table, "snapshot/snapshot-2", f"branch/branch-dev/{root}")
    expired(table, retain_max=1)
    branch = table.branch("dev")
    there = branch.at(snapshot=2) if root.startswith("snapshot") else branch.at(tag="fork")
    assert sorted(there.to_arrow()["v"].to_pylist()) == [1, 2]


def test_an_expiry_of_a_branch_spares_main(table: Table) -> None:
    """G7, the other way round: a branch continues alone, and expires the snapshot that it shares with main."""
    copy(table, "schema/schema-0", "branch/branch-dev/schema/schema-0")
    copy(table, "snapshot/snapshot-3", "branch/branch-dev/snapshot/snapshot-3")
    branch = table.branch("dev")
    branch.truncate()
    branch.append(rows("d", 7))
    branch.committer.settle()
    plan = expired(branch, retain_max=1)
    assert plan.snapshot_ids == (3, 4)
    hints = {f"branch/branch-dev/snapshot/{name}" for name in ("EARLIEST", "LATEST")}
    assert keys(table, "branch/branch-dev/snapshot/") - hints == {"branch/branch-dev/snapshot/snapshot-5"}
    assert table.store.get("branch/branch-dev/snapshot/EARLIEST") == b"5"
    assert_sound(table)
    assert_sound(branch)


def test_a_consumer_holds_snapshots_back(table: Table) -> None:
    table.store.put("consumer/consumer-job", b'{"nextSnapshot" : 3}')
    table.store.put("consumer/consumer-fast", b'{"nextSnapshot" : 9}')
    table.store.put("branch/branch-dev/consumer/consumer-other", b'{"nextSnapshot" : 1}')
    plan = expired(table, retain_max=1)
    assert plan.snapshot_ids == (1, 2)
    assert "consumer 'job' reads 3 next" in str(plan)
    assert_sound(table)


def test_a_plan_prints_as_text_and_as_json() -> None:
    steps = Steps(("d1", "d2"), ("m1",), ("l1", "l2"), ("snapshot/snapshot-3", "snapshot/snapshot-4"))
    plan = ExpiryPlan((3, 4), 5, steps, ("job", 6))
    assert str(plan) == "2 snapshots, 3 to 4: 2 data files, 3 files of metadata; consumer 'job' reads 6 next"
    assert plan.to_dict() == {
        "snapshots": [3, 4],
        "earliest": 5,
        "data_files": ["d1", "d2"],
        "metadata_files": ["m1", "l1", "l2"],
        "saved_as_changelogs": [],
        "changelogs": [],
        "held_by_consumer": "job",
    }
    assert str(ExpiryPlan((3,), 4, Steps())) == "snapshot 3: 0 data files, 0 files of metadata"
    assert ExpiryPlan().to_dict()["held_by_consumer"] is None
    assert str(ExpiryPlan(consumer=("job", 6))) == "no snapshot expires; consumer 'job' reads 6 next"


def test_a_state_that_adds_again_what_it_deleted_keeps_it(table: Table) -> None:
    """format/commit §10: a DELETE in snapshot 3, an ADD in the next: the file is live, although expiry finds its DELETE."""
    first = table.at(snapshot=1).entries()
    table.committer.commit(CommitRequest("OVERWRITE", tuple(first), "restorer"))
    table.committer.settle()
    expired(table, retain_max=1)
    assert {e.file.file_name for e in first} <= {key.rpartition("/")[2] for key in data_keys(table)}


def test_long_lived_changelogs_keep_what_they_name(table: Table) -> None:
    """A changelog that another engine wrote keeps its lists and added files; the base list may be gone."""
    copy(table, "snapshot/snapshot-2", "changelog/changelog-2")
    second = table.at(snapshot=2).snapshot()
    assert second is not None
    added = {e.file.file_name for e in table.timeline.entries(table.timeline.delta_manifests(second))}
    expired(table, retain_max=1)
    assert f"manifest/{second.delta_manifest_list}" in keys(table)
    assert added <= {key.rpartition("/")[2] for key in data_keys(table)}


# --------------------------------------------------------------------------------------------- what stops everything


def bend(table: Table, damage: str) -> str:
    """Damage a file that stays; returns its key."""
    newest = table.snapshot()
    assert newest is not None
    if damage == "tag":
        table.store.put("tag/tag-broken", b'{"id": ')
        return "tag/tag-broken"
    if damage == "consumer":
        table.store.put("consumer/consumer-broken", b"{}")
        return "consumer/consumer-broken"
    if damage == "snapshot":
        table.store.put("snapshot/snapshot-6", b"null")
        return "snapshot/snapshot-6"
    if damage == "branch tag":
        table.store.put("branch/branch-dev/tag/tag-x", b"[]")
        return "branch/branch-dev/tag/tag-x"
    manifests = [m for m in table.timeline.manifests(newest) if m.num_deleted_files]
    oldest_kept = table.timeline.snapshot(newest.id - 1)
    names = {"list": oldest_kept.base_manifest_list, "manifest": manifests[0].file_name}
    key = f"manifest/{names[damage]}"
    table.store.delete_many([key])
    return key


@pytest.mark.parametrize("damage", ["tag", "branch tag", "consumer", "snapshot", "list", "manifest"])
def test_what_cannot_be_read_stops_the_run(table: Table, damage: str) -> None:
    """H11: a missing manifest, or an unreadable root, must not make live files look unused."""
    broken = bend(table, damage)
    before = keys(table)
    with pytest.raises(TableCorrupt, match=broken):
        table_expire(table, retain_max=2)
    assert keys(table) == before


def table_expire(table: Table, **arguments: Any) -> ExpiryPlan:
    """Like `expired`, for a newest snapshot that may be unreadable."""
    retention = Retention.of(table.schema.options, NEWEST, **arguments)
    return apply_expiry(table.timeline, plan_expiry(table.timeline, table.schema, retention))


def test_files_in_locations_that_no_option_names_are_not_deleted(table: Table) -> None:
    entry = table.entries()[0]
    outside = entry._replace(file=entry.file._replace(file_name="x.parquet", external_path="s3://other/x.parquet"))
    table.committer.commit(CommitRequest("APPEND", (outside,), "me"))
    table.committer.commit(CommitRequest("OVERWRITE", (outside.deletion(),), "me"))
    table.append(rows("a", 9))
    before = keys(table)
    with pytest.raises(Unsupported, match=r"data-file\.external-paths"):
        planned(table, retain_max=1)
    assert keys(table) == before


# -------------------------------------------------------------------------------------------------- crashes and races


class Crashing(MemoryStore):
    """Dies at the n-th deletion."""

    left = 10**9

    def delete_many(self, keys: Any) -> None:
        for key in keys:
            if self.left == 0:
                raise StoreUnavailable("cut off")
            self.left -= 1
            super().delete_many([key])


def test_a_run_interrupted_anywhere_is_finished_by_the_next(table: Table) -> None:
    """Invariant A17: after a crash at every single deletion, the rest is sound, and the next run leaves nothing over."""
    tag(table, "eod", 2)
    space = {key: table.store.get(key) for key in keys(table)}
    expired(table, retain_max=2)
    wanted = keys(table)
    for deletes in itertools.count():
        store = Crashing(f"memory://expire-{__name__}-{next(COUNTER)}/t")
        for key, value in space.items():
            store.put(key, value)
        again = Table(store, table.schema)
        store.left = deletes
        try:
            expired(again, retain_max=2)
        except StoreUnavailable:
            ids = [s.id for s in again.snapshots()]
            assert ids == list(range(ids[0], 7)), "oldest first"
            for root in (again.at(snapshot=5), again.at(snapshot=6), again.at(tag="eod")):
                root.to_arrow()
            store.left = 10**9
            expired(again, retain_max=2)
            assert keys(again) == wanted, f"after {deletes} deletes"
        else:
            break
    assert deletes > 10


def test_a_second_look_spares_files_of_newer_roots(table: Table) -> None:
    """H10: a tag and a commit after the plan was made."""
    plan = planned(table, retain_max=1)
    tag(table, "late", 2)
    table.append(rows("z", 9))
    table.committer.settle()
    done = apply_expiry(table.timeline, plan)
    assert sorted(table.at(tag="late").to_arrow()["v"].to_pylist()) == [1, 2]
    assert len(done.steps.data) < len(plan.steps.data)
    assert [s.id for s in table.snapshots()] == [6, 7]
    assert_sound(table)


def test_a_history_that_changed_is_planned_again(table: Table) -> None:
    """H18: the name of a snapshot to delete holds another one now."""
    plan = planned(table, retain_max=1)
    table.store.put("snapshot/snapshot-2", table.store.get("snapshot/snapshot-2") + b"\n")
    before = keys(table)
    with pytest.raises(CommitConflict, match="snapshot-2"):
        apply_expiry(table.timeline, plan)
    assert keys(table) == before


def test_an_overtaken_expiry_plan_changes_nothing_more(table: Table) -> None:
    first, second = planned(table, retain_max=3), planned(table, retain_max=2)
    apply_expiry(table.timeline, second)
    apply_expiry(table.timeline, first)
    assert [s.id for s in table.snapshots()] == [5, 6]
    assert table.store.get("snapshot/EARLIEST") == b"5", "never lowered (H7)"
    assert_sound(table)


def test_a_gap_below_does_not_stop_expiry_forever(table: Table) -> None:
    """A fork on a freed name, far below, is one more snapshot that expires."""
    expired(table, retain_max=2)
    copy(table, "snapshot/snapshot-5", "snapshot/snapshot-1")
    raw = table.store.get("snapshot/snapshot-1").replace(b'"id": 5', b'"id": 1')
    table.store.put("snapshot/snapshot-1", raw)
    assert expired(table, retain_max=2).snapshot_ids == (1,)
    assert [s.id for s in table.snapshots()] == [5, 6]
    assert_sound(table)


def test_each_list_and_manifest_is_read_once(table: Table) -> None:
    """No metadata file is read twice."""
    store = Counting(table.store)
    tag(table, "eod", 2)
    planned(table, Timeline(store, TablePaths()), retain_max=1)
    metadata = [key for key in store.read if key.startswith("manifest/")]
    assert len(metadata) == len(set(metadata))
    assert store.read.count("snapshot/snapshot-3") == 1


class Counting:
    """Records the files that are read."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.read: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def get(self, key: str) -> bytes:
        self.read.append(key)
        return self._store.get(key)  # type: ignore[no-any-return]


def test_progress_counts_every_file(table: Table) -> None:
    told: list[tuple[int, int]] = []
    plan = planned(table, retain_max=1)
    apply_expiry(table.timeline, plan, lambda done, total: told.append((done, total)))
    assert told[-1] == (len(plan.steps), len(plan.steps))
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_partitions_without_candidates_are_not_read(table: Table) -> None:
    """A manifest of other partitions is not read: here those of c, and of b where only a's files are deleted."""
    store = Counting(table.store)
    planned(table, Timeline(store, TablePaths()), retain_max=4)
    newest = table.snapshot()
    assert newest is not None
    last = table.timeline.delta_manifests(newest)[0]
    assert f"manifest/{last.file_name}" not in store.read


@pytest.mark.parametrize("said", [b"{garbage", b"[]", b'{"nextSnapshot": true}', b'{"nextSnapshot": "3"}', b"{}", b""])
def test_a_consumer_that_cannot_be_read_stops_expiry(table: Table, said: bytes) -> None:
    """G7: it is not known which snapshots it still has to read."""
    table.store.put("consumer/consumer-job", said)
    with pytest.raises(TableCorrupt, match="consumer/consumer-job does not say which snapshot"):
        table.expire(retain_max=1, retain_min=1)


def test_statistics_go_with_the_last_snapshot_that_names_them(table: Table) -> None:
    """Apache Paimon's ANALYZE: a file in the folder statistics, named by every snapshot until the schema changes."""
    for snapshot_id, name in ((2, "stat-old"), (5, "stat-new"), (6, "stat-new")):
        key = f"snapshot/snapshot-{snapshot_id}"
        raw = json.loads(table.store.get(key))
        table.store.put(key, json.dumps({**raw, "statistics": name}).encode())
        table.store.put(f"statistics/{name}", b"{}")
    fresh = Table(table.store, table.schema)
    plan = planned(fresh, retain_max=2)
    assert "statistics/stat-old" in plan.steps.leaves
    assert apply_expiry(fresh.timeline, plan).snapshot_ids == (1, 2, 3, 4)
    assert keys(fresh, "statistics/") == {"statistics/stat-new"}


def test_a_name_of_statistics_outside_of_the_folder_is_refused(table: Table) -> None:
    """H16: the snapshot that holds it is named, and nothing is deleted."""
    raw = json.loads(table.store.get("snapshot/snapshot-2"))
    table.store.put("snapshot/snapshot-2", json.dumps({**raw, "statistics": "../x"}).encode())
    before = keys(table)
    with pytest.raises(TableCorrupt, match=r"snapshot/snapshot-2.*\.\./x|\.\./x.*snapshot/snapshot-2"):
        expired(Table(table.store, table.schema), retain_max=1)
    assert keys(table) == before
