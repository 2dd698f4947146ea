"""A streaming job, from table to table, whose processes are killed at random moments: each row arrives once (G3, H8).

Spark plans, reads, writes and commits in Python processes of its own; by night whole drivers are killed, too:
`LAKELATCH_NIGHTLY=1` kills 200 times.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import stream_child
from figures import NIGHTLY
from report import tell

import lakelatch as ll

pytestmark = [pytest.mark.spark, pytest.mark.classic, pytest.mark.slow, pytest.mark.timeout(7200)]
KILLS = 180 if NIGHTLY else 3
DRIVER_KILLS = 20 if NIGHTLY else 0


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


def kill_a_worker(chance: random.Random) -> bool:
    """Kill one of Spark's Python processes; the daemons that fork them, too."""
    workers = [pid for pid, command in descendants(os.getpid()) if "pyspark" in command and "java" not in command]
    if not workers:
        return False
    with suppress(ProcessLookupError):
        os.kill(chance.choice(workers), signal.SIGKILL)
    return True


class Copy:
    """A table that grows, its copy, and the job between them."""

    def __init__(self, folder: Path) -> None:
        self.source, self.target, self.checkpoint = (str(folder / name) for name in ("source", "target", "checkpoint"))
        schema = pa.schema([("k", pa.int64())])
        self.table = ll.create_table(self.source, schema)
        self.copied = ll.create_table(self.target, schema)
        self.keys = 0

    def grow(self, commits: int) -> None:
        for _ in range(commits):
            self.table.append(pa.table({"k": [self.keys, self.keys + 1]}))
            self.keys += 2

    def check(self) -> None:
        """Each row is in the copy once, and each batch has one snapshot."""
        assert sorted(self.copied.to_arrow()["k"].to_pylist()) == list(range(self.keys))
        identities = [(s.commit_user, s.commit_identifier) for s in self.copied.snapshots()]
        assert len(set(identities)) == len(identities)
        assert len({user for user, _ in identities}) == 1, "the query's id outlives its processes"
        assert self.copied.verify(data=True) == []


def test_rows_arrive_once_whatever_is_killed(spark: Any, tmp_path: Path) -> None:
    chance, job = random.Random(16), Copy(tmp_path)
    kills = failed = drivers = 0
    while drivers < DRIVER_KILLS:
        job.grow(3)
        command = [sys.executable, stream_child.__file__, job.source, job.target, job.checkpoint]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
        assert child.stdout is not None
        assert child.stdout.readline() == b"running\n"
        time.sleep(chance.uniform(0, 8))
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        drivers += 1
    while kills < KILLS:
        job.grow(2)
        query = stream_child.copy(spark, job.source, job.target, job.checkpoint, processingTime="0 seconds")
        while query.isActive and kills < KILLS:
            time.sleep(chance.uniform(0, 2.5))
            kills += kill_a_worker(chance)
        with suppress(Exception):  # the query's error, which says that a worker is gone
            query.stop()
        failed += query.exception() is not None
    for _ in range(99):
        end = stream_child.copy(spark, job.source, job.target, job.checkpoint, availableNow=True)
        end.awaitTermination()
        if job.copied.count() >= job.keys:
            break
    tell(f"streams: {kills} workers and {drivers} drivers killed, {failed} queries failed, {job.keys} rows once")
    job.check()
