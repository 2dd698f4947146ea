"""Lost races leave no data file behind: neither upserts and their compactions, nor changes of rows (H5).

`LAKELATCH_NIGHTLY=1` lets four processes make 100 commits each.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from contention.leftovers import KEYS, SCHEMA, Job, merge, rows, run, run_with_kills, unreached, upsert
from figures import NIGHTLY
from report import tell

import lakelatch as ll

JOBS, COMMITS = (4, 100) if NIGHTLY else (3, 6)
KILLS = 40 if NIGHTLY else 4
DAYS_AGO = time.time() - 3 * 86_400


@pytest.mark.timeout(1800 if NIGHTLY else 120)
@pytest.mark.parametrize(
    ("job", "commits", "about"),
    [
        (upsert, COMMITS, {"primary_key": ["day", "k"], "options": {"bucket": "2"}}),
        (merge, COMMITS // 3, {}),
    ],
    ids=["upserts", "merges"],
)
def test_no_data_file_is_left_that_nothing_reaches(
    job: Job, commits: int, about: dict[str, Any], tmp_path: Path
) -> None:
    folder = tmp_path / "t"
    table = ll.create_table(str(folder), SCHEMA, partition_by=["day"], **about)
    if job is merge:
        table.append(rows(list(range(KEYS)), "old"))
        table.settle()
    run(job, str(folder), JOBS, commits)
    left, count = unreached(folder)
    landed = sum(snapshot.commit_kind != "COMPACT" for snapshot in table.snapshots())
    tell(f"files of lost races: {JOBS} processes, {landed} commits, {count} data files, {len(left)} reached by nothing")
    assert left == set()


@pytest.mark.timeout(1800 if NIGHTLY else 120)
def test_what_is_left_beside_killed_writers_is_theirs_and_goes(folder: Path, tmp_path: Path) -> None:
    """G5, H5: a killed process cannot take its files away. Nobody else leaves any, and cleaning takes these, and no other."""
    place = tmp_path / "t"
    table = ll.create_table(str(place), SCHEMA, partition_by=["day"], primary_key=["day", "k"], options={"bucket": "2"})
    of_the_killed = run_with_kills(folder, str(place), JOBS - 1, COMMITS, KILLS)
    left, count = unreached(place)
    tell(f"files of {KILLS} killed processes: {count} data files, {len(left)} reached by nothing")
    assert left <= of_the_killed
    before = table.to_arrow().sort_by("k")
    for path in place.rglob("*"):
        os.utime(path, (DAYS_AGO, DAYS_AGO))
    table.clean()
    assert unreached(place) == (set(), count - len(left))
    assert ll.open_table(str(place)).to_arrow().sort_by("k") == before
    assert [finding for finding in table.verify(data=True) if finding.severity == "error"] == []
