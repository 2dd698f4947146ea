"""Runs the pipeline's tests again under Spark Connect, in a separate process because a process has one kind of session.

Every run includes the tests of `test_pipeline` that go through Spark in ways of their own, changes of rows, a scan of files with
deleted rows, a stream from table to table, batches of streams that are repeated, and the sink of `foreachBatch`. The nightly run
adds its other tests, changes, the habits of writers and readers, their page, times without a zone, tables of the catalog, all
streams, errors, random conditions, golden tables and faults.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from report import tell

HERE = Path(__file__).parent
FILES = ["test_pipeline.py", "test_row_changes.py", "test_deleted_rows.py", "test_streams.py"]
FILES += ["test_sql_page.py", "test_same_statements.py", "test_registered_sessions.py"]
ONLY = (
    "test_row_changes or each_mode_replaces or every_type_of_spark or one_task_writes or the_data_source_writes"
    " or filters_and_columns or failed_job_leaves or source_job_that_fails or replayed_identity or does_not_fit"
    " or share_a_scan or lost_answer_ends or repeated_lands_once or sink_of_foreach"
    " or every_statement_runs or (answers_are_those and (merge or travel)) or parameters_reach or shows_one_snapshot"
    " or again_lands_once"
)
if os.environ.get("LAKELATCH_NIGHTLY"):
    FILES += [
        "test_changes.py",
        "test_writing_by_habit.py",
        "test_time_zones.py",
        "test_tables_of_the_catalog.py",
        "test_views.py",
    ]
    FILES += ["test_source_errors.py", "test_reading_by_habit.py", "test_habit_page.py"]
    FILES += ["test_legs.py", "test_commit_safety.py", "test_cleaning.py", "test_sql_rows.py", "test_odd_statements.py"]
    FILES += ["test_procedures.py", "test_catalog_statements.py", "test_alter_statements.py", "test_names_of_tables.py"]
    FILES += ["test_merge_into.py", "test_streams_by_name.py"]
    ONLY = ""


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_the_pipeline_under_spark_connect() -> None:
    """Reads and writes work under `remote("local[2]")`, without `_jvm` or `sparkContext`, as on a classic session."""
    marks = "not classic" if os.environ.get("LAKELATCH_NIGHTLY") else "not classic and not slow"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", marks, "-k", ONLY]
    command += ["--confcutdir", str(HERE.parent)]
    # A classic session leaves variables in the environment that would make the child look for its JVM.
    inherited = {
        k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_GATEWAY", "PYSPARK_SUBMIT"))
    }
    environment = {**inherited, "LAKELATCH_SPARK": "connect"}
    done = subprocess.run(
        [*command, *(str(HERE / name) for name in FILES)],
        cwd=HERE.parents[1],
        env=environment,
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    tell(f"Spark Connect: {done.stdout.strip().splitlines()[-1]}")
    assert int(passed[1]) >= 17
