"""A filter reads the pages that can match, by the index of a file's pages, and gives the rows that a whole read gives."""

from __future__ import annotations

import random
import threading
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakelatch as ll
from lakelatch.backends.around.metered import MeteredStore
from lakelatch.table.formats import data_source
from lakelatch.table.formats.parquet import page_index
from lakelatch.table.formats.parquet import writer as parquet_writer
from lakelatch.table.formats.parquet.page_index import PageIndex
from lakelatch.table.reading.arrow import SplitReader
from lakelatch.table.scan.fallback import file_schemas_of

ROWS = 20_000
FILTERS = [
    "k = 1234",
    "k = 1235",
    "k IN (2, 19998, 7000)",
    "k BETWEEN 500 AND 700",
    "k < 0",
    "k > 39000 OR k = 4",
    "day = DATE '1970-01-03'",
    "name = 'n0007'",
    "name LIKE 'n001%'",
    "small IS NULL AND k < 5000",
    "small = 3 AND name = 'n0003'",
    "NOT (k > 300)",
    "amount > 100 AND k = 600",
    "truth AND k = 1200",
]


def rows() -> pa.Table:
    draw = random.Random(7)
    return pa.table(
        {
            "k": pa.array(range(0, 2 * ROWS, 2), pa.int64()),
            "small": pa.array([None if n % 7 == 0 or 400 < n < 3000 else n % 5 for n in range(ROWS)], pa.int32()),
            "name": [f"n{n // 50:04}" for n in range(ROWS)],
            "text": [None if n % 11 == 0 else "x" * draw.randrange(40) for n in range(ROWS)],
            "amount": pa.array([Decimal(n) / 100 for n in range(ROWS)], pa.decimal128(20, 2)),
            "truth": pa.array([n % 3 == 0 for n in range(ROWS)]),
            "real": np.random.default_rng(3).random(ROWS),
            "day": pa.array([n // 4000 for n in range(ROWS)], pa.int32()).cast(pa.date32()),
            "at": pa.array([n * 1000 for n in range(ROWS)], pa.timestamp("us")),
        }
    )


class Seen:
    """What the index was asked, and how much was fetched."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pages, self.bytes, self.whole = 0, 0, 0
        columns, fetch = PageIndex.columns, data_source.DataSource.range

        def seen(index: PageIndex, *about: Any, **how: Any) -> Any:
            found = columns(index, *about, **how)
            self.pages += found is not None
            self.whole += found is None
            return found

        def fetched(source: Any, start: int, end: int) -> bytes:
            self.bytes += end - start
            return fetch(source, start, end)

        monkeypatch.setattr(PageIndex, "columns", seen)
        monkeypatch.setattr(data_source.DataSource, "range", fetched)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    """Small files are read like large ones, and their pages are short."""
    monkeypatch.setattr(data_source, "SMALL_FILE_BYTES", 0)
    monkeypatch.setattr(page_index, "_END_BYTES", 0)
    monkeypatch.setattr(page_index, "_INDEX_BYTES", 0)
    monkeypatch.setattr(page_index, "_GAP_BYTES", 64)
    if "max_rows_per_page" in parquet_writer._PAGES:  # older Arrow ends pages by their size alone
        monkeypatch.setitem(parquet_writer._PAGES, "max_rows_per_page", 500)
    monkeypatch.setitem(parquet_writer._PAGES, "data_page_size", 3000)  # pages of wide columns end at other rows
    monkeypatch.setitem(parquet_writer._PAGES, "write_batch_size", 50)  # sizes are looked at so often
    return Seen(monkeypatch)


def table_of(data: pa.Table, **about: Any) -> ll.Table:
    table = ll.create_table(f"memory://{uuid.uuid4().hex}/t", data.schema, **about)
    table.append(data)
    return table


def data_file(table: ll.Table) -> str:
    (key,) = (info.key for info in table.store.list("") if info.key.endswith(".parquet"))
    return key


def by_hand(data: pa.Table, where: str) -> pa.Table:
    """The rows by the filter of frames, which knows no files."""
    import duckdb

    return duckdb.sql(f"SELECT * FROM data WHERE {where} ORDER BY k").to_arrow_table().cast(data.schema)


@pytest.mark.parametrize("codec", ["zstd", "none", "snappy"])
def test_a_filter_by_pages_gives_the_rows_of_a_whole_read(seen: Seen, codec: str) -> None:
    data = rows()
    table = table_of(data, options={"file.compression": codec})
    for where in FILTERS:
        for columns in (None, ["k"], ["text", "real"], ["amount", "k", "at"]):
            wanted = by_hand(data, where)
            found = table.to_arrow(where=where, columns=columns)
            assert found.equals(wanted if columns is None else wanted.select(columns)), (where, columns)
    assert seen.pages > 30


def test_one_key_takes_few_bytes(seen: Seen) -> None:
    table = table_of(rows())
    size = len(table.store.get(data_file(table)))
    assert table.to_arrow(where="k = 600").num_rows == 1
    assert 0 < seen.bytes < size // 5
    assert seen.pages == 1


@pytest.mark.parametrize("end_bytes", [1 << 16, 0])
def test_one_request_tells_which_pages_to_ask_for(seen: Seen, end_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an object store gave for the footer has the index, too. Where it has not, one more request brings all of it."""
    monkeypatch.setattr(page_index, "_END_BYTES", end_bytes)
    monkeypatch.setattr(page_index, "_INDEX_BYTES", 1 << 17)
    rng = np.random.default_rng(4)
    data = pa.table({"k": np.arange(60_000) * 2, **{name: rng.integers(0, 2**60, 60_000) for name in "abcd"}})
    table = table_of(data)
    plan = table.plan(where="k = 60000")
    store = MeteredStore(table.store)
    reader = SplitReader(table.schema, None, plan.residual, file_schemas_of(table.timeline, table.schema, plan.splits))
    found = pa.Table.from_batches(reader.batches(store, plan.splits))
    assert found.equals(data.slice(30_000, 1))
    usage = store.snapshot()
    is_inside = end_bytes > 0
    assert usage.by_operation == {"get_range": 1 + (not is_inside) + 5}, (
        "the end of the file, and a page of each column"
    )
    assert usage.bytes_in < 400_000


def test_what_lies_far_apart_is_read_at_the_same_time(seen: Seen) -> None:
    table = table_of(rows())
    data = table.store.get(data_file(table))
    met: list[threading.Barrier] = []

    def fetch(start: int, end: int) -> bytes:
        if met:
            met[0].wait()
        return data[start:end]

    index = PageIndex(pq.ParquetFile(pa.BufferReader(data)).metadata, len(data), fetch, at_once=2)
    met.append(threading.Barrier(2, timeout=120))  # nobody passes alone
    read = index._read([(0, 10), (4, 20), (len(data) - 10, len(data))])
    assert (read(4, 20), read(len(data) - 9, len(data))) == (data[4:20], data[-9:])


def test_pages_end_at_different_rows(seen: Seen) -> None:
    """Without that, the tests of this file would not see rows of one column beside those of another."""
    table = table_of(rows())
    metadata = pq.ParquetFile(pa.BufferReader(table.store.get(data_file(table)))).metadata
    index = PageIndex(
        metadata, len(table.store.get(data_file(table))), lambda a, b: table.store.get(data_file(table))[a:b]
    )
    firsts = [[page.first for page in index._pages(0, leaf)] for leaf in range(metadata.num_columns)]
    assert len({tuple(first) for first in firsts}) > 2


@pytest.mark.parametrize(
    ("rows", "wanted"), [([(9, 10)], [0]), ([(10, 11)], [1]), ([(9, 11)], [0, 1]), ([(0, 1), (29, 30)], [0, 2])]
)
def test_a_page_is_wanted_for_one_row(rows: list[tuple[int, int]], wanted: list[int]) -> None:
    pages = [page_index._Page(4, 1, 10 * n, 10 * n + 10) for n in range(3)]
    assert [page.first // 10 for page in page_index._wanted(pages, rows)] == wanted


def test_what_is_nested_is_read_whole(seen: Seen) -> None:
    data = rows().select(["k"]).append_column("l", pa.array([[n, None] for n in range(ROWS)], pa.list_(pa.int64())))
    table = table_of(data)
    assert table.to_arrow(where="k = 600").to_pylist() == [{"k": 600, "l": [300, None]}]
    assert (seen.pages, seen.whole) == (0, 1)
    assert table.to_arrow(where="k = 600", columns=["k"]).to_pylist() == [{"k": 600}]
    assert seen.pages == 1


def test_deleted_rows_and_renamed_columns(seen: Seen) -> None:
    data = rows()
    table = table_of(data, options={"deletion-vectors.enabled": "true"})
    table.delete(where="k = 600")
    table.alter(ll.rename_column("name", "named"), ll.add_column("new", "INT"))
    found = table.to_arrow(where="k BETWEEN 598 AND 602", columns=["k", "named", "new"])
    assert found.to_pylist() == [{"k": k, "named": f"n{k // 100:04}", "new": None} for k in (598, 602)]
    assert seen.pages > 0


@pytest.mark.parametrize("about", [{"primary_key": ["k"], "options": {"bucket": "1"}}])
def test_keys_of_several_runs(seen: Seen, about: dict[str, Any]) -> None:
    data = rows()
    schema = data.schema.set(0, data.schema.field(0).with_nullable(False))
    table = ll.create_table(f"memory://{uuid.uuid4().hex}/t", schema, **about)
    table.upsert(data.cast(schema))
    table.compact(full=True)
    newer = data.slice(300, 1).set_column(2, "name", pa.array(["newer"]))
    table.upsert(newer.cast(schema))
    found = table.to_arrow(where="k BETWEEN 598 AND 602", columns=["k", "name"])
    assert sorted(found["name"].to_pylist()) == ["n0005", "n0006", "newer"]
    assert table.to_arrow(where="name = 'n0006' AND k <= 602")["k"].to_pylist() == [602]


@pytest.mark.parametrize("field", [1, 2, 3, 5])
def test_an_index_that_contradicts_itself_is_not_believed(
    seen: Seen, field: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One entry of the pages' bounds is missing."""
    data = rows()
    table = table_of(data)
    part = PageIndex._part

    def cut(index: PageIndex, group: int, leaf: int, offset: int, length: int) -> Any:
        found = part(index, group, leaf, offset, length)
        if offset == 6 and found is not None:
            kind, (of, values) = found[field]
            found[field] = kind, (of, values[1:])
        return found

    monkeypatch.setattr(PageIndex, "_part", cut)
    assert table.to_arrow(where="k = 600").equals(by_hand(data, "k = 600"))


def test_a_page_that_is_damaged_is_an_error(seen: Seen) -> None:
    data = rows()
    table = table_of(data, options={"file.compression": "none"})
    key = data_file(table)
    raw = bytearray(table.store.get(key))
    footer = pq.ParquetFile(pa.BufferReader(bytes(raw))).metadata
    raw[footer.row_group(0).column(0).data_page_offset + 60] ^= 255
    table.store.put(key, bytes(raw))
    with pytest.raises(ll.LakelatchError, match=key):
        ll.open_table(table.url).to_arrow(where="k = 0")


def test_a_damaged_index_gives_an_error_of_ours_or_rows(seen: Seen) -> None:
    """Never a raw error, whatever its bytes say."""
    table = table_of(rows())
    key = data_file(table)
    raw = table.store.get(key)
    footer = len(raw) - 8 - pq.ParquetFile(pa.BufferReader(raw)).metadata.serialized_size
    draw, errors = random.Random(5), 0
    for _ in range(60):
        damaged = bytearray(raw)
        damaged[draw.randrange(footer - 9000, footer)] = draw.randrange(256)
        table.store.put(key, bytes(damaged))
        try:
            table.to_arrow(where="k = 600")
        except ll.LakelatchError as error:
            assert key in str(error)
            errors += 1
    assert errors
