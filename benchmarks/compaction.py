"""Compacting a table with a primary key, beside Apache Paimon's Java; and how much more many small upserts write because of it.

    python benchmarks/compaction.py --rows 10000000 --buckets 16 --runs 5
    python benchmarks/compaction.py --upserts 200

Both compact a copy of the same table in full, each in a process of its own, which begins when its libraries are loaded. Then
lakelatch reads both and compares them. Memory is the process's peak, and what it was before. Java runs with `-Xmx4g` and compacts
one bucket after another on one thread; lakelatch compacts four at a time.
With `--upserts` lakelatch writes so many small upserts into one bucket and compacts by itself: the bytes of all data files are
compared with those that the upserts alone have written, and the runs of the bucket are counted after each.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "tests"), str(HERE)]

import merge  # noqa: E402
from recorded import add_json, record  # noqa: E402

import lakelatch as ll  # noqa: E402
from lakelatch.core.metadata.sorted_runs.levels import run_count  # noqa: E402


def lakelatch(url: str) -> Callable[[], object]:
    table = ll.open_table(url)
    return lambda: table.compact(full=True)


def java(url: str) -> Callable[[], object]:
    import jpype
    from interop.java import jvm

    home = jvm.java_home.wire()
    path = [str(jvm.bundle_jar()), str(jvm.pyspark_jars() / "*")]
    jpype.startJVM(str(home / "lib/server/libjvm.so"), "-Xmx4g", "-Dlog4j2.level=ERROR", classpath=path)
    from interop.java.paimon import PaimonJava

    paimon = PaimonJava()
    return lambda: paimon.compact(url)


COMPACTORS = {"lakelatch": lakelatch, "java": java}


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(compactor: str, url: str) -> dict[str, float]:
    """Compact a table in this process."""
    compact = COMPACTORS[compactor](url)
    before, wall, cpu = peak_mib(), time.monotonic(), time.process_time()
    compact()
    return {
        "wall": time.monotonic() - wall,
        "cpu": time.process_time() - cpu,
        "before": before,
        "peak": peak_mib(),
    }


def summary(url: str) -> tuple[Any, ...]:
    """The number of rows and files, the levels, and sums of two columns."""
    table = ll.open_table(url)
    rows = table.to_arrow(columns=["k", "amt"])
    levels = sorted({entry.file.level for entry in table.entries()})
    return rows.num_rows, levels, pc.sum(rows["k"]).as_py(), round(pc.sum(rows["amt"]).as_py() or 0, 2)


def compare(folder: str, key: str, engine: str, args: argparse.Namespace) -> None:
    table = merge.build(f"{folder}/table", key, engine, args)
    plan = table.plan()
    print(f"{engine}, {key} keys: {plan.row_count:,} rows in {plan.file_count} files, {plan.size / 2**20:.0f} MiB")
    print(f"    {'':<12} {'wall s':>8} {'CPU s':>8} {'rows/s':>12} {'MiB':>8} {'peak':>8}")
    found, rows = {}, []
    for compactor in args.compactors.split(","):
        url = f"{folder}/{compactor}"
        shutil.copytree(f"{folder}/table", url)
        command = [sys.executable, __file__, "--child", compactor, url]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stderr)
        told = json.loads(done.stdout.splitlines()[-1])
        rate = plan.row_count / told["wall"]
        print(
            f"    {compactor:<12} {told['wall']:>8.2f} {told['cpu']:>8.2f} {rate:>12,.0f}"
            f" {told['before']:>8.0f} {told['peak']:>8.0f}",
            flush=True,
        )
        found[compactor] = summary(url)
        rows.append(
            {
                "compactor": compactor,
                "wall s": told["wall"],
                "CPU s": told["cpu"],
                "rows/s": rate,
                "peak MiB": told["peak"],
            }
        )
        shutil.rmtree(url, ignore_errors=True)
    record(args.json, f"{engine}, {key} keys: {plan.row_count:,} rows in {plan.file_count} files", rows)
    if len(set(map(str, found.values()))) > 1:
        raise SystemExit(f"the compacted tables differ: {found}")


def amplification(folder: str, count: int, file: Path | None) -> None:
    """Many small upserts of some keys, compacted by the writes themselves."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("amt", pa.float64()), ("name", pa.string())])
    table = ll.create_table(f"{folder}/upserts", schema, primary_key=["id"], options={"bucket": "1"})
    rng, written, most = np.random.default_rng(7), 0, 0
    began = time.monotonic()
    for _ in range(count):
        ids = np.unique(rng.integers(0, 100_000, 1000))
        texts = pa.array(rng.integers(0, 10**9, len(ids))).cast(pa.string())
        table.upsert(pa.table({"id": ids, "amt": rng.random(len(ids)), "name": texts}))
        fresh = [entry.file for entry in table.entries()]
        most = max(most, run_count(fresh))
    took = time.monotonic() - began
    appended, compacted = 0, 0
    for snapshot in table.snapshots():
        manifests = table.timeline.delta_manifests(snapshot)
        added = [e.file for e in table.timeline.entries(manifests) if e.kind == 0]
        size = sum(file.file_size for file in added)
        appended, compacted = (
            (appended + size, compacted) if snapshot.commit_kind == "APPEND" else (appended, compacted + size)
        )
    written = appended + compacted
    snapshots = [snapshot.commit_kind for snapshot in table.snapshots()]
    print(f"{count} upserts of about 1,000 of 100,000 keys: {took:.1f} s, {snapshots.count('COMPACT')} compactions")
    row = {"upserts": count, "seconds": took, "write amplification": written / appended, "most sorted runs": most}
    record(file, "small upserts of 100,000 keys, compacted by the writes", [row])
    print(f"    write amplification {written / appended:.2f}, at most {most} sorted runs in the bucket")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="in all runs together")
    parser.add_argument("--buckets", type=int, default=4)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--keys", default="integer")
    parser.add_argument("--engines", default="deduplicate")
    parser.add_argument("--compactors", default=",".join(COMPACTORS))
    parser.add_argument("--upserts", type=int, help="measure so many small upserts instead")
    parser.add_argument("--child", nargs=2, metavar=("COMPACTOR", "URL"), help=argparse.SUPPRESS)
    add_json(parser)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(measured(*args.child)))
        return
    with TemporaryDirectory() as folder:
        if args.upserts:
            amplification(folder, args.upserts, args.json)
            return
        for key in args.keys.split(","):
            for engine in args.engines.split(","):
                compare(f"{folder}/{key}-{engine}", key, engine, args)


if __name__ == "__main__":
    main()
