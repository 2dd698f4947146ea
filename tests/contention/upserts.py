"""Many writers that upsert the same keys of one table at once, beside compactors, and what their table must hold in the end.

Each commit of a writer writes a tenth of all keys, drawn by its name and number, with its name and number as the values. So the
final table names, for each key, the commit that wrote it last.
"""

from __future__ import annotations

import graphlib
import random
import time
import zlib
from collections import Counter
from dataclasses import dataclass, replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

import lakelatch as ll

from .contended import PROCESSES, Contention

KEYS = 1000
COMPACTORS = 2
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("writer", pa.string()), ("number", pa.int32())])
Commit: TypeAlias = "tuple[str, int]"
"""A writer's name and the number of its commit."""


def keys_of(name: str, number: int) -> list[int]:
    """The keys that a commit writes."""
    return random.Random(zlib.crc32(f"{name} {number}".encode())).sample(range(KEYS), KEYS // 10)


def upsert_keys(table: ll.Table, name: str, number: int) -> ll.Receipt:
    """Write the keys of one commit, with its name and number."""
    keys = keys_of(name, number)
    rows = {"id": keys, "writer": [name] * len(keys), "number": pa.array([number] * len(keys), pa.int32())}
    return table.upsert(pa.table(rows), commit_user=name, identifier=number)


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


@dataclass(frozen=True)
class Ledger:
    """What the writers were told, compared with the rows of the table."""

    acknowledged: int
    keys: int
    doubled_keys: int
    lost: list[str]
    errors: list[str]
    retries: int
    resolved: int
    compactions: int
    wall_s: float

    def __str__(self) -> str:
        return (
            f"{self.acknowledged} acknowledged upserts of {self.keys} keys, {len(self.lost)} lost, {self.doubled_keys} keys"
            f" twice, {len(self.errors)} errors; {self.retries} retries, {self.resolved} resolved, {self.compactions}"
            f" compactions, {self.wall_s:.1f} s"
        )


class Upserts(Contention):
    """Contention of writers on the same keys, with compactors beside them."""

    schema = SCHEMA

    def __init__(self, folder: Path, url: str, storage_options: dict[str, Any], **given: Any) -> None:
        options = given.pop("options")
        super().__init__(folder, url, storage_options, primary_key=["id"], options=options, **given)
        self.orders = {name: replace(orders, write=upsert_keys) for name, orders in self.orders.items()}
        self.stop, self.logs = folder / "stop-compacting", [folder / f"compactor-{i}.log" for i in range(COMPACTORS)]

    def beside_compactors(self) -> Ledger:
        """Run the writers to their ends, and the compactors as long as they run."""
        began = time.monotonic()
        compactors = [self._compactor(log) for log in self.logs]
        try:
            for name in self.names:
                self.start(name)
            self.open_gate()
            for name, process in self.running.items():
                process.join(600)
                assert process.exitcode == 0, self.orders[name].log.read_text()
        finally:
            self.stop.touch()
            for process in compactors:
                process.join(120)
        return self.ledger(time.monotonic() - began)

    def _compactor(self, log: Path) -> BaseProcess:
        given = self.orders[self.names[0]]
        process = PROCESSES.Process(
            target=compact_until, args=(self.stop, given.url, given.storage_options, log), daemon=True
        )
        process.start()
        return process

    def ledger(self, wall_s: float) -> Ledger:
        """Read the table like any reader, and compare it with the records of the writers."""
        table = ll.open_table(self.url, storage_options=self.storage_options)
        rows = table.to_arrow()
        last = dict(
            zip(
                rows["id"].to_pylist(),
                zip(rows["writer"].to_pylist(), rows["number"].to_pylist(), strict=True),
                strict=True,
            )
        )
        lines = [line | {"writer": name} for name in self.names for line in self.told(name)]
        times = {(line["writer"], line["number"]): (line["began"], line["began"] + line["seconds"]) for line in lines}
        logs = [path.read_text() for path in (*(o.log for o in self.orders.values()), *self.logs) if path.exists()]
        return Ledger(
            acknowledged=len(times),
            keys=len(last),
            doubled_keys=sum(n - 1 for n in Counter(rows["id"].to_pylist()).values()),
            lost=contradictions(last, times),
            errors=[log for log in logs if "Error" in log or "Traceback" in log],
            retries=sum(line["retries"] for line in lines),
            resolved=sum(line["resolved"] for line in lines),
            compactions=sum(snapshot.commit_kind == "COMPACT" for snapshot in table.snapshots()),
            wall_s=wall_s,
        )


def contradictions(last: dict[int, Commit], times: dict[Commit, tuple[float, float]]) -> list[str]:
    """Why no serial order of the commits leaves these rows; empty if there is one.

    The order must respect which commits had ended before others began.

    Args:
        last: the commit that each key's row names.
        times: when each acknowledged commit began and ended.
    """
    wanted = {key for commit in times for key in keys_of(*commit)}
    found = [f"key {key} has no row" for key in sorted(wanted - set(last))]
    found += [
        f"key {key} names {commit}, which is not acknowledged" for key, commit in last.items() if commit not in times
    ]
    before: dict[Commit, set[Commit]] = {commit: set() for commit in times}
    for commit, (began, _) in times.items():
        before[commit] |= {other for other, (_, ended) in times.items() if ended < began}
        for key in keys_of(*commit):
            if last.get(key) in times and last[key] != commit:
                before[last[key]].add(commit)
    try:
        tuple(graphlib.TopologicalSorter(before).static_order())
    except graphlib.CycleError as cycle:
        found.append(f"no order of the commits leaves these rows: {cycle.args[1]}")
    return found
