"""Merges of random rows beside Apache Paimon 2.0.0 (Java): every function, type and option (G8).

No registry has 2.0.0, so that it runs where its jar is (`spark_env.connector`). The rows that it made of some seeds are recorded,
and the unit tests hold them everywhere; here they are compared with what the jar gives.
Run as a program, this module records them anew.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import java_home
import pytest
from figures import NIGHTLY
from interop.spark_env import connector
from merge_cases import RECORDED_SEEDS, MergeCase, merge_cases, record, recorded
from merge_differences import differences

pytestmark = pytest.mark.given

CHILD = Path(__file__).with_name("paimon_2_child.py")
SEEDS = range(60 if NIGHTLY else 5)


@contextmanager
def started(jar: Path | None) -> Iterator[subprocess.Popen[str] | None]:
    """The process with 2.0.0; None where its jar is not there."""
    if jar is None:
        yield None
        return
    environment = {**os.environ, "JAVA_HOME": str(java_home.wire())}
    command = [sys.executable, str(CHILD), str(jar)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture(scope="module")
def paimon_2() -> Iterator[subprocess.Popen[str] | None]:
    with started(connector()) as made:
        yield made


def theirs(process: subprocess.Popen[str] | None, case: MergeCase, known: dict[str, list[Any]]) -> list[Any] | None:
    """What 2.0.0 makes of a table; None if nobody here knows."""
    if process is None:
        return known.get(case.name)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(json.dumps([case.columns, case.options, case.rows]) + "\n")
    process.stdin.flush()
    return list(json.loads(process.stdout.readline()))


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_are_merged_as_2_0_merges_them(seed: int, paimon_2: subprocess.Popen[str] | None) -> None:
    known, wrong, count = recorded(), [], 0
    for case in merge_cases(seed):
        rows = theirs(paimon_2, case, known)
        if rows is not None:
            assert rows == known.get(case.name, rows), f"{case.name}: 2.0.0 no longer gives what was recorded"
            wrong += differences(case, rows)
            count += len(rows)
    assert not wrong, f"{len(wrong)} of {count} differ:\n" + "\n".join(wrong[:20])


if __name__ == "__main__":
    with started(connector()) as made:
        record({case.name: theirs(made, case, {}) or [] for seed in RECORDED_SEEDS for case in merge_cases(seed)})
