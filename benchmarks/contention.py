"""What many writers of one table get: commits that were told of, visible and lost, waits, and requests per commit.

`python benchmarks/contention.py [--writers N] [--commits M] [--latency-ms L] [--limit-s T] [--json FILE]`; lakelatch,
delta-rs and pypaimon in the same run, one after another, each with its defaults, and lakelatch with `commit.group` = `auto`
besides: N processes append M rows each, one row a commit, on one S3 server (versitygw). A proxy at the server counts the
requests; toxiproxy before it delays every answer, so that what waits for the network waits for it here too. A library that
takes longer than the limit is stopped, and its line shows what it had by then. It fails where lakelatch did not land every
commit exactly once. With `--store gcs` or `azure`, with `--transport fsspec`, and
with another `--table` than `append`, lakelatch runs alone. With LAKELATCH_NIGHTLY=1
the table in docs/many-writers.md is written anew.
"""

from __future__ import annotations

import argparse
import json
import queue
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]

from contended_child import TABLES  # noqa: E402
from figures import keep  # noqa: E402
from interop.pypaimon_env import interpreter  # noqa: E402
from peers import is_usable  # noqa: E402
from recorded import add_json, record  # noqa: E402
from servers import FaultProxy, S3Server, azure_server, gcs_server, s3_server, toxiproxy  # noqa: E402

CHILD = HERE / "contended_child.py"
READ_WITHIN_S = 120


def _lakelatch(server: S3Server, endpoint: str) -> dict[str, Any]:
    return server.storage_options(endpoint)


def _delta(server: S3Server, endpoint: str) -> dict[str, Any]:
    return {key: value for key, value in server.environment(endpoint).items() if key.startswith("AWS_")}


def _pypaimon(server: S3Server, endpoint: str) -> dict[str, Any]:
    keys = {"s3.access-key": server.key, "s3.secret-key": server.secret, "s3.region": "us-east-1"}
    return {"s3.endpoint": endpoint, "s3.path.style.access": "true", **keys}


PEERS: dict[str, tuple[Callable[[], Path], Callable[[S3Server, str], dict[str, Any]]]] = {
    "lakelatch": (lambda: Path(sys.executable), _lakelatch),
    "lakelatch-riding": (lambda: Path(sys.executable), _lakelatch),
    "delta-rs": (lambda: Path(sys.executable), _delta),
    "pypaimon": (interpreter, _pypaimon),
}
"""Each library's Python, and how it is told where the server is."""


SERVERS: dict[str, Callable[[], Any]] = {"s3": s3_server, "gcs": gcs_server, "azure": azure_server}
"""By the dialect of their requests."""


class Peer:
    """One library on a table of its own.

    Args:
        server: of the dialect that the library speaks; only S3's for all of them.
        transport: the storage option of lakelatch.
        kind: of its table.
    """

    def __init__(self, name: str, url: str, server: Any, through: str, transport: str, kind: str) -> None:
        python, told = PEERS[name]
        chosen = {} if transport == "auto" else {"transport": transport}
        self.name, self._kind = name, kind
        self._command = [str(python()), str(CHILD), name, f"{url}/{name}"]
        self._direct, self._through = (told(server, end) | chosen for end in (server.endpoint_url, through))

    def ask(self, task: str) -> str:
        """Something that is done alone, without the delay; what it printed."""
        command = [*self._command, json.dumps(self._direct), self._kind, task]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=READ_WITHIN_S)
        if done.returncode:
            raise RuntimeError(f"{self.name} {task}: {done.stderr[-1000:]}")
        return done.stdout

    def writer(self, name: str, commits: int) -> subprocess.Popen[str]:
        command = [*self._command, json.dumps(self._through), self._kind, f"{name}:{commits}"]
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )


def contend(peer: Peer, proxy: FaultProxy, writers: int, commits: int, limit_s: float) -> dict[str, Any]:
    """All writers at once; what they were told beside what the table shows."""
    peer.ask("create")
    children = [peer.writer(f"writer-{i}", commits) for i in range(writers)]
    try:
        for child in children:
            assert child.stdout is not None
            if "ready" not in child.stdout.readline():
                raise RuntimeError(f"a writer of {peer.name} did not start")
        proxy.clear()
        began = time.monotonic()
        for child in children:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        told, wall_s = listen(children, began, limit_s)
        requests = len(proxy.requests)
    finally:
        for child in children:
            child.kill()
            child.wait()
    return booked(peer, told, writers * commits) | {
        "requests_per_commit": requests / max(1, sum(not line["error"] for line in told)),
        "wall_s": wall_s,
        "ended": "whole" if wall_s < limit_s else "stopped",
    }


