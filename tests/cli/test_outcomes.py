"""`resolve` and `recover` find out how a commit ended after its writer died."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import lakelatch as ll

WRITER = """
import sys, os, lakelatch as ll, pyarrow as pa
from lakelatch.backends.local import LocalStore
create = LocalStore.put_if_absent
def dying(self, key, data):
    if key.startswith("snapshot/snapshot-"):
        if sys.argv[3] == "after":
            create(self, key, data)
        os._exit(9)
    return create(self, key, data)
LocalStore.put_if_absent = dying
ll.open_table(sys.argv[1], journal=sys.argv[2]).append(
    pa.table({"carrier": ["AA"], "month": pa.array([1], pa.int32())}), commit_user="etl", identifier=7)
"""


@pytest.fixture
def crash(tmp_path: Path, flights: ll.Table) -> Any:
    """A function that lets a writer process die before or after its publish, and returns the path of its journal."""

    def crashed(when: str = "before", journal: str | None = None) -> str:
        where = journal or str(tmp_path / "journal.jsonl")
        command = [sys.executable, "-c", WRITER, flights.url, where, when]
        assert subprocess.run(command, check=False).returncode == 9
        return where

    return crashed


def test_resolve_finishes_a_commit_by_its_identity(run: Any, flights: ll.Table, crash: Any) -> None:
    journal = crash()
    words = ["resolve", flights.url, "--journal", journal, "--user", "etl", "--identifier", 7]
    waiting = run(*words, "--json")
    assert (waiting.code, waiting.json["outcome"]) == (4, "in flight")
    done = run(*words, "--writers-are-gone", "--json")
    assert (done.code, done.json["outcome"], done.json["snapshot_id"]) == (0, "finished", 4)
    again = run(*words, "--json")
    assert (again.code, again.json["outcome"], again.json["known"]) == (0, "landed", True)
    assert run("resolve", flights.url, "--user", "etl", "--identifier", 7, "--json").json["snapshot_id"] == 4
    uuid = again.json["snapshot_uuid"]
    assert run("resolve", flights.url, "--snapshot-uuid", uuid, "--json").json["outcome"] == "landed"


@pytest.mark.parametrize("journal", [None, "object"])
def test_resolve_finds_a_commit_that_landed_before_the_crash(
    run: Any, flights: ll.Table, crash: Any, journal: str | None
) -> None:
    """It reads the given journal, or by default the one beside the table."""
    where = crash("after", journal)
    words = ["resolve", flights.url] if journal else ["resolve", flights.url, "--journal", where]
    done = run(*words, "--writers-are-gone")
    assert done.code == 0
    assert done.out.splitlines()[1].split()[:3] == ["landed", "etl", "7"]
    assert run(*words).err == "no commits\n"


def test_resolve_reports_that_another_writer_won(run: Any, tmp_path: Path, flights: ll.Table, crash: Any) -> None:
    """Exit code 3, as for a conflict: nothing of the commit landed, so the job can run again."""
    journal = crash()
    flights.append(flights.to_arrow())
    done = run("resolve", flights.url, "--journal", journal, "--writers-are-gone", "--json")
    assert (done.code, done.json["outcome"]) == (3, "not landed")
    assert "another writer" in done.json["reason"]


def test_resolve_of_an_identity_that_another_run_landed_is_zero(
    run: Any, tmp_path: Path, flights: ll.Table, crash: Any
) -> None:
    """One run of the job lost, the next one landed: the job must not run again."""
    journal = crash()
    flights.append(flights.to_arrow())
    words = ["resolve", flights.url, "--journal", journal, "--user", "etl", "--identifier", 7, "--writers-are-gone"]
    assert run(*words, "--json").json["outcome"] == "not landed"
    for number in (9, 7):  # a later run does not hide it
        receipt = flights.append(flights.to_arrow(), commit_user="etl", identifier=number)
    done = run(*words, "--json")
    assert (done.code, done.json["outcome"], done.json["snapshot_id"]) == (0, "landed", receipt.snapshot_id)
    by_user = run("resolve", flights.url, "--journal", journal, "--user", "etl", "--writers-are-gone", "--json")
    assert (by_user.code, by_user.json["outcome"]) == (0, "landed")


def test_resolve_of_an_identity_that_may_have_landed_is_unknown(run: Any, tmp_path: Path, flights: ll.Table) -> None:
    """An earlier version remembered the last identifier of a user only."""
    flights.append(flights.to_arrow(), commit_user="etl", identifier=9)
    newest = max(Path(flights.url).glob("snapshot/snapshot-*"))
    told = json.loads(newest.read_text())
    remembered = json.loads(told["properties"]["lakelatch.identifiers"])
    del remembered["landed"]
    told["properties"]["lakelatch.identifiers"] = json.dumps(remembered)
    newest.write_text(json.dumps(told))
    done = run("resolve", flights.url, "--user", "etl", "--identifier", 7, "--json")
    assert (done.code, done.json["outcome"]) == (4, "unknown")
    assert "may have landed" in done.json["reason"]
    assert run("resolve", flights.url, "--user", "etl", "--identifier", 9).code == 0


def test_resolve_without_a_journal_proves_nothing_missing(run: Any, tmp_path: Path, flights: ll.Table) -> None:
    done = run("resolve", flights.url, "--user", "etl", "--identifier", 8, "--json")
    assert (done.code, done.json["outcome"]) == (4, "unknown")
    assert run("resolve", flights.url, "--identifier", 8).code == 2
    assert run("resolve", flights.url, "--journal", tmp_path / "none").code == 2


def test_recover_shows_first_and_finishes_with_apply(run: Any, flights: ll.Table, crash: Any) -> None:
    journal = crash()
    dry = run("recover", journal, "--writers-are-gone")
    assert dry.code == 4
    assert "nothing was changed" in dry.err
    assert len(flights.snapshots()) == 3
    done = run("recover", journal, "--writers-are-gone", "--apply", "--json")
    assert (done.code, [json.loads(line)["outcome"] for line in done.out.splitlines()]) == (0, ["finished"])
    assert len(flights.snapshots()) == 4
    again = run("recover", journal, "--json")
    assert (again.code, again.json["outcome"]) == (0, "landed")
    assert run("recover", "/no/such/thing").code == 2
