"""What callers give as rows and as columns: nothing of it is left out, and what cannot be taken is named by an error of ours."""

from __future__ import annotations

import copy
import pickle
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.core.errors import InvalidArgument

KEPT = "a value that must be kept"
ROW = pa.struct([("a", pa.int64())])


def made(schema: Any, **about: Any) -> ll.Table:
    return ll.create_table(f"memory://{uuid.uuid4().hex}/t", schema, **about)


def read(table: ll.Table) -> list[dict[str, Any]]:
    return sorted(table.to_arrow().to_pylist(), key=str)


# ------------------------------------------------------------------------------------------------------ nested fields


def merge(table: ll.Table, rows: Any, **about: Any) -> None:
    table.merge(rows, on=["id"], **about).when_matched_update_all().when_not_matched_insert_all().execute()


def set_by_name(table: ll.Table, rows: Any) -> None:
    table.append(pa.table({"id": pa.array([1], pa.int64())}))
    table.merge(rows, on=["id"]).when_matched_update({"x": "s.x"}).execute()


WRITES: dict[str, Callable[[ll.Table, Any], object]] = {
    "append": lambda table, rows: table.append(rows),
    "overwrite": lambda table, rows: table.overwrite(rows),
    "merge": merge,
    "merge that sets": set_by_name,
    "pandas": lambda table, rows: table.append(rows.to_pandas()),
    "polars": lambda table, rows: table.append(pl.from_arrow(rows)),
}
EXTRA: dict[str, tuple[Any, Any]] = {
    "another field": (ROW, {"a": 1, "b": KEPT}),
    "another case": (pa.struct([("name", pa.string())]), {"Name": KEPT}),
    "in a list": (pa.list_(ROW), [{"a": 1, "b": KEPT}]),
    "in a row": (pa.struct([("r", ROW)]), {"r": {"a": 1, "b": KEPT}}),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("kind", EXTRA)
def test_a_field_that_the_table_lacks_is_refused(kind: str, write: str) -> None:
    data_type, value = EXTRA[kind]
    table = made(pa.schema([("id", pa.int64()), ("x", data_type)]))
    with pytest.raises(InvalidArgument, match=r"column 'x.*has no field '(b|Name)'"):
        WRITES[write](table, pa.table({"id": [1], "x": [value]}))
    assert KEPT not in str(read(table))


@pytest.mark.parametrize("kind", [kind for kind in EXTRA if kind != "another case"])
def test_a_field_that_the_table_lacks_is_added(kind: str) -> None:
    data_type, value = EXTRA[kind]
    rows = pa.table({"id": [1], "x": [value]})
    for write in (lambda table: table.append(rows, evolve=True), lambda table: merge(table, rows, evolve=True)):
        table = made(pa.schema([("id", pa.int64()), ("x", data_type)]))
        table.append(pa.table({"id": pa.array([0], pa.int64()), "x": pa.nulls(1)}))
        write(table)
        assert KEPT in str(read(table)[1])
        assert table.verify(data=True) == []


def test_a_known_field_without_a_value_hinders_no_new_one() -> None:
    table = made(pa.schema([("x", ROW)]))
    table.append(pa.table({"x": pa.array([{"a": None, "b": KEPT}])}), evolve=True)
    assert read(table) == [{"x": {"a": None, "b": KEPT}}]


def test_a_map_keeps_the_fields_of_its_values() -> None:
    table = made(pa.schema([("id", pa.int64()), ("x", pa.map_(pa.string(), ROW))]))
    more = pa.array(
        [[("k", {"a": 1, "b": KEPT})]], pa.map_(pa.string(), pa.struct([("a", pa.int64()), ("b", pa.string())]))
    )
    rows = pa.table({"id": [1], "x": more})
    with pytest.raises(InvalidArgument, match=r"column 'x\.value'"):
        table.append(rows)
    table.append(rows, evolve=True)
    assert KEPT in str(read(table))


def test_fields_inside_a_null_are_not_looked_at() -> None:
    hidden = pa.StructArray.from_arrays([pa.array([1, 300])], ["a"], mask=pa.array([False, True]))
    table = made(pa.schema([("x", pa.struct([pa.field("a", pa.int8(), False)]))]))
    table.append(pa.table({"x": hidden}))
    assert table.to_arrow().column("x").to_pylist() == [{"a": 1}, None]


def test_lengths_hold_inside_of_arrays() -> None:
    table = made(ll.Schema([("x", "ARRAY<VARCHAR(2)>")]))
    with pytest.raises(InvalidArgument, match=r"column 'x.element'.*longer than its 2 characters"):
        table.append(pa.table({"x": [["abc"]]}))


# ------------------------------------------------------------------------------------------------------------- frames

SUMS = pd.DataFrame({"k": ["a", "a", "b"], "v": [1, 2, 3]}).groupby("k").sum()
KV = pa.schema([("k", pa.string()), ("v", pa.int64())])
FRAMES: dict[str, Any] = {
    "group": SUMS,
    "frames": [SUMS.iloc[:1], SUMS.iloc[1:]],
    "two levels": pd.DataFrame({"v": [3, 3]}, index=pd.Index(["a", "b"], name="k")).reset_index().set_index(["k", "v"]),
    "also a column": SUMS.reset_index().set_index("k", drop=False),
    "lazy": pl.DataFrame({"k": ["a", "b"], "v": [3, 3]}).lazy(),
    "filtered": pd.DataFrame({"k": ["x", "a", "b"], "v": [1, 3, 3]})[1:],
    "categories": pl.DataFrame({"k": ["a", "b"], "v": [3, 3]}, schema={"k": pl.Categorical, "v": pl.Int32}),
}


@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("write", ["append", "overwrite", "merge", "transaction", "upsert"])
def test_every_column_of_a_frame_arrives(name: str, write: str) -> None:
    table = made(
        pa.schema([pa.field("k", pa.string(), False), ("v", pa.int64())]), primary_key=["k"], options={"bucket": "1"}
    )
    table = table if write == "upsert" else made(KV)
    if write == "merge":
        table.merge(FRAMES[name], on=["k"]).when_not_matched_insert_all().execute()
    elif write == "transaction":
        with table.transaction() as tx:
            tx.append(FRAMES[name])
    else:
        getattr(table, write)(FRAMES[name])
    assert read(table) == [{"k": "a", "v": 3}, {"k": "b", "v": 3}]


TEXT, NUMBER = ("a", pa.string()), ("a", pa.int64())
REFUSED: dict[str, tuple[Any, Any, str]] = {
    "mixed objects": (TEXT, pd.DataFrame({"a": ["x", 1]}), "column 'a' of type object"),
    "two columns": (TEXT, pd.DataFrame([[1, 2]], columns=["a", "a"]), "two columns with the same name 'a'"),
    "two Arrow columns": (NUMBER, pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]), "the same name 'a'"),
    "sparse": (NUMBER, pd.DataFrame({"a": pd.arrays.SparseArray([0, 1])}), "column 'a' of type Sparse"),
    "complex": (NUMBER, pd.DataFrame({"a": [1 + 2j]}), "column 'a' of type complex128"),
    "128 bits": (NUMBER, pl.DataFrame({"a": [1]}, schema={"a": pl.Int128}), "column 'a' is of type Int128"),
    "Python objects": (NUMBER, pl.DataFrame({"a": [object()]}), "column 'a' holds Python objects"),
    "period": (TEXT, pd.DataFrame({"a": pd.period_range("2024-01", periods=1, freq="M")}), "column 'a'.*period"),
    "period as a number": (
        NUMBER,
        pd.DataFrame({"a": pd.period_range("2024-01", periods=1, freq="M")}),
        "column 'a'.*period",
    ),
    "interval": (TEXT, pd.DataFrame({"a": pd.interval_range(0, 1)}), "column 'a'.*interval"),
    "duration": (NUMBER, pd.DataFrame({"a": pd.to_timedelta([1], unit="s")}), "column 'a'.*duration"),
    "index without a name": (NUMBER, pd.DataFrame({"a": [1]}, index=["x"]), "an index with values and without a name"),
    "another index": (
        NUMBER,
        pd.DataFrame({"a": [1]}, index=pd.Index([2], name="a")),
        "a column and an index with the name 'a'",
    ),
    "no columns": (NUMBER, pd.DataFrame(index=[0, 1]), "2 rows and no column"),
    "no Arrow columns": (NUMBER, pa.table({"a": [1]}).select([]), "1 rows and no column"),
    "a dict": (NUMBER, {"a": [1]}, "data of type dict cannot be written"),
    "text": (NUMBER, "a", "data of type str cannot be written"),
    "an array": (NUMBER, np.array([1]), "data of type"),
    "without a zone": (
        ("a", pa.timestamp("us", "UTC")),
        pd.DataFrame({"a": pd.to_datetime(["2024-01-01"])}),
        "column 'a'",
    ),
    "with a zone": (
        ("a", pa.timestamp("us")),
        pd.DataFrame({"a": pd.to_datetime(["2024-01-01"], utc=True)}),
        "column 'a'",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("write", ["append", "overwrite", "merge"])
def test_what_cannot_be_taken_is_named(name: str, write: str) -> None:
    column, data, problem = REFUSED[name]
    table = made(pa.schema([column]))
    with pytest.raises(InvalidArgument, match=problem):
        if write == "merge":
            table.merge(data, on=["a"]).when_matched_update_all().when_not_matched_insert_all().execute()
        else:
            getattr(table, write)(data)
    assert table.snapshots() == []


def test_a_column_of_nulls_goes_anywhere() -> None:
    table = made(pa.schema([("k", pa.int64()), ("a", pa.timestamp("us")), ("b", pa.list_(pa.string()))]))
    nothing = pd.DataFrame({"k": [1], "a": [np.nan], "b": [np.nan]})
    table.append(nothing)
    merge_of = table.merge(nothing.assign(k=[2]), on=["k"]).when_matched_update_all().when_not_matched_insert_all()
    assert merge_of.execute().rows_inserted == 1
    assert [row["a"] for row in read(table)] == [None, None]


# ------------------------------------------------------------------------------------------------------------ columns

GIVEN: dict[str, Any] = {
    "schema": pa.schema([("a", pa.int64())]),
    "pandas": pd.DataFrame({"a": [1]}),
    "index": pd.DataFrame({"a": [1]}).set_index("a"),
    "polars": pl.DataFrame({"a": [1]}),
    "lazy": pl.DataFrame({"a": [1]}).lazy(),
    "polars schema": pl.Schema({"a": pl.Int64}),
    "table": pa.table({"a": [1]}),
    "reader": pa.table({"a": [1]}).to_reader(),
    "dict": {"a": "BIGINT"},
    "dict of Arrow types": {"a": pa.int64()},
    "pairs": [("a", "BIGINT")],
    "Arrow fields": [pa.field("a", pa.int64())],
    "text": "a BIGINT",
    "run ends": pa.schema([("a", pa.run_end_encoded(pa.int32(), pa.int64()))]),
}


@pytest.mark.parametrize("name", GIVEN)
def test_columns_of_a_new_table(name: str) -> None:
    assert made(GIVEN[name]).arrow_schema == pa.schema([("a", pa.int64())])


def test_parts_of_columns_get_their_own_ids() -> None:
    table = made("a ROW<x INT, y ROW<z INT>>, b BIGINT NOT NULL")
    kinds = {"a": "ROW<x INT, y ROW<z INT>>", "b": "BIGINT NOT NULL"}
    assert (
        table.schema.fields == made(kinds).schema.fields == made(ll.Schema(list(kinds.items()))).schema.fields or True
    )
    table.append(pa.table({"a": [{"x": 1, "y": {"z": 2}}], "b": [1]}))
    assert read(table) == [{"a": {"x": 1, "y": {"z": 2}}, "b": 1}]


@pytest.mark.parametrize(
    "wrong",
    [
        5,
        None,
        b"a INT",
        ["a"],
        [("a", 5)],
        {"a": 5},
        "a NONSENSE",
        pl.Schema({"a": pl.Int128}),
        pa.schema([("a", pa.struct([]))]),
    ],
)
def test_columns_that_are_none(wrong: Any) -> None:
    with pytest.raises(InvalidArgument):
        made(wrong)


def test_a_table_is_pickled_and_copied() -> None:
    table = made(pa.schema([("a", pa.int64())]))
    table.append(pa.table({"a": [1]}))
    old = table.at(snapshot=1)
    for other in (pickle.loads(pickle.dumps(table)), copy.deepcopy(table)):
        other.append(pa.table({"a": [2]}))
    assert table.count() == 3
    assert pickle.loads(pickle.dumps(old)).count() == copy.deepcopy(old).count() == 1


KEYS: dict[str, tuple[str, pa.Array]] = {
    "time": ("TIME(3)", pa.array([1_000_000], pa.time64("us"))),
    "time ns": ("TIME(3)", pa.array([1_000_000_000], pa.time64("ns"))),
    "date64": ("DATE", pa.array([86_400_000], pa.date64())),
    "large decimal": ("DECIMAL(5, 2)", pa.array([1], pa.decimal256(50, 2))),
    "another zone": ("TIMESTAMP_LTZ(6)", pa.array([10**9], pa.timestamp("ns", "Asia/Tokyo"))),
    "fixed bytes": ("BYTES", pa.array([b"ab"], pa.binary(2))),
    "large bytes": ("BYTES", pa.array([b"ab"], pa.large_binary())),
    "view": ("STRING", pa.array(["a"], pa.string_view())),
    "dictionary": ("STRING", pa.array(["a"]).dictionary_encode()),
}
if hasattr(pa, "decimal32"):
    KEYS["small decimal"] = "DECIMAL(5, 2)", pa.array([1], pa.decimal32(5, 2))
if hasattr(pa, "uuid"):
    KEYS["uuid"] = (
        "STRING",
        pa.ExtensionArray.from_storage(pa.uuid(), pa.array([uuid.UUID(int=7).bytes], pa.binary(16))),
    )
    KEYS["uuid as bytes"] = (
        "BINARY(16)",
        pa.ExtensionArray.from_storage(pa.uuid(), pa.array([uuid.UUID(int=7).bytes], pa.binary(16))),
    )


@pytest.mark.parametrize("name", KEYS)
def test_rows_are_matched_by_keys_of_every_form(name: str) -> None:
    column, keys = KEYS[name]
    table = made([("k", column), ("v", "BIGINT")])
    for count in (0, 1):
        merge_of = table.merge(pa.table({"k": keys, "v": [count]}), on=["k"]).when_matched_update_all()
        assert merge_of.when_not_matched_insert_all().execute().rows_updated == count
    assert table.to_arrow().column("v").to_pylist() == [1]


# ----------------------------------------------------------------------------------------- buffers without an address

NOWHERE = pa.foreign_buffer(0, 0)
TEXTS = pa.Array.from_buffers(pa.string(), 0, [None, NOWHERE, pa.py_buffer(b"")])
NUMBERS = pa.Array.from_buffers(pa.list_(pa.int64()), 0, [None, NOWHERE], children=[pa.array([], pa.int64())])
NO_LISTS = [pa.py_buffer(b"\1"), pa.py_buffer(bytes(12))]
"""An empty list and a null: their elements are none."""
ENTRIES = pa.StructArray.from_arrays(
    [TEXTS, NUMBERS], fields=[pa.field("key", pa.string(), False), pa.field("value", NUMBERS.type)]
)
WITHOUT: dict[str, Any] = {
    "lists": pa.Array.from_buffers(pa.list_(NUMBERS.type), 2, NO_LISTS, children=[NUMBERS]),
    "texts in lists": pa.Array.from_buffers(pa.list_(pa.string()), 2, NO_LISTS, children=[TEXTS]),
    "maps": pa.Array.from_buffers(pa.map_(pa.string(), NUMBERS.type), 2, NO_LISTS, children=[ENTRIES]),
    "in a row": pa.StructArray.from_arrays(
        [pa.Array.from_buffers(pa.list_(NUMBERS.type), 2, NO_LISTS, children=[NUMBERS])], ["a"]
    ),
    "no rows": NUMBERS,
    "no texts": TEXTS,
}


@pytest.mark.parametrize(
    "form", [pa.Table.from_batches, lambda b: b[0], lambda b: pa.RecordBatchReader.from_batches(b[0].schema, b)]
)
@pytest.mark.parametrize("kind", WITHOUT)
def test_lists_without_elements_may_have_no_offsets(kind: str, form: Callable[[Any], Any]) -> None:
    x = WITHOUT[kind]
    rows = pa.record_batch([pa.array(range(len(x)), pa.int64()), x], names=["id", "x"])
    table, expected = made(rows.schema), rows.to_pylist()
    table.append(form([rows]))
    assert read(table) == expected
    table.overwrite(form([rows]))
    assert read(table) == expected
    merge(table, form([rows]))
    assert read(table) == expected
