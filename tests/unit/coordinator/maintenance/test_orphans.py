"""Orphans: files that no root names and that are old enough; nothing else, whatever is wrong with the table."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.backends.store import ObjectInfo
from lakelatch.coordinator.maintenance.orphans import DAY_MS, apply_clean, data_pattern, plan_orphans, store_clock_ms
from lakelatch.core.errors import InvalidArgument, TableCorrupt
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.rows.types import AtomicType, Field
from lakelatch.table.methods.cleaning import orphans_until
from lakelatch.table.table import Table

COUNTER = itertools.count()
NEVER_MS = 2**62
ORPHANS = {
    "p=a/bucket-0/data-left-0.parquet",
    "p=never/bucket-0/data-left-1.parquet",
    "manifest/manifest-left-0",
    "index/index-left-0",
    "statistics/stat-left-0",
    "snapshot/.snapshot-9.0000.tmp",
    "branch/branch-dev/tag/.tag-x.0000.tmp",
}
OTHERS = {
    "README.md",
    "p=a/notes.txt",
    "p=a/bucket-x/data-1.parquet",
    "q=a/bucket-0/data-1.parquet",
    "p=a/bucket-0/deep/data-1.parquet",
    "snapshot/snapshot-1.bak",
    "manifest/deep/manifest-1",
    "_journal/x",
}
"""Files in folders that are not part of the format are not deleted."""


@pytest.fixture
def table() -> Table:
    made = ll.create_table(
        f"memory://orphans-{next(COUNTER)}/t", pa.schema([("p", pa.string()), ("v", pa.int64())]), partition_by=["p"]
    )
    made.append(rows("a", 1))
    made.overwrite(rows("a", 2), partition={"p": "a"})
    made.append(rows("b", 3))
    made.committer.settle()
    for key in (*ORPHANS, *OTHERS):
        made.store.put(key, b"left over")
    return made


def rows(part: str, *values: int) -> pa.Table:
    return pa.table({"p": [part] * len(values), "v": list(values)})


def keys(table: Table) -> set[str]:
    return {info.key for info in table.store.list("")}


def found(table: Table) -> set[str]:
    return {info.key for info in plan_orphans(table.timeline, table.schema, NEVER_MS).files}


def test_orphans_are_found_and_nothing_else(table: Table) -> None:
    """G7: files that only an old snapshot needs are not orphans; unknown folders are not searched."""
    before = keys(table)
    plan = plan_orphans(table.timeline, table.schema, NEVER_MS)
    assert {info.key for info in plan.files} == ORPHANS
    assert keys(table) == before
    assert str(plan).startswith(f"{len(ORPHANS)} of ")
    done = apply_clean(plan)
    assert keys(table) == before - ORPHANS
    assert {line["file"] for line in done.to_dict()["orphans"]} == ORPHANS
    assert table.verify("all", data=True) == []
    assert found(table) == set()


def test_young_files_stay(table: Table) -> None:
    """H10: their writer may be about to commit them; by default a day, never less than an hour."""
    assert plan_orphans(table.timeline, table.schema, 1).files == ()
    assert table.orphans().files == ()
    assert table.clean().files == ()
    assert keys(table) >= ORPHANS
    now_ms = time.time_ns() // 1_000_000
    with pytest.raises(InvalidArgument, match="younger than an hour"):
        table.orphans(older_than=now_ms)
    assert table.orphans(older_than=now_ms - DAY_MS).files == ()


def test_how_many_files_were_looked_at(table: Table) -> None:
    """Data, metadata and temporary files; no roots, and no files in unknown folders."""
    plan = plan_orphans(table.timeline, table.schema, NEVER_MS)
    looked_at = {key for key in keys(table) - OTHERS if key.startswith(("p=", "manifest/"))} | ORPHANS
    assert plan.looked_at == plan.to_dict()["looked_at"] == len(looked_at)
    assert str(plan) == f"{len(ORPHANS)} of {len(looked_at)} files are orphans: {len(ORPHANS) * len('left over')} bytes"
    assert plan.to_dict()["until_ms"] == NEVER_MS


def test_a_file_is_old_from_the_millisecond_after_its_own(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """H10; and if a store does not report how old a file is (0), the file stays."""
    one = min(ORPHANS)
    modified_ms = table.store.head(one).modified_ms

    def among(until_ms: int) -> bool:
        return one in {info.key for info in plan_orphans(table.timeline, table.schema, until_ms).files}

    assert (among(modified_ms), among(modified_ms + 1)) == (False, True)
    listed = table.store.list

    def undated(prefix: str) -> Iterator[ObjectInfo]:
        return (replace(info, modified_ms=0) for info in listed(prefix))

    monkeypatch.setattr(table.store, "list", undated)
    assert found(table) == set()


@pytest.mark.parametrize("root", ["tag/tag-eod", "branch/branch-dev/snapshot/snapshot-1", "changelog/changelog-1"])
def test_every_kind_of_root_keeps_what_it_names(table: Table, root: str) -> None:
    """G7: the snapshot is gone, but a tag, a branch or a long-lived changelog still names its files."""
    table.store.put(root, table.store.get("snapshot/snapshot-1"))
    table.store.delete_many(["snapshot/snapshot-1"])
    assert found(table) == ORPHANS
    table.store.delete_many([root])
    assert found(table) > ORPHANS


def test_a_commit_that_lands_after_the_plan_keeps_its_files(table: Table) -> None:
    """H10: the second look."""
    second = table.snapshot()
    assert second is not None
    key = table.paths.snapshot(second.id)
    data = table.store.get(key)
    table.store.delete_many([key])
    plan = plan_orphans(table.timeline, table.schema, NEVER_MS)
    mine = {info.key for info in plan.files} - ORPHANS
    assert mine
    table.store.put(key, data)
    done = apply_clean(plan)
    assert {info.key for info in done.files} == ORPHANS
    assert mine <= keys(table)
    assert table.verify("all", data=True) == []


@pytest.mark.parametrize("what", ["manifest", "list", "tag", "snapshot"])
def test_what_cannot_be_read_stops_the_run(table: Table, what: str) -> None:
    """H11: a missing manifest must not lead to a mass deletion of live files."""
    newest = table.snapshot()
    assert newest is not None
    names = {"manifest": table.timeline.manifests(newest)[0].file_name, "list": newest.delta_manifest_list}
    if what in names:
        broken = f"manifest/{names[what]}"
        table.store.delete_many([broken])
    else:
        broken = f"{what}/{what}-2"
        table.store.put(broken, b"{}")
    with pytest.raises(TableCorrupt, match=broken):
        found(table)


def test_the_store_s_own_clock(table: Table) -> None:
    """H10: ages are compared with the clock that they come from."""
    before = keys(table)
    assert abs(store_clock_ms(table.store, "x") - time.time_ns() // 1_000_000) < 60_000
    assert keys(table) == before


def test_which_keys_are_data_files() -> None:
    fields = [Field(0, "a b", AtomicType("INT")), Field(1, "c=d", AtomicType("INT"))]
    options = {"data-file.path-directory": "data/here"}
    pattern = data_pattern(new_schema(fields, partition_keys=["a b", "c=d"], options=options))
    assert pattern.match("data/here/a b=1/c%3Dd=2/bucket-postpone/data--u-1.avro")
    assert not pattern.match("a b=1/c%3Dd=2/bucket-0/data-1.parquet")
    assert not pattern.match("data/here/a b=1/bucket-0/data-1.parquet")


def test_a_file_may_be_an_orphan_from_the_age_of_an_hour() -> None:
    """G7: a younger file may belong to a job that is about to commit it."""
    now_ms = 1_700_000_000_000
    hour_ago = datetime.fromtimestamp(now_ms / 1000 - 3600, timezone.utc)
    assert orphans_until(now_ms, hour_ago) == now_ms - 3_600_000
    with pytest.raises(InvalidArgument, match="younger than an hour"):
        orphans_until(now_ms, hour_ago + timedelta(milliseconds=1))
