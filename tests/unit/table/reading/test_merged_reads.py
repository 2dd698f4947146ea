"""Reads of files whose rows are merged: whichever shortcut is taken, the newest row of each key is found, in bounded memory."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sorted_files import add_files

import lakelatch as ll
from lakelatch.core.errors import InvalidArgument, TableCorrupt
from lakelatch.table.reading import section_reader
from lakelatch.table.reading.arrow import SplitReader
from lakelatch.table.reading.run_reader import RunReader
from lakelatch.table.reading.windows import windows
from lakelatch.table.scan.fallback import file_schemas_of
from lakelatch.table.writing.files.key_files import arrow_rows

Row = dict[str, Any]


def create(folder: Path, key: Any, **options: str) -> ll.Table:
    schema = pa.schema([pa.field("id", key, nullable=False), ("v", pa.int64()), ("s", pa.string())])
    texts = {name.replace("__", ".").replace("_", "-"): text for name, text in options.items()}
    return ll.create_table(
        str(folder), schema, primary_key=["id"], options={"bucket": "1", "write-only": "true"} | texts
    )


def read(table: ll.Table, memory: int, where: str | None = None) -> list[Row]:
    plan = table.plan(where=where)
    schemas = file_schemas_of(table.timeline, table.schema, plan.splits)
    reader = SplitReader(table.schema, None, plan.residual, schemas, merge_memory=memory)
    return [row for batch in reader.batches(table.store, plan.splits) for row in batch.to_pylist()]


@pytest.mark.parametrize("seed", range(12))
def test_the_newest_row_of_each_key_is_read(seed: int, tmp_path: Path) -> None:
    """Files whose sequence numbers follow each other, or overlap, or are the wrong way round; with and without deletes."""
    rng = random.Random(f"newest {seed}")
    key: Any = rng.choice([pa.int64(), pa.string()])
    options = rng.choice([{}, {}, {"sequence.field": "v"}, {"ignore-delete": "true"}])
    table = create(tmp_path / "t", key, **options)
    overlap, has_deletes = rng.random() < 0.5, rng.random() < 0.6
    files: list[list[Row]] = []
    for number in range(rng.randint(2, 5)):
        ids = sorted({f"k{rng.randrange(60):02d}" if key == pa.string() else rng.randrange(60) for _ in range(30)})
        numbers = rng.sample(range(1000), len(ids)) if overlap else [number * 100 + rng.randrange(99) for _ in ids]
        rows = [
            {
                "id": i,
                "_SEQUENCE_NUMBER": n,
                "v": rng.randrange(10**6),
                "s": f"file {number}",
                "_VALUE_KIND": rng.choice([0, 2, 3]) if has_deletes else 0,
            }
            for i, n in zip(ids, numbers, strict=True)
        ]
        files.append(rows)
    if rng.random() < 0.5:
        rng.shuffle(files)
    add_files(table, *files)
    versions: dict[Any, list[Row]] = {}
    for row in (row for rows in files for row in rows):
        if row["_VALUE_KIND"] != 3 or "ignore-delete" not in options:
            versions.setdefault(row["id"], []).append(row)
    by_value = "sequence.field" in options
    newest = [max(v, key=lambda r: (r["v"] if by_value else 0, r["_SEQUENCE_NUMBER"])) for v in versions.values()]
    expected = [{name: r[name] for name in ("id", "v", "s")} for r in newest if r["_VALUE_KIND"] != 3]
    for memory in (1 << 30, 1):
        found = read(table, memory)
        assert sorted(found, key=str) == sorted(expected, key=str), f"{options}, overlap {overlap}, memory {memory}"
    some = [row for row in expected if row["v"] < 500_000]
    assert sorted(read(table, 1, "v < 500000"), key=str) == sorted(some, key=str)


def test_one_level_may_hold_files_whose_numbers_overlap(tmp_path: Path) -> None:
    """Two files of level 5 beside each other, and newer rows of both in level 0."""
    table = create(tmp_path / "t", pa.int64())
    add_files(
        table,
        [{"id": i, "_SEQUENCE_NUMBER": 100 - i, "v": 1, "s": "old"} for i in range(50)],
        [{"id": i, "_SEQUENCE_NUMBER": i, "v": 1, "s": "old"} for i in range(50, 100)],
        levels=[5, 5],
    )
    add_files(table, [{"id": i, "_SEQUENCE_NUMBER": 101 + i, "v": 2, "s": "new"} for i in range(0, 100, 3)])
    for memory in (1 << 30, 1):
        assert sorted((r["id"], r["v"]) for r in read(table, memory)) == [(i, 2 - (i % 3 > 0)) for i in range(100)]


def test_the_memory_of_a_read_is_a_size(tmp_path: Path) -> None:
    table = create(tmp_path / "t", pa.int64())
    add_files(
        table, *([{"id": i, "_SEQUENCE_NUMBER": 9 * n + i, "v": n, "s": None} for i in range(9)] for n in range(2))
    )
    for size in (1, "1 kb", None):
        assert sum(batch.num_rows for batch in table.to_batches(merge_memory=size)) == 9
    for wrong in (0, -1, "1 parsec", True, 2.5):
        with pytest.raises(InvalidArgument, match="merge_memory"):
            list(table.to_batches(merge_memory=wrong))  # type: ignore[arg-type]


def with_sizes(folder: Path, engine: str = "deduplicate", runs: int = 6, **options: str) -> ll.Table:
    """Runs of 1,000 rows of fixed size: a key and a number."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.int64())])
    texts = {"bucket": "1", "write-only": "true", "merge-engine": engine} | options
    table = ll.create_table(str(folder), schema, primary_key=["id"], options=texts)
    for number in range(runs):
        table.upsert(pa.table({"id": range(number, 3000 + number, 3), "v": [number] * 1000}, schema=schema))
    return ll.open_table(str(folder))


