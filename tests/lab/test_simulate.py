"""The forecast for many writers, and its command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lakelatch.cli.main import main
from lakelatch.coordinator.commit.request import CommitRequest
from lakelatch.lab.actors.jobs import Actor, data_entry
from lakelatch.lab.seeded.schedule import Simulation, Weather
from lakelatch.lab.seeded.simulate import simulate
from lakelatch.lab.seeded.workloads import workload
from lakelatch.lab.world.stage import Stage

STARVED = 20
"""A commit that waits this many times the median has been starved."""


def test_a_single_writer_has_no_conflicts() -> None:
    """architecture §3: a warm append waits for three sequential round trips if no other writer is active."""
    forecast = simulate(1, commits=8, latency_ms=100.0)
    assert (forecast.committed, forecast.retries_per_commit) == (8, 0.0)
    assert 3 * 50 <= forecast.p50_ms <= 3 * 150
    assert forecast.requests_per_commit < 7


def test_more_writers_wait_longer_and_lose_nothing() -> None:
    """Liveness under contention with the table's default retries."""
    alone, many = simulate(1, commits=4), simulate(8, commits=4)
    assert many.committed == 32
    assert many.retries_per_commit > 0
    assert many.p50_ms > alone.p50_ms


def test_a_hundred_writers_all_get_their_turn() -> None:
    """With default options, no commit fails and no writer starves."""
    forecast = simulate(100, commits=1, latency_ms=20.0)
    assert (forecast.committed, forecast.failed, forecast.unknown, forecast.dead_writers) == (100, 0, 0, 0)
    assert forecast.p99_ms <= STARVED * forecast.p50_ms


@pytest.mark.parametrize(("writers", "commits"), [(8, 25), (32, 5)])
def test_nobody_waits_much_longer_than_the_others(writers: int, commits: int) -> None:
    """Without riding, each commit needs a turn of its own. Who came first goes first, so that nobody wins again and again."""
    forecast = simulate(writers, commits=commits, latency_ms=20.0)
    assert forecast.committed == writers * commits
    assert forecast.slowest_ms <= 3 * forecast.p50_ms
    assert forecast.retries_per_commit <= 1.1
    assert forecast.requests_per_commit <= 30


def test_concurrent_requests_take_the_time_of_the_longest() -> None:
    """architecture §3: the loser of a race looks for the latest snapshot and requests the next two concurrently: one round
    trip."""
    latency_s = 0.1
    simulation = Simulation(0, Weather(latency_s))
    took: list[float] = []

    def role(stage: Stage) -> None:
        committer = stage.committer()
        for number in (1, 2):
            request = CommitRequest(kind="APPEND", entries=(data_entry(f"{number}"),), commit_user="w")
            committer.commit(request)
        timeline = stage.timeline()
        first = timeline.find(1)
        for _ in range(20):
            began_s = stage.clock.now_s
            assert timeline.latest(first).id == 2  # type: ignore[union-attr]
            took.append(stage.clock.now_s - began_s)

    simulation.add(Actor("w", role))
    simulation.run()
    assert max(took) <= 1.5 * latency_s + 1e-9, "a request takes between 0.5 and 1.5 times the latency"


def test_groups_land_many_jobs_in_few_snapshots() -> None:
    """Without a limit of time in virtual seconds, but with one of snapshots: 24 appends need a fraction of them."""
    alone, together = (simulate(24, commits=1, latency_ms=20, work=workload(rides=rides)) for rides in (False, True))
    assert alone.committed == together.committed == 24
    assert sum("create snapshot/" in line and line.endswith("ok 200") for line in together.trace) <= 6
    assert together.p50_ms < alone.p50_ms / 2
    assert together.requests_per_commit < alone.requests_per_commit


@pytest.mark.parametrize("table", ["upsert", "bucketed"])
def test_a_hundred_writers_of_rows_with_numbers_ride_together(table: str) -> None:
    """Their numbers are compared by what snapshots say, without a look at manifests."""
    forecast = simulate(100, commits=5, latency_ms=20.0, work=workload(table, rides=True))
    assert (forecast.committed, forecast.failed) == (500, 0)
    assert forecast.p50_ms <= 350
    assert forecast.p99_ms <= 600
    assert forecast.commits_per_minute >= 10_000
    assert forecast.requests_per_commit <= 20


@pytest.mark.parametrize("writers", [4, 16])
@pytest.mark.parametrize("table", ["bucketed", "upsert", "overwrite", "update"])
def test_nobody_starves_whatever_the_writers_do(table: str, writers: int) -> None:
    """Without riding: in virtual time, the slowest commits wait a few times as long as the others."""
    forecast = simulate(writers, commits=5, latency_ms=20.0, work=workload(table))
    assert (forecast.committed, forecast.failed, forecast.unknown) == (5 * writers, 0, 0)
    assert forecast.p99_ms <= 5 * forecast.p50_ms
    assert forecast.slowest_ms <= 10 * forecast.p50_ms


def test_a_writer_that_was_carried_does_not_look_for_the_snapshot_that_it_has_just_read() -> None:
    """It has waited for that snapshot, so another is not to be expected before its next commit begins."""
    forecast = simulate(8, commits=10, latency_ms=20, work=workload(rides=True))
    first_looks, commits = 8, 80
    looks = sum("list snapshot/" in line for line in forecast.trace)
    assert forecast.committed == commits
    assert first_looks <= looks <= commits / 4


def test_faults_are_reported_and_repeatable() -> None:
    first = simulate(6, commits=4, faults=1.0, seed=3)
    assert first.faults > 0
    assert first == simulate(6, commits=4, faults=1.0, seed=3)
    assert first != simulate(6, commits=4, faults=1.0, seed=4)


def test_the_same_seed_gives_the_same_trace(tmp_path: Path) -> None:
    """Byte for byte, in two processes with different hash seeds. Another seed gives another trace."""
    traces = []
    for run, seed in enumerate((7, 7, 8)):
        path = tmp_path / f"{run}.trace"
        words = ["--writers", "4", "--steps", "3", "--faults", "0.5", "--seed", str(seed), "--trace", str(path)]
        command = [sys.executable, "-m", "lakelatch", "simulate", *words, "--json"]
        environment = {**os.environ, "PYTHONHASHSEED": str(run + 1)}
        printed = subprocess.run(command, check=True, capture_output=True, env=environment, timeout=120).stdout
        traces.append((path.read_bytes(), printed))
    assert traces[0] == traces[1] != traces[2]
    assert traces[0][0].count(b"\n") > 50


def test_a_long_simulation_reports_its_progress(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setattr("lakelatch.cli.inspect.simulate._EVERY_S", 0.0)
    assert main(["simulate", "--writers", "2", "--steps", "3", "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["committed"] == 6
    assert "6 of 6 commits simulated" in shown.err


def test_a_trace_that_cannot_be_written_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["simulate", "--writers", "1", "--steps", "1", "--trace", str(tmp_path / "no" / "file")]) == 2
    assert "--trace" in capsys.readouterr().err


def test_the_command_prints_the_forecast(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--writers", "2", "--steps", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["committed"] == 4
    assert main(["simulate", "--writers", "2", "--steps", "2"]) == 0
    assert "commits per minute" in capsys.readouterr().out


@pytest.mark.parametrize("wrong", [["--writers", "0"], ["--faults", "2"], ["--latency", "0"]])
def test_invalid_arguments_are_refused(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", *wrong]) == 2
    assert "--writers" in capsys.readouterr().err
