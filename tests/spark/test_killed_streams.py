"""Streaming jobs, from table to table to table, whose processes are killed at random moments: each row arrives once (G3, H8).

Spark plans, reads, writes and commits in Python processes of its own. One driver runs all queries of the chain, so that a kill
costs a batch, and the death of the driver one start. By night: ten tables and 200 kills; by hand, `LAKELATCH_KILLS=20`.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
import stream_child
from figures import NIGHTLY
from report import tell

import lakelatch as ll

pytestmark = [pytest.mark.classic, pytest.mark.slow, pytest.mark.timeout(7200)]
KILLS = int(os.environ.get("LAKELATCH_KILLS", "200" if NIGHTLY else "3"))
LINKS = 9 if NIGHTLY else 3
SCHEMA = pa.schema([("k", pa.int64()), ("text", pa.string())])


def descendants(pid: int) -> Iterator[tuple[int, str]]:
    """The processes below one, with their command lines."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, IndexError, ValueError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    todo = list(children.get(pid, []))
    while todo:
        found = todo.pop()
        todo += children.get(found, [])
        with suppress(OSError):
            yield found, (Path("/proc") / str(found) / "cmdline").read_text().replace("\0", " ")


class Job:
    """A chain of tables, and the driver of its queries, which is killed and started again."""

    def __init__(self, folder: Path, chance: Random) -> None:
        self.folder, self.chance, self.keys, self.moves = folder, chance, 0, 0
        self.chain = stream_child.Chain(folder, folder / "checkpoints", LINKS)
        self.tables = [ll.create_table(url, SCHEMA) for url in self.chain.urls]
        for table in self.tables:  # so that an expiry leaves the readers all rows, however late they start
            table.set_consumer(stream_child.CONSUMER, "latest")
        self.kills: Counter[str] = Counter()
        self.errors = folder / "queries.log"

    def start(self) -> None:
        """Start the driver; its queries go on, or take another machine's copy of the checkpoints."""
        if self.kills["driver"] % 4 == 3 and self.chain.checkpoints.exists():
            self.moves += 1
            there = self.folder / f"checkpoints-{self.moves}"
            shutil.copytree(self.chain.checkpoints, there)
            shutil.rmtree(self.chain.checkpoints)
            self.chain.checkpoints = there
        command = [sys.executable, stream_child.__file__, str(self.folder), str(self.chain.checkpoints), str(LINKS)]
        self.starts = self.running_lines()
        with self.errors.open("ab") as log:
            self.driver = subprocess.Popen(command, stdout=log, stderr=subprocess.DEVNULL, start_new_session=True)

    def running_lines(self) -> int:
        """How many drivers have said that all their queries run."""
        return self.errors.read_text().count("running") if self.errors.exists() else 0

    def grow(self) -> None:
        """A commit of new rows, and now and then a compaction or an expiry beside the readers."""
        rows = range(self.keys, self.keys + self.chance.randint(1, 4))
        self.keys = rows.stop
        self.tables[0].append(pa.table({"k": list(rows), "text": [f"row {k}" for k in rows]}, SCHEMA))
        if self.chance.random() < 0.1:
            with suppress(ll.CommitConflict):
                self.chance.choice(self.tables).compact()
        if self.chance.random() < 0.1:
            self.chance.choice(self.tables).expire(retain_max=1, retain_min=1)

    def kill(self) -> None:
        """Kill one of Spark's Python processes, and each tenth time the driver with its JVM, from the second kill on."""
        workers = [pid for pid, line in descendants(self.driver.pid) if "pyspark" in line and "java" not in line]
        if not workers or sum(self.kills.values()) % 10 == 1:
            os.killpg(self.driver.pid, signal.SIGKILL)
            self.driver.wait()
            self.kills["driver"] += 1
            self.start()
            return
        with suppress(ProcessLookupError):
            os.kill(self.chance.choice(workers), signal.SIGKILL)
            self.kills["worker"] += 1

    def finish(self, timeout_s: float = 900) -> None:
        """No more rows come, and nothing is killed any more."""
        (self.folder / "finish").touch()
        try:
            assert self.driver.wait(timeout_s) == 0, self.errors.read_text()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(self.driver.pid, signal.SIGKILL)

    def check(self) -> None:
        """All tables have the rows of the first one, and each batch has one snapshot."""
        wanted = sorted(self.tables[0].to_arrow().to_pylist(), key=repr)
        assert len(wanted) == self.keys
        for table in self.tables[1:]:
            assert sorted(table.to_arrow().to_pylist(), key=repr) == wanted, table.url
            made = [(s.commit_user, s.commit_identifier) for s in table.snapshots() if s.commit_kind != "COMPACT"]
            assert len(set(made)) == len(made)
            assert len({user for user, _ in made}) <= 1, "the query's id outlives its processes"
        assert [str(f) for table in self.tables for f in table.verify("all", data="deep")] == []


def test_rows_arrive_once_whatever_is_killed(tmp_path: Path) -> None:
    job, began = Job(tmp_path, Random(16)), time.monotonic()
    job.start()
    while sum(job.kills.values()) < KILLS:
        time.sleep(job.chance.uniform(0, 2))
        if job.running_lines() > job.starts:
            job.grow()
            job.kill()
        elif job.chance.random() < 0.01:  # few kills meet queries that still start
            job.kill()
    job.finish()
    job.check()
    failed = job.errors.read_text().count("failed:")
    tell(
        f"streams: {LINKS + 1} tables in a chain, {job.kills['worker']} workers and {job.kills['driver']} drivers killed,"
        f" {job.moves} moves of the checkpoints, {failed} queries failed, {job.keys} rows once in each table,"
        f" {time.monotonic() - began:.0f} s"
    )
