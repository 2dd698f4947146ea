"""One writer of a contention test: a process that writes unique tokens and records each acknowledged commit.

The record has one JSON line per acknowledged commit, written and synced before the next commit begins, so it survives a
SIGKILL. A writer that is restarted with the same settings continues where the record ends, with the same identities. So
its last commit is replayed if it had landed without being recorded (G3).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakelatch as ll


def append_token(table: ll.Table, name: str, number: int) -> ll.Receipt:
    """Append one row that no other commit has."""
    rows = pa.table({"writer": [name], "number": pa.array([number], pa.int32())})
    return table.append(rows, commit_user=name, identifier=number)


@dataclass(frozen=True)
class Orders:
    """The settings of a writer.

    Attributes:
        name: the commit user, and the name of the writer's files in `folder`.
        commits: the writer ends after this many commits, or when `folder/stop` exists.
        journal: the file for the events of its commits; None means no journal.
        write: makes the commit of a number, exactly once.
    """

    name: str
    folder: Path
    url: str
    storage_options: dict[str, Any] = field(repr=False)
    commits: int
    pause_s: float = 0.0
    journal: Path | None = None
    write: Callable[[ll.Table, str, int], ll.Receipt] = append_token

    @property
    def record(self) -> Path:
        return self.folder / f"{self.name}.jsonl"

    @property
    def ready(self) -> Path:
        return self.folder / f"{self.name}.ready"

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"


def record(path: Path, line: dict[str, Any]) -> None:
    with path.open("a") as out:
        out.write(json.dumps(line) + "\n")
        out.flush()
        os.fsync(out.fileno())


def told(path: Path) -> list[dict[str, Any]]:
    """The complete lines of a record."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]


def commit(table: ll.Table, orders: Orders, number: int) -> tuple[ll.Receipt, bool]:
    """Write one token exactly once. An unknown outcome is resolved; if the commit did not land, it is tried again."""
    resolved = False
    while True:
        try:
            return orders.write(table, orders.name, number), resolved
        except ll.OutcomeUnknown as unknown:
            resolved = True
            with suppress(ll.CommitConflict):
                return unknown.resolve(timeout=60), resolved


def compact_until(stop: Path, url: str, storage_options: dict[str, Any], log: Path) -> None:
    """The main function of a compactor, which compacts the whole table again and again."""
    table, done = ll.open_table(url, storage_options=storage_options), 0
    while not stop.exists():
        try:
            table.compact(full=done % 2 == 0)
            done += 1
        except (ll.CommitConflict, ll.RetriesExhausted) as conflict:
            log.write_text(f"given up: {conflict}")
        except Exception as error:
            log.write_text(f"Error: {error!r}")
            raise


def run(orders: Orders) -> None:
    """The main function of the process."""
    log = os.open(orders.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    journal = None if orders.journal is None else str(orders.journal)
    table = ll.open_table(orders.url, storage_options=orders.storage_options, journal=journal)
    orders.ready.touch()
    while not (orders.folder / "gate").exists():
        time.sleep(0.005)
    for number in range(len(told(orders.record)), orders.commits):
        if (orders.folder / "stop").exists():
            return
        began = time.monotonic()
        receipt, resolved = commit(table, orders, number)
        ended = time.monotonic()
        line = {
            "number": number,
            "snapshot": receipt.snapshot_id,
            "began": began,
            "seconds": ended - began,
            "retries": receipt.retries,
            "requests": receipt.requests,
            "replayed": receipt.replayed,
            "resolved": resolved,
        }
        record(orders.record, line)
        if orders.pause_s:
            time.sleep(orders.pause_s)
