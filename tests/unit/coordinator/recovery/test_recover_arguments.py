"""What a caller of `recover` can ask for: which journals, whether files are deleted, which commits."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fragile import ROWS, Died, die

import lakelatch as ll
from lakelatch.backends.local import LocalStore
from lakelatch.coordinator.journal.lines import Entry
from lakelatch.coordinator.journal.object_journal import FOLDER, ObjectJournal
from lakelatch.coordinator.protocol import events as ev
from lakelatch.core.errors import StoreUnavailable, TableNotFound
from lakelatch.core.metadata.table_identity import identity_of
from lakelatch.table.table import Table


def files(url: Path) -> set[str]:
    return {path.name for path in (url / "manifest").iterdir()}


def append_and_die(table: Table) -> None:
    """A commit whose writer dies after its metadata is written and before its snapshot is sent."""
    make = table.committer._run

    def made(*args: Any, **kwargs: Any) -> Any:
        run = make(*args, **kwargs)
        run.prepare_snapshot = lambda effect: die()
        return run

    table.committer._run = made  # type: ignore[method-assign]
    with pytest.raises(Died):
        table.append(ROWS)


@pytest.fixture
def url(tmp_path: Path) -> Path:
    """A table that names a journal file, and has one commit."""
    made = tmp_path / "table"
    options = {"commit.journal": str(tmp_path / "journal")}
    ll.allow(made, tmp_path / "journal")
    ll.create_table(str(made), ROWS.schema, options=options).append(ROWS)
    return made


def test_files_of_lost_commits_are_left_where_the_caller_wants_to_see_them(url: Path) -> None:
    before = files(url)
    append_and_die(ll.open_table(str(url)))
    written = files(url) - before
    assert written
    *_, kept = ll.recover(str(url), writers_are_gone=True, clean=False).commits
    assert (kept.outcome, kept.cleaned) == ("not landed", ())
    assert files(url) == before | written


def test_files_of_lost_commits_are_deleted_otherwise(url: Path) -> None:
    before = files(url)
    append_and_die(ll.open_table(str(url)))
    *_, cleaned = ll.recover(str(url), writers_are_gone=True).commits
    assert cleaned.outcome == "not landed"
    assert cleaned.cleaned
    assert files(url) == before


def test_a_journal_file_of_another_machine_is_left_out(url: Path, tmp_path: Path) -> None:
    """The option names a path that this machine does not have: the journal beside the table is read all the same."""
    append_and_die(ll.open_table(str(url)))
    (tmp_path / "journal").unlink()
    assert ll.recover(str(url), writers_are_gone=True).commits == ()
    assert not (tmp_path / "journal").exists(), "recovery makes no journal"


def test_only_the_commits_that_are_asked_for_are_looked_up(url: Path) -> None:
    append_and_die(ll.open_table(str(url)))
    before = files(url)
    assert ll.recover(str(url), writers_are_gone=True, only=lambda commit: False).commits == ()
    assert files(url) == before
    assert ll.open_table(str(url)).to_arrow().equals(pa.table(ROWS))


def test_files_that_the_store_does_not_delete_are_not_reported(url: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The outcome is known all the same, and orphan cleaning finds the files later."""
    append_and_die(ll.open_table(str(url)))
    before = files(url)

    def refused(self: LocalStore, keys: object) -> None:
        raise StoreUnavailable("the disk is read-only")

    with monkeypatch.context() as broken:
        broken.setattr(LocalStore, "delete_many", refused)
        *_, lost = ll.recover(str(url), writers_are_gone=True).commits
    assert (lost.outcome, lost.cleaned) == ("not landed", ())
    assert files(url) == before


def test_a_journal_is_asked_for_the_one_table_that_was_renamed_since(tmp_path: Path) -> None:
    """Without its new URL its commits are left alone; with it, those of other tables are left out."""
    old, new, other, path = (tmp_path / name for name in ("old", "new", "other", "journal"))
    for url in (old, other):
        ll.create_table(str(url), ROWS.schema, options={"commit.journal": str(path)})
        ll.allow(url, path)
        ll.open_table(str(url)).append(ROWS)
        append_and_die(ll.open_table(str(url)))
    shutil.move(old, new)
    lost = [commit for commit in ll.recover(path, writers_are_gone=True, dry_run=True).commits if not commit.known]
    assert {commit.table: commit.outcome for commit in lost} == {str(old): "unknown", str(other): "not landed"}
    assert "there is no table at" in lost[0].reason
    for where in (str(new), new):
        found = ll.recover(path, table=where, writers_are_gone=True, dry_run=True).commits
        assert [(commit.outcome, commit.table) for commit in found if not commit.known] == [("not landed", str(new))]
        assert all(commit.table in (str(new), str(old)) for commit in found)
    before, others = files(new), files(other)
    (done,) = (one for one in ll.recover(path, table=new, writers_are_gone=True).commits if not one.known)
    assert (done.outcome, done.table) == ("not landed", str(new))
    assert files(new) < before and files(other) == others


def test_a_journal_beside_a_table_is_asked_for_that_table_or_for_the_one_that_is_named(tmp_path: Path) -> None:
    here, other = tmp_path / "here", tmp_path / "other"
    for url in (here, other):
        ll.create_table(str(url), ROWS.schema)
    store = LocalStore(str(here))
    asked = ev.CommitRequested("etl", 7, "APPEND", False)
    line = Entry("beside", str(tmp_path / "old"), 0, asked, table_id=identity_of(store.get("schema/schema-0")))
    store.put(f"{FOLDER}beside-1.jsonl", json.dumps(line.to_json()).encode())
    journal = ObjectJournal(store)
    for more in ({}, {"table": str(here)}):
        (found,) = ll.recover(journal, writers_are_gone=True, dry_run=True, **more).commits
        assert (found.commit, found.outcome, found.table) == ("beside", "not landed", str(here))
    (left,) = ll.recover(journal, table=other, writers_are_gone=True, dry_run=True).commits
    assert (left.outcome, left.table) == ("unknown", str(tmp_path / "old"))
    assert left.reason == f"left alone: it was made in another table, at {tmp_path / 'old'}: recover that one"


def test_where_there_is_neither_a_table_nor_a_journal_that_is_said(tmp_path: Path) -> None:
    for url in (tmp_path / "nothing", str(tmp_path / "nothing"), "memory://recover-arguments-nothing/t"):
        with pytest.raises(TableNotFound) as raised:
            ll.recover(url)
        assert raised.value.message == f"there is neither a table nor a journal at {url}"
