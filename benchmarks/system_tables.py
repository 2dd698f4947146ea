"""Listing the system tables of a table of very many files.

    python benchmarks/system_tables.py --files 1000000

Each read is a process of its own: wall and CPU seconds, the rows that came, the store's requests, and the peak memory of the
process beside what it had before the read. The table is metadata alone (see `plan.py`), on a local disk.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import plan
from recorded import add_json, record

import lakelatch as ll
from lakelatch.backends.around.metered import MeteredStore
from lakelatch.table.table import Table

CHEAP = ["partition", "bucket", "file_path", "record_count", "file_size_in_bytes"]
READS: dict[str, Callable[[Table], int]] = {
    "files, five columns": lambda table: table.system("files", CHEAP).num_rows,
    "files, every column": lambda table: table.system("files").num_rows,
    "files, every column, streamed": lambda table: sum(batch.num_rows for batch in table.system_reader("files")),
    "files of one partition": lambda table: table.system("files", where="partition = '{7}'").num_rows,
    "files, a limit of ten": lambda table: table.system("files", limit=10).num_rows,
    "partitions": lambda table: table.system("partitions").num_rows,
    "buckets": lambda table: table.system("buckets").num_rows,
    "files(), the short listing": lambda table: table.files().num_rows,
}


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(url: str, name: str) -> dict[str, Any]:
    """One read in this process."""
    opened = ll.open_table(url)
    store = MeteredStore(opened.store)
    table = Table(store, opened.schema)
    table.system("options")  # imports
    before, asked = peak_mib(), store.snapshot().requests
    wall, cpu = time.perf_counter(), time.process_time()
    rows = READS[name](table)
    return {
        "rows": rows,
        "wall": time.perf_counter() - wall,
        "cpu": time.process_time() - cpu,
        "requests": store.snapshot().requests - asked,
        "before": before,
        "peak": peak_mib(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--read", nargs=2, metavar=("URL", "NAME"), help=argparse.SUPPRESS)
    add_json(parser)
    args = parser.parse_args()
    if args.read:
        print(json.dumps(measured(*args.read)))
        return
    with TemporaryDirectory() as folder:
        url = str(Path(folder) / "t")
        plan.build(url, args.files)
        print(f"{args.files:,} files in {plan.DAYS} partitions\n")
        print(f"{'read':<32}{'rows':>10}{'wall s':>9}{'CPU s':>8}{'requests':>10}{'MiB before':>12}{'peak MiB':>10}")
        rows = []
        for name in READS:
            command = [sys.executable, __file__, "--read", url, name]
            told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
            rows.append({"read": name, **told})
            print(
                f"{name:<32}{told['rows']:>10}{told['wall']:>9.2f}{told['cpu']:>8.2f}{told['requests']:>10}"
                f"{told['before']:>12.0f}{told['peak']:>10.0f}",
                flush=True,
            )
        record(args.json, f"{args.files:,} files in {plan.DAYS} partitions", rows)


if __name__ == "__main__":
    main()
