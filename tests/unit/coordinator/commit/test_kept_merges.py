"""A merge of manifests is made once per commit, and used again only where it still fits."""

from __future__ import annotations

import pyarrow as pa
import pytest
from fragile import Fragile

from lakelatch.coordinator.commit.attempt import FileNames, MetadataWriter
from lakelatch.coordinator.commit.settling.manifest_compaction import Merges
from lakelatch.coordinator.history.base import Base
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.core.errors import StoreUnavailable
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.paths import TablePaths
from lakelatch.core.rows.arrow import from_arrow_schema
from lakelatch.table.table import Table

ROWS = pa.table({"v": pa.array([1], pa.int64())})


class World:
    """A table of some snapshots with one manifest each, and the merges of one commit, which are due from three on."""

    def __init__(self, snapshots: int) -> None:
        self.store = Fragile()
        schema = new_schema(from_arrow_schema(ROWS.schema), options={"manifest.merge-min-count": "1000"})
        self.store.put("schema/schema-0", schema.to_json())
        self.table = Table(self.store, schema)
        for _ in range(snapshots):
            self.append()
        eager = new_schema(from_arrow_schema(ROWS.schema), options={"manifest.merge-min-count": "3"})
        self.timeline = Timeline(self.store, TablePaths())
        self.merges = Merges(self.timeline, MetadataWriter(eager, TablePaths(), FileNames("us")))

    def append(self) -> None:
        self.table.append(ROWS)
        self.table.committer.settle()

    def base(self) -> Base:
        latest = self.timeline.latest()
        return Base(latest, self.timeline.manifests(latest) if latest else (), 0, 0.0)

    def written(self) -> list[str]:
        keys = (info.key for info in self.store.list("manifest/"))
        return [key for key in keys if key.startswith("manifest/manifest-us-")]

    def fail(self, request: str) -> None:
        """The store does not answer the next request of this kind."""

        def refuse() -> None:
            raise StoreUnavailable("503")

        self.store.before[request] = refuse


def test_a_merge_that_is_due_is_written_and_shortens_the_list() -> None:
    world = World(3)
    made = world.merges.on(world.base(), begin=True)
    assert made is not None
    merge, manifests = made
    assert merge.mode == "minor" and [m.num_added_files for m in manifests] == [3]
    assert world.written() == [f"manifest/{manifests[0].file_name}"]
    assert len(world.timeline.entries(manifests)) == 3


@pytest.mark.parametrize("snapshots", [0, 2])
def test_nothing_is_merged_before_it_is_due(snapshots: int) -> None:
    world = World(snapshots)
    assert world.merges.on(world.base(), begin=True) is None
    assert world.written() == []


def test_no_merge_begins_while_others_win_races() -> None:
    world = World(3)
    assert world.merges.on(world.base(), begin=False) is None
    assert world.written() == []


@pytest.mark.parametrize("begin", [True, False])
def test_a_merge_is_used_again_on_the_next_base(begin: bool) -> None:
    world = World(3)
    first = world.merges.on(world.base(), begin=True)
    assert first is not None
    world.append()
    world.fail("put ")
    again = world.merges.on(world.base(), begin=begin)
    assert again is not None
    assert again[0] is first[0]
    assert again[1] == (*first[1], world.base().manifests[-1])


def test_a_merge_is_not_used_where_its_inputs_are_gone() -> None:
    world = World(4)
    base = world.base()
    assert world.merges.on(base, begin=True) is not None
    other = Base(base.snapshot, base.manifests[1:], 0, 0.0)
    assert world.merges.on(other, begin=False) is None
    assert world.merges.on(base, begin=False) is None, "it was given up"
    anew = world.merges.on(other, begin=True)
    assert anew is not None and [m.num_added_files for m in anew[1]] == [3]


def test_a_merge_is_not_used_where_its_base_is_no_longer_part_of_the_history() -> None:
    """What it merged may not be what the new base has under the same names."""
    world = World(3)
    base = world.base()
    assert world.merges.on(base, begin=True) is not None
    bytes_of_base = world.store.get("snapshot/snapshot-3")
    world.store.delete_many(["snapshot/snapshot-3"])
    assert world.merges.on(base, begin=False) is None
    world.store.put("snapshot/snapshot-3", bytes_of_base)
    assert world.merges.on(base, begin=False) is None
    assert world.merges.on(base, begin=True) is not None
    assert len(world.written()) == 2


@pytest.mark.parametrize("request_", ["get manifest/", "put manifest/manifest-us-"])
def test_a_merge_that_fails_fails_no_commit(request_: str) -> None:
    world = World(3)
    base = world.base()
    world.fail(request_)
    assert world.merges.on(base, begin=True) is None
    assert world.merges.on(base, begin=False) is None
    assert world.merges.on(base, begin=True) is not None


def test_a_merge_that_cannot_be_checked_is_not_used() -> None:
    world = World(3)
    base = world.base()
    assert world.merges.on(base, begin=True) is not None
    world.fail("get snapshot/snapshot-3")
    assert world.merges.on(base, begin=True) is None
    assert world.merges.on(base, begin=False) is not None, "it may be used later"
