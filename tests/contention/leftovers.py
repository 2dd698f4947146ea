"""Processes that change the same rows at once, and the data files that nothing reaches when all have ended."""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakelatch as ll
from lakelatch.backends.local import LocalStore

SCHEMA = pa.schema(
    [pa.field("day", pa.int32(), nullable=False), pa.field("k", pa.int64(), nullable=False), ("v", pa.string())]
)
KEYS = 2_000
Job = Callable[[str, int, int], None]


def rows(keys: list[int], value: str) -> pa.Table:
    return pa.table({"day": [0] * len(keys), "k": keys, "v": [value] * len(keys)}, SCHEMA)


def upsert(url: str, job: int, commits: int) -> None:
    """Upserts of the same keys; each may be followed by a compaction."""
    table, dice = ll.open_table(url), random.Random(job)
    for number in range(commits):
        table.upsert(rows(sorted(dice.sample(range(KEYS), 20)), f"{job}"), commit_user=f"u{job}", identifier=number)
    table.settle()


def merge(url: str, job: int, commits: int) -> None:
    """MERGEs on one partition. One that gives up tells its caller, and is not made again."""
    table = ll.open_table(url)
    for number in range(commits):
        source = rows([number * 7 + job, KEYS + number * 7 + job], f"{job}")
        merged = table.merge(source, on=["day", "k"]).when_matched_update_all().when_not_matched_insert_all()
        try:
            merged.execute()
        except ll.CommitConflict:
            continue
    table.settle()


def run(job: Job, url: str, jobs: int, commits: int) -> None:
    """Let so many processes do a job at once."""
    spawned = multiprocessing.get_context("spawn")
    running = [spawned.Process(target=job, args=(url, n, commits)) for n in range(jobs)]
    for process in running:
        process.start()
    for process in running:
        process.join()
        assert process.exitcode == 0


def noted(notes: str, url: str, job: int, commits: int) -> None:
    """Upserts of a process that notes the name of each file before it writes it."""
    with open(Path(notes) / f"{job}-{os.getpid()}", "a", buffering=1) as file:
        for name in ("put", "open_output"):
            write = getattr(LocalStore, name)

            def first(store: LocalStore, key: str, *data: bytes, write: Any = write) -> Any:
                file.write(f"{key.rpartition('/')[2]}\n")
                return write(store, key, *data)

            setattr(LocalStore, name, first)
        upsert(url, job, commits)


def run_with_kills(notes: Path, url: str, jobs: int, commits: int, kills: int) -> set[str]:
    """So many processes commit to their end, beside one that is killed again and again. Returns what the killed have written."""
    spawned, dice = multiprocessing.get_context("spawn"), random.Random(jobs)
    running = [spawned.Process(target=noted, args=(str(notes), url, n, commits)) for n in range(jobs)]
    for process in running:
        process.start()
    for number in range(kills):
        victim = spawned.Process(target=noted, args=(str(notes), url, jobs + number, 1_000_000))
        victim.start()
        while not any(file.stat().st_size for file in notes.glob(f"{jobs + number}-*")):
            time.sleep(0.01)
        time.sleep(dice.uniform(0.0, 0.4))
        victim.kill()
        victim.join()
    for process in running:
        process.join()
        assert process.exitcode == 0
    killed = [file for file in notes.iterdir() if int(file.name.partition("-")[0]) >= jobs]
    assert len(killed) == kills
    return {name for file in killed for name in file.read_text().split()}


def unreached(folder: Path) -> tuple[set[str], int]:
    """The data files that no snapshot names, and how many data files there are."""
    table = ll.open_table(str(folder))
    named = {
        Path(path).name
        for snapshot in table.snapshots()
        for path in table.at(snapshot=snapshot.id).system("files")["file_path"].to_pylist()
    }
    there = {path.name for path in folder.rglob("*") if path.name.startswith(("data-", "changelog-"))}
    return there - named, len(there)
