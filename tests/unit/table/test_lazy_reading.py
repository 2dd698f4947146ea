"""Readers, streams and datasets: what a tool asks for is what is read."""

from __future__ import annotations

import pickle
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import lakelatch as ll
from lakelatch.backends.around.metered import MeteredStore
from lakelatch.backends.local import LocalStore
from lakelatch.core.errors import InvalidArgument, Unsupported
from lakelatch.table.table import Table

SCHEMA = pa.schema([("p", pa.int32()), ("x", pa.int64()), ("s", pa.string()), ("st", pa.struct([("a", pa.int32())]))])
F = ds.field


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Three partitions with a file of two rows each: x is 10 p and 10 p + 1. Its requests are counted."""
    made = ll.create_table(str(tmp_path / "t"), SCHEMA, partition_by=["p"])
    for p in range(3):
        rows = [{"p": p, "x": 10 * p + i, "s": "ab"[i], "st": {"a": p} if i else None} for i in range(2)]
        made.append(pa.Table.from_pylist(rows, SCHEMA))
    return Table(MeteredStore(LocalStore(str(tmp_path / "t"))), made.schema)


def data_files_read(table: Table, read: Any) -> int:
    """The number of data files that a call opens."""
    assert isinstance(table.store, MeteredStore)
    seen: set[str] = set()
    store: Any = table.store
    inner_get, inner_range = store.get, store.get_range

    def get(key: str) -> bytes:
        seen.add(key)
        return bytes(inner_get(key))

    def get_range(key: str, start: int, end: int) -> bytes:
        seen.add(key)
        return bytes(inner_range(key, start, end))

    store.get, store.get_range = get, get_range
    try:
        read()
    finally:
        del store.get, store.get_range
    return sum("bucket-" in key for key in seen)


def test_a_reader_gives_the_rows_of_its_snapshot(table: Table) -> None:
    reader = table.to_reader(columns=["s", "x"], where="x > 1", limit=3)
    assert isinstance(reader, pa.RecordBatchReader)
    table.truncate()
    assert reader.schema.names == ["s", "x"]
    assert reader.read_all().to_pylist() == [{"s": s, "x": x} for s, x in [("a", 10), ("b", 11), ("a", 20)]]
    assert table.to_reader().read_all().num_rows == 0


def test_a_reader_refuses_wrong_arguments_at_once(table: Table) -> None:
    with pytest.raises(InvalidArgument, match="there is no column 'y'"):
        table.to_reader(columns=["y"])
    with pytest.raises(InvalidArgument, match="position 4"):
        table.to_reader(where="x =")


def test_a_table_is_a_stream_for_arrow_and_polars(table: Table) -> None:
    assert pa.table(table) == table.to_arrow()
    assert pa.RecordBatchReader.from_stream(table.at(snapshot=1)).read_all().num_rows == 2
    assert polars.DataFrame(table).sort("x").equals(table.to_polars().sort("x"))
    table.append(table)  # a table of the same columns can be appended
    assert table.count() == 12


@pytest.mark.parametrize(
    ("asked", "files", "xs"),
    [
        (None, 3, [0, 1, 10, 11, 20, 21]),
        (F("p") == 1, 1, [10, 11]),
        (F("p").isin([0, 2]) & (F("x") > 0), 2, [1, 20, 21]),
        (F("x") > 20, 1, [21]),
        (~(F("x") < 11), 2, [11, 20, 21]),
        (F("st", "a") == 2, 3, [21]),
        ((F("x") + 1) == 1, 3, [0]),
        (F("p") == 9, 0, []),
    ],
    ids=str,
)
def test_a_dataset_reads_the_files_and_rows_of_a_filter(table: Table, asked: Any, files: int, xs: list[int]) -> None:
    dataset = table.to_dataset()
    found: list[pa.Table] = []
    assert data_files_read(table, lambda: found.append(dataset.to_table(columns=["x"], filter=asked))) == files
    assert found[0].schema.names == ["x"]
    assert sorted(found[0]["x"].to_pylist()) == xs
    assert dataset.count_rows(asked) == len(xs)
    assert sum(batch.num_rows for batch in dataset.to_batches(filter=asked)) == len(xs)
    assert dataset.plan(asked).file_count == files


def test_a_dataset_reads_only_the_columns_of_a_query(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    import lakelatch.table.dataset as module

    asked: list[Any] = []
    read = module.read_batches

    def watched(timeline: Any, plan: Any, schema: Any, columns: Any, *more: Any) -> Any:
        asked.append(columns)
        return read(timeline, plan, schema, columns, *more)

    monkeypatch.setattr(module, "read_batches", watched)
    dataset = table.to_dataset()
    assert dataset.to_table(columns=["s"], filter=F("x") > 20)["s"].to_pylist() == ["b"]
    assert dataset.to_table(columns={"twice": F("x") * 2}, filter=F("p") == 1)["twice"].to_pylist() == [20, 22]
    assert dataset.to_table(columns=[]).num_rows == 6
    assert dataset.head(1).num_rows == dataset.take([3]).num_rows == 1
    in_turn = [columns for columns, _ in groupby(asked)]  # the first file, and then all others
    assert in_turn == [["x", "s"], ["p", "x"], [], None]


def _into(found: list[Any], read: Any) -> None:
    found.extend(read())


def test_a_query_for_a_few_rows_reads_one_file(table: Table) -> None:
    """LIMIT in DuckDB and `head` in polars end a scan early; other files are not read ahead of them."""
    connection, dataset = duckdb.connect(), table.to_dataset()
    table.to_duckdb(connection, "rows")
    few: dict[str, Any] = {
        "limit": lambda: connection.execute("SELECT * FROM rows LIMIT 1").fetchall(),
        "one column": lambda: connection.execute("SELECT x FROM rows LIMIT 1").fetchall(),
        "head": lambda: polars.scan_pyarrow_dataset(dataset).head(1).collect().rows(),
        "Arrow": lambda: dataset.head(1).to_pylist(),
        "first batch": lambda: [next(iter(dataset.to_batches()))],
    }
    for name, read in few.items():
        found: list[Any] = []
        assert data_files_read(table, partial(_into, found, read)) == 1, name
        assert len(found) == 1
    plain = dataset.scanner(columns=["x"])
    assert plain.projected_schema.names == ["x"] and plain.to_table().num_rows == 6
    assert dataset.take([1, 3]).num_rows == 2 and [b.num_rows for b in dataset.to_batches(batch_size=1)] == [1] * 6
    written = dataset.scanner(use_threads=False)
    assert isinstance(written, ds.Scanner) and written.to_table().num_rows == 6


def test_a_dataset_is_one_snapshot_and_counts_from_metadata(table: Table) -> None:
    dataset, earlier = table.to_dataset(), table.at(snapshot=1).to_dataset()
    table.truncate()
    assert data_files_read(table, dataset.count_rows) == 0
    assert (dataset.count_rows(), earlier.count_rows(), table.to_dataset().count_rows()) == (6, 2, 0)
    assert dataset.schema == table.arrow_schema
    assert isinstance(dataset, ds.Dataset)
    assert "snapshot 3" in repr(dataset)


def test_a_dataset_refuses_what_it_lacks_by_name(table: Table) -> None:
    dataset = table.to_dataset()
    with pytest.raises(Unsupported, match="get_fragments"):
        dataset.get_fragments()
    with pytest.raises(Unsupported, match="replace_schema"):
        dataset.replace_schema(SCHEMA)
    with pytest.raises(Unsupported, match="pickled"):
        pickle.dumps(dataset)
    with pytest.raises(InvalidArgument, match="there is no column 'y'"):
        dataset.scanner(columns=["y"])


def test_polars_pushes_columns_and_filters_down(table: Table) -> None:
    lazy = polars.scan_pyarrow_dataset(table.to_dataset()).filter(polars.col("p") == 1).select("x")
    found: list[Any] = []
    assert data_files_read(table, lambda: found.append(lazy.collect())) == 1
    assert found[0]["x"].to_list() == [10, 11]


def test_duckdb_pushes_columns_and_filters_down(table: Table) -> None:
    connection = duckdb.connect()
    table.to_duckdb(connection, "rows")
    found: list[Any] = []
    for query, files, expected in [
        ("SELECT x FROM rows WHERE p = 1 ORDER BY x", 1, [(10,), (11,)]),
        ("SELECT sum(x) FROM rows WHERE p IN (0, 2) AND s = 'b'", 2, [(22,)]),
        ("SELECT count(*) FROM rows", 0, [(6,)]),  # by the partition column
        ("SELECT x FROM rows WHERE st.a = 2", 3, [(21,)]),
        ("SELECT count(*) FROM rows a JOIN rows b USING (x) WHERE a.p = 1 AND b.p = 1", 1, [(2,)]),
    ]:
        found.clear()
        assert data_files_read(table, lambda q=query: found.extend(connection.execute(q).fetchall())) == files, query
        assert found == expected, query
    frame = table.at(snapshot=1)
    assert connection.sql("SELECT count(*) FROM frame").fetchall() == [(2,)], frame  # by the name of the variable
    with pytest.raises(InvalidArgument, match=r"pass duckdb\.connect"):
        table.to_duckdb("flights.db", "rows")
