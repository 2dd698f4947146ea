"""What each operation costs on S3: requests by class, bytes, and US$ at the list price.

`python benchmarks/store_requests.py [--seconds S] [--spark] [--json FILE]`: a proxy before an S3 server (versitygw) counts what
lakelatch, delta-rs and pypaimon send for the same work, and what an idle reader of a table of a hundred snapshots sends while
nothing happens, for S seconds each. They do not depend on the machine. With `--spark`, an idle Spark stream is among them. With
LAKELATCH_NIGHTLY=1 the table in docs/stores/README.md is written anew.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pyarrow as pa

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]

from figures import keep  # noqa: E402
from peers import Lakelatch, usable_peers  # noqa: E402
from recorded import add_json, markdown, record  # noqa: E402
from servers import FaultProxy, S3Server, s3_server  # noqa: E402

import lakelatch as ll  # noqa: E402

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])
PRICES = {"PUT": 5e-6, "LIST": 5e-6, "GET": 4e-7, "DELETE": 0.0}
"""US$ for a request, S3 Standard in us-east-1: COPY and POST are PUTs, HEAD is a GET. Transfer within the region is free."""
MONTH_S = 730 * 3600
SNAPSHOTS = 100
YOUNG_S = 65
"""A snapshot that is younger than a minute does not expire."""
Row = dict[str, Any]


def rows(first: int, count: int = 100) -> pa.Table:
    return pa.table({"id": range(first, first + count), "v": [f"text {i}" for i in range(count)]}, SCHEMA)


def kind(method: str, path: str, query: str) -> str:
    """The class of a request, by which it is paid for."""
    if method == "GET" and ("list-type" in parse_qs(query) or path.count("/") < 2):
        return "LIST"
    if method == "POST" and "delete" in parse_qs(query, keep_blank_values=True):
        return "DELETE"
    return {"HEAD": "GET", "POST": "PUT"}.get(method, method)


class Counted:
    """Counts what is sent through a proxy, one row for each piece of work."""

    def __init__(self, proxy: FaultProxy) -> None:
        self._proxy = proxy
        self.rows: list[Row] = []

    @contextmanager
    def work(self, who: str, what: str, seconds: float | None = None) -> Iterator[None]:
        """Count one piece of work.

        Args:
            seconds: how long an idle reader is watched: its row tells of a minute, and its price of a month.
        """
        self._proxy.clear()
        yield
        scale = 1.0 if seconds is None else 60 / seconds
        sent = self._proxy.requests
        counts = dict.fromkeys(PRICES, 0)
        for request in sent:
            counts[kind(request.method, request.path, request.query)] += 1
        price = sum(PRICES[name] * count for name, count in counts.items())
        self.rows.append(
            {"work": what, "who": who}
            | {name: round(count * scale, 1) if seconds else count for name, count in counts.items()}
            | {
                "sent kB": sum(request.sent_bytes for request in sent) * scale / 1000,
                "received kB": sum(request.received_bytes for request in sent) * scale / 1000,
                "US$": f"{price * 1000:.3f} for 1,000"
                if seconds is None
                else f"{price / seconds * MONTH_S:.2f} a month",
            }
        )


def beside_others(counted: Counted, root: str, server: S3Server, endpoint: str) -> None:
    """A warm append of 100 rows, and a read of a table of ten of them by a reader that has just come."""
    for library in usable_peers():
        peer = library(root, server, endpoint)
        peer.create(SCHEMA)
        for number in range(9):
            peer.append(rows(100 * number))
        peer.settle()
        with counted.work(library.name, "append"):
            peer.append(rows(1000))
            peer.settle()
        with counted.work(library.name, "read of 10 files"):
            assert peer.read() == 1000
        peer.close()


def of_lakelatch(counted: Counted, root: str, options: dict[str, Any]) -> None:
    """What only we do here, or do in another way."""
    plain = ll.create_table(f"{root}/more", SCHEMA, storage_options=options)
    keyed = ll.create_table(
        f"{root}/keyed", SCHEMA, primary_key=["id"], options={"bucket": "4"}, storage_options=options
    )

    def opened(name: str) -> ll.Table:
        return ll.open_table(f"{root}/{name}", storage_options=options)

    def counts(what: str, act: Callable[[], Any]) -> None:
        with counted.work(Lakelatch.name, what):
            act()
            for table in (plain, keyed):
                table.committer.settle()

    for number in range(10):
        plain.append(rows(100 * number))
        keyed.upsert(rows(50 * number))
    counts("append by a new handle", lambda: opened("more").append(rows(1000)))
    counts("upsert into 4 buckets", lambda: keyed.upsert(rows(500)))
    counts("UPDATE of one row", lambda: plain.update("id = 5", set={"v": "'new'"}))
    merge = plain.merge(rows(900, 300), on=["id"]).when_matched_update_all().when_not_matched_insert_all()
    counts("MERGE of 300 rows", merge.execute)
    reader = opened("more")
    counts("plan", reader.plan)
    counts("plan again, nothing new", reader.plan)
    counts("compaction of 11 files", lambda: plain.compact(min_files=2))
    counts("orphan cleaning, nothing found", plain.clean)
    time.sleep(YOUNG_S)
    older = len(plain.snapshots()) - 1
    counts(f"expiry of {older} snapshots", lambda: plain.expire(retain_max=1, retain_min=1))
    assert len(plain.snapshots()) == 1


def idle(counted: Counted, root: str, options: dict[str, Any], seconds: float, spark: bool) -> None:
    """Readers of a table in which nothing happens."""
    table = ll.create_table(f"{root}/idle", SCHEMA, storage_options=options)
    for number in range(SNAPSHOTS):
        table.append(rows(number, 1))
    table.committer.settle()
    follower = ll.open_table(f"{root}/idle", storage_options=options).follow("latest", poll=1.0, wait=seconds)
    with counted.work(Lakelatch.name, "follow(poll=1), idle, a minute", seconds):
        assert not list(follower)
    if spark:
        with_spark(counted, f"{root}/idle", options, seconds)


def with_spark(counted: Counted, url: str, options: dict[str, Any], seconds: float) -> None:
    from spark_session import session

    import lakelatch.spark as lake

    spark = session(plain_daemon=False)
    lake.register(spark)
    given = {
        f"storage.{name}": value if isinstance(value, str) else json.dumps(value) for name, value in options.items()
    }
    reader = spark.readStream.format("lakelatch").options(**given)
    query = reader.load(url).writeStream.format("memory").queryName("idle").start()
    deadline = time.monotonic() + 120
    while not query.recentProgress and time.monotonic() < deadline:
        time.sleep(0.5)
    time.sleep(10)
    with counted.work(Lakelatch.name, "Spark stream, idle, a minute", seconds):
        time.sleep(seconds)
    assert query.isActive, query.exception()
    query.stop()
    spark.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long idle readers are watched")
    parser.add_argument("--spark", action="store_true", help="an idle Spark stream, too")
    add_json(parser)
    arguments = parser.parse_args()
    with s3_server() as server, FaultProxy(server.endpoint_url) as proxy:
        counted, root = Counted(proxy), f"s3://{server.create_bucket()}"
        beside_others(counted, root, server, proxy.url)
        options = server.storage_options(proxy.url)
        of_lakelatch(counted, root, options)
        idle(counted, root, options, arguments.seconds, arguments.spark)
    keep("stores/README.md", "what it costs", markdown(counted.rows))
    record(arguments.json, "requests to S3", counted.rows)
    print(markdown(counted.rows))


if __name__ == "__main__":
    main()
