"""Expiry after a commit: when it runs, that it neither fails nor delays the commit, and that it survives forks and exits."""

from __future__ import annotations

import itertools
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.coordinator.maintenance.expiry import automatic
from lakelatch.coordinator.maintenance.expiry.expire import ExpiryPlan
from lakelatch.coordinator.maintenance.expiry.retention import is_automatic
from lakelatch.core.errors import CommitConflict, StoreUnavailable, TableCorrupt
from lakelatch.core.options import TableOptions
from lakelatch.table.table import Table

COUNTER = itertools.count()
SCHEMA = pa.schema([("v", pa.int64())])
ROW = pa.table({"v": [1]})
SOON = {"snapshot.time-retained": "1 ms", "snapshot.num-retained.min": "1"}


def made(**options: str) -> Table:
    return ll.create_table(f"memory://automatic-{next(COUNTER)}/t", SCHEMA, options=options)


def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.005)


def idle() -> None:
    """Wait until the thread has nothing left to do."""
    automatic._THREADS.submit(lambda: None).result()


class Slow:
    """Stands for `expire`: each call waits until it is let go."""

    def __init__(self, found: int = 0) -> None:
        self.go = threading.Event()
        self.running = 0
        self.most = 0
        self.calls = 0
        self.found = found

    def __call__(self, *about: Any) -> ExpiryPlan:
        self.calls += 1
        self.running += 1
        self.most = max(self.most, self.running)
        self.go.wait(20)
        self.running -= 1
        return ExpiryPlan(tuple(range(self.found if self.calls == 1 else 0)))


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    stand_in = Slow()
    idle()
    monkeypatch.setattr(automatic, "expire", stand_in)
    yield stand_in
    stand_in.go.set()
    until(lambda: not stand_in.running)


def test_old_snapshots_and_idle_consumers_go_after_a_commit() -> None:
    """The real thing, in a table whose snapshots may go after two seconds."""
    table = made(**SOON, **{"consumer.expiration-time": "1 s"})
    for _ in range(3):
        table.append(ROW)
    table.set_consumer("idle", 1)
    time.sleep(2.2)
    receipt = table.append(ROW)
    assert receipt.snapshot_id == 4
    until(lambda: not {1, 2} & set(table.timeline.snapshot_ids()))
    assert table.consumers() == [] and table.verify("all") == []
    assert table.to_arrow().num_rows == 4


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({}, False),
        ({"snapshot.num-retained.max": "20"}, True),
        ({"changelog.time-retained": "2 d"}, True),
        ({"snapshot.expire.limit": "5"}, False),
        ({"snapshot.num-retained.max": "20", "write-only": "true"}, False),
        ({"snapshot.num-retained.max": "20", "snapshot.expire.automatic": "false"}, False),
        ({"snapshot.expire.automatic": "true"}, True),
        ({"snapshot.expire.automatic": "true", "write-only": "true"}, False),
    ],
)
def test_which_tables_ask_for_it(options: dict[str, str], asked: bool) -> None:
    assert is_automatic(TableOptions(options)) is asked


def test_a_table_that_does_not_ask_for_it_is_left_alone(slow: Slow) -> None:
    for options in ({}, {**SOON, "write-only": "true"}, {**SOON, "snapshot.expire.automatic": "false"}):
        made(**options).append(ROW)
    time.sleep(0.05)
    assert slow.calls == 0


def test_a_commit_does_not_wait_and_two_never_run_at_once(slow: Slow) -> None:
    """Commits by two handles and a branch's thread come while the first expiry runs."""
    table = made(**SOON)
    other = Table(table.store, table.schema)
    began = time.monotonic()
    for _ in range(4):
        table.append(ROW)
        other.append(ROW)
    assert time.monotonic() - began < 10 and slow.calls == 1
    slow.go.set()
    until(lambda: slow.running == 0)
    time.sleep(0.05)
    assert slow.most == 1 and slow.calls <= 2
    before = slow.calls
    table.append(ROW)
    until(lambda: slow.calls == before + 1)


def test_the_expiries_of_several_tables_come_one_after_another(slow: Slow) -> None:
    for _ in range(2):
        made(**SOON).append(ROW)
    until(lambda: slow.calls == 1)
    time.sleep(0.05)
    assert slow.running == 1
    slow.go.set()
    until(lambda: slow.calls == 2)
    assert slow.most == 1


def test_what_one_run_may_not_delete_the_next_one_does_at_once(slow: Slow) -> None:
    slow.found = 7
    slow.go.set()
    made(**SOON, **{"snapshot.expire.limit": "7"}).append(ROW)
    until(lambda: slow.calls >= 2)
    assert slow.calls == 2 and slow.most == 1


