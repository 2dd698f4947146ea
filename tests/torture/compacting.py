"""Runs writers of one table together with compactors that are killed at random moments."""

from __future__ import annotations

import os
import random
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

from contention.contended import PROCESSES, Books, Contention

import lakelatch as ll

COMPACTORS = 2


def compact_until(stop: Path, url: str, log_path: Path) -> None:
    """The main function of a compactor, which compacts all small files again and again."""
    log = os.open(log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    table = ll.open_table(url)
    while not stop.exists():
        done = table.compact(min_files=2)
        print(f"{done.files_before} files replaced, {len(done.given_up)} groups given up", flush=True)


class Compacting(Contention):
    """Contention on a table that is compacted at the same time."""

    def __init__(self, folder: Path, url: str, *, writers: int, commits: int, seed: int = 0) -> None:
        super().__init__(folder, url, {}, writers=writers, commits=commits)
        self._dice = random.Random(seed)
        self.stop, self.logs = folder / "stop-compacting", [folder / f"compactor-{i}.log" for i in range(COMPACTORS)]

    def compactions(self, table: ll.Table) -> int:
        return sum(snapshot.commit_kind == "COMPACT" for snapshot in table.snapshots())

    def torture(self, kills: int) -> tuple[int, Books]:
        """Run the writers to their ends and kill compactors at most `kills` times. Returns the number of kills."""
        began, struck = time.monotonic(), 0
        compactors = [self._compactor(number) for number in range(COMPACTORS)]
        for name in self.names:
            self.start(name)
        self.open_gate()
        while any(process.is_alive() for process in self.running.values()):
            time.sleep(self._dice.uniform(0, 1))
            if struck < kills:
                number = self._dice.randrange(COMPACTORS)
                compactors[number].kill()
                compactors[number].join()
                compactors[number] = self._compactor(number)
                struck += 1
        self.stop.touch()
        for number, process in enumerate(compactors):
            process.join(120)
            assert process.exitcode == 0, self.logs[number].read_text()
        return struck, self.finish(began)

    def _compactor(self, number: int) -> BaseProcess:
        process = PROCESSES.Process(target=compact_until, args=(self.stop, self.url, self.logs[number]))
        process.start()
        return process
