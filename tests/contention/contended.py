"""Runs many writer processes on one table at once, and compares their records with the table."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, TypeAlias

import pyarrow as pa

import lakelatch as ll
from lakelatch.coordinator.history.timeline import contiguous_runs

from . import writer

# Each writer is a process, forked from a small server that has already done the imports, so it starts in milliseconds.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["contention.writer", "lakelatch.table.create", "pandas", "s3fs", "pytest"])
SCHEMA = pa.schema([("writer", pa.string()), ("number", pa.int32())])
Commit: TypeAlias = "tuple[str, int]"
"""A writer's name and the number of its commit."""
Times: TypeAlias = "Mapping[Commit, tuple[float, float]]"
"""When each acknowledged commit began and ended, by one clock for all processes."""


@dataclass(frozen=True)
class Books:
    """The commits that the writers recorded, compared with the rows of the table."""

    acknowledged: int
    visible: int
    lost: int
    doubled: int
    errors: list[str]
    waits_s: list[float]
    retries: int
    resolved: int
    replayed: int
    wall_s: float

    def __str__(self) -> str:
        return (
            f"{self.acknowledged} acknowledged, {self.visible} visible, {self.lost} lost, {self.doubled} doubled,"
            f" {len(self.errors)} errors; {self.retries} retries, {self.resolved} resolved, {self.replayed} replayed;"
            f" median wait {median(self.waits_s) * 1000:.0f} ms, slowest {max(self.waits_s) * 1000:.0f} ms, {self.wall_s:.1f} s"
        )


class Contention:
    """Writers of one table.

    Args:
        url: the URL of a table that does not exist yet.
        through: the storage options of the writers, such as those of a faulty proxy; the audit uses `storage_options`.
        way: the table's URL for the writers if it differs, such as through a proxy of HDFS.
        journals: whether each writer keeps a journal in a file.
        table: how the table is made, such as its primary key and options.
    """

    schema = SCHEMA

    def __init__(
        self,
        folder: Path,
        url: str,
        storage_options: dict[str, Any],
        *,
        writers: int,
        commits: int,
        through: dict[str, Any] | None = None,
        way: str | None = None,
        pause_s: float = 0.0,
        journals: bool = False,
        **table: Any,
    ) -> None:
        self.folder, self.url, self.storage_options = folder, url, storage_options
        self.names = [f"writer-{i}" for i in range(writers)]
        self.commits = commits
        ll.create_table(url, self.schema, storage_options=storage_options, **table)
        given = storage_options if through is None else through
        self.orders = {
            name: writer.Orders(
                name, folder, way or url, given, commits, pause_s, folder / f"{name}.journal" if journals else None
            )
            for name in self.names
        }
        self.running: dict[str, BaseProcess] = {}

    def start(self, name: str) -> None:
        self.running[name] = PROCESSES.Process(target=writer.run, args=(self.orders[name],))
        self.running[name].start()

    def open_gate(self) -> None:
        """Let all writers start at once, as soon as the last one is ready."""
        deadline = time.monotonic() + 120
        while not all(orders.ready.exists() for orders in self.orders.values()):
            dead = [name for name, process in self.running.items() if process.exitcode not in (None, 0)]
            assert not dead, self.orders[dead[0]].log.read_text()
            assert time.monotonic() < deadline, "writers did not get ready"
            time.sleep(0.01)
        (self.folder / "gate").touch()

    def told(self, name: str) -> list[dict[str, Any]]:
        return writer.told(self.orders[name].record)

    def kill(self, name: str, after_commits: int = 0) -> None:
        """Send SIGKILL once the writer has recorded `after_commits` commits."""
        process = self.running[name]
        while len(self.told(name)) < after_commits and process.is_alive():
            time.sleep(0.002)
        process.kill()
        process.join()

    def run(self, timeout_s: float = 600) -> Books:
        began = time.monotonic()
        for name in self.names:
            self.start(name)
        self.open_gate()
        return self.finish(began, timeout_s)

    def finish(self, began: float, timeout_s: float = 600) -> Books:
        for name, process in self.running.items():
            process.join(timeout_s)
            assert process.exitcode in (0, -signal.SIGKILL), self.orders[name].log.read_text()
        return self.audit(time.monotonic() - began)

    def compactions(self, table: ll.Table) -> int:
        """How many snapshots come from compactions instead of writers."""
        return 0

    def audit(self, wall_s: float) -> Books:
        """Read the table like any reader, and compare it with the records of the writers."""
        table = ll.open_table(self.url, storage_options=self.storage_options)
        rows = table.to_arrow()
        seen = Counter(zip(rows["writer"].to_pylist(), rows["number"].to_pylist(), strict=True))
        lines = [line | {"writer": name} for name in self.names for line in self.told(name)]
        acknowledged = {(line["writer"], line["number"]) for line in lines}
        logs = [orders.log.read_text() for orders in self.orders.values()]
        ids = table.timeline.snapshot_ids()
        assert len(contiguous_runs(ids)) <= 1, "ids have a gap"
        assert len(ids) - self.compactions(table) == len(seen), "every other snapshot is one commit"
        return Books(
            acknowledged=len(acknowledged),
            visible=len(seen),
            lost=len(acknowledged - set(seen)),
            doubled=sum(n - 1 for n in seen.values()),
            errors=[log for log in logs if "Error" in log or "Traceback" in log],
            waits_s=[line["seconds"] for line in lines],
            retries=sum(line["retries"] for line in lines),
            resolved=sum(line["resolved"] for line in lines),
            replayed=sum(line["replayed"] for line in lines),
            wall_s=wall_s,
        )


