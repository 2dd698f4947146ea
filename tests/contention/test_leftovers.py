"""Lost races leave no data file behind: neither upserts and their compactions, nor changes of rows (H5).

`LAKELATCH_NIGHTLY=1` lets four processes make 100 commits each.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from contention.leftovers import KEYS, SCHEMA, Job, merge, rows, run, unreached, upsert
from figures import NIGHTLY
from report import tell

import lakelatch as ll

JOBS, COMMITS = (4, 100) if NIGHTLY else (3, 6)


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
