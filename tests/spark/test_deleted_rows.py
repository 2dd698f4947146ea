"""Spark's own scan leaves out the rows that a deletion vector marks, by their positions in the file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from marked_rows import INDEX, mark
from plans import plan_of

import lakelatch as ll
import lakelatch.spark as lake
from lakelatch.spark import vectors

pytestmark = pytest.mark.spark
ROWS = 20_000


@pytest.fixture(autouse=True)
def small_files_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "VECTOR_FILE_BYTES", 0)


@pytest.fixture
def marked(tmp_path: Path) -> tuple[str, set[int]]:
    """A table of one file of many row groups with deleted rows, and one without; the deleted keys."""
    url = str(tmp_path / "table")
    schema = pa.schema([("k", pa.int64()), ("v", pa.string()), ("_metadata", pa.int32())])
    table = ll.create_table(url, schema, options={"file.block-size": "16 kb", "file.compression": "none"})
    ids = np.arange(ROWS)
    texts = [f"text-{i}" for i in ids]
    table.append(pa.table({"k": ids, "v": texts, "_metadata": pa.array(ids, pa.int32())}))
    gone = {0, 1, 63, 64, 4095, 4096, ROWS - 1, *range(7000, 7200), *range(9, ROWS, 501)}
    (file,) = [e.file.file_name for e in table.entries()]
    mark(table, {file: gone})
    table = ll.open_table(url)
    table.append(pa.table({"k": [-1], "v": ["other"], "_metadata": pa.array([0], pa.int32())}))
    return url, gone


def test_marked_rows_are_gone_whatever_is_filtered_and_chosen(
    spark: Any, marked: tuple[str, set[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Positions count all rows of the file, those of row groups too that a filter leaves out."""
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
    assert "row_index" in plan_of(found)
    rows = sorted(json.dumps(row, default=repr) for row in found.toArrow().to_pylist())
    assert rows == sorted(json.dumps(row, default=repr) for row in ll.open_table(path).to_arrow().to_pylist())
