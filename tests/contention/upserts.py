"""Many writers that upsert the same keys of one table at once, beside compactors, and what their table must hold in the end.

Each commit of a writer writes a tenth of all keys, drawn by its name and number, with its name and number as the values. So the
final table names, for each key, the commit that wrote it last.
"""

from __future__ import annotations

import math
import random
import time
import zlib
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakelatch as ll
from lakelatch.lab.judging.serial import closest_before, no_order

from .contended import BesideCompactors, Commit, Times

KEYS = 1000
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("writer", pa.string()), ("number", pa.int32())])


def keys_of(name: str, number: int) -> list[int]:
    """The keys that a commit writes."""
    return random.Random(zlib.crc32(f"{name} {number}".encode())).sample(range(KEYS), KEYS // 10)


def upsert_keys(table: ll.Table, name: str, number: int) -> ll.Receipt:
    """Write the keys of one commit, with its name and number."""
    keys = keys_of(name, number)
    rows = {"id": keys, "writer": [name] * len(keys), "number": pa.array([number] * len(keys), pa.int32())}
    return table.upsert(pa.table(rows), commit_user=name, identifier=number)


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
    kills: int
    replayed: int
    wall_s: float

    def __str__(self) -> str:
        return (
            f"{self.acknowledged} acknowledged upserts of {self.keys} keys, {len(self.lost)} lost, {self.doubled_keys} keys"
            f" twice, {len(self.errors)} errors; {self.kills} kills, {self.replayed} replayed, {self.retries} retries,"
            f" {self.resolved} resolved, {self.compactions} compactions, {self.wall_s:.1f} s"
        )


class Upserts(BesideCompactors):
    """Contention of writers on the same keys, with compactors beside them."""

    schema = SCHEMA

    def __init__(self, folder: Path, url: str, storage_options: dict[str, Any], **given: Any) -> None:
        super().__init__(folder, url, storage_options, compactors=2, primary_key=["id"], **given)
        self.orders = {name: replace(orders, write=upsert_keys) for name, orders in self.orders.items()}

    def beside_compactors(self, kills: int = 0, pause_s: float = 0.0) -> Ledger:
        """Run the writers to their ends, and the compactors as long as they run. Kill some of both.

        With kills, the writers end after the last one, however few commits they have made by then.
        """
        began = time.monotonic()
        with self.compacting():
            for name in self.names:
                self.start(name)
            self.open_gate()
            self.kill_at_random(kills, random.Random(14), pause_s)
            if kills:
                time.sleep(pause_s)  # what was killed last does its commit again
                (self.folder / "stop").touch()
            for name, process in self.running.items():
                process.join(600)
                assert process.exitcode == 0, self.orders[name].log.read_text()
        return self.ledger(time.monotonic() - began, kills)

    def ledger(self, wall_s: float, kills: int) -> Ledger:
        """Read the table like any reader, and compare it with the records of the writers.

        A writer that was killed has no record of its last commit. It may have landed, at any time.
        """
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
        times = {
            (line["writer"], line["number"]): (
                -math.inf if line["replayed"] else line["began"],  # the process that was killed had begun it
                line["began"] + line["seconds"],
            )
            for line in lines
        }
        acknowledged = len(times)
        times |= dict.fromkeys(self._unrecorded(table), (-math.inf, math.inf))
        return Ledger(
            acknowledged=acknowledged,
            keys=len(last),
            doubled_keys=sum(n - 1 for n in Counter(rows["id"].to_pylist()).values()),
            lost=contradictions(last, times),
            errors=self.errors(),
            retries=sum(line["retries"] for line in lines),
            resolved=sum(line["resolved"] for line in lines),
            compactions=sum(snapshot.commit_kind == "COMPACT" for snapshot in table.snapshots()),
            kills=kills,
            replayed=sum(line["replayed"] for line in lines),
            wall_s=wall_s,
        )

    def _unrecorded(self, table: ll.Table) -> list[Commit]:
        """The commits that landed although their writers have no record of them: at most the next one of each writer."""
        landed = {(s.commit_user, s.commit_identifier) for s in table.snapshots()}
        return [commit for name in self.names if (commit := (name, len(self.told(name)))) in landed]


def contradictions(last: dict[int, Commit], times: Times) -> list[str]:
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
    before = {commit: set(others) for commit, others in closest_before(times).items()}
    for commit in times:
        for key in keys_of(*commit):
            if last.get(key) in times and last[key] != commit:
                before[last[key]].add(commit)
    return found + no_order(before)
