"""Which commits fit the layout of a table's files, and which schema follows its first files: by the files in the store alone."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from lakelatch.backends.around.metered import MeteredStore
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import PutOutcome
from lakelatch.coordinator.commit.checks.layout import (
    follow_first_files,
    follow_landed,
    has_first_files,
    layout_conflict,
    numbered,
    schema_named,
    written_under_another_layout,
)
from lakelatch.coordinator.commit.request import CommitRequest, LayoutDecision
from lakelatch.coordinator.history.base import Base
from lakelatch.coordinator.history.timeline import BASE_PROPERTY, Timeline
from lakelatch.coordinator.protocol.snapshot_ref import SnapshotRef
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.core.errors import RetriesExhausted, StoreUnavailable
from lakelatch.core.metadata.schema import TableSchema, new_schema, parse_schema
from lakelatch.core.metadata.schemas.layout import SCHEMA_PROPERTY
from lakelatch.core.metadata.snapshot import Snapshot
from lakelatch.core.paths import TablePaths
from lakelatch.core.rows.arrow import from_arrow_schema

COUNT = count()
PLAIN = new_schema(from_arrow_schema(pa.schema([("v", pa.int64())])))
DATA = {"data-file.path-directory": "data"}
NOW = replace(MACHINE, wall_s=lambda: 99.5)
REQUEST = CommitRequest("APPEND", (), "etl")
DECISION = LayoutDecision("APPEND", (), "etl")


def schema(number: int, **options: str) -> TableSchema:
    return replace(PLAIN, id=number, option_texts=options)


class Schemas(MemoryStore):
    """A store in memory in which other writers may win the races for schemas, or which refuses schemas."""

    races, refuses = 0, False

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        if key.startswith("schema/") and self.refuses:
            raise StoreUnavailable("away")
        if key.startswith("schema/") and self.races:
            self.races -= 1
            super().put(key, replace(schema(int(key.rpartition("-")[2])), option_texts={"lost": key, **DATA}).to_json())
        return super().put_if_absent(key, data)


class World:
    def __init__(self, *schemas: TableSchema) -> None:
        self.inner = Schemas(f"memory://layout-rules-{next(COUNT)}/t")
        for one in schemas:
            self.inner.put(f"schema/schema-{one.id}", one.to_json())
        self.store = MeteredStore(self.inner)
        self.timeline = Timeline(self.store, TablePaths())

    def put(self, *snapshots: Snapshot) -> None:
        for one in snapshots:
            self.inner.put(f"snapshot/snapshot-{one.id}", one.to_json())

    def schemas(self) -> list[int]:
        return self.timeline.schema_ids()

    def schema(self, number: int) -> TableSchema:
        key = f"schema/schema-{number}"
        return parse_schema(self.inner.get(key), key)

    def conflict(self, written_with: TableSchema, base: Base, request: CommitRequest = REQUEST) -> Any:
        return layout_conflict(request, written_with, base, self.timeline, NOW)


def snapshot(number: int, schema_id: int = 0, *, decides: bool = False, **more: Any) -> Snapshot:
    ours = {BASE_PROPERTY: f"{number - 1}:u{number - 1}" if number > 1 else "0:"}
    ours |= {SCHEMA_PROPERTY: str(schema_id)} if decides else {}
    rows = 0 if decides else 7
    made = Snapshot(
        id=number, uuid=f"u{number}", schema_id=schema_id, base_manifest_list="b", delta_manifest_list="d",
        commit_user="etl", commit_identifier=1, commit_kind="APPEND", time_ms=0, total_record_count=rows,
        delta_record_count=rows, properties=ours, writer_version="lakelatch-0",
    )  # fmt: skip
    return replace(made, **more)


def base(of: Snapshot | None, schema_id: int = 0) -> Base:
    return Base(of, (), schema_id, 0.0)


# -------------------------------------------------------------------------------------------------------- first files


@pytest.mark.parametrize(
    ("total", "delta", "first"), [(7, 7, True), (8, 7, False), (0, 0, False), (0, -7, False), (7, 0, False)]
)
def test_the_first_files_hold_all_rows_of_their_snapshot(total: int, delta: int, first: bool) -> None:
    assert has_first_files(snapshot(3, total_record_count=total, delta_record_count=delta)) is first


def test_a_schema_that_takes_the_next_number_is_as_new_as_this_version() -> None:
    made = numbered(replace(PLAIN, version=1), 5, NOW)
    assert (made.id, made.time_ms, made.version, made.fields) == (5, 99_500, TableSchema.version, PLAIN.fields)
    assert numbered(replace(PLAIN, version=9), 5, NOW).version == 9


# ---------------------------------------------------------------------------------------------------------- conflicts


def test_a_decision_of_the_layout_comes_before_the_first_files_or_not_at_all() -> None:
    world = World(PLAIN)
    assert world.conflict(PLAIN, base(None), DECISION) is None
    assert world.conflict(PLAIN, base(snapshot(1, decides=True)), DECISION) is None
    found = world.conflict(PLAIN, base(snapshot(1)), DECISION)
    assert found is not None and found.check == "first_files_came_first"


def test_files_of_the_schema_that_the_table_was_laid_out_with_fit_without_a_look() -> None:
    world = World()
    assert world.conflict(PLAIN, base(None)) is None
    assert world.conflict(PLAIN, base(snapshot(1))) is None
    assert world.conflict(schema(2, **DATA), base(snapshot(1, 1, decides=True), 2)) is None, "newer, and no file yet"
    assert world.conflict(schema(2, **DATA), base(None, 1)) is None
    assert world.store.snapshot().requests == 0


def test_files_of_another_layout_do_not_fit() -> None:
    world = World(PLAIN, schema(1, **DATA))
    found = world.conflict(schema(1, **DATA), base(snapshot(1), 1))
    assert found is not None
    assert (found.check, found.reason) == (
        "another_schema",
        "its files were written with schema 1, and the table's are laid out by schema 0, which differs in"
        " 'data-file.path-directory': open the table again and write the rows again",
    )
    assert world.conflict(PLAIN, base(None, 1)) is not None, "the newest schema decides where there is no snapshot"
    assert world.conflict(PLAIN, base(snapshot(1, 1, decides=True), 1)) is not None
    assert world.conflict(schema(2), base(snapshot(1), 2)) is None, "another schema of the same layout"


def test_another_number_of_fixed_buckets_is_no_other_layout_once_there_are_files() -> None:
    two, four = ({"bucket": n, "bucket-key": "v"} for n in ("2", "4"))
    world = World(schema(0, **two), schema(1, **four))
    assert world.conflict(schema(1, **four), base(snapshot(1), 1)) is None
    assert world.conflict(schema(0, **two), base(None, 1)) is not None, "no files yet"
    assert written_under_another_layout(schema(0, **two), schema(1, **four), held_files=True) is None
    found = written_under_another_layout(schema(0, **two), schema(1, **four), held_files=False)
    assert found is not None and "'bucket'" in found.reason


def test_the_writer_that_finds_a_schema_of_another_layout_corrects_it() -> None:
    """The writer of the first files may have died before it could."""
    world = World(PLAIN, schema(1, **DATA))
    world.put(snapshot(1))
    assert world.conflict(schema(1, **DATA), base(snapshot(1), 1)) is not None
    assert world.schemas() == [0, 1, 2]
    assert world.schema(2).option_texts == {}
    assert world.conflict(PLAIN, base(snapshot(2, 1), 1)) is not None, "its own schema is the older one"
    assert world.schemas() == [0, 1, 2], "that writer opens the table again, and nothing has to be corrected"


def test_a_correction_that_fails_leaves_the_conflict() -> None:
    world = World(PLAIN, schema(1, **DATA))
    world.inner.refuses = True
    assert world.conflict(schema(1, **DATA), base(snapshot(1), 1)) is not None


# ------------------------------------------------------------------------------------------- what follows first files


def test_where_nothing_changes_one_look_at_the_next_schema_is_enough() -> None:
    world = World(PLAIN)
    follow_first_files(world.timeline, snapshot(1), NOW)
    assert world.schemas() == [0]
    world.store.reset()
    follow_first_files(world.timeline, snapshot(1), NOW)
    assert world.store.snapshot().by_operation == {"get": 1}


def test_a_newer_schema_of_the_same_layout_stays() -> None:
    world = World(PLAIN, schema(1, comment="x"))
    follow_first_files(world.timeline, snapshot(1), NOW)
    assert world.schemas() == [0, 1]


def test_a_newer_schema_of_another_layout_is_followed_by_one_that_fits() -> None:
    world = World(PLAIN, schema(1, **DATA), schema(2, owner="me", **DATA))
    follow_first_files(world.timeline, snapshot(1), NOW)
    assert world.schemas() == [0, 1, 2, 3]
    made = world.schema(3)
    assert (made.option_texts, made.id, made.time_ms) == ({"owner": "me"}, 3, 99_500)


def test_a_change_that_was_announced_finds_its_number_taken() -> None:
    """The snapshot before the first files announced a change of the layout, which may still arrive."""
    world = World(PLAIN)
    world.put(snapshot(1, decides=True), snapshot(2))
    follow_first_files(world.timeline, snapshot(2), NOW)
    assert world.schemas() == [0, 1]
    assert world.schema(1).option_texts == {}
    other = World(PLAIN)
    other.put(snapshot(1), snapshot(2))
    follow_first_files(other.timeline, snapshot(2), NOW)
    assert other.schemas() == [0], "the snapshot before has files, so nothing was announced"
    alone = World(PLAIN)
    follow_first_files(alone.timeline, snapshot(2), NOW)
    assert alone.schemas() == [0], "the snapshot before is gone"


def test_races_for_the_next_schema_are_run_again_and_not_for_ever() -> None:
    world = World(PLAIN, schema(1, **DATA))
    world.inner.races = 3
    follow_first_files(world.timeline, snapshot(1), NOW)
    assert world.schemas() == list(range(6))
    assert world.schema(5).option_texts == {"lost": "schema/schema-4"}
    world.inner.races = 1000
    world.inner.put("schema/schema-6", schema(6, **DATA).to_json())
    with pytest.raises(RetriesExhausted, match="races for the next schema of memory://layout-rules"):
        follow_first_files(world.timeline, snapshot(1), NOW)


def test_only_first_files_are_followed_and_they_are_read_unless_they_were_just_read() -> None:
    world = World(PLAIN, schema(1, **DATA))
    world.put(snapshot(1), snapshot(2, total_record_count=14))
    follow_landed(world.timeline, SnapshotRef(2, "u2"), NOW)
    follow_landed(world.timeline, SnapshotRef(3, "u3"), NOW)
    assert world.schemas() == [0, 1], "rows on top of others, and a snapshot that is gone"
    follow_landed(world.timeline, SnapshotRef(2, "u2"), NOW, snapshot(2, uuid="another"))
    assert world.schemas() == [0, 1], "what was read is another snapshot"
    world.store.reset()
    follow_landed(world.timeline, SnapshotRef(2, "u2"), NOW, snapshot(2, total_record_count=14))
    assert world.store.snapshot().requests == 0
    follow_landed(world.timeline, SnapshotRef(1, "u1"), NOW)
    assert world.schemas() == [0, 1, 2]


# --------------------------------------------------------------------------------------------- the schema of a snapshot


def test_a_snapshot_never_names_an_older_schema_than_its_base_or_its_files() -> None:
    world = World(PLAIN, schema(1, **DATA), schema(2, **DATA))
    assert schema_named(PLAIN, base(snapshot(4, 0), 1), world.timeline) == 0
    assert schema_named(schema(1, **DATA), base(snapshot(4, 0), 2), world.timeline) == 2, "the same layout"
    moved = World(PLAIN, schema(1, **DATA), schema(2), schema(3, **DATA))
    assert schema_named(PLAIN, base(snapshot(4, 2), 3), moved.timeline) == 2
    assert schema_named(schema(2), base(snapshot(4, 0), 3), moved.timeline) == 2
    assert schema_named(schema(2), base(None, 3), moved.timeline) == 2
    two, four = ({"bucket": n, "bucket-key": "v"} for n in ("2", "4"))
    buckets = World(schema(0, **two), schema(1, **four))
    assert schema_named(schema(0, **two), base(snapshot(4, 0), 1), buckets.timeline) == 1, "only their number differs"
