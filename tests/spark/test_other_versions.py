"""The pipeline on other versions of PySpark than the one of this run, each in an environment and a process of its own.

All of it is for the nightly run: an environment is half a gigabyte, and a few tests on the newest version take minutes where two
cores are busy. Then all tests of the pipeline run on all versions, classic and under Spark Connect.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import java_home
import pyspark_versions
import pytest
from report import tell

HERE = Path(__file__).parent
SMOKE = (
    "test_each_mode_replaces_the_right_rows or test_every_type_of_spark_survives_a_round_trip"
    " or test_one_task_writes_all_rows_of_a_bucket or test_the_data_source_writes_and_serves_sql"
    " or test_filters_and_columns_reach_the_native_scan"
)
FILES = (
    "test_pipeline.py",
    "test_reading_by_habit.py",
    "test_settings.py",
    "test_source_errors.py",
    "test_legs.py",
    "test_commit_safety.py",
    "test_compaction.py",
)
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]


def run(version: str, files: tuple[str, ...], *, marks: str = "not slow", only: str = "", **more: str) -> int:
    """Run tests on a version of PySpark, and return how many passed."""
    python = pyspark_versions.interpreter(version)
    command = [
        str(python),
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--confcutdir",
        str(HERE.parent),
        "-m",
        marks,
    ]
    done = subprocess.run(
        [*command, "-k", only, *(str(HERE / name) for name in files)],
        cwd=HERE.parents[1],
        env={**pyspark_versions.environment(python), **more},
        capture_output=True,
        text=True,
        timeout=1700,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    tell(f"PySpark {version}{' Connect' if more else ''}: {done.stdout.strip().splitlines()[-1]}")
    for walked in re.findall(r"^Spark .* settings, .*", done.stdout, re.MULTILINE):
        tell(walked)
    return int(passed[1])


def test_the_newest_version_writes_and_reads() -> None:
    """Every mode and type, buckets, the data source and SQL, on the newest version that the package allows."""
    java_home.wire()
    assert run(pyspark_versions.VERSIONS[-1], ("test_pipeline.py",), only=SMOKE) == SMOKE.count("test_")


@pytest.mark.parametrize("version", pyspark_versions.VERSIONS)
def test_the_pipeline_on_every_version(version: str) -> None:
    """All tests of the pipeline, with the walk through all settings, and those of errors and the source under Spark Connect."""
    java_home.wire()
    assert run(version, FILES) >= 60
    assert run(version, FILES[:2], marks="not slow and not classic", LAKELATCH_SPARK="connect") >= 15
