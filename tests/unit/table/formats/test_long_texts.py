"""Batches are bounded by bytes, also where a dictionary hides how long the texts of a file are."""

from __future__ import annotations

import uuid
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.core.rows import sizes, whole
from lakelatch.table.formats.parquet import reader as parquet_reader

LONG, ROWS = 20_000, 300


@pytest.fixture(autouse=True)
def low_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole, "WIDE_ABOVE", 40 * LONG)
    monkeypatch.setattr(sizes, "PIECE_BYTES", 10 * LONG)


def made(values: list[Any], kind: pa.DataType, file_format: str) -> ll.Table:
    rows = pa.table({"k": pa.array(range(len(values)), pa.int64()), "s": pa.array(values, kind)})
    table = ll.create_table(f"memory://{uuid.uuid4().hex}/t", rows.schema, options={"file.format": file_format})
    table.append(rows)
    return table


VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "one long text": (pa.string(), ["x" * LONG] * ROWS),
    "short and long": (pa.string(), [*["s"] * ROWS, *["x" * LONG] * ROWS]),
    "different texts": (pa.string(), [str(i) * (LONG // 3) for i in range(ROWS)]),
    "in lists": (pa.list_(pa.string()), [["x" * LONG, None]] * ROWS),
    "bytes": (pa.binary(), [b"x" * LONG] * ROWS),
}


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("name", VALUES)
def test_batches_are_bounded_by_bytes(name: str, file_format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, values = VALUES[name]
    table = made(values, kind, file_format)
    decoded = []
    learn = parquet_reader._RowWidth.learn
    monkeypatch.setattr(
        parquet_reader._RowWidth, "learn", lambda self, b: (decoded.append(b.nbytes), learn(self, b))[1]
    )
    for batches in (table.to_batches(), table.to_reader(), table.to_dataset().to_batches()):
        found = []
        for batch in batches:
            assert batch.nbytes <= 12 * LONG or batch.num_rows == 1
            found += batch.column("s").to_pylist()
        assert found == values
    assert max(decoded, default=0) <= 42 * LONG
