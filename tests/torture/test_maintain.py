"""A whole warehouse is maintained beside its writers, killed at random and run again: nothing is lost, and all of it gets done.

In `make test` the warehouse has 5 tables on a local disk; `LAKELATCH_NIGHTLY=1` makes 200 tables on S3.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from figures import NIGHTLY
from report import tell

import lakelatch as ll
from lakelatch.coordinator.history.base import longest_age_ms
from lakelatch.coordinator.maintenance.expiry.retention import DELAYS

TABLES, COMMITS, KILLS, WRITERS = (200, 12, 25, 8) if NIGHTLY else (5, 7, 2, 2)
YOUNG_S = 0.001 * DELAYS * longest_age_ms(1) + 0.1
"""The names of younger snapshots are not freed, because a commit may still be based on them."""
FIELDS = pa.schema([("v", pa.int64())])
OPTIONS = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "3", "snapshot.time-retained": "1 ms"}
KEYED = {**OPTIONS, "bucket": "1", "num-sorted-run.compaction-trigger": "3"}


class Warehouse:
    """Tables of one column, and the values that were acknowledged for each."""

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        self.lake, self.options = ll.open_catalog(url, storage_options=options), options
        self.names = [f"{'air' if n % 2 else 'sea'}.t{n:03}" for n in range(TABLES)]
        self.written: dict[str, list[int]] = {name: [] for name in self.names}
        self.stop = threading.Event()
        for database in ("air", "sea"):
            self.lake.create_database(database)

    def make(self, name: str) -> None:
        keyed = self.names.index(name) % 3 == 2
        fields = pa.schema([pa.field("v", pa.int64(), nullable=False)]) if keyed else FIELDS
        table = self.lake.create_table(name, fields, primary_key=["v"] * keyed, options=KEYED if keyed else OPTIONS)
        for value in range(COMMITS):
            self.append(table, name, value)
        table.committer.settle()

    def append(self, table: ll.Table, name: str, value: int) -> None:
        table.append(pa.table({"v": [value]}, schema=table.arrow_schema))
        self.written[name].append(value)

    def write_on(self, seed: int) -> None:
        """Append to some tables, one after another, until it is told to stop."""
        chance, mine = random.Random(seed), self.names[seed::WRITERS][:10]
        tables = {name: self.lake[name] for name in mine}
        value = 1000
        while not self.stop.is_set():
            name = chance.choice(mine)
            self.append(tables[name], name, value)
            value += 1
            time.sleep(0.05)
        for table in tables.values():
            table.committer.settle()

    def maintained(self, seconds: float | None) -> dict[str, Any]:
        """Run the command; kill it after so many seconds. Returns what it printed of each table."""
        given = [f"--storage-option={key}={_text(value)}" for key, value in self.options.items()]
        words = [sys.executable, "-m", "lakelatch", "maintain", self.lake.url, "--apply", "--json", *given]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
        try:
            out, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            out, _ = process.communicate()
        else:
            assert seconds is not None or process.returncode == 0, out
        whole = [line for line in out.splitlines() if line.endswith("}")]
        return {found["table"]: found for found in map(json.loads, whole)}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Callable[[], tuple[str, dict[str, Any]]]:
    def chosen() -> tuple[str, dict[str, Any]]:
        if not NIGHTLY:
            return str(request.getfixturevalue("tmp_path") / "lake"), {}
        host = request.getfixturevalue("s3_host")
        return f"{host.new_root()}/lake", host.storage_options()

    return chosen


@pytest.mark.timeout(3600)
def test_a_warehouse_is_maintained_beside_its_writers(place: Callable[[], tuple[str, dict[str, Any]]]) -> None:
    """G1, G7: killed at random and run again, every table ends compacted and expired, with every acknowledged row."""
    lake = Warehouse(*place())
    for name in lake.names:
        lake.make(name)
    writers = [threading.Thread(target=lake.write_on, args=(seed,)) for seed in range(WRITERS)]
    for writer in writers:
        writer.start()
    chance, killed = random.Random(15), 0
    try:
        for _ in range(KILLS):
            killed += len(lake.maintained(chance.uniform(0.4, 1.2 if not NIGHTLY else 20.0))) < TABLES
    finally:
        lake.stop.set()
        for writer in writers:
            writer.join()
    time.sleep(YOUNG_S)
    done = lake.maintained(None)
    assert sorted(done) == sorted(lake.names)
    assert [name for name, one in done.items() if one["failed"]] == []
    lost, files = 0, 0
    for name in lake.names:
        table = lake.lake[name]
        held = sorted(table.to_arrow()["v"].to_pylist())
        lost += held != sorted(lake.written[name])
        assert len(table.snapshots()) <= 3, name
        files = max(files, len(table.entries()))
        assert table.verify() == []
    assert [str(one) for one in lake.lake.maintain(dry_run=True).tables if one.due] == []
    rows = sum(map(len, lake.written.values()))
    tell(
        f"maintain: {TABLES} tables, {KILLS} runs, {killed} of them killed, {rows} rows written, {lost} tables lost rows"
    )
    assert (lost, killed > 0) == (0, True)
    assert files < COMMITS
