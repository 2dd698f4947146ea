"""Eight processes write to one journal file, and each is killed in the middle of a line, each time at another byte."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from lakelatch.coordinator.journal.file_journal import FileJournal
from lakelatch.coordinator.journal.lines import Damage, Entry

PROCESSES, ROUNDS = 8, 40

SCRIPT = """
import os, signal, sys
from lakelatch.coordinator.journal.file_journal import FileJournal
from lakelatch.coordinator.journal.lines import Entry
from lakelatch.coordinator.protocol import events as ev

path, processes, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
REQUESTED = ev.CommitRequested("me", None, "APPEND", False)
PREPARED = ev.SnapshotPrepared(ev.SnapshotRef(1, "a"), None, "x" * 40, ("list",))
EVENTS = [REQUESTED, ev.LatestResolved(None, "a", 0), ev.ChangesCollected(1, 0), PREPARED, ev.SnapshotPublished()]
write = os.write

def child(number):
    journal, told = FileJournal(path), os.open(f"{path}.{number}", os.O_WRONLY | os.O_CREAT)
    fatal = 5 + number % 7
    def cut(handle, data):
        nonlocal fatal
        fatal -= 1
        if fatal:
            return write(handle, data)
        write(handle, data[: number % len(data) if number % 2 else len(data) - number // 2 % 20])
        os.kill(os.getpid(), signal.SIGKILL)
    for commit in range(10):
        for event in EVENTS:
            os.write = cut
            journal.record(Entry(f"{number}-{commit}", "/t", 1, event), isinstance(event, ev.SnapshotPrepared))
            os.write = write
            write(told, b".")

for first in range(rounds):
    pids = []
    for process in range(processes):
        pid = os.fork()
        if not pid:
            child(first * processes + process)
            os._exit(1)
        pids.append(pid)
    assert all(os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL for pid in pids)
"""


def test_killed_processes_leave_a_prefix_of_each_commit_and_no_damage(tmp_path: Path) -> None:
    """A kept entry stays readable, whichever process was killed beside it; only truncated lines are dropped."""
    path = tmp_path / "journal.jsonl"
    command = [sys.executable, "-c", SCRIPT, str(path), str(PROCESSES), str(ROUNDS)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    kinds: dict[str, list[str]] = defaultdict(list)
    for line in FileJournal(path).lines():
        assert not isinstance(line, Damage), line
        assert isinstance(line, Entry)
        kinds[line.commit].append(type(line.event).__name__)
    order = ["CommitRequested", "LatestResolved", "ChangesCollected", "SnapshotPrepared", "SnapshotPublished"]
    assert all(found == order[: len(found)] for found in kinds.values())
    whole = 0
    for number in range(PROCESSES * ROUNDS):
        kept = sum(len(found) for commit, found in kinds.items() if commit.startswith(f"{number}-"))
        told = (tmp_path / f"journal.jsonl.{number}").stat().st_size
        assert kept in (told, told + 1), f"process {number} was told that {told} entries are kept, and {kept} are"
        whole += kept - told
    assert 0 < whole < PROCESSES * ROUNDS, "some were killed after the last byte of an entry, most before it"
