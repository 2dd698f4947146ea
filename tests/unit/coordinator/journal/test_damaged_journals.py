"""Journals that were damaged, truncated or written by an older version: what is still reported, and what is left alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fragile import ROWS, Died, Fragile, die, dying_in_the_second_attempt, names, only, opened, recovered, snapshots

import lakelatch as ll
from lakelatch.coordinator.journal.file_journal import FileJournal
from lakelatch.coordinator.journal.lines import Damage, read_journal, read_lines
from lakelatch.coordinator.journal.object_journal import FOLDER, ObjectJournal
from lakelatch.core.errors import TableCorrupt

DAMAGED = b'{"commit": ?, "event": "TakenOver", "at_ms": 1}'


@pytest.fixture
def store() -> Fragile:
    return Fragile()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


def dies_while_sending(store: Fragile, journal: Any, snapshot_id: int, **identity: Any) -> None:
    store.before[f"create snapshot/snapshot-{snapshot_id}"] = die
    with pytest.raises(Died):
        opened(store, journal).append(ROWS, **identity)


def lines_of(path: Path) -> list[bytes]:
    return [line for line in path.read_bytes().split(b"\n") if line]


def test_commits_that_a_damaged_line_cannot_belong_to_are_recovered(store: Fragile, path: Path) -> None:
    """A commit that ended before the line, and one that began after it; the one in between is left alone, and reported so."""
    opened(store, FileJournal(path)).append(ROWS, commit_user="ended", identifier=1)
    dies_while_sending(store, FileJournal(path), 2, commit_user="open", identifier=1)
    with path.open("ab") as file:
        file.write(DAMAGED + b"\n")
    number = path.read_bytes().split(b"\n").index(DAMAGED) + 1
    dies_while_sending(store, FileJournal(path), 2, commit_user="later", identifier=1)
    found = recovered(lambda: FileJournal(path), store)
    assert {c.commit_user: c.outcome for c in found.commits} == {
        "ended": "landed",
        "open": "unknown",
        "later": "finished",
    }
    (left,) = found.unknown
    assert f"{path}: line {number} is not a journal entry" in left.reason
    (damage,) = found.damaged
    assert f"{path}: line {number}" in damage
    assert damage in str(found)
    taken = {e.commit for e in entries_of(path) if type(e.event).__name__ == "TakenOver"}
    assert left.commit not in taken, "it is left alone, and its writer gets no mark"
    with pytest.raises(TableCorrupt, match=f"line {number}"):
        list(read_journal(path))


def entries_of(path: Path) -> list[Any]:
    return [line for line in FileJournal(path).lines() if hasattr(line, "event")]


@pytest.mark.parametrize("harm", [lambda line: DAMAGED, lambda line: b"\0" * len(line), lambda line: line[40:]])
def test_a_commit_with_any_damaged_line_is_left_alone(
    store: Fragile, path: Path, harm: Callable[[bytes], bytes]
) -> None:
    """The line may have recorded that the commit was given up, or finished by another process."""
    opened(store).append(ROWS)
    dies_while_sending(store, FileJournal(path), 2)
    whole = lines_of(path)
    for number in range(len(whole)):
        path.write_bytes(b"\n".join([*whole[:number], harm(whole[number]), *whole[number + 1 :]]) + b"\n")
        found = recovered(lambda: FileJournal(path), store)
        assert [c.outcome for c in found.commits] == (["unknown"] if number else []), number
        assert f"line {number + 1} " in found.damaged[0], number
        assert snapshots(store) == [1], number
    path.write_bytes(b"\n".join(whole) + b"\n")
    assert only(recovered(lambda: FileJournal(path), store)).outcome == "finished"


def test_a_journal_that_lacks_a_line_reports_its_commit_as_unknown(store: Fragile, path: Path) -> None:
    """Entries that do not follow from each other are damage too, never an error that hides the other commits."""
    opened(store).append(ROWS)
    dies_while_sending(store, FileJournal(path), 2, commit_user="broken", identifier=1)
    whole = lines_of(path)
    missing = next(i for i, line in enumerate(whole) if b"ChangesCollected" in line)
    path.write_bytes(b"\n".join([*whole[:missing], *whole[missing + 1 :]]) + b"\n")
    dies_while_sending(store, FileJournal(path), 2, commit_user="whole", identifier=1)
    found = recovered(lambda: FileJournal(path), store)
    assert {c.commit_user: c.outcome for c in found.commits} == {"broken": "unknown", "whole": "finished"}
    assert "does not know" in only_unknown(found).reason


def only_unknown(found: ll.Recovery) -> Any:
    (commit,) = found.unknown
    return commit


def test_an_outcome_recorded_after_a_damaged_line_is_reported(store: Fragile, path: Path) -> None:
    """The process that found it out had the table, and its entry is final."""
    opened(store).append(ROWS)
    dies_while_sending(store, FileJournal(path), 2)
    whole = len(lines_of(path))
    assert only(recovered(lambda: FileJournal(path), store)).outcome == "finished"
    lines = lines_of(path)
    path.write_bytes(b"\n".join([*lines[:whole], DAMAGED, *lines[whole:]]) + b"\n")
    commit = only(recovered(lambda: FileJournal(path), store))
    assert (commit.outcome, commit.known) == ("landed", True)


def test_a_damaged_object_concerns_its_own_commit_alone(store: Fragile) -> None:
    opened(store).append(ROWS)
    dies_while_sending(store, ObjectJournal(store), 2, commit_user="broken", identifier=1)
    (key,) = names(store, FOLDER)
    lines = store.get(key).split(b"\n")
    store.put(key, b"\n".join([*lines[:-1], DAMAGED]))
    dies_while_sending(store, ObjectJournal(store), 2, commit_user="whole", identifier=1)
    found = recovered(lambda: ObjectJournal(store), store)
    assert {c.commit_user: c.outcome for c in found.commits} == {"broken": "unknown", "whole": "finished"}
    assert found.damaged[0].startswith(f"{key}: line {len(lines)} ")
    assert store.get(key).endswith(DAMAGED), "a file that cannot be read is not deleted"
    with pytest.raises(TableCorrupt, match=f"{key}: line {len(lines)}"):
        ObjectJournal(store).entries()


def test_the_command_line_names_the_damaged_line(tmp_path: Path, path: Path, capsys: Any) -> None:
    from lakelatch.cli.main import main

    ll.create_table(str(tmp_path / "t"), ROWS.schema, journal=str(path)).append(ROWS)
    with path.open("ab") as file:
        file.write(DAMAGED + b"\n")
    number = path.read_bytes().split(b"\n").index(DAMAGED) + 1
    assert main(["recover", str(path)]) == 4
    assert f"line {number} is not a journal entry" in capsys.readouterr().err


@pytest.mark.parametrize("records_names", [True, False])
def test_files_of_an_older_versions_commit_are_not_deleted(store: Fragile, path: Path, records_names: bool) -> None:
    """G5, H20: its journal does not record which files a snapshot references that may have been sent."""
    opened(store).append(ROWS)
    table = opened(store, FileJournal(path))
    dying_in_the_second_attempt(table)
    store.before["create snapshot/snapshot-2"] = lambda: opened(store).append(ROWS) and None
    before = set(names(store, "manifest/"))
    with pytest.raises(Died):
        table.append(ROWS)
    since = set(names(store, "manifest/")) - before
    if not records_names:
        raw = [json.loads(line) for line in lines_of(path)]
        assert any(line.pop("names", None) for line in raw), "the present version does record them"
        path.write_text("".join(f"{json.dumps(line)}\n" for line in raw))
    commit = only(recovered(lambda: FileJournal(path), store))
    assert commit.outcome == "not landed"
    assert bool(commit.cleaned) == records_names
    assert set(commit.cleaned) < since
    assert not [f for f in opened(store).verify("all") if f.severity == "error"]


@pytest.mark.parametrize(
    "line", [b"[1]", b"7", b'"text"', b'{"event": ["CommitRequested"]}', b'{"event": "CommitRequested"}']
)
def test_a_json_line_that_is_not_an_entry_is_damage(line: bytes) -> None:
    (found,) = read_lines([b"", line, b"  "], "journal")
    assert isinstance(found, Damage)
    assert found.where == "journal: line 2"