def listen(children: list[subprocess.Popen[str]], began: float, limit_s: float) -> tuple[list[dict[str, Any]], float]:
    """What the writers say until all have ended, or the limit is reached; and how long that took, seconds."""
    lines: queue.Queue[str | None] = queue.Queue()

    def read(child: subprocess.Popen[str]) -> None:
        assert child.stdout is not None
        for line in child.stdout:
            lines.put(line)
        lines.put(None)

    for child in children:
        threading.Thread(target=read, args=(child,), daemon=True).start()
    told: list[dict[str, Any]] = []
    left = len(children)
    while left:
        try:
            line = lines.get(timeout=max(0.0, began + limit_s - time.monotonic()))
        except queue.Empty:
            return told, limit_s
        if line is None:
            left -= 1
        else:
            told.append(json.loads(line))
    return told, time.monotonic() - began


def booked(peer: Peer, told: list[dict[str, Any]], asked: int) -> dict[str, Any]:
    """The books of one library.

    Returns:
        lost: told of and not in the table; denied: in the table, though its writer was told of an error.
    """
    rows = json.loads(peer.ask("read").splitlines()[-1])["rows"]
    seen = Counter((row["writer"], row["number"]) for row in rows)
    acknowledged = {(line["writer"], line["number"]) for line in told if not line["error"]}
    refused = {(line["writer"], line["number"]) for line in told if line["error"]}
    waits_ms = [line["seconds"] * 1000 for line in told if not line["error"]]
    for error, count in Counter(line["error"][:100] for line in told if line["error"]).most_common(3):
        print(f"{peer.name}: {count} x {error}", file=sys.stderr)
    return {
        "library": peer.name,
        "asked": asked,
        "acknowledged": len(acknowledged),
        "visible": len(seen),
        "lost": len(acknowledged - set(seen)),
        "doubled": sum(count - 1 for count in seen.values()),
        "errors": len(refused),
        "denied": len(refused & set(seen)),
        "median_ms": median(waits_ms) if waits_ms else 0.0,
        "slowest_ms": max(waits_ms, default=0.0),
    }


def table(rows: list[dict[str, Any]]) -> str:
    """As Markdown."""
    lines = [list(rows[0]), ["---"] * len(rows[0])]
    lines += [[f"{v:.1f}" if isinstance(v, float) else str(v) for v in row.values()] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--writers", type=int, default=8, help="processes")
    parser.add_argument("--commits", type=int, default=10, help="of each process")
    parser.add_argument("--latency-ms", type=float, default=20.0, help="added to each answer")
    parser.add_argument("--limit-s", type=float, default=120.0, help="for each library")
    parser.add_argument("--only", choices=sorted(PEERS), nargs="*", default=list(PEERS))
    parser.add_argument("--table", choices=sorted(TABLES), default="append", help="what they append to or upsert into")
    parser.add_argument("--store", choices=list(SERVERS), default="s3")
    parser.add_argument("--transport", choices=["auto", "obstore", "fsspec"], default="auto", help="of lakelatch")
    add_json(parser)
    options = parser.parse_args()
    is_plain = (options.store, options.transport, options.table) == ("s3", "auto", "append")
    found = []
    with (
        SERVERS[options.store]() as server,
        FaultProxy(server.endpoint_url, dialect=options.store) as proxy,
        toxiproxy() as network,
    ):
        line = network.proxy(proxy.url)
        print(f"{server.name}, {options.latency_ms:.0f} ms on each answer", file=sys.stderr)
        with line.toxic("latency", latency=round(options.latency_ms)):
            for name in filter(is_usable, options.only):
                if not is_plain and not name.startswith("lakelatch"):
                    continue
                peer = Peer(name, server.new_root(), server, line.url, options.transport, options.table)
                found.append(contend(peer, proxy, options.writers, options.commits, options.limit_s))
    where = f"{options.table}, {options.store}, transport {options.transport}"
    title = f"{options.writers} processes x {options.commits} commits, {where}"
    record(options.json, f"{title}, {options.latency_ms:.0f} ms on each answer", found)
    print(table(found))
    if is_plain:
        keep("many-writers.md", "contention", table(found))
    for row in found:
        whole = row["acknowledged"] == row["visible"] == row["asked"] and not row["doubled"] + row["errors"]
        if row["library"].startswith("lakelatch") and not whole:
            sys.exit(f"{row['library']} did not land every commit exactly once")


if __name__ == "__main__":
    main()
