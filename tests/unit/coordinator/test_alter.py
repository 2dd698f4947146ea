"""Schema changes: their results, refusals, and several changes at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import PutOutcome, Unknown
from lakelatch.coordinator.alteration import alter
from lakelatch.coordinator.commit.committer import Committer
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.coordinator.schema_commit import change_schema, create_schema
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.core.metadata.schema import TableSchema, new_schema, parse_schema
from lakelatch.core.metadata.schemas.changes import SchemaChange
from lakelatch.core.paths import TablePaths
from lakelatch.core.rows.types import AtomicType, Field, sql

COLUMNS = [
    ("id", "BIGINT NOT NULL"),
    ("name", "VARCHAR(5)"),
    ("day", "DATE"),
    (
        "r",
        {"type": "ROW", "fields": [{"id": 10, "name": "x", "type": "INT"}, {"id": 11, "name": "y", "type": "STRING"}]},
    ),
    ("v", {"type": "ARRAY", "element": "INT"}),
]


@pytest.fixture
def table(tmp_path: Path) -> ll.Table:
    return ll.create_table(str(tmp_path / "t"), ll.Schema(COLUMNS), partition_by=["day"])


def shown(schema: TableSchema) -> list[str]:
    return [f"{f.id} {f.name} {sql(f.type)}" for f in schema.fields]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (ll.add_column("n", "DECIMAL(9, 2)", after="id"), "12 n DECIMAL(9, 2)"),
        (ll.add_column("n", pa.struct([("a", pa.int32())])), "12 n ROW<a INT>"),
        (ll.rename_column("name", "label"), "1 label VARCHAR(5)"),
        (ll.update_type("name", "STRING"), "1 name STRING"),
        (ll.update_type("id", "INT"), "0 id INT NOT NULL"),
        (ll.update_type("v.element", "BIGINT"), "4 v ARRAY<BIGINT>"),
        (ll.update_nullability("id", True), "0 id BIGINT"),
        (ll.add_column("r.z", "INT", first=True), "3 r ROW<z INT, x INT, y STRING>"),
        (ll.drop_column("r.x"), "3 r ROW<y STRING>"),
    ],
)
def test_a_change_keeps_field_ids(table: ll.Table, change: SchemaChange, expected: str) -> None:
    made = table.alter(change)
    assert expected in shown(made)
    assert made.id == 1
    assert ll.open_table(table.url).schema.to_json() == made.to_json()


def test_a_field_id_is_never_used_again(table: ll.Table) -> None:
    table.alter(ll.add_column("a", "INT"))
    table.alter(ll.drop_column("a"))
    made = table.alter(ll.add_column("a", "INT"))
    assert [f.id for f in made.fields if f.name == "a"] == [13]
    assert made.highest_field_id == 13


def test_columns_move(table: ll.Table) -> None:
    table.alter(ll.move_column("name", first=True), ll.move_column("id"), ll.move_column("day", before="id"))
    assert table.schema.names == ("name", "r", "v", "day", "id")


def test_older_rows_are_read_with_the_new_schema(table: ll.Table) -> None:
    rows = pa.table({"id": [1], "name": ["a"], "day": [None], "r": [{"x": 7, "y": "z"}], "v": [[1]]}).cast(
        table.arrow_schema
    )
    table.append(rows)
    table.alter(
        ll.rename_column("name", "label"),
        ll.add_column("name", "STRING", default="new"),
        ll.update_type("v.element", "BIGINT"),
        ll.add_column("r.z", "INT"),
    )
    expected = {"id": 1, "label": "a", "day": None, "r": {"x": 7, "y": "z", "z": None}, "v": [1], "name": None}
    assert table.to_arrow().to_pylist() == [expected]
    table.append(table.to_arrow())
    assert table.to_arrow(where="name = 'new'").num_rows == 1  # the default replaces a null that is written
    assert table.at(snapshot=1).to_arrow().column_names == ["id", "name", "day", "r", "v"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (ll.add_column("id", "INT"), "already is a column 'id'"),
        (ll.add_column("n", "INT NOT NULL"), "NOT NULL"),
        (ll.add_column("n", "BANANA"), "BANANA"),
        (ll.add_column("n", "INT", default="x"), "default of column 'n'"),
        (ll.add_column("n", "INT", after="banana"), "no column 'banana'"),
        (ll.add_column("name.x", "INT"), "'name' is not a ROW"),
        (ll.drop_column("day"), "partition key"),
        (ll.drop_column("banana"), "no column 'banana'"),
        (ll.rename_column("day", "date"), "partition column 'day'"),
        (ll.rename_column("name", "id"), "already is a column 'id'"),
        (ll.update_type("name", "BLOB"), "cannot change from VARCHAR"),
        (ll.update_type("day", "TIMESTAMP(3)"), "partition key"),
        (ll.update_type("r", "INT"), "cannot change"),
        (ll.rename_column("v.element", "e"), "only the type"),
        (ll.update_nullability("name", False), "may already have nulls"),
        (ll.set_option("bucket", "banana"), "bucket"),
        (ll.set_option("primary-key", "id"), "primary-key"),
        (ll.move_column("id", after="id"), "next to itself"),
    ],
)
def test_what_the_format_forbids_is_named_and_changes_nothing(table: ll.Table, change: SchemaChange, said: str) -> None:
    with pytest.raises(ll.InvalidArgument, match=said):
        table.alter(ll.set_option("snapshot.num-retained.max", 9), change)
    assert [s.id for s in table.schemas()] == [0]


@pytest.mark.parametrize(("before", "after"), [("-2", "3"), ("3", "-2"), ("-2", "-1"), ("-1", "-2")])
def test_buckets_that_are_postponed_stay_postponed(before: str, after: str) -> None:
    """And others do not become so: neither a write nor `rescale` could follow such a change, and both would take it back."""
    keyed = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())])
    table = ll.create_table(
        f"memory://postponed{before}{after}/t", keyed, primary_key=["id"], options={"bucket": before}
    )
    table.upsert(pa.table({"id": [1], "v": ["x"]}))
    with pytest.raises(ll.InvalidArgument, match=r"option 'bucket' cannot change from or to -[12]: .* depend on it"):
        table.alter(ll.set_option("bucket", after))
    assert table.refresh().options["bucket"] == before


def test_options_that_files_depend_on_cannot_change(table: ll.Table) -> None:
    table.alter(ll.set_option("bucket", "2"), ll.set_option("bucket-key", "id"))
    table.alter(ll.remove_option("bucket"), ll.remove_option("bucket-key"))
    table.append(pa.table({"id": [1]}))
    for option, value in (("bucket", "2"), ("row-tracking.enabled", True), ("manifest.format", "orc")):
        change = ll.set_option(option, value)
        with pytest.raises(ll.InvalidArgument, match="depend on it"):
            table.alter(change)
    table.alter(ll.set_option("snapshot.num-retained.max", 9))
    assert table.options["snapshot.num-retained.max"] == "9"


def test_a_rename_updates_the_options_that_name_the_column(tmp_path: Path) -> None:
    options = {"bucket": "2", "bucket-key": "a,b", "fields.a.stats-mode": "full"}
    table = ll.create_table(str(tmp_path / "t"), ll.Schema([("a", "INT"), ("b", "INT")]), options=options)
    made = table.alter(ll.rename_column("a", "c"))
    assert dict(made.option_texts) == {"bucket": "2", "bucket-key": "c,b", "fields.c.stats-mode": "full"}


def test_concurrent_changes_all_land(table: ll.Table) -> None:
    """Each is applied to the results of the others."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: ll.open_table(table.url).alter(ll.add_column(f"c{n}", "INT")), range(8)))
    schemas = ll.open_table(table.url).schemas()
    assert [s.id for s in schemas] == list(range(9))
    added = {f.name: f.id for f in schemas[-1].fields if f.name.startswith("c")}
    assert len(added) == len(set(added.values())) == 8


