"""`branch`: what it shows, what it changes with --apply, and what else takes --branch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lakelatch as ll


def test_the_life_of_a_branch(run: Any, flights: ll.Table) -> None:
    url = flights.url
    assert run("branch", "list", url).out.split() == ["branch", "created", "snapshot", "schema", "tags"]
    made = run("branch", "create", url, "dev", "--snapshot", 3)
    assert (made.code, made.out) == (0, "created branch 'dev': snapshot 3, schema 0, 1 tags\n")
    rows = Path(url).parent / "rows.csv"
    rows.write_text("carrier,delay,month\nZZ,1.00,9\n")
    assert run("write", url, rows, "--branch", "dev").code == 0
    assert run("read", url, "--branch", "dev", "--where", "month = 9", "--json").json["carrier"] == "ZZ"
    assert run("read", url, "--where", "month = 9", "--json").out == ""
    (listed,) = run("branch", "list", url, "--json").lines
    assert listed["created_ms"] > 0
    assert listed | {"created_ms": 0} == {"branch": "dev", "created_ms": 0, "snapshot": 4, "schema": 0, "tags": 1}
    plan = run("branch", "fast-forward", url, "dev")
    assert plan.out == "main gets snapshot 4 of branch 'dev', 0 schemas, 0 tags: 6 rows\n"
    assert "nothing was changed" in plan.err
    assert flights.timeline.snapshot_ids() == [1, 2, 3]
    done = run("branch", "fast-forward", url, "dev", "--apply", "--json").json
    assert done == {"applied": True, "branch": "dev", "from": 3, "snapshots": [4], "schemas": [], "tags": [], "rows": 6}
    assert flights.timeline.snapshot_ids() == [1, 2, 3, 4]
    assert (
        run("branch", "rename", url, "dev", "next").out == "'dev' is now branch 'next': snapshot 4, schema 0, 2 tags\n"
    )
    planned = run("branch", "delete", url, "next")
    assert planned.out.startswith("branch 'next': snapshot 4, ")
    assert "nothing was deleted" in planned.err
    assert run("branch", "delete", url, "next", "--apply", "--json").json["applied"]
    assert not (Path(url) / "branch" / "branch-next").exists(), "Apache Paimon would take an empty folder for a branch"
    refused = run("branch", "delete", url, "next", "--json")
    assert (refused.code, refused.error["code"]) == (2, "invalid-argument")


@pytest.mark.parametrize("words", [["create", "dev"], ["delete", "x"], ["fast-forward", "x"], ["rename", "x", "y"]])
def test_what_is_refused_says_why(run: Any, flights: ll.Table, words: list[str]) -> None:
    flights.create_branch("dev", snapshot=1)
    action, *names = words
    answer = run("branch", action, flights.url, *names)
    assert answer.code != 0
    assert answer.err.startswith("error: ")
    assert "next: " in answer.err


def test_a_moved_main_is_a_conflict(run: Any, flights: ll.Table) -> None:
    flights.create_branch("dev", snapshot=2)
    assert run("branch", "fast-forward", flights.url, "dev").out == "branch 'dev' has nothing that main lacks\n"
    flights.branch("dev").truncate()
    answer = run("branch", "fast-forward", flights.url, "dev", "--apply")
    assert answer.code == 3
    assert "snapshot 3 (OVERWRITE" in answer.err