def test_a_table_has_its_turn_only_now_and_then(slow: Slow) -> None:
    """With 200 seconds of history, one expiry within two seconds, whoever begins it: another process announces it in EARLIEST."""
    slow.go.set()
    table = made(**{"snapshot.time-retained": "200 s"})
    table.append(ROW)  # writes EARLIEST itself
    time.sleep(2.1)
    automatic._TURNS.get().clear()
    for _ in range(5):
        table.append(ROW)
        table.committer.settle()
    until(lambda: slow.calls == 1 and slow.running == 0)
    table.store.put("snapshot/EARLIEST", b"1")
    automatic._TURNS.get().clear()  # as in another process
    table.append(ROW)
    time.sleep(0.1)
    assert slow.calls == 1
    time.sleep(2.1)
    automatic._TURNS.get().clear()
    table.append(ROW)
    until(lambda: slow.calls == 2)


def test_two_processes_that_expire_at_once_are_no_news(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The other one has deleted lists already: that is worth a warning only where nobody expires."""

    def lacking(*about: Any) -> ExpiryPlan:
        raise TableCorrupt("manifest/x is missing")

    monkeypatch.setattr(automatic, "expire", lacking)
    for earliest, level in ((b"1", logging.WARNING), (b"2", logging.INFO)):
        table = made(**SOON)
        table.append(ROW)
        table.committer.settle()
        until(lambda: bool(caplog.records))
        caplog.clear()
        table.store.put("snapshot/EARLIEST", earliest)
        with caplog.at_level(logging.INFO, "lakelatch.expiry"):
            table.append(ROW)
            until(lambda: bool(caplog.records))
        assert [record.levelno for record in caplog.records] == [level]
        caplog.clear()


@pytest.mark.parametrize("error", [StoreUnavailable("no answer"), RuntimeError("a bug"), CommitConflict("others")])
def test_a_commit_is_not_failed_by_it(
    error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[int] = []

    def failing(*about: Any) -> ExpiryPlan:
        calls.append(1)
        raise error

    monkeypatch.setattr(automatic, "expire", failing)
    table = made(**SOON)
    with caplog.at_level(logging.INFO, "lakelatch.expiry"):
        assert table.append(ROW).snapshot_id == 1
        until(lambda: bool(caplog.records))
    said = caplog.text
    assert "the commit has landed" in said or "left to the next one" in said
    table.committer.settle()
    idle()
    assert table.append(ROW).snapshot_id == 2
    until(lambda: len(calls) == 2)


def test_it_goes_by_the_newest_options(slow: Slow) -> None:
    """Another job has turned it off since this one opened the table."""
    table = made(**SOON)
    other = Table(table.store, table.schema)
    table.alter(ll.set_option("snapshot.expire.automatic", "false"))
    other.append(ROW)
    time.sleep(0.1)
    assert slow.calls == 0


SCRIPT = """
import os, sys, time
import pyarrow as pa
import lakelatch as ll
from lakelatch.coordinator.maintenance.expiry import automatic

real, began = automatic.expire, []
def stuck(*about):
    began.append(1)
    time.sleep(60)
automatic.expire = stuck
options = {"snapshot.time-retained": "1 ms", "snapshot.num-retained.min": "1"}
table = ll.create_table(sys.argv[1], pa.schema([("v", pa.int64())]), options=options, storage_options={"fsync": "false"})
for _ in range(3):
    table.append(pa.table({"v": [1]}))
while not began:
    time.sleep(0.01)
time.sleep(2.2)
child = os.fork()
if child == 0:
    automatic.expire = real
    again = ll.open_table(sys.argv[1])
    again.append(pa.table({"v": [1]}))
    end = time.monotonic() + 20
    while {1, 2} & set(again.timeline.snapshot_ids()) and time.monotonic() < end:
        time.sleep(0.01)
    os._exit(1 if {1, 2} & set(again.timeline.snapshot_ids()) else 0)
assert os.waitpid(child, 0)[1] == 0, "the child's own expiry did not run"
print("leaving", time.time())
"""


def test_a_fork_begins_afresh_and_an_exit_does_not_wait_long(tmp_path: Path) -> None:
    """H23: the parent's expiry is stuck. The child of its fork expires all the same, and the parent ends within seconds."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "t")], check=False, capture_output=True, text=True, timeout=100
    )
    ended = time.time()
    assert done.returncode == 0, done.stderr
    assert ended - float(done.stdout.split()[1]) < 15
