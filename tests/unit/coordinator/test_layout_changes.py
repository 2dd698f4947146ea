"""A change of the layout that could not be settled is taken back, beside other changes; and which changes have to be settled."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from fragile import ROWS, Fragile, opened

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import PutOutcome, Unknown
from lakelatch.core.errors import CommitConflict, OutcomeUnknown, StoreUnavailable
from lakelatch.core.metadata.schema import TableSchema, parse_schema
from lakelatch.core.metadata.schemas.layout import held_files

DIRECTORY = "data-file.path-directory"
CHANGE = ll.set_option(DIRECTORY, "data")


class Unsettled(Fragile):
    """A store in memory that refuses some creates, or leaves them unanswered, until a test takes that back.

    Attributes:
        rivals: how many schemas from the second on another writer makes first, each with the option that is to be undone.
    """

    def __init__(self) -> None:
        super().__init__()
        self.refused: set[str] = set()
        self.silent: set[str] = set()
        self.rivals = 0

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        self._strike("create", key)
        if key in self.refused:
            raise StoreUnavailable("away")
        if key in self.silent:
            return Unknown("silence")
        if self.rivals and key.startswith("schema/") and key not in ("schema/schema-0", "schema/schema-1"):
            self.rivals -= 1
            theirs = parse_schema(data, key)
            texts = {**theirs.option_texts, DIRECTORY: "data"}
            MemoryStore.put(self, key, replace(theirs, option_texts=texts, comment=f"rival {self.rivals}").to_json())
        return MemoryStore.put_if_absent(self, key, data)


@pytest.fixture
def store() -> Unsettled:
    """Its table can be announced a change, and cannot settle it."""
    made = Unsettled()
    made.refused = {"snapshot/snapshot-2"}
    return made


def schemas(store: Unsettled) -> list[TableSchema]:
    return opened(store).schemas()


def test_a_change_that_the_store_refuses_to_settle_is_taken_back(store: Unsettled) -> None:
    with pytest.raises(StoreUnavailable, match="away"):
        opened(store).alter(CHANGE)
    first, made, back = schemas(store)
    assert (DIRECTORY in first.option_texts, made.option_texts[DIRECTORY]) == (False, "data")
    assert back.option_texts == first.option_texts
    assert back.time_ms >= made.time_ms


@pytest.mark.parametrize("answer", ["refused", "silent"])
def test_a_change_that_first_files_follow_stands_although_it_cannot_be_settled(store: Unsettled, answer: str) -> None:
    """The store refuses the last request of the change, or loses its answer. Files that lie where it puts them would be lost
    to every reader if it was undone."""
    table = opened(store)

    def first_files() -> None:
        store.refused = set()
        opened(store).refresh().append(ROWS)
        setattr(store, answer, {"snapshot/snapshot-2"})

    store.before = {"create snapshot/snapshot-2": first_files}
    assert table.alter(CHANGE).option_texts[DIRECTORY] == "data"
    assert [DIRECTORY in schema.option_texts for schema in schemas(store)] == [False, True, True]
    assert opened(store).refresh().to_arrow().num_rows == ROWS.num_rows


def test_changes_of_others_stay_when_it_is_taken_back(store: Unsettled) -> None:
    table, other = opened(store), opened(store)
    store.before = {"create schema/schema-2": lambda: other.alter(ll.add_column("w", "INT"))}
    with pytest.raises(StoreUnavailable):
        table.alter(CHANGE)
    newest = schemas(store)[-1]
    assert (newest.id, newest.names, newest.option_texts.get(DIRECTORY)) == (3, ("v", "w"), None)


def test_a_change_that_another_has_taken_back_already_is_left_at_that(store: Unsettled) -> None:
    table = opened(store)
    first = schemas(store)[0]
    theirs = replace(first, id=2).to_json()
    store.before = {"create snapshot/snapshot-2": lambda: MemoryStore.put(store, "schema/schema-2", theirs)}
    with pytest.raises(StoreUnavailable):
        table.alter(CHANGE)
    assert [schema.id for schema in schemas(store)] == [0, 1, 2]


def test_a_change_whose_undoing_keeps_losing_races_is_unknown_and_resolves(store: Unsettled) -> None:
    table = opened(store)
    store.rivals = 1_000
    with pytest.raises(
        OutcomeUnknown, match=r"schema 1 of .* had to be undone, but that failed as well: lost 20"
    ) as lost:
        table.alter(CHANGE)
    assert lost.value.identity == {"schema": "schema/schema-1"}
    assert len(schemas(store)) == 22
    store.rivals = 0
    with pytest.raises(StoreUnavailable, match="away"):
        lost.value.resolve(1.0)
    newest = schemas(store)[-1]
    assert DIRECTORY not in newest.option_texts
    assert (newest.id, newest.comment) == (22, "rival 980")


def test_an_unknown_settlement_is_identified_by_schema_and_snapshot(store: Unsettled) -> None:
    store.refused, store.silent = set(), {"snapshot/snapshot-2"}
    with pytest.raises(OutcomeUnknown, match="it is not known whether schema 1 came before the first commit") as lost:
        opened(store).alter(CHANGE)
    assert (lost.value.identity["schema"], lost.value.identity["snapshot_id"]) == ("schema/schema-1", 2)
    with pytest.raises(OutcomeUnknown, match="it is not known whether schema 1 came before") as still:
        lost.value.resolve(0.05)
    assert still.value.identity == lost.value.identity
    store.silent = set()
    assert still.value.resolve(5.0).option_texts[DIRECTORY] == "data"


def test_an_option_on_which_files_depend_in_another_way_is_settled_too() -> None:
    """It decides no place of a file, but it cannot change once there is one."""
    store = Unsettled()
    table = opened(store)
    made = table.alter(ll.set_option("manifest.format", "orc"))
    assert made.option_texts["manifest.format"] == "orc"
    settled = table.snapshot()
    assert settled is not None and settled.id == 2 and not held_files(settled)
    again = opened(store)
    again.refresh().append(pa.table({"v": [1]}))
    assert again.refresh().to_arrow()["v"].to_pylist() == [1]


def test_another_number_of_buckets_is_settled_while_there_is_no_file() -> None:
    """With files it may change partition by partition; without, the first files must all have the same."""
    store = Unsettled()
    table = opened(store, **{"bucket": "2", "bucket-key": "v"})
    assert table.alter(ll.set_option("bucket", "4")).bucket == 4
    settled = table.snapshot()
    assert settled is not None and settled.id == 2 and not held_files(settled)


def test_first_files_beside_a_change_that_decides_no_layout_make_it_a_conflict() -> None:
    """Files of either schema lie in the same places, but the option was to hold for all of them."""
    store = Unsettled()
    table, other = opened(store), opened(store)
    store.before = {"create snapshot/snapshot-2": lambda: other.append(ROWS)}
    with pytest.raises(CommitConflict, match="its first files were committed meanwhile, and depend on them"):
        table.alter(ll.set_option("manifest.format", "orc"))
    assert "manifest.format" not in schemas(store)[-1].option_texts
    assert opened(store).refresh().to_arrow()["v"].to_pylist() == [1]


def test_with_files_nothing_is_announced() -> None:
    """A rescaling concerns the partitions that are written from then on."""
    store = Unsettled()
    table = opened(store, **{"bucket": "2", "bucket-key": "v"})
    table.append(ROWS)
    created: list[str] = []
    store.before = {"create snapshot/": lambda: created.append("a snapshot")}
    assert table.alter(ll.set_option("bucket", "4")).bucket == 4
    assert created == []
    assert [snapshot.id for snapshot in table.snapshots()] == [1]
