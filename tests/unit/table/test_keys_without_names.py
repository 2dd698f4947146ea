"""Keys that could be those of a tag, a branch or a consumer, but for the name: nobody makes them, and they stop nothing."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.table.table import Table

KEYS = (
    *("tag/tag-", "tag/tag-/x", "tag/tag", "consumer/consumer-", "branch/branch-/x", "branch/branch-/tag/tag-"),
    *("snapshot/snapshot-", "schema/schema-", "changelog/changelog-", "branch/branch-dev/tag/tag-"),
)


@pytest.fixture
def table() -> Table:
    made = ll.create_table(f"memory://{uuid.uuid4().hex}/t", pa.schema([("a", pa.int32())]))
    for number in range(3):
        made.append(pa.table({"a": [number]}))
    made.create_branch("dev")
    for key in KEYS:
        MemoryStore(made.url).put(key, b"not of this format")
    return made


def test_they_are_none(table: Table) -> None:
    assert (table.tags(), table.consumers(), list(table.branches())) == ([], [], ["dev"])
    assert table.branches()["dev"].tags == 0
    assert table.system("branches")["branch_name"].to_pylist() == ["dev"]
    assert table.branch("dev").tags() == []
    assert table.verify() == []
    assert table.repair().steps == ()


def test_they_stop_nothing(table: Table) -> None:
    table.create_tag("eod")
    table.expire(retain_max=1, retain_min=1)
    table.delete_tag("eod")
    table.clean()
    table.delete_branch("dev")
    assert sorted(ll.open_table(table.url).to_arrow()["a"].to_pylist()) == [0, 1, 2]
    ll.drop_table(table.url)
    assert list(MemoryStore(table.url).list("")) == []
