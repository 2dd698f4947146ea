"""What to expect of many writers: the forecast, and its command."""

from __future__ import annotations

import json

import pytest

from lakelatch.cli.main import main
from lakelatch.lab.simulate import simulate


def test_one_writer_meets_nobody() -> None:
    """Design §3: a warm append waits for three round trips, one after another; nobody is in the way."""
    forecast = simulate(1, commits=8, latency_ms=100.0)
    assert (forecast.committed, forecast.retries_per_commit) == (8, 0.0)
    assert 3 * 50 <= forecast.median_ms <= 3 * 150
    assert forecast.requests_per_commit < 7


def test_more_writers_wait_longer_and_lose_nothing() -> None:
    """Liveness under contention with the table's default retries."""
    alone, many = simulate(1, commits=4), simulate(8, commits=4)
    assert many.committed == 32
    assert many.retries_per_commit > 0
    assert many.median_ms > alone.median_ms


def test_a_bad_day_is_told_and_the_same_each_time() -> None:
    first = simulate(6, commits=4, faults=1.0, seed=3)
    assert first.faults > 0
    assert first == simulate(6, commits=4, faults=1.0, seed=3)
    assert first != simulate(6, commits=4, faults=1.0, seed=4)


def test_the_command_prints_the_forecast(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--writers", "2", "--steps", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["committed"] == 4
    assert main(["simulate", "--writers", "2", "--steps", "2"]) == 0
    assert "commits per minute" in capsys.readouterr().out


@pytest.mark.parametrize("wrong", [["--writers", "0"], ["--faults", "2"], ["--latency", "0"]])
def test_what_cannot_be_simulated_is_refused(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", *wrong]) == 2
    assert "--writers" in capsys.readouterr().err
