"""Rows of many sorted runs wait in a temporary file: the same rows come out, and few decoders are open (decision 115)."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.core.errors import InvalidArgument
from lakelatch.table.reading import set_aside
from lakelatch.table.reading.waiting_rows import WaitingRows
from lakelatch.table.writing.beginning import Beginning

PARTS = {"read.merge-memory": "128 kb"}


def table_of(folder: Path, seed: int, **options: str) -> ll.Table:
    """Upserts of overlapping keys in a partitioned table, one of whose columns changes its type meanwhile."""
    rng = random.Random(f"aside {seed}")
    schema = pa.schema(
        [
            pa.field("p", pa.int32(), nullable=False),
            pa.field("k", pa.string(), nullable=False),
            ("v", pa.int32()),
            ("city", pa.string()),
            ("tags", pa.list_(pa.string())),
        ]
    )
    fixed = {"bucket": "1", "write-only": "true"}
    table = ll.create_table(str(folder), schema, primary_key=["p", "k"], partition_by=["p"], options=fixed | options)
    for number in range(8):
        if number == 4:
            table.alter(ll.update_type("v", "BIGINT"))
        ids = rng.sample(range(900), 300)
        rows: list[dict[str, Any]] = [
            {
                "p": i % 2,
                "k": f"key-{i:05d}",
                "v": rng.choice([None, number, i]),
                "city": rng.choice([None, "Ulm", "Bonn", f"{i} {number} " * rng.choice([1, 900])]),
                "tags": rng.choice([None, [], ["a", None]]),
                "op": rng.choice("uuud"),
            }
            for i in ids
        ]
        kinds = pa.schema([*(f if f.name != "v" else f.with_type(pa.int64()) for f in schema), ("op", pa.string())])
        table.upsert(pa.Table.from_pylist(rows, kinds), row_kind="op")
        table = ll.open_table(str(folder))
    return table


def rows_of(table: ll.Table) -> list[dict[str, Any]]:
    return sorted(table.to_arrow().to_pylist(), key=lambda row: (row["p"], row["k"]))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "options",
    [{}, {"merge-engine": "partial-update", "ignore-delete": "true"}, {"sequence.snapshot-ordering": "true"}],
)
def test_the_same_rows_are_read_and_compacted(
    seed: int, options: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where snapshots order the rows, the numbers in the files say nothing."""
    if "sequence.snapshot-ordering" in options:
        monkeypatch.setattr(Beginning, "first_number", lambda self, largest: 0)
    table = table_of(tmp_path / "t", seed, **options, **PARTS)
    expected = rows_of(table)
    asked: list[int] = []
    waited: list[int] = []
    real = set_aside.windows_set_aside

    def counted(runs: Any, keys: Any, deciding: Any, budget: int, piece_bytes: int) -> Any:
        asked.append(len(runs))
        for window in real(runs, keys, deciding, budget, piece_bytes):
            sizes = [p.rows.waiting_bytes for p in window.pieces if isinstance(p.rows, WaitingRows)]
            waited.extend(sizes)
            assert sum(sizes) <= budget + 8 * max(sizes, default=0), "a row of each run more, at most"
            yield window

    monkeypatch.setattr(set_aside, "_ALWAYS_FREE", -(1 << 40))
    monkeypatch.setattr(set_aside, "_LEAST_PIECE_BYTES", 512)
    monkeypatch.setattr("lakelatch.table.reading.section_reader.windows_set_aside", counted)
    monkeypatch.setattr("lakelatch.table.reading.key_rows.windows_set_aside", counted)
    assert rows_of(table) == expected
    assert asked and min(asked) > 1 and sum(waited) > 100_000
    asked.clear()
    waited.clear()
    table.compact(full=True)
    assert asked and sum(waited) > 100_000
    assert rows_of(ll.open_table(str(tmp_path / "t"))) == expected


def test_few_runs_are_merged_as_they_are_read_and_many_wait_on_disk(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", 0)
    file = table.plan().splits[0].files[0]._replace(file_size=700_000)
    assert not set_aside.takes_too_much([[file]] * 20, 10, 512 << 20)
    assert set_aside.takes_too_much([[file]] * 500, 10, 512 << 20)


def test_a_full_disk_is_told_with_what_to_do(tmp_path: Path) -> None:
    class Full:
        def write(self, data: Any) -> int:
            raise OSError(28, "No space left on device")

    with pytest.raises(InvalidArgument, match="temporary files") as told:
        set_aside._write(Full(), pa.record_batch({"a": [1]}))
    assert "TMPDIR" in str(told.value)
