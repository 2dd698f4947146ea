"""Many rows in Python: append, read and filter one table on a local disk, beside delta-rs.

    python benchmarks/rows.py [--rows 10000000] [--times 3]

Six columns: two integers, a float, a text with few values, one with many, and a time. Both libraries have their defaults, but
for fsync, which delta-rs does not do and which is off here. The limit of a read is Arrow's own dataset of the files that
lakelatch has written: with Apache Paimon's default codec, where delta-rs takes a faster one that makes larger files. Each
variant is measured `--times` times, by turns; medians. All must have read as many rows with the same sum of a column.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from recorded import add_json, markdown, record

import lakelatch as ll

PARTITIONS = 30
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("k", pa.int32()),
        ("amt", pa.float64()),
        ("name", pa.string()),
        ("city", pa.string()),
        ("ts", pa.timestamp("us")),
    ]
)


def make_rows(count: int) -> pa.Table:
    """Rows by ascending id, in batches of 1 M."""
    parts = []
    for start in range(0, count, 1_000_000):
        ids = np.arange(start, min(count, start + 1_000_000), dtype=np.int64)
        dice = np.random.default_rng(start)
        columns = [
            pa.array(ids),
            pa.array(dice.integers(0, 1_000_000, len(ids)).astype(np.int32)),
            pa.array(dice.random(len(ids)) * 1000),
            pc.binary_join_element_wise("user-", pa.array(ids).cast(pa.string()), ""),
            pc.binary_join_element_wise("city-", pa.array(dice.integers(0, 200, len(ids))).cast(pa.string()), ""),
            pa.array(1_700_000_000_000_000 + ids * 1_000_003, pa.timestamp("us")),
        ]
        parts.append(pa.RecordBatch.from_arrays(columns, schema=SCHEMA))
    return pa.Table.from_batches(parts)


def with_day(rows: pa.Table) -> pa.Table:
    """The same rows with a column of `PARTITIONS` values, by which the table is partitioned."""
    return rows.append_column("day", pa.array(np.arange(rows.num_rows) % PARTITIONS, pa.int32()))


class Lakelatch:
    """This library."""

    name = "lakelatch"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._table: Any = None

    def append(self, rows: pa.Table) -> None:
        self._table = self._create("plain", rows)
        self._table.append(rows)

    def append_parts(self, rows: pa.Table) -> None:
        self._create("parts", rows, ["day"]).append(rows)

    def _create(self, name: str, rows: pa.Table, partition_by: list[str] | None = None) -> Any:
        url = self._folder / name
        shutil.rmtree(url, ignore_errors=True)
        return ll.create_table(str(url), rows.schema, partition_by=partition_by or (), storage_options={"fsync": False})

    def read(self, columns: list[str] | None, where: tuple[str, int, int] | None) -> pa.Table:
        chosen = None if where is None else (ll.col(where[0]) >= where[1]) & (ll.col(where[0]) < where[2])
        return self._table.to_arrow(columns=columns, where=chosen)


class DeltaRs:
    """delta-rs; it reads through Arrow's datasets or DataFusion, whichever is faster."""

    name = "delta-rs"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def append(self, rows: pa.Table) -> None:
        self._write("plain", rows)

    def append_parts(self, rows: pa.Table) -> None:
        self._write("parts", rows, partition_by=["day"])

    def _write(self, name: str, rows: pa.Table, **options: Any) -> None:
        from deltalake import write_deltalake

        shutil.rmtree(self._folder / name, ignore_errors=True)
        write_deltalake(str(self._folder / name), rows, **options)

    def read(self, columns: list[str] | None, where: tuple[str, int, int] | None) -> pa.Table:
        from deltalake import DeltaTable

        chosen = None
        if where is not None:
            column = pc.field(where[0])
            chosen = (column >= where[1]) & (column < where[2])
        return DeltaTable(str(self._folder / "plain")).to_pyarrow_dataset().to_table(columns=columns, filter=chosen)


class ArrowAlone:
    """Arrow's dataset of the files of lakelatch's table: reads, without a table."""

    name = "Arrow alone, files of lakelatch"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, columns: list[str] | None, where: tuple[str, int, int] | None) -> pa.Table:
        import pyarrow.dataset as ds

        chosen = None
        if where is not None:
            chosen = (pc.field(where[0]) >= where[1]) & (pc.field(where[0]) < where[2])
        files = sorted(str(file) for file in self._folder.glob("plain/bucket-*/*.parquet"))
        return ds.dataset(files).to_table(columns=columns, filter=chosen)


def variants(rows: pa.Table, parts: pa.Table) -> dict[str, Callable[[Any], Any]]:
    """What is measured; each is called with a library."""
    count = rows.num_rows
    return {
        "append": lambda library: library.append(rows),
        f"append into {PARTITIONS} partitions": lambda library: library.append_parts(parts),
        "read all": lambda library: library.read(None, None),
        "read one column": lambda library: library.read(["amt"], None),
        "a thousandth, by a value": lambda library: library.read(None, ("k", 5_000, 6_000)),
        "one id": lambda library: library.read(None, ("id", count // 2, count // 2 + 1)),
    }


def told(read: Any) -> Any:
    """What two libraries must agree on."""
    return None if read is None else (read.num_rows, round(pc.sum(read["amt"]).as_py() or 0.0, 3))


def measure(libraries: list[Any], chosen: dict[str, Callable[[Any], Any]], times: int) -> list[dict[str, Any]]:
    lines = []
    for what, call in chosen.items():
        seen: dict[str, list[tuple[float, float]]] = defaultdict(list)
        answers = {}
        for _ in range(times):
            for library in libraries:
                if what.startswith("append") and not hasattr(library, "append"):
                    continue
                wall, cpu = time.perf_counter(), time.process_time()
                read = call(library)
                seen[library.name].append((time.perf_counter() - wall, time.process_time() - cpu))
                answers[library.name] = told(read)
        if len(set(answers.values())) > 1:
            raise SystemExit(f"{what}: the libraries do not agree: {answers}")
        for name, runs in seen.items():
            walls, cpus = zip(*runs, strict=True)
            line = {"what": what, "library": name}
            lines.append(line | {"wall s": statistics.median(walls), "CPU s": statistics.median(cpus)})
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--times", type=int, default=3)
    add_json(parser)
    args = parser.parse_args()
    rows = make_rows(args.rows)
    with TemporaryDirectory() as folder:
        ours = Path(folder) / "lakelatch"
        libraries: list[Any] = [Lakelatch(ours), DeltaRs(Path(folder) / "delta"), ArrowAlone(ours)]
        lines = measure(libraries, variants(rows, with_day(rows)), args.times)
    print(markdown(lines))
    record(args.json, f"{args.rows:,} rows x {len(SCHEMA)} columns, {args.times} times each", lines)


if __name__ == "__main__":
    main()
