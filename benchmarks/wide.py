"""What the number of columns costs: append, read of one column, MERGE, UPDATE, a new column, plan.

`python benchmarks/wide.py [--columns N …] [--rows N] [--times N] [--json FILE]`; lakelatch, delta-rs and pyarrow alone (a Parquet
file that is written, and read again) in the same process, each in a fresh table on local disk. What counts is CPU, and the least
of a few times. A figure that grows faster than the columns tells of work for each column that looks at all columns.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]

from peers import is_usable  # noqa: E402
from recorded import add_json, markdown, record  # noqa: E402

import lakelatch as ll  # noqa: E402

ONE = "c1"


def rows_of(columns: int, rows: int) -> pa.Table:
    values = range(rows)
    return pa.table({f"c{i}": [i + value for value in values] for i in range(columns)})


class Lakelatch:
    """A table of lakelatch."""

    name = "lakelatch"

    def __init__(self, folder: str, rows: pa.Table) -> None:
        self._rows = rows
        self._table = ll.create_table(f"{folder}/lakelatch", rows.schema)

    def steps(self) -> dict[str, Callable[[], Any]]:
        table, rows = self._table, self._rows
        merge = table.merge(rows, on=[ONE]).when_matched_update_all().when_not_matched_insert_all()
        return {
            "append": lambda: table.append(rows),
            "read one": lambda: table.to_arrow(columns=[ONE]),
            "plan": lambda: table.plan(where=f"{ONE} = 1"),
            "merge": merge.execute,
            "update": lambda: table.update(set={name: f"{name} + 1" for name in rows.column_names[2:]}),
            "new column": lambda: table.alter(ll.add_column("new", "BIGINT")),
        }


class DeltaRs:
    """A table of delta-rs."""

    name = "delta-rs"

    def __init__(self, folder: str, rows: pa.Table) -> None:
        from deltalake import DeltaTable

        self._url, self._rows = f"{folder}/delta", rows
        self._table = DeltaTable.create(self._url, schema=rows.schema)

    def steps(self) -> dict[str, Callable[[], Any]]:
        from deltalake import DeltaTable, Field, write_deltalake
        from deltalake.schema import PrimitiveType

        def merged() -> Any:
            merge = DeltaTable(self._url).merge(self._rows, f"t.{ONE} = s.{ONE}", source_alias="s", target_alias="t")
            return merge.when_matched_update_all().when_not_matched_insert_all().execute()

        changes = {name: f"{name} + 1" for name in self._rows.column_names[2:]}
        return {
            "append": lambda: write_deltalake(self._url, self._rows, mode="append"),
            "read one": lambda: DeltaTable(self._url).to_pyarrow_table(columns=[ONE]),
            "merge": merged,
            "update": lambda: DeltaTable(self._url).update(updates=changes),
            "new column": lambda: DeltaTable(self._url).alter.add_columns(Field("new", PrimitiveType("long"))),
        }


class Arrow:
    """One Parquet file, without a table."""

    name = "pyarrow alone"

    def __init__(self, folder: str, rows: pa.Table) -> None:
        self._file, self._rows = f"{folder}/rows.parquet", rows

    def steps(self) -> dict[str, Callable[[], Any]]:
        return {
            "append": lambda: pq.write_table(self._rows, self._file, compression="zstd"),
            "read one": lambda: pq.read_table(self._file, columns=[ONE]),
        }


def measured(kind: Any, rows: pa.Table, times: int) -> dict[str, float]:
    """The least CPU of each step, all threads together, in milliseconds."""
    best: dict[str, float] = {}
    for _ in range(times):
        with tempfile.TemporaryDirectory(prefix="lakelatch-bench-") as folder:
            for step, act in kind(folder, rows).steps().items():
                began = time.process_time()
                act()
                best[f"{step} CPU ms"] = min(
                    (time.process_time() - began) * 1000, best.get(f"{step} CPU ms", float("inf"))
                )
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--columns", type=int, nargs="*", default=[100, 1000, 10_000])
    parser.add_argument("--rows", type=int, default=10)
    parser.add_argument("--times", type=int, default=2)
    parser.add_argument("--peers-up-to", type=int, default=2000, help="the others' MERGE takes minutes above this")
    add_json(parser)
    options = parser.parse_args()
    kinds = [Lakelatch, *([DeltaRs] if is_usable("delta-rs") else []), Arrow]
    found = []
    for kind in kinds:
        measured(kind, rows_of(10, 2), 1)  # imports
    for columns in options.columns:
        rows = rows_of(columns, options.rows)
        for kind in kinds:
            if kind is DeltaRs and columns > options.peers_up_to:
                continue
            found.append({"library": kind.name, "columns": columns} | measured(kind, rows, options.times))
    record(options.json, f"a table of {options.rows} rows, by the number of its columns", found)
    print(markdown(found))


if __name__ == "__main__":
    main()
