"""The time that the values of a partition stand for, by the default and by Java's date patterns."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from lakelatch.core.errors import InvalidArgument, Unsupported
from lakelatch.core.rows.partition_times import PartitionTimes
from lakelatch.core.rows.types import AtomicType, Field, string, timestamp

DT, HOUR = Field(0, "dt", string()), Field(1, "h", string())


def seen(text: str | None) -> int | None:
    """Milliseconds since 1970 of ISO text."""
    return None if text is None else round(dt.datetime.fromisoformat(f"{text}+00:00").timestamp() * 1000)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("2024-01-02", "2024-01-02"),
        ("2024-1-2", "2024-01-02"),
        ("2024-01-02 03:04:05", "2024-01-02T03:04:05"),
        ("2024-01-02 3:4:5.678", "2024-01-02T03:04:05.678"),
        ("2024-02-31", "2024-03-02"),
        ("2024-13-01", "2025-01-01"),
        ("2024-00-01", "2023-12-01"),
        ("2024-01-02 25:00:00", "2024-01-03T01:00:00"),
        ("20240102", None),
        ("2024-01", None),
        ("2024-01-02T03:04:05", None),
        ("2024-01-02 03:04", None),
        ("soon", None),
        ("", None),
        (None, None),
    ],
)
def test_without_options(value: Any, wanted: str | None) -> None:
    """Numbers of one or two digits, and those that are too large carry over, as in Java."""
    assert PartitionTimes((DT,)).of([value]) == seen(wanted)


@pytest.mark.parametrize(
    ("formatter", "value", "wanted"),
    [
        ("yyyyMMdd", "20240102", "2024-01-02"),
        ("yyyyMMdd", "2024-01-02", None),
        ("yyyyMMdd", "20240231", "2024-02-29"),
        ("yyyyMMdd", "20230431", "2023-04-30"),
        ("yyyyMMdd", "20241301", None),
        ("yyyyMMdd", "20240100", None),
        ("yyyyMMddHH", "2024010203", "2024-01-02T03:00:00"),
        ("yyyyMMddHHmm", "202401020304", "2024-01-02T03:04:00"),
        ("yyyyMMddHHmmssSSS", "20240102030405678", "2024-01-02T03:04:05.678"),
        ("yyyy-MM-dd'T'HH:mm:ss", "2024-01-02T03:04:05", "2024-01-02T03:04:05"),
        ("yyyy/M/d", "2024/1/22", "2024-01-22"),
        ("yy-MM-dd", "24-01-02", "2024-01-02"),
        ("uuuu.MM.dd", "2024.01.02", "2024-01-02"),
        ("yyyyDDD", "2024060", "2024-02-29"),
        ("yyyyDDD", "2023366", None),
        ("yyyy-MM-dd[ HH:mm]", "2024-01-02", "2024-01-02"),
        ("yyyy-MM-dd[ HH:mm]", "2024-01-02 03:04", "2024-01-02T03:04:00"),
        ("yyyyMMddHH", "2024010224", "2024-01-03"),
        ("yyyyMMddHH", "2024010225", None),
        ("yyyyMM", "202401", None),
        ("HH:mm", "03:04", None),
        ("yyyy-MM-dd mm", "2024-01-02 04", None),
        ("''yyyy'年'MM'月'dd''", "'2024年01月02'", "2024-01-02"),
    ],
)
def test_with_a_date_pattern(formatter: str, value: str, wanted: str | None) -> None:
    """Java's rules: a day beyond the end of its month is the last one; other values out of range are no time."""
    assert PartitionTimes((DT,), None, formatter).of([value]) == seen(wanted)


@pytest.mark.parametrize(
    "formatter", ["MMM d", "yyyy-MM-dd z", "YYYY-ww", "hh a", "yyyyy", "yyyyMd", "yyyy{MM}", "MM]", "e"]
)
def test_other_date_patterns_are_refused_by_name(formatter: str) -> None:
    with pytest.raises(Unsupported, match=r"partition\.timestamp-formatter.*is not supported"):
        PartitionTimes((DT,), None, formatter)


def test_values_are_put_into_the_pattern() -> None:
    """The longest name counts, and every value that is used must be there."""
    day, hour = Field(0, "d", AtomicType("DATE")), Field(1, "dh", AtomicType("INT"))
    times = PartitionTimes((day, hour), "$d $dh:00:00")
    assert times.of([dt.date(2024, 1, 2), 3]) == seen("2024-01-02T03:00:00")
    assert times.of([dt.date(2024, 1, 2), None]) is None
    assert PartitionTimes((day, hour), "$d").of([dt.date(2024, 1, 2), None]) == seen("2024-01-02")
    assert PartitionTimes((day, hour), "2024-02-$dh").of([None, 3]) == seen("2024-02-03")
    with pytest.raises(InvalidArgument, match=r"names no partition column.*\$d, \$dh"):
        PartitionTimes((day, hour), "$x-01-01")


def test_values_of_other_types() -> None:
    nanos = 1_704_164_645_678_901_234
    assert PartitionTimes((Field(0, "t", timestamp(9)),)).of([nanos]) == nanos // 1_000_000
    assert PartitionTimes((Field(0, "n", AtomicType("INT")),), None, "yyyyMMdd").of([20240102]) == seen("2024-01-02")
    assert PartitionTimes((Field(0, "b", AtomicType("BOOLEAN")),)).of([True]) is None
