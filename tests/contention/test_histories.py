"""Many processes that read and write a few keys at once: some serial order explains all that they did, and respects the time.

`LAKELATCH_NIGHTLY=1` has ten runs of twelve processes for five minutes each, and looks for a planted bug.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from contention.histories import COPIED, history
from figures import NIGHTLY
from report import tell
from servers import S3Server

PROCESSES, MOST, SECONDS = (12, 1_000_000, 300.0) if NIGHTLY else (4, 10, 20.0)
RUNS = 2 if NIGHTLY else 1
TABLES: dict[str, tuple[bool, dict[str, str]]] = {
    "fixed buckets": (True, {"bucket": "2"}),
    "dynamic buckets": (True, {"bucket": "-1"}),
    "appends that ride": (False, {"commit.group": "auto"}),
    "vectors": (False, {"deletion-vectors.enabled": "true"}),
}
BY_DAY = ("fixed buckets", "appends that ride")


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(RUNS))
@pytest.mark.parametrize("kind", TABLES if NIGHTLY else BY_DAY)
def test_some_serial_order_explains_what_processes_did(kind: str, seed: int, tmp_path: Path) -> None:
    keyed, options = TABLES[kind]
    found = history(
        str(tmp_path / "t"), {}, options, keyed=keyed, processes=PROCESSES, most=MOST, seconds=SECONDS, seed=seed
    )
    tell(f"histories, {kind}: {found}")
    assert not found.wrong, found.wrong
    assert found.commits >= PROCESSES


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(RUNS))
def test_some_serial_order_explains_what_processes_did_on_s3(seed: int, s3_host: S3Server) -> None:
    url, given = f"s3://{s3_host.create_bucket()}/t", s3_host.storage_options()
    own: Any = given
    found = history(url, own, {"bucket": "2"}, keyed=True, processes=PROCESSES, most=MOST, seconds=SECONDS, seed=seed)
    tell(f"histories on S3: {found}")
    assert not found.wrong, found.wrong
    assert found.commits >= PROCESSES


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("bug", "kind", "mix"),
    [
        ("an older job under a change of rows", "fixed buckets", None),
        ("an undo takes the whole snapshot back", "appends that ride", None),
        ("a clone carries the intents of its source", "appends that ride", COPIED),
    ],
)
def test_a_planted_bug_shows_within_a_minute(
    bug: str, kind: str, mix: Mapping[str, float] | None, tmp_path: Path
) -> None:
    keyed, options = TABLES[kind]
    url = str(tmp_path / "t")
    found = history(url, {}, options, keyed=keyed, processes=8, most=10**6, seconds=60.0, bug=bug, kinds=mix)
    tell(f"histories with a planted bug, {bug}: {found}")
    assert found.wrong.startswith(("no serial order of ", "the clone "))
