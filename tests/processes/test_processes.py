"""H23: A table works around a fork and at the end of its process. Real processes, a real disk, a real S3 server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from figures import NIGHTLY

import lakelatch as ll
from lakelatch.coordinator.history.timeline import contiguous_runs

SECONDS = 400
SCHEMA = pa.schema([("v", pa.int64())])


@pytest.fixture(params=["local", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, dict[str, Any]]:
    """The URL and storage options of a new table, on the local disk and on the S3 server of this run."""
    url, options = (str(tmp_path), {}) if request.param == "local" else request.getfixturevalue("s3")
    ll.create_table(f"{url}/t", SCHEMA, storage_options=options)
    return f"{url}/t", options


def lived(scenario: str, place: tuple[str, dict[str, Any]], **environment: str) -> str:
    """Run a scenario of `lives` as a process, and return its output. If it hangs or fails, so does the test."""
    url, options = place
    command = [sys.executable, "-W", "ignore", "-m", "processes.lives", scenario, url, json.dumps(options)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS, check=False, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stderr
    assert "Error" not in done.stderr, done.stderr  # an error in an exit handler does not change the status
    return done.stdout


def values(place: tuple[str, dict[str, Any]]) -> list[int]:
    """The rows of the table, after a check that its snapshots have no gap."""
    table = ll.open_table(place[0], storage_options=place[1])
    assert len(contiguous_runs(table.timeline.snapshot_ids())) == 1
    assert [finding.message for finding in table.verify("all", data=True)] == []
    return sorted(table.to_arrow()["v"].to_pylist())


def test_a_forked_child_appends_and_reads_and_so_does_its_parent(place: Any) -> None:
    lived("children_append_and_read", place)
    assert values(place) == [0, 1, 2, 3]


def test_a_parent_and_its_child_are_different_writers(place: Any) -> None:
    """Otherwise a commit would mistake the other's snapshot for its own, and count too few other writers."""
    lived("children_append_and_read", place)
    table = ll.open_table(place[0], storage_options=place[1])
    writers = [snapshot.own_properties["lakelatch.writer"] for snapshot in reversed(table.snapshots())]
    assert writers[0] == writers[3] != writers[1] == writers[2]


def test_a_forked_pool_appends_through_the_table_of_its_parent(place: Any) -> None:
    lived("a_forked_pool_of_four", place)
    assert values(place) == list(range(14))


def test_a_fork_while_another_thread_appends(place: Any) -> None:
    lived("forks_while_a_thread_appends", place)
    found = values(place)
    acknowledged = [-value for value in found if value < 0]
    assert len(acknowledged) >= 10
    assert sorted(value for value in found if value >= 0) == sorted([*range(7), *acknowledged])


def test_a_forked_child_forks_again(place: Any) -> None:
    lived("a_child_forks_again", place)
    assert values(place) == [0, 1, 2, 3, 4]


def test_the_end_of_a_child_does_not_disturb_its_parent(place: Any) -> None:
    lived("children_leave", place)
    assert values(place) == [0, 1, 2, 4, 5, 6, 8]


@pytest.mark.parametrize("scenario", ["append_in_an_exit_handler", "first_append_in_an_exit_handler"])
def test_an_exit_handler_appends(place: Any, scenario: str) -> None:
    """Acknowledged commits are complete: the rows are in the table, and the hint is written."""
    assert lived(scenario, place) == "acknowledged\n"
    table = ll.open_table(place[0], storage_options=place[1])
    assert values(place) == list(range(len(table.snapshots())))
    assert table.store.get("snapshot/LATEST") == str(len(table.snapshots())).encode()


def test_a_thread_that_outlives_the_main_thread_appends(place: Any) -> None:
    assert lived("a_thread_outlives_main", place) == "acknowledged\n"
    assert values(place) == [0, 1, 2, 3]


def test_a_daemon_thread_that_appends_while_the_interpreter_ends_leaves_whole_commits(place: Any) -> None:
    lived("a_daemon_appends_while_the_interpreter_ends", place)
    found = Counter(values(place))
    assert found
    assert set(found.values()) == {2}


def test_appends_when_the_system_refuses_threads(tmp_path: Path) -> None:
    ll.create_table(str(tmp_path / "t"), SCHEMA)
    lived("no_thread_can_be_had", (str(tmp_path / "t"), {}))
    assert values((str(tmp_path / "t"), {})) == [0, 1, 2]


@pytest.mark.parametrize(("where", "times"), [("local", 50), ("s3", 20)] if NIGHTLY else [("local", 8), ("s3", 3)])
def test_an_interrupt_leaves_whole_commits_and_an_interrupted_process(
    where: str, times: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """After a SIGINT at any time of an append, `KeyboardInterrupt` ends the process, and no commit is torn."""
    url, options = (str(tmp_path), {}) if where == "local" else request.getfixturevalue("s3")
    place = (f"{url}/t", options)
    ll.create_table(place[0], SCHEMA, storage_options=options)
    printed = lived("interrupted", place, INTERRUPTS=str(times))
    assert printed.splitlines() == ["ended by -2"] * times
    found = Counter(values(place))
    assert all(count % 3 == 0 for count in found.values())
