"""A table's schemas: which one is the newest, and whether the table is still the one that was opened (H21)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from at_each_request import Struck
from by_hand.histories import (
    chain,
    get_once,
    gone,
    new_store,
    remove,
    schema,
    snapshot,
    timeline,
)

from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.core.errors import TableCorrupt, TableNotFound
from lakelatch.core.metadata.schema import TableSchema
from lakelatch.core.metadata.schemas.dropped import marked_dropped
from lakelatch.core.paths import TablePaths


@pytest.fixture
def store() -> Any:
    return new_store(Struck)


def put_schemas(store: Any, *numbers: int) -> list[TableSchema]:
    made = [replace(schema(), id=number, comment=f"schema {number}") for number in numbers]
    for one in made:
        store.put(f"schema/schema-{one.id}", one.to_json())
    store.asked.clear()
    return made


def first(store: Any) -> bytes:
    data: bytes = store.get("schema/schema-0")
    store.asked.clear()
    return data


# ------------------------------------------------------------------------------------------------- schemas


def test_schemas_are_listed_in_order_without_what_is_none(store: Any) -> None:
    put_schemas(store, 10, 2)
    for name in ("schema-x", "README", "schema-3.tmp", "snapshot-4", "schema-04", "schema-٤", "schema-²"):
        store.put(f"schema/{name}", b"x")
    assert timeline(store).schema_ids() == [0, 2, 10]


def test_a_table_whose_schemas_are_not_listed_yet_is_there(store: Any) -> None:
    put_schemas(store, 0)
    store.list = lambda prefix: iter(())
    assert timeline(store).schema_ids() == [0]
    assert timeline(store).opened()[0].id == 0
    store.delete_many(["schema/schema-0"])
    with pytest.raises(TableNotFound):
        timeline(store).opened()


def test_a_schema_is_read_once(store: Any) -> None:
    (second,) = put_schemas(store, 2)
    read = timeline(store)
    assert read.schema(2) == read.schema(2) == second
    assert store.asked == ["get schema/schema-2"]
    shared: dict[int, TableSchema] = {}
    Timeline(store, TablePaths(), schemas=shared).schema(2)
    assert Timeline(store, TablePaths(), schemas=shared).schema(2) == second
    assert len(store.asked) == 2


def test_a_missing_schema_is_named_with_the_file_that_needs_it(store: Any) -> None:
    with pytest.raises(TableCorrupt, match="schema/schema-7 is missing; snapshot/snapshot-3 needs it"):
        timeline(store).schema(7, "snapshot/snapshot-3")
    with pytest.raises(TableCorrupt) as error:
        timeline(store).schema(7)
    assert error.value.message == "schema/schema-7 is missing"


def test_the_newest_schema_is_the_one_with_the_largest_id(store: Any) -> None:
    *_, newest = put_schemas(store, 3, 2, 10)
    assert timeline(store).latest_schema() == newest
    assert store.asked == ["list schema/", "get schema/schema-10"]


def test_a_folder_without_schemas_is_no_table(store: Any) -> None:
    remove(store, "schema/schema-0")
    for look in (timeline(store).latest_schema, timeline(store).opened):
        with pytest.raises(TableNotFound, match=f"there is no table at {store.url}"):
            look()


def test_a_table_that_lost_its_schemas_is_told_from_one_that_never_was(store: Any) -> None:
    remove(store, "schema/schema-0")
    chain(store, 3, 4)
    lost = (
        f"schema/schema-0 is missing at {store.url}: there are snapshots, but no schema; snapshot/snapshot-4 needs one"
    )
    for look in (timeline(store).latest_schema, timeline(store).opened):
        with pytest.raises(TableCorrupt, match=lost):
            look()


def test_a_schema_that_cannot_be_read_is_lost_or_its_table_was_dropped(store: Any) -> None:
    put_schemas(store, 1)
    get_once(store, "schema/schema-1", gone)
    with pytest.raises(TableCorrupt, match="schema/schema-1 is missing"):
        timeline(store).latest_schema()

    def dropped() -> None:
        remove(store, "schema/schema-0", "schema/schema-1")

    get_once(store, "schema/schema-1", dropped)
    with pytest.raises(TableNotFound, match="there is no table"):
        timeline(store).latest_schema()


def test_a_damaged_schema_is_reported_as_it_is(store: Any) -> None:
    """Whether the table still exists is not asked."""
    store.put("schema/schema-0", b"garbage")
    store.asked.clear()
    with pytest.raises(TableCorrupt, match="schema/schema-0"):
        timeline(store).latest_schema()
    assert store.asked == ["list schema/", "get schema/schema-0"]


def test_a_table_is_opened_with_its_newest_schema_and_the_bytes_of_its_first(store: Any) -> None:
    data = first(store)
    found, identity = timeline(store).opened()
    assert (found.id, identity) == (0, data)
    assert store.asked == ["list schema/", "get schema/schema-0"], "one schema is read once"
    (newest,) = put_schemas(store, 2)
    read = timeline(store)
    assert read.opened() == (newest, data)
    assert sorted(store.asked) == ["get schema/schema-0", "get schema/schema-2", "list schema/"]
    store.asked.clear()
    assert read.schema(2) == newest and store.asked == []
    remove(store, "schema/schema-0")
    assert timeline(store).opened() == (newest, None), "the first one was lost"


def test_a_table_that_goes_while_it_is_opened_is_not_found(store: Any) -> None:
    put_schemas(store, 1)
    get_once(store, "schema/schema-1", gone)
    with pytest.raises(TableCorrupt, match="schema/schema-1 is missing"):
        timeline(store).opened()
    get_once(store, "schema/schema-1", lambda: remove(store, "schema/schema-0", "schema/schema-1"))
    with pytest.raises(TableNotFound, match="there is no table"):
        timeline(store).opened()


def test_a_table_that_is_being_dropped_is_not_opened(store: Any) -> None:
    put_schemas(store, 1)
    store.put("schema/schema-0", marked_dropped(store.get("schema/schema-0"), 7))
    with pytest.raises(TableNotFound, match="is being dropped"):
        timeline(store).opened()


def test_a_newer_schema_is_found_by_one_listing(store: Any) -> None:
    zero, newest = schema(), put_schemas(store, 3, 1)[0]
    assert timeline(store).newest_schema(zero) == newest
    assert store.asked == ["list schema/", "get schema/schema-3"]
    store.asked.clear()
    assert timeline(store).newest_schema(newest) is newest
    assert store.asked == ["list schema/"], "the known one is not read again"


def test_a_known_schema_that_is_gone_shows_that_the_table_is_another(store: Any) -> None:
    known = replace(schema(), id=4)
    with pytest.raises(TableNotFound, match="made again"):
        timeline(store, first_schema=b"another").newest_schema(known)
    assert timeline(store, first_schema=first(store)).newest_schema(known) is known, "a listing that lags behind"
    put_schemas(store, 4)
    assert timeline(store, first_schema=b"another").newest_schema(known) is known, (
        "while it is listed, nothing is asked"
    )


def test_a_newer_schema_is_found_by_name(store: Any) -> None:
    put_schemas(store, 1, 2, 4)
    assert [timeline(store).newest_schema_id(known) for known in (0, 2, 4, 7)] == [2, 2, 4, 7]


# ------------------------------------------------------------------------------------------------- is it still the table?


def test_a_handle_without_an_identity_accepts_any_table(store: Any) -> None:
    remove(store, "schema/schema-0")
    timeline(store).check_table()
    assert store.asked == []


def test_a_handle_tells_what_became_of_its_table(store: Any) -> None:
    data = first(store)
    read = timeline(store, first_schema=data)
    read.check_table()
    for held, told in (
        (b"another", "dropped and made again since it was opened: open the table again"),
        (marked_dropped(data, 7), "is being dropped"),
        (None, "dropped or renamed since it was opened: open the table again, where it is now"),
    ):
        remove(store, "schema/schema-0")
        if held is not None:
            store.put("schema/schema-0", held)
        with pytest.raises(TableNotFound, match=told):
            read.check_table()
        with pytest.raises(TableNotFound, match=told):
            read.check_stands()


def test_a_missing_file_of_a_table_that_goes_is_no_damage(store: Any) -> None:
    """Also for a handle that accepts any table."""
    read, made = timeline(store), snapshot(1)
    with pytest.raises(TableCorrupt) as missing:
        read.delta_manifests(made)
    assert missing.value.missing == "manifest/delta-u1"
    assert missing.value.needed_by == "snapshot/snapshot-1"
    data = first(store)
    store.put("schema/schema-0", marked_dropped(data, 7))
    with pytest.raises(TableNotFound, match="is being dropped"):
        read.delta_manifests(made)
    remove(store, "schema/schema-0")
    with pytest.raises(TableNotFound, match="dropped or renamed"):
        read.delta_manifests(made)
    put_schemas(store, 1)
    with pytest.raises(TableCorrupt, match="manifest/delta-u1 is missing; snapshot/snapshot-1 needs it"):
        read.delta_manifests(made)


def test_a_schema_that_a_writer_made_again_is_taken_back_with_its_table_gone(store: Any) -> None:
    """H21: no phantom is left of a table that was dropped, or whose first schema is another's by now."""
    data = first(store)
    for left in (None, b"another"):
        remove(store, "schema/schema-0")
        if left is not None:
            store.put("schema/schema-0", left)
        put_schemas(store, 2)
        with pytest.raises(TableNotFound, match="dropped or renamed"):
            timeline(store, first_schema=data).take_back_schema(2)
        assert timeline(store).schema_ids() == ([] if left is None else [0])


def test_a_schema_alone_is_taken_back(store: Any) -> None:
    """The handle has made it again itself, so that it looks like its table."""
    data = first(store)
    with pytest.raises(TableNotFound, match="dropped or renamed"):
        timeline(store, first_schema=data).take_back_schema(0)
    assert timeline(store).schema_ids() == []


def test_a_schema_of_a_table_that_stands_is_left_alone(store: Any) -> None:
    data = first(store)
    put_schemas(store, 2)
    timeline(store, first_schema=data).take_back_schema(2)
    assert timeline(store).schema_ids() == [0, 2]
    remove(store, "schema/schema-2")
    chain(store, 1)
    timeline(store, first_schema=data).take_back_schema(0)
    assert timeline(store).schema_ids() == [0], "it has snapshots"
