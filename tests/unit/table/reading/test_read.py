"""Reading plans: rows, types, columns, limits, partitions, requests, and the errors for damage."""

from __future__ import annotations

import datetime as dt
import io
import itertools
import pickle
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from predicates import FIELDS, evaluate, predicates, tables, values_of

import lakelatch as ll
from lakelatch.backends.around.metered import MeteredStore
from lakelatch.backends.memory import MemoryStore
from lakelatch.core.errors import InvalidArgument, LakelatchError, TableCorrupt, Unsupported
from lakelatch.core.expressions.binding import bind
from lakelatch.core.expressions.columns import col
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.rows.arrow import arrow_schema
from lakelatch.core.rows.types import AtomicType, Field, string, timestamp
from lakelatch.table.formats import data_source
from lakelatch.table.formats.parquet.row_groups import wanted_row_groups
from lakelatch.table.projection.plan import plan_projection
from lakelatch.table.reading.arrow import SplitReader, arrow_schema_of, read_batches
from lakelatch.table.table import Table

COUNTER = itertools.count()
ROWS = pa.table(
    {
        "m": pa.array([1, 1, 2, None], pa.int32()),
        "x": pa.array([10, 20, 30, None], pa.int64()),
        "s": pa.array(["a", None, "c", "d"]),
    }
)


def new_table(fields: Any, **more: Any) -> Table:
    """A table in memory whose requests are counted."""
    store = MeteredStore(MemoryStore(f"memory://read-{next(COUNTER)}"))
    schema = new_schema(fields, **more)
    store.put("schema/schema-0", schema.to_json())
    return Table(store, schema)


def parted() -> Table:
    table = new_table(
        [Field(0, "m", AtomicType("INT")), Field(1, "x", AtomicType("BIGINT")), Field(2, "s", string())],
        partition_keys=["m"],
    )
    table.append(ROWS)
    return table


def data_keys(table: Table) -> list[str]:
    return sorted(info.key for info in table.store.list("") if "bucket-0/" in info.key)


def rows_of(table: pa.Table) -> list[Any]:
    return sorted(map(str, table.to_pylist()))


def parquet(columns: dict[str, Any], **more: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, **more)
    return sink.getvalue()


# ------------------------------------------------------------------------------------------------------------- columns


def test_columns_in_any_order_and_none() -> None:
    """A result has the requested columns, in that order. A result without columns still has the right number of rows."""
    table = parted()
    assert rows_of(table.to_arrow()) == rows_of(ROWS)
    assert table.to_arrow(columns=["s", "m"]).column_names == ["s", "m"]
    assert rows_of(table.to_arrow(columns=["s", "m"])) == rows_of(ROWS.select(["s", "m"]))
    assert (table.to_arrow(columns=[]).num_rows, table.to_arrow(columns=[]).num_columns) == (4, 0)
    assert table.to_arrow(columns=[], where="x > 10").num_rows == 2
    assert table.to_arrow(columns=["s"], where="x = 30").to_pylist() == [{"s": "c"}]


def test_unknown_columns_are_named_before_anything_is_read() -> None:
    table = parted()
    table.store.reset()
    with pytest.raises(InvalidArgument, match=r"'xx'.*did you mean 'x'"):
        arrow_schema_of(table.schema, ["xx"])
    with pytest.raises(InvalidArgument, match="twice"):
        arrow_schema_of(table.schema, ["x", "x"])
    with pytest.raises(InvalidArgument, match="list of names"):
        arrow_schema_of(table.schema, "x")
    assert table.store.snapshot().requests == 0


def test_partition_values_are_the_manifest_s() -> None:
    """A partition column comes from `_PARTITION`, whatever a file or its path says (format/data-files §1)."""
    table = parted()
    for key in data_keys(table):
        if key.startswith("m=2/"):
            table.store.put(key, parquet({"m": pa.array([99], pa.int32()), "x": [30], "s": ["c"]}))
        elif key.startswith("m=1/"):  # a migrated file may lack the column
            table.store.put(key, parquet({"x": [10, 20], "s": ["a", None]}))
    assert rows_of(table.to_arrow()) == rows_of(ROWS)


def test_null_and_empty_partitions_are_distinguished() -> None:
    """They share a directory, but their manifest entries differ (format/binary-row §3)."""
    table = new_table([Field(0, "p", string()), Field(1, "x", AtomicType("INT"))], partition_keys=["p"])
    rows = pa.table({"p": [None, "", " ", "a/b"], "x": pa.array([1, 2, 3, 4], pa.int32())})
    table.append(rows)
    assert rows_of(table.to_arrow()) == rows_of(rows)
    assert table.to_arrow(where="p = ''")["x"].to_pylist() == [2]


