"""Spark's own scan leaves out the rows that a deletion vector marks, by their positions in the file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from marked_rows import INDEX, mark
from plans import plan_of
from pyspark.sql import functions as F

import lakelatch as ll
import lakelatch.spark as lake
from lakelatch.core.metadata.data_file import DataFile
from lakelatch.spark.reading import vectors
from lakelatch.table.scan.split import DELETED_ROWS, Split

pytestmark = pytest.mark.spark
ROWS = 20_000


@pytest.fixture(autouse=True)
def small_files_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "VECTOR_BYTES", 0)


@pytest.fixture(params=["true", "false"])
def in_batches(request: pytest.FixtureRequest, spark: Any) -> Iterator[None]:
    """Spark has two readers of Parquet: one makes batches, the other one rows."""
    name = "spark.sql.parquet.enableVectorizedReader"
    spark.conf.set(name, request.param)
    yield
    spark.conf.unset(name)


@pytest.fixture
def marked(tmp_path: Path) -> tuple[str, set[int]]:
    """A table of one file of many row groups with deleted rows, and one without; the deleted keys."""
    url = str(tmp_path / "table")
    schema = pa.schema([("k", pa.int64()), ("v", pa.string())])
    table = ll.create_table(url, schema, options={"file.block-size": "16 kb", "file.compression": "none"})
    ids = np.arange(ROWS)
    texts = [f"text-{i}" for i in ids]
    table.append(pa.table({"k": ids, "v": texts}))
    gone = {0, 1, 63, 64, 4095, 4096, ROWS - 1, *range(7000, 7200), *range(9, ROWS, 501)}
    (file,) = [e.file.file_name for e in table.entries()]
    mark(table, {file: gone})
    table = ll.open_table(url)
    table.append(pa.table({"k": [-1], "v": ["other"]}))
    return url, gone


@pytest.mark.usefixtures("in_batches")
def test_marked_rows_are_gone_whatever_is_filtered_and_chosen(
    spark: Any, marked: tuple[str, set[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Positions count all rows of the file, those of row groups too that a filter leaves out, in both of Spark's readers."""
    url, gone = marked
    whole = lake.read(spark, url)
    plan = plan_of(whole)
    assert "FileScan parquet" in plan and "MapInArrow" not in plan
    kept = [-1, *(k for k in range(ROWS) if k not in gone)]
    assert [row.k for row in whole.select("k").orderBy("k").collect()] == kept
    for low, high in ((62, 66), (4000, 4200), (6990, 7210), (ROWS - 3, ROWS)):
        wanted = [k for k in kept if low <= k < high]
        assert sorted(r.k for r in whole.where(f"k >= {low} AND k < {high}").collect()) == wanted
        found = lake.read(spark, url, columns=["v"], where=f"k >= {low} AND k < {high}").collect()
        assert sorted(r.v for r in found) == sorted(f"text-{k}" for k in wanted)
    assert lake.read(spark, url, columns=[]).count() == len(kept)
    monkeypatch.setattr(vectors, "VECTOR_FILES", 0)
    by_arrow = lake.read(spark, url)
    assert "MapInArrow" in plan_of(by_arrow)
    assert by_arrow.count() == len(kept)


def test_files_share_a_scan_unless_their_sizes_are_equal(spark: Any, tmp_path: Path) -> None:
    """Vectors of no row, of one, of some and of all rows, in 64-bit bitmaps; files of partitions and of an older schema."""
    url = str(tmp_path / "table")
    table = ll.create_table(url, pa.schema([("p", pa.int32()), ("k", pa.int64())]), partition_by=["p"])
    for start, count in ((0, 300), (0, 300), (1000, 128), (2000, 7), (3000, 129), (4000, 65)):
        ids = np.arange(start, start + count)
        table.append(pa.table({"p": pa.array(ids % 2, pa.int32()), "k": ids}))
    table.alter(ll.add_column("later", "STRING"))
    table.append(pa.table({"p": pa.array([0] * 70, pa.int32()), "k": range(5000, 5070), "later": ["x"] * 70}))
    by_rows: dict[int, list[str]] = {}
    for entry in table.entries():
        by_rows.setdefault(entry.file.row_count, []).append(entry.file.file_name)
    gone = {64: [0, 63], 4: range(4), 3: [2], 65: [64], 33: [], 70: [1, 69]}
    positions: dict[str, Any] = {by_rows[rows][0]: marks for rows, marks in gone.items()}
    positions |= {name: [i, 64 + i, 149] for i, name in enumerate(by_rows[150])}  # two pairs with the same rows
    mark(table, positions, bits=64)
    sizes = Counter(e.file.file_size for e in table.entries() if e.file.file_name in positions and e.file.row_count > 4)
    assert max(sizes.values()) > 1
    table = ll.open_table(url)
    expected = sorted(map(tuple, ((r["p"], r["k"], r["later"]) for r in table.to_arrow().to_pylist())), key=repr)
    assert len(expected) == 999 - sum(map(len, positions.values()))

    found = lake.read(spark, url)
    plan = plan_of(found)
    assert "MapInArrow" not in plan
    assert plan.count("FileScan parquet") == 1 + max(sizes.values()), "one scan of the files without a vector"
    assert sorted(map(tuple, found.collect()), key=repr) == expected
    later = lake.read(spark, url, columns=["k"], where="p = 0 AND later = 'x'")
    assert sorted(row.k for row in later.collect()) == [k for p, k, x in expected if p == 0 and x == "x"]
    pairs = found.alias("a").join(found.alias("b"), F.expr("a.k = b.k + 1 AND a.k > 1000")).count()
    keys = {k for _, k, _ in expected if k > 999}
    assert pairs == sum(k > 1000 and k - 1 in keys for k in keys)


