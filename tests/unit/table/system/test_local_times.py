"""System tables show the wall clock of the machine that reads them, as Apache Paimon does."""

from __future__ import annotations

import time

import pytest

from lakelatch.table.system.definition import local_time


@pytest.mark.parametrize(
    ("zone", "winter", "summer"), [("UTC", 0, 0), ("America/New_York", -5, -4), ("Asia/Kolkata", 5.5, 5.5)]
)
def test_times_are_those_of_the_zone(monkeypatch: pytest.MonkeyPatch, zone: str, winter: float, summer: float) -> None:
    """With the offset that the zone had then; a time that the machine cannot tell is left as it is."""
    january, july = 1_705_320_000_123, 1_721_044_800_000
    with monkeypatch.context() as set_zone:
        set_zone.setenv("TZ", zone)
        time.tzset()
        try:
            assert local_time(january) == january + int(winter * 3_600_000)
            assert local_time(july) == july + int(summer * 3_600_000)
            assert local_time(None) is None and local_time(10**18) == 10**18
        finally:
            set_zone.undo()
            time.tzset()
