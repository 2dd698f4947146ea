"""`tag` and `undo`: names are made, listed, replaced, renamed and deleted; what deletes or commits shows its plan first."""

from __future__ import annotations

from typing import Any

import pytest

import lakelatch as ll


def names(table: ll.Table) -> list[tuple[str, int]]:
    return [(tag.name, tag.snapshot.id) for tag in table.tags()]


def test_a_tag_from_its_beginning_to_its_end(run: Any, flights: ll.Table) -> None:
    url = flights.url
    assert run("tag", "create", url, "eod", "--snapshot", 1).out == "tag eod: snapshot 1 with 3 rows\n"
    made = run("tag", "create", url, "newest", "--keep", "7 d", "--json").json
    assert (made["tag"], made["snapshot"], made["retained_ms"]) == ("newest", 3, 604_800_000)
    listed = run("tag", "list", url).out.splitlines()
    assert listed[0].split() == ["tag", "snapshot", "schema", "time", "rows", "created", "kept", "for"]
    assert listed[2].endswith("7 days, 0:00:00")
    assert [one["tag"] for one in run("tag", "list", url, "--json").lines] == ["eod", "newest"]
    assert len(run("read", url, "--tag", "eod", "--json").lines) == 3
    assert run("tag", "replace", url, "eod", "--snapshot", 2).code == 0
    assert run("tag", "rename", url, "eod", "eom", "--json").json["tag"] == "eom"
    assert names(flights) == [("eom", 2), ("newest", 3)]
    shown = run("tag", "delete", url, "eom")
    assert shown.out == "tag eom: 0 data files, 0 files of metadata\n"
    assert "--apply" in shown.err
    assert run("tag", "delete", url, "eom", "--json").json["applied"] is False
    assert run("tag", "delete", url, "eom", "--apply", "--json").json["tags"] == ["eom"]
    assert run("tag", "expire", url, "--apply").out == "no tag is deleted\n"
    assert names(flights) == [("newest", 3)]
    assert run("tag", "expire", url, "--older-than", 2**50, "--apply").code == 0
    assert names(flights) == []
    flights.alter(ll.set_option("tag.automatic-creation", "batch"), ll.set_option("tag.batch.customized-name", "done"))
    shown = run("tag", "auto", url)
    assert shown.out == "new tags: done of snapshot 3\n"
    assert "--apply" in shown.err
    assert run("tag", "auto", url, "--apply", "--json").json["made"] == [{"tag": "done", "snapshot": 3}]
    assert run("tag", "auto", url).out == "no new tag\n"
    assert names(flights) == [("done", 3)]


@pytest.mark.parametrize(
    "words",
    [
        ("create", "eod", "--keep", "soon"),
        ("create", "a/b"),
        ("create", "eod", "--snapshot", "9"),
        ("replace", "eod"),
        ("delete", "eod"),
        ("rename", "eod", "eom"),
        ("expire", "--older-than", "2026-01-01"),
    ],
)
def test_what_is_wrong_is_said(run: Any, flights: ll.Table, words: tuple[str, ...]) -> None:
    answer = run("tag", words[0], flights.url, *words[1:])
    assert answer.code == 2
    assert answer.err.startswith("error: ")


def test_undo_shows_first_and_commits_with_apply(run: Any, flights: ll.Table) -> None:
    wanted = flights.at(snapshot=2).count()
    shown = run("undo", flights.url, 3)
    assert shown.out.startswith("without snapshot 3 (")
    assert "--apply" in shown.err
    assert len(flights.snapshots()) == 3
    done = run("undo", flights.url, 3, "--apply", "--json").json
    assert (done["applied"], done["receipt"]["snapshot_id"]) == (True, 4)
    assert ll.open_table(flights.url).count() == wanted
    conflict = run("undo", flights.url, 3, "--apply")
    assert conflict.code == 3
    assert "snapshot 3 cannot be undone: snapshot 4 (OVERWRITE by " in conflict.err
    assert run("rollback", flights.url, "--timestamp", flights.snapshots()[2].time_ms, "--apply").code == 0
    assert run("verify", flights.url).code == 0


def test_undo_and_explain_of_a_commit_by_its_identity(run: Any, flights: ll.Table) -> None:
    flights.append(flights.to_arrow(limit=1), commit_user="etl", identifier=7)
    flights.append(flights.to_arrow(limit=1), commit_user="etl", identifier=8)
    newest = flights.snapshots()[-1].id
    assert f"snapshot {newest - 1} " in run("explain", flights.url, "--user", "etl", "--identifier", 7).out
    shown = run("undo", flights.url, "--user", "etl", "--identifier", 7)
    assert f"without snapshot {newest - 1} (APPEND by etl)" in shown.out
    assert run("undo", flights.url, "--user", "etl", "--identifier", 7, "--apply").code == 0
    for wrong in ((), (3, "--user", "etl"), ("--identifier", 3)):
        assert run("undo", flights.url, *wrong).code == 2
