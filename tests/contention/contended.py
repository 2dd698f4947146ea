"""Many writer processes on one table at once, and the books kept on both sides."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa

import lakelatch as ll
from lakelatch.coordinator.timeline import contiguous_runs

WRITER = Path(__file__).with_name("writer.py")
SCHEMA = pa.schema([("writer", pa.string()), ("number", pa.int32())])


@dataclass(frozen=True)
class Books:
    """What the writers were told, against what the table shows."""

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
        url: of a table that does not exist yet.
        through: storage options of the writers (a faulty proxy, say); `storage_options` are the auditor's own.
    """

    def __init__(
        self,
        folder: Path,
        url: str,
        storage_options: dict[str, Any],
        *,
        writers: int,
        commits: int,
        through: dict[str, Any] | None = None,
        pause_s: float = 0.0,
    ) -> None:
        self.folder, self.url, self.storage_options = folder, url, storage_options
        self.names = [f"writer-{i}" for i in range(writers)]
        self.commits = commits
        ll.create_table(url, SCHEMA, storage_options=storage_options)
        for name in self.names:
            settings = {
                "name": name,
                "url": url,
                "storage_options": storage_options if through is None else through,
                "commits": commits,
                "gate": str(folder / "gate"),
                "ready": str(folder / f"{name}.ready"),
                "record": str(folder / f"{name}.jsonl"),
                "pause_s": pause_s,
            }
            (folder / f"{name}.json").write_text(json.dumps(settings))
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        log = (self.folder / f"{name}.log").open("ab")
        command = [sys.executable, str(WRITER), str(self.folder / f"{name}.json")]
        self.running[name] = subprocess.Popen(command, stdout=log, stderr=log)

    def open_gate(self) -> None:
        """Let all go at once, when the last is ready."""
        deadline = time.monotonic() + 120
        while not all((self.folder / f"{name}.ready").exists() for name in self.names):
            dead = [name for name, process in self.running.items() if process.poll() not in (None, 0)]
            assert not dead, (self.folder / f"{dead[0]}.log").read_text()
            assert time.monotonic() < deadline, "writers did not get ready"
            time.sleep(0.01)
        (self.folder / "gate").touch()

    def told(self, name: str) -> list[dict[str, Any]]:
        path = self.folder / f"{name}.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def kill(self, name: str, after_commits: int) -> None:
        """SIGKILL, once it has been told of so many commits."""
        process = self.running[name]
        while len(self.told(name)) < after_commits and process.poll() is None:
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def run(self, timeout_s: float = 600) -> Books:
        began = time.monotonic()
        for name in self.names:
            self.start(name)
        self.open_gate()
        return self.finish(began, timeout_s)

    def finish(self, began: float, timeout_s: float = 600) -> Books:
        for name, process in self.running.items():
            process.wait(timeout_s)
            assert process.returncode in (0, -signal.SIGKILL), (self.folder / f"{name}.log").read_text()
        return self.audit(time.monotonic() - began)

    def audit(self, wall_s: float) -> Books:
        """Read the table as anyone would, and compare with what the writers recorded."""
        table = ll.open_table(self.url, storage_options=self.storage_options)
        rows = table.to_arrow()
        seen = Counter(zip(rows["writer"].to_pylist(), rows["number"].to_pylist(), strict=True))
        lines = [line | {"writer": name} for name in self.names for line in self.told(name)]
        acknowledged = {(line["writer"], line["number"]) for line in lines}
        logs = [(self.folder / f"{name}.log").read_text() for name in self.names]
        ids = table.timeline.snapshot_ids()
        assert len(contiguous_runs(ids)) <= 1, "ids have a gap"
        assert len(ids) == len(seen), "every snapshot is one commit"
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
