"""A snapshot of ours that another engine renamed over: who reports it, and what the next commit answers (G1's limit, G2)."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.coordinator.commit.attempt import WRITER_VERSION

ROWS = pa.table({"v": pa.array([1], pa.int64())})


def rows(*values: int) -> Any:
    return pa.table({"v": pa.array(values, pa.int64())})


def made(tmp_path: Path, **how: Any) -> ll.Table:
    table = ll.create_table(tmp_path / "t", ROWS.schema, **how)
    table.append(rows(1))
    return table


def renamed_over(table: ll.Table, number: int, value: int) -> None:
    """Put a snapshot of another engine, built on the one below, in the place of this one."""
    other = ll.open_table(table.url)
    folder = Path(table.url)
    name = folder / f"snapshot/snapshot-{number}"
    name.unlink()
    other.append(rows(value))
    raw = json.loads(name.read_text())
    assert raw["id"] == number
    raw["writerVersion"] = "paimon-1.4.2"
    raw["properties"] = None
    raw["commitUser"] = "java"
    name.write_text(json.dumps({k: v for k, v in raw.items() if v is not None}))


def values(table: ll.Table) -> list[int]:
    return sorted(ll.open_table(table.url).to_arrow()["v"].to_pylist())


def errors(table: ll.Table) -> list[str]:
    return [str(finding) for finding in table.verify() if finding.severity == "error"]


def test_the_next_commit_of_the_same_table_is_committed_as_everybody_reads_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """G2: it was answered that the rows were not added, and they were."""
    table = made(tmp_path)
    table.append(rows(2))
    renamed_over(table, 2, 77)
    with caplog.at_level(logging.WARNING, "lakelatch"):
        receipt = table.append(rows(3), commit_user="etl", identifier=1)
    assert (receipt.snapshot_id, receipt.replayed) == (3, False)
    assert values(table) == [1, 2, 3]
    assert "snapshot 2, on which snapshot 3 was built, was replaced by another" in caplog.text
    again = ll.open_table(table.url).append(rows(3), commit_user="etl", identifier=1)
    assert (again.snapshot_id, again.replayed) == (3, True), "also for a rerun in another process"
    assert any("another writer has replaced that one" in line for line in errors(ll.open_table(table.url)))
    assert values(table) == [1, 2, 3]


def test_a_commit_whose_base_moved_over_a_snapshot_that_is_gone_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Another process has committed on top: no base tells of it any more."""
    table = made(tmp_path)
    table.append(rows(2), commit_user="etl", identifier=1)
    renamed_over(table, 2, 77)
    ll.open_table(table.url).append(rows(3))
    with caplog.at_level(logging.WARNING, "lakelatch"):
        receipt = table.append(rows(4))
    assert receipt.snapshot_id == 4
    assert "snapshot 2 of 'etl' was committed, and another writer (java) has put its own in its place" in caplog.text
    told = [line for line in errors(ll.open_table(table.url)) if "lakelatch.replaced" in line]
    assert len(told) == 1 and "snapshot 2 of identity" in told[0] and "(etl)" in told[0]
    assert ll.open_table(table.url).append(rows(2), commit_user="etl", identifier=1).replayed is False
    assert values(table) == [1, 2, 3, 4, 77], "run again under its identity, it is there"
    table.append(rows(5))
    assert "lakelatch.replaced" not in table.snapshots()[-1].properties, "said once"


def test_a_race_that_another_engine_wins_says_so_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It has renamed over the base, and then committed once more."""
    table = made(tmp_path)
    table.append(rows(2))
    renamed_over(table, 2, 77)
    ll.open_table(table.url).append(rows(78))
    top = Path(table.url) / "snapshot/snapshot-3"
    raw = json.loads(top.read_text())
    assert raw["writerVersion"] == WRITER_VERSION
    top.write_text(json.dumps({k: v for k, v in raw.items() if k != "properties"} | {"writerVersion": "paimon-1.4.2"}))
    with caplog.at_level(logging.WARNING, "lakelatch"):
        assert table.append(rows(4)).snapshot_id == 4
    assert "snapshot 2 of" in caplog.text
    assert values(table) == [1, 4, 77, 78]


@pytest.mark.parametrize("journal", [None, "journal.jsonl"])
def test_verify_finds_what_the_journal_reports_as_landed(tmp_path: Path, journal: str | None) -> None:
    """That of a file also in another process."""
    path = None if journal is None else str(tmp_path / journal)
    table = made(tmp_path, journal=path)
    table.append(rows(2), commit_user="etl", identifier=1)
    assert errors(table) == []
    renamed_over(table, 2, 77)
    ll.open_table(table.url).append(rows(3))
    asked = table if path is None else ll.open_table(table.url, journal=path)
    (found,) = errors(asked)
    assert "snapshot/snapshot-2" in found and "etl/1 landed in it" in found and "replaced by" in found
    assert errors(ll.open_table(table.url)) == [], "nothing else tells of it"


def test_a_journal_tells_nothing_of_another_table_or_of_what_expired(tmp_path: Path) -> None:
    path = str(tmp_path / "journal.jsonl")
    table = made(tmp_path, journal=path)
    for value in (2, 3, 4):
        table.append(rows(value))
    table.committer.settle()
    Path(table.url, "snapshot/snapshot-1").unlink()
    Path(table.url, "snapshot/EARLIEST").write_text("2")
    assert errors(ll.open_table(table.url, journal=path)) == []
    import shutil

    shutil.rmtree(table.url)
    anew = ll.create_table(table.url, ROWS.schema, journal=path)
    anew.append(rows(1))
    assert errors(anew) == []
