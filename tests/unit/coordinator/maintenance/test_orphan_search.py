"""Where orphans are looked for, and how often the roots are looked at while they are deleted."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from by_hand.tables import Asked, Handmade, added
from fragile import Died, Fragile, die
from killed_store import contents

import lakelatch as ll
from lakelatch.backends.store import ObjectInfo, ObjectNotFound
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.coordinator.intents.intent import Intent
from lakelatch.coordinator.journal.lines import Entry, line_of
from lakelatch.coordinator.journal.object_journal import FOLDER
from lakelatch.coordinator.maintenance import orphans as module
from lakelatch.coordinator.maintenance.orphans import (
    DAY_MS,
    YOUNGEST_MS,
    OrphanPlan,
    apply_clean,
    external_locations,
    plan_orphans,
    size_of,
    store_clock_ms,
)
from lakelatch.coordinator.maintenance.reach import names as names_module
from lakelatch.coordinator.maintenance.reach.names import FileSpool, fingerprints
from lakelatch.coordinator.protocol import events as ev
from lakelatch.coordinator.protocol.snapshot_ref import SnapshotRef
from lakelatch.core.paths import TablePaths
from lakelatch.table.table import Table

FOREVER_MS = 2**62


def left(table: Handmade, count: int) -> set[str]:
    keys = {f"manifest/manifest-left-{number}" for number in range(count)}
    for key in sorted(keys):
        table.store.put(key, b"left")
    return keys


def plan(table: Handmade, until_ms: int = FOREVER_MS, **more: Any) -> OrphanPlan:
    return plan_orphans(table.timeline, table.schema, until_ms, **more)


def keys(found: OrphanPlan) -> set[str]:
    return {info.key for info in found.files}


def test_ages_are_a_day_and_an_hour() -> None:
    assert (DAY_MS, YOUNGEST_MS) == (86_400_000, 3_600_000)


def test_a_plan_is_told_with_every_file() -> None:
    infos = [ObjectInfo("a", 2, 3), ObjectInfo("b", 5, 7)]
    found = replace(plan(Handmade(), 11), files=infos, looked_at=9, quarantine="q", expired=("x", "y"))
    assert found.to_dict() == {
        "until_ms": 11,
        "looked_at": 9,
        "orphans": [{"file": "a", "size": 2, "modified_ms": 3}, {"file": "b", "size": 5, "modified_ms": 7}],
        "quarantine": "q",
        "expired_quarantines": ["x", "y"],
    }
    assert str(found) == "2 of 9 files are orphans: 7 bytes"
    assert size_of(infos) == size_of(FileSpool(infos)) == 7


class Dated(Asked):
    """Lists some objects with times that a test says."""

    def __init__(self, times: dict[str, int]) -> None:
        super().__init__()
        self.times = times

    def list(self, prefix: str) -> Any:
        found = super().list(prefix)
        return iter([replace(info, modified_ms=self.times.get(info.key, info.modified_ms)) for info in found])


def dated(times: dict[str, int]) -> Handmade:
    table = Handmade()
    table.store = Dated(times)
    table.timeline = Timeline(table.store, TablePaths())
    for key in times:
        table.store.put(key, b"left")
    return table


def test_a_file_is_old_if_it_is_older_than_the_limit_and_has_an_age_at_all() -> None:
    table = dated({f"manifest/manifest-{ms}": ms for ms in (0, 1, 99, 100, 101)} | {"README.md": 5})
    found = plan(table, 100)
    assert keys(found) == {"manifest/manifest-1", "manifest/manifest-99"}
    assert found.looked_at == 2


def test_the_name_of_a_journal_s_object_stays_taken_for_a_day_longer() -> None:
    table = dated({f"{FOLDER}{name}-2.jsonl": ms for name, ms in (("a", 99), ("b", 100), ("c", 101))})
    table.store.put("manifest/manifest-x", b"left")
    assert keys(plan(table, DAY_MS + 100)) == {f"{FOLDER}a-2.jsonl"}


def test_manifests_are_read_as_somebody_says() -> None:
    table = Handmade()
    for number in (1, 2, 3):
        table.snapshot(number, added(str(number)))
        table.store.put(f"bucket-0/data-{number}", b"data")
    groups: list[list[str]] = []

    def read(names: Sequence[str]) -> list[Any]:
        groups.append(list(names))
        return [fingerprints(["bucket-0/data-1"]) for _ in names]

    assert keys(plan(table, read_manifests=read, at_once=2)) == {"bucket-0/data-2", "bucket-0/data-3"}
    assert groups == [["manifest-1", "manifest-2"], ["manifest-3"]]


# ------------------------------------------------------------------------------------------------------------ locations


def test_the_locations_of_all_schemas_of_all_branches_are_told_once_in_one_spelling() -> None:
    table = Handmade()
    said = {
        "schema/schema-1": "s3://one/a/, FILE:///two",
        "branch/branch-dev/schema/schema-0": "file:/two/",
        "branch/branch-dev/schema/schema-3": "/three//b",
        "branch/branch-other/schema/schema-1": "s3://four",
    }
    for key, value in said.items():
        schema = Handmade(data_file__external_paths=value).schema
        table.store.put(key, replace(schema, id=int(key[-1])).to_json())
    table.store.put("schema/notes", b"none")
    wanted = ["file:/three/b", "file:/two", "s3://four", "s3://one/a"]
    assert external_locations(table.timeline, table.schema) == wanted
    assert external_locations(table.timeline, table.schema, sorted(table.files())[:0]) == []
    assert external_locations(table.timeline, table.schema, [*said][:2]) == ["file:/two", "s3://one/a"]
    own = Handmade(data_file__external_paths="s3://own").schema
    assert external_locations(table.timeline, own) == sorted([*wanted, "s3://own"])


@pytest.fixture
def outside(tmp_path: Path) -> tuple[Handmade, Path]:
    """A table that names a location, with an old file in it."""
    table = Handmade(data_file__external_paths=f"file://{tmp_path}/lake")
    old(tmp_path / "lake/bucket-0/data-x")
    ll.allow(table.store.url, tmp_path / "lake")
    return table, tmp_path / "lake"


def old(path: Path, modified_ms: int = 50_000) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"left")
    os.utime(path, ns=(0, modified_ms * 1_000_000))


def test_only_old_data_files_of_a_location_are_orphans(outside: tuple[Handmade, Path]) -> None:
    table, lake = outside
    for name in ("bucket-0/deep/data-x", "data-x", "bucket-x/data-x", "0/bucket-0/data-x", "manifest/manifest-x"):
        old(lake / name)
    hashed = "bucket-0/0101/1100/0000/01010101/data-y"
    old(lake / hashed)
    old(lake / "bucket-0/data-young", 50_001)
    found = plan(table, 50_001, external=True)
    assert keys(found) == {f"file:{lake}/bucket-0/data-x", f"file:{lake}/{hashed}"}
    assert found.looked_at == 2
    assert keys(plan(table, 50_000, external=True)) == set()
    assert keys(plan(table, 50_002, external=True)) - keys(found) == {f"file:{lake}/bucket-0/data-young"}
    assert keys(plan(table, 50_001)) == set()


def test_locations_that_only_an_earlier_schema_names_are_searched(outside: tuple[Handmade, Path]) -> None:
    table, lake = outside
    found = plan_orphans(table.timeline, Handmade().schema, 50_001, external=True)
    assert keys(found) == {f"file:{lake}/bucket-0/data-x"}


def test_a_file_of_a_location_that_a_snapshot_names_is_no_orphan(outside: tuple[Handmade, Path]) -> None:
    table, lake = outside
    table.snapshot(1, added("x", external_path=f"file://{lake}/bucket-0/data-x"))
    assert keys(plan(table, 50_001, external=True)) == set()
    assert plan(table, 50_001, external=True).looked_at == 1


# ------------------------------------------------------------------------------------------------------------- journals


REQUESTED = ev.CommitRequested("me", None, "APPEND", False)
RESOLVED = ev.CommitResolved(None, "conflict", "lost")


def test_the_journal_of_a_commit_under_way_is_no_orphan_however_old_it_is() -> None:
    table = Handmade()
    for commit, events in (("open", (REQUESTED,)), ("ended", (REQUESTED, RESOLVED))):
        lines = [line_of(Entry(commit, table.store.url, 1, event)) for event in events]
        table.store.put(f"{FOLDER}{commit}-1.jsonl", b"\n".join(lines))
    assert keys(plan(table)) == {f"{FOLDER}ended-1.jsonl"}


@pytest.mark.parametrize("planned", ["before", "after"])
def test_files_of_a_commit_whose_journal_is_found_stay(planned: str) -> None:
    """H10: its writer died before its snapshot was created; the journal is there at the plan, or comes before the deletion."""
    store = Fragile()
    made = ll.create_table(store.url, pa.schema([("v", pa.int64())]), options={"commit.journal": "object"})
    before = contents(store).keys()
    store.before["create snapshot/snapshot-1"] = die
    with pytest.raises(Died):
        Table(store, made.schema).append(pa.table({"v": [1]}))
    journal = {key: data for key, data in contents(store).items() if key.startswith(FOLDER)}
    written = contents(store).keys() - before - journal.keys() - {"snapshot/EARLIEST"}
    assert journal and any(key.startswith("bucket-0/") for key in written)
    if planned == "before":
        store.delete_many(journal)
    found = plan_orphans(made.timeline, made.schema, FOREVER_MS)
    assert keys(found) == (written if planned == "before" else set())
    for key, held in journal.items():
        store.put(key, held)
    assert keys(apply_clean(found)) == set()
    assert written <= contents(store).keys()


@pytest.mark.parametrize("planned", ["before", "after"])
def test_files_of_an_append_that_waits_to_be_carried_stay(planned: str) -> None:
    """H10: its intent is there at the plan, or comes before the deletion."""
    table = Handmade()
    table.snapshot(1)
    table.manifest("manifest-c1-0", added("waiting"))
    table.store.put("bucket-0/data-waiting", b"rows")
    intent = Intent("c1", "etl", 7, SnapshotRef(1, "uuid-1"), 0, 1, 10, (table.manifests["manifest-c1-0"],))
    key = f"lakelatch/intents/{intent.file_name}"
    files = {"bucket-0/data-waiting", "manifest/manifest-c1-0"}
    if planned == "after":
        table.store.put(key, intent.to_json())
    found = plan(table)
    assert keys(found) == (files if planned == "before" else set())
    table.store.put(key, intent.to_json())
    assert keys(apply_clean(found)) == set()
    assert table.files() >= files | {key}


# -------------------------------------------------------------------------------------------------------------- deleting


def looks(table: Handmade) -> int:
    return len(table.asked("list tag/"))


@pytest.mark.parametrize(
    ("at_once", "rounds", "looked"), [(None, [4, 4, 1], 2), (1, [1] * 9, 9), (3, [3, 3, 3], 3), (9, [9], 1)]
)
def test_roots_are_looked_at_again_after_so_many_rounds(
    at_once: int | None, rounds: list[int], looked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before each, where a round is of another size than usual: Spark's are large."""
    monkeypatch.setattr(names_module, "CHUNK", 1)
    monkeypatch.setattr(module, "DELETED_AT_ONCE", 4)
    monkeypatch.setattr(module, "LOOK_EVERY", 2)
    table = Handmade()
    left(table, 9)
    found = plan(table)
    looks(table)
    deleted: list[list[str]] = []
    told: list[tuple[int, int]] = []

    def delete(batches: Sequence[Sequence[str]]) -> None:
        deleted.append([key for batch in batches for key in batch])

    done = apply_clean(found, lambda *counts: told.append(counts), delete, at_once)
    assert [len(batch) for batch in deleted] == rounds
    assert looks(table) == looked
    assert told == [(sum(rounds[: n + 1]), 9) for n in range(len(rounds))]
    assert keys(done) == keys(found) == {key for batch in deleted for key in batch}


