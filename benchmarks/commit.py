"""What one warm append costs: requests and round trips at the server, wall time, and local time as the table grows.

`python benchmarks/commit.py [--commits N] [--latency-ms L] [--json FILE]`; lakelatch, delta-rs and pypaimon in the same run,
interleaved, on one S3 server behind one counting proxy that adds the latency to every request. The data file counts.
Settings: S3 server versitygw (moto where there is no Go), one bucket, 10 rows an append; locally fsync is on.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]

from peers import usable_peers  # noqa: E402
from recorded import add_json, markdown, record  # noqa: E402
from servers import FaultProxy, s3_server  # noqa: E402
from servers.fault_proxy import sequential_depth  # noqa: E402

import lakelatch as ll  # noqa: E402

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])
ROWS = pa.table({"id": list(range(10)), "v": [f"value {i}" for i in range(10)]}, schema=SCHEMA)
LOCAL_MARKS = (20, 200, 1000)


def on_s3(commits: int, latency_ms: float) -> list[dict[str, Any]]:
    """Requests, depth and wall time of warm appends, per library."""
    kinds = usable_peers()
    found: dict[str, list[dict[str, float]]] = {kind.name: [] for kind in kinds}
    with s3_server() as server, FaultProxy(server.endpoint_url, latency_ms=latency_ms) as proxy:
        print(f"S3 server {server.name}, {latency_ms:.0f} ms added to each request", file=sys.stderr)
        url = f"s3://{server.create_bucket()}"
        peers = [kind(url, server, proxy.url) for kind in kinds]
        for peer in peers:
            peer.create(SCHEMA)
            for _ in range(3):
                peer.append(ROWS)
            peer.settle()
        for _ in range(commits):
            for peer in peers:
                found[peer.name].append(one_append(peer, proxy))
        for peer in peers:
            peer.close()
    return [
        {"library": name} | {key: median(run[key] for run in runs) for key in runs[0]} for name, runs in found.items()
    ]


def one_append(peer: Any, proxy: Any) -> dict[str, float]:
    proxy.clear()
    began = time.monotonic()
    peer.append(ROWS)
    told = time.monotonic()
    before = [r for r in proxy.requests if r.end_s is not None and r.end_s <= told]
    peer.settle()
    return {
        "requests": len(proxy.requests),
        "sequential": sequential_depth(before),
        "wall_ms": (told - began) * 1000,
    }


def locally(marks: tuple[int, ...]) -> list[dict[str, Any]]:
    """Median commit time of the 20 commits up to each mark, on local disk with fsync."""
    found = []
    with tempfile.TemporaryDirectory(prefix="lakelatch-bench-") as folder:
        peers = [kind(folder, None, None) for kind in usable_peers()]
        for peer in peers:
            peer.create(SCHEMA)
            times = []
            for number in range(1, max(marks) + 1):
                began = time.monotonic()
                peer.append(ROWS)
                times.append((time.monotonic() - began) * 1000)
                if number in marks:
                    found.append({"library": peer.name, "commit": number, "ms": median(times[-20:])})
            peer.close()
        table = ll.open_table(f"{folder}/lakelatch")
        assert table.count() == max(marks) * ROWS.num_rows
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=15, help="measured appends per library on S3")
    parser.add_argument("--latency-ms", type=float, default=20.0)
    parser.add_argument("--marks", type=int, nargs="*", default=list(LOCAL_MARKS), help="local commits to report at")
    add_json(parser)
    options = parser.parse_args()
    result = {"s3": on_s3(options.commits, options.latency_ms), "local": locally(tuple(options.marks))}
    record(options.json, f"warm appends of 10 rows, S3, {options.latency_ms:.0f} ms on each request", result["s3"])
    record(options.json, "appends of 10 rows, local disk with fsync: the 20 up to this commit", result["local"])
    for rows in result.values():
        print(markdown(rows), end="\n\n")


if __name__ == "__main__":
    main()
