"""Processes that append to one table, ride with each other and are killed at any moment: no row is lost, none comes twice.

With a primary key and without one, on a disk and on an S3 server. A killed process begins again with the identity that it had
last.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from report import tell

import lakelatch as ll
from lakelatch.core.errors import LakelatchError
from lakelatch.table.table import Table

KILLS = int(os.environ.get("LAKELATCH_GROUP_KILLS", "500"))
WRITERS = 5
SCHEMA = pa.schema([("writer", pa.int64()), ("number", pa.int64())])


def row(writer: int, number: int) -> pa.Table:
    return pa.table({"writer": [writer], "number": [number]}, schema=SCHEMA)


def acknowledged(folder: Path, writer: int) -> list[tuple[int, bool]]:
    """What the processes of a writer were told: numbers, and whether another's snapshot carries them."""
    path = folder / f"told-{writer}"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(int(line.split()[0]), line.endswith("carried")) for line in lines]


@dataclass(frozen=True)
class Place:
    """A table, and the folder beside it in which each writer writes down what it was told."""

    url: str
    storage_options: dict[str, Any]
    folder: Path

    def opened(self) -> Table:
        return ll.open_table(self.url, storage_options=self.storage_options)

    def append_for_ever(self, writer: int) -> None:
        """One process: it goes on after the last number that was acknowledged, under the same identities."""
        table = self.opened()
        number = max((n for n, _ in acknowledged(self.folder, writer)), default=-1) + 1
        told = os.open(self.folder / f"told-{writer}", os.O_APPEND | os.O_CREAT | os.O_WRONLY)
        while True:
            try:
                receipt = table.append(row(writer, number), commit_user=f"job-{writer}", identifier=number)
            except LakelatchError:
                continue  # the same identity again, as after a kill
            os.write(told, f"{number} {'carried' if receipt.leader else 'own'}\n".encode())
            number += 1

    def started(self, writer: int) -> int:
        pid = os.fork()
        if pid == 0:
            try:
                self.append_for_ever(writer)
            finally:
                os._exit(1)
        return pid


def killed(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


KEYS = ("writer", "number")


def commits(table: Table) -> Counter[tuple[str, int]]:
    """How often each identity is in the history: a primary key would hide rows that came twice."""
    told = [one for made in table.history() for one in (made, *made["riders"])]
    return Counter((one["commit_user"], one["identifier"]) for one in told if one["commit_user"].startswith("job-"))


def check(what: str, place: Place, longest_s: float, carried: float, keys: tuple[str, ...] = ()) -> None:
    """Kill writers at random moments, and compare what they were told with the table.

    Args:
        longest_s: the longest time between two kills.
        keys: the columns of the primary key, so that the appends are upserts into one bucket.
        carried: how many appends another must have carried for each kill, or the run has shown little about riders.
    """
    dice = random.Random(0)
    options = {"commit.group": "auto", **({"bucket": "1"} if keys else {})}
    made = ll.create_table(
        place.url, SCHEMA, primary_key=keys or None, options=options, storage_options=place.storage_options
    )
    made.append(row(-1, -1))
    began = time.monotonic()
    running = {writer: place.started(writer) for writer in range(WRITERS)}
    try:
        for _ in range(KILLS):
            time.sleep(dice.uniform(0.02, longest_s))
            writer = dice.randrange(WRITERS)
            killed(running[writer])
            running[writer] = place.started(writer)
    finally:
        for pid in running.values():
            killed(pid)
    seconds, table = time.monotonic() - began, place.opened()
    rows = table.to_arrow().to_pydict()
    found = Counter(zip(rows["writer"], rows["number"], strict=True))
    told = {(writer, n): carried for writer in range(WRITERS) for n, carried in acknowledged(place.folder, writer)}
    doubled = [one for seen in (found, commits(table)) for one, times in seen.items() if times > 1]
    lost = told.keys() - found.keys()
    tell(
        f"groups, {what}: {KILLS} kills of {WRITERS} writers in {seconds:.0f} s: {len(told)} appends acknowledged,"
        f" {sum(told.values())} of them carried by others, {len(found)} rows visible, {len(lost)} lost, {len(doubled)} doubled"
    )
    assert (lost, doubled) == (set(), [])
    assert table.verify("all", data=True) == []
    assert sum(told.values()) > KILLS * carried, "hardly anybody rode"


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_no_row_of_a_rider_is_lost_or_doubled_when_processes_are_killed(tmp_path: Path) -> None:
    """G1, G3, G5: real processes, a local disk, SIGKILL at any moment of a leader or a rider."""
    check("local disk", Place(str(tmp_path / "t"), {}, tmp_path), longest_s=0.3, carried=0.1)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_no_row_of_a_rider_is_lost_or_doubled_on_s3(tmp_path: Path, s3: tuple[str, dict[str, Any]]) -> None:
    """G1, G3, G5: the same on an S3 server, where a killed process leaves requests under way."""
    url, storage_options = s3
    check("S3", Place(f"{url}/groups", storage_options, tmp_path), longest_s=2.5, carried=0.05)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_no_upsert_that_rides_is_lost_or_doubled_when_processes_are_killed(tmp_path: Path) -> None:
    """G1, G3, G5, H14: the same with a primary key, whose rows have numbers that the snapshots name."""
    place = Place(str(tmp_path / "t"), {}, tmp_path)
    check("keys on a local disk", place, longest_s=0.3, carried=0.1, keys=KEYS)