class Silent(MemoryStore):
    """Carries out each create, or not, and never answers."""

    def __init__(self, applies: bool) -> None:
        super().__init__(f"memory://silent-{uuid4()}/t")
        self.applies, self.hidden = applies, False

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        if self.applies:
            super().put_if_absent(key, data)
        return Unknown("no answer")

    def get(self, key: str) -> bytes:
        if self.hidden:
            raise ll.StoreUnavailable("away")
        return super().get(key)


def first_schema() -> TableSchema:
    return new_schema(ll.Schema([("a", "INT")]).fields)


def test_an_answer_that_was_lost_is_read_back() -> None:
    """H2: it landed, but the answer was lost."""
    store = Silent(applies=True)
    assert create_schema(store, "schema/schema-0", first_schema().to_json())
    made = change_schema(Timeline(store, TablePaths()), [ll.add_column("b", "INT")])
    assert made.after.id == 1


def test_a_store_that_never_answers_is_unknown_and_resolves() -> None:
    store = Silent(applies=False)
    with pytest.raises(ll.OutcomeUnknown) as caught:
        create_schema(store, "schema/schema-0", b"{}")
    store.applies = True
    assert caught.value.resolve(timeout=5) == "schema/schema-0"
    assert store.get("schema/schema-0") == b"{}"


def test_an_unknown_schema_that_another_made_did_not_land() -> None:
    store = Silent(applies=False)
    with pytest.raises(ll.OutcomeUnknown) as caught:
        create_schema(store, "schema/schema-0", b"{}")
    store.put("schema/schema-0", b"{ }")
    with pytest.raises(ll.RetriesExhausted, match="another writer"):
        caught.value.resolve(timeout=5)


