"""One writer and one reader on each object store: a warm append, and a process that opens a table and reads one row.

    python benchmarks/stores.py [--commits 15] [--latency-ms 20]

The stores' servers run here, behind a proxy that counts requests and adds the latency to each. The reader is a process of its own
each time; its seconds begin when its imports are done, and the row is found by its value. Medians. The URL's scheme and the
dialect of the requests are all that differs, so the stores should be alike.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]

from recorded import add_json, markdown, record  # noqa: E402
from servers import FaultProxy, azure_server, gcs_server, s3_server  # noqa: E402
from servers.fault_proxy import sequential_depth  # noqa: E402

import lakelatch as ll  # noqa: E402

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])
SERVERS: dict[str, tuple[Callable[[], Any], str]] = {
    "S3": (s3_server, "s3"),
    "GCS": (gcs_server, "gcs"),
    "Azure": (azure_server, "azure"),
}
READER = """
import json, sys, time
import pyarrow.compute, pyarrow.parquet, lakelatch as ll, lakelatch.table.scan.plan, lakelatch.table.reading.arrow
url, options, wanted = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
began = time.monotonic()
rows = ll.open_table(url, storage_options=options).to_arrow(where=ll.col("id") == wanted)
print(json.dumps({"rows": rows.num_rows, "seconds": time.monotonic() - began}))
"""


def rows_of(number: int) -> pa.Table:
    ids = range(10 * number, 10 * number + 10)
    return pa.table({"id": list(ids), "v": [f"value {i}" for i in ids]}, schema=SCHEMA)


@contextmanager
def table_at(name: str, latency_ms: float) -> Iterator[tuple[str, dict[str, Any], Any]]:
    """The URL of a new table, options that reach it through the proxy, and the proxy."""
    serve, dialect = SERVERS[name]
    with serve() as server, FaultProxy(server.endpoint_url, latency_ms=latency_ms, dialect=dialect) as proxy:
        url = f"{server.new_root()}/table"
        ll.create_table(url, SCHEMA, storage_options=server.storage_options())
        yield url, server.storage_options(proxy.url), proxy


def measured(name: str, commits: int, latency_ms: float) -> list[dict[str, Any]]:
    with table_at(name, latency_ms) as (url, options, proxy):
        table = ll.open_table(url, storage_options=options)
        appends = [one_append(table, number, proxy) for number in range(commits + 3)][3:]
        reads = [one_read(url, options, 10 * number, proxy) for number in range(3)]
    medians = [
        {key: median(run[key] for run in runs) for key in ("requests", "sequential", "wall_ms")}
        for runs in (appends, reads)
    ]
    what = ("a warm append", "open and read one row, cold")
    return [{"store": name, "what": said} | found for said, found in zip(what, medians, strict=True)]


def one_append(table: Any, number: int, proxy: Any) -> dict[str, float]:
    proxy.clear()
    began = time.monotonic()
    table.append(rows_of(number))
    told = time.monotonic()
    before = [r for r in proxy.requests if r.end_s is not None and r.end_s <= told]
    table.committer.settle()
    return {"requests": len(proxy.requests), "sequential": sequential_depth(before), "wall_ms": (told - began) * 1000}


def one_read(url: str, options: dict[str, Any], wanted: int, proxy: Any) -> dict[str, float]:
    proxy.clear()
    command = [sys.executable, "-c", READER, url, json.dumps(options), str(wanted)]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout)
    if told["rows"] != 1:
        raise SystemExit(f"{url}: {told['rows']} rows have the id {wanted}")
    requests = list(proxy.requests)
    return {"requests": len(requests), "sequential": sequential_depth(requests), "wall_ms": told["seconds"] * 1000}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=15, help="measured appends per store")
    parser.add_argument("--latency-ms", type=float, default=20.0)
    add_json(parser)
    options = parser.parse_args()
    lines = [line for name in SERVERS for line in measured(name, options.commits, options.latency_ms)]
    print(markdown(lines))
    record(options.json, f"one writer and one reader, {options.latency_ms:.0f} ms on each request", lines)


if __name__ == "__main__":
    main()
