"""Many processes that read and write a few keys at once: some serial order explains all that they did, and respects the time.

`LAKELATCH_NIGHTLY=1` has ten runs of twelve processes for five minutes each, and looks for a planted bug.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from contention.histories import COPIED, history
from figures import NIGHTLY, keep
from report import tell
from servers import S3Server

PROCESSES, MOST, SECONDS = (12, 1_000_000, 300.0) if NIGHTLY else (4, 10, 20.0)
TABLES: dict[str, tuple[bool, dict[str, str]]] = {
    "fixed buckets": (True, {"bucket": "2"}),
    "dynamic buckets": (True, {"bucket": "-1"}),
    "keys with a changelog": (True, {"bucket": "1", "changelog-producer": "input"}),
    "appends that ride": (False, {"commit.group": "auto"}),
    "vectors": (False, {"deletion-vectors.enabled": "true"}),
}
RUNS = [("local disk", kind) for kind in TABLES] + [("S3", kind) for kind in TABLES]
BY_DAY = [("local disk", "fixed buckets"), ("local disk", "appends that ride"), ("S3", "fixed buckets")]


@pytest.fixture(scope="module")
def figures() -> Iterator[list[str]]:
    """The results as lines, which are saved in docs/guarantees.md."""
    lines: list[str] = []
    yield lines
    if lines:
        keep("guarantees.md", "histories", "\n".join(f"* {line}" for line in lines))


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("place", "kind"), RUNS if NIGHTLY else BY_DAY)
def test_some_serial_order_explains_what_processes_did(
    place: str, kind: str, tmp_path: Path, figures: list[str], request: pytest.FixtureRequest
) -> None:
    url, given = str(tmp_path / "t"), dict[str, Any]()
    if place == "S3":
        host: S3Server = request.getfixturevalue("s3_host")
        url, given = f"s3://{host.create_bucket()}/t", dict(host.storage_options())
    keyed, options = TABLES[kind]
    found = history(url, given, options, keyed=keyed, processes=PROCESSES, most=MOST, seconds=SECONDS)
    figures.append(f"{kind} on {place}, {PROCESSES} processes for {SECONDS:.0f} s: {found}")
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
