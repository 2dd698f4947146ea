"""`verify` knows what a table with a primary key has besides its data files."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.coordinator.maintenance.expiry.expire import apply_expiry, plan_expiry
from lakelatch.coordinator.maintenance.expiry.retention import Retention
from lakelatch.core.metadata.manifest import encode_index_manifest
from lakelatch.table.table import Table

SCHEMA = pa.schema([pa.field("k", pa.int32(), nullable=False), ("v", pa.string())])


@pytest.fixture
def table(request: pytest.FixtureRequest) -> Table:
    """With an index file of keys, and a changelog."""
    options = {"bucket": "-1", "changelog-producer": "input", "manifest.compression": "null"}
    made = ll.create_table(f"memory://verify-{request.node.name}/t", SCHEMA, primary_key=["k"], options=options)
    made.append(pa.table({"k": [1, 2], "v": ["a", "b"]}).cast(SCHEMA))
    made.committer.settle()
    assert made.verify(data=True) == []
    return made


def expire(table: Table, keep: int) -> None:
    """Expire, long after everything that happened."""
    retention = Retention.of(table.schema.options, 2**62, retain_max=keep, retain_min=keep)
    apply_expiry(table.timeline, plan_expiry(table.timeline, table.schema, retention))


def said(table: Table) -> list[str]:
    return [str(finding) for finding in Table(table.store, table.schema).verify()]


def test_the_count_of_a_changelog_is_compared_with_its_files(table: Table) -> None:
    raw = json.loads(table.store.get("snapshot/snapshot-1"))
    table.store.put("snapshot/snapshot-1", json.dumps(raw | {"changelogRecordCount": 7}).encode())
    (found,) = said(table)
    assert "snapshot-1" in found and "changelogRecordCount" in found and "7" in found and "2 rows" in found


def test_a_missing_changelog_file_is_named(table: Table) -> None:
    (key,) = [info.key for info in table.store.list("bucket-0/") if "changelog-" in info.key]
    table.store.delete_many([key])
    (found,) = said(table)
    assert key.rpartition("/")[2] in found


def test_two_index_files_of_one_bucket_are_an_error(table: Table) -> None:
    snapshot = table.snapshot()
    assert snapshot is not None and snapshot.index_manifest is not None
    (entry,) = table.timeline.index_entries(snapshot)
    table.store.put("index/index-again", table.store.get(f"index/{entry.file.file_name}"))
    again = replace(entry, file=replace(entry.file, file_name="index-again"))
    table.store.put(f"manifest/{snapshot.index_manifest}", encode_index_manifest([entry, again]))
    (found,) = said(table)
    assert snapshot.index_manifest in found and "two index files of type HASH" in found and "index-again" in found


def test_a_branch_of_a_tag_need_not_have_the_changelog_of_its_first_snapshot(table: Table) -> None:
    """A tag keeps no changelog, so the branch's first snapshot has none either. Its own commits must have theirs."""
    table.create_tag("eod")
    for key in (2, 3):
        table.append(pa.table({"k": [key], "v": ["c"]}).cast(SCHEMA))
    table.committer.settle()
    expire(table, keep=1)
    table.create_branch("b", tag="eod")
    branch = table.branch("b")
    assert branch.verify("all", data=True) == []
    branch.delete_tag("eod")
    assert branch.verify("all", data=True) == [], "the branch's own record of its origin says so, too"
    branch.append(pa.table({"k": [4], "v": ["d"]}).cast(SCHEMA))
    branch.committer.settle()
    (_, made) = branch.snapshots()
    table.store.delete_many([f"manifest/{made.changelog_manifest_list}"])
    assert f"manifest/{made.changelog_manifest_list}" in [finding.file for finding in branch.verify("all")]


def test_a_branch_whose_source_still_has_its_changelog_must_have_it_whole(table: Table) -> None:
    table.create_tag("eod")
    table.create_branch("b", tag="eod")
    branch = table.branch("b")
    assert branch.verify("all", data=True) == []
    (key,) = [info.key for info in table.store.list("bucket-0/") if "changelog-" in info.key]
    table.store.delete_many([key])
    (found,) = said(branch)
    assert key.rpartition("/")[2] in found
