"""The command `follow`: changes as lines, with the position at which another run goes on."""

from __future__ import annotations

from typing import Any

import lakelatch as ll


def test_changes_are_lines_and_the_position_is_where_the_next_run_begins(run: Any, flights: ll.Table) -> None:
    newest = flights.snapshot()
    assert newest is not None
    answer = run("follow", flights.url, "--start", "earliest", "--wait", "0", "--json")
    assert answer.code == 0, answer.err
    changes = [line for line in answer.lines if "_position" not in line]
    positions = [line["_position"] for line in answer.lines if "_position" in line]
    assert [row["_snapshot_id"] for row in changes] == sorted(row["_snapshot_id"] for row in changes)
    assert len(positions) == newest.id
    again = run("follow", flights.url, "--start", positions[-2], "--wait", "0", "--json")
    assert again.lines == [*(row for row in changes if row["_snapshot_id"] == newest.id), {"_position": positions[-1]}]
    shown = run("follow", flights.url, "--start", newest.id, "--wait", "0")
    assert "_row_kind" in shown.out
    assert f"snapshot {newest.id}: 0 behind; position {newest.id}@" in shown.err
    assert run("follow", flights.url, "--start", "nowhere").code == 2


def test_a_run_may_begin_with_all_rows(run: Any, flights: ll.Table) -> None:
    answer = run("follow", flights.url, "--full", "--wait", "0", "--json")
    assert len([line for line in answer.lines if "_position" not in line]) == flights.count()