class BesideCompactors(Contention):
    """Writers of one table, and processes that compact it as long as they run."""

    def __init__(
        self, folder: Path, url: str, storage_options: dict[str, Any], *, compactors: int, **given: Any
    ) -> None:
        super().__init__(folder, url, storage_options, **given)
        self.stop = folder / "stop-compacting"
        self.compactors: dict[Path, BaseProcess] = {}
        self.compactor_logs = [folder / f"compactor-{i}.log" for i in range(compactors)]

    @contextmanager
    def compacting(self) -> Iterator[None]:
        """The compactors run within the block."""
        for log in self.compactor_logs:
            self.start_compactor(log)
        try:
            yield
        finally:
            self.stop.touch()
            for process in self.compactors.values():
                process.join(120)

    def start_compactor(self, log: Path) -> None:
        given = self.orders[self.names[0]]
        order = (self.stop, given.url, given.storage_options, log)
        self.compactors[log] = PROCESSES.Process(target=writer.compact_until, args=order, daemon=True)
        self.compactors[log].start()

    def kill_at_random(self, times: int, chance: Random, pause_s: float) -> None:
        """Kill one of the processes after up to `pause_s` seconds and start it again, again and again.

        Writers must have more to do than they can do in this time: let them end by `folder/stop`. There are at most two kills
        for each commit: on a busy machine, processes would be killed before they have come to anything.
        """
        for number in range(times):
            time.sleep(chance.uniform(0, pause_s))
            late = time.monotonic() + 60
            while sum(len(self.told(name)) for name in self.names) < number // 2 and time.monotonic() < late:
                time.sleep(0.05)
            victim = chance.choice([*self.names, *self.compactor_logs])
            process = self.compactors[victim] if isinstance(victim, Path) else self.running[victim]
            assert process.is_alive(), self.errors()
            process.kill()
            process.join()
            self.start_compactor(victim) if isinstance(victim, Path) else self.start(victim)

    def errors(self) -> list[str]:
        """What writers and compactors said that had an error."""
        logs = [path for path in (*(o.log for o in self.orders.values()), *self.compactor_logs) if path.exists()]
        return [log for log in map(Path.read_text, logs) if "Error" in log or "Traceback" in log]