def test_usual_rounds_are_of_eight_requests_and_the_roots_are_looked_at_after_eight(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(names_module, "CHUNK", 1)
    table = Handmade()
    left(table, 65)
    found = plan(table)
    looks(table)
    rounds = list(module.still_unused(found))
    assert [len(batches) for batches in rounds] == [8] * 8 + [1]
    assert looks(table) == 2


def test_files_of_any_sequence_are_deleted_in_requests_of_a_thousand() -> None:
    table = Handmade()
    infos = [ObjectInfo(f"manifest/manifest-{number}", 1, 1) for number in range(1_001)]
    rounds = list(module.still_unused(replace(plan(table), files=infos)))
    assert [[len(batch) for batch in batches] for batches in rounds] == [[1_000, 1]]


def test_a_batch_whose_files_are_all_needed_by_now_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names_module, "CHUNK", 1)
    table = Handmade()
    table.store.put("bucket-0/data-a", b"a")
    left(table, 1)
    found = plan(table)
    table.snapshot(1, added("a"))
    (round_,) = module.still_unused(found)
    assert [[info.key for info in batch] for batch in round_] == [["manifest/manifest-left-0"]]
    done = apply_clean(found)
    assert keys(done) == {"manifest/manifest-left-0"}
    assert "bucket-0/data-a" in table.files()
    assert "manifest/manifest-left-0" not in table.files()


def test_what_was_looked_at_once_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Roots that were there at the time of the plan, and those that came since."""
    monkeypatch.setattr(names_module, "CHUNK", 1)
    table = Handmade()
    table.snapshot(1)
    left(table, 3)
    found = plan(table)
    table.snapshot(2)
    table.asked()
    apply_clean(found, at_once=1)
    assert table.asked("get snapshot/") == ["get snapshot/snapshot-2"]


class Headless(Asked):
    def head(self, key: str) -> ObjectInfo:
        raise ObjectNotFound(key)


def test_the_file_that_tells_the_time_is_removed_in_any_case() -> None:
    table = Handmade()
    before = table.files()
    table.asked()
    assert store_clock_ms(table.store, "x") > 1_600_000_000_000
    assert [line.partition(" ")[0] for line in table.asked()] == ["put", "head", "delete"]
    with pytest.raises(ObjectNotFound):
        store_clock_ms(Headless(table.store.url), "x")
    assert table.files() == before
