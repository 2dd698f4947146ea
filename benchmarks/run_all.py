"""Runs every benchmark, one after another, and writes docs/performance.md from what they tell.

    python benchmarks/run_all.py [--size small|full] [--only NAME ...] [--page FILE]

Owns: which benchmarks there are, their sizes, and what each stands beside. Must not know: what a benchmark does, how the page
looks. The small sizes take about a quarter of an hour on two cores, the full ones hours. A benchmark that cannot run here,
because a program or a package is missing, is named on the page with its last words; the run then ends with an error.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from tempfile import TemporaryDirectory

import page

HERE = Path(__file__).parent
LONGEST_S = {"small": 300, "full": 4 * 3600}
"""A benchmark that takes longer is stopped; what it told until then is kept."""


@dataclass(frozen=True)
class Benchmark:
    """One program of this folder.

    Attributes:
        name: of the program, without `.py`.
        title: what it measures.
        limit: what the figures stand beside, and where they should be.
        small, full: its arguments, by size.
    """

    name: str
    title: str
    limit: str
    small: str
    full: str


BENCHMARKS = (
    Benchmark(
        "commit", "One writer commits",
        "Beside delta-rs and pypaimon. On S3 an append needs two requests in sequence to be visible and three to be acknowledged:"
        " three times the latency is the limit; the last line sends the same requests and makes nothing. Locally it is the"
        " disk's fsync.",
        "--commits 10 --marks 20 200", "--commits 25 --marks 20 1000 10000",
    ),
    Benchmark(
        "stores", "One writer and one reader, by store",
        "GCS and Azure should be within 1.2 times S3; their emulators take longer for a request. A cold read is five requests in"
        " sequence: the hint beside the schemas, its snapshot beside the schema, whether that is the newest beside its lists, the"
        " manifests, the file.",
        "--commits 8", "--commits 25",
    ),
    Benchmark(
        "contention", "Many processes commit to one table",
        "Beside delta-rs and pypaimon. Every commit must be acknowledged and visible; *lost* must be 0.",
        "--writers 4 --commits 5 --limit-s 60", "--writers 32 --commits 5 --limit-s 600",
    ),
    Benchmark(
        "writers", "The same, simulated up to a thousand writers",
        "In virtual time, so that the machine does not matter. First each for itself, then riding together.",
        "--commits 2 --long-commits 3", "",
    ),
    Benchmark(
        "store_requests", "What is sent to S3, and what it costs",
        "Beside delta-rs and pypaimon, at the list price of a request. An idle follower should send at most 66 a minute.",
        "--seconds 20", "--seconds 60 --spark",
    ),
    Benchmark(
        "transport", "One request", "obstore without lakelatch is the limit.", "--requests 30", "--requests 200"
    ),
    Benchmark(
        "plan", "Plans, and decoding manifests",
        "Beside fastavro and polars, which decode and do not plan. Targets for 100 000 files: 0.15 s with a filter, 0.5 s"
        " without; for 1 000 000: 1.2 s and 4 s.",
        "--files 100000 1000000 --times 1", "--files 100000 1000000 --times 3",
    ),
    Benchmark(
        "rows", "Many rows in Python",
        "Beside delta-rs, both with their defaults; fsync is off, as delta-rs never does it. The limit of a read is Arrow alone.",
        "--rows 1000000", "--rows 10000000",
    ),
    Benchmark(
        "sql_statements", "Understanding a statement of SQL",
        "Before Spark or lakelatch does anything: at most 1 ms for 2 kB that name no table of lakelatch, 20 ms for others.",
        "--times 50", "--times 500",
    ),
    Benchmark(
        "small_batches", "Small batches over many partitions or buckets",
        "Beside the same rows in one batch: at most 1.3 times the CPU.",
        "--rows 400000 --partitions 500 --buckets 100", "",
    ),
    Benchmark(
        "system_tables", "System tables of a table of many files",
        "The memory that a read takes beside what the process had before.",
        "--files 50000", "--files 1000000",
    ),
    Benchmark(
        "wide", "Many columns",
        "Beside delta-rs and pyarrow alone. Ten times the columns should cost ten times as much.",
        "--columns 100 1000 --times 1", "--columns 100 300 1000 3000 10000 --times 3",
    ),
    Benchmark(
        "merge", "Merge on read", "Beside polars, DuckDB and Apache Paimon's Java, on the same files.",
        "--rows 500000 --keys integer --engines deduplicate --times 3", "--rows 10000000",
    ),
    Benchmark(
        "lsm", "Many sorted runs, and one key among many", "Beside Apache Paimon's Java, on the same files.",
        "--runs 100 --keys 200000 1000000", "",
    ),
    Benchmark(
        "compaction", "Compaction of a table with a primary key", "Beside Apache Paimon's Java, on the same files.",
        "--rows 500000", "--rows 10000000",
    ),
    Benchmark(
        "merge_into", "MERGE and DELETE from Spark",
        "Beside Delta Lake and Apache Paimon's connector, where their jars are here.",
        "--rows 200000 --rounds 1 --trial", "--rows 10000000",
    ),
    Benchmark(
        "spark_write", "Appends from Spark",
        "Beside Spark's own Parquet writer, which commits nothing: at most 1.2 times its CPU.",
        "--rows 1000000 --rounds 3", "",
    ),
    Benchmark(
        "sql_merge", "MERGE by SQL",
        "Beside `LakeTable.merge` with the same clauses: at most 20 ms more.",
        "--rows 100000 --rounds 9", "--rows 1000000 --rounds 20",
    ),
    Benchmark(
        "spark_read", "Scans in Spark",
        "Beside `spark.read.parquet` on the very same files: at most 1.1 times its CPU; in a registered session at most"
        " 1.05 times that of `lakelatch.spark.read`.",
        "--rows 1000000 --rounds 3", "",
    ),
    Benchmark(
        "spark_upsert", "Upserts from Spark",
        "Beside Spark's own shuffle, sort and Parquet (at most 1.3 times its CPU), and Spark's scan without a merge"
        " (at most 1.4).",
        "--rows 400000 --rounds 1", "",
    ),
    Benchmark(
        "stream", "Streams", "*landed*: the age of a row at its commit; *seen*: at a reader that follows the table. Seconds.",
        "--queries 1 4 --seconds 10 --rate 1000", "",
    ),
    Benchmark(
        "maintenance_expire", "Expiry", "Beside Apache Paimon's Java; both leave the same files.",
        "--files 2000 --snapshots 300 --expire 150 --again 20", "",
    ),
    Benchmark(
        "maintenance_clean", "Cleaning of orphans", "Beside Apache Paimon's Java.",
        "--files 20000 --both 10000 --s3 500", "",
    ),
)  # fmt: skip


def run(benchmark: Benchmark, arguments: list[str], longest_s: float) -> page.Section:
    """Run one benchmark, with its own output on stderr, and read what it told."""
    with TemporaryDirectory(prefix="lakelatch-bench-") as folder:
        told = Path(folder, "told.jsonl")
        told.touch()
        command = [sys.executable, str(HERE / f"{benchmark.name}.py"), *arguments, "--json", str(told)]
        print(f"== {benchmark.name} {' '.join(arguments)}", file=sys.stderr, flush=True)
        errors = Path(folder, "errors")
        with errors.open("wb") as words:
            child = subprocess.Popen(command, stdout=sys.stderr, stderr=words, start_new_session=True)
        try:
            failure = "" if child.wait(longest_s) == 0 else f"it ended with {child.returncode}"
        except subprocess.TimeoutExpired:
            failure = f"it was stopped after {longest_s:.0f} s"
        except BaseException:
            _stop(child)
            raise
        _stop(child)
        tables = [json.loads(line) for line in told.read_text().splitlines()]
        last = errors.read_text(errors="replace").strip().splitlines()[-1:]
    if failure:
        failure = ": ".join([failure, *last])[:300]
        print(f"{benchmark.name}: {failure}", file=sys.stderr, flush=True)
    shown = " ".join(["python", f"benchmarks/{benchmark.name}.py", *arguments])
    return page.Section(benchmark.title, benchmark.limit, shown, tables, failure)


def _stop(child: subprocess.Popen[bytes]) -> None:
    """End a benchmark and the servers and JVMs that it left, which are its process group."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    child.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=list(LONGEST_S), default="small")
    parser.add_argument("--only", nargs="*", choices=[b.name for b in BENCHMARKS], help="the page holds no others then")
    parser.add_argument("--page", type=Path, default=HERE.parent / "docs" / "performance.md", help="the file to write")
    given = parser.parse_args()
    began, machine = datetime.now(timezone.utc), page.machine()
    chosen = [b for b in BENCHMARKS if given.only is None or b.name in given.only]
    sections = [run(b, getattr(b, given.size).split(), LONGEST_S[given.size]) for b in chosen]
    given.page.write_text(page.page(sections, given.size, began, machine))
    print(f"{given.page} is written", file=sys.stderr)
    failed = [section.title for section in sections if section.failure]
    sys.exit(f"left out or cut off: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
