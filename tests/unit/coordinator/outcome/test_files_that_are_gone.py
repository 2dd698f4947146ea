"""A snapshot is sent again only while every file that it needs is still there (H10)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from by_hand.histories import (
    chain,
    hints,
    holds,
    manifest,
    new_store,
    of,
    prepared,
    put_manifest,
    remove,
    schema,
    snapshot,
    timeline,
)

from lakelatch.backends.memory import MemoryStore
from lakelatch.coordinator.identities.memory import IDENTIFIERS_PROPERTY, Memory
from lakelatch.coordinator.identities.pages import Page
from lakelatch.coordinator.outcome.resolution import Case, find_out
from lakelatch.coordinator.protocol import effects as do
from lakelatch.core.metadata.data_file import ADD, DELETE, EMPTY_ROW, DataFile, IndexEntry, IndexFile, ManifestEntry
from lakelatch.core.metadata.manifest import encode_index_manifest, encode_manifest_list

ELSEWHERE = "s3://elsewhere/outside.parquet"
OURS = replace(
    snapshot(2, uuid="ours", on="1:u1"),
    index_manifest="index-manifest-ours",
    properties={
        **snapshot(2).properties,
        IDENTIFIERS_PROPERTY: Memory(page="identities-page-1").to_property(),
    },
)
NEEDED = (
    "manifest/manifest-old",
    "manifest/base-ours",
    "manifest/delta-ours",
    "manifest/manifest-new",
    "bucket-0/added.parquet",
    "bucket-0/added.parquet.index",
    "manifest/index-manifest-ours",
    "index/index-1",
    "lakelatch/identities/identities-page-1",
    "lakelatch/identities/identities-leaf-1",
)


def entry(name: str, kind: int = ADD, **more: Any) -> ManifestEntry:
    return ManifestEntry(kind, EMPTY_ROW, 0, -1, DataFile(file_name=name, file_size=1, row_count=1, **more))


def complete() -> MemoryStore:
    """A store with all that the snapshot needs, and without what it does not: files that it deletes, or of others."""
    made: MemoryStore = new_store()
    made.put("schema/schema-0", schema(**{"data-file.external-paths": "s3://elsewhere"}).to_json())
    chain(made, 1)
    hints(made, earliest=1)
    new = [
        entry("added.parquet", extra_files=("added.parquet.index",)),
        entry("deleted.parquet", DELETE),
        entry("outside.parquet", external_path=ELSEWHERE),
    ]
    made.put("manifest/base-ours", encode_manifest_list([manifest("manifest-old")]))
    made.put("manifest/delta-ours", encode_manifest_list([manifest("manifest-new", new)]))
    put_manifest(made, "manifest-new", *new)
    made.put("manifest/manifest-old", b"is not read")
    index = IndexEntry(ADD, EMPTY_ROW, 0, IndexFile("HASH", "index-1", 1, 1))
    made.put("manifest/index-manifest-ours", encode_index_manifest([index]))
    made.put("lakelatch/identities/identities-page-1", Page({}, {"": "identities-leaf-1"}).to_bytes())
    for key in ("bucket-0/added.parquet", "bucket-0/added.parquet.index", "index/index-1"):
        made.put(key, b"x")
    made.put("lakelatch/identities/identities-leaf-1", b"x")
    return made


def test_a_snapshot_with_all_its_files_is_sent_again() -> None:
    """Neither files that it deletes nor those outside of the table have to be there."""
    store = complete()
    assert find_out(Case("job", None, (prepared(OURS),)), timeline(store)).outcome == do.Committed(of(2, "ours"), False)


@pytest.mark.parametrize("key", NEEDED)
def test_a_snapshot_is_not_sent_once_one_of_its_files_is_gone(key: str) -> None:
    store = complete()
    remove(store, key)
    outcome = find_out(Case("job", None, (prepared(OURS),)), timeline(store)).outcome
    assert isinstance(outcome, do.Undecided)
    assert key.rpartition("/")[2] in outcome.reason
    assert not holds(store, "snapshot/snapshot-2")


def test_a_schema_that_the_writer_has_is_not_read_again() -> None:
    """A table whose schema files cannot be read at the moment can still be written by an open writer."""
    store = complete()
    asked = Case("job", None, (prepared(OURS),), schema(**{"data-file.external-paths": "s3://elsewhere"}))
    remove(store, "schema/schema-0")
    assert isinstance(find_out(replace(asked, schema=None), timeline(store)).outcome, do.Undecided)
    assert find_out(asked, timeline(store)).outcome == do.Committed(of(2, "ours"), False)
