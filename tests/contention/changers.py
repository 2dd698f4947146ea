"""Processes that merge, delete, update and append rows of one table at once, beside a compactor, and killed again and again.

What a commit changes follows from its writer's name and its number. So DuckDB can do all that the snapshots name, one after the
other in their order, and must end in the table's rows.

Owns: the changes, and the judge of their order. Must not know: stores, faults.
"""

from __future__ import annotations

import math
import time
import zlib
from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import duckdb
import pyarrow as pa

import lakelatch as ll
from lakelatch.lab.judging.serial import closest_before, no_order

from .contended import BesideCompactors, Commit, Times

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64())])
FIRST = 20
"""The rows that are there at the start, with the ids from 0 on."""


@dataclass(frozen=True)
class Change:
    """What one commit changes.

    Attributes:
        rows: the source of a merge, or the new rows.
        where: the condition of a delete or update.
        value: the new value of `n`, in SQL.
    """

    kind: str
    rows: tuple[tuple[int, int], ...] = ()
    where: str = ""
    value: str = ""

    @staticmethod
    def of(name: str, number: int) -> Change:
        """The change that a writer makes under a number: appenders append, the others merge, delete and update."""
        random = Random(zlib.crc32(f"{name} {number}".encode()))
        if name.startswith("appender"):
            return Change("append", tuple((random.randint(0, 30), random.randint(1, 9)) for _ in range(3)))
        kind = random.choice(("merge", "merge", "merge", "delete", "update"))
        if kind == "merge":
            return Change(kind, tuple((i, random.randint(1, 9)) for i in random.sample(range(30), 5)))
        where = f"n % 5 = {random.randint(0, 4)} AND id % 3 = {random.randint(0, 2)}"
        return Change(kind, where=where, value=f"(n * 7 + {random.randint(1, 9)}) % 1009")

    def make(self, table: ll.Table, **identity: Any) -> ll.Receipt:
        """Change the table."""
        if self.kind == "delete":
            return table.delete(where=self.where, **identity)
        if self.kind == "update":
            return table.update(where=self.where, set={"n": self.value}, **identity)
        source = pa.table({"id": [i for i, _ in self.rows], "n": [n for _, n in self.rows]}, SCHEMA)
        if self.kind == "append":
            return table.append(source, **identity)
        merge = table.merge(source, on=["id"], **identity).when_matched_update({"n": "(t.n * 3 + s.n) % 1009"})
        return merge.when_not_matched_insert_all().execute()

    @property
    def sql(self) -> str:
        """The same for DuckDB, on table `t`."""
        values = ", ".join(map(str, self.rows))
        if self.kind == "merge":
            return (
                f"MERGE INTO t USING (SELECT * FROM (VALUES {values}) AS v(id, n)) AS s ON t.id = s.id WHEN MATCHED THEN"
                " UPDATE SET n = (t.n * 3 + s.n) % 1009 WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.n)"
            )
        return {
            "append": f"INSERT INTO t VALUES {values}",
            "delete": f"DELETE FROM t WHERE {self.where}",
            "update": f"UPDATE t SET n = {self.value} WHERE {self.where}",
        }[self.kind]


def change_rows(table: ll.Table, name: str, number: int) -> ll.Receipt:
    """Make the change of one commit."""
    return Change.of(name, number).make(table, commit_user=name, identifier=number)


@dataclass(frozen=True)
class Verdict:
    """What the writers were told, compared with the snapshots and the rows of the table."""

    acknowledged: int
    lost: list[Commit]
    doubled: list[Commit]
    unasked: list[Commit]
    wrong: list[str]
    errors: list[str]
    kills: int
    resolved: int
    replayed: int
    conflicts: int
    compactions: int
    rows: int
    median_s: float
    slowest_s: float
    wall_s: float

    def __str__(self) -> str:
        return (
            f"{self.acknowledged} acknowledged changes, {len(self.lost)} lost, {len(self.doubled)} doubled, {len(self.wrong)}"
            f" contradictions, {len(self.errors)} errors; {self.kills} kills, {self.conflicts} races lost, {self.resolved}"
            f" resolved, {self.replayed} replayed, {self.compactions} compactions, {self.rows} rows at the end; median wait"
            f" {self.median_s * 1000:.0f} ms, slowest {self.slowest_s * 1000:.0f} ms, {self.wall_s:.1f} s"
        )


