"""`lakelatch system` shows system tables in every output format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import lakelatch as ll


def test_system_tables_in_the_shell(run: Any, flights: ll.Table, tmp_path: Path) -> None:
    answer = run(
        "system",
        flights.url,
        "snapshots",
        "--json",
        "--where",
        "snapshot_id >= 2",
        "--columns",
        "snapshot_id,commit_kind",
    )
    assert answer.code == 0
    assert [row["snapshot_id"] for row in answer.lines] == [s.id for s in flights.snapshots()][1:]
    assert set(answer.lines[0]) == {"snapshot_id", "commit_kind"}
    shown = run("system", flights.url, "options")
    assert shown.code == 0 and shown.out.split()[:2] == ["key", "value"]
    old = run("system", flights.url, "files", "--snapshot", "1", "--json")
    assert len(old.lines) == flights.at(snapshot=1).files().num_rows
    assert old.lines[0]["min_value_stats"].startswith("{")
    target = tmp_path / "audit.parquet"
    assert run("system", flights.url, "audit_log", "--output", target).code == 0
    assert pq.read_table(target).num_rows == flights.count()
    wrong = run("system", flights.url, "snapshot", "--json")
    assert (
        wrong.code == 2
        and "no system table 'snapshot'" in wrong.error["message"]
        and "snapshots" in wrong.error["next_step"]
    )


def test_statistics_and_manifests_in_the_shell(run: Any, flights: ll.Table) -> None:
    tried = run("analyze", flights.url, "--dry-run", "--json")
    assert tried.code == 0 and tried.json["row_count"] == flights.count() and not tried.json["committed"]
    assert flights.statistics() is None
    shown = run("analyze", flights.url, "--columns", flights.schema.names[0])
    assert shown.code == 0 and "distinct" in shown.out
    assert (known := flights.statistics()) is not None and list(known.columns) == [flights.schema.names[0]]

    before = flights.snapshot()
    plan = run("compact", flights.url, "--manifests")
    assert plan.code == 0 and "would be merged" in plan.out and flights.snapshot() == before
    done = run("compact", flights.url, "--manifests", "--apply", "--json")
    assert done.json["manifests_after"] == 1 and done.json["snapshot_id"] == flights.snapshot().id  # type: ignore[union-attr]
    assert "nothing to compact" in run("compact", flights.url, "--manifests").out
    wrong = run("compact", flights.url, "--manifests", "--full")
    assert wrong.code == 2 and "--manifests and --full" in wrong.err


def test_indexes_of_existing_files_in_the_shell(run: Any, flights: ll.Table) -> None:
    column = next(f.name for f in flights.schema.fields if f.name not in flights.schema.partition_keys)
    assert "nothing to index" in run("rewrite-file-index", flights.url).out
    flights.alter(ll.set_option("file-index.bloom-filter.columns", column))
    before, count = flights.snapshot(), flights.files().num_rows
    plan = run("rewrite-file-index", flights.url)
    assert plan.code == 0 and f"{count} of {count} files" in plan.out and flights.snapshot() == before
    done = run("rewrite-file-index", flights.url, "--apply", "--json")
    assert (done.json["files_indexed"], done.json["applied"]) == (count, True)
    assert "nothing to index" in run("rewrite-file-index", flights.url, "--apply").out
