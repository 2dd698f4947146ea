"""The libraries that commits are measured beside, each behind the same calls: `create()`, `append(rows)`, and
`read()`, which opens the table anew.

Every peer starts warm (the table is open, connections are up) and appends small tables; what they send is counted at the
server by the proxy, so none of them is asked for its own figures.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakelatch as ll

CHILD = Path(__file__).with_name("pypaimon_child.py")


class Lakelatch:
    """This library."""

    name = "lakelatch"

    def __init__(self, url: str, server: Any, endpoint: str | None) -> None:
        self._url = f"{url}/lakelatch"
        self._options = server.storage_options(endpoint) if server else None

    def create(self, schema: pa.Schema) -> None:
        self.table = ll.create_table(self._url, schema, storage_options=self._options)

    def append(self, rows: pa.Table) -> ll.Receipt:
        return self.table.append(rows)

    def read(self) -> int:
        return int(ll.open_table(self._url, storage_options=self._options).to_arrow().num_rows)

    def settle(self) -> None:
        """Wait for what happens after the receipt."""
        self.table.committer.settle()

    def close(self) -> None:
        self.settle()


class DeltaRs:
    """delta-rs, the Delta Lake library without Spark; conditional PUT, as it does by default on S3."""

    name = "delta-rs"

    def __init__(self, url: str, server: Any, endpoint: str | None) -> None:
        self._url = f"{url}/delta"
        self._options = None
        if server:
            environment = server.environment(endpoint)
            self._options = {key: value for key, value in environment.items() if key.startswith("AWS_")}

    def create(self, schema: pa.Schema) -> None:
        from deltalake import DeltaTable

        self.table = DeltaTable.create(self._url, schema, storage_options=self._options)

    def append(self, rows: pa.Table) -> None:
        from deltalake import write_deltalake

        write_deltalake(self.table, rows, mode="append")

    def read(self) -> int:
        from deltalake import DeltaTable

        return int(DeltaTable(self._url, storage_options=self._options).to_pyarrow_table().num_rows)

    def settle(self) -> None:
        return

    def close(self) -> None:
        return


class Pypaimon:
    """pypaimon, Apache Paimon's Python library, in its own environment (it needs an older pyarrow)."""

    name = "pypaimon"

    def __init__(self, url: str, server: Any, endpoint: str | None) -> None:
        self._warehouse, self._server, self._endpoint = f"{url}/pypaimon", server, endpoint

    def create(self, schema: pa.Schema) -> None:
        from interop.pypaimon_env import interpreter

        options = {"warehouse": self._warehouse}
        if self._server:
            options |= {
                "s3.endpoint": self._endpoint or self._server.endpoint_url,
                "s3.access-key": self._server.key,
                "s3.secret-key": self._server.secret,
                "s3.region": "us-east-1",
                "s3.path.style.access": "true",
            }
        self._child = subprocess.Popen(
            [str(interpreter()), str(CHILD)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._ask({"do": "create", "options": options})

    def append(self, rows: pa.Table) -> None:
        self._ask({"do": "append", "rows": rows.to_pydict()})

    def read(self) -> int:
        return int(self._ask({"do": "read"})["rows"])

    def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(json.dumps(message) + "\n")
        self._child.stdin.flush()
        answer: dict[str, Any] = json.loads(self._child.stdout.readline() or '{"error": "pypaimon died"}')
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def settle(self) -> None:
        return

    def close(self) -> None:
        assert self._child.stdin is not None
        self._child.stdin.close()
        self._child.wait()


PEERS: tuple[Any, ...] = (Lakelatch, DeltaRs, Pypaimon)


def usable_peers() -> list[Any]:
    """Those that can run here. The others are named on stderr."""
    return [peer for peer in PEERS if is_usable(peer.name)]


def is_usable(name: str) -> bool:
    """Whether a library is installed, or can be."""
    try:
        if name == "delta-rs":
            import_module("deltalake")
        if name == "pypaimon":
            from interop.pypaimon_env import interpreter

            interpreter()
    except (ImportError, OSError, subprocess.CalledProcessError) as error:
        print(f"{name} is left out: {error}", file=sys.stderr)
        return False
    return True