class Changers(BesideCompactors):
    """Mergers, appenders and compactors of one table."""

    schema = SCHEMA

    def __init__(
        self, folder: Path, url: str, storage_options: dict[str, Any], *, each: int, commits: int, **given: Any
    ) -> None:
        super().__init__(folder, url, storage_options, compactors=1, writers=2 * each, commits=commits, **given)
        roles = [f"{role}-{i}" for i in range(each) for role in ("merger", "appender")]
        settings = dict(zip(roles, self.orders.values(), strict=True))
        self.names, self.kills = roles, 0
        self.orders = {name: replace(orders, name=name, write=change_rows) for name, orders in settings.items()}
        table = ll.open_table(url, storage_options=storage_options)
        table.append(pa.table({"id": range(FIRST), "n": [1] * FIRST}, SCHEMA))

    def until_done(self, kills: int, chance: Random, pause_s: float) -> Verdict:
        """Run all processes, kill some of them, and judge what is left.

        With kills, the writers end after the last one, however few commits they have made by then.
        """
        began = time.monotonic()
        with self.compacting():
            for name in self.names:
                self.start(name)
            self.open_gate()
            self.kill_at_random(kills, chance, pause_s)
            self.kills = kills
            if kills:
                time.sleep(pause_s)  # what was killed last does its commit again
                (self.folder / "stop").touch()
            for name, process in self.running.items():
                process.join(600)
                assert process.exitcode == 0, self.orders[name].log.read_text()
        return self.verdict(time.monotonic() - began)

    def verdict(self, wall_s: float) -> Verdict:
        """Read the table like any reader, and do what its snapshots name in DuckDB."""
        table = ll.open_table(self.url, storage_options=self.storage_options)
        lines = {(name, line["number"]): line for name in self.names for line in self.told(name)}
        times = {
            commit: (-math.inf if line["replayed"] else line["began"], line["began"] + line["seconds"])
            for commit, line in lines.items()  # a replayed commit was begun by the process that was killed
        }
        snapshots = table.snapshots()
        order = [(s.commit_user, s.commit_identifier) for s in snapshots if s.commit_user in self.orders]
        rows = table.to_arrow()
        return Verdict(
            acknowledged=len(times),
            lost=sorted(set(times) - set(order)),
            doubled=[commit for commit, count in Counter(order).items() if count > 1],
            unasked=[(name, n) for name, n in order if (name, n) not in times and n != len(self.told(name))],
            wrong=contradictions(order, times, list(zip(rows["id"].to_pylist(), rows["n"].to_pylist(), strict=True))),
            errors=[*self.errors(), *map(str, table.verify("all", data="deep"))],
            kills=self.kills,
            resolved=sum(line["resolved"] for line in lines.values()),
            replayed=sum(line["replayed"] for line in lines.values()),
            conflicts=sum(line["retries"] for line in lines.values()),
            compactions=sum(s.commit_kind == "COMPACT" for s in snapshots),
            rows=rows.num_rows,
            median_s=median(line["seconds"] for line in lines.values()),
            slowest_s=max(line["seconds"] for line in lines.values()),
            wall_s=wall_s,
        )


def contradictions(order: list[Commit], times: Times, rows: list[tuple[int, int]]) -> list[str]:
    """Why the order of the snapshots is no serial order that leaves these rows; empty if it is one.

    Args:
        order: the commits as the snapshots name them.
        times: when each acknowledged commit began and ended. None may come before one that had ended when it began.
        rows: the rows of the table.
    """
    landed = closest_before({commit: both for commit, both in times.items() if commit in order})
    before = {commit: set(others) for commit, others in landed.items()}
    for earlier, later in pairwise(order):
        before.setdefault(later, set()).add(earlier)
    peer = duckdb.connect(config={"threads": 1})
    peer.execute("CREATE TABLE t (id BIGINT, n BIGINT)")
    peer.execute(f"INSERT INTO t SELECT range, 1 FROM range({FIRST})")
    for commit in order:
        peer.execute(Change.of(*commit).sql)
    there, wanted = Counter(rows), Counter(peer.execute("SELECT id, n FROM t").fetchall())
    found = no_order(before)
    found += [f"row {row} is there {there[row] - wanted[row]} times too often" for row in there - wanted]
    return found + [f"row {row} is missing {wanted[row] - there[row]} times" for row in wanted - there]
