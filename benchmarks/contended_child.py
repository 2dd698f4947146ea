"""One contended writer of one library, in that library's own environment.

`contended_child.py LIBRARY URL OPTIONS TABLE TASK`: TABLE is one of lakelatch's kinds of table (`TABLES`); the other libraries
make a plain one. TASK is `create`, `read`, or a writer's `NAME:COMMITS`. A writer opens the table and makes its rows (for which
pyarrow loads pandas, whatever the library), says so, waits for a line on stdin and appends one row per commit, as a plain user
of the library would: with its defaults, and what raises is no commit. It says one JSON line per commit as soon as it knows.
`read` prints the rows that are there. Must not import the checkout's other files: pypaimon's environment has none of what they
need.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import pyarrow as pa

SCHEMA = pa.schema([("writer", pa.string()), ("number", pa.int64())])


KEY = ["writer", "number"]
TABLES: dict[str, tuple[list[str], dict[str, str]]] = {
    "append": ([], {}),
    "bucketed": ([], {"bucket": "4", "bucket-key": "number"}),
    "upsert": (KEY, {"bucket": "4"}),
    "upsert-vectors": (KEY, {"bucket": "4", "deletion-vectors.enabled": "true"}),
    "rows": ([], {"row-tracking.enabled": "true"}),
}
"""Primary key and options by kind of table."""


class Lakelatch:
    """This library."""

    group = "off"

    def __init__(self, url: str, options: dict[str, Any], kind: str) -> None:
        self._url, self._options, self._kind = url, options, kind

    def create(self) -> None:
        import lakelatch as ll

        keys, about = TABLES[self._kind]
        about = {**about, "commit.group": self.group}
        ll.create_table(self._url, SCHEMA, primary_key=keys, options=about, storage_options=self._options)

    def open(self) -> None:
        import lakelatch as ll

        self._table = ll.open_table(self._url, storage_options=self._options)

    def append(self, rows: pa.Table) -> None:
        (self._table.upsert if self._kind.startswith("upsert") else self._table.append)(rows)

    def read(self) -> pa.Table:
        self.open()
        return self._table.to_arrow()


class LakelatchRiding(Lakelatch):
    """The same, with a table whose commits ride with each other."""

    group = "auto"


class DeltaRs:
    """delta-rs: conditional PUT, as it does by default on S3."""

    def __init__(self, url: str, options: dict[str, Any], kind: str) -> None:
        self._url, self._options = url, options

    def create(self) -> None:
        from deltalake import DeltaTable

        DeltaTable.create(self._url, SCHEMA, storage_options=self._options)

    def open(self) -> None:
        from deltalake import DeltaTable

        self._table = DeltaTable(self._url, storage_options=self._options)

    def append(self, rows: pa.Table) -> None:
        from deltalake import write_deltalake

        write_deltalake(self._table, rows, mode="append")

    def read(self) -> pa.Table:
        self.open()
        return self._table.to_pyarrow_table()


class Pypaimon:
    """pypaimon, Apache Paimon's Python library."""

    def __init__(self, url: str, options: dict[str, Any], kind: str) -> None:
        from pypaimon import CatalogFactory

        self._catalog = CatalogFactory.create({**options, "warehouse": url})

    def create(self) -> None:
        from pypaimon import Schema

        self._catalog.create_database("bench", True)
        self._catalog.create_table("bench.t", Schema.from_pyarrow_schema(SCHEMA), False)

    def open(self) -> None:
        self._table = self._catalog.get_table("bench.t")

    def append(self, rows: pa.Table) -> None:
        builder = self._table.new_batch_write_builder()
        write, commit = builder.new_write(), builder.new_commit()
        try:
            write.write_arrow(rows)
            commit.commit(write.prepare_commit())
        finally:
            write.close()
            commit.close()

    def read(self) -> pa.Table:
        self.open()
        builder = self._table.new_read_builder()
        return builder.new_read().to_arrow(builder.new_scan().plan().splits())


LIBRARIES = {"lakelatch": Lakelatch, "lakelatch-riding": LakelatchRiding, "delta-rs": DeltaRs, "pypaimon": Pypaimon}


def say(**line: Any) -> None:
    print(json.dumps(line), flush=True)


def write(library: Any, name: str, commits: int) -> None:
    library.open()
    made = [pa.table({"writer": [name], "number": [number]}, schema=SCHEMA) for number in range(commits)]
    say(ready=True)
    sys.stdin.readline()
    for number, rows in enumerate(made):
        began = time.monotonic()
        try:
            library.append(rows)
            error = ""
        except Exception as failure:  # whatever it is, its user was not told of a commit
            error = f"{type(failure).__name__}: {str(failure)[:200]}"
        say(writer=name, number=number, seconds=time.monotonic() - began, error=error)


def main() -> None:
    name, url, options, kind, task = sys.argv[1:]
    library = LIBRARIES[name](url, json.loads(options), kind)
    match task:
        case "create":
            library.create()
        case "read":
            say(rows=library.read().to_pylist())
        case _:
            writer, _, commits = task.partition(":")
            write(library, writer, int(commits))
    sys.stdout.flush()
    os._exit(0)  # everything is told: threads of delta-rs's at times abort a process that ends in order


if __name__ == "__main__":
    main()
