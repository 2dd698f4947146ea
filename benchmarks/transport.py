"""What one request to S3 costs through each transport: CPU of this process and wall time, side by side.

`python benchmarks/transport.py [--requests N] [--json FILE]`; obstore and s3fs under the same adapter, and obstore alone as the
limit, interleaved, on one S3 server (versitygw; moto where there is no Go). Objects have 1 kB. Medians of five rounds, in ms.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from recorded import add_json, markdown, record
from servers import s3_server

from lakelatch.backends.s3 import S3Store

DATA = b"x" * 1000
ROUNDS = 5
Acts = dict[str, Callable[[int], Any]]


def of_store(store: S3Store) -> Acts:
    return {
        "put": lambda number: store.put(f"a{number}", DATA),
        "create": lambda number: store.put_if_absent(f"new{number}", DATA),
        "get": lambda number: store.get(f"a{number}"),
        "head": lambda number: store.head(f"a{number}"),
    }


def of_client(store: S3Store, bucket: str) -> Acts:
    """The same requests by obstore's own functions, without deadlines and outcomes."""
    import obstore

    fast = store._carried()[0]
    assert fast is not None
    client = fast._client(bucket)
    return {
        "put": lambda number: obstore.put(client, f"o/a{number}", DATA, use_multipart=False),
        "create": lambda number: obstore.put(client, f"o/new{number}", DATA, mode="create", use_multipart=False),
        "get": lambda number: bytes(obstore.get(client, f"o/a{number}").bytes()),
        "head": lambda number: obstore.head(client, f"o/a{number}"),
    }


def measure(requests: int) -> list[dict[str, Any]]:
    with s3_server() as server:
        bucket, options = server.create_bucket(), server.storage_options()
        print(f"S3 server {server.name}", file=sys.stderr)
        stores = {
            name: S3Store(f"s3://{bucket}/{name}", {**options, "transport": name}) for name in ("obstore", "fsspec")
        }
        acts = {
            "lakelatch by obstore": of_store(stores["obstore"]),
            "lakelatch by s3fs": of_store(stores["fsspec"]),
            "obstore alone": of_client(stores["obstore"], bucket),
        }
        found: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for round_number in range(ROUNDS + 1):
            for who, does in acts.items():
                for name, act in does.items():
                    cpu, wall = time.process_time(), time.perf_counter()
                    for number in range(requests):
                        act(round_number * requests + number)
                    spent = (time.process_time() - cpu, time.perf_counter() - wall)
                    found.setdefault((who, name), []).append(spent)
    return [
        {"client": who, "request": name}
        | {
            f"{what} ms": median(run[at] for run in runs[1:]) / requests * 1000
            for at, what in enumerate(("CPU", "wall"))
        }
        for (who, name), runs in found.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=50, help="requests of each kind in a round")
    add_json(parser)
    options = parser.parse_args()
    rows = measure(options.requests)
    record(options.json, f"one request of 1 kB, {options.requests} a round", rows)
    print(markdown(rows))


if __name__ == "__main__":
    main()
