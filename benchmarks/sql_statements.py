"""What `spark.sql` of a registered session costs before Spark or lakelatch does anything: understanding the statement.

    python benchmarks/sql_statements.py --times 200

Each line is the median of `--times` calls, in milliseconds of CPU, for statements of about 2 kB. Foreign statements name no table
of lakelatch: their limit is 1 ms; that of statements about tables of lakelatch is 20 ms. sqlglot is imported by the first
statement that may be ours; how long that takes is a line of its own. Starts no session, except with `--plans`: then a classic
session plans the foreign query, and the look at that plan for tables of Spark's own catalog is measured, by the clock. It is part
of the same limit of 1 ms.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "tests"), str(HERE)]

from recorded import add_json, markdown, record  # noqa: E402
from spark_session import session  # noqa: E402

from lakelatch.spark.grammar.reading import head, may_be_ours, understand  # noqa: E402

COLUMNS = ", ".join(
    f"a.col{i} AS x{i}, sum(coalesce(b.v{i}, 0.0)) OVER (PARTITION BY a.k ORDER BY b.t) AS s{i}" for i in range(22)
)
QUERY = f"SELECT {COLUMNS} FROM {{}} a JOIN dims.b b ON a.id = b.id WHERE a.x IN (1, 2, 3) AND b.name LIKE 'x%'"
SETS = ", ".join(f"t.col{i} = CASE WHEN s.col{i} > {i} THEN s.col{i} ELSE t.col{i} END" for i in range(24))
MERGE = (
    f"MERGE INTO lake.air.t AS t USING (SELECT * FROM lake.air.s) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET {SETS}"
)
CASES: dict[str, tuple[str, float]] = {
    "foreign SELECT": (QUERY.format("air.flights"), 1.0),
    "foreign INSERT": (f"INSERT INTO air.copies {QUERY.format('air.flights')}", 1.0),
    "SELECT": (QUERY.format("lake.air.flights"), 20.0),
    "SELECT with time travel": (QUERY.format("lake.air.flights VERSION AS OF 3"), 20.0),
    "INSERT": (f"INSERT INTO lake.air.copies {QUERY.format('lake.air.flights')}", 20.0),
    "MERGE": (MERGE, 20.0),
}
CATALOGS = ("lake",)


def looked_at(sql: str) -> object:
    """What a registered session does with a statement before it asks Spark or carries it out."""
    if not may_be_ours(sql, CATALOGS, current=False):
        return None
    return head(sql, CATALOGS) or understand(sql)


def milliseconds(call: Callable[[], object], times: int) -> float:
    call()
    taken = []
    for _ in range(times):
        start = time.process_time()
        call()
        taken.append(time.process_time() - start)
    return median(taken) * 1000


def imported() -> float:
    """How long it takes a fresh process to import sqlglot's dialect, without the start of Python."""
    code = "import time; s = time.process_time(); import sqlglot.dialects.spark; print(time.process_time() - s)"
    return float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout) * 1000


def looked_at_the_plan(times: int) -> float:
    """The median time of the look at the plan of the foreign query, in milliseconds by the clock."""
    from lakelatch.spark.catalogs.queries import reads_by_source

    spark = session(plain_daemon=True)
    columns = ", ".join(f"id + {i} AS col{i}, id * 1.0D AS v{i}" for i in range(22))
    for view in ("flights", "b"):
        frame = spark.sql(f"SELECT id, id AS k, id AS t, id AS x, 'x' AS name, {columns} FROM range(9)")
        frame.createOrReplaceTempView(view)
    planned = spark.sql(QUERY.format("flights").replace("dims.b", "b"))
    taken = []
    for _ in range(times + 50):
        start = time.perf_counter()
        assert not reads_by_source(planned)
        taken.append(time.perf_counter() - start)
    spark.stop()
    return median(taken[50:]) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--plans", action="store_true", help="also the look at the plan of the foreign query")
    add_json(parser)
    given = parser.parse_args()
    rows: list[dict[str, object]] = [
        {
            "statement": name,
            "bytes": len(sql),
            "CPU ms": milliseconds(lambda sql=sql: looked_at(sql), given.times),
            "limit ms": limit,
        }
        for name, (sql, limit) in CASES.items()
    ]
    rows.append({"statement": "import of sqlglot", "CPU ms": imported()})
    if given.plans:
        rows.append({"statement": "foreign SELECT, its plan", "wall ms": looked_at_the_plan(given.times)})
    print(markdown(rows))
    record(given.json, "Understanding a statement", rows)


if __name__ == "__main__":
    main()