def test_rows_add_their_columns_if_allowed(table: ll.Table) -> None:
    rows = pa.table({"id": [1], "altitude": [1.5], "tags": [["a"]]})
    with pytest.raises(ll.InvalidArgument, match="no column 'altitude'"):
        table.append(rows)
    other = ll.open_table(table.url)
    table.append(rows, evolve=True)
    other.append(pa.table({"id": [2], "altitude": [2.5]}), evolve=True)
    found = table.to_arrow(columns=["id", "altitude", "tags"]).sort_by("id").to_pylist()
    assert found == [{"id": 1, "altitude": 1.5, "tags": ["a"]}, {"id": 2, "altitude": 2.5, "tags": None}]
    assert [s.id for s in table.schemas()] == [0, 1]


def test_a_table_of_the_past_is_not_altered(table: ll.Table) -> None:
    table.append(pa.table({"id": [1]}))
    past: Any = table.at(snapshot=1)
    with pytest.raises(ll.InvalidArgument, match="read only"):
        past.alter(ll.drop_column("name"))


FIELDS = [Field(0, "id", AtomicType("BIGINT"))]


class Races(MemoryStore):
    """A store in which another writer creates each schema first, a given number of times; or that never answers a create."""

    def __init__(self, url: str, races: int = 0) -> None:
        super().__init__(url)
        self.races, self.silent, self.creates = races, False, 0

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        self.creates += 1
        if self.silent:
            return Unknown("no answer")
        if self.races and key != "schema/schema-0":
            self.races -= 1
            super().put_if_absent(key, replace(parse_schema(data, key), comment=f"by another {self.races}").to_json())
        return super().put_if_absent(key, data)


def raced(races: int) -> tuple[Races, Timeline, list[float], Any]:
    store, waits = Races(f"memory://alter-{uuid4()}/t", races), list[float]()
    store.put_if_absent("schema/schema-0", new_schema(FIELDS).to_json())
    return store, Timeline(store, TablePaths()), waits, replace(MACHINE, sleep=waits.append)


def test_a_change_that_loses_races_waits_longer_each_time_and_lands() -> None:
    _, timeline, waits, around = raced(6)
    made = change_schema(timeline, [ll.set_comment("mine")], around)
    assert made.after.id == 7
    assert len(waits) == 6
    assert all(0 <= wait <= min(2, 0.05 * 2 ** (number + 1)) for number, wait in enumerate(waits))
    assert max(waits) > 0


def test_a_change_gives_up_after_many_races() -> None:
    _, timeline, waits, around = raced(10_000)
    with pytest.raises(ll.RetriesExhausted, match="lost 40 races for the next schema of memory://alter"):
        change_schema(timeline, [ll.set_comment("mine")], around)
    assert len(waits) == 39
    assert all(wait <= 2 for wait in waits)


def test_a_schema_without_an_answer_resolves_until_its_time_is_over() -> None:
    """G2: unknown until the store answers; then it landed, or the name holds another schema."""
    store, _, waits, _ = raced(0)
    clock = [0.0]

    def slept(seconds: float) -> None:
        waits.append(seconds)
        clock[0] += seconds + 0.1

    around = replace(MACHINE, sleep=slept, monotonic_s=lambda: clock[0])
    store.silent = True
    data = new_schema(FIELDS).to_json()
    with pytest.raises(ll.OutcomeUnknown) as unknown:
        create_schema(store, "schema/schema-1", data, around)
    assert waits and all(wait <= 0.05 * 2 ** (number + 1) for number, wait in enumerate(waits))
    asked = store.creates
    with pytest.raises(ll.OutcomeUnknown):
        unknown.value.resolve(0.0)
    once = store.creates - asked
    asked = store.creates
    with pytest.raises(ll.OutcomeUnknown):
        unknown.value.resolve(1.0)
    assert store.creates - asked > once, "it asks again while there is time"
    store.silent = False
    assert unknown.value.resolve(1.0) == "schema/schema-1"
    store.put("schema/schema-1", b"another's")
    with pytest.raises(ll.RetriesExhausted, match="made by another writer"):
        unknown.value.resolve(1.0)


def test_a_change_without_an_answer_resolves_until_the_store_tells() -> None:
    """G2: `resolve()` may be asked again and again; at last it returns the schema that this change made."""
    store, timeline, _, around = raced(0)
    store.silent = True
    with pytest.raises(ll.OutcomeUnknown) as unknown:
        alter(timeline, [ll.set_comment("mine")], lambda schema: Committer(store, TablePaths(), schema), around)
    with pytest.raises(ll.OutcomeUnknown) as still:
        unknown.value.resolve(0.0)
    assert still.value.identity == unknown.value.identity == {"schema": "schema/schema-1"}
    store.silent = False
    made = still.value.resolve(1.0)
    assert (made.id, made.comment) == (1, "mine")
    assert made == timeline.schema(1)
