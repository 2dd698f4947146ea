"""The report of a recovery as a value: as JSON, by its endings, and one commit of it by what a caller knows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakelatch.coordinator.recovery.recover import RecoveredCommit, Recovery, find_one
from lakelatch.core.errors import InvalidArgument


def commit(**fields: Any) -> RecoveredCommit:
    made: dict[str, Any] = {
        "commit": "c",
        "table": "/t",
        "branch": "main",
        "commit_user": "etl",
        "identifier": 7,
        "kind": "APPEND",
        "outcome": "landed",
    }
    return RecoveredCommit(**{**made, **fields})


def test_a_commit_as_json_has_every_field() -> None:
    assert json.loads(json.dumps(commit(cleaned=("a", "b"), reason="why", snapshot_id=3).to_dict())) == {
        "commit": "c",
        "table": "/t",
        "branch": "main",
        "commit_user": "etl",
        "identifier": 7,
        "kind": "APPEND",
        "outcome": "landed",
        "reason": "why",
        "snapshot_id": 3,
        "snapshot_uuid": None,
        "cleaned": ["a", "b"],
        "known": False,
    }


def test_commits_that_have_to_be_recovered_again_are_the_unknown_ones() -> None:
    endings = ("landed", "finished", "not landed", "in flight", "unknown")
    report = Recovery(tuple(commit(outcome=ending) for ending in endings))
    assert [c.outcome for c in report.unknown] == ["in flight", "unknown"]
    assert [c.outcome for c in report.of("landed", "finished")] == ["landed", "finished"]
    assert (report.damaged, str(Recovery(()))) == ((), "no commits")


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ((None, None, None), "abcd"),
        (("etl", None, None), "abd"),
        (("etl", 7, None), "ad"),
        (("etl", 8, None), "b"),
        (("other", 7, None), "c"),
        ((None, None, "x"), "ab"),
        (("etl", 7, "x"), "a"),
        (("etl", 7, "z"), ""),
    ],
)
def test_one_commit_is_found_by_what_the_caller_knows_of_it(
    asked: tuple[str | None, int | None, str | None], meant: str
) -> None:
    commits = [
        commit(commit="a", snapshot_uuid="x"),
        commit(commit="b", identifier=8, snapshot_uuid="x"),
        commit(commit="c", commit_user="other", snapshot_uuid="y"),
        commit(commit="d"),
    ]
    assert "".join(c.commit for c in commits if find_one(*asked)(c)) == meant


def test_an_identifier_alone_names_no_commit() -> None:
    with pytest.raises(InvalidArgument, match="commit user"):
        find_one(None, 7, None)
    with pytest.raises(InvalidArgument):
        find_one(None, 0, "x")
