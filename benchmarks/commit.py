"""What one warm append costs: requests and round trips at the server, wall time, and local time as the table grows.

`python benchmarks/commit.py [--commits N] [--latency-ms L] [--json FILE]`; lakelatch, delta-rs and pypaimon in the same run,
interleaved, on one S3 server behind one counting proxy that adds the latency to every request. The data file counts.
The line "its requests alone" is the limit: a client that sends what an append of lakelatch sends, and makes nothing.
Settings: S3 server versitygw (moto where there is no Go), one bucket, 10 rows an append; locally fsync is on.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
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
PEERS_UP_TO = 1000
"""The others take ever longer: ten thousand of their commits are an hour."""


def on_s3(commits: int, latency_ms: float) -> list[dict[str, Any]]:
    """Requests, depth and wall time of warm appends, per library."""
    kinds = usable_peers()
    found: dict[str, list[dict[str, float]]] = {kind.name: [] for kind in kinds}
    with s3_server() as server, FaultProxy(server.endpoint_url, latency_ms=latency_ms) as proxy:
        print(f"S3 server {server.name}, {latency_ms:.0f} ms added to each request", file=sys.stderr)
        url = f"s3://{server.create_bucket()}"
        peers = [kind(url, server, proxy.url) for kind in kinds]
        alone = RequestsAlone(server, proxy.url)
        found[alone.name] = []
        for peer in peers:
            peer.create(SCHEMA)
            for _ in range(3):
                peer.append(ROWS)
            peer.settle()
        alone.append(ROWS)
        for _ in range(commits):
            for peer in (*peers, alone):
                found[peer.name].append(one_append(peer, proxy))
        for peer in peers:
            peer.close()
    return [
        {"library": name} | {key: median(run[key] for run in runs) for key in runs[0]} for name, runs in found.items()
    ]


class RequestsAlone:
    """Sends the requests of an append: five at once, of which one reads, a create, and a read that proves it."""

    name = "its requests alone"

    def __init__(self, server: Any, endpoint: str) -> None:
        from obstore.store import S3Store

        self._store = S3Store(
            server.create_bucket(),
            endpoint=endpoint,
            access_key_id=server.key,
            secret_access_key=server.secret,
            region="us-east-1",
            client_options={"allow_http": True},
        )
        self._pool, self._number = ThreadPoolExecutor(5), 0

    def append(self, rows: pa.Table) -> None:
        import obstore

        self._number += 1
        body, name = bytes(1000), f"append-{self._number}"
        written = [
            self._pool.submit(obstore.put, self._store, f"{name}-{n}", body, use_multipart=False) for n in range(4)
        ]
        self._pool.submit(lambda: obstore.list(self._store, prefix=name).collect()).result()
        for sent in written:
            sent.result()
        obstore.put(self._store, name, body, mode="create", use_multipart=False)
        obstore.get(self._store, name).bytes()

    def settle(self) -> None:
        """Nothing goes on after an append."""


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
    """Commit times on local disk with fsync: the median of the 20 commits up to each mark, and the 99th percentile of 1 000."""
    found = []
    with tempfile.TemporaryDirectory(prefix="lakelatch-bench-") as folder:
        peers = [kind(folder, None, None) for kind in usable_peers()]
        for peer in peers:
            peer.create(SCHEMA)
            times = []
            for number in range(1, max(m for m in marks if m <= PEERS_UP_TO or peer.name == "lakelatch") + 1):
                began = time.monotonic()
                peer.append(ROWS)
                times.append((time.monotonic() - began) * 1000)
                if number in marks:
                    p99 = sorted(times[-1000:])[-(min(number, 1000) // 100 + 1)]
                    found.append({"library": peer.name, "commit": number, "ms": median(times[-20:]), "p99 ms": p99})
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
