"""One contended writer, as a process of its own: appends unique tokens and keeps a record of what it was told.

Run as a script: `writer.py SETTINGS.json`. The record is one JSON line per acknowledged commit, written and synced before
the next commit begins, so that it survives a SIGKILL. Started again with the same settings it goes on where the record
ends, with the same identities: the last commit, told or not, is replayed (G3).
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakelatch as ll


def record(path: Path, line: dict[str, Any]) -> None:
    with path.open("a") as out:
        out.write(json.dumps(line) + "\n")
        out.flush()
        os.fsync(out.fileno())


def told(path: Path) -> list[dict[str, Any]]:
    """What a record says, whole lines only."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]


def commit(table: ll.Table, name: str, number: int) -> tuple[ll.Receipt, bool]:
    """Append one token, exactly once; an unknown outcome is resolved, as a user would."""
    rows = pa.table({"writer": [name], "number": pa.array([number], pa.int32())})
    try:
        return table.append(rows, commit_user=name, identifier=number), False
    except ll.OutcomeUnknown as unknown:
        return unknown.resolve(timeout=60), True


def main() -> None:
    settings = json.loads(Path(sys.argv[1]).read_text())
    name, done = settings["name"], Path(settings["record"])
    table = ll.open_table(settings["url"], storage_options=settings["storage_options"])
    Path(settings["ready"]).touch()
    while not Path(settings["gate"]).exists():
        time.sleep(0.005)
    for number in range(len(told(done)), settings["commits"]):
        began = time.monotonic()
        receipt, resolved = commit(table, name, number)
        line = {
            "number": number,
            "snapshot": receipt.snapshot_id,
            "seconds": time.monotonic() - began,
            "retries": receipt.retries,
            "requests": receipt.requests,
            "replayed": receipt.replayed,
            "resolved": resolved,
        }
        record(done, line)
        if settings["pause_s"]:
            time.sleep(settings["pause_s"])


if __name__ == "__main__":
    main()