@pytest.mark.parametrize(
    ("engine", "memory", "is_cut"),
    [
        ("deduplicate", 2 << 20, False),  # of which the rows take about 400 kB, and may take 600
        ("deduplicate", 1 << 20, True),
        ("partial-update", 2 << 20, True),  # which makes columns of them
        ("partial-update", 4 << 20, False),
    ],
)
def test_rows_that_surely_fit_are_merged_at_once(
    engine: str, memory: int, is_cut: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = with_sizes(tmp_path / "t", engine)
    budgets = list[int | None]()

    def counted(runs: Any, keys: Any, budget: int | None) -> Any:
        budgets.append(budget)
        return windows(runs, keys, budget)

    monkeypatch.setattr(section_reader, "windows", counted)
    expected = {k: max(n for n in range(6) if n <= k < 3000 + n and (k - n) % 3 == 0) for k in range(3003)}
    found = {row["id"]: row["v"] for batch in table.to_batches(merge_memory=memory) for row in batch.to_pylist()}
    assert found == {k: v for k, v in expected.items() if k in found} and len(found) == 3003
    assert [budget is not None for budget in budgets] == [is_cut]


def test_texts_may_be_larger_than_anything_that_is_known_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create(tmp_path / "t", pa.int64())
    add_files(table, *([{"id": 1, "_SEQUENCE_NUMBER": n, "v": n, "s": "x"}] for n in range(2)))
    budgets = list[int | None]()
    monkeypatch.setattr(section_reader, "windows", lambda *given: budgets.append(given[2]) or windows(*given))
    assert read(table, 1 << 30)[0]["v"] == 1
    assert table.to_arrow(columns=["v"]).to_pylist() == [{"v": 1}]
    assert [budget is None for budget in budgets] == [False, True]


def test_one_file_is_open_at_a_time_where_rows_are_merged_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, opened, most = with_sizes(tmp_path / "t"), list[str](), list[int]()
    real = RunReader.rows

    def rows(self: RunReader, files: Any, *given: Any, **named: Any) -> Any:
        def watched() -> Any:
            opened.append("")
            most.append(len(opened))
            yield from real(self, files, *given, **named)
            opened.pop()

        return watched()

    monkeypatch.setattr(RunReader, "rows", rows)
    assert table.to_arrow().num_rows == 3003
    assert most == [1] * 6


def test_a_file_with_more_rows_than_its_manifest_says_is_refused(tmp_path: Path) -> None:
    """Also of a format that tells it at its end only."""
    table = with_sizes(tmp_path / "t", runs=2, **{"file.format": "avro"})
    plan = table.plan()
    (split,) = plan.splits
    wrong = replace(split, files=[file._replace(row_count=999) for file in split.files])
    reader = SplitReader(table.schema, None, None, file_schemas_of(table.timeline, table.schema, plan.splits))
    with pytest.raises(TableCorrupt, match="has 1000 rows; its manifest says 999"):
        list(reader.batches(table.store, [wrong]))


CHILD = """
import json, sys
from pathlib import Path
import lakelatch as ll
from lakelatch.table.reading.arrow import SplitReader
from lakelatch.table.scan.fallback import file_schemas_of

def peak():
    return int(next(l for l in Path("/proc/self/status").read_text().splitlines() if l.startswith("VmHWM")).split()[1]) << 10

table = ll.open_table(sys.argv[1])
plan = table.plan()
schemas = file_schemas_of(table.timeline, table.schema, plan.splits)

def read(memory, limit):
    reader = SplitReader(table.schema, None, None, schemas, merge_memory=memory)
    rows = size = 0
    for batch in reader.batches(table.store, plan.splits, limit):
        rows, size = rows + batch.num_rows, size + batch.nbytes
    return rows, size

read(1, 100)  # loads what is loaded once
before = peak()
rows, size = read(int(sys.argv[2]), None)
print(json.dumps([peak() - before, rows, size]))
"""


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
def test_a_bucket_of_ten_times_the_memory_is_read_within_it(engine: str, tmp_path: Path) -> None:
    """The peak of a process that reads three overlapping files, each of one row group, whose texts take little space in them."""
    table = create(tmp_path / "t", pa.int64(), merge_engine=engine, metadata__stats_mode="none")
    rng, rows, memory = np.random.default_rng(1), 1 << 19, 64 << 20
    texts = pa.array(["x" * 400 + str(number) for number in range(5000)])
    files = []
    for number in range(3):
        columns = {
            "_SEQUENCE_NUMBER": np.arange(rows, dtype=np.int64) + number * rows,
            "_VALUE_KIND": np.zeros(rows, np.int8),
            "id": np.arange(rows, dtype=np.int64) * 2 + number % 2,
            "v": np.arange(rows),
            "s": texts.take(pa.array(rng.integers(0, len(texts), rows))),
        }
        files.append(pa.RecordBatch.from_pydict(columns, schema=arrow_rows(table.schema)))
    assert sum(file.nbytes for file in files) > 10 * memory
    add_files(table, *files)
    command = [sys.executable, "-c", CHILD, str(tmp_path / "t"), str(memory)]
    # The allocator that older Arrow brings keeps what was freed for a while, which is no memory of the read.
    allocator = {"ARROW_DEFAULT_MEMORY_POOL": "system"}
    done = subprocess.run(command, env={**os.environ, **allocator}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    taken, found, size = json.loads(done.stdout)
    assert (found, size > 6 * memory) == (2 * rows, True)
    print(f"{engine}: {taken / memory:.2f} x the memory that it may take")
    assert taken < 1.1 * memory


def test_texts_that_repeat_are_resolved_after_the_merge(tmp_path: Path) -> None:
    """Columns that are read as dictionaries, the key among them, with nulls and a column of another type since."""
    table = create(tmp_path / "t", pa.string())
    texts = [None, "", "a", "long " * 20]
    old = [{"id": f"key {i:05d}", "_SEQUENCE_NUMBER": i, "v": 0, "s": texts[i % 4]} for i in range(5000)]
    new = [{"id": f"key {i:05d}", "_SEQUENCE_NUMBER": 9000 + i, "v": 1, "s": texts[i % 3]} for i in range(0, 5000, 2)]
    add_files(table, old, new)
    expected = {row["id"]: (row["v"], row["s"]) for row in (*old, *new)}
    for memory in (1, 1 << 30):
        assert {r["id"]: (r["v"], r["s"]) for r in read(table, memory)} == expected
    (batch,) = (b.slice(0, 1) for b in table.to_batches(columns=["s"], where="id = 'key 00002'"))
    assert batch.schema.field("s").type == pa.string()
    assert batch.to_pylist() == [{"s": "a"}]
