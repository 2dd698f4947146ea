"""Which Python processes begin with lakelatch imported: the daemons of the tests' own sessions, and no other."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import ready_workers

OURS = "lakelatch.spark.source_writer"


def imported(*arguments: str) -> str:
    """What a Python process says that it has imported; a daemon ends, with status 1, where its input does."""
    environment = {**os.environ, **ready_workers.environment(), "PYTHONPROFILEIMPORTTIME": "1"}
    done = subprocess.run(
        [sys.executable, *arguments],
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        timeout=120,
    )
    return done.stderr


def test_a_worker_that_plans_is_forked_with_everything_imported() -> None:
    lines = imported("-m", "pyspark.daemon", "pyspark.sql.worker.plan_data_source_read").splitlines()
    assert OURS in {line.split("|")[-1].strip() for line in lines}


@pytest.mark.parametrize(
    "arguments", [("-c", "pass"), ("-m", "pyspark.daemon", "pyspark.sql.worker.lookup_data_sources")]
)
def test_other_processes_import_nothing_of_ours(arguments: tuple[str, ...]) -> None:
    assert "lakelatch" not in imported(*arguments)


def test_the_path_is_that_of_the_next_java_alone() -> None:
    before = os.environ["PYTHONPATH"]
    with ready_workers.on_the_path():
        assert os.environ["PYTHONPATH"].split(os.pathsep)[1:] == before.split(os.pathsep)
    assert os.environ["PYTHONPATH"] == before