def test_result_types_are_the_table_s() -> None:
    """Whatever a file's own Arrow schema says: plain strings, the unit of the precision, no dictionaries."""
    fields = [Field(0, "s", string()), Field(1, "t", timestamp(3)), Field(2, "z", timestamp(6, local_zone=True))]
    table = new_table(fields)
    moment = dt.datetime(2024, 2, 29, 12, 34, 56, 789000)
    table.append(pa.Table.from_arrays([["a"], [moment], [moment]], schema=arrow_schema(fields)))
    odd = {
        "s": pa.array(["a"], pa.large_string()).dictionary_encode(),
        "t": pa.array([moment], pa.timestamp("ns")),
        "z": pa.array([moment], pa.timestamp("ns")),
    }
    before = table.to_arrow()
    table.store.put(data_keys(table)[0], parquet(odd, use_deprecated_int96_timestamps=True))
    assert table.to_arrow().equals(before)
    assert before.schema.equals(arrow_schema(fields), check_metadata=True)


# ------------------------------------------------------------------------------------------------- filters and limits


@settings(max_examples=50, deadline=None)
@given(tables(max_rows=8), predicates(), st.integers(1, 3), st.sampled_from([[], ["i"], ["a"], ["s", "b"]]))
def test_filtered_reads_are_filtered_full_reads(rows: pa.Table, where: Any, commits: int, keys: list[str]) -> None:
    """Pruning and filtering together keep exactly the rows for which the predicate is true."""
    table = new_table(FIELDS, partition_keys=keys)
    step = max(1, -(-rows.num_rows // commits))
    for start in range(0, rows.num_rows, step):
        table.append(rows.slice(start, step))
    bound = bind(where, FIELDS)
    kept = [i for i, row in enumerate(values_of(rows)) if evaluate(bound, row) is True]
    wanted = rows.take(pa.array(kept, pa.int64())).cast(arrow_schema(FIELDS))
    assert rows_of(table.to_arrow(where=where)) == rows_of(wanted)
    assert table.count(where=where) == len(kept)


@pytest.mark.parametrize("limit", [0, 1, 3, 4, 99])
def test_limits(limit: int) -> None:
    table = parted()
    assert table.to_arrow(limit=limit).num_rows == min(limit, 4)
    assert table.to_arrow(columns=[], limit=limit).num_rows == min(limit, 4)
    assert table.to_arrow(where="x >= 10", limit=limit).num_rows == min(limit, 3)


@pytest.mark.parametrize("limit", [-1, 1.5, True, "1"])
def test_a_limit_is_a_number_of_rows(limit: Any) -> None:
    with pytest.raises(InvalidArgument, match="limit"):
        parted().to_arrow(limit=limit)


def test_a_limit_opens_no_more_files_than_it_needs() -> None:
    """Row counts are known: without a filter only the first files are opened."""
    table = new_table([Field(0, "x", AtomicType("INT"))])
    for i in range(6):
        table.append(pa.table({"x": pa.array([i] * 10, pa.int32())}))
    plan = table.plan()
    table.store.reset()
    batches = read_batches(table.timeline, plan, table.schema, None, 15)
    assert sum(b.num_rows for b in batches) == 15
    assert dict(table.store.snapshot().by_operation) == {"get": 2}


# ------------------------------------------------------------------------------------------------------------ requests


def test_a_small_file_is_one_request_and_no_file_is_none() -> None:
    """No HEAD, no footer on its own; a read that needs no stored column opens nothing."""
    table = parted()

    def requests(columns: list[str] | None, where: Any = None) -> dict[str, int]:
        plan = table.plan(where)
        table.store.reset()
        list(read_batches(table.timeline, plan, table.schema, columns))
        return dict(table.store.snapshot().by_operation)

    assert requests(None) == {"get": 3}
    assert requests([]) == {}
    assert requests(["m"]) == {}
    assert requests(["m"], col("m") == 1) == {}


def test_large_files_are_read_by_row_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large files give the same rows. No size is requested, and row groups are skipped by their statistics."""
    monkeypatch.setattr(data_source, "SMALL_FILE_BYTES", 100)
    table = new_table([Field(0, "x", AtomicType("BIGINT")), Field(1, "s", string())])
    rows = pa.table({"x": list(range(50_000)), "s": [f"{i:09d}" * 9 for i in range(50_000)]})
    table.append(rows)
    data = parquet({n: rows[n] for n in rows.column_names}, row_group_size=10_000, compression="none")
    table.store.put(data_keys(table)[0], data)
    split = table.plan().splits[0]
    split = replace(split, files=(split.files[0]._replace(file_size=len(data)),))

    def read(where: Any) -> tuple[pa.Table, Any]:
        residual = None if where is None else bind(where, table.schema.fields)
        table.store.reset()
        batches = SplitReader(table.schema, None, residual, {("main", 0): table.schema}).batches(table.store, [split])
        return pa.Table.from_batches(batches), table.store.snapshot()

    everything, usage = read(None)
    assert everything.equals(rows)
    assert set(usage.by_operation) == {"get_range"}
    few, pruned = read(col("x") == 25_000)
    assert few["x"].to_pylist() == [25_000]
    assert pruned.bytes_in < usage.bytes_in / 2


def test_row_groups_are_pruned_by_exact_statistics_only() -> None:
    """Integers, dates and text; never floats, whose bounds may leave NaN out."""
    fields = [Field(0, "x", AtomicType("INT")), Field(1, "s", string()), Field(2, "f", AtomicType("DOUBLE"))]
    data = parquet(
        {"x": pa.array([1, 2, 3, 4], pa.int32()), "s": ["a", "b", "c", None], "f": [1.0, float("nan"), 3.0, 4.0]},
        row_group_size=2,
    )
    metadata = pq.ParquetFile(pa.BufferReader(data)).metadata
    projection = plan_projection(fields, fields)

    def groups(where: Any) -> list[int] | None:
        return wanted_row_groups(metadata, projection, bind(where, fields))

    assert groups(col("x") > 2) == [1]
    assert groups(col("s") < "b") == [0]
    assert groups(col("s").is_null()) == [1]
    assert groups(col("f") > 100) is None
    assert groups((col("f") > 100) | (col("x") == 1)) == [0, 1]
    narrowed = plan_projection([Field(0, "x", AtomicType("INT"))], [Field(0, "x", AtomicType("TINYINT"))])
    assert wanted_row_groups(metadata, narrowed, bind(col("x") == 9, fields)) is None, "values wrap around: 265 is 9"


# ----------------------------------------------------------------------------------------------------------- timestamps

_NANO_FIELDS = [Field(0, "t", timestamp(9)), Field(1, "x", AtomicType("INT"))]


def int96_table(*moments: Any, nested: bool = False) -> Table:
    table = new_table(_NANO_FIELDS)
    x = pa.array(range(len(moments)), pa.int32())
    table.append(pa.table({"t": pa.array([0] * len(moments), pa.timestamp("ns")), "x": x}))
    column = pa.array(moments, pa.timestamp("us"))
    table.store.put(data_keys(table)[0], parquet({"t": column, "x": x}, use_deprecated_int96_timestamps=True))
    return table


def test_int96_is_read_as_nanoseconds() -> None:
    """TIMESTAMP(9) of Apache Paimon is INT96."""
    moments = [dt.datetime(1677, 9, 22), dt.datetime(1969, 12, 31, 23, 59, 59, 999999), None, dt.datetime(2262, 4, 11)]
    assert int96_table(*moments).to_arrow()["t"].cast(pa.timestamp("us")).to_pylist() == moments


@pytest.mark.parametrize("moment", [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)])
def test_a_time_that_nanoseconds_cannot_hold_is_refused(moment: dt.datetime) -> None:
    """Never a wrapped time: Arrow's decoder would give year 1815 for year 9999."""
    table = int96_table(dt.datetime(2024, 1, 1), moment)
    with pytest.raises(Unsupported, match="'t' holds a time outside"):
        table.to_arrow()
    assert table.to_arrow(columns=["x"]).num_rows == 2


# --------------------------------------------------------------------------------------------------------------- damage


def broken(change: Any) -> Table:
    table = parted()
    key = next(k for k in data_keys(table) if k.startswith("m=2/"))
    data = table.store.get(key)
    changed = change(data)
    if changed is None:
        table.store.delete_many([key])
    else:
        table.store.put(key, changed)
    return table


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: None, "is missing"),
        (lambda data: b"", "damaged"),
        (lambda data: data[:-9], "cut off or damaged"),
        (lambda data: b"JUNK" + data[4:-4] + b"JUNK", "damaged"),
        (lambda data: data[: len(data) // 2] + data[-8:], "damaged"),
        (lambda data: b"x" * 300, "damaged"),
        (lambda data: parquet({"x": [1, 2], "s": ["a", "b"]}), "2 rows; its manifest says 1"),
        (lambda data: parquet({"x": ["one"], "s": ["a"]}), "column 'x'"),
    ],
)
def test_damage_is_one_error_that_names_the_file(change: Any, words: str) -> None:
    """A missing, cut off or foreign file raises one `TableCorrupt`. The other partitions can still be read."""
    table = broken(change)
    key = next(k for k in [*data_keys(parted()), *data_keys(table)] if k.startswith("m=2/"))
    with pytest.raises(TableCorrupt, match=words) as caught:
        table.to_arrow()
    assert caught.value.message.count("m=2/bucket-0/data-") == 1
    assert key.startswith("m=2/bucket-0/data-")
    assert table.to_arrow(where="m = 1").num_rows == 2
    assert [t for t in threading.enumerate() if t.name.startswith("lakelatch-read")] == []


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damage_raises_only_lakelatch_errors(data: st.DataObject) -> None:
    """Any bytes give rows or a `LakelatchError`."""

    def change(good: bytes) -> bytes:
        bad = bytearray(good)
        for _ in range(data.draw(st.integers(1, 4))):
            bad[data.draw(st.integers(0, len(bad) - 1))] = data.draw(st.integers(0, 255))
        return bytes(bad)

    table = broken(change)
    try:
        table.to_arrow()
    except LakelatchError as error:
        assert "m=2/bucket-0/data-" in str(error)


def test_a_schema_that_is_missing_is_named() -> None:
    """A file whose schema is gone cannot be read by id."""
    table = parted()
    plan = table.plan()
    later = new_schema(table.schema.fields, partition_keys=["m"])
    table.store.delete_many(["schema/schema-0"])
    with pytest.raises(TableCorrupt, match="schema/schema-0 is missing"):
        timeline = Table(table.store, later).timeline
        read_batches(timeline, plan, _with_id(later, 7))


def _with_id(schema: Any, schema_id: int) -> Any:
    return replace(schema, id=schema_id)


# -------------------------------------------------------------------------------------------------------------- streams


def test_a_stream_that_is_dropped_leaves_no_thread() -> None:
    """If a reader stops early, its threads end and nothing blocks."""
    table = new_table([Field(0, "x", AtomicType("INT"))])
    for i in range(8):
        table.append(pa.table({"x": pa.array([i] * 5000, pa.int32())}))
    batches: Iterator[pa.RecordBatch] = table.to_batches()
    assert next(batches).num_rows == 5000
    del batches
    assert [t for t in threading.enumerate() if t.name.startswith("lakelatch-read")] == []


def test_many_small_files_come_as_few_batches() -> None:
    """Batches of small files are joined, so that later steps are not slow. Rows keep the order of the files."""
    table = new_table([Field(0, "x", AtomicType("INT"))])
    for i in range(20):
        table.append(pa.table({"x": pa.array([i], pa.int32())}))
    batches = list(table.to_batches())
    assert len(batches) == 1
    assert sorted(batches[0]["x"].to_pylist()) == list(range(20))
    assert len(list(table.to_batches(columns=[]))) == 1


def test_splits_are_read_elsewhere() -> None:
    """A split and its reader can be pickled, and need no metadata on the other machine."""
    table = parted()
    plan = table.plan(where="x > 10")
    reader = SplitReader(table.schema, ["m", "s"], plan.residual, {("main", 0): table.schema})
    parts = []
    for split in plan.splits:
        far_reader, far_split = pickle.loads(pickle.dumps((reader, split)))
        table.store.reset()
        parts.extend(far_reader.batches(table.store, [far_split]))
        assert set(table.store.snapshot().by_operation) <= {"get"}
    assert rows_of(pa.Table.from_batches(parts)) == rows_of(table.to_arrow(columns=["m", "s"], where="x > 10"))


def test_external_files_are_read_from_their_location(tmp_path: Path) -> None:
    """G8: a key that is a whole URL is opened at that URL. If the file is missing, the message names it."""
    table = ll.create_table(str(tmp_path / "t"), pa.schema([("x", pa.int32())]))
    table.append(pa.table({"x": pa.array([1], pa.int32())}))
    split = table.plan().splits[0]
    outside = tmp_path / "elsewhere" / "data-1.parquet"
    outside.parent.mkdir()
    (tmp_path / "t" / split.keys[0]).rename(outside)
    ll.allow(table.url, outside.parent)
    reader = SplitReader(table.schema, None, None, {("main", 0): table.schema})
    for url in (f"file://{outside}", f"FILE:{outside}", str(outside)):
        (batch,) = reader.batches(table.store, [replace(split, keys=(url,))])
        assert batch.to_pydict() == {"x": [1]}
    with pytest.raises(TableCorrupt, match=r"data-2\.parquet is missing"):
        list(reader.batches(table.store, [replace(split, keys=(f"file://{outside.parent}/data-2.parquet",))]))
