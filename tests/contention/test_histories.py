"""Many processes that read and write a few keys at once: some serial order explains all that they did, and respects the time.

`LAKELATCH_NIGHTLY=1` has ten runs of twelve processes for five minutes each, and looks for planted bugs. It keeps what the
processes did in a file for each run, in `histories` under LAKELATCH_CACHE.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from contention.histories import COPIED, SCHEMA, UNDONE, Job, Record, history, judged_again, ops_of, rows
from figures import NIGHTLY, keep
from report import tell
from servers import S3Server

import lakelatch as ll
from lakelatch.lab.judging.contradictions import contradiction
from lakelatch.lab.judging.serial import by_publication

PROCESSES, MOST, SECONDS = (12, 1_000_000, 300.0) if NIGHTLY else (4, 10, 20.0)
TABLES: dict[str, tuple[bool, dict[str, str]]] = {
    "fixed buckets": (True, {"bucket": "2"}),
    "dynamic buckets": (True, {"bucket": "-1"}),
    "keys with a changelog": (True, {"bucket": "1", "changelog-producer": "input"}),
    "appends that ride": (False, {"commit.group": "auto"}),
    "vectors": (False, {"deletion-vectors.enabled": "true"}),
}
RUNS = [("local disk", kind) for kind in TABLES] + [("S3", kind) for kind in TABLES]
KEPT = Path(os.environ["LAKELATCH_CACHE"]) / "histories" if NIGHTLY else Path()
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
    kept = KEPT / f"{kind} on {place}.pickle".replace(" ", "-") if NIGHTLY else None
    found = history(url, given, options, keyed=keyed, processes=PROCESSES, most=MOST, seconds=SECONDS, kept=kept)
    figures.append(f"{kind} on {place}, {PROCESSES} processes for {SECONDS:.0f} s: {found}")
    assert not found.wrong, found.wrong
    assert found.commits >= PROCESSES


def test_what_takes_rows_away_comes_before_those_that_came_meanwhile(tmp_path: Path) -> None:
    """A truncation removes what it has read. Its snapshot shows who came later, though none of the few keys does."""
    table = ll.create_table(str(tmp_path / "t"), SCHEMA)
    job = Job(table, "J", False, random.Random(1), {}, {})
    records = [
        Record(
            commit, (str(key),), began=began, ended=began + 1, snapshot=table.append(rows(commit, [key])).snapshot_id
        )
        for commit, key, began in (("A", 1001, 0.0), ("B", 1002, 3.0), ("C", 1003, 5.0))
    ]
    table.delete(where="id = 1001")
    records += [Record("T", ("*",), began=2.0, ended=9.0, snapshot=table.snapshots()[-1].id)]
    for record in records:
        job._look(record)
    assert [set(record.shows) - {*"1234"} for record in records] == [{"1001"}, {"1002"}, {"1003"}, {"1002", "1003"}]
    left = {"1002": "B", "1003": "C"}
    order, placed = by_publication(ops_of(records), left)
    assert (order, placed) == (("A", "T", "B", "C"), 4)


def test_what_came_beside_a_rollback_counts_in_its_snapshot() -> None:
    """B lands while R goes back to A; S then goes back to R, whose snapshot has B."""
    records = [
        Record("A", ("1",), began=0.0, ended=1.0, snapshot=1, shows={"1": "A"}),
        Record("X", ("3",), began=2.0, ended=2.5, snapshot=2, shows={"3": "X"}),
        Record("B", ("2",), began=4.0, ended=6.0, snapshot=3, shows={"2": "B"}),
        Record("R", back_to=1, began=3.0, ended=7.0, snapshot=4, shows={"1": "A", "2": "B", "3": ""}),
        Record("C", ("2",), began=8.0, ended=9.0, snapshot=5, shows={"2": "C"}),
        Record("S", back_to=4, began=10.0, ended=11.0, snapshot=6, shows={"1": "A", "2": "B", "3": ""}),
    ]
    assert contradiction(ops_of(records), {"1": "A", "2": "B"}) == ""
    assert contradiction(ops_of(records), {"1": "A"}) != ""
    assert contradiction(ops_of(records), {"1": "A", "2": "B", "3": "X"}) != ""


def test_a_delete_beside_a_rollback_counts_in_its_snapshot() -> None:
    """D deletes key 2 while R goes back to A, which has one; S then goes back to R, whose snapshot has none."""
    records = [
        Record("A", ("1", "2"), began=0.0, ended=1.0, snapshot=1, shows={"1": "A", "2": "A"}),
        Record("X", ("3",), began=2.0, ended=2.5, snapshot=2, shows={"3": "X"}),
        Record("D", ("-2",), began=4.0, ended=6.0, snapshot=3, shows={"2": ""}),
        Record("R", back_to=1, began=3.0, ended=7.0, snapshot=4, shows={"1": "A", "2": "", "3": ""}),
        Record("C", ("2",), began=8.0, ended=9.0, snapshot=5, shows={"2": "C"}),
        Record("S", back_to=4, began=10.0, ended=11.0, snapshot=6, shows={"1": "A", "2": "", "3": ""}),
    ]
    assert contradiction(ops_of(records), {"1": "A"}) == ""
    assert contradiction(ops_of(records), {"1": "A", "2": "A"}) != ""
    assert contradiction(ops_of(records), {"1": "A", "2": "C"}) != ""


def test_a_history_that_was_kept_is_judged_again(tmp_path: Path) -> None:
    kept = tmp_path / "kept" / "history.pickle"
    found = history(
        str(tmp_path / "t"), {}, {"bucket": "1"}, keyed=True, processes=1, most=4, seconds=20.0, kept=kept, seed=3
    )
    assert judged_again(kept) == found


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("bug", "kind", "mix"),
    [
        ("an older job under a change of rows", "fixed buckets", None),
        ("an undo takes the whole snapshot back", "appends that ride", UNDONE),
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
