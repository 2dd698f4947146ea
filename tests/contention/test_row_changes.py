"""G1, G2, G6 for changes of rows: many jobs merge, delete, append and compact at once, and the end is that of some serial order.

The order is that of the snapshots. DuckDB does the same changes in it, one after the other, and must end in the same rows.
`LAKELATCH_NIGHTLY=1` runs each job in a process of its own, and more of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa
import pytest
from report import tell

import lakelatch as ll

NIGHTLY = bool(os.environ.get("LAKELATCH_NIGHTLY"))
CHANGES = 20 if NIGHTLY else 3
SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64())])
Done = list[tuple[int, str]]
"""What a job changed: the snapshot, and the same as SQL."""


def merge(url: str, seed: int) -> Done:
    random, table, done = Random(seed), ll.open_table(url), []
    for _ in range(CHANGES):
        rows = [(i, random.randint(1, 9)) for i in random.sample(range(30), 5)]
        source = pa.table({"id": [i for i, _ in rows], "n": [n for _, n in rows]}, SCHEMA)
        if random.random() < 0.3:
            where = f"n % 5 = {random.randint(0, 4)} AND id < 12"
            done.append((table.delete(where=where).snapshot_id, f"DELETE FROM t WHERE {where}"))
            continue
        begun = table.merge(source, on=["id"]).when_matched_update({"n": "(t.n * 3 + s.n) % 1009"})
        values = ", ".join(map(str, rows))
        sql = f"MERGE INTO t USING (SELECT * FROM (VALUES {values}) AS v(id, n)) AS s ON t.id = s.id"
        sql += (
            " WHEN MATCHED THEN UPDATE SET n = (t.n * 3 + s.n) % 1009 WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.n)"
        )
        done.append((begun.when_not_matched_insert_all().execute().snapshot_id, sql))
    return done


def append(url: str, seed: int) -> Done:
    random, table, done = Random(seed), ll.open_table(url), []
    for _ in range(CHANGES):
        rows = [(random.randint(0, 30), random.randint(1, 9)) for _ in range(3)]
        receipt = table.append(pa.table({"id": [i for i, _ in rows], "n": [n for _, n in rows]}, SCHEMA))
        done.append((receipt.snapshot_id, f"INSERT INTO t VALUES {', '.join(map(str, rows))}"))
    return done


def compact(url: str, seed: int) -> Done:
    for _ in range(3 * CHANGES):
        ll.open_table(url).compact(full=True)
    return []


@pytest.mark.parametrize("options", [{}, {"deletion-vectors.enabled": "true"}], ids=["copies", "vectors"])
def test_mergers_appenders_and_a_compactor_end_in_a_serial_order(tmp_path: Path, options: dict[str, str]) -> None:
    table = ll.create_table(str(tmp_path / "t"), SCHEMA, options=options)
    first = pa.table({"id": range(20), "n": [1] * 20}, SCHEMA)
    table.append(first)
    jobs: list[Callable[[str, int], Done]] = [*[merge] * 4, *[append] * 4, compact]
    pool = ProcessPoolExecutor(len(jobs), get_context("spawn")) if NIGHTLY else ThreadPoolExecutor(len(jobs))
    with pool:
        begun = [pool.submit(job, table.url, seed) for seed, job in enumerate(jobs)]
        done = sorted(change for job in begun for change in job.result())
    assert len({snapshot for snapshot, _ in done}) == len(done) == 8 * CHANGES, "each change is a commit of its own"
    peer = duckdb.connect(config={"threads": 1})
    peer.execute("CREATE TABLE t (id BIGINT, n BIGINT)")
    peer.execute("INSERT INTO t SELECT range, 1 FROM range(20)")
    for _, sql in done:
        peer.execute(sql)
    ours = sorted((row["id"], row["n"]) for row in table.to_arrow().to_pylist())
    assert ours == sorted(peer.execute("SELECT id, n FROM t").fetchall())
    assert [str(finding) for finding in table.verify("all", data="deep")] == []
    tell(
        f"row changes beside each other, {options or 'copies'}: {len(done)} changes, {len(table.snapshots())} snapshots"
    )
