"""Processes that append to one table, ride with each other and are killed at any moment: no row is lost, none comes twice."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.core.errors import LakelatchError

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


def append_for_ever(folder: Path, writer: int) -> None:
    """One process: it goes on after the last number that was acknowledged, under the same identities."""
    table = ll.open_table(str(folder / "t"))
    number = max((n for n, _ in acknowledged(folder, writer)), default=-1) + 1
    told = os.open(folder / f"told-{writer}", os.O_APPEND | os.O_CREAT | os.O_WRONLY)
    while True:
        try:
            receipt = table.append(row(writer, number), commit_user=f"job-{writer}", identifier=number)
        except LakelatchError:
            continue  # the same identity again, as after a kill
        os.write(told, f"{number} {'carried' if receipt.leader else 'own'}\n".encode())
        number += 1


def started(folder: Path, writer: int) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            append_for_ever(folder, writer)
        finally:
            os._exit(1)
    return pid


def killed(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_no_row_of_a_rider_is_lost_or_doubled_when_processes_are_killed(tmp_path: Path) -> None:
    """G1, G3, G5: real processes, a local disk, SIGKILL at any moment of a leader or a rider."""
    dice = random.Random(0)
    ll.create_table(str(tmp_path / "t"), SCHEMA, options={"commit.group": "auto"}).append(row(-1, -1))
    running = {writer: started(tmp_path, writer) for writer in range(WRITERS)}
    try:
        for _ in range(KILLS):
            time.sleep(dice.uniform(0.02, 0.3))
            writer = dice.randrange(WRITERS)
            killed(running[writer])
            running[writer] = started(tmp_path, writer)
    finally:
        for pid in running.values():
            killed(pid)
    table = ll.open_table(str(tmp_path / "t"))
    rows = table.to_arrow().to_pydict()
    found = Counter(zip(rows["writer"], rows["number"], strict=True))
    told = {(writer, n): carried for writer in range(WRITERS) for n, carried in acknowledged(tmp_path, writer)}
    assert not told.keys() - found.keys()
    assert not [one for one, times in found.items() if times > 1]
    assert table.verify("all", data=True) == []
    assert sum(told.values()) > KILLS / 10, "hardly anybody rode"