@pytest.mark.parametrize("taken", ["_metadata", "_Tmp_metadata_row_index", "_Lakelatch_words"])
def test_columns_with_the_names_that_a_scan_needs_are_columns_of_the_table(
    spark: Any, tmp_path: Path, taken: str
) -> None:
    url = str(tmp_path / "table")
    table = ll.create_table(url, pa.schema([("k", pa.int64()), (taken, pa.int64())]))
    table.append(pa.table({"k": range(9), taken: range(100, 109)}))
    mark(table, {e.file.file_name: [0, 5] for e in table.entries()})
    expected = [(k, 100 + k) for k in range(9) if k not in (0, 5)]
    found = lake.read(spark, url)
    assert found.columns == ["k", taken] and sorted(map(tuple, found.collect())) == expected
    assert sorted(r.k for r in lake.read(spark, url, columns=["k"]).collect()) == [k for k, _ in expected]


def test_another_file_under_the_same_name_is_an_error_of_the_scan(spark: Any, marked: tuple[str, set[int]]) -> None:
    """The bitmap of a file is not for another one: not for one of another size, and not for one of more rows."""
    url, _ = marked
    table = ll.open_table(url)
    (split,) = (s for s in table.plan().splits if s.needs_arrow)
    (scan,) = vectors.marked_scans(table.store, [split])
    path = f"{url}/{split.keys[0]}"
    for changed in ({"file_size": split.files[0].file_size - 1}, {"row_count": 64}):
        file = split.files[0]._replace(**changed)
        (words,) = scan.bitmaps
        few = [words[: -(-file.row_count // 64)], words]  # the bitmap of another file comes behind
        other = file._replace(file_size=file.file_size + 1000)
        wrong = vectors.MarkedScan([replace(split, files=(f,)) for f in (file, other)], few)
        frame = wrong.live_rows(
            spark, spark.read.schema(f"k bigint, {vectors.ROW_INDEX.name} bigint").parquet(path), url
        )
        with pytest.raises(Exception, match="lakelatch verify --data"):
            frame.agg({"k": "sum"}).collect()


def test_files_are_worth_it_if_each_scan_reads_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files share a scan; files of the same size each take one of their own."""
    monkeypatch.undo()

    def files(*sizes: int, rows: int = 1000) -> list[Split]:
        made = tuple(DataFile(f"f{i}", size, rows) for i, size in enumerate(sizes))
        return [Split(b"", "", 0, 1, made, tuple(f.file_name for f in made), (DELETED_ROWS,))]

    million = 1_000_000
    assert vectors.worth_it(files(*range(million, million + 20)))
    assert not vectors.worth_it(files(*range(million, million + 10)))
    assert not vectors.worth_it(files(*[million] * 20))
    assert vectors.worth_it(files(*[20 * million] * 20))
    assert not vectors.worth_it(files(20 * million, rows=vectors.VECTOR_ROWS + 1))
    assert not vectors.worth_it(files(*range(million, million + vectors.VECTOR_FILES + 1)))
    assert not vectors.worth_it([])


def test_the_driver_holds_a_bit_for_each_row_and_not_the_positions_of_deleted_ones(tmp_path: Path) -> None:
    """Until all scans are made: of the most rows that it takes, the positions would be two gigabytes."""
    table = ll.create_table(str(tmp_path / "table"), pa.schema([("k", pa.int64())]))
    table.append(pa.table({"k": range(ROWS)}))
    (file,) = [e.file.file_name for e in table.entries()]
    mark(table, {file: range(1, ROWS, 2)})
    table = ll.open_table(table.url)
    (scan,) = vectors.marked_scans(table.store, table.plan().splits)
    held = [part for parts in vars(scan).values() for part in parts if isinstance(part, np.ndarray)]
    assert 0 < sum(part.nbytes for part in held) < ROWS // 8 + 8


def test_a_damaged_vector_is_an_error_of_the_read(spark: Any, marked: tuple[str, set[int]]) -> None:
    """It never means that nothing is deleted."""
    url, _ = marked
    path = Path(url) / INDEX
    data = bytearray(path.read_bytes())
    data[20] ^= 0xFF
    path.write_bytes(bytes(data))
    with pytest.raises(ll.TableCorrupt, match="index-1"):
        lake.read(spark, url)


@pytest.mark.parametrize("table_id", ["paimon-java-1.4.2/append_dv", "paimon-java-1.4.2/pk_dv"])
def test_tables_of_apache_paimon_with_vectors(spark: Any, golden: Callable[[str], Any], table_id: str) -> None:
    """Tables with and without a primary key."""
    path = str(golden(table_id).path)
    found = lake.read(spark, path)
    assert vectors.ROW_INDEX.name in plan_of(found)
    rows = sorted(json.dumps(row, default=repr) for row in found.toArrow().to_pylist())
    assert rows == sorted(json.dumps(row, default=repr) for row in ll.open_table(path).to_arrow().to_pylist())
